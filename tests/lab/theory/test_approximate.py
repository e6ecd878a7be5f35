"""A_dist, POINT, Rec and INTERVAL of BNS13, against exact tails."""

import math
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from askance_lab.theory import approximate

Floats: TypeAlias = NDArray[np.floating]


def laplace_above(x: float | Floats, scale: float) -> Floats:
    """P(Lap(scale) >= x)."""
    return np.where(x > 0, 0.5 * np.exp(-np.abs(x) / scale), 1 - 0.5 * np.exp(-np.abs(x) / scale))


def distance_delta(epsilon: float, scale: float, threshold: float) -> float:
    """Exact δ(ε) of A_dist: gaps g and g' differ by at most 2; f1 may change only where both gaps are at most 2."""
    worst = 0.0
    gaps = range(60)
    passes = {g: float(laplace_above(threshold - g, scale)) if g else 0.0 for g in gaps}
    stops = {g: 1 - float(laplace_above(threshold - g, scale)) for g in gaps}
    for g in gaps:
        for other in range(max(0, g - 2), min(60, g + 3)):
            same = max(0.0, passes[g] - math.exp(epsilon) * passes[other])
            halt = max(0.0, stops[g] - math.exp(epsilon) * stops[other])
            worst = max(worst, same, halt, same + halt, passes[g] if max(g, other) <= 2 else 0.0)
    return worst


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.1, 1e-4])
def test_a_dist_as_written_spends_half_of_both(epsilon: float, delta: float) -> None:
    """Trap 18: (ε/2, δ/2), and δ/2 is attained."""
    threshold = approximate.distance_threshold_stated(epsilon=epsilon, delta=delta)
    spent = approximate.distance_privacy_stated(epsilon=epsilon, delta=delta)

    assert distance_delta(spent.epsilon, 4 / epsilon, threshold) == pytest.approx(spent.delta)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.1, 1e-4])
def test_the_tight_a_dist_spends_all_it_declares(epsilon: float, delta: float) -> None:
    """Trap 18: Lap(2/ε) with threshold (2/ε)ln(1/2δ)+2 has δ(ε) = δ exactly; any lower threshold has more."""
    threshold = approximate.distance_threshold_tight(epsilon=epsilon, delta=delta)

    assert distance_delta(epsilon, 2 / epsilon, threshold) == pytest.approx(delta)
    assert distance_delta(epsilon, 2 / epsilon, threshold - 0.1) > delta * (1 + 1e-6)


def test_proposition_2_holds_up_to_2_77_and_not_beyond() -> None:
    """Trap 18: at gap (4/ε)ln(2/βδ) the miss is (β/4)e^{ε/2}; the repaired gap misses with β at every ε."""
    beta, delta = 0.05, 1e-6

    def miss(epsilon: float, gap: float) -> float:
        return 1 - float(
            laplace_above(approximate.distance_threshold_stated(epsilon=epsilon, delta=delta) - gap, 4 / epsilon)
        )

    def stated(epsilon: float) -> float:
        return 4 / epsilon * math.log(2 / (beta * delta))

    assert approximate.distance_gap_stated(epsilon=2.77, delta=delta, failure=beta) == pytest.approx(stated(2.77))
    assert miss(2.77, stated(2.77)) <= beta < miss(3.0, stated(3.0))
    for epsilon in (0.1, 2.77, 3.0, 10.0):
        gap = approximate.distance_gap_repaired(epsilon=epsilon, delta=delta, failure=beta)
        assert miss(epsilon, gap) == pytest.approx(beta)
        tight = approximate.distance_gap_tight(epsilon=epsilon, delta=delta, failure=beta)
        found = float(
            laplace_above(approximate.distance_threshold_tight(epsilon=epsilon, delta=delta) - tight, 2 / epsilon)
        )
        assert 1 - found == pytest.approx(beta)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 20.0])
