"""Group commit: take all waiting reports, decide, commit once, then acknowledge.

Theory of operation
-------------------
There is no timer, and one thread that commits. While it is at a group, the reports that come in wait, and are the next
group: under load groups grow by themselves, and the event loop reads requests while the disk, or the database, works.
When nothing is under way, the first report schedules a look at the queue for the next turn of the loop, and as long
as a turn brings more the look is put off by another, up to `ENOUGH` reports; alone, a report waits for one empty turn.

What a group was told and what it changed is settled by the ledger alone. A ledger that does not answer holds up the
reports, and nothing else. Whatever is raised outside of the ledger's own work, be it `MemoryError` between two lines,
leaves a queue that nobody can trust: then everybody who waits is told so, and the process has to end (`_stop`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final

import numpy as np

from askance_protocol.errors import AskanceError, Code
from askance_server.auth import AuthError
from askance_server.ledger import (
    Ledger,
    LedgerError,
    OutcomeColumn,
    Users,
    Verdict,
    Verdicts,
)
from askance_server.metrics import Metrics
from askance_server.workers import carried

_LOG = logging.getLogger(__name__)

VERDICTS: Final = tuple(Verdict)
ENOUGH: Final = 256
"""Number of reports that are worth a commit at once, whatever else is on its way."""
_AT_ONCE: Final = 1 << 20
"""Number of reports after which no more batches join what is handed over: who comes then waits for all of it."""


class QueueFullError(AskanceError):
    """Too many reports are waiting. Nothing was done for this one."""

    code = Code.QUEUE_FULL

    def __init__(
        self, what: str = "too many reports wait; nothing was done for this one", *, where: str = "", remedy: str = ""
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)


@dataclass(slots=True, eq=False)
class _Singles:
    """Single reports to one round, each with the epoch of the token that it came with."""

    users: list[int] = field(default_factory=list[int])
    outcomes: list[int] = field(default_factory=list[int])
    epochs: list[int] = field(default_factory=list[int])
    futures: list[asyncio.Future[Verdict]] = field(default_factory=list["asyncio.Future[Verdict]"])


@dataclass(slots=True, eq=False)
class _Batch:
    """A gateway's reports to one round."""

    users: Users
    outcomes: OutcomeColumn
    future: asyncio.Future[Verdicts]


@dataclass(slots=True, eq=False)
class _Committed:
    """What became of a group."""

    round: str
    group: _Singles | _Batch
    users: Users
    """Those who are not among `void`."""
    verdicts: Verdicts
    """For these."""
    void: Sequence[int] = ()
    """Places of the reports whose token is not valid any more."""
    received: int = 0
    """Number of reports that the round has now."""
    seconds: float = 0.0
    error: Exception | None = None


_NONE: Final = np.zeros(0, np.uint8)
_NOBODY: Final = np.zeros(0, np.uint64)
_INTERRUPTED: Final = "the server was interrupted while it took reports: start it again, and send the report again."


