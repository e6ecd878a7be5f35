"""The running aggregator: one ledger, its committer, and the studies that run on it.

Theory of operation
-------------------
*The loop waits for nothing.* What runs on the event loop is short, and none of it talks to the ledger: `ask` has a
thread do so (`workers`), reports are committed by a thread of their own (`group_commit`), and studies are advanced by
others, so that a plan of seconds holds up neither a report nor a look at a bulletin.

*No two steps of a study interleave.* A study has one step at a time under way here; whoever wants another while
it is gets one more after it. A step reads, plans and appends; the bulletin refuses an entry that does not follow on
the last one, so a step that another replica or a cancellation has overtaken changes nothing.

A study is advanced when it is created, when the server starts, when a round of it has what it waits for, and once a
second, which finds deadlines and what other replicas have done: also the studies that were created there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from askance_protocol.errors import AskanceError, ProtocolError
from askance_protocol.rounds import PreparedRound
from askance_protocol.schema import Schema
from askance_server.auth import Keys
from askance_server.core.strategy import Parameters, Strategy
from askance_server.core.study import Ended, Waiting, check_answerable, study_of
from askance_server.driver import Driver
from askance_server.feeds import Feeds
from askance_server.group_commit import GroupCommitter
from askance_server.ledger import Ledger, LedgerAwayError, LedgerError
from askance_server.metrics import Metrics
from askance_server.problems import ProblemError
from askance_server.public_answers import PublicAnswer, PublicAnswers, PublicQuestion
from askance_server.settings import Settings
from askance_server.workers import Workers

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_TICK = 1.0
_REMEMBERED: Final = 64
"""Prepared rounds that are at hand without asking for them."""
_ASKING: Final = 4
_SHOWING: Final = 2
_STEPPING: Final = 2
"""Number of threads that ask the ledger, of those that do so for anybody without a token, and of those that advance
studies."""
_READY: Final = 2.0
"""Seconds within which a ledger that is ready takes a write."""
READY_FOR: Final = 1.0
"""Seconds for which a ledger that has taken a write is ready: whoever asks meanwhile costs no commit."""
_CATCH_UP: Final = 5.0
"""Seconds for which reading a study waits for the step that it is at."""
_PATIENCE: Final = 1.0
"""Seconds that the last reports have to be committed when the server stops."""


@dataclass(slots=True)
class Aggregator:
    """Service behind the REST endpoints."""

    settings: Settings
    ledger: Ledger
    """For threads: nothing on the event loop calls it."""
    keys: Keys
    strategies: Mapping[str, Strategy]
    stop: Callable[[], None]
    """Ends the process in good order: what is left to do when the ledger cannot be written."""
    metrics: Metrics = field(default_factory=Metrics)
    driver: Driver = field(init=False)
    committer: GroupCommitter = field(init=False)
    closing: bool = False
    """Whether the server has been told to stop: streams of events end."""
    answers: PublicAnswers = field(init=False)
    """What anybody may ask."""
    feeds: Feeds = field(init=False)
    """The studies that somebody follows."""
    drawing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a code to join is drawn."""
    _asking: Workers = field(init=False)
    _showing: Workers = field(init=False)
    _stepping: Workers = field(init=False)
    _looking: Workers = field(init=False)
    _running: set[str] = field(default_factory=set[str])
    _said: str = ""
    """The last error that the log told in a line."""
    _creating: int = 0
    _steps: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])
    """The step that each study is at."""
    _again: set[str] = field(default_factory=set[str])
    """Studies that have one more step to do after that."""
    _awaited: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """For each open round: its study and the target that closes it."""
    _waiting: dict[str, Waiting] = field(default_factory=dict[str, Waiting])
    """For each study that waits for reports: which round is open, and until when."""
    _settled: set[str] = field(default_factory=set[str])
    """Those that were looked at since it is known which round they wait for: no report is missed from then on."""
    _rounds: OrderedDict[str, PreparedRound] = field(default_factory=OrderedDict[str, PreparedRound])
    _coming: dict[str, asyncio.Future[PreparedRound]] = field(
        default_factory=dict[str, "asyncio.Future[PreparedRound]"]
    )
    """Rounds that are being prepared."""
    _writable: asyncio.Future[None] | None = None
    _ready_until: float = -math.inf
    """The loop's time up to which the last write says enough."""
    _away: bool = False
    """Whether the log says that the ledger is away, and nothing was written since."""
    _stopping: bool = False
    """Whether the log says that the ledger cannot be used any more."""
    _resuming: asyncio.Task[None] = field(init=False)
    _ticker: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.driver = Driver(self.ledger, self.strategies)

    def start(self) -> None:
        """Begin to take reports, and to continue every study that has not ended."""
        self._asking, self._stepping = Workers("ledger", _ASKING), Workers("studies", _STEPPING)
        self._showing, self._looking = Workers("public", _SHOWING), Workers("ready", 1)
        self.answers = PublicAnswers(self._showing)
        self.feeds = Feeds(lambda study: self.show(partial(self.driver.moment, study)))
        self.committer = GroupCommitter(
            self.ledger,
            self.metrics,
            limit=self.settings.queue_limit,
            committed=self._committed,
            broken=self._broken,
        )
        # In the background: a database that does not answer now is no reason to be silent.
        self._resuming = asyncio.get_running_loop().create_task(self._resume())
        self._ticker = asyncio.get_running_loop().create_task(self._tick())

    async def _resume(self) -> None:
        """Continue every study that has not ended."""
        while not await self._look_for_studies():
            await asyncio.sleep(_TICK)
        for study in list(self._running):
            self.advance(study)

    async def _look_for_studies(self) -> bool:
        """Note which studies run, whoever has created them; False if the ledger does not say."""
        try:
            self._running.update(await self.ask(self.ledger.unfinished))
        except LedgerError as error:
            self._broken(error)
        except AskanceError as error:
            self._say_once(error)
        except Exception:
            _LOG.exception("an error that should not be, while running studies were looked for")
        else:
            return True
        return False

    def _say_once(self, error: AskanceError) -> None:
        """Log an error that says all by itself; not again each second."""
        if (told := str(error)) != self._said:
            self._said = told
            _LOG.error("%s", told)

    async def finish(self) -> None:
        """Commit the waiting reports, then close the ledger.

        If the ledger does not answer, or a thread is still at something long, the process ends without them: nothing
        was acknowledged that is not stored.
        """
        self.end_streams()
        for task in (self._ticker, self._resuming, *self._steps.values()):
            task.cancel()
        try:
            async with asyncio.timeout(_PATIENCE):
                await self.committer.drain()
                # Behind what is being asked. A step that is still planning finds the ledger closed.
                await self.ask(self.ledger.close)
        except TimeoutError:
            _LOG.warning("the ledger does not answer: the server stops without closing it")
        for workers in (self._asking, self._showing, self._stepping, self._looking, self.committer):
            workers.end()

    # --------------------------------------------------------------------------------------------------- the ledger

    async def ask(self, work: Callable[[], T]) -> T:
        """Have a thread do what talks to the ledger, or what takes long."""
        return await self._asking.run(work)

    def begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """As `ask`: what is to come of it."""
        return self._asking.begin(work)

    async def show(self, work: Callable[[], T]) -> T:
        """Have a thread do what anybody may ask for, behind all else of that kind."""
        return await self._showing.run(work)

    async def answer(
        self, question: PublicQuestion, work: Callable[[], PublicAnswer], *, of: str = "", needed: bool = False
    ) -> PublicAnswer:
        """Answer what anybody may ask: from memory, or as soon as a thread has worked it out.

        `needed` by devices: by one of the threads that read the ledger for them, whatever pages are being made.
        `of`: the study that it is about. The answer waits for the step that this is at; and while somebody follows the
        study, it is worked out once for each change.
        """
        if not of:
            return await self.answers.to(question, work, self._asking if needed else None)

        async def caught_up() -> PublicAnswer:
            await self.caught_up(of)
            return await self.answers.to(question, work)

        feed = self.feeds.of(of)
        return await (caught_up() if feed is None else feed.once(question, caught_up))

    async def round(self, id_: str) -> PreparedRound:
        """A published round, prepared. Those who ask for it at once wait for one preparation."""
        known = self._rounds.get(id_)
        if known is not None:
            return known
        coming = self._coming.get(id_)
        if coming is None:
            coming = self._coming[id_] = self._asking.begin(lambda: self.ledger.round(id_))
            coming.add_done_callback(lambda done: self._take_round(id_, done))
        return await asyncio.shield(coming)

    def _take_round(self, id_: str, done: asyncio.Future[PreparedRound]) -> None:
        del self._coming[id_]
        if not done.cancelled() and done.exception() is None:
            self._rounds[id_] = done.result()
            if len(self._rounds) > _REMEMBERED:
                self._rounds.popitem(last=False)

    async def check_writable(self) -> None:
        """Have the ledger commit a small write; TimeoutError if it does not answer. Those who ask at once share it.

        What was written a moment ago, a report say, tells as much.
        """
        if asyncio.get_running_loop().time() < self._ready_until:
            return
        if self._writable is None or self._writable.done():
            self._writable = self._looking.begin(self.ledger.check_writable)
            self._writable.add_done_callback(self._note_written)
        await asyncio.wait_for(asyncio.shield(self._writable), _READY)

    def _note_written(self, done: asyncio.Future[None] | None = None) -> None:
        if done is None or (not done.cancelled() and done.exception() is None):
            self._ready_until = asyncio.get_running_loop().time() + READY_FOR
            self._away = False

    # ---------------------------------------------------------------------------------------------------- studies

    async def create(
        self,
        title: str,
        name: str,
        parameters: Parameters,
        *,
        simulated: bool,
        example: Schema | None = None,
        live: int | None = None,
    ) -> str:
        """Publish a study and its first round. What would fail at once is refused, with the reason."""
        self._check_limits(name)
        nonce = secrets.token_hex(16)

        def publish() -> str:
            spec = study_of(
                self.strategies,
                strategy=name,
                parameters=parameters,
                title=title,
                nonce=nonce,
                simulated=simulated,
                example=example,
                live=live,
            )
            check_answerable(spec, self.strategies)
            return self.driver.open(spec, int(time.time()))

        self._creating += 1
        try:
            # It plans, which may take seconds: where studies are advanced.
            study = await self._stepping.run(publish)
            self._running.add(study)
        finally:
            self._creating -= 1
        await self.advance(study)
        return study

    def _check_limits(self, name: str) -> None:
        most = self.settings.study_limit
        if len(self._running) + self._creating >= most:
            raise ProblemError("too-many-studies", f"{most} studies are running, and this server takes no more")
        if name in self.strategies and self.strategies[name].rounds > self.settings.round_limit:
            what = f"asks up to {self.strategies[name].rounds} rounds, and this server allows a study"
            raise ProblemError("invalid-request", f"strategy: {name} {what} {self.settings.round_limit}")

    def advance(self, study: str) -> asyncio.Future[None]:
        """Begin to advance a study as far as its reports allow; done when that is. One who waits may go away."""
        step = self._steps.get(study)
        if step is None:
            step = self._steps[study] = asyncio.get_running_loop().create_task(self._advance(study))
        else:
            self._again.add(study)
        return asyncio.shield(step)

    async def _advance(self, study: str) -> None:
        try:
            while True:
                self._again.discard(study)
                await self._step(study)
                if study not in self._again:
                    return
        finally:
            del self._steps[study]

    async def _step(self, study: str) -> None:
        """Do what is due. After an interruption the next call continues."""
        self._settled.discard(study)
        try:
            waiting = await self._stepping.run(lambda: self.driver.advance(study, int(time.time())))
        except ProtocolError as error:
            # Another replica was faster, or the strategy is not installed: the next tick tries again.
            _LOG.info("a study was not advanced: %s", error)
            return
        except LedgerError as error:
            # Away, perhaps, and then the next tick tries again: also what has never been advanced here.
            self._running.add(study)
            self._broken(error)
            return
        except AskanceError as error:
            self._say_once(error)
            return
        except Exception:
            _LOG.exception("an error that should not be, while a study was advanced")
            return
        self._running.discard(study)
        if (before := self._waiting.pop(study, None)) is not None:
            self._awaited.pop(before.round, None)
        if not isinstance(waiting, Ended):
            self._running.add(study)
        if isinstance(waiting, Waiting):
            self._waiting[study] = waiting
            if before is not None and before.round == waiting.round:
                self._settled.add(study)
            self._awaited[waiting.round] = (study, waiting.target)
        self.feeds.step(study)

    async def caught_up(self, study: str) -> None:
        """Wait for the step that a study is at, so that who reads it after her report sees what it has led to.

        A plan may take longer than anybody waits: then what is there has to do.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CATCH_UP):
                await asyncio.shield(self._resuming)
                if (step := self._steps.get(study)) is not None:
                    await asyncio.shield(step)

    async def settled(self) -> None:
        """Wait until no study is being advanced."""
        await asyncio.shield(self._resuming)
        while self._steps:
            await asyncio.wait(list(self._steps.values()))

    async def close_round(self, id_: str) -> None:
        """Close a round early, on the operator's request."""
        study = (await self.round(id_)).spec.study
        await self.committer.drain()
        await self.ask(lambda: self.driver.close(id_))
        await self.advance(study)

    async def cancel(self, study: str) -> None:
        """End a study, on the operator's request."""
        await self.committer.drain()
        await self.ask(lambda: self.driver.cancel(study))
        await self.advance(study)

    # ----------------------------------------------------------------------------------------------------- events

    def end_streams(self) -> None:
        """Let all go who follow a study."""
        self.closing = True
        self.feeds.end()

    async def exposition(self) -> bytes:
        """Metrics in the Prometheus text format."""
        census = await self.show(self.ledger.census)
        return self.metrics.exposition(depth=self.committer.depth, census=census, paused=self.driver.paused_count)

    def _committed(self, round_: str, received: int) -> None:
        self._note_written()
        awaited = self._awaited.get(round_)
        if awaited is not None and received >= awaited[1]:
            self.advance(awaited[0])

    def _broken(self, error: LedgerError) -> None:
        """Stop the process after a failed write: nothing may be acknowledged, and the next start reads the log.

        A database that is away is waited for: nothing of it is held here that could be wrong by then.
        """
        self._ready_until = -math.inf
        if isinstance(error, LedgerAwayError):
            if not self._away:
                _LOG.warning("the ledger is away: %s", error)
            self._away = True
            return
        if not self._stopping:  # Of all whom it concerns the first; the others are told in their answers.
            _LOG.critical("the ledger cannot be used any more: %s", error)
        self._stopping = True
        self.stop()

    async def _tick(self) -> None:
        await asyncio.shield(self._resuming)
        while True:
            await asyncio.sleep(_TICK)
            await self._look_for_studies()
            for study in list(self._running):
                if self._may_go_on(study):
                    self.advance(study)

    def _may_go_on(self, study: str) -> bool:
        """Whether a look at a study may find something to do.

        Where nobody else writes to the ledger, a study that waits for reports hears of the last one (`_committed`) and
        of its operator: only its deadline comes by itself. A thousand studies that wait cost nothing each second.
        """
        waiting = self._waiting.get(study)
        if waiting is None or study not in self._settled or self.ledger.shared or self.feeds.of(study) is not None:
            return True
        return time.time() >= waiting.deadline
