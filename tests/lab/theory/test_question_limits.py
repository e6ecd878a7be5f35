"""How few users a question about a population can do with, against exact binomial laws and linear programs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import binom

from askance_lab.theory import question_limits
from askance_lab.theory.masked_parity import shrinkage


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_with_two_inputs_no_channel_has_more_information_than_randomized_response(epsilon: float) -> None:
    """Fisher's information of a share of ½, over all mixtures of extreme outputs: a linear program."""
    k = math.expm1(epsilon)
    sets = np.array([(0, 0), (0, 1), (1, 0), (1, 1)])
    information = (k * (sets[:, 0] - sets[:, 1])) ** 2 / (1 + k * sets.mean(axis=1))
    found = linprog(-information, A_eq=(1 + k * sets).T, b_eq=np.ones(2), method="highs")
    assert found.fun is not None

    assert -found.fun == pytest.approx(4 / shrinkage(epsilon=epsilon) ** 2)


@pytest.mark.parametrize(("tolerance", "epsilon"), [(0.05, 1.0), (0.02, 0.5)])
def test_a_mean_takes_the_users_of_its_limit(tolerance: float, epsilon: float) -> None:
    """The exact law of the mean of randomized responses: that many users miss τ with about β, a tenth fewer do more."""
    users = question_limits.users_mean_limit(tolerance=tolerance, epsilon=epsilon, failure=0.05)

    def missed(n: int) -> float:
        edge = n * (1 - tolerance / shrinkage(epsilon=epsilon)) / 2
        return float(2 * binom.cdf(math.ceil(edge) - 1, n, 0.5))

    assert missed(users) == pytest.approx(0.05, rel=0.05)
    assert missed(9 * users // 10) > 0.06


def test_two_cells_are_a_mean_of_half_the_width() -> None:
    shares = question_limits.users_shares_limit(cells=2, tolerance=0.05, epsilon=1, failure=0.05)

    assert shares == question_limits.users_mean_limit(tolerance=0.1, epsilon=1, failure=0.05)


def test_shares_have_the_variance_of_subset_selection() -> None:
    """Of m of K cells, uniform users: its law by inclusion, and the estimate's variance from it, for every m."""
    cells, epsilon = 16, 1.0
    e = math.exp(epsilon)

    def variance(m: int) -> float:
        mine = m * e / (m * e + cells - m)
        other = mine * (m - 1) / (cells - 1) + (1 - mine) * m / (cells - 1)
        chance = (mine + (cells - 1) * other) / cells
        return chance * (1 - chance) / (mine - other) ** 2

    limit = question_limits.users_shares_limit(cells=cells, tolerance=0.05, epsilon=epsilon, failure=0.05)
    best = min(variance(m) for m in range(1, cells))

    assert limit == pytest.approx((1.959964 / 0.05) ** 2 * best, rel=1e-3)
    # The control: randomized response of one cell of 16 has more.
    assert variance(1) > 1.2 * best


@pytest.mark.parametrize(("cells", "epsilon"), [(3, 1.0), (8, 1.0), (8, 3.0)])
def test_no_channel_has_more_information_on_shares_than_subset_selection(cells: int, epsilon: float) -> None:
    """The trace of Fisher's information over uniform cells: a linear program over all sets of cells."""
    k = math.expm1(epsilon)
    sets = ((np.arange(2**cells)[:, None] >> np.arange(cells)) & 1).astype(float)
    around = sets - sets.mean(axis=1, keepdims=True)
    trace = k**2 * (around**2).sum(axis=1) / (1 + k * sets.mean(axis=1))
    found = linprog(-trace, A_eq=(1 + k * sets).T, b_eq=np.ones(cells), method="highs")
    assert found.fun is not None
    limit = question_limits.users_shares_limit(cells=cells, tolerance=0.01, epsilon=epsilon, failure=0.05)

    assert limit == pytest.approx((1.959964 / 0.01) ** 2 * (cells - 1) ** 2 / -found.fun / cells, rel=1e-3)


def test_two_values_take_the_users_of_the_exact_test() -> None:
    users = question_limits.users_quantile_limit(tolerance=0.05, epsilon=1, failure=0.05)
    chance = 0.5 + 0.05 / shrinkage(epsilon=1)

    assert binom.cdf(users // 2, users, chance) == pytest.approx(0.05, rel=0.1)


def all_sets(strings: int, prior: NDArray[np.float64], share: float, epsilon: float) -> float:
    """The most information of a report on which string is heavy: a linear program over all sets of strings."""
    k = math.expm1(epsilon)
    sets = ((np.arange(2**strings)[:, None] >> np.arange(strings)) & 1).astype(float)
    odds = 1 + k * ((1 - share) * sets.mean(axis=1, keepdims=True) + share * sets)
    mean = odds @ prior
    nats = (odds * np.log(odds / mean[:, None])) @ prior
    found = linprog(-nats, A_eq=(1 + k * sets).T, b_eq=np.ones(strings), method="highs")
    assert found.fun is not None
    return float(-found.fun)


def test_no_channel_says_more_of_a_heavy_string() -> None:
    """Before anything is known, and with the chances as later rounds may have them."""
    even = np.full(8, 1 / 8)
    once = question_limits._most_nats(0.2, 1, rounds=False)
    later = question_limits._most_nats(0.2, 1, rounds=True)

    assert 0.97 * once < all_sets(8, even, 0.2, 1) <= once
    known = [np.r_[np.full(m, 1 / m), np.zeros(12 - m)] for m in (1, 2, 3, 6)]
    found = [all_sets(12, prior, 0.2, 1) for prior in known]
    assert max(found) <= later
    # The control: with what earlier rounds tell, a report says more than at once.
    assert max(found) > 1.05 * once


@pytest.mark.parametrize(("d", "rounds", "once"), [(12, 2_068, 2_007), (32, 6_156, 7_045), (64, 12_315, 14_094)])
def test_no_search_that_was_measured_is_below_its_limit_nor_far_above_it(d: int, rounds: int, once: int) -> None:
    """docs/telemetry.md, at a share of .2."""
    target = {"share": 0.2, "epsilon": 1.0, "failure": 0.05}

    assert rounds / 5 < question_limits.users_heavy_limit(dimension=d, **target) < rounds
    assert once / 3 < question_limits.users_heavy_at_once_limit(dimension=d, **target) < once
