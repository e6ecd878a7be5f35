"""Memory ends at any line of a report's way through the server: nobody waits for ever, and a retry is told the truth.

The ledger's own lines and SQLite's allocations are in `tests.server.ledger.test_faults`. `ASKANCE_TORTURE=1` takes
every line.
"""

from __future__ import annotations

import asyncio
import linecache
import os
import shutil
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import httpx
import pytest

import askance_server
from askance_protocol.budget import MICRO
from askance_server.group_commit import GroupCommitter
from askance_server.ledger.base import LedgerBusyError
from askance_server.ledger.sqlite import SqliteLedger
from tests.harness.figures import Figures
from tests.harness.marks import SECONDS
from tests.harness.servers import Service, bearer

TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"
EVERY: Final = 1 if TORTURE else 23
FOLDER: Final = str(Path(askance_server.__file__).parent)
USERS, BATCH, MISSES = 400, 2, 20 if TORTURE else 3

pytestmark = pytest.mark.slow


class Striking:
    """Raises `MemoryError` before the n-th line that runs in the server's folder, in whatever thread."""

    def __init__(self) -> None:
        self.left = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(FOLDER) or file.endswith("alone.py"):
            return None  # In the latter a line would be where a lock is given back, which allocates nothing.
        if event == "line" and self.left and linecache.getline(file, frame.f_lineno).strip() != "try:":
            self.left -= 1
            if not self.left:
                raise MemoryError
        return self

    def follow(self) -> None:
        """Follow the thread that calls this. Python stops to follow one in which something was raised from here."""
        sys.settrace(self)

    def follow_commits(self, committer: GroupCommitter) -> None:
        """Follow the thread that commits: it is handed nothing to commit, and looks at it."""
        looked = threading.Event()

        def nothing() -> Iterator[Any]:
            self.follow()
            looked.set()
            yield from ()

        committer._groups.put(nothing())  # type: ignore[arg-type]
        assert looked.wait(SECONDS)


@contextmanager
def striking() -> Generator[Striking]:
    """Follow threads that begin from now on."""
    strike, before = Striking(), sys.gettrace()
    threading.settrace(strike)
    try:
        yield strike
    finally:
        sys.settrace(before)
        threading.settrace(None)  # pyright: ignore[reportArgumentType] - as before


@dataclass
class Trials:
    """Reports, a fault at another line each time, and what clients were told."""

    directory: Path
    acknowledged: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    wrong: list[str] = field(default_factory=list[str])
    struck: int = 0
    stopped: int = 0
    """How often the server had to stop."""
    round: str = ""
    gateway: str = ""
    tokens: list[str] = field(default_factory=list[str])
    next: int = 0

    def run(self, every: int) -> Trials:
        """A fault at every so-manieth line of two reports and a batch, until a fault finds no line any more."""
        place = 1
        missed = 0  # One may be: a turn of the loop more or less, or a thread that is not followed any more.
        while missed < MISSES and not self.wrong:
            shutil.rmtree(self.directory, ignore_errors=True)
            with striking() as strike, Service(self.directory, raising=False, cap=MICRO) as api:
                self._begin(api)
                while self.next + 2 + BATCH <= USERS and not api.stops and missed < MISSES and not self.wrong:
                    strike.follow()
                    strike.follow_commits(api.app.state.aggregator.committer)
                    strike.left = place
                    self._trial(api, f"line {place}")
                    struck = not strike.left
                    strike.left = 0
                    self.struck += struck
                    missed = 0 if struck else missed + 1
                    if not self.wrong:
                        self._retry(api, f"line {place}")
                    place += every
                self.stopped += len(api.stops) > 0
            self._judge()
        return self

    def _begin(self, api: Service) -> None:
        self.tokens, self.next, self.acknowledged = api.enrol(USERS), 0, {}
        # For two users more than there are, so that it does not end.
        study = api.study(simulated=True)
        self.round, self.gateway = study["rounds"][0]["id"], study["gateway_token"]

    def _trial(self, api: Service, where: str) -> None:
        first = self.next
        self.next += 2 + BATCH
        answers = self._send(api, first, where)
        self._hear(answers, first)

    def _send(self, api: Service, first: int, where: str) -> list[int]:
        """Two reports and a batch at once: their statuses, 0 for one that was never answered."""

        async def send() -> list[int]:
            batch = {"users": list(range(first + 2, first + 2 + BATCH)), "outcomes": [0, 1]}
            round_ = f"/v1/rounds/{self.round}"
            asked = [
                *((f"{round_}/reports", self.tokens[first + turn], {"outcome": turn}) for turn in (0, 1)),
                (f"{round_}/batches", self.gateway, batch),
            ]
            transport = httpx.ASGITransport(api.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://askance.test") as client:
                posts = [
                    asyncio.create_task(client.post(path, json=body, headers=bearer(token)))
                    for path, token, body in asked
                ]
                await asyncio.wait(posts, timeout=self.patience)
                for post in posts:
                    post.cancel()
                return [0 if isinstance(done, BaseException) else done.status_code for done in await all_of(posts)]

        statuses = api._runner.run(send())  # pyright: ignore[reportPrivateUsage] - requests that may not be answered
        if 0 in statuses:
            self.wrong.append(f"{where}: not answered: {statuses}")
        return statuses

    patience = SECONDS / 4

    def _hear(self, statuses: list[int], first: int) -> None:
        users = [[first], [first + 1], list(range(first + 2, first + 2 + BATCH))]
        for status, mine in zip(statuses, users, strict=True):
            if status == 200:
                self.acknowledged |= {(self.round, user): user % 2 for user in mine}

    def _retry(self, api: Service, where: str) -> None:
        """The same again, with nothing in the way: a server that goes on has them."""
        first = self.next - 2 - BATCH
        statuses = self._send(api, first, f"{where}, retry")
        self._hear(statuses, first)
        if statuses != [200] * 3 and not api.stops:
            self.wrong.append(f"{where}: the server goes on, and a retry is told {statuses}")

    def _judge(self) -> None:
        try:
            ledger = SqliteLedger.open(self.directory)
        except LedgerBusyError:
            self.wrong.append("the server could not close its ledger: something is under way for ever")
            return
        with closing(ledger):
            self.wrong += [f"{fault.where}: {fault.what}" for fault in ledger.verify()]
            stored = {
                user: outcome
                for users, outcomes in ledger._logged(self.round)
                for user, outcome in zip(users.tolist(), outcomes.tolist(), strict=True)
            }
        if any(outcome != user % 2 for user, outcome in stored.items()):
            self.wrong.append("a report is stored that was never sent")
        lost = [user for (_, user), outcome in self.acknowledged.items() if stored.get(user) != outcome]
        if lost:
            self.wrong.append(f"{len(lost)} reports were acknowledged and are not stored")


async def all_of(tasks: list[asyncio.Task[httpx.Response]]) -> list[httpx.Response | BaseException]:
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_memory_that_ends_at_any_line_of_a_reports_way_loses_nothing(tmp_path: Path, figures: Figures) -> None:
    trials = Trials(tmp_path / "data").run(EVERY)

    figures("memory ends, service", lines=trials.struck, stops=trials.stopped, wrong=len(trials.wrong))
    assert trials.wrong == []
    assert trials.struck * EVERY > 300


def test_a_queue_that_goes_on_half_way_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control, as it was: whoever waited went on waiting, and an outcome stood beside another user."""
    monkeypatch.setattr(GroupCommitter, "_stop", lambda *_: None)
    trials = Trials(tmp_path / "data")
    trials.patience = 3.0

    assert trials.run(2).wrong != []
