"""Concentration bounds against exact tail probabilities."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom, gamma

from askance_protocol.errors import ProtocolError
from askance_server.core import tails


def exact_laplace_tail(users: int, deviation: float) -> float:
    """P(|average of n Lap(1)| >= δ): the sum is a difference of two Gamma(n) variables, integrated on a fine grid."""
    support = np.linspace(0, users + 40 * math.sqrt(users) + 200, 200_001)
    beyond = gamma.sf(support + users * deviation, users)
    return 2 * float(np.trapezoid(gamma.pdf(support, users) * beyond, support))


def test_the_stated_lemma_a3_is_below_the_truth() -> None:
    """Trap 2: at δ = λ, n = 200 the true tail is 1.7e-21 and the text's bound 1.9e-22."""
    exact = exact_laplace_tail(200, 1.0)
    stated = tails.laplace_sum_tail_stated(users=200, deviation=3.0, scale=3.0)

    assert exact == pytest.approx(1.7e-21, rel=0.03)
    assert stated == pytest.approx(1.9e-22, rel=0.03)
    assert stated < exact


@pytest.mark.parametrize("users", [1, 3, 20, 200])
@pytest.mark.parametrize("deviation", [0.05, 0.3, 1.0, 2.0, 2 * math.sqrt(2) - 1e-9])
def test_the_repaired_lemma_a3_is_above_the_truth(users: int, deviation: float) -> None:
    """Trap 2: 2exp(-nδ²/8λ²) bounds the exact tail up to δ = 2√2·λ, and so does the sharper Chernoff bound."""
    exact = exact_laplace_tail(users, deviation)
    repaired = tails.laplace_sum_tail_repaired(users=users, deviation=2 * deviation, scale=2.0)
    chernoff = tails.laplace_sum_tail_chernoff(users=users, deviation=2 * deviation, scale=2.0)

    assert exact <= chernoff * (1 + 1e-6)
    assert chernoff <= repaired


@pytest.mark.parametrize("users", [2, 20])
@pytest.mark.parametrize("deviation", [3.0, 6.0])
def test_the_chernoff_bound_holds_beyond_the_repaired_range(users: int, deviation: float) -> None:
    """The optimised Markov bound needs no side condition on δ."""
    bound = tails.laplace_sum_tail_chernoff(users=users, deviation=deviation, scale=1.0)

    assert exact_laplace_tail(users, deviation) <= bound


def test_klnrs08_lemma_4_2_gives_no_bound_at_the_texts_t() -> None:
    """Trap 3: at t = τ' the "bound" is above 1 and grows with n; at t = τ'/2 it bounds the exact tail and falls."""
    stated = [tails.laplace_sum_tail_klnrs08_stated(users=n, deviation=0.5) for n in (1, 100, 1000)]
    repaired = [tails.laplace_sum_tail_klnrs08_repaired(users=n, deviation=0.5) for n in (1, 100, 1000)]

    assert sorted(stated) == stated
    assert stated[0] > 2
    assert sorted(repaired, reverse=True) == repaired
    assert exact_laplace_tail(100, 0.5) <= repaired[1] <= 2 * math.exp(-0.21 * 100 * 0.25)


@pytest.mark.parametrize(("users", "mean", "excess"), [(40, 0.1, 1.0), (200, 0.3, 0.5), (1000, 0.02, 0.2)])
def test_chernoff_bounds_the_exact_binomial(users: int, mean: float, excess: float) -> None:
    """KLNRS11, Thm A.1 against the exact tails, counts compared in whole numbers."""
    upper = binom.sf(math.ceil((1 + excess) * mean * users - 1e-9) - 1, users, mean)
    lower = binom.cdf(math.floor((1 - excess) * mean * users + 1e-9), users, mean)

    assert upper <= tails.chernoff_upper_tail(users=users, mean=mean, excess=excess)
    assert lower <= tails.chernoff_lower_tail(users=users, mean=mean, excess=excess)


def test_hoeffding_users_is_where_the_tail_crosses() -> None:
    """The inverse of Thm A.2: one user fewer and the bound is above β."""
    n = tails.users_hoeffding(deviation=0.03, width=2, failure=0.01)

    assert tails.hoeffding_tail(users=n, deviation=0.03, width=2) <= 0.01
    assert tails.hoeffding_tail(users=n - 1, deviation=0.03, width=2) > 0.01


@pytest.mark.parametrize("t", [0.5, 1.0, 3.0])
def test_each_bound_is_the_one_that_its_theorem_states(t: float) -> None:
    """A bound may be loose for a reason only: where the exponent is t by the theorem's words, the bound is e^−t."""
    users, mean, excess = 400, 0.25, 0.2
    for bound, share in ((tails.chernoff_upper_tail, 3), (tails.chernoff_lower_tail, 2)):  # Thm A.1: φ²µn/3, φ²µn/2
        assert bound(users=users, mean=mean, excess=math.sqrt(t * share / (mean * users))) == pytest.approx(
            math.exp(-t)
        )
        assert bound(users=users, mean=mean, excess=excess) < 1
    width = 0.7
    # Thm A.2: 2δ²n/width².
    assert tails.hoeffding_tail(users=users, deviation=width * math.sqrt(t / (2 * users)), width=width) == (
        pytest.approx(min(1.0, 2 * math.exp(-t)))
    )
    # Lemma A.3: nδ²/4λ² as stated, nδ²/8λ² and both sides as repaired.
    scale = 3.0
    stated = tails.laplace_sum_tail_stated(users=users, deviation=scale * math.sqrt(4 * t / users), scale=scale)
    repaired = tails.laplace_sum_tail_repaired(users=users, deviation=scale * math.sqrt(8 * t / users), scale=scale)
    assert stated == pytest.approx(math.exp(-t))
    assert repaired == pytest.approx(min(1.0, 2 * math.exp(-t)))