class GroupCommitter:
    """Commits reports to the ledger in groups and returns the verdict of each."""

    def __init__(
        self,
        ledger: Ledger,
        metrics: Metrics,
        *,
        limit: int,
        committed: Callable[[str, int], None],
        broken: Callable[[LedgerError], None],
    ) -> None:
        self._ledger, self._metrics, self._limit = ledger, metrics, limit
        self._committed, self._broken = committed, broken
        self._loop = asyncio.get_running_loop()
        self._singles: dict[str, _Singles] = {}
        self._batches: deque[tuple[str, _Batch] | asyncio.Future[None]] = deque()
        """Batches, and among them who waits until all before is committed."""
        self._depth = 0
        self._marks: list[asyncio.Future[None]] = []
        """Who waits for what is under way."""
        self._busy = False
        """Whether the thread is at something."""
        self._under_way: list[tuple[str, _Singles | _Batch]] = []
        """What the thread was given last."""
        self._stopped: LedgerError | None = None
        self._interrupted = LedgerError(_INTERRUPTED)
        """Made now: when it is needed there may be no memory for it."""
        self._groups: SimpleQueue[list[tuple[str, _Singles | _Batch]] | None] = SimpleQueue()
        threading.Thread(target=self._work, name="askance-commit", daemon=True).start()

    @property
    def depth(self) -> int:
        """Number of single reports that are waiting."""
        return self._depth

    def submit(self, round_: str, user: int, outcome: int, epoch: int = 0) -> asyncio.Future[Verdict]:
        """Queue one report. The future completes when its verdict is on disk.

        It is AuthError if by then the tokens of the user have another epoch.
        """
        self._check_whole()
        if self._depth >= self._limit:
            raise QueueFullError
        if not self._depth and not self._busy:
            self._loop.call_soon(self._gather, 0)
        waiting = self._singles.get(round_)
        if waiting is None:
            waiting = self._singles[round_] = _Singles()
        future: asyncio.Future[Verdict] = self._loop.create_future()
        before = len(waiting.futures)
        try:
            waiting.users.append(user)
            waiting.outcomes.append(outcome)
            waiting.epochs.append(epoch)
            waiting.futures.append(future)
            self._depth += 1
        except BaseException:
            # Else the next report's outcome would stand beside this user.
            for column in (waiting.users, waiting.outcomes, waiting.epochs, waiting.futures):
                del column[before:]
            raise
        return future

    def submit_batch(self, round_: str, users: Users, outcomes: OutcomeColumn) -> asyncio.Future[Verdicts]:
        """Queue a gateway's batch, behind the single reports that are waiting."""
        self._check_whole()
        future: asyncio.Future[Verdicts] = self._loop.create_future()
        self._batches.append((round_, _Batch(users, outcomes, future)))
        if not self._busy:
            self._hand_over()
        return future

    async def drain(self) -> None:
        """Wait until all is committed that waits or is under way now."""
        if self._stopped is None and (self._busy or self._depth):
            mark: asyncio.Future[None] = self._loop.create_future()
            self._batches.append(mark)
            if not self._busy:
                self._hand_over()
            await mark

    def end(self) -> None:
        """Let the thread end when it has done what it has."""
        self._groups.put(None)

    def _check_whole(self) -> None:
        if self._stopped is not None:
            raise self._stopped

    def _stop(self, groups: Sequence[tuple[str, _Singles | _Batch]], error: BaseException) -> None:
        """Tell all who wait, for these groups or others, that nobody knows: a retry after the next start will tell."""
        if self._stopped is None:
            self._stopped = self._interrupted
            _LOG.critical("reports cannot be taken any more", exc_info=error)
        waiting = [entry for entry in self._batches if isinstance(entry, tuple)]
        for _, group in (*groups, *self._under_way, *self._singles.items(), *waiting):
            _fail(_waiting(group), self._stopped)
        for mark in (*self._marks, *(entry for entry in self._batches if isinstance(entry, asyncio.Future))):
            if not mark.done():
                mark.set_result(None)
        self._broken(self._stopped)

    def _gather(self, before: int) -> None:
        """Hand over once a turn of the loop has brought no more reports: a commit is expensive, a turn is cheap."""
        try:
            if self._busy or self._stopped is not None:
                return
            if before < self._depth < ENOUGH:
                self._loop.call_soon(self._gather, self._depth)
            elif self._depth:
                self._hand_over()
        except BaseException as error:
            self._stop((), error)

    def _hand_over(self) -> None:
        try:
            self._give()
        except BaseException as error:
            self._stop((), error)
            raise

    def _give(self) -> None:
        """Give the thread all single reports, then batches. Whatever leaves the queue is under way before."""
        groups: list[tuple[str, _Singles | _Batch]] = list(self._singles.items())
        self._under_way = groups
        self._singles, self._depth = {}, 0
        size = 0
        while self._batches and size <= _AT_ONCE:
            next_ = self._batches[0]
            if isinstance(next_, asyncio.Future):
                self._marks.append(next_)
            else:
                size += len(next_[1].users)
                groups.append(next_)
            self._batches.popleft()
        self._busy = True
        self._groups.put(groups)

    def _settle(self, results: list[_Committed]) -> None:
        """Tell what became of the groups, and hand over what has come meanwhile."""
        try:
            marks, self._marks = self._marks, []
            self._busy = False
            if self._stopped is None and (self._depth or self._batches):
                # First, so that the thread commits while the answers are written.
                self._hand_over()
            for result in results:
                try:
                    self._answer(result)
                except BaseException as error:
                    # Here it was not foreseen, and the others wait for their answers all the same.
                    _LOG.exception("an error that should not be, while a group was answered")
                    _fail(_waiting(result.group), carried(error))
            for mark in marks:
                if not mark.done():
                    mark.set_result(None)
            for result in results:
                if result.error is None:
                    self._committed(result.round, result.received)
        except BaseException as error:
            self._stop([(result.round, result.group) for result in results], error)

    def _answer(self, result: _Committed) -> None:
        group, error = result.group, result.error
        if error is not None:
            # Whatever it is: nobody is left waiting for a verdict that will never come.
            _fail(_waiting(group), error)
            if isinstance(error, LedgerError):
                self._broken(error)
            elif not isinstance(error, AskanceError):
                _LOG.error("an error that should not be, while a group was committed", exc_info=error)
            return
        self._metrics.committed(result.users, result.verdicts, result.seconds)
        # A client that hung up does not wait any more; its report counts all the same.
        if isinstance(group, _Batch):
            waits: asyncio.Future[Verdicts] = group.future
            if not waits.done():
                waits.set_result(result.verdicts)
            return
        futures = group.futures
        if result.void:
            _fail([futures[place] for place in result.void], AuthError())
            gone = set(result.void)
            futures = [future for place, future in enumerate(futures) if place not in gone]
        verdicts: list[int] = result.verdicts.tolist()
        for future, verdict in zip(futures, verdicts, strict=True):
            if not future.done():
                future.set_result(VERDICTS[verdict])

    # ------------------------------------------------------------------------------------------------- in the thread

    def _work(self) -> None:
        # A loop that was closed meanwhile has nobody to tell.
        with contextlib.suppress(RuntimeError):
            try:
                while (groups := self._groups.get()) is not None:
                    results = [self._commit(round_, group) for round_, group in groups]
                    with contextlib.suppress(RuntimeError):
                        self._loop.call_soon_threadsafe(self._settle, results)
                    del groups, results
            except BaseException as error:
                self._loop.call_soon_threadsafe(self._stop, (), error)

    def _commit(self, round_: str, group: _Singles | _Batch) -> _Committed:
        begin = time.perf_counter()
        try:
            if isinstance(group, _Batch):
                users, void = group.users, ()
                verdicts = self._ledger.charge(round_, users, group.outcomes)
            else:
                users, verdicts, void = self._charge_singles(round_, group)
            received = self._ledger.received(round_)
        except BaseException as error:
            # SystemExit too: without this thread, everybody would wait for ever.
            return _Committed(round_, group, _NOBODY, _NONE, error=carried(error))
        return _Committed(round_, group, users, verdicts, void, received, time.perf_counter() - begin)

    def _charge_singles(self, round_: str, group: _Singles) -> tuple[Users, Verdicts, Sequence[int]]:
        users, outcomes = np.array(group.users, np.uint64), np.array(group.outcomes, np.uint32)
        valid = self._ledger.epochs(users) == np.array(group.epochs, np.int64)
        if valid.all():
            return users, self._ledger.charge(round_, users, outcomes), ()
        void: list[int] = np.flatnonzero(~valid).tolist()
        return users[valid], self._ledger.charge(round_, users[valid], outcomes[valid]), void


def _waiting(group: _Singles | _Batch) -> Sequence[asyncio.Future[Verdict]] | Sequence[asyncio.Future[Verdicts]]:
    """Those who wait for the verdicts of a group."""
    return group.futures if isinstance(group, _Singles) else [group.future]


def _fail(futures: Sequence[asyncio.Future[Verdict]] | Sequence[asyncio.Future[Verdicts]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
