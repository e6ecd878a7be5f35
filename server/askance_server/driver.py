"""The driver: runs studies on a ledger from publication to end, one bulletin entry at a time.

`advance` asks `core.study.step` for the one entry that has to follow, appends it, and asks again, until there is
nothing to do but to wait. Between two entries nothing is kept that the ledger does not hold: the next call, in this
process or another, goes on from the last entry. What is kept beside it only saves work: where each running study's
strategy stands (`core.replay`).

What was learned is read from the last entry. Only studies that version 0.1 ended have none there: their strategy is
replayed, and if it differs, it is not asked.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from askance_protocol.arrays import Truths
from askance_protocol.errors import Code, ProtocolError
from askance_protocol.remembering import Remembered
from askance_protocol.rounds import (
    ENDED,
    Bulletin,
    Cause,
    PreparedRound,
    RoundClosed,
    RoundPublished,
    StaleEntryError,
    StudyEnded,
    StudyPublished,
    StudySpec,
    StudyState,
)
from askance_protocol.tally import Tally
from askance_server.core import planning
from askance_server.core.estimates import MOST_ESTIMATES, AnsweredRound, FirstEstimates, first_estimates
from askance_server.core.replay import Replay, ReplayError
from askance_server.core.run import StrategyError
from askance_server.core.strategy import Estimate, Hypothesis
from askance_server.core.study import DueNotice, Ended, Paused, Strategies, Waiting, check_study, next_round, step
from askance_server.ledger.base import Ledger, NotOpenError
from askance_server.live import LiveTallies

_LOG = logging.getLogger(__name__)

_PIECE: Final = 8 << 20
"""Bytes of entries that are read at once."""
_REMEMBERED: Final = 64
"""Studies of version 0.1 whose hypothesis is kept, so that asking again does not run a strategy again."""


_MOST_ESTIMATED: Final = 16 << 20
_AN_ESTIMATE: Final = 320
"""Bytes of the estimates that are kept, and of one of them with its name, about."""


class StudyOverError(ProtocolError):
    """The study has ended, perhaps a moment ago and by another replica."""

    code = Code.STUDY_OVER


@dataclass(frozen=True, slots=True)
class LiveRound:
    """What is told of an open round: how many of its reports, the first estimates, and the number of the others."""

    round: str
    reports: int
    estimates: list[Estimate]
    left_out: int = 0


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
        """Truths for these users: whether each can still pay, and is one whom this study counts on."""
        ledger, study = self.driver.ledger, self.bulletin.study
        assert study is not None  # noqa: S101 - told the type checker: it has been published
        enrolled = ledger.enrolled()
        return ledger.affording(users, charge, ledger.kinds().waited_for(enrolled, simulated=study.simulated))

    def payers(self, charge: int) -> planning.Slots:
        """Number of such users of each slot."""
        study = self.bulletin.study
        assert study is not None  # noqa: S101 - told the type checker: it has been published
        return planning.payers(study, self.enrolled, charge, self.affording)

    def round(self, id_: str) -> PreparedRound:
        """Published round, prepared."""
        return self.driver.ledger.round(id_)

    def received(self, id_: str) -> int:
        """Number of reports that a round has accepted."""
        return self.driver.ledger.received(id_)

    def tallies(self, id_: str) -> list[Tally]:
        """Tallies of a round, counted from the log."""
        return self.driver.ledger.tallies(id_)


@dataclass(frozen=True, slots=True)
class UnpublishedView(LedgerView):
    """A `StudyView` of a study that nobody has seen yet: users and budgets are the ledger's, the rest is here."""

    published: Bulletin
    started: Replay

    @property
    def bulletin(self) -> Bulletin:
        """Bulletin with the study alone."""
        return self.published

    @property
    def replay(self) -> Replay:
        """Its strategy, which has been asked for nothing but its first round."""
        return self.started


def _size_of(found: FirstEstimates) -> int:
    return _AN_ESTIMATE * (1 + len(found.records))


