"""State of a study's strategy: computed from the bulletin, never stored.

A strategy is run from its beginning, is sent the answers that the published tallies give, and has to ask again what was
published; a strategy that does not is not the one that the users answered. `Replay` keeps the running strategy between
two looks at a bulletin, so that each answer is sent to it once: a process that has just started hears the bulletin from
its first entry, a process that goes on hears what is new.

*A strategy that was improved* asks something else than before, and a study goes on as it began: where the first round
is not what the strategy asks, but what its former form asks, that one is run.

*Two kinds of failure.* What a strategy does wrong with answers that nobody has built on is its own failure, a
`StrategyError`: it ends its study. Where it does otherwise than the bulletin says that it did, the fault is not in the
study but in the code that is installed here: it was changed, or it does not do the same twice. That is a `ReplayError`,
and nothing follows from it: the study stands as it is, for the code that it began with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from askance_protocol.queries import CellQuery
from askance_protocol.rounds import (
    Cause,
    LearnedHypothesis,
    Notice,
    PreparedPart,
    PreparedRound,
    RoundAnswered,
    RoundClosed,
    RoundPublished,
    StudyEnded,
    StudySpec,
)
from askance_protocol.tally import Tally
from askance_protocol.text import counted
from askance_server.core import planning
from askance_server.core.adapted import adapted
from askance_server.core.estimates import estimates_of
from askance_server.core.estimators import estimated
from askance_server.core.run import Run, StrategyError, raised, readable
from askance_server.core.strategy import Answer, Ask, Estimating, Hypothesis, ReportedAnswers, Strategy


class ReplayError(StrategyError):
    """The strategy that is installed is not the one that the study began with."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy or "install the version that the study began with")


