"""The power is cut while the embedded ledger writes: what was acknowledged is on the disk, and the disk is a ledger.

Theory of operation
-------------------
*A life* is a script of operations (`tests.server.ledger.faults`), carried out by a child whose system calls are
recorded (`tests.harness.power`); it says when it begins an operation and when it was acknowledged. The record is then
cut at any event, and what the disk may hold is opened: it has to be what a `MemoryLedger` is after the operations that
were acknowledged, or after the one that was under way as well, and the ledger's own audit finds nothing. The next life
begins with the disk that one of the cuts has left.

*A server's life* is the whole service in the child, asked by HTTP: `judge` of `crashing` compares what it answered with
what the disk holds, and the key that signs its tokens has to be there.

*Twins* acknowledge what is not synced, or count a commit before it is made; a disk may lie as well, and say that it has
synced what it has not.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from askance_protocol.rounds import Bulletin, StudyPublished
from askance_server import durable
from askance_server.auth import KEY_FILE, Keys, files, open_keys, read_key
from askance_server.ledger import sqlite as sqlite_package
from askance_server.ledger.base import Ledger, LedgerError
from askance_server.ledger.memory import MemoryLedger
from askance_server.ledger.sqlite import SqliteLedger
from askance_server.ledger.sqlite import ledger as sqlite
from tests.harness.power import Cut, Record, Say, Synced, lay_out, record
from tests.harness.servers import Service
from tests.server.ledger.crashing import AcknowledgesEarly, Evidence, judge
from tests.server.ledger.faults import CAP, ID, OPERATIONS, STUDY, USERS, Told, charge

Step = tuple[str, int]

REOPEN: Final = "a restart"
STEPS: Final[dict[str, Callable[[Ledger, int], Told]]] = {
    "the first users": lambda ledger, _: ledger.enrol(USERS, CAP),
    "the study": lambda ledger, _: ledger.append(ID, Bulletin().next(StudyPublished(study=STUDY))),
    "a late report": lambda ledger, step: charge(ledger, 1, (1_500 + step % 400, 0)),
    **{name: operation.run for name, operation in OPERATIONS.items()},
}
BEGINNING: Final[list[Step]] = [("the first users", 0), ("the study", 0), ("a publication", 0), ("a publication", 0)]
RECORDED: Final = ("a report", "a group", "a late report")


def script(length: int, dice: random.Random, first: int) -> list[Step]:
    """Operations as they come: reports above all. Steps are numbered from `first` on."""
    steps: list[Step] = []
    while len(steps) < length:
        number = first + len(steps)
        name = dice.choice((*OPERATIONS, *RECORDED * 3, REOPEN))
        if name == "a closing":
            steps.append(("a publication", number))
        steps.append((name, number))
    return steps


def state(ledger: Ledger) -> list[object]:
    """Everything that a script can change, as the ledger tells it."""
    users, studies = ledger.enrolled(), ledger.studies()
    rounds = [id_ for study in studies for id_, _ in ledger.bulletin(study).rounds]
    return [
        users,
        studies,
        [ledger.affording(range(users), cost).tobytes() for cost in (1, CAP // 2 + 1, CAP + 9)],
        [ledger.epoch(user) for user in range(min(users, 3))],
        [entry.digest() for study in studies for entry in ledger.entries(study)],
        [(id_, ledger.state(id_), ledger.received(id_)) for id_ in rounds],
        [ledger.tallies(id_)[0].to_rows() for id_ in rounds[:2]],
    ]


def carry_out(ledger: Ledger, step: Step) -> Told:
    """One operation."""
    name, number = step
    return STEPS[name](ledger, number)


# --------------------------------------------------------------------------------------------------------------- twins


class SyncsLater(SqliteLedger):
    """Leaves it to the operating system when a commit reaches the disk, as `synchronous = NORMAL` does."""

    @classmethod
    def open(cls, directory: Path) -> SqliteLedger:
        ledger = super().open(directory)
        ledger._db.execute("PRAGMA synchronous = NORMAL")
        return ledger


class CountsFirst(SqliteLedger):
    """Counts a commit before it is made."""

    @contextmanager
    def _commit(self) -> Generator[sqlite3.Connection]:
        if self._count is not None:
            self._count.write(self._seals.commits + 1)
        with super()._commit() as db:
            yield db


TWINS: Final = {kind.__name__: kind for kind in (SqliteLedger, AcknowledgesEarly, SyncsLater, CountsFirst)}


# --------------------------------------------------------------------------------------------------------- the program


def live(root: Path, kind: type[SqliteLedger], steps: list[Step], pages: int, say: Say) -> None:
    """In the child: carry out the script, and say what is acknowledged."""
    sqlite.CHECKPOINT_AFTER = 20  # type: ignore[misc]

    def opened() -> SqliteLedger:
        ledger = kind.open(root / "data")
        # Else no life is long enough for SQLite to copy its log into the file.
        ledger._db.execute(f"PRAGMA wal_autocheckpoint = {pages}")
        return ledger

    ledger = opened()
    for step in steps:
        say("begin")
        if step[0] == REOPEN:
            ledger.close()
            ledger = opened()
        else:
            carry_out(ledger, step)
        say("done")


def serve(root: Path, kind: str, users: int, say: Say) -> None:
    """In the child: a new data directory, and reports to the service in it, a group after the other."""
    if kind == "ForgetsNames":
        files.sync_names = lambda directory: None  # type: ignore[misc]
        durable.sync_names = lambda directory: None  # type: ignore[misc]
    if kind == "AcknowledgesEarly":
        sqlite_package.SqliteLedger = AcknowledgesEarly  # type: ignore[misc]
    tell: Callable[..., None] = lambda *told: say(json.dumps(told))  # noqa: E731 - short
    dice = random.Random(users)
    with Service(root / "data", cap=CAP) as api:
        tell("key", api.keys.fingerprint)
        for first in range(0, users, 40):
            tokens = api.enrol(40)
            tell("enrolled", first + 40)
            study = api.study()
            tell("study", study["id"])
            round_ = study["rounds"][0]["id"]
            for begin in range(0, 40, 8):
                group = [(first + place, dice.randrange(2)) for place in range(begin, begin + 8)]
                for user, outcome in group:
                    tell("sent", round_, user, outcome)
                asked = [
                    ("POST", f"/v1/rounds/{round_}/reports", tokens[user - first], {"json": {"outcome": outcome}})
                    for user, outcome in group
                ]
                for (user, outcome), answer in zip(group, api.together(asked), strict=True):
                    assert answer.status_code == 200, answer.text
                    tell("acknowledged", round_, user, outcome)
            # The first one is closed already: everybody has answered.
            assert api.post(f"/v1/rounds/{round_}/close", token=api.operator).status_code in {200, 204, 409}


def keep_key(root: Path, kind: str, _: int, say: Say) -> None:
    """In the child: a new data directory as it is beside PostgreSQL, with no ledger in it."""
    if kind == "ForgetsNames":
        files.sync_names = lambda directory: None  # type: ignore[misc]
    if kind == "ForgetsDirectories":
        durable.sync_names = lambda directory: None  # type: ignore[misc]
    say(json.dumps(("key", open_keys(root / "data").fingerprint)))


def keep_key_in_a_made_directory(root: Path, kind: str, number: int, say: Say) -> None:
    """In the child: the same, in a directory that a shell has made a moment ago."""
    (root / "data").mkdir(mode=0o700)
    keep_key(root, kind, number, say)


SERVICES: Final = {"service": serve, "key": keep_key, "made": keep_key_in_a_made_directory}


def program() -> None:
    """Record a life for each line of standard input, and write the record to a file."""
    for line in sys.stdin:
        life, root, kind, number, steps, target = json.loads(line)
        work = partial(SERVICES[life], Path(root), kind, number) if life in SERVICES else None
        if work is None:
            work = partial(live, Path(root), TWINS[kind], [(name, at) for name, at in steps], number)
        Path(target).write_bytes(pickle.dumps(record(Path(root), work)))
        print(flush=True)


@dataclass(frozen=True, slots=True)
class Recorder:
    """The program at work: it loads everything once."""

    process: subprocess.Popen[str]

    @classmethod
    @contextmanager
    def open(cls) -> Generator[Recorder]:
        """Start it; at the end it is gone."""
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=pipe, stdout=pipe, text=True, env=environment
        ) as process:
            yield cls(process)
            assert process.stdin is not None
            process.stdin.close()

    def record(self, life: str, disk: Path, kind: str, number: int, steps: list[Step] | None = None) -> Record:
        """The record of a life."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        target = disk.with_name("record")
        print(json.dumps((life, str(disk), kind, number, steps, str(target))), file=self.process.stdin, flush=True)
        assert self.process.stdout.readline(), "the recorder is gone"
        found: Record = pickle.loads(target.read_bytes())
        assert found.exit == 0, "a life has ended by itself"
        return found


