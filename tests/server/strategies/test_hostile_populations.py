"""Populations drawn to hurt a learner: what it promises is kept; one that promises nothing learns what can be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from askance_protocol.examples import Columns
from askance_protocol.schema import BitsField
from askance_server.strategies.heavy_hitters import HEAVY_HITTERS
from askance_server.strategies.histogram import HISTOGRAM
from askance_server.strategies.kmeans import KMEANS
from askance_server.strategies.mean import MEAN
from askance_server.strategies.perceptron import PERCEPTRON
from askance_server.strategies.quantile import QUANTILE
from tests.server.learners import Lie, learn, value_of

LIES: Mapping[str, Lie] = {
    "none": lambda _: 0.0,
    "up": lambda _: 1.0,
    "down": lambda _: -1.0,
    "in turns": lambda k: (-1.0) ** k,
}
LYING = pytest.mark.parametrize("lie", LIES.values(), ids=LIES)

VALUES: Mapping[str, np.ndarray] = {
    "all equal": np.full(400, 0.37),
    "all at the lowest": np.full(400, -1.0),
    "at both ends": np.repeat([-1.0, 1.0], 200),
    "one rare value": np.append(np.zeros(399), 1.0),
    "heavy duplicates": np.repeat([-0.999, 0.001, 0.002, 1.0], [1, 190, 190, 19]),
}
"""Values in [-1, 1]."""


# ---------------------------------------------------------------------------------------- means, shares and quantiles


@LYING
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_a_mean_is_within_its_promise(values: np.ndarray, lie: Lie) -> None:
    learned, _ = learn(MEAN, {}, Columns.of(MEAN.schema({}), {"value": values}), lie)

    assert abs(value_of(learned)["mean"] - values.mean()) <= 0.05 + 1e-9


def test_control_lies_beyond_the_tolerance_break_the_promise_of_a_mean() -> None:
    values = VALUES["all equal"]
    learned, _ = learn(MEAN, {}, Columns.of(MEAN.schema({}), {"value": values}), lambda _: 1.1)

    assert abs(value_of(learned)["mean"] - values.mean()) > 0.05


@LYING
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_shares_of_a_histogram_are_within_their_promise(values: np.ndarray, lie: Lie) -> None:
    cells = np.minimum(((values + 1) * 8).astype(int), 15)
    learned, _ = learn(HISTOGRAM, {"cells": 16}, Columns.of(HISTOGRAM.schema({"cells": 16}), {"cell": cells}), lie)
    truth = np.bincount(cells, minlength=16) / len(cells)

    assert np.abs(np.array(value_of(learned)["shares"]) - truth).max() <= 0.05 + 1e-9


@LYING
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_a_quantile_is_within_its_promise(values: np.ndarray, lie: Lie) -> None:
    cells = np.minimum(((values + 1) * 32).astype(int), 63)
    learned, _ = learn(QUANTILE, {"cells": 64}, Columns.of(QUANTILE.schema({"cells": 64}), {"cell": cells}), lie)
    assert QUANTILE.promise is not None
    assert QUANTILE.error is not None
    truth = {"shares": (np.bincount(cells, minlength=64) / len(cells)).tolist()}
    error = QUANTILE.error(learned.value, truth)

    assert error is not None
    assert error <= QUANTILE.promise({"cells": 64}) + 1e-9


# ----------------------------------------------------------------------------------------------------- heavy strings

WIDTH = 24
"""Bits of a string: more than one round asks for."""
STRINGS: Mapping[str, list[int]] = {
    "all alike": [0] * 400,
    "as many as there can be, each with just the share": [number << 20 | 1 for number in range(10) for _ in range(40)],
    "told apart by the last bit alone": [*[5] * 200, *[5 | 1 << 23] * 200],
    "one prefix, and nobody has the share": [1 | number << 14 for number in range(400)],
    "each just below half of the share": [number for number in range(21) for _ in range(19)],
    "one with the share beside a crowd without": [*[7] * 40, *[(9 + number) << 3 for number in range(360)]],
}
HH = {"d": WIDTH, "share": "0.1"}


def strings(numbers: list[int]) -> tuple[Columns, dict[str, float]]:
    """Users with these strings, and the share of each."""
    schema = HEAVY_HITTERS.schema(HH)
    [field] = schema.fields
    assert isinstance(field, BitsField)
    bits = np.array(numbers)[:, np.newaxis] >> np.arange(WIDTH) & 1
    shown = [field.show(number) for number in numbers]
    return Columns.of(schema, {"x": bits}), {each: shown.count(each) / len(shown) for each in set(shown)}


@LYING
@pytest.mark.parametrize("numbers", STRINGS.values(), ids=STRINGS)
def test_no_heavy_string_is_missed_and_no_listed_share_is_far_off(numbers: list[int], lie: Lie) -> None:
    columns, truth = strings(numbers)
    learned, asked = learn(HEAVY_HITTERS, HH, columns, lie)
    value = value_of(learned)
    said: dict[str, float] = dict(zip(value["strings"], value["shares"], strict=True))

    assert {each for each, share in truth.items() if share >= 0.1} <= set(said)
    assert all(abs(share - truth.get(each, 0)) <= 0.025 + 1e-9 for each, share in said.items())
    assert all(truth.get(each, 0) >= 0.05 - 1e-9 for each in said)
    assert len(asked) <= len(HEAVY_HITTERS.planned(HH).portions)


def test_control_a_lie_of_twice_the_tolerance_hides_a_heavy_string() -> None:
    columns, truth = strings(STRINGS["as many as there can be, each with just the share"])
    learned, _ = learn(HEAVY_HITTERS, HH, columns, lambda _: -2.0)

    assert set(truth) - set(value_of(learned)["strings"])


# ------------------------------------------------------------------------------------------------------------ planes

SQUARE = np.random.default_rng(5).uniform(-1, 1, (2000, 2))


def labelled(points: np.ndarray, positive: np.ndarray) -> Columns:
    d = points.shape[1]
    arrays = {f"x{j}": points[:, j] for j in range(d)}
    return Columns.of(PERCEPTRON.schema({"d": d}), {**arrays, "y": np.where(positive, 1, -1)})


def mistakes(columns: Columns, d: int, lie: Lie = LIES["none"], **more: Any) -> float:
    learned, _ = learn(PERCEPTRON, {"d": d, **more}, columns, lie)
    assert PERCEPTRON.predict is not None
    return float((np.where(PERCEPTRON.predict(learned.value, columns), 1, -1) != columns["y"]).mean())


@LYING
@pytest.mark.parametrize("second", [SQUARE[:, 0], -SQUARE[:, 0], np.zeros(2000), np.ones(2000)])
def test_a_column_that_says_nothing_more_takes_a_perceptron_nowhere(second: np.ndarray, lie: Lie) -> None:
    """The same column twice, its opposite, nothing, and a constant: E[x·xᵀ] has no inverse, or nearly none."""
    points = np.stack([SQUARE[:, 0], second], axis=1)

    assert mistakes(labelled(points, SQUARE[:, 0] > 0), 2, lie, tolerance="0.01") <= 0.05


@LYING
def test_labels_that_no_plane_tells_leave_a_perceptron_no_worse_than_a_coin(lie: Lie) -> None:
    """Exclusive or: every plane through the middle is wrong on half."""
    columns = labelled(SQUARE, SQUARE[:, 0] * SQUARE[:, 1] > 0)

    assert abs(mistakes(columns, 2, lie, tolerance="0.01") - 0.5) <= 0.05


@LYING
def test_adversarial_labels_mislead_a_perceptron_that_promises_nothing(lie: Lie) -> None:
    """The tenth that lies farthest from the plane is labelled wrongly: that pulls hardest on every mean of y·x."""
    assert PERCEPTRON.promise is None
    side = SQUARE @ [0.6, -0.8]
    wrong = np.abs(side) >= np.quantile(np.abs(side), 0.9)

    assert mistakes(labelled(SQUARE, (side > 0) ^ wrong), 2, lie, tolerance="0.01") <= 0.25


@pytest.mark.parametrize("point", [[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
@pytest.mark.parametrize("positive", [True, False])
def test_equal_users_at_an_end_of_the_cube_are_labelled_rightly(point: list[float], positive: bool) -> None:
    assert mistakes(labelled(np.tile([point], (50, 1)), np.full(50, positive)), 2) == 0


def test_users_without_any_coordinate_are_labelled_minus() -> None:
    """At 0 there is no side to be told: nothing is learned, and it says so."""
    learned, asked = learn(PERCEPTRON, {"d": 2}, labelled(np.zeros((50, 2)), np.full(50, True)))

    assert learned.value == {"weights": [0, 0]}
    assert len(asked) == 1


# ---------------------------------------------------------------------------------------------------------- clusters


def cost(points: np.ndarray, k: int, lie: Lie = LIES["none"], **more: Any) -> float:
    d = points.shape[1]
    columns = Columns.of(KMEANS.schema({"d": d, "k": k}), {f"x{j}": points[:, j] for j in range(d)})
    learned, _ = learn(KMEANS, {"d": d, "k": k, **more}, columns, lie)
    assert KMEANS.cost is not None
    assert np.abs(np.array(value_of(learned)["centres"])).max() <= 1
    return KMEANS.cost(learned.value, columns)


@LYING
@pytest.mark.parametrize("points", [[[0.3, 0.3]], [[1.0, -1.0]], [[-1.0, -1.0], [1.0, 1.0]], [[0.31, 0.3], [0.9, 0.3]]])
def test_fewer_points_than_centres_are_each_a_centre(points: list[list[float]], lie: Lie) -> None:
    """Where answers are exact nothing is left; within a thousandth they leave less than a cell is wide."""
    many = np.repeat(np.array(points), 100, axis=0)

    assert cost(many, 4, lie, tolerance="0.001") <= (1e-6 if lie is LIES["none"] else 0.01)


@pytest.mark.parametrize("far", [0.2, 0.02, 0.005])
def test_a_far_cluster_of_a_few_has_its_centre(far: float) -> None:
    """Most users in a corner, a few in the opposite one: with two centres nearly nothing is left of their distance."""
    source, few = np.random.default_rng(7), round(4000 * far)
    points = np.concatenate([source.normal(-0.9, 0.02, (4000 - few, 2)), source.normal(0.9, 0.02, (few, 2))])

    assert cost(points.clip(-1, 1), 2) <= 0.001


def test_a_crowd_within_one_strip_is_taken_apart() -> None:
    """Three places that an even grid does not tell apart, and a user at each end of the cube."""
    places = np.repeat([[0.01, 0.01], [0.05, 0.01], [0.03, 0.05]], 500, axis=0)

    assert cost(np.concatenate([places, [[-1.0, -1.0], [1.0, 1.0]]]), 5) <= 0.0008


def test_control_centres_that_do_not_move_cost_more() -> None:
    points = np.repeat([-1.0, 1.0], 100)
    columns = Columns.of(KMEANS.schema({"d": 2, "k": 2}), {"x0": points, "x1": points})
    assert KMEANS.cost is not None

    assert KMEANS.cost({"centres": [[0, 0], [0.1, 0]]}, columns) > 1
