"""What holds together fails together: a probability of failure is shared by all the intervals that are told as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

from askance_protocol.queries import CellQuery
from askance_protocol.queries.telemetry import compile_question
from askance_protocol.schema import CategoryField, IntegerField, Schema
from askance_server.core.strategy import LEVEL, Estimate, Strategy, SumsOfCells, estimates_in
from askance_server.strategies import heavy_hitters, histogram, quantile
from askance_server.strategies.former import kmeans as former_kmeans
from askance_server.strategies.registry import registry
from askance_server.strategies.shared import centres, checked, ordering, poll_questions
from askance_server.strategies.shared.survey_answers import estimates_table, quotient_interval
from askance_server.strategies.shared.survey_asks import row_failure
from askance_server.strategies.shared.survey_groups import Group
from tests.server.core.test_estimates import finished

NO_SUMS: Final[SumsOfCells] = {}
FAILS: Final = 1 - LEVEL


@dataclass
class Levels:
    """Intervals of some values, the wider the surer they have to be; it remembers how sure that was."""

    values: Sequence[float]
    asked: list[float] = field(default_factory=list[float])

    def __call__(self, level: float, _: SumsOfCells = NO_SUMS) -> list[Estimate]:
        self.asked.append(level)
        return [Estimate("", each, each - reach(level), each + reach(level), level, 10) for each in self.values]


def reach(level: float) -> float:
    """Half the width of an interval at this level."""
    return -0.01 * math.log(1 - level)


# ------------------------------------------------------------------------------------------------------- the quotients

COLUMNS: Final = Schema(
    fields=(
        IntegerField(name="first", low=0, high=120, gap=True),
        CategoryField(name="plan", values=("free", "pro", "team")),
        IntegerField(name="whole", low=0, high=9),
        IntegerField(name="last", low=-3, high=60, gap=True),
    )
)
ASKS: Final = "mean(first)", "share(plan)", "mean(whole)", "share(plan = 'pro')", "mean(last)"
QUESTIONS: Final = [compile_question(text, COLUMNS) for text in ASKS]


@pytest.mark.parametrize("simultaneous", [False, True])
def test_the_two_queries_of_a_quotient_share_its_failure_wherever_it_stands(simultaneous: bool) -> None:
    groups = [Group((query,)) for question in QUESTIONS for query in question.queries]
    # A numerator is far below its denominator, so that no end is cut off where the range ends.
    values = [
        (0.2, 0.8)[place] + 0.001 * at
        for at, question in enumerate(QUESTIONS)
        for place, query in enumerate(question.queries)
        for _ in range(query.cells if isinstance(query, CellQuery) else 1)
    ]
    failure = row_failure(QUESTIONS, simultaneous=simultaneous)
    rows = list(estimates_table(QUESTIONS, groups, Levels(values), failure))
    at, row, quotients = 0, 0, 0
    for question in QUESTIONS:
        told = rows[row : row + len(question.names)]
        row += len(told)
        if len(question.queries) == 2:
            quotients += 1
            # Together they fail as often as one interval may.
            two_thirds, third = reach(1 - failure * 2 / 3), reach(1 - failure / 3)
            of, by = values[at], values[at + 1]
            ends = quotient_interval((of - two_thirds, of + two_thirds), (by - third, by + third))
            at += 2
            low, high = float(question.low), float(question.high)
            expected = [low + (high - low) * (end + 1) / 2 for end in ends]
            assert [told[0].low, told[0].high] == pytest.approx(expected, abs=1e-9)
            assert -1 < ends[0] < ends[1] < 1
            continue
        for each in told:
            assert each.high - each.estimate == pytest.approx(reach(1 - failure), abs=1e-9)
            assert each.estimate == pytest.approx(values[at])
            at += 1

    assert (at, row, quotients) == (len(values), len(rows), 2)
    assert failure == pytest.approx(FAILS / (len(rows) if simultaneous else 1))


def test_a_centre_is_a_quotient_too_whose_two_parts_share_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    fails = list[float]()
    interval = centres.share_interval

    def told(successes: float, throws: int, failure: float) -> tuple[float, float]:
        fails.append(failure)
        return interval(successes, throws, failure)

    monkeypatch.setattr(centres, "share_interval", told)
    d, k, rows = 2, 3, centres.together(3)
    levels = Levels([0.4] * k + [0.1] * (rows * d))
    found = centres.centre_estimates(levels, k, d, 0, scale=2)

    assert len(found) == k * d
    assert fails == pytest.approx([FAILS * 2 / 3] * (k * d))
    assert levels.asked == [LEVEL, pytest.approx(1 - FAILS / 3)]

    former = Levels([0.4] * (k + k * d))
    assert len(former_kmeans.centre_estimates(former, k, d, 0)) == k * d
    assert former.asked == [pytest.approx(1 - FAILS * 2 / 3), pytest.approx(1 - FAILS / 3)]


def test_all_the_cells_of_a_poll_share_their_failure() -> None:
    example = Schema(fields=(IntegerField(name="answer", low=1, high=5, gap=True),))
    found = poll_questions.cells_of(poll_questions.field_of(example), example)
    assert found is not None
    cells = len(found[1])
    levels = Levels([0.2] * (1 + cells))
    told = poll_questions.estimates_of(example, levels)

    assert levels.asked == [LEVEL, pytest.approx(1 - FAILS / cells)]
    assert {each.level for each in told} == {LEVEL}
    assert [each.high - each.estimate for each in told[-cells:]] == pytest.approx([reach(1 - FAILS / cells)] * cells)


# ---------------------------------------------------------------------------------------------- the union over a study


def failing(strategy: Strategy, module: Any, monkeypatch: pytest.MonkeyPatch) -> float:
    """With what probability one of the intervals of a whole study fails at most, of those that hold together."""
    together = list[float]()

    def told(answers: Any, level: float | None = None) -> Sequence[Estimate]:
        if level is None:
            return estimates_in(answers)
        found = estimates_in(answers, level)
        together.append((1 - level) * len(found))
        return found

    monkeypatch.setattr(module, "estimates_in", told)
    finished(strategy)
    return sum(together)


STRATEGIES: Final = registry()
STUDIES: Final[dict[str, tuple[Strategy, Any]]] = {
    "histogram": (STRATEGIES["histogram"], histogram),
    "heavy hitters": (replace(STRATEGIES["heavy-hitters"], small={"d": 12, "share": "0.2"}), heavy_hitters),
    "quantile": (replace(STRATEGIES["quantile"], small={"cells": 64}), quantile),
    "conjunction, checked": (STRATEGIES["conjunction-checked"], checked),
    "conjunction, in order": (STRATEGIES["conjunction-checked"], ordering),
    "decision list": (STRATEGIES["decision-list-checked"], checked),
    "decision tree": (STRATEGIES["decision-tree-checked"], checked),
}


@pytest.mark.parametrize("study", STUDIES)
def test_all_intervals_of_a_study_that_hold_together_fail_together_as_often_as_one_may(
    study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = failing(*STUDIES[study], monkeypatch)

    assert 0 < fails <= FAILS * (1 + 1e-9)


@pytest.mark.parametrize("study", STUDIES)
def test_control_intervals_that_share_nothing_are_found(study: str, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, module = STUDIES[study]
    fails = failing(strategy, module, monkeypatch)
    monkeypatch.undo()
    # Whatever a level is divided by, this one leaves as it is.
    monkeypatch.setattr(module, "LEVEL", type("Undivided", (float,), {"__rsub__": lambda *_: Undivided(FAILS)})(LEVEL))

    assert failing(strategy, module, monkeypatch) > FAILS * (1 + 1e-9) >= fails


class Undivided(float):
    """A probability that stays as it is, whatever it is divided by."""

    def __truediv__(self, _: float) -> float:
        return float(self)
