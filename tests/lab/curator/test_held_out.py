"""The error on rows held out: released with noise, and with an interval that counts the noise in."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from askance_lab.curator import geometric
from askance_lab.curator.draws import below
from askance_lab.curator.held_out import noise_reach, release_share
from askance_lab.evaluation.proportion import Proportion
from askance_protocol.randomness import SimulatedRandom


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(20)])
def test_the_noise_s_reach_is_the_smallest_that_is_left_so_rarely(epsilon: Fraction) -> None:
    reach = noise_reach(epsilon, 0.025)

    assert 2 * geometric.at_least(reach + 1, rate=epsilon) <= 0.025
    assert reach == 0 or 2 * geometric.at_least(reach, rate=epsilon) > 0.025


@pytest.mark.parametrize("chance", [0.0, 0.01, 0.5])
def test_the_interval_covers_as_often_as_it_says(chance: float) -> None:
    draw, rng = below(SimulatedRandom(3)), np.random.default_rng(3)
    covered = naive = 0
    for _ in range(600):
        count = int(rng.binomial(200, chance))
        released = release_share(count, 200, epsilon=Fraction(1, 5), draw=draw)
        low, high = released.interval
        covered += low <= chance <= high
        low, high = Proportion(round(released.value * 200), 200).interval
        naive += low <= chance <= high

    assert covered >= 0.95 * 600 - 4 * np.sqrt(600 * 0.95 * 0.05)
    # The control: an interval that does not count the noise in misses too often.
    assert naive < 0.93 * 600


def test_a_share_stays_one() -> None:
    draw = below(SimulatedRandom(4))
    values = [release_share(count, 5, epsilon=Fraction(1, 10), draw=draw) for count in (0, 5) for _ in range(40)]

    assert all(0 <= each.interval[0] <= each.value <= each.interval[1] <= 1 for each in values)
