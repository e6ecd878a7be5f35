"""Geometric noise: clamping to a range is free, conditioning on it is not."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import pytest
from scipy.stats import binom

from askance_lab.curator import geometric
from askance_lab.curator.distributions import Distribution, loss
from askance_lab.curator.draws import below
from askance_lab.curator.privacy import Paid
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom

ONE = Fraction(1)
RANGE = (0, 10)


def worst(distributions: list[Distribution]) -> float:
    """Largest log-ratio between values that are one apart, both ways."""
    return max(max(loss(one, other), loss(other, one)) for one, other in pairwise(distributions))


def clamped(epsilon: Fraction, sensitivity: int = 1) -> list[Distribution]:
    low, high = RANGE
    return [
        geometric.clamped_distribution(value, epsilon=epsilon, within=RANGE, sensitivity=sensitivity)
        for value in range(low, high + 1)
    ]


def conditioned(epsilon: Fraction) -> list[Distribution]:
    """N21's "truncate", read as: draw again until it lies in the range."""
    low, high = RANGE
    found = []
    for value in range(low, high + 1):
        inside = {each: geometric.pmf(each - value, rate=epsilon) for each in range(low, high + 1)}
        total = math.fsum(inside.values())
        found.append({each: chance / total for each, chance in inside.items()})
    return found


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), ONE, Fraction(4)])
def test_clamped_noise_is_private_by_enumeration(epsilon: Fraction) -> None:
    """docs/theory.md#checks: the exact largest log-ratio over 0..10 is ε, and every distribution sums to 1."""
    distributions = clamped(epsilon)

    assert worst(distributions) == pytest.approx(float(epsilon), abs=1e-9)
    assert all(math.fsum(each.values()) == pytest.approx(1, abs=1e-12) for each in distributions)


def test_conditioning_instead_of_clamping_is_caught() -> None:
    """Control: at ε = 1 it costs 1.209."""
    assert worst(conditioned(ONE)) == pytest.approx(1.209, abs=5e-4)
    assert worst(clamped(ONE)) <= 1 + 1e-9


def test_noise_for_a_larger_sensitivity_covers_steps_of_that_size() -> None:
    """With Δ = 3, values that are 3 apart have log-ratio ε, and noise for Δ = 1 would have 3ε."""
    wide, narrow = clamped(ONE, sensitivity=3), clamped(ONE)

    assert loss(wide[3], wide[6]) == pytest.approx(1, abs=1e-9)
    assert loss(narrow[3], narrow[6]) == pytest.approx(3, abs=1e-9)


def test_a_value_outside_the_range_and_a_range_of_one_point_are_defined() -> None:
    """The response is clamped, not the value: the distribution sums to 1 all the same."""
    outside = geometric.clamped_distribution(-4, epsilon=ONE, within=RANGE)

    assert math.fsum(outside.values()) == pytest.approx(1, abs=1e-12)
    assert outside[0] == pytest.approx(1 - math.exp(-5) / (1 + math.exp(-1)), abs=1e-12)
    assert geometric.clamped_distribution(7, epsilon=ONE, within=(3, 3)) == {3: 1.0}


@pytest.mark.parametrize("rate", [Fraction(1, 3), ONE, Fraction(5, 2)])
def test_the_tail_is_the_sum_of_the_pmf(rate: Fraction) -> None:
    """Both are N21's formula; the tail below 0 by symmetry."""
    for least in range(-4, 6):
        summed = math.fsum(geometric.pmf(k, rate=rate) for k in range(least, 400))
        assert geometric.at_least(least, rate=rate) == pytest.approx(summed, abs=1e-12)


def test_the_responses_drawn_have_the_exact_distribution() -> None:
    """20,000 clamped responses: each count is a possible one at level 1e-6."""
    draw, samples = below(SimulatedRandom(21)), 20_000
    counts = Counter(geometric.release(2, epsilon=ONE, draw=draw, within=(0, 5)) for _ in range(samples))
    law = geometric.clamped_distribution(2, epsilon=ONE, within=(0, 5))

    assert set(counts) == set(law)
    for output, chance in law.items():
        assert (
            min(binom.cdf(counts[output], samples, chance), binom.sf(counts[output] - 1, samples, chance)) > 1e-6 / 22
        )


def test_without_a_range_huge_values_are_exact() -> None:
    """No float takes part in a response."""
    draw = below(SimulatedRandom(22))
    responses = {geometric.release(10**40 + 1, epsilon=Fraction(50), draw=draw) - 10**40 for _ in range(50)}

    assert responses == {1}


def test_it_costs_epsilon_and_refuses_nonsense() -> None:
    """ε above 0, Δ at least 1, a range that is one."""
    draw = below(SimulatedRandom(23))

    assert geometric.paid(ONE) == Paid(ONE)
    with pytest.raises(ProtocolError, match="epsilon"):
        geometric.release(0, epsilon=Fraction(0), draw=draw)
    with pytest.raises(ProtocolError, match="sensitivity"):
        geometric.release(0, epsilon=ONE, sensitivity=0, draw=draw)
    with pytest.raises(ProtocolError, match="within"):
        geometric.release(0, epsilon=ONE, within=(1, 0), draw=draw)