# ---------------------------------------------------------------------------------------------------------- in the test


def any_cut(found: Record, dice: random.Random) -> Cut:
    """Anywhere in a record; often nothing is kept that was not synced."""
    return Cut(dice.randint(0, len(found.events)), dice.choice((0, 0, 0.1, 0.5, 0.9, 1)), dice.getrandbits(32))


def fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@dataclass
class ServiceCuts:
    """Cuts of one life of a service, or of a directory of keys."""

    cuts: int = 0
    inside: int = 0
    """Cuts while a report was sent and not yet answered."""
    acknowledged: int = 0
    wrong: list[str] = field(default_factory=list[str])


def cut_service(
    recorder: Recorder, folder: Path, life: str, kind: str, users: int, cuts: int, seed: int
) -> ServiceCuts:
    """Cut the power of a server at so many places of its life."""
    dice, result = random.Random(seed), ServiceCuts()
    found = recorder.record(life, fresh(folder / "disk"), kind, users)
    for _ in range(cuts):
        cut = any_cut(found, dice)
        after = fresh(folder / "after")
        lay_out(found, cut, after)
        evidence, keys = Evidence(), []
        for what, *told in map(json.loads, found.said(cut.at)):
            match what:
                case "key":
                    keys: list[str] = told
                case "enrolled":
                    evidence.enrolled = told[0]
                case "study":
                    evidence.studies.append(told[0])
                case "sent":
                    evidence.sends(*told)
                case _:
                    round_, user, outcome = told
                    evidence.hears(round_, user, outcome, "accepted")
        result.cuts += 1
        result.inside += len(evidence.sent) > len(evidence.acknowledged)
        result.acknowledged += len(evidence.acknowledged)
        wrong = judge(str(after / "data"), evidence) if life == "service" else []
        kept = after / "data" / KEY_FILE
        if keys and keys != [Keys(read_key(kept)).fingerprint if kept.exists() else ""]:
            wrong.append("the key is gone that signs the tokens")
        result.wrong += [f"{cut}: {fault}" for fault in wrong]
    return result


