"""State of a study's strategy: computed from the bulletin, never stored.

A strategy is run from its beginning, is sent the answers that the published tallies give, and has to ask again what was
published; a strategy that does not is not the one that the users answered. `Replay` keeps the running strategy between
two looks at a bulletin, so that each answer is sent to it once: a process that has just started hears the bulletin from
its first entry, a process that goes on hears what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from askance_protocol.queries import CellQuery
from askance_protocol.rounds import (
    Cause,
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
from askance_server.core import planning
from askance_server.core.estimators import estimate
from askance_server.core.run import Run, StrategyError, readable
from askance_server.core.strategy import Answer, Ask, Hypothesis, Strategy


@dataclass(slots=True)
class Replay:
    """One study's strategy, run on the notices read so far."""

    study: StudySpec
    strategy: Strategy
    prepared: Callable[[str], PreparedRound]
    """Finds a published round by its id."""
    heard: int = 0
    """Number of notices heard: the next one is entry `heard` of the bulletin."""
    rounds: list[PreparedRound] = field(default_factory=list[PreparedRound])
    closed: list[RoundClosed] = field(default_factory=list[RoundClosed])
    answered: int = 0
    ended: StudyEnded | None = None
    _run: Run | None = None
    _output: tuple[Ask, ...] | Hypothesis = ()
    _failed: StrategyError | None = None

    def hear(self, notices: Iterable[Notice]) -> None:
        """Take in the next notice of the bulletin."""
        for notice in notices:
            match notice:
                case RoundPublished(round=spec):
                    self.rounds.append(self.prepared(spec.digest()))
                case RoundClosed():
                    self.closed.append(notice)
                case RoundAnswered():
                    self._answer(self.rounds[self.answered], notice)
                    self.answered += 1
                case StudyEnded():
                    self.ended = notice
                case _:
                    self._step(None)
            self.heard += 1

    @property
    def output(self) -> tuple[Ask, ...] | Hypothesis:
        """Next asks of the strategy, or its hypothesis; StrategyError if it failed."""
        if self._failed is not None:
            raise self._failed
        return self._output

    @property
    def first_free_slot(self) -> int:
        """The first slot of users that no round has taken."""
        cohorts = [round_.spec.cohort for round_ in self.rounds]
        return max((cohort.first_slot + cohort.slot_count for cohort in cohorts), default=0)

    def finished(self, learned: Hypothesis) -> StudyEnded:
        """Last entry of a study that has learned; it names the rounds that had fewer reports than planned."""
        short = [
            f"round {round_.spec.number} had {closed.received} of {round_.spec.target} reports"
            for round_, closed in zip(self.rounds, self.closed, strict=True)
            if closed.received < round_.spec.target
        ]
        note = readable(f" (fewer reports than planned: {'; '.join(short)})") if short else ""
        reason = (readable(learned.text) + note)[:2000]
        return StudyEnded(state="finished", reason=reason, cause=Cause.LEARNED)

    def _answer(self, round_: PreparedRound, notice: RoundAnswered) -> None:
        asked = [ask.query for ask in self._output] if isinstance(self._output, tuple) else []
        if self._failed is None and asked != [part.part.query for part in round_.parts]:
            what = f"the strategy asks something else in round {round_.spec.number} than was published"
            self._failed = StrategyError(what)
        self._step([answer_of(*pair) for pair in zip(round_.parts, notice.tallies, strict=True)])

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


def answer_of(part: PreparedPart, rows: tuple[tuple[int, ...], ...]) -> Answer:
    """Answer that a strategy is sent for one query: a float, or an array with a float for each cell."""
    values = estimate(part, Tally.of(rows)).values
    return values if isinstance(part.query.query, CellQuery) else float(values[0])
