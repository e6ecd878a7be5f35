"""The Laplace mechanism on a grid: private by enumeration, as accurate as the texts say."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from askance_lab.curator import geometric, laplace
from askance_lab.curator.draws import below
from askance_lab.curator.privacy import Paid
from askance_lab.experiments import float_laplace
from askance_lab.theory import mechanisms
from askance_lab.theory.targets import Targets
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom

ONE = Fraction(1)


def average_loss(noise_rate: Fraction, units: int, n: int) -> float:
    """Largest log-ratio of a noisy sum over all neighbours with entries in 0..units, outputs beyond both sums."""
    worst = 0.0
    for *rest, first, second in product(range(units + 1), repeat=n + 1):
        one, other = sum(rest) + first, sum(rest) + second
        for output in range(-units, units * (n + 1) + 1):
            ratio = geometric.pmf(output - one, rate=noise_rate) / geometric.pmf(output - other, rate=noise_rate)
            worst = max(worst, math.log(ratio))
    return worst


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), ONE, Fraction(3)])
def test_the_noise_on_an_average_is_private_by_enumeration(epsilon: Fraction) -> None:
    """A sum of n = 3 entries of 0..2 with scale 2/ε: ε, exactly."""
    assert average_loss(geometric.rate(epsilon, 2), 2, 3) == pytest.approx(float(epsilon), abs=1e-9)


def test_the_scale_that_bb_notes_print_is_caught() -> None:
    """Control: Def. 2 prints εn/b for b/(εn) (trap 9): at n = 3, ε = 1/10 a sum has scale .9, and its loss is 1.11."""
    epsilon, n = Fraction(1, 10), 3
    printed = n * (epsilon * n)  # the average's, times n

    assert average_loss(1 / printed, 1, n) > float(epsilon) + 1
    assert average_loss(geometric.rate(epsilon), 1, n) <= float(epsilon) + 1e-9


@pytest.mark.parametrize(("units", "width"), [(1, 1), (4, 1), (10, 5)])
def test_the_noise_stays_within_the_theorems_error(units: int, width: int) -> None:
    """BB-notes, Thm 3: more than (b/εn)·ln(1/δ) + half a unit of error at most as often as δ; exactly, at n = 50."""
    n, failure = 50, 0.05
    scale = mechanisms.laplace_average_scale(width=width, examples=n, epsilon=1)
    error = Fraction(mechanisms.laplace_error(scale=scale, failure=failure)) + Fraction(width, 2 * units * n)

    assert laplace.average_failure(examples=n, error=error, epsilon=ONE, units=units, width=width) <= failure


def test_the_failures_drawn_are_as_many_as_computed() -> None:
    """5,000 averages: those farther off than a tenth are a possible number at level 1e-6."""
    draw, runs = below(SimulatedRandom(3)), 5000
    values = [0, 1, 2, 4] * 5
    off = sum(
        abs(laplace.average(values, epsilon=ONE, units=4, draw=draw) - Fraction(7, 16)) > Fraction(1, 10)
        for _ in range(runs)
    )
    chance = laplace.average_failure(examples=20, error=Fraction(1, 10), epsilon=ONE, units=4)

    assert min(binom.cdf(off, runs, chance), binom.sf(off - 1, runs, chance)) > 1e-6


def test_the_grid_is_as_accurate_as_doubles() -> None:
    """The same share of averages is farther off than a tenth with the float version, up to the grid's own step."""
    generator, runs = np.random.default_rng(4), 5000
    off = sum(
        abs(laplace.leaky_average([0, 1] * 10, epsilon=ONE, generator=generator) - 0.5) > 0.1 for _ in range(runs)
    )
    near = (
        laplace.average_failure(examples=20, error=Fraction(1, 10), epsilon=ONE),
        laplace.average_failure(examples=20, error=Fraction(1, 20), epsilon=ONE),
    )

    assert binom.cdf(off, runs, near[0]) > 1e-6
    assert binom.sf(off - 1, runs, near[1]) > 1e-6


def test_the_float_version_leaks_and_the_grid_does_not() -> None:
    """An average of ten bits in doubles often rules its neighbour out by one response; a response here never can."""
    values, neighbour, runs = 0.5, 0.6, 500
    leaks = float_laplace.impossible_fraction(values, neighbour, 0.1, runs, np.random.default_rng(5))
    draw = below(SimulatedRandom(5))
    responses = [laplace.average([0, 1] * 5, epsilon=ONE, draw=draw) for _ in range(runs)]

    assert binom.sf(round(leaks * runs) - 1, runs, 0.1) < 1e-6
    assert all((10 * response).denominator == 1 for response in responses)  # one grid, whatever the values


def test_a_release_keeps_to_its_sensitivity() -> None:
    """Scale Δ/ε: at Δ = 1000 and ε = 1, 200 responses are off by more than 100 about as often as Lap(1000)."""
    draw = below(SimulatedRandom(6))
    far = sum(abs(laplace.release(7, epsilon=ONE, sensitivity=1000, draw=draw) - 7) > 100 for _ in range(200))
    chance = 2 * geometric.at_least(101, rate=Fraction(1, 1000))

    assert min(binom.cdf(far, 200, chance), binom.sf(far - 1, 200, chance)) > 1e-6


def test_as_many_users_as_the_mechanism_asks_for_are_enough_and_a_tenth_less_are_not() -> None:
    targets = Targets(Fraction(1, 2), alpha=0.05, beta=0.01)
    users = laplace.MECHANISM.needed(16, targets)

    def failure(examples: int) -> float:
        return laplace.average_failure(examples=examples, error=targets.error, epsilon=targets.epsilon)

    assert failure(users) <= targets.beta < failure(users * 9 // 10)


def test_a_single_value_has_an_average() -> None:
    assert (4 * laplace.average([3], epsilon=ONE, units=4, draw=below(SimulatedRandom(8)))).denominator == 1


def test_it_costs_epsilon_and_refuses_nonsense() -> None:
    """No values, values beyond the range, and an error that does not repeat them."""
    draw = below(SimulatedRandom(7))

    assert laplace.paid(ONE) == Paid(ONE)
    with pytest.raises(ProtocolError, match="values"):
        laplace.average([], epsilon=ONE, draw=draw)
    for wrong in ([0, 1717], [0, -1717], [0, 0.5]):
        with pytest.raises(ProtocolError, match=r"0 \.\. 4") as caught:
            laplace.average(wrong, epsilon=ONE, units=4, draw=draw)
        assert "1717" not in str(caught.value)
    with pytest.raises(ProtocolError, match="epsilon"):
        laplace.release(0, epsilon=Fraction(-1), draw=draw)