@dataclass
class Lives:
    """One life after the other in a folder, each cut off by the power."""

    recorder: Recorder
    folder: Path
    dice: random.Random
    kind: type[SqliteLedger] = SqliteLedger
    lies: bool = False
    """Whether the disk says that it has synced what it has not."""
    history: list[Step] = field(default_factory=list[Step])
    cuts: int = 0
    inside: int = 0
    """Cuts while an operation was under way."""
    acknowledged: int = 0
    """Operations that were acknowledged before a cut, over all cuts."""
    wrong: list[str] = field(default_factory=list[str])

    def run(self, lives: int, length: int, cuts: int) -> Lives:
        """So many lives of so many operations, each cut off at so many places."""
        disk = fresh(self.folder / "disk")
        for number in range(lives):
            # The life before may have been cut off before it had begun.
            steps = [*BEGINNING[len(self.history) :], *script(length, self.dice, first=number * length)]
            found = self._record(disk, steps)
            states = self._states(steps)
            left = [self._cut(found, steps, states) for _ in range(cuts)][-1]
            if self.wrong:
                break
            shutil.rmtree(disk)
            (self.folder / "after").rename(disk)
            self.history += steps[:left]
        return self

    def _record(self, disk: Path, steps: list[Step]) -> Record:
        found = self.recorder.record("ledger", disk, self.kind.__name__, self.dice.choice((10, 30, 1_000)), steps)
        if self.lies:
            found.events = [event for event in found.events if not isinstance(event, Synced)]
        return found

    def _states(self, steps: list[Step]) -> list[list[object]]:
        model = MemoryLedger()
        for step in self.history:
            if step[0] != REOPEN:
                carry_out(model, step)
        states = [state(model)]
        for step in steps:
            if step[0] != REOPEN:
                carry_out(model, step)
            states.append(state(model))
        return states

    def _cut(self, found: Record, steps: list[Step], states: list[list[object]]) -> int:
        """One cut; the number of operations that the disk holds after it."""
        cut = any_cut(found, self.dice)
        after = fresh(self.folder / "after")
        lay_out(found, cut, after)
        said = found.said(cut.at)
        begun, done = said.count("begin"), said.count("done")
        self.cuts += 1
        self.inside += begun > done
        self.acknowledged += done
        faults, holds = [], done
        try:
            with closing(SqliteLedger.open(after / "data")) as ledger:
                now = state(ledger)
                holds = next((number for number in (done, begun) if states[number] == now), -1)
                if holds < 0:
                    faults.append(self._difference(now, states[done]))
                faults += [f"{fault.where}: {fault.what}" for fault in ledger.verify()]
                if holds == done < begun and steps[done][0] != REOPEN:
                    carry_out(ledger, steps[done])
                    if state(ledger) != states[begun]:
                        faults.append("what was under way, tried again, does not lead to what comes after it")
        except LedgerError as error:
            faults.append(f"it does not open: {error}")
        self.wrong += [f"{cut}, {done} acknowledged, {begun} begun: {fault}" for fault in faults]
        return begun if holds == done < begun and steps[done][0] != REOPEN else holds

    def _difference(self, now: list[object], expected: list[object]) -> str:
        for one, other in zip(now, expected, strict=True):
            if one != other:
                return f"acknowledged and lost, or in part: the disk says {str(one)[:100]} for {str(other)[:100]}"
        return ""


if __name__ == "__main__":
    program()
