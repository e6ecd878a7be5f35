"""How wrong a hypothesis is on real rows that it was not learned from, released with noise.

Such an error is as private as the rows: a label changed moves it by one. Nothing more is paid for it all the same. The
rows that are learned from and those that are held out are chosen by a public order, so one row that is replaced is in
one of the two parts only; what is said of the one costs (ε, δ), of the other ε, and both together (ε, δ) (parallel
composition).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from askance_lab.curator import geometric
from askance_lab.curator.draws import Below
from askance_lab.evaluation.proportion import CONFIDENCE, Proportion

_MOST_NOISE: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class ReleasedShare:
    """Noisy share of rows, with an interval for the probability behind it that counts the noise in."""

    value: float
    interval: tuple[float, float]


def release_share(count: int, rows: int, *, epsilon: Fraction, draw: Below) -> ReleasedShare:
    """Release how many of the rows are counted, with geometric noise (N21, §2). One row moves the count by 1."""
    noisy = geometric.release(count, epsilon=epsilon, draw=draw, within=(0, rows))
    # Half of what an interval may miss is for the noise, half for the sample.
    half = (1 - CONFIDENCE) / 2
    reach = noise_reach(epsilon, half)
    ends = (max(noisy - reach, 0), min(noisy + reach, rows))
    low, high = (Proportion(end, rows, 1 - half).interval for end in ends)
    return ReleasedShare(noisy / rows, (low[0], high[1]))


def noise_reach(epsilon: Fraction, failure: float) -> int:
    """Smallest t that the noise exceeds, in either direction, with at most this probability."""
    low, high = -1, 1
    while 2 * geometric.at_least(high + 1, rate=epsilon) > failure and high < _MOST_NOISE:
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        enough = 2 * geometric.at_least(middle + 1, rate=epsilon) <= failure
        low, high = (low, middle) if enough else (middle, high)
    return high
