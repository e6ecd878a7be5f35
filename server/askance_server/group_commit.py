"""Group commit: take all waiting reports, decide, commit once, then acknowledge.

There is no timer and no thread. The first report that comes in schedules a look at the queue for the next turn of
the event loop, and as long as a turn brings more the look is put off by another, up to `ENOUGH` reports. Under load
groups grow by themselves, because reports pile up in the sockets while the disk works; alone, a report waits for one
empty turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import numpy as np

from askance_protocol.errors import AskanceError, Code
from askance_server.ledger import (
    Ledger,
    LedgerAwayError,
    LedgerError,
    NotFoundError,
    OutcomeColumn,
    Users,
    Verdict,
    Verdicts,
)
from askance_server.metrics import Metrics

_LOG = logging.getLogger(__name__)

VERDICTS: Final = tuple(Verdict)
ENOUGH: Final = 256
"""Number of reports that are worth a commit at once, whatever else is on its way."""


class QueueFullError(AskanceError):
    """Too many reports are waiting. Nothing was done for this one."""

    code = Code.QUEUE_FULL

    def __init__(
        self, what: str = "too many reports wait; nothing was done for this one", *, where: str = "", remedy: str = ""
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)


class _Waiting:
    """Single reports that wait for one round."""

    __slots__ = ("futures", "outcomes", "users")

    def __init__(self) -> None:
        self.users: list[int] = []
        self.outcomes: list[int] = []
        self.futures: list[asyncio.Future[Verdict]] = []


class GroupCommitter:
    """Commits reports to the ledger in groups and returns the verdict of each."""

    def __init__(
        self,
        ledger: Ledger,
        metrics: Metrics,
        *,
        limit: int,
        committed: Callable[[str], None],
        broken: Callable[[LedgerError], None],
    ) -> None:
        self._ledger, self._metrics, self._limit = ledger, metrics, limit
        self._committed, self._broken = committed, broken
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, _Waiting] = {}
        self._depth = 0

    @property
    def depth(self) -> int:
        """Number of single reports that are waiting."""
        return self._depth

    def submit(self, round_: str, user: int, outcome: int) -> asyncio.Future[Verdict]:
        """Queue one report. The future completes when its verdict is on disk."""
        if self._depth >= self._limit:
            raise QueueFullError
        if not self._depth:
            self._loop.call_soon(self._gather, 0)
        waiting = self._waiting.get(round_)
        if waiting is None:
            waiting = self._waiting[round_] = _Waiting()
        future: asyncio.Future[Verdict] = self._loop.create_future()
        waiting.users.append(user)
        waiting.outcomes.append(outcome)
        waiting.futures.append(future)
        self._depth += 1
        return future

    def _gather(self, before: int) -> None:
        """Flush once a turn of the loop has brought no more reports: a commit is expensive, a turn is cheap."""
        if before < self._depth < ENOUGH:
            self._loop.call_soon(self._gather, self._depth)
        elif self._depth:
            self.flush()

    def submit_batch(self, round_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        """Commit a gateway's batch, after the single reports that are waiting."""
        self.flush()
        return self._charge(round_, users, outcomes)

    def flush(self) -> None:
        """Commit all waiting reports, one round at a time."""
        waiting, self._waiting, self._depth = self._waiting, {}, 0
        for round_, group in waiting.items():
            try:
                users, outcomes = np.array(group.users, np.uint64), np.array(group.outcomes, np.uint32)
                verdicts: list[int] = self._charge(round_, users, outcomes).tolist()
            except Exception as error:
                # Whatever it is: nobody is left waiting for a verdict that will never come.
                _fail(group.futures, error)
                if not isinstance(error, LedgerError | NotFoundError):
                    _LOG.exception("an error that should not be, while a group was committed")
                continue
            for future, verdict in zip(group.futures, verdicts, strict=True):
                # A client that hung up does not wait any more; the report counts all the same.
                if not future.done():
                    future.set_result(VERDICTS[verdict])

    def _charge(self, round_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        begin = time.perf_counter()
        try:
            verdicts = self._ledger.charge(round_, users, outcomes)
        except LedgerError as error:
            if not isinstance(error, LedgerAwayError):
                self._broken(error)
            raise
        self._metrics.committed(verdicts, time.perf_counter() - begin)
        self._committed(round_)
        return verdicts


def _fail(futures: list[asyncio.Future[Verdict]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
