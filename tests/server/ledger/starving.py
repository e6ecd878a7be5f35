"""SQLite without memory: every allocation of an operation fails in turn.

Theory of operation
-------------------
`PRAGMA hard_heap_limit` makes SQLite's allocations fail beyond a size, and Python raises `MemoryError`. A process can
only lower the limit. So this module, run as a program, forks for each trial: the child opens a copy of the ledger,
lowers the limit, tries the operation, tries it again, and says what it was told; what is stored is judged when it is
gone.

The smallest limit under which all goes well is found by halving; from there the limits go down in steps of the
smallest size that SQLite allocates, until the first allocation of the operation fails.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from askance_server.ledger import base
from askance_server.ledger.base import Ledger, LedgerError
from askance_server.ledger.memory import MemoryLedger
from askance_server.ledger.sqlite import SqliteLedger
from askance_server.ledger.sqlite import ledger as sqlite
from tests.server.ledger.faults import (
    OPERATIONS,
    CatchesItsOwnErrorsOnly,
    Operation,
    Snapshot,
    prepare,
    read_once,
    snapshot,
    told,
)

TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"
STEP: Final = 8 if TORTURE else 128
"""Bytes between two limits."""
LARGEST: Final = 1 << 26
KINDS: Final = {kind.__name__: kind for kind in (SqliteLedger, CatchesItsOwnErrorsOnly)}


@dataclass
class Starved:
    """The result of all trials of an operation."""

    wrong: list[str] = field(default_factory=list[str])
    refused: int = 0
    """How many limits stopped the ledger."""
    answered: int = 0
    """How many it lived with."""


def starve(directory: Path, kind: type[SqliteLedger], *operations: str) -> dict[str, Starved]:
    """Carry out operations under every limit, in a program of its own."""
    run = subprocess.run(
        [sys.executable, "-m", __name__, str(directory), kind.__name__, *operations],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return {name: Starved(**found) for name, found in json.loads(run.stdout).items()}


# ------------------------------------------------------------------------------------------------------- the program


@dataclass
class Answers:
    """What a child was told."""

    first: str
    """The answer, or the class of the error."""
    acknowledged: bool
    retry: str
    stopped: bool
    """Whether the retry was refused because the ledger has stopped."""


@dataclass
class Sweep:
    """Trials of one operation."""

    directory: Path
    operation: Operation
    kind: type[SqliteLedger]
    before: Snapshot
    after: Snapshot
    expected: object
    found: Starved = field(default_factory=Starved)

    @property
    def template(self) -> Path:
        """The ledger that each child gets a copy of."""
        return self.directory.with_name("template")

    def run(self) -> None:
        """Trials under every limit from that which is enough downwards."""
        low, enough = 0, LARGEST
        while enough - low > STEP:
            middle = (low + enough) // 2
            low, enough = (low, middle) if self.trial(middle).acknowledged else (middle, enough)
        nothing = self.trial(1).first
        limit, alike = enough, 0
        # Where the first allocation of all fails, smaller limits change nothing.
        while alike < 1024 // STEP and limit > STEP and not self.found.wrong:
            limit -= STEP
            answers = self.trial(limit)
            alike = alike + 1 if answers.first == nothing and not self.reached else 0

    def trial(self, limit: int) -> Answers:
        """One child under this limit."""
        shutil.rmtree(self.directory, ignore_errors=True)
        shutil.copytree(self.template, self.directory)
        answers = in_child(lambda: self._child(limit))
        self.found.wrong += [f"with {limit} bytes: {fault}" for fault in self._judge(answers)]
        return answers

    @property
    def reached(self) -> bool:
        """Whether the child came as far as its write-ahead log."""
        log = self.directory / "ledger.sqlite-wal"
        return log.exists() and log.stat().st_size > 0

    def _child(self, limit: int) -> Answers:
        ledger: Any = self.kind.open(self.directory)
        snapshot(ledger)  # Whatever is loaded at its first use is.
        with suppress(MemoryError):
            ledger._db.execute(f"PRAGMA hard_heap_limit = {limit}").fetchall()
        first = told(lambda: self.operation.run(ledger, 0))
        retry = told(lambda: self.operation.run(ledger, 0)) if self.operation.again else None
        if isinstance(first, BaseException) and not self.operation.again:
            retry = told(lambda: self.operation.run(ledger, 0))
        return Answers(repr(first), not isinstance(first, BaseException), repr(retry), isinstance(retry, LedgerError))

    def _judge(self, answers: Answers) -> Iterator[str]:
        with closing(SqliteLedger.open(self.directory)) as ledger:
            stored = snapshot(ledger) == self.after
            if not stored and snapshot(ledger) != self.before:
                yield "what is stored is neither before nor after"
            if answers.acknowledged:
                self.found.answered += 1
                if not stored:
                    yield "what was acknowledged is not stored"
                return
            self.found.refused += 1
            if not answers.stopped:
                yield f"{'stored' if stored else 'not stored'}, and a retry is told {answers.retry}"
            again = told(lambda: self._again(ledger, stored=stored))
            if snapshot(ledger) != self.after:
                yield f"a retry of the ledger that was opened again is told {again!r}"
            yield from (f"{fault.where}: {fault.what}" for fault in ledger.verify())

    def _again(self, ledger: Ledger, *, stored: bool) -> object:
        return None if stored and not self.operation.again else self.operation.run(ledger, 0)


def in_child(work: Callable[[], Answers]) -> Answers:
    """Carry this out in a child, which is gone afterwards as if it had been killed."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(write, json.dumps(asdict(work())).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answers = Answers(**json.loads(pipe.read()))
    os.waitpid(pid, 0)
    return answers


def sweep(directory: Path, kind: type[SqliteLedger], operation: Operation) -> Starved:
    """All trials of one operation."""
    model, template = MemoryLedger(), directory.with_name("template")
    shutil.rmtree(template, ignore_errors=True)
    with closing(SqliteLedger.open(template)) as ledger:
        for each in (model, ledger):
            prepare(each)
            operation.before(each, 0)
    before, expected = snapshot(model), operation.run(model, 0)
    trials = Sweep(directory, operation, kind, before, snapshot(model), expected)
    trials.run()
    return trials.found


def program(directory: str, kind: str, *operations: str) -> None:
    """Sweep, and print what was found."""
    sqlite.CHECKPOINT_AFTER = 1  # type: ignore[misc]
    base.read_entry = read_once
    gc.freeze()  # Else each child would copy what it never changes.
    found = {name: asdict(sweep(Path(directory), KINDS[kind], OPERATIONS[name])) for name in operations}
    print(json.dumps(found))


if __name__ == "__main__":
    program(*sys.argv[1:])
