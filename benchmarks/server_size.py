"""How long a large ledger takes to open, and how much memory its server has, beside a server of an empty ledger.

The ledger is written by its own functions: 10⁷ users, 10,000 studies of a round each, of which one asked everybody and
was answered by everybody, 1,000 are running and open with some reports, and all others have ended with some. A server
is started on it as `askance serve` does. Its start is over when `/readyz` and the first study answer and no study is
being advanced any more. Memory is `VmRSS`, looked at from outside: after the start, and once more after the whole list
of studies, accounts, and late and repeated reports of a hundred closed rounds were asked for.

Prints one JSON object, and exits 6 where a figure misses its goal. With `--planted start` the server starts ten times
while it is measured once; with `--planted memory` it keeps an array over all users for each round that it is asked
about, as it did. `--ledger DIR` is where the ledger is kept, or was by another run: to write it takes a minute.

    python benchmarks/server_size.py [--turns N] [--planted start|memory] [--small] [--ledger DIR]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from measuring import PLANTED, Figure, tell
from responsiveness import Server

from askance_protocol.reports import encode_report
from askance_protocol.rounds import (
    Bulletin,
    Cause,
    Notice,
    RoundAnswered,
    RoundPublished,
    StudyEnded,
    StudyPublished,
    StudySpec,
)
from askance_server.auth import UserToken, open_keys
from askance_server.core.study import study_of
from askance_server.driver import Driver
from askance_server.ledger import Ledger, MemoryLedger, UserKind, open_ledger
from askance_server.ledger.base import Users
from askance_server.strategies.registry import registry

START_GOAL: Final = 3.0
"""Seconds."""
FIXED: Final = 250 << 20
A_USER: Final = 8
"""Bytes of memory, and bytes more a user."""
CAP: Final = 1_000_000_000
A_BATCH: Final = 1_000_000
NOW: Final = 4_000_000_000
"""No round is over before."""
_ALL_IN_MEMORY: Final = """
import numpy
from askance_server.ledger import projections
hold, kept = projections.ProjectedLedger.received, {}
def received(self, id_):
    kept.setdefault(id_, numpy.ones(self.enrolled() // 1000, numpy.uint8))
    return hold(self, id_)
projections.ProjectedLedger.received = received
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    users: int
    studies: int
    running: int
    reports: int
    """Of each study but the one that everybody has answered."""


FULL: Final = Sizes(10_000_000, 10_000, 1_000, 200)
SMALL: Final = Sizes(100_000, 500, 50, 200)


# ----------------------------------------------------------------------------------------------------------- writing


def write(directory: Path, sizes: Sizes) -> None:
    """The ledger, by its own functions."""
    ledger = open_ledger(str(directory))
    try:
        ledger.enrol(sizes.users, CAP, UserKind.SIMULATED)
        story, rng = Story.told(sizes.users), np.random.default_rng(1)
        for number in range(sizes.studies):
            users = rng.choice(sizes.users, sizes.reports).astype(np.uint64)
            if not number:
                users = np.arange(sizes.users, dtype=np.uint64)
            story.write(ledger, number, users, ends=number < sizes.studies - sizes.running)
    finally:
        ledger.close()


@dataclass(frozen=True, slots=True)
class Story:
    """A study from its beginning to its end: what all others are copies of."""

    study: StudySpec
    published: RoundPublished
    ended: StudyEnded

    @classmethod
    def told(cls, users: int) -> Story:
        """Have one run in memory."""
        ledger, strategies = MemoryLedger(), registry()
        ledger.enrol(users, CAP, UserKind.SIMULATED)
        study = study_of(
            strategies,
            strategy="mean",
            parameters={"users": "all"},
            title="One of many",
            nonce="0" * 32,
            simulated=True,
        )
        driver = Driver(ledger, strategies)
        driver.open(study, NOW)
        [(round_, _)] = ledger.bulletin(study.digest()).rounds
        ledger.charge(round_, np.arange(2, dtype=np.uint64), np.arange(2, dtype=np.uint32))
        driver.close(round_)
        driver.advance(study.digest(), NOW)
        _, published, *_, ended = (entry.notice for entry in ledger.entries(study.digest()))
        assert isinstance(published, RoundPublished)  # noqa: S101 - the story is always this
        assert isinstance(ended, StudyEnded)  # noqa: S101 - likewise
        assert ended.cause is Cause.LEARNED  # noqa: S101 - likewise
        return cls(study, published, ended)

    def write(self, ledger: Ledger, number: int, users: Users, *, ends: bool) -> None:
        """A copy of it, answered by these users."""
        study = self.study.model_copy(update={"nonce": f"{number:032x}", "title": f"Number {number}"})
        id_ = study.digest()
        round_ = self.published.round.model_copy(update={"study": id_})
        bulletin = ledger.append(id_, Bulletin().next(StudyPublished(study=study)))
        bulletin = ledger.append(id_, bulletin.next(RoundPublished(round=round_)))
        for first in range(0, len(users), A_BATCH):
            some = users[first : first + A_BATCH]
            ledger.charge(round_.digest(), some, (some & np.uint64(1)).astype(np.uint32))
        if ends:
            bulletin = ledger.close_round(round_.digest(), "operator")
            tallies = [tally.to_rows() for tally in ledger.tallies(round_.digest())]
            for notice in (RoundAnswered(round=round_.digest(), tallies=_tuples(tallies)), self.ended):
                bulletin = _append(ledger, id_, bulletin, notice)


def _append(ledger: Ledger, study: str, bulletin: Bulletin, notice: Notice) -> Bulletin:
    return ledger.append(study, bulletin.next(notice))


def _tuples(tallies: Sequence[Sequence[Sequence[int]]]) -> tuple[tuple[tuple[int, ...], ...], ...]:
    return tuple(tuple(tuple(row) for row in rows) for rows in tallies)


# --------------------------------------------------------------------------------------------------------- measuring


class Measured:
    """A server on a large ledger, and one on an empty ledger, started in turns."""

    def __init__(self, large: Path, empty: Path, sizes: Sizes, planted: str | None) -> None:
        self._large, self._empty, self._sizes, self._planted = large, empty, sizes, planted
        self.seconds: dict[str, list[float]] = {"large": [], "empty": []}
        self.megabytes: dict[str, list[float]] = {}

    def turn(self) -> None:
        """Start each once."""
        server, seconds = _started(self._empty)
        self._note("empty", server)
        server.stop()
        self.seconds["empty"].append(seconds)
        times = PLANTED if self._planted == "start" else 1
        seconds = 0.0
        for time_ in range(times):
            server, took = _started(self._large, _ALL_IN_MEMORY if self._planted == "memory" else "")
            seconds += took
            if time_ < times - 1:
                server.stop()
        self.seconds["large"].append(seconds)
        try:
            self._note("started", server)
            begin = time.perf_counter()
            studies = server.ask("GET", "/v1/studies")
            print(f"the whole list took {time.perf_counter() - begin:.2f} s", file=sys.stderr)
            self._note("listed", server)
            self._late(server, studies)
            self._note("asked", server)
        finally:
            server.stop()

    def _note(self, when: str, server: Server) -> None:
        lines = Path(f"/proc/{server.process.pid}/status").read_text(encoding="ascii").splitlines()
        sizes = {name: int(rest[0]) / 1024 for name, *rest in map(str.split, lines) if name in {"VmRSS:", "VmHWM:"}}
        self.megabytes.setdefault(when, []).append(sizes["VmRSS:"])
        self.megabytes.setdefault("peak", []).append(sizes["VmHWM:"])

    def _late(self, server: Server, studies: list[Any]) -> None:
        """Reports of a round that is closed, once repeated and once late; and accounts."""
        keys = open_keys(self._large)
        begin = time.perf_counter()
        for study in studies[:: max(1, len(studies) // 100)]:
            [round_] = study["rounds"]
            for user in (7, self._sizes.users - 1):
                token = keys.mint(UserToken(user, 0))
                _posted(server, f"/v1/rounds/{round_['id']}/reports", encode_report(user & 1, 2), token)
        print(f"late reports took {time.perf_counter() - begin:.2f} s", file=sys.stderr)
        begin = time.perf_counter()
        for user in range(0, self._sizes.users, self._sizes.users // 10):
            server.ask("GET", "/v1/me", token=keys.mint(UserToken(user, 0)))
        print(f"ten accounts took {time.perf_counter() - begin:.2f} s", file=sys.stderr)


def _posted(server: Server, path: str, body: bytes, token: str) -> None:
    """A report that may be refused."""
    try:
        server.ask("POST", path, json.loads(body), token)
    except AssertionError as error:
        if " 409" not in str(error):
            raise


def _started(directory: Path, plant: str = "") -> tuple[Server, float]:
    """A server, and the seconds until it answers and has looked at all studies."""
    begin = time.perf_counter()
    server = Server(directory, str(directory), plant)
    server.ask("GET", "/readyz")
    return server, time.perf_counter() - begin


def main() -> int:
    """Write, measure, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3, help="how often the server is started")
    parser.add_argument("--planted", choices=("start", "memory"), help="a miss that has to be found")
    parser.add_argument("--small", action="store_true", help="a small ledger, for development")
    parser.add_argument("--ledger", type=Path, help="where the ledger is kept")
    given = parser.parse_args()
    sizes = SMALL if given.small else FULL
    with tempfile.TemporaryDirectory(prefix="askance-size-") as directory:
        large: Path = given.ledger or Path(directory) / "large"
        if not large.exists():
            begin = time.perf_counter()
            write(large, sizes)
            print(f"the ledger was written in {time.perf_counter() - begin:.0f} s", file=sys.stderr)
        measured = Measured(large, Path(directory) / "empty", sizes, given.planted)
        for _ in range(given.turns):
            measured.turn()
    most = (FIXED + A_USER * sizes.users) / (1 << 20)
    figures = {
        "start_seconds": Figure(tuple(measured.seconds["large"]), at_most=START_GOAL),
        "start_seconds_empty": Figure(tuple(measured.seconds["empty"])),
        "megabytes_empty": Figure(tuple(measured.megabytes["empty"])),
        "megabytes_started": Figure(tuple(measured.megabytes["started"]), at_most=most),
        "megabytes_listed": Figure(tuple(measured.megabytes["listed"]), at_most=most),
        "megabytes_asked": Figure(tuple(measured.megabytes["asked"]), at_most=most),
        "megabytes_peak": Figure(tuple(measured.megabytes["peak"])),
    }
    return tell(figures, users=sizes.users, studies=sizes.studies, running=sizes.running)


if __name__ == "__main__":
    sys.exit(main())
