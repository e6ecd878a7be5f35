"""The running aggregator: one ledger, its committer, and the studies that run on it.

Everything here runs on one event loop and talks to the ledger from there, so no two steps interleave. A study is
advanced when it is created, when the server starts, when a round of it has what it waits for, and once a second,
which finds deadlines and what other replicas have done.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from askance_protocol.errors import ProtocolError
from askance_server.auth import Keys
from askance_server.core.strategy import Parameters, Strategy
from askance_server.core.study import Ended, Waiting, check_answerable, study_of
from askance_server.driver import Driver
from askance_server.group_commit import GroupCommitter
from askance_server.ledger import Ledger, LedgerAwayError, LedgerError
from askance_server.metrics import Metrics
from askance_server.problems import ProblemError
from askance_server.settings import Settings

_LOG = logging.getLogger(__name__)
_TICK = 1.0


@dataclass(slots=True)
class Aggregator:
    """Service behind the REST endpoints."""

    settings: Settings
    ledger: Ledger
    keys: Keys
    strategies: Mapping[str, Strategy]
    stop: Callable[[], None]
    """Ends the process in good order: what is left to do when the ledger cannot be written."""
    metrics: Metrics = field(default_factory=Metrics)
    driver: Driver = field(init=False)
    committer: GroupCommitter = field(init=False)
    _running: set[str] = field(default_factory=set[str])
    _awaited: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """For each open round: its study and the target that closes it."""
    _changed: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    _ticker: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.driver = Driver(self.ledger, self.strategies)

    def start(self) -> None:
        """Begin to take reports, and continue every study that has not ended."""
        self.committer = GroupCommitter(
            self.ledger,
            self.metrics,
            limit=self.settings.queue_limit,
            committed=self._committed,
            broken=self._broken,
        )
        for study in self.ledger.studies():
            self.advance(study)
        self._ticker = asyncio.get_running_loop().create_task(self._tick())

    async def finish(self) -> None:
        """Commit the waiting reports, then close the ledger."""
        if self._ticker is not None:
            self._ticker.cancel()
        self.committer.flush()
        self.ledger.close()

    # ---------------------------------------------------------------------------------------------------- studies

    def create(self, title: str, name: str, parameters: Parameters, *, simulated: bool) -> str:
        """Publish a study and its first round."""
        self._check_limits(name)
        spec = study_of(
            self.strategies,
            strategy=name,
            parameters=parameters,
            title=title,
            nonce=secrets.token_hex(16),
            simulated=simulated,
        )
        check_answerable(spec, self.strategies)
        study = self.driver.publish(spec)
        self.advance(study)
        return study

    def _check_limits(self, name: str) -> None:
        most = self.settings.study_limit
        if len(self._running) >= most:
            raise ProblemError("too-many-studies", f"{most} studies are running, and this server takes no more")
        if name in self.strategies and self.strategies[name].rounds > self.settings.round_limit:
            what = f"asks up to {self.strategies[name].rounds} rounds, and this server allows a study"
            raise ProblemError("invalid-request", f"strategy: {name} {what} {self.settings.round_limit}")

    def advance(self, study: str) -> None:
        """Advance a study as far as its reports allow. After an interruption the next call continues."""
        try:
            waiting = self.driver.advance(study, int(time.time()))
        except ProtocolError as error:
            # Another replica was faster, or the strategy is not installed: the next tick tries again.
            self._running.add(study)
            _LOG.info("a study was not advanced: %s", error)
            return
        except LedgerError as error:
            # Away, perhaps, and then the next tick tries again: also what has never been advanced here.
            self._running.add(study)
            self._broken(error)
            return
        self._running.discard(study)
        self._awaited = {id_: wait for id_, wait in self._awaited.items() if wait[0] != study}
        if not isinstance(waiting, Ended):
            self._running.add(study)
        if isinstance(waiting, Waiting):
            self._awaited[waiting.round] = (study, waiting.target)
        self.tell(study)

    def close_round(self, id_: str) -> None:
        """Close a round early, on the operator's request."""
        study = self.ledger.round(id_).spec.study
        self.committer.flush()
        self.driver.close(id_)
        self.advance(study)

    def cancel(self, study: str) -> None:
        """End a study, on the operator's request."""
        self.committer.flush()
        self.driver.cancel(study)
        self.advance(study)

    # ----------------------------------------------------------------------------------------------------- events

    def changed(self, study: str) -> asyncio.Event:
        """Event that is set when the study's bulletin grows; take a new one for the next change."""
        return self._changed.setdefault(study, asyncio.Event())

    def tell(self, study: str) -> None:
        """Wake all who wait for a change of the study."""
        self._changed.pop(study, asyncio.Event()).set()

    def exposition(self) -> bytes:
        """Metrics in the Prometheus text format."""
        bulletins = [self.ledger.bulletin(study) for study in self.ledger.studies()]
        return self.metrics.exposition(
            depth=self.committer.depth,
            users=self.ledger.enrolled(),
            studies=[bulletin.state for bulletin in bulletins],
            rounds=[state for bulletin in bulletins for _, state in bulletin.rounds],
        )

    def _committed(self, round_: str) -> None:
        awaited = self._awaited.get(round_)
        if awaited is not None and self.ledger.received(round_) >= awaited[1]:
            # Not now: reports of this very group wait to be acknowledged.
            asyncio.get_running_loop().call_soon(self.advance, awaited[0])

    def _broken(self, error: LedgerError) -> None:
        """Stop the process after a failed write: nothing may be acknowledged, and the next start reads the log.

        A database that is away is waited for: nothing of it is held here that could be wrong by then.
        """
        if isinstance(error, LedgerAwayError):
            _LOG.warning("the ledger is away: %s", error)
            return
        _LOG.critical("the ledger cannot be used any more: %s", error)
        self.stop()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            for study in list(self._running):
                self.advance(study)
