"""A real server whose disk becomes full while clients report, and what has to be true of it and of its ledger then.

Theory of operation
-------------------
*Servers.* This module, run as a program, forks for each start (`tests.harness.kills`): the child runs `askance serve`
as it is, with its log and its exit code. It listens on a socket that the test keeps, so that clients wait for the next.

*Full.* There is no disk here that anybody may fill, so a server finds it full in one of two ways, under any user and on
any machine. From outside its process is given a limit on the size of files: writes fail as those to a full disk do, at
any place, in whole or after a part, and it is the operating system that refuses (EFBIG for ENOSPC). Or SQLite is given
a limit on the pages of its file, and says what it says of a full disk (SQLITE_FULL), inside of a transaction. A third
server writes its log to /dev/full as well, and a fourth is started while there is no space yet.

*Space again.* The next start has no limit. Clients send again what was not acknowledged.

*Evidence.* That of `crashing`, what somebody hears who asks for /healthz and /readyz all the time, and how servers end.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import socket
import sqlite3
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from askance_lab.cli import main
from askance_lab.commands import serve as command
from askance_server.ledger import sqlite
from askance_server.ledger.sqlite import FILE, SqliteLedger
from tests.harness.kills import Deck, ForkServer, ended, serve_forks, until
from tests.harness.marks import Marks
from tests.harness.wire import Connection, LostError
from tests.server.ledger.crashing import (
    CONNECTIONS,
    AcknowledgesEarly,
    Crowd,
    Evidence,
    answer_of,
    listening,
    storm,
)
from tests.server.ledger.faults import SwallowsItsErrors

LEAST: Final = 4096
"""Bytes that a file may always have: a page of the ledger, and more than a server's log."""
ENOUGH: Final = 1_000
"""Reports that are heard from a server with too little space: it is left with none then. One that answers so many even
then takes no notice.
"""
WAYS: Final = ("bytes", "pages", "bytes", "log", "start")
KINDS: Final = {kind.__name__: kind for kind in (SqliteLedger, AcknowledgesEarly, SwallowsItsErrors)}
UNLIMITED: Final = -1

# ------------------------------------------------------------------------------------------------------ the program


def filled(kind: type[SqliteLedger], marks: Marks, pages: int) -> type[SqliteLedger]:
    """The embedded ledger, whose file has no room once the mark is set; so many pages of its log are copied to it."""

    class Filled(kind):
        @classmethod
        def open(cls, directory: Path) -> SqliteLedger:
            ledger = super().open(directory)
            ledger._db.execute(f"PRAGMA wal_autocheckpoint = {pages}")
            return ledger

        @contextmanager
        def _commit(self) -> Generator[sqlite3.Connection]:
            if marks[0]:
                self._db.execute("PRAGMA max_page_count = 1")  # As many as it has.
            with super()._commit() as db:
                yield db

    return Filled


def serve(folder: Path, kind: str, listener: int, order: str) -> None:
    """In the child: `askance serve`, until it ends by itself."""
    life, way, limit, pages = order.split()
    said = os.open(log_of(folder, int(life)), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(said, 1)
    os.dup2(os.open("/dev/full", os.O_WRONLY) if way == "log" else said, 2)
    sqlite.SqliteLedger = filled(KINDS[kind], marks_of(folder), int(pages))  # type: ignore[misc]
    command.bind = lambda host, port: socket.socket(fileno=listener)  # type: ignore[misc]
    if int(limit) != UNLIMITED:
        limit_files(0, int(limit))
    for name in [name for name in os.environ if name.startswith("ASKANCE_")]:
        del os.environ[name]
    sys.argv = ["askance", "serve", "--database", str(folder / "data"), "--cap", "2", "--port", "0", "--json"]
    try:
        main()
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)


