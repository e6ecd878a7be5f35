"""Verification: whether what is published of a study follows, entry by entry, from its strategy and its tallies.

Theory of operation
-------------------
Whoever holds a bulletin holds everything that a study was: nothing on it was decided by anything else but the budgets
of users, the clock and the operator. So the same pure functions that made it say whether it can be true:

- the chain (`Bulletin`): each entry carries the digest of the one before, and only that may follow which the tables of
  life cycles allow. The id of a study is the digest of its document; that of a round, of its own.
- what is asked (`Replay`, `asked`): the strategy is run from its beginning. It has to ask what was published, by the
  channels, at the price and for as many reports as the plan says; the cohort begins where the last one ended.
- what was answered (`step`): a round closes with its reports or at its deadline; its tallies have the shape of its
  parts, and add up to the reports with which it closed.
- what was learned: the strategy, sent the estimates made of these tallies, has to return the hypothesis.

*What cannot be told from a bulletin alone.* Who could still pay, and so how large a cohort had to be, or that too few
were left; when an operator closed or cancelled; and whether the tallies are those of the reports. Somebody who makes a
whole history anew, with other tallies and all that follows from them, has made another history: its head is another
one. So the head is compared: with that in a wallet, or with what somebody else has read.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np

from askance_protocol.errors import AskanceError, Code, ProtocolError
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.rounds import (
    Bulletin,
    Cause,
    Entry,
    LearnedHypothesis,
    PreparedRound,
    RoundAnswered,
    RoundClosed,
    RoundPublished,
    RoundState,
    StudyEnded,
    StudyPublished,
    StudySpec,
    prepare_round,
)
from askance_protocol.tally import Tally
from askance_protocol.text import counted
from askance_server.core import planning
from askance_server.core.replay import Replay, ReplayError
from askance_server.core.run import StrategyError, readable
from askance_server.core.strategy import Hypothesis
from askance_server.core.study import Strategies, asked, check_study, step, strategy_named

NEAR: Final = 1e-9
"""By how much numbers may differ that were computed by the same formulas on another machine."""


class VerificationError(AskanceError):
    """Something that was published does not follow; names the entry or the file."""

    code = Code.CHECK_FAILED


class NotInstalledError(AskanceError):
    """The study's strategy is not here, and so nobody can say what follows. That is no fault of the study."""

    code = Code.NOT_FOUND


