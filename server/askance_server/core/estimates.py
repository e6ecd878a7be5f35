"""Estimates for people and programs: each question of a study by its name, with its interval and number of reports.

Everything here follows from what a bulletin holds: rounds, and the tallies that answer them. So whoever has the
bulletin gets the same records, whatever the strategy: the server in a result, a command in its table, and anybody who
verifies both. `estimators` says why the intervals hold.

A strategy may say more of its questions than their queries do (`Strategy.estimates`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from askance_protocol.queries import BooleanQuery, CellQuery, prepare
from askance_protocol.queries.notation import CUT, questions
from askance_protocol.rounds import PreparedPart, PreparedRound, StudySpec
from askance_protocol.tally import Tally
from askance_server.core import planning
from askance_server.core.estimators import Estimates, Sums, estimate, estimate_parts, unanswered
from askance_server.core.questions_each import factors_of, yes_cells
from askance_server.core.run import guarded
from askance_server.core.strategy import LEVEL, Estimate, Strategy, SumsOfCells

MOST_ESTIMATES: Final = 4096
"""Estimates that are told with a result: a study may have a million cells, and its bulletin has the tallies of all."""

_NO_SUMS: Final[Mapping[CellQuery, Sums]] = {}
AnsweredRound: TypeAlias = tuple[PreparedRound, Sequence[Tally]]
"""A round, and the tallies that answer it: one for each part."""


def estimates_of(
    round_: PreparedRound,
    tallies: Sequence[Tally],
    level: float = LEVEL,
    sums: SumsOfCells = _NO_SUMS,
    *,
    vacuous: bool = False,
    most: int | None = None,
) -> list[Estimate]:
    """Estimate each question of a round, and each cell or sum of cells; without those that nobody has reported on.

    Or, `vacuous`, with all that these can be for an interval. `most`: the first of them, and no work for the others.
    """
    return _of_rounds([(round_, tallies)], level, sums, vacuous=vacuous, most=most)


def _of_rounds(
    rounds: Sequence[AnsweredRound], level: float, sums: SumsOfCells, *, vacuous: bool, most: int | None
) -> list[Estimate]:
    """As `estimates_of`, of one round after the other: the intervals of all that have one number in one go."""
    pairs = [
        (part, tally, f"round {round_.spec.number}, part {number}")
        for round_, tallies in rounds
        for number, (part, tally) in enumerate(zip(round_.parts, tallies, strict=True))
        if vacuous or tally.received
    ]
    found, known = list[Estimate](), _of_single([(part, tally) for part, tally, _ in pairs[:most]], level)
    for place, (part, tally, where) in enumerate(pairs):
        room = None if most is None else most - len(found)
        if room == 0:
            break
        found += _of_part(part, tally, level, sums, where, room, known.get(place))
    return found


def _of_single(pairs: Sequence[tuple[PreparedPart, Tally]], level: float) -> Mapping[int, Estimates]:
    """Estimates of the parts that have one number and reports, by their place."""
    places = [
        place
        for place, (part, tally) in enumerate(pairs)
        if tally.received and not isinstance(part.query.query, CellQuery)
    ]
    chosen = [pairs[place] for place in places]
    found = estimate_parts([part for part, _ in chosen], [tally for _, tally in chosen], level)
    return dict(zip(places, found, strict=True))


def count_of(round_: PreparedRound, tallies: Sequence[Tally], *, vacuous: bool = False) -> int:
    """Number of estimates of a round: counted, and none of them made."""
    pairs = zip(round_.parts, tallies, strict=True)
    return sum(_count_of_part(part) for part, tally in pairs if tally.received or vacuous)


def _count_of_part(part: PreparedPart) -> int:
    query = part.query.query
    if not isinstance(query, CellQuery):
        return 1
    return len(() if part.pooled else factors_of(query)) or query.cells


def _of_part(
    part: PreparedPart,
    tally: Tally,
    level: float,
    sums: SumsOfCells,
    where: str,
    most: int | None = None,
    found: Estimates | None = None,
) -> list[Estimate]:
    """Estimates of one part, as they were found together with those of others, or are found here."""
    query = part.query.query
    if isinstance(query, CellQuery) and not part.pooled and query not in sums and (tests := factors_of(query)):
        return _of_tests(part, tally, level, query, tests, where)[:most]
    mine: Sums = sums.get(query, ()) if isinstance(query, CellQuery) else ()
    # Once for all cells: a tally may have as many rows as the query has cells.
    received, asked = tally.received, questions(part.query)
    if found is None:
        found = estimate(part, tally, level, mine, most) if received else unanswered(part, level, mine)
    # An unbiased estimate of a share may lie below 0: the record's is the number of its interval that is next to it.
    values = found.values.clip(found.low, found.high)
    told = asked.told(np.stack([values, found.low, found.high])[:, :most]).tolist()
    records = list[Estimate]()
    for number, (value, *ends) in enumerate(zip(*told, strict=True)):
        low, high = sorted(ends)
        name = asked.name(number) if not mine else " + ".join(map(asked.name, mine[number]))
        # Of a name that was cut there may be several.
        name = f"{name} ({where})" if CUT in name else name
        records.append(Estimate(name, value, low, high, level, received))
    return records


def _of_tests(
    part: PreparedPart, tally: Tally, level: float, query: CellQuery, tests: Sequence[BooleanQuery], where: str
) -> list[Estimate]:
    """Estimates of yes/no questions that one report answers together: each by its own name."""
    sums = dict.fromkeys((query,), yes_cells(len(tests)))
    joint = _of_part(part, tally, level, sums, where)
    names = [questions(prepare(test, part.query.schema)).name(0) for test in tests]
    names = [f"{name} ({where})" if CUT in name else name for name in names]
    return [replace(each, name=name) for each, name in zip(joint, names, strict=True)]


@dataclass(frozen=True, slots=True)
class FirstEstimates:
    """The first estimates of a study, and the number of the others."""

    records: list[Estimate]
    left_out: int


def study_estimates(
    study: StudySpec, strategy: Strategy | None, answered: Iterable[AnsweredRound], *, vacuous: bool = False
) -> list[Estimate]:
    """Estimate all that was asked and answered in a study, as its strategy tells it; None: told by its queries.

    `vacuous`: also what nobody has reported on yet. StrategyError if the strategy cannot.
    """
    return first_estimates(study, strategy, answered, None, vacuous=vacuous).records


def first_estimates(
    study: StudySpec,
    strategy: Strategy | None,
    answered: Iterable[AnsweredRound],
    most: int | None,
    *,
    vacuous: bool = False,
) -> FirstEstimates:
    """As `study_estimates`, at most so many. What only counts is not estimated, unless the strategy tells it."""
    rounds = list(answered)

    def at(level: float, sums: SumsOfCells = _NO_SUMS, /) -> list[Estimate]:
        return _of_rounds(rounds, level, sums, vacuous=True, most=None)

    reports = planning.reports_in(study.parameters)
    told = None if strategy is None else guarded(strategy.on(study.example, reports)).estimates
    if told is not None and rounds:
        # A strategy knows its questions by their order: it gets each, and what nobody answered is left out here.
        every = told(planning.strategy_parameters(study.parameters), at)
        shown = [each for each in every if each.reports or vacuous]
        return FirstEstimates(shown[:most], len(shown) - len(shown[:most]))
    # Before the first answers there is nothing to tell, and no strategy has to be ready for that.
    found = _of_rounds(rounds, LEVEL, _NO_SUMS, vacuous=vacuous, most=most)
    count = len(found) if most is None else sum(count_of(*answers, vacuous=vacuous) for answers in rounds)
    return FirstEstimates(found, count - len(found))