def limit_files(pid: int, most: int) -> None:
    """No file of a process grows beyond this size from now on."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, hard))


def marks_of(folder: Path) -> Marks:
    """Whether SQLite is to find the disk full."""
    return Marks(folder / "marks", 1)


def log_of(folder: Path, life: int) -> Path:
    """What a server says."""
    return folder / f"life-{life}.log"


# ---------------------------------------------------------------------------------------------------------- clients


@dataclass
class WatchedCrowd(Crowd):
    """And one who asks all the time whether the server lives, and whether it is ready."""

    watched: Counter[str] = field(default_factory=Counter[str])

    def run(self) -> list[asyncio.Task[None]]:
        return [*super().run(), asyncio.create_task(self.watch())]

    async def watch(self) -> None:
        """A live server says so; one that is not ready says so by a problem document."""
        client = Connection(self.ports[0])
        try:
            while True:
                for path in ("/healthz", "/readyz"):
                    with suppress(LostError):
                        status, body = await client.get(path)
                        answer = "yes" if status == 200 else answer_of(status, body)
                        self.watched[f"{path} {answer}"] += 1
                await asyncio.sleep(0.01)
        finally:
            await client.close()


# --------------------------------------------------------------------------------------------------------- campaigns


@dataclass(frozen=True, slots=True)
class End:
    """How a server ended whose disk was full."""

    way: str
    code: int | None
    """None: it never did, and was killed."""
    served: bool
    """Whether it had begun to."""
    lines: list[str]
    """What it said, but for its address."""

    def wrong(self) -> Iterator[str]:
        """One that served ends with 1, and tells the cause and that it had to stop; one that did not, in one line."""
        if self.code is None:
            yield "it takes no notice"
        if any("Traceback" in line or "should not be" in line for line in self.lines):
            yield "an error that nobody has foreseen"
        if not self.served:
            if self.code not in {1, 2, 3} or [line.startswith("askance: ") for line in self.lines] != [True]:
                yield f"it ends with {self.code}, and not in one line"
            return
        if self.code not in {1, None}:
            yield f"it ends with {self.code}"
        if self.way != "log":
            causes = [line for line in self.lines if '"critical"' in line]
            if [("cannot be written" in line, "Free some space" in line) for line in causes] != [(True, True)]:
                yield f"it tells {len(causes)} causes"
            if not self.lines or "the server had to stop" not in self.lines[-1]:
                yield "it does not say that it had to stop"


@dataclass
class Filler:
    """Fills the disk of one server after the other."""

    forks: ForkServer
    folder: Path
    marks: Marks
    crowd: WatchedCrowd
    random: random.Random
    ends: list[End] = field(default_factory=list[End])
    lives: int = 0
    starts: int = 0

    async def run(self, fillings: int) -> None:
        """Fill the disk so many times; at the end there is space, and all is well."""
        deck = Deck(WAYS, self.random)
        for _ in range(fillings):
            await self._fill(deck.deal())
        await self._under_load(await self._start("space"))

    async def _start(self, way: str, limit: int = UNLIMITED) -> int:
        self.marks.clear()
        self.lives += 1
        return await self.forks.start(f"{self.lives} {way} {limit} {self.random.choice((10, 30, 1_000))}")

    async def _fill(self, way: str) -> None:
        if way == "start" and self.lives:
            # With the first of these it cannot open its ledger.
            self.starts += 1
            pid = await self._start(way, (LEAST, self._log_size, 10 * LEAST)[self.starts % 3 - 1])
        else:
            pid = await self._start(way)
            await self._under_load(pid)
            await asyncio.sleep(self.random.uniform(0, 0.05))
            if way == "pages":
                self.marks[0] = 1
            else:
                self._limit(pid, self._log_size + self.random.randrange(20_000))
        code = await self._end(pid)
        said = log_of(self.folder, self.lives).read_text().splitlines()
        lines = [line for line in said if not line.startswith('{"schema_version"')]
        self.ends.append(End(way, code, len(lines) < len(said), lines))

    @property
    def _log_size(self) -> int:
        """Bytes of the ledger's write-ahead log."""
        log = self.folder / "data" / f"{FILE}-wal"
        return max(LEAST, log.stat().st_size if log.exists() else 0)

    def _limit(self, pid: int, most: int) -> None:
        with suppress(ProcessLookupError):  # It may have ended.
            limit_files(pid, most)

    async def _end(self, pid: int) -> int | None:
        """Wait for the end of a server that has too little space, and then none; None if it goes on."""
        for left in (True, False):
            heard = self.crowd.heard[0]
            await until(
                lambda heard=heard: ended(pid) or self.crowd.heard[0] > heard + ENOUGH, "it neither ends nor answers"
            )
            if left and not ended(pid):
                self._limit(pid, LEAST)
        if ended(pid):
            return await self.forks.reap(pid)
        await self.forks.kill(pid)
        return None

    async def _under_load(self, pid: int) -> None:
        """Until clients hear answers."""
        enough = self.crowd.heard[0] + CONNECTIONS
        await until(lambda: ended(pid) or self.crowd.heard[0] > enough, "it does not answer")
        assert not ended(pid), f"it has ended with space: {log_of(self.folder, self.lives).read_text()}"


@dataclass
class Filled:
    """What was seen in a campaign."""

    evidence: Evidence
    ends: list[End]
    watched: Counter[str]


def fill(folder: Path, kind: str, fillings: int, seed: int) -> Filled:
    """Fill the disk of one server after the other under load; at the end none is left."""
    return asyncio.run(_fill(folder, kind, fillings, seed))


async def _fill(folder: Path, kind: str, fillings: int, seed: int) -> Filled:
    with listening() as listener, closing(marks_of(folder)) as marks:
        port, number = listener.getsockname()[1], listener.fileno()
        crowd = WatchedCrowd([port], folder / "data", random.Random(seed), Evidence())
        arguments = (str(folder), kind, str(number))
        async with ForkServer.open(
            "tests.server.ledger.filling", *arguments, log=folder / "program.log", pass_fds=[number]
        ) as forks:
            filler = Filler(forks, folder, marks, crowd, random.Random(seed))
            await storm(crowd, filler.run(fillings))
    return Filled(crowd.evidence, filler.ends, crowd.watched)


def program(folder: str, kind: str, listener: str) -> None:
    """Fork a server for each order: its number, the way, the limit on its files, and pages of its log."""
    serve_forks(lambda order: serve(Path(folder), kind, int(listener), order))


if __name__ == "__main__":
    program(*sys.argv[1:])
