"""How sure the centres of k-means are: their intervals hold, and are in the result and in the hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_lab.data.made_up import made_up
from askance_lab.oracles.local import learned_by, study_for
from askance_lab.run_study import run_study
from askance_server.core.estimates import study_estimates
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.strategy import Estimate, Parameters
from askance_server.strategies.kmeans import KMEANS
from askance_server.strategies.shared.centres import centre_estimates, share_interval

K, D, USERS, SEEDS = 2, 1, 10_000, 60
MISSES_ALLOWED = 1e-6
PARAMETERS: Parameters = {"d": D, "k": K, "users": "all", "epsilon": "2"}
POPULATION = made_up(KMEANS, PARAMETERS, 1)


@cache
def study(seed: int) -> StudyInMemory:
    return run_study(study_for(KMEANS, PARAMETERS, seed), KMEANS, POPULATION, USERS, seed)


def rows_of(view: StudyInMemory) -> list[Estimate]:
    found = study_estimates(view.study, KMEANS, [(one, view.counted[id_]) for id_, one in view.rounds.items()])
    return [row for row in found if "nearest to centre" in row.name]


@cache
def truth(seed: int) -> tuple[float, ...]:
    """The means of the users nearest to the centres that the last round asked about."""
    *_, last = study(seed).rounds.values()
    columns = POPULATION.columns(range(USERS))
    near = last.parts[0].query.answers(columns) - 1
    return tuple(float(columns[f"x{j}"][near == c].mean()) / 1000 for c in range(K) for j in range(D))


def misses(change: Callable[[Estimate], Estimate]) -> NDArray[np.int64]:
    """For each coordinate, in how many studies its interval misses."""
    missed = np.zeros(K * D, np.int64)
    for seed in range(SEEDS):
        for at, (row, mean) in enumerate(zip(map(change, rows_of(study(seed))), truth(seed), strict=True)):
            missed[at] += not row.low <= mean <= row.high
    return missed


def too_many(missed: NDArray[np.int64]) -> bool:
    return bool((stats.binom.sf(missed - 1, SEEDS, 0.05) < MISSES_ALLOWED).any())


def test_intervals_of_centres_hold() -> None:
    assert not too_many(misses(lambda row: row))


def test_control_intervals_a_third_as_wide_are_found() -> None:
    def narrow(row: Estimate) -> Estimate:
        low, high = (row.estimate + (end - row.estimate) / 3 for end in (row.low, row.high))
        return replace(row, low=low, high=high)

    assert too_many(misses(narrow))


def test_each_centre_has_its_row_and_its_place_in_the_hypothesis() -> None:
    rows = rows_of(study(1))
    learned: dict[str, Any] = dict(learned_by(study(1)).value)

    assert [row.name for row in rows] == ["mean(x0) nearest to centre 0", "mean(x0) nearest to centre 1"]
    assert all(row.low <= row.estimate <= row.high < row.low + 1 for row in rows)
    for centre, row in zip(np.ravel(learned["centres"]).tolist(), rows, strict=True):
        assert row.low <= centre <= row.high
    assert np.allclose(learned["low"], [row.low for row in rows], rtol=1e-4)
    assert np.allclose(learned["high"], [row.high for row in rows], rtol=1e-4)
    assert (learned["level"], learned["reports"]) == (0.95, [row.reports for row in rows])
    *_, last = study(1).counted.values()
    assert rows[1].reports == sum(tally.received for tally in last)


def row(value: float, low: float, high: float, reports: int = 10) -> Estimate:
    return Estimate("", value, low, high, 0.95, reports)


def test_a_coordinate_is_a_quotient_whose_ends_are_those_of_its_parts() -> None:
    """Two centres: their shares, and the coordinate as it is and with the second centre's sign turned."""

    def estimating(_: float, _sums: object = None) -> list[Estimate]:
        return [row(0.01, 0.0, 0.1), row(0.5, 0.4, 0.6), row(0.3, -1, 1, 10**6), row(-0.1, -1, 1, 10**6)]

    first, known = centre_estimates(estimating, 2, 1, 0, scale=2)
    # Of 2·10⁶ signed reports of ±2 their means say how many were +2.
    (low, high), (less, more) = (
        [
            2 * (2 * end - 1)
            for end in stats.binomtest(round(2e6 * (1 + mean / 2) / 2), 2_000_000).proportion_ci(1 - 0.1 / 3)
        ]
        for mean in (0.1, 0.2)
    )

    assert high > 0.1
    assert (first.low, first.high) == (pytest.approx(low / 0.1, abs=1e-6), 1)
    assert (known.low, known.high) == pytest.approx((less / 0.6, more / 0.4), abs=1e-6)
    assert (known.estimate, known.reports) == (pytest.approx(0.4), 2_000_010)


@pytest.mark.parametrize("throws", [20, 300, 5000])
def test_the_interval_of_a_coin_fails_no_more_often_than_it_says_exactly(throws: int) -> None:
    counts = np.arange(throws + 1)
    ends = np.array([share_interval(count, throws, 0.05) for count in range(throws + 1)])
    for p in np.linspace(0.1, 0.9, 161):
        held = (ends[:, 0] <= p) & (p <= ends[:, 1])
        assert np.asarray(stats.binom.pmf(counts, throws, p))[held].sum() >= 0.95
    low, high = share_interval(throws / 2, throws, 0.05)
    assert high - low <= 2 * 1.96 * np.sqrt(1 / (4 * throws)) + 1 / throws


def test_an_answer_that_was_cut_off_leaves_everything_open() -> None:
    """What is beyond it is not told, so the sum is no sum of independent numbers."""

    def estimating(_: float, _sums: object = None) -> list[Estimate]:
        return [row(0.5, 0.4, 0.6), row(0.5, 0.4, 0.6), row(1.0, -1, 1, 10**6), row(0.9, -1, 1, 10**6)]

    for each in centre_estimates(estimating, 2, 1, 0, scale=2):
        assert (each.low, each.high) == (-1, 1)


def test_before_a_round_is_whole_there_is_none() -> None:
    assert centre_estimates(lambda _, _sums=None: [], 2, 1, 4, 1) == ()
    assert centre_estimates(lambda level, _sums=None: [row(0, 0, 0)] * 7, 2, 1, 4, 1) == ()