class Driver:
    """All studies of one ledger. Threads may call it at once; but one study is advanced by one at a time."""

    def __init__(self, ledger: Ledger, strategies: Strategies) -> None:
        self.ledger, self.strategies = ledger, strategies
        self.live = LiveTallies(ledger)
        self._live: dict[str, LiveRound] = {}
        self._replays: dict[str, Replay] = {}
        self._estimated = Remembered(self._estimate, _size_of, _MOST_ESTIMATED)
        self._learned: OrderedDict[str, Hypothesis] = OrderedDict()
        self._paused: dict[str, str] = {}
        self._told_by_queries: set[str] = set()
        """Studies whose strategy could not tell its estimates: it was said."""
        self._asked: dict[str, str] = {}
        """For each study the round that this process has published last."""

    def publish(self, study: StudySpec) -> str:
        """Publish a study and return its id. `advance` opens its first round."""
        check_study(study, self.strategies)
        id_ = study.digest()
        self.ledger.append(id_, Bulletin().next(StudyPublished(study=study)))
        return id_

    def open(self, study: StudySpec, now: int) -> str:
        """Publish a study with its first round, and return its id. One that would fail at once is not published.

        StrategyError or TooFewUsersError says why: on the bulletin it would be read by those who look there.
        """
        check_study(study, self.strategies)
        id_, first = study.digest(), Bulletin().next(StudyPublished(study=study))
        replay, published = self._started(study), Bulletin().append(first)
        replay.hear([first.notice])
        due = next_round(UnpublishedView(self, id_, now, published, replay))
        self.ledger.append(id_, first)
        self._replays[id_] = replay
        # From here on another process may be faster: then `advance` goes on from where that is.
        with suppress(StaleEntryError, NotOpenError):
            self._append(id_, published, due)
        return id_

    def advance(self, study_id: str, now: int) -> Waiting | Paused | Ended:
        """Do what is due and return what the study waits for. Calling it again changes nothing."""
        try:
            due, length = self._advance(study_id, now)
        except ProtocolError as error:
            # A round that cannot be read here, say: another version may read it.
            due, length = Paused(str(error)), 0
        match due:
            case Paused(reason):
                self._note(study_id, reason)
            case Waiting():
                self._note(study_id, self._difference(study_id, length))
            case Ended():
                self._note(study_id, None)
                self._replays.pop(study_id, None)
                self._asked.pop(study_id, None)
                self._live.pop(study_id, None)
        return due

    def paused(self, study_id: str) -> str | None:
        """Why a running study cannot go on with what is installed here, as far as is known; None if it can."""
        return self._paused.get(study_id)

    @property
    def paused_count(self) -> int:
        """Number of running studies that cannot go on here."""
        return len(self._paused)

    def _advance(self, study_id: str, now: int) -> tuple[Waiting | Paused | Ended, int]:
        """What the study waits for, and how many entries it has by then."""
        view = LedgerView(self, study_id, now)
        while True:
            bulletin = view.bulletin
            due = step(view)
            if isinstance(due, StudyEnded) and due.cause is Cause.STRATEGY and bulletin.rounds:
                due = self._second_opinion(view, due)
            if isinstance(due, Waiting | Paused | Ended):
                return due, bulletin.length
            # Another replica may do the same at the same time. Of two, one is late, and looks again.
            with suppress(StaleEntryError, NotOpenError):
                self._append(study_id, bulletin, due)

    def _difference(self, study_id: str, length: int) -> str | None:
        """Why the strategy cannot go on when the open round closes, if so: that is known before its users report.

        This is asked after every group of reports, so the strategy is replayed for new entries only.
        """
        replay = self._replays.get(study_id)
        try:
            return (replay if replay is not None and replay.heard >= length else self.replay(study_id)).difference
        except (ReplayError, ProtocolError) as error:
            return str(error)

    def _note(self, study_id: str, reason: str | None) -> None:
        """Keep why a study is paused, and say so in the log, once."""
        before = self._paused.pop(study_id, None)
        if reason is not None:
            self._paused[study_id] = reason
            if reason != before:
                _LOG.warning("study %s is paused: %s", study_id, reason)
        elif before is not None:
            _LOG.warning("study %s goes on", study_id)

    def _second_opinion(self, view: LedgerView, end: StudyEnded) -> DueNotice | Waiting | Paused | Ended:
        """What is due where a strategy seems to have failed on answers that users have given.

        To end a study is for good, so two things have to be sure. The code that fails is that which asked: then this
        very process has published the last round. And the failure is not one of the moment: the strategy is run once
        more from its beginning, and that counts.
        """
        rounds = view.bulletin.rounds
        if rounds and self._asked.get(view.id) != rounds[-1][0]:
            what = "another process asked the last round, perhaps with another version of the strategy"
            return Paused(f"{end.reason} ({what}: install the version that the study began with, or cancel it)")
        self._replays.pop(view.id, None)
        return step(view)

    def _append(self, study_id: str, bulletin: Bulletin, due: DueNotice) -> None:
        if isinstance(due, RoundClosed):
            # What came since `due` was worked out counts as well: the ledger counts when it closes.
            self.ledger.close_round(due.round, due.reason)
        else:
            after = self.ledger.append(study_id, bulletin.next(due))
            if isinstance(due, RoundPublished):
                self._asked[study_id] = after.rounds[-1][0]

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
        """Hypothesis of a finished study, from its bulletin; None if it has not finished.

        ReplayError, if version 0.1 ended it, whose entries have no hypothesis, and its strategy differs by now.
        """
        view = LedgerView(self, study_id, now=0)
        if view.bulletin.state is not StudyState.FINISHED:
            return None
        if (ended := view.end.hypothesis) is not None:
            return Hypothesis(ended.text, ended.value)
        learned = self._learned.get(study_id)
        if learned is None:
            learned = self._learned[study_id] = self._learn_again(study_id)
            if len(self._learned) > _REMEMBERED:
                self._learned.popitem(last=False)
        return learned

    def estimates(self, study_id: str) -> FirstEstimates:
        """First estimates of what was asked and answered so far, as the strategy tells them, where it can.

        They follow from the bulletin, so they are kept until it has another entry: pages and results ask for the same.
        """
        return self._estimated((study_id, self.ledger.bulletin(study_id).length))

    def _estimate(self, what: tuple[str, int]) -> FirstEstimates:
        study_id, length = what
        study = self.ledger.bulletin(study_id).study
        assert study is not None  # noqa: S101 - told the type checker: the first entry is the study
        return self._told(study, list(self._answered(study_id, length)))

    def moment(self, study_id: str) -> tuple[int, int, int]:
        """What changes whenever there is news of a study: its entries, and the reports of its last round, also told."""
        bulletin, told = self.ledger.bulletin(study_id), self.told(study_id)
        received = self.ledger.received(bulletin.rounds[-1][0]) if bulletin.rounds else 0
        return bulletin.length, received, 0 if told is None else told.reports

    def told(self, study_id: str) -> LiveRound | None:
        """What is told of the open round of a live study, by now; None where nothing is."""
        bulletin = self.ledger.bulletin(study_id)
        if bulletin.study is None or bulletin.study.live is None or bulletin.state in ENDED or not bulletin.rounds:
            return None
        id_ = bulletin.rounds[-1][0]
        tallies = self.live.of(id_)
        reports = sum(tally.received for tally in tallies)
        if not reports:
            return None
        known = self._live.get(study_id)
        if known is None or (known.round, known.reports) != (id_, reports):
            found = self._told(bulletin.study, [(self.ledger.round(id_), tallies)])
            known = self._live[study_id] = LiveRound(id_, reports, found.records, found.left_out)
        return known

    def _told(self, study: StudySpec, answered: list[AnsweredRound]) -> FirstEstimates:
        """Estimates as the strategy tells them; if it cannot, or is not here, as its queries do."""
        try:
            return first_estimates(study, self.strategies.get(study.strategy), answered, MOST_ESTIMATES)
        except StrategyError as error:
            # Each look would say so again, and anybody may look.
            if (id_ := study.digest()) not in self._told_by_queries:
                self._told_by_queries.add(id_)
                _LOG.warning("study %s: its estimates are told by its queries: %s", id_, error)
            return first_estimates(study, None, answered, MOST_ESTIMATES)

    def answered(self, id_: str) -> Sequence[Tally]:
        """Tallies of a round that is answered, off its bulletin: to count its reports again may take seconds."""
        study_id = self.ledger.round(id_).spec.study
        bulletin = self.ledger.bulletin(study_id)
        # Its answers come behind its own entry, which comes behind those of the rounds before it.
        after = [each for each, _ in bulletin.rounds].index(id_)
        return next(tallies for _, tallies in self._answered(study_id, bulletin.length, after, id_))

    def _answered(self, study_id: str, length: int, after: int = -1, of: str = "") -> Iterator[AnsweredRound]:
        """Rounds of a bulletin with their tallies; of one, only its own. Entries were read strictly when written."""
        while after + 1 < length:
            for entry in self.ledger.stored_entries(study_id, after, _PIECE):
                after = entry.sequence
                if of.encode() not in entry.body:
                    continue
                notice = json.loads(entry.body)["notice"]
                if notice["kind"] == "answers" and after < length:
                    yield self.ledger.round(notice["round"]), [Tally.of(rows) for rows in notice["tallies"]]

    def replay(self, study_id: str) -> Replay:
        """Replay of a study's strategy, caught up with the bulletin; ReplayError if the strategy is not installed."""
        replay = self._replays.get(study_id) or self._start(study_id)
        self._replays[study_id] = replay
        replay.hear(entry.notice for entry in self.ledger.entries(study_id, replay.heard - 1))
        return replay

    def _start(self, study_id: str, *, bare: bool = False) -> Replay:
        study = self.ledger.bulletin(study_id).study
        assert study is not None  # noqa: S101 - told the type checker: the first entry is the study
        return self._started(study, bare=bare)

    def _started(self, study: StudySpec, *, bare: bool = False) -> Replay:
        strategy = self.strategies.get(study.strategy)
        if strategy is None:
            raise ReplayError(f"the strategy {study.strategy!r} is not installed here")
        return Replay(study, strategy, self.ledger.round, bare)

    def _learn_again(self, study_id: str) -> Hypothesis:
        """Replay the whole study and compare the result with the one on the bulletin."""
        replay = self._start(study_id, bare=True)
        replay.hear(entry.notice for entry in self.ledger.entries(study_id))
        try:
            learned = replay.output
        except ReplayError:
            raise
        except StrategyError as error:
            raise ReplayError(f"the strategy fails where it had learned: {error.what}") from error
        # Of what it had learned the last entry has the text, and nothing else.
        if not isinstance(learned, Hypothesis) or (end := replay.ended) is None:
            raise ReplayError("the strategy goes on where it had learned")
        if replay.finished(learned).reason != end.reason:
            raise ReplayError("the strategy says something else than it had learned")
        return learned
