"""Where a study's strategy stands: worked out anew from the bulletin, never stored.

A strategy is run from its beginning, is sent the answers that the stored tallies give, and has to ask again what was
published; a strategy that does not is not the one that the users answered.
"""

from __future__ import annotations

from dataclasses import dataclass

from askance_protocol.queries import CellQuery
from askance_protocol.rounds import (
    PreparedPart,
    PreparedRound,
    RoundAnswered,
    RoundClosed,
    RoundPublished,
    StudyEnded,
    StudyPublished,
    StudySpec,
    StudyState,
)
from askance_protocol.tally import Tally
from askance_server.core import planning
from askance_server.core.estimators import estimate
from askance_server.core.run import Run, StrategyError, readable
from askance_server.core.strategy import Answer, Ask, Hypothesis, Strategy
from askance_server.ledger.base import Ledger


@dataclass(frozen=True, slots=True)
class Record:
    """What a study's bulletin says."""

    study: StudySpec
    state: StudyState
    rounds: tuple[PreparedRound, ...]
    closed: tuple[RoundClosed, ...]
    answered: tuple[RoundAnswered, ...]
    ended: StudyEnded | None

    @classmethod
    def of(cls, ledger: Ledger, study_id: str) -> Record:
        """Read it from the ledger."""
        notices = [entry.notice for entry in ledger.entries(study_id)]
        [study] = [notice.study for notice in notices if isinstance(notice, StudyPublished)]
        rounds = tuple(ledger.round(n.round.digest()) for n in notices if isinstance(n, RoundPublished))
        closed = tuple(n for n in notices if isinstance(n, RoundClosed))
        answered = tuple(n for n in notices if isinstance(n, RoundAnswered))
        ended = next((n for n in notices if isinstance(n, StudyEnded)), None)
        return cls(study, ledger.bulletin(study_id).state, rounds, closed, answered, ended)

    @property
    def first_slot(self) -> int:
        """The first slot that no round has taken."""
        cohorts = [round_.spec.cohort for round_ in self.rounds]
        return max((cohort.first_slot + cohort.slot_count for cohort in cohorts), default=0)

    def finished(self, learned: Hypothesis) -> StudyEnded:
        """The last entry: what was learned, and from which rounds of too few reports."""
        short = [
            f"round {round_.spec.number} had {closed.received} of {round_.spec.target} reports"
            for round_, closed in zip(self.rounds, self.closed, strict=True)
            if closed.received < round_.spec.target
        ]
        note = readable(f" (fewer reports than planned: {'; '.join(short)})") if short else ""
        return StudyEnded(state="finished", reason=(readable(learned.text) + note)[:2000])


def replay(record: Record, strategy: Strategy) -> tuple[Ask, ...] | Hypothesis:
    """What a strategy says after the answers that its study has had, or StrategyError."""
    run = Run(strategy, planning.strategy_parameters(record.study.parameters))
    said = run.step(None)
    # One round after the other, so the answered ones are the first.
    for round_, notice in zip(record.rounds, record.answered, strict=False):
        asked = [ask.query for ask in said] if not isinstance(said, Hypothesis) else []
        if asked != [part.part.query for part in round_.parts]:
            raise StrategyError(f"the strategy asks something else in round {round_.spec.number} than was published")
        said = run.step([_answer(*pair) for pair in zip(round_.parts, notice.tallies, strict=True)])
    return said


def _answer(part: PreparedPart, rows: tuple[tuple[int, ...], ...]) -> Answer:
    """A float, or an array of one for each cell."""
    values = estimate(part, Tally.of(rows)).values
    return values if isinstance(part.query.query, CellQuery) else float(values[0])
