"""Quantiles, in rounds and at once: their ranks, against the worst answers within tolerance and over users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from askance_lab.data.made_up import made_up
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.shared.oracle import run as learned_by
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.schema import BitsField, CategoryField, IntegerField, RealField, Schema
from askance_server.core.strategy import Learnt, Strategy
from askance_server.strategies.quantile import QUANTILE, ROUNDS
from askance_server.strategies.quantile_at_once import QUANTILE_AT_ONCE, halves, shares_of, worst_sum
from askance_server.strategies.shared.quantiles import Target
from tests.server.learners import Lie, learn, shares, value_of

BOTH = pytest.mark.parametrize("strategy", [QUANTILE, QUANTILE_AT_ONCE], ids=["rounds", "at-once"])
LIES: dict[str, Lie] = {
    "up": lambda _: 1.0,
    "down": lambda _: -1.0,
    "in turns": lambda k: (-1.0) ** k,
}


def of_cells(values: np.ndarray, cells: int) -> Columns:
    return Columns.of(QUANTILE.schema({"cells": cells}), {"cell": values})


def rank_error(values: np.ndarray, found: int, q: float) -> float:
    """How far the ranks of this value are from q, from the definition."""
    below, at_most = (values < found).mean(), (values <= found).mean()
    return max(below - q, q - at_most, 0.0)


POPULATIONS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "uniform": lambda source, cells: source.integers(0, cells, 400),
    "one atom": lambda source, cells: np.full(400, cells // 3),
    "two ends": lambda source, cells: np.repeat([0, cells - 1], 200),
    "skewed": lambda source, cells: np.minimum(source.geometric(0.1, 400) - 1, cells - 1),
}


@BOTH
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
@pytest.mark.parametrize("made", POPULATIONS.values(), ids=POPULATIONS)
@pytest.mark.parametrize("cells", [2, 3, 64, 100])
@pytest.mark.parametrize("q", ["0.5", "0.9", "0.03"])
def test_its_rank_is_within_the_tolerance_whatever_the_answers_within_theirs(
    strategy: Strategy, lie: Lie, made: Callable[..., np.ndarray], cells: int, q: str
) -> None:
    values = made(np.random.default_rng(cells), cells)
    learned, asked = learn(strategy, {"cells": cells, "q": q, "tolerance": "0.05"}, of_cells(values, cells), lie)

    assert rank_error(values, value_of(learned)["value"], float(q)) <= 0.05 + 1e-9
    assert len(asked) <= strategy.planned({"cells": cells, "q": q, "tolerance": "0.05"}).rounds


@BOTH
def test_answers_that_are_off_by_more_than_their_tolerance_are_found_by_that_check(strategy: Strategy) -> None:
    values = POPULATIONS["uniform"](np.random.default_rng(1), 64)
    found = [
        value_of(learn(strategy, {"cells": 64}, of_cells(values, 64), lambda _, sign=sign: 4.0 * sign)[0])["value"]
        for sign in (1, -1)
    ]

    assert max(rank_error(values, value, 0.5) for value in found) > 0.05


def test_a_coarse_question_comes_first_and_the_finest_is_enough_for_the_promise() -> None:
    values = np.random.default_rng(3).integers(0, 1024, 2000)
    _, asked = learn(QUANTILE, {"cells": 1024, "tolerance": "0.03"}, of_cells(values, 1024))
    tolerances = [ask.tolerance for [ask] in asked]

    assert tolerances[0] == 0.25
    assert tolerances == sorted(tolerances, reverse=True)
    assert min(tolerances) == pytest.approx(0.02)


def test_the_rounds_that_are_planned_are_those_of_its_values_and_tolerance() -> None:
    few = QUANTILE.planned({"cells": 8, "tolerance": "0.1"})
    many = QUANTILE.planned({"cells": 1 << 16, "tolerance": "0.001"})

    assert few.rounds == len(few.portions) == 3 + 2
    assert many.rounds == 16 + 8 <= ROUNDS == QUANTILE.rounds


@pytest.mark.parametrize("cells", [2, 3, 8, 100])
def test_the_differences_of_halves_are_the_shares(cells: int) -> None:
    values = np.random.default_rng(cells).integers(0, cells, 50)
    columns, [field] = of_cells(values, cells), QUANTILE.schema({"cells": cells}).fields
    assert isinstance(field, IntegerField)
    target = Target.of(field, {})
    _, [asks] = learn(QUANTILE_AT_ONCE, {"cells": cells}, columns)
    found = shares_of([shares(ask, columns) for ask in asks])

    assert found[:cells] == pytest.approx(np.bincount(values, minlength=cells) / 50)
    assert not found[cells:].any()
    assert asks[0].query == halves(target.field, 0)


@pytest.mark.parametrize("cells", [2, 4, 16, 64])
def test_the_worst_sum_is_what_errors_of_one_sign_make_of_a_share(cells: int) -> None:
    [field] = QUANTILE.schema({"cells": cells}).fields
    assert isinstance(field, IntegerField)
    depths = cells.bit_length() - 1
    # The share below each end is linear in the differences: its factors, one difference at a time.
    below = np.zeros(cells)
    for depth in range(depths):
        factors = np.zeros(cells)
        for piece in range(1 << depth):
            ones = [np.zeros(1 << at) for at in range(depths)]
            ones[depth][piece] = 1.0
            change = shares_of(ones) - shares_of([np.zeros(1 << at) for at in range(depths)])
            factors = np.maximum(factors, np.abs(np.concatenate([[0], change.cumsum()[:-1]])))
        below += factors

    assert worst_sum(field) == pytest.approx(float(below.max()))


# --------------------------------------------------------------------------------------------- fields of other studies


@pytest.mark.parametrize(
    ("field", "values"),
    [
        (IntegerField(name="age", low=-5, high=120), list(range(20, 60))),
        (RealField(name="age", low=0, high=2, denominator=50), [each / 50 for each in range(100)]),
    ],
)
@BOTH
def test_any_field_of_numbers_has_a_quantile_in_its_own_units(
    strategy: Strategy, field: IntegerField | RealField, values: list[float]
) -> None:
    example = Schema(fields=(CategoryField(name="plan", values=("free", "pro")), field))
    columns = Columns.of(example, {"plan": np.array(["free"] * len(values)), "age": np.array(values)})
    parameters = {"column": "age", "q": "0.25"}
    learned, _ = learn(strategy.on(example), parameters, columns)

    assert strategy.on(example).schema(parameters) == example
    assert rank_error(np.array(values), value_of(learned)["value"], 0.25) <= 0.05 + 1e-9


def test_who_has_no_value_is_not_counted() -> None:
    field = IntegerField(name="age", low=0, high=99, gap=True)
    values = np.ma.masked_greater(np.append(np.arange(100), [100] * 300), 99)
    columns = Columns.of(Schema(fields=(field,)), {"age": values})
    learned, _ = learn(QUANTILE.on(columns.schema), {"q": "0.8", "tolerance": "0.01"}, columns)

    # A quarter has a value, so 0.01 of all are 0.04 of them.
    assert rank_error(np.arange(100), value_of(learned)["value"], 0.8) <= 0.04
    with pytest.raises(ProtocolError, match="gaps"):
        QUANTILE_AT_ONCE.on(columns.schema).schema({})


REFUSED: list[tuple[Strategy, Schema | None, dict[str, Any], str]] = [
    (QUANTILE, None, {}, "cells"),
    (QUANTILE, None, {"cells": 1}, "cells"),
    (QUANTILE, None, {"cells": 1 << 21}, "cells"),
    (QUANTILE_AT_ONCE, None, {"cells": 4096}, "cells"),
    (QUANTILE, None, {"cells": 8, "q": "1"}, "q"),
    (QUANTILE, None, {"cells": 8, "q": "0.123456789"}, "q"),
    (QUANTILE, None, {"cells": 8, "tolerance": "0"}, "tolerance"),
    (QUANTILE, None, {"cells": 8, "rank": "0.5"}, "rank"),
    (QUANTILE, Schema(fields=(BitsField(name="x", width=3),)), {}, "column"),
    (QUANTILE, Schema(fields=(IntegerField(name="n", low=0, high=1 << 21),)), {}, "column"),
]


@pytest.mark.parametrize(("strategy", "example", "parameters", "named"), REFUSED)
def test_what_it_cannot_use_is_refused_by_name(
    strategy: Strategy, example: Schema | None, parameters: dict[str, Any], named: str
) -> None:
    runs = strategy if example is None else strategy.on(example)
    with pytest.raises(ProtocolError) as error:
        runs.schema(parameters)

    assert error.value.where == f"parameters.{named}"


# ------------------------------------------------------------------------------------------------------- over users


@BOTH
def test_over_users_the_promise_is_kept_and_the_interval_holds(strategy: Strategy) -> None:
    parameters = {"cells": 32, "tolerance": "0.1", "epsilon": "2"}
    kept = held = held_when_moved = told = 0
    for seed in range(20):
        population = made_up(strategy, parameters, seed, {"zipf": "1"})
        people = LocalReports(
            study_for(strategy, {**parameters, "users": "all"}, seed), strategy, population, 4000, seed
        )
        found: Learnt = learned_by(strategy, {"cells": 32, "tolerance": "0.1"}, people).hypothesis.value
        assert strategy.error is not None
        truth: Learnt = population.truth
        error = strategy.error(found, truth)
        assert error is not None
        kept += error <= 0.1
        if "low" in found:
            below = np.cumsum([0.0, *truth["shares"]])
            # Values of which at most half of all are below, and half or more at most these.
            true = np.flatnonzero((below[:-1] <= 0.5) & (below[1:] >= 0.5))
            told += 1
            held += bool(found["low"] <= true[0] and true[-1] <= found["high"])
            # The control: the same interval, moved beyond its own width.
            moved = found["high"] - found["low"] + 1
            held_when_moved += bool(found["low"] + moved <= true[0] and true[-1] <= found["high"] + moved)

    # Each is planned to fail with 0.05 at most with fewer users than these; 14 of 20 would be one in 10⁴ at 0.95.
    assert kept >= 14
    assert told == (20 if strategy is QUANTILE else 0)
    assert held >= 14 * told / 20
    assert held_when_moved <= 6


def test_the_error_of_a_quantile_is_nought_and_of_its_neighbours_their_distance() -> None:
    truth = {"shares": [0.2, 0.2, 0.4, 0.2]}
    assert QUANTILE.error is not None
    found = [QUANTILE.error({"held": held, "q": "0.5"}, truth) for held in range(4)]

    assert found == pytest.approx([0.3, 0.1, 0.0, 0.3])