@dataclass(slots=True)
class VerifiedStudy:
    """What is known of a study after its entries so far: a `StudyView` in which nothing is decided any more."""

    strategies: Strategies
    entries: list[Entry] = field(default_factory=list[Entry])
    bulletin: Bulletin = field(default_factory=Bulletin)
    rounds: dict[str, PreparedRound] = field(default_factory=dict[str, PreparedRound])
    closed: dict[str, RoundClosed] = field(default_factory=dict[str, RoundClosed])
    answered: dict[str, Sequence[Tally]] = field(default_factory=dict[str, "Sequence[Tally]"])
    ended: StudyEnded | None = None
    now: int = 0
    enrolled: int = 0
    _replay: Replay | None = None

    @property
    def study(self) -> StudySpec:
        """The study, from the first entry."""
        assert self.bulletin.study is not None  # noqa: S101 - told the type checker: asked after the first entry
        return self.bulletin.study

    @property
    def replay(self) -> Replay:
        """Replay of its strategy over the entries so far."""
        assert self._replay is not None  # noqa: S101 - told the type checker: asked after the first entry
        return self._replay

    @property
    def end(self) -> StudyEnded:
        """Last entry of a study that has ended."""
        assert self.ended is not None  # noqa: S101 - told the type checker: asked of ended studies only
        return self.ended

    def payers(self, charge: int) -> planning.Slots:  # noqa: ARG002 - budgets are not public
        """Nobody knows who could pay; nothing here asks."""
        return np.zeros(planning.SLOTS, np.int64)

    def round(self, id_: str) -> PreparedRound:
        """A published round, prepared."""
        return self.rounds[id_]

    def received(self, id_: str) -> int:
        """Number of reports that a round closed with."""
        return self.closed[id_].received

    def tallies(self, id_: str) -> Sequence[Tally]:
        """The published tallies of a round."""
        return self.answered[id_]

    def append(self, entry: Entry) -> None:
        """Take in the next entry; VerificationError if it does not follow."""
        notice = entry.notice
        if isinstance(notice, StudyPublished) and notice.study.strategy not in self.strategies:
            name = notice.study.strategy
            raise NotInstalledError(f"the strategy {name!r} is not installed here", remedy="install its package")
        with refusals_at(f"entry {len(self.entries)} ({notice.kind})"):
            after = self.bulletin.append(entry)
            match notice:
                case StudyPublished(study=study):
                    check_study(study, self.strategies)
                    self._replay = Replay(study, strategy_named(self.strategies, study.strategy), self.round)
                case RoundPublished(round=spec):
                    round_ = prepare_round(self.study, spec)
                    self._check_asked(round_)
                    self.rounds[round_.id] = round_
                case RoundClosed():
                    self._check_closed(notice)
                case RoundAnswered():
                    self._check_answered(notice)
                case StudyEnded():
                    self._check_ended(notice)
                    self.ended = notice
            self.replay.hear([notice])
            if self.replay.difference is not None:
                raise VerificationError(self.replay.difference)
            self.entries.append(entry)
            self.bulletin = after

    def _check_asked(self, round_: PreparedRound) -> None:
        """Whether the strategy asks this round, and the plan makes it so."""
        self.replay.choose_form(round_)
        output, spec = self.replay.output, round_.spec
        if isinstance(output, Hypothesis):
            raise VerificationError("the strategy asks nothing more here: it has learned")
        demand = asked(self.replay, self.bulletin.state, output)
        if [part.channel for part in spec.parts] != [part.channel for part in demand.parts]:
            # A round of a version that planned each ask by one bit.
            demand = asked(self.replay, self.bulletin.state, planning.as_before(output))
        if len(spec.parts) != len(demand.parts):
            raise VerificationError(
                f"has {counted(len(spec.parts), 'part')}, and the strategy asks {len(demand.parts):,}"
            )
        for number, (part, due) in enumerate(zip(spec.parts, demand.parts, strict=True)):
            for what in ("query", "channel", "charge", "share"):
                if getattr(part, what) != getattr(due, what):
                    raise VerificationError("is not the one that the plan has for it", where=f"parts[{number}].{what}")
        cohort = spec.cohort
        if (cohort.first_user, cohort.slots, cohort.first_slot) != (0, planning.SLOTS, self.replay.first_free_slot):
            raise VerificationError("does not begin where the rounds before have ended", where="cohort")
        users = planning.terms_of(self.study.parameters).users
        planned = demand.target if users == "needed" else spec.target if users == "all" else users
        if spec.target != planned or spec.target > cohort.users:
            what = f"waits for {counted(spec.target, 'report')} of {counted(cohort.users, 'user')}"
            raise VerificationError(f"{what}, and the plan for {planned}", where="target")

    def _check_closed(self, notice: RoundClosed) -> None:
        """Whether the round could close so."""
        spec = self.rounds[notice.round].spec
        if notice.received > spec.cohort.users:
            raise VerificationError(
                f"{counted(notice.received, 'report')} of {counted(spec.cohort.users, 'user')}", where="received"
            )
        self.closed[notice.round] = notice
        # At its deadline, or by the operator, it closes with what came by then: how many that is tells nothing.
        if notice.reason == "target" and step(self) != notice:
            raise VerificationError(f"closed as complete with {notice.received} of {spec.target}", where="received")

    def _check_answered(self, notice: RoundAnswered) -> None:
        """Whether the tallies are of this round, and add up."""
        round_, received = self.rounds[notice.round], self.closed[notice.round].received
        shapes = list(zip(round_.rows, round_.limits, strict=True))
        if [(len(rows), *{len(row) for row in rows}) for rows in notice.tallies] != shapes:
            raise VerificationError("have not the parts, rows and outcomes of their round", where="tallies")
        self.answered[notice.round] = [Tally.of(rows) for rows in notice.tallies]
        if (found := sum(tally.received for tally in self.answered[notice.round])) != received:
            what = f"add up to {counted(found, 'report')}; the round closed with {received:,}"
            raise VerificationError(what, where="tallies")
        if step(self) != notice:
            raise VerificationError("have a part that nobody has answered", where="tallies")

    def _check_ended(self, notice: StudyEnded) -> None:
        """Whether the study could end so."""
        state = self.bulletin.rounds[-1][1] if self.bulletin.rounds else None
        match notice.cause:
            case Cause.CANCELLED | None:
                return  # Whenever the operator likes; and of what version 0.1 ended, the last entry has no hypothesis.
            case Cause.TOO_FEW_REPORTS:
                if state is not RoundState.CLOSED:
                    raise VerificationError("no round was closed that had too few reports", where="cause")
            case Cause.LEARNED | Cause.STRATEGY | Cause.TOO_FEW_USERS:
                if state not in {RoundState.ANSWERED, None}:
                    raise VerificationError("the last round has not been answered", where="cause")
                self._check_outcome(notice)

    def _check_outcome(self, notice: StudyEnded) -> None:
        """Whether the strategy ends so, on the answers that it was sent."""
        try:
            output = self.replay.output
            if not isinstance(output, Hypothesis):
                asked(self.replay, self.bulletin.state, output)
        except ReplayError:
            raise
        except StrategyError as error:
            if notice.cause is not Cause.STRATEGY or notice.reason != readable(str(error)):
                raise VerificationError(f"the strategy fails here: {error}", where="cause") from None
            return
        if not isinstance(output, Hypothesis):
            if notice.cause is not Cause.TOO_FEW_USERS:
                raise VerificationError("the strategy asks more before it ends", where="cause")
            return
        due = self.replay.finished(output)
        if notice.cause is not Cause.LEARNED or notice.reason != due.reason:
            raise VerificationError("the strategy ends otherwise, or for another reason", where="reason")
        if notice.hypothesis is None or due.hypothesis is None or notice.hypothesis.text != due.hypothesis.text:
            raise VerificationError("is not the one that these tallies lead to", where="hypothesis.text")
        value = notice.hypothesis.value
        if LearnedHypothesis.of("", value).data != notice.hypothesis.data:
            raise VerificationError("is not written in its canonical form", where="hypothesis.data")
        if not same(dict(value), dict(due.hypothesis.value)):
            raise VerificationError("is not the one that these tallies lead to", where="hypothesis.data")


def verify_bulletin(entries: Sequence[Entry], strategies: Strategies, tell: Tell = tell_nobody) -> VerifiedStudy:
    """Verify a whole bulletin, or the first entries of one; VerificationError names the first that does not follow."""
    study, part = VerifiedStudy(strategies), "verifying entries"
    tell(part, 0, len(entries))
    for number, entry in enumerate(entries, 1):
        study.append(entry)
        tell(part, number, len(entries))
    return study


@contextmanager
def refusals_at(where: str) -> Generator[None]:
    """Name the entry or the file of whatever is refused inside."""
    try:
        yield
    except (ProtocolError, StrategyError, VerificationError) as error:
        inner = ": ".join(part for part in (where, error.where) if part)
        raise VerificationError(error.what, where=inner) from None


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same, where fractions may differ as those of two machines do."""
    kind, kind_of_other = cast("tuple[object, object]", (type(one), type(other)))
    if kind is not kind_of_other:
        return False
    if kind is dict:
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if kind is list:
        return len(one) == len(other) and all(map(same, one, other))
    return math.isclose(one, other, rel_tol=NEAR, abs_tol=NEAR) if kind is float else bool(one == other)