@pytest.mark.parametrize("deviation", [0.2, 1.0, 4.0])
def test_the_chernoff_bound_is_the_best_that_markov_gives(deviation: float) -> None:
    grid = np.linspace(0.001, 0.999, 999)
    best = min(tails.laplace_sum_tail_markov(users=30, deviation=deviation, t=float(t)) for t in grid)
    chernoff = tails.laplace_sum_tail_chernoff(users=30, deviation=2.5 * deviation, scale=2.5)

    assert chernoff == pytest.approx(min(1.0, 2 * best), rel=1e-3)
    assert chernoff <= 2 * best * (1 + 1e-12)


def test_markovs_bound_is_e_to_the_t_tau_times_one_less_t_squared() -> None:
    """KLNRS08, proof of Lemma 4.2: (e^{tτ'}(1 − t²))^{−n}; the repaired one takes t = τ'/2, on both sides."""
    assert tails.laplace_sum_tail_markov(users=3, deviation=0.8, t=0.5) == pytest.approx((math.exp(0.4) * 0.75) ** -3)
    assert tails.laplace_sum_tail_klnrs08_stated(users=3, deviation=0.5) == pytest.approx(
        2 * (math.exp(0.25) * 0.75) ** -3
    )
    assert tails.laplace_sum_tail_klnrs08_repaired(users=30, deviation=0.8) == pytest.approx(
        2 * (math.exp(0.32) * 0.84) ** -30
    )
    # No bound says more than that something may always happen.
    assert tails.laplace_sum_tail_klnrs08_repaired(users=1, deviation=0.1) == 1
    assert tails.laplace_sum_tail_chernoff(users=1, deviation=0.1, scale=1) == 1


def test_the_repaired_lemma_a3_ends_at_two_root_two() -> None:
    end = 2 * math.sqrt(2)
    tails.laplace_sum_tail_repaired(users=5, deviation=0.999999 * end, scale=1)
    with pytest.raises(ProtocolError, match="chernoff"):
        tails.laplace_sum_tail_repaired(users=5, deviation=1.000001 * end, scale=1)


@pytest.mark.parametrize(
    ("bound", "wrong"),
    [
        (tails.chernoff_upper_tail, {"users": 0, "mean": 0.5, "excess": 0.5}),
        (tails.chernoff_upper_tail, {"users": 1, "mean": 1.5, "excess": 0.5}),
        (tails.chernoff_upper_tail, {"users": 1, "mean": 0.5, "excess": 1.5}),
        (tails.chernoff_lower_tail, {"users": 0, "mean": 0.5, "excess": 0.5}),
        (tails.chernoff_lower_tail, {"users": 1, "mean": -0.5, "excess": 0.5}),
        (tails.chernoff_lower_tail, {"users": 1, "mean": 0.5, "excess": -0.5}),
        (tails.hoeffding_tail, {"users": 0, "deviation": 0.5, "width": 1}),
        (tails.hoeffding_tail, {"users": 1, "deviation": -0.5, "width": 1}),
        (tails.hoeffding_tail, {"users": 1, "deviation": 0.5, "width": -1}),
        (tails.users_hoeffding, {"failure": 1.5, "deviation": 0.5, "width": 1}),
        (tails.users_hoeffding, {"failure": 0.5, "deviation": -0.5, "width": 1}),
        (tails.users_hoeffding, {"failure": 0.5, "deviation": 0.5, "width": -1}),
        (tails.laplace_sum_tail_stated, {"users": 0, "deviation": 0.5, "scale": 1}),
        (tails.laplace_sum_tail_stated, {"users": 1, "deviation": -0.5, "scale": 1}),
        (tails.laplace_sum_tail_repaired, {"users": 0, "deviation": 0.5, "scale": 1}),
        (tails.laplace_sum_tail_repaired, {"users": 1, "deviation": 0.5, "scale": -1}),
        (tails.laplace_sum_tail_markov, {"users": 0, "deviation": 0.5, "t": 0.5}),
        (tails.laplace_sum_tail_markov, {"users": 1, "deviation": -0.5, "t": 0.5}),
        (tails.laplace_sum_tail_markov, {"users": 1, "deviation": 0.5, "t": 1.0}),
        (tails.laplace_sum_tail_chernoff, {"users": 0, "deviation": 0.5, "scale": 1}),
        (tails.laplace_sum_tail_chernoff, {"users": 1, "deviation": -0.5, "scale": 1}),
    ],
)
def test_what_a_bound_is_not_for_is_refused(bound: Callable[..., float], wrong: dict[str, float]) -> None:
    with pytest.raises(ProtocolError):
        bound(**wrong)