@dataclass(slots=True)
class Replay:
    """One study's strategy, run on the notices read so far."""

    study: StudySpec
    strategy: Strategy
    prepared: Callable[[str], PreparedRound]
    """Finds a published round by its id."""
    bare: bool = False
    """Whether the strategy gets answers without their intervals, as in version 0.1."""
    heard: int = 0
    """Number of notices heard: the next one is entry `heard` of the bulletin."""
    rounds: list[PreparedRound] = field(default_factory=list[PreparedRound])
    closed: list[RoundClosed] = field(default_factory=list[RoundClosed])
    answered: int = 0
    ended: StudyEnded | None = None
    _compared: int = 0
    """Number of rounds that were compared with what the strategy asks."""
    _former: Strategy | None = None
    """The form that the strategy had before, if it had one."""
    _run: Run | None = None
    _output: tuple[Ask, ...] | Hypothesis = ()
    _failed: StrategyError | None = None
    """Why the strategy is not asked any more. A ReplayError, if it is not the study's."""

    def hear(self, notices: Iterable[Notice]) -> None:
        """Take in the next notice of the bulletin."""
        for notice in notices:
            match notice:
                case RoundPublished(round=spec):
                    self.rounds.append(self.prepared(spec.digest()))
                    self._compare()
                case RoundClosed():
                    self.closed.append(notice)
                case RoundAnswered():
                    self._answer(self.rounds[self.answered], notice)
                    self._compare()
                case StudyEnded():
                    self.ended = notice
                case _:
                    self._begin()
            self.heard += 1

    @property
    def output(self) -> tuple[Ask, ...] | Hypothesis:
        """Next asks of the strategy, or its hypothesis.

        StrategyError if it failed; ReplayError if it differs from what was published.
        """
        if self._failed is not None:
            raise self._failed
        return self._output

    @property
    def difference(self) -> str | None:
        """What the strategy does otherwise than was published, if it does."""
        return str(self._failed) if isinstance(self._failed, ReplayError) else None

    @property
    def first_free_slot(self) -> int:
        """The first slot of users that no round has taken."""
        cohorts = [round_.spec.cohort for round_ in self.rounds]
        return max((cohort.first_slot + cohort.slot_count for cohort in cohorts), default=0)

    def finished(self, learned: Hypothesis) -> StudyEnded:
        """Last entry of a study that has learned; it names the rounds that had fewer reports than planned."""
        short = [
            f"round {round_.spec.number} had {closed.received:,} of {counted(round_.spec.target, 'report')}"
            for round_, closed in zip(self.rounds, self.closed, strict=True)
            if closed.received < round_.spec.target
        ]
        note = readable(f" (fewer reports than planned: {'; '.join(short)})") if short else ""
        reason = (readable(learned.text) + note)[:2000]
        published = LearnedHypothesis.of(learned.text, learned.value)
        return StudyEnded(state="finished", reason=reason, cause=Cause.LEARNED, hypothesis=published)

    def choose_form(self, first: PreparedRound) -> None:
        """Go on with the form that the strategy had before, where the first round is that one's."""
        if self.answered or self._former is None or self._asks(first):
            return
        before = Replay(self.study, self._former, self.prepared)
        before._begin()
        before.choose_form(first)
        if before._asks(first):
            self.strategy, self._run, self._output = before.strategy, before._run, before._output
            self._failed = None

    def _asks(self, published: PreparedRound) -> bool:
        """Whether the strategy asks what was published."""
        if self._failed is not None or isinstance(self._output, Hypothesis):
            return False
        return [ask.query for ask in self._output] == [part.part.query for part in published.parts]

    def _begin(self) -> None:
        """Start the strategy, unless it is not even about such examples."""
        self._former = self.strategy.former
        try:
            self.strategy = adapted(self.strategy, self.study)
            schema = self.strategy.schema(planning.strategy_parameters(self.study.parameters))
        except (Exception, SystemExit) as error:
            self._failed = ReplayError(f"the strategy has no schema for this study any more: {raised(error).what}")
            return
        if (schema, self.strategy.interactive) != (self.study.example, self.study.interactive):
            self._failed = ReplayError("the strategy is about other examples, or interactive where the study is not")
            return
        self._step(None)

    def _compare(self) -> None:
        """Compare what the strategy asks now with the round that was published, if it was: each round once."""
        if not self._compared == self.answered < len(self.rounds):
            return
        self._compared += 1
        published = self.rounds[self.answered]
        self.choose_form(published)
        if isinstance(self._failed, ReplayError):
            return
        where = f"in round {published.spec.number} than was published"
        if self._failed is not None:
            self._failed = ReplayError(f"the strategy does something else {where}: {self._failed.what}")
        elif isinstance(self._output, Hypothesis):
            self._failed = ReplayError(f"the strategy does something else {where}: it ends")
        elif not self._asks(published):
            self._failed = ReplayError(f"the strategy asks something else {where}")

    def _answer(self, round_: PreparedRound, notice: RoundAnswered) -> None:
        self.answered += 1
        answers = [answer_of(*pair) for pair in zip(round_.parts, notice.tallies, strict=True)]
        self._step(answers if self.bare else ReportedAnswers(answers, _estimating(round_, notice)))

    def _step(self, answers: Sequence[Answer] | None) -> None:
        """Run the strategy to its next asks, unless it has failed."""
        if self._failed is not None:
            return
        try:
            if self._run is None:
                self._run = Run(self.strategy, planning.strategy_parameters(self.study.parameters))
            self._output = self._run.step(answers)
        except StrategyError as error:
            self._failed = error


def _estimating(round_: PreparedRound, notice: RoundAnswered) -> Estimating:
    """How sure the answers of a round are, for a strategy that wants to know."""
    return partial(estimates_of, round_, [Tally.of(rows) for rows in notice.tallies])


def answer_of(part: PreparedPart, rows: tuple[tuple[int, ...], ...]) -> Answer:
    """Answer that a strategy is sent for one query: a float, or an array with a float for each cell."""
    values = estimated(part, Tally.of(rows))
    return values if isinstance(part.query.query, CellQuery) else float(values[0])
