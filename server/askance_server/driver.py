"""The driver: runs studies on a ledger from publication to end, one bulletin entry at a time.

`advance` asks `core.study.step` for the one entry that has to follow, appends it, and asks again, until there is
nothing to do but to wait. Between two entries nothing is kept that the ledger does not hold: the next call, in this
process or another, goes on from the last entry. What is kept beside it only saves work: where each running study's
strategy stands (`core.replay`), and what the studies asked about last have learned.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from askance_protocol.arrays import Truths
from askance_protocol.errors import Code, ProtocolError
from askance_protocol.rounds import (
    ENDED,
    Bulletin,
    Cause,
    PreparedRound,
    RoundClosed,
    StaleEntryError,
    StudyEnded,
    StudyPublished,
    StudySpec,
    StudyState,
)
from askance_protocol.tally import Tally
from askance_server.core.replay import Replay
from askance_server.core.run import StrategyError
from askance_server.core.strategy import Hypothesis
from askance_server.core.study import DueNotice, Ended, Strategies, Waiting, check_study, step, strategy_named
from askance_server.ledger.base import Ledger, NotOpenError

_REMEMBERED: Final = 64
"""Ended studies whose hypothesis is kept, so that asking for a result again does not run a strategy again."""


class StudyOverError(ProtocolError):
    """The study has ended, perhaps a moment ago and by another replica."""

    code = Code.STUDY_OVER


@dataclass(frozen=True, slots=True)
class LedgerView:
    """A `StudyView` over a ledger."""

    driver: Driver
    id: str
    now: int

    @property
    def bulletin(self) -> Bulletin:
        """Current bulletin of the study."""
        return self.driver.ledger.bulletin(self.id)

    @property
    def replay(self) -> Replay:
        """Replay of its strategy."""
        return self.driver.replay(self.id)

    @property
    def end(self) -> StudyEnded:
        """Last entry of the ended study."""
        notice = self.driver.ledger.entries(self.id, self.bulletin.length - 2)[-1].notice
        assert isinstance(notice, StudyEnded)  # noqa: S101 - told the type checker: nothing else leads to an end
        return notice

    @property
    def enrolled(self) -> int:
        """Number of users."""
        return self.driver.ledger.enrolled()

    def affording(self, users: range, charge: int) -> Truths:
        """Truths for these users: whether each can still pay."""
        return self.driver.ledger.affording(users, charge)

    def round(self, id_: str) -> PreparedRound:
        """Published round, prepared."""
        return self.driver.ledger.round(id_)

    def received(self, id_: str) -> int:
        """Number of reports that a round has accepted."""
        return self.driver.ledger.received(id_)

    def tallies(self, id_: str) -> list[Tally]:
        """Tallies of a round, counted from the log."""
        return self.driver.ledger.tallies(id_)


class Driver:
    """All studies of one ledger."""

    def __init__(self, ledger: Ledger, strategies: Strategies) -> None:
        self.ledger, self.strategies = ledger, strategies
        self._replays: dict[str, Replay] = {}
        self._learned: OrderedDict[str, Hypothesis] = OrderedDict()

    def publish(self, study: StudySpec) -> str:
        """Publish a study and return its id. `advance` opens its first round."""
        check_study(study, self.strategies)
        id_ = study.digest()
        self.ledger.append(id_, Bulletin().next(StudyPublished(study=study)))
        return id_

    def advance(self, study_id: str, now: int) -> Waiting | Ended:
        """Do what is due and return what the study waits for. Calling it again changes nothing."""
        view = LedgerView(self, study_id, now)
        while True:
            bulletin = view.bulletin
            due = step(view)
            if isinstance(due, Ended):
                self._replays.pop(study_id, None)
            if isinstance(due, Waiting | Ended):
                return due
            # Another replica may do the same at the same time. Of two, one is late, and looks again.
            with suppress(StaleEntryError, NotOpenError):
                self._append(study_id, bulletin, due)

    def _append(self, study_id: str, bulletin: Bulletin, due: DueNotice) -> None:
        if isinstance(due, RoundClosed):
            # What came since `due` was worked out counts as well: the ledger counts when it closes.
            self.ledger.close_round(due.round, due.reason)
        else:
            self.ledger.append(study_id, bulletin.next(due))

    def close(self, round_id: str) -> None:
        """Close an open round on the operator's request. `advance` answers it."""
        self.ledger.close_round(round_id, "operator")

    def cancel(self, study_id: str) -> Ended:
        """End a study on the operator's request. Reports stay charged, and are not looked at."""
        end = StudyEnded(state="cancelled", reason="cancelled by the operator", cause=Cause.CANCELLED)
        while (bulletin := self.ledger.bulletin(study_id)).state not in ENDED:
            # What other replicas have appended meanwhile may be anything but an end.
            with suppress(StaleEntryError):
                self.ledger.append(study_id, bulletin.next(end))
                return Ended.of(end)
        raise StudyOverError("has ended already", where=f"study {study_id}", remedy="read its result")

    def result(self, study_id: str) -> Hypothesis | None:
        """Hypothesis of a finished study, computed from its bulletin; None if it has not finished."""
        if self.ledger.bulletin(study_id).state is not StudyState.FINISHED:
            return None
        if study_id not in self._learned:
            self._learned[study_id] = self._learn_again(study_id)
            if len(self._learned) > _REMEMBERED:
                self._learned.popitem(last=False)
        return self._learned[study_id]

    def replay(self, study_id: str) -> Replay:
        """Replay of a study's strategy, caught up with the bulletin."""
        if study_id not in self._replays:
            study = self.ledger.bulletin(study_id).study
            assert study is not None  # noqa: S101 - told the type checker: the first entry is the study
            strategy = strategy_named(self.strategies, study.strategy)
            self._replays[study_id] = Replay(study, strategy, self.ledger.round)
        replay = self._replays[study_id]
        replay.hear(entry.notice for entry in self.ledger.entries(study_id, replay.heard - 1))
        return replay

    def _learn_again(self, study_id: str) -> Hypothesis:
        """Replay the whole study and compare the result with the one on the bulletin."""
        self._replays.pop(study_id, None)
        replay = self.replay(study_id)
        self._replays.pop(study_id)
        try:
            learned = replay.output
        except StrategyError as error:
            raise _another(study_id) from error
        # A study of version 0.1 has no cause in its last entry; its reason has to agree all the same.
        if not isinstance(learned, Hypothesis) or (end := replay.ended) is None:
            raise _another(study_id)
        if replay.finished(learned).reason != end.reason:
            raise _another(study_id)
        return learned


def _another(study_id: str) -> ProtocolError:
    return ProtocolError(
        "its strategy does not say any more what it said",
        where=f"study {study_id}",
        remedy="install the version of the strategy that the study ran with",
    )
