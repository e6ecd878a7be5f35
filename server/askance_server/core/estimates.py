"""Estimates for people and programs: each question of a study by its name, with its interval and number of reports.

Everything here follows from what a bulletin holds: rounds, and the tallies that answer them. So whoever has the
bulletin gets the same records, whatever the strategy: the server in a result, a command in its table, and anybody who
verifies both. `estimators` says why the intervals hold.

A strategy may say more of its questions than their queries do (`Strategy.estimates`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from askance_protocol.queries import BooleanQuery, CellQuery, prepare
from askance_protocol.queries.notation import CUT, questions
from askance_protocol.rounds import PreparedPart, PreparedRound, StudySpec
from askance_protocol.tally import Tally
from askance_server.core import planning
from askance_server.core.estimators import Sums, estimate, unanswered
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
) -> list[Estimate]:
    """Estimate each question of a round, and each cell or sum of cells; without those that nobody has reported on.

    Or, `vacuous`, with all that these can be for an interval.
    """
    return [
        each
        for number, (part, tally) in enumerate(zip(round_.parts, tallies, strict=True))
        if tally.received or vacuous
        for each in _of_part(part, tally, level, sums, f"round {round_.spec.number}, part {number}")
    ]


def _of_part(part: PreparedPart, tally: Tally, level: float, sums: SumsOfCells, where: str) -> list[Estimate]:
    query = part.query.query
    if isinstance(query, CellQuery) and not part.pooled and query not in sums and (tests := factors_of(query)):
        return _of_tests(part, tally, level, query, tests, where)
    mine: Sums = sums.get(query, ()) if isinstance(query, CellQuery) else ()
    asked = questions(part.query)
    found = estimate(part, tally, level, mine) if tally.received else unanswered(part, level, mine)
    # An unbiased estimate of a share may lie below 0: the record's is the number of its interval that is next to it.
    values = found.values.clip(found.low, found.high)
    columns = zip(values.tolist(), found.low.tolist(), found.high.tolist(), strict=True)
    records = list[Estimate]()
    for number, (value, *ends) in enumerate(columns):
        low, high = sorted(map(asked.told, ends))
        name = asked.name(number) if not mine else " + ".join(map(asked.name, mine[number]))
        # Of a name that was cut there may be several.
        name = f"{name} ({where})" if CUT in name else name
        records.append(Estimate(name, asked.told(value), low, high, level, tally.received))
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


def study_estimates(
    study: StudySpec, strategy: Strategy | None, answered: Iterable[AnsweredRound], *, vacuous: bool = False
) -> list[Estimate]:
    """Estimate all that was asked and answered in a study, as its strategy tells it; None: told by its queries.

    `vacuous`: also what nobody has reported on yet. StrategyError if the strategy cannot.
    """
    rounds = list(answered)

    def at(level: float, sums: SumsOfCells = _NO_SUMS, /, *, every: bool = True) -> list[Estimate]:
        return [each for answers in rounds for each in estimates_of(*answers, level, sums, vacuous=every)]

    reports = planning.reports_in(study.parameters)
    told = None if strategy is None else guarded(strategy.on(study.example, reports)).estimates
    if told is None or not rounds:
        # Before the first answers there is nothing to tell, and no strategy has to be ready for that.
        return at(LEVEL, every=vacuous)
    # A strategy knows its questions by their order: it gets each of them, and what nobody answered is left out here.
    found = told(planning.strategy_parameters(study.parameters), at)
    return [each for each in found if each.reports or vacuous]