def test_the_point_learner_finds_every_target_that_matters(epsilon: float) -> None:
    """BNS13, Lemma 1: a target of mass α/2, the hardest that must be found, is found but for β, tails exact."""
    alpha, beta, delta = 0.1, 0.1, 1e-6
    m = approximate.examples_point_repaired(dimension=32, epsilon=epsilon, delta=delta, error=alpha, failure=beta)
    threshold = approximate.distance_threshold_stated(epsilon=epsilon, delta=delta)

    def miss(examples: int) -> float:
        counts = np.arange(examples + 1)
        hidden = 1 - laplace_above(threshold - counts, 4 / epsilon)
        return float((binom.pmf(counts, examples, alpha / 2) * hidden).sum())

    assert miss(m) <= beta < miss(m // 4)


def test_stated_lemma_1_is_its_formula() -> None:
    """With c = 3: (3/αε)·ln(1/βδ), whatever d."""
    expected = math.ceil(3 / (0.1 * 0.5) * math.log(1e7))

    assert expected == approximate.examples_point_stated(epsilon=0.5, delta=1e-6, error=0.1, failure=0.1, constant=3)


@pytest.mark.parametrize(("value", "expected"), [(1, 0), (2, 1), (4, 2), (16, 3), (17, 4), (65536, 4)])
def test_log_star_counts_the_tower(value: int, expected: int) -> None:
    """log* of a tower of 2s is its height, also where the tower fits no float."""
    assert expected == approximate.log_star(value)
    assert expected + 1 == approximate.log_star(2**value)


@pytest.mark.parametrize(("dimension", "depth"), [(5, 0), (6, 1), (32, 1), (33, 2), (1024, 2), (2**17, 2)])
def test_rec_has_fewer_levels_than_log_star(dimension: int, depth: int) -> None:
    """Trap 14: one level above the base case for d <= 32, two up to 2^32, where log*T is 4 or 5."""
    assert depth == approximate.rec_depth(top=2**dimension)
    assert depth < approximate.log_star(2**dimension)
    assert approximate.rec_depth(top=2**dimension, base_case=max(32, dimension)) <= 1


@pytest.mark.parametrize("dimension", [32, 1024])
def test_basic_composition_beats_lemma_2(dimension: int) -> None:
    """Trap 14: (3N+1)ε and 2Nδ against √(6N'ln(1/N'δ))ε + 6N'ε² and 4N'δ, N' = log*T."""
    stated = approximate.rec_privacy_stated(top=2**dimension, epsilon=0.1, delta=1e-8)
    repaired = approximate.rec_privacy_repaired(top=2**dimension, epsilon=0.1, delta=1e-8)

    assert repaired.epsilon < stated.epsilon
    assert repaired.delta < stated.delta


def rec_failure(
    top: int, promise: float, alpha: float, inner: float, epsilon: float, delta: float, base_case: int
) -> float:
    """Sum of the exact failure terms of Rec's levels for a promise: A_dist's miss, the two exponential mechanisms."""
    if top <= base_case:
        return (top + 1) * math.exp(-epsilon * alpha * promise / 2)
    kept = (1 - inner) * alpha / 2 * promise
    threshold = approximate.distance_threshold_stated(epsilon=epsilon, delta=delta)
    missed = 1 - float(laplace_above(threshold - kept, 4 / epsilon))
    rest = rec_failure((top - 1).bit_length(), alpha / 2 * promise, inner, inner, epsilon, delta, base_case)
    return missed + 32 * math.exp(-epsilon * kept / 2) + rest


@pytest.mark.parametrize(("dimension", "base_case"), [(4, 32), (20, 32), (1024, 32), (1024, 1025)])
def test_the_repaired_promise_meets_its_failure(dimension: int, base_case: int) -> None:
    """Traps 14, 15: every level's gap, loss and promise hold at r, (2N+1)β in all; at r/2 they do not."""
    top, alpha, epsilon, delta, beta = 2**dimension, 0.2, 0.3, 1e-6, 0.01
    promise = approximate.rec_promise_repaired(
        top=top, epsilon=epsilon, delta=delta, error=alpha, failure=beta, base_case=base_case
    )
    allowed = (2 * approximate.rec_depth(top=top, base_case=base_case) + 1) * beta

    assert rec_failure(top, promise, alpha, 0.25, epsilon, delta, base_case) <= allowed * (1 + 1e-9)
    assert rec_failure(top, promise / 2, alpha, 0.25, epsilon, delta, base_case) > allowed


def test_recursing_with_a_constant_is_what_keeps_rec_affordable() -> None:
    """Trap 15: with α at every level the promise multiplies by 2/α per level; Lemma 3 is worse still, by log*T."""
    parameters = {"top": 2**1024, "epsilon": 0.1, "delta": 1e-7, "error": 0.1, "failure": 0.01}
    constant = approximate.rec_promise_repaired(**parameters)
    same = approximate.rec_promise_repaired(**parameters, inner_error=0.1)

    assert constant < same < approximate.rec_promise_stated(**parameters)


def test_the_interval_learner_prefers_one_level() -> None:
    """docs/theory.md#trap-14: one level with d+1 base options won every case measured."""
    parameters = {"dimension": 1024, "epsilon": 1, "delta": 1e-6, "error": 0.1, "failure": 0.1}
    one = approximate.examples_interval_repaired(**parameters, base_case=1025)
    two = approximate.examples_interval_repaired(**parameters)

    assert one < two
    assert 2 * binom.cdf(math.floor(0.05 * one), one, 0.1) <= 0.05


def test_remark_1_asks_for_the_impossible() -> None:
    """Trap 16: Q(j) <= m/2 always; the stated levels are above that for every α < 2/3, the repaired ones below."""
    high, _ = approximate.interval_levels_stated(examples=100, error=0.4)
    low, ceiling = approximate.interval_levels_repaired(examples=100, error=0.4)

    assert high > 50
    assert (low, ceiling) == pytest.approx((10, 30))


def test_stated_theorem_2_is_its_formula() -> None:
    """16^{log*d}·√(log*d·log(1/δ)·log(log*d/δ)) at d = 16, δ = 2^-9: 4096·√(3·9·log2(1536))."""
    expected = math.ceil(4096 * math.sqrt(27 * math.log2(3 * 512)))

    assert expected == approximate.examples_interval_stated(dimension=16, delta=2**-9, constant=1)


def test_a_promise_over_more_solutions_than_a_float_can_count_is_a_number() -> None:
    promise = approximate.rec_promise_repaired(
        top=2**1024, epsilon=1, delta=1e-6, error=0.1, failure=0.1, base_case=2**1024
    )

    assert promise == pytest.approx(20 * (1024 * math.log(2) - math.log(0.1)))
