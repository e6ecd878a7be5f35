"""How sure the centres of k-means are: their intervals hold, and are in the result and in the hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from askance_lab.data.made_up import made_up
from askance_lab.evaluation.weighted import WeightedExamples
from askance_lab.oracles.exact import Exact
from askance_lab.oracles.local import learned_by, study_for
from askance_lab.run_study import run_study
from askance_server.core.estimates import study_estimates
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.strategy import Ask, Estimate, Parameters
from askance_server.strategies.kmeans import KMEANS
from askance_server.strategies.shared.centres import centre_estimates

K, D, USERS, SEEDS = 2, 1, 20_000, 40
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
    asks = [Ask(part.query.query, 0.1) for part in last.parts]
    counts, *totals = Exact(WeightedExamples(POPULATION.columns(range(USERS)))).answer(asks)
    return tuple(float(total) / float(np.atleast_1d(counts)[at // D]) for at, total in enumerate(totals))


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
    assert np.allclose(np.ravel(learned["centres"]), [row.estimate for row in rows])
    assert np.allclose(learned["low"], [row.low for row in rows], rtol=1e-4)
    assert np.allclose(learned["high"], [row.high for row in rows], rtol=1e-4)
    assert (learned["level"], learned["reports"]) == (0.95, [row.reports for row in rows])
    *_, last = study(1).counted.values()
    assert rows[1].reports == last[0].received + last[2].received


def test_a_share_that_may_be_nothing_leaves_everything_open() -> None:
    def estimating(level: float, _sums: object = None) -> list[Estimate]:
        rows = [(0.01, 0.0, 0.1), (0.5, 0.4, 0.6), (0.2, -0.1, 0.3), (0.2, 0.1, 0.3)]
        return [Estimate("", value, low, high, level, 10) for value, low, high in rows]

    open_, known = centre_estimates(estimating, 2, 1, 0)

    assert (open_.low, open_.high) == (-1, 1)
    assert (known.low, known.high, known.reports) == (0.1 / 0.6, 0.3 / 0.4, 20)


def test_before_a_round_is_whole_there_is_none() -> None:
    assert centre_estimates(lambda _, _sums=None: [], 2, 1, 4) == ()
    assert centre_estimates(lambda level, _sums=None: [Estimate("", 0, 0, 0, level, 1)] * 7, 2, 1, 4) == ()
