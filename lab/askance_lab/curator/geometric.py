"""Symmetric geometric noise on a whole number, clamped to a range if there is one: N21, §2.

The pmf is α^{−|k|}(α−1)/(α+1) with α^Δ = e^ε: it is the discrete Laplace distribution of scale Δ/ε. N21's "truncate"
has to mean *clamp*, which is post-processing and costs nothing. Conditioning on the range (drawing again until the
response lies in it) is not: the chance of lying in the range depends on the secret (docs/theory.md#smaller).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, NamedTuple

from askance_lab.curator.concepts import A_NUMBER, POINT
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below, discrete_laplace
from askance_lab.curator.mechanism import Mechanism
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory import mechanisms
from askance_lab.theory.targets import Targets
from askance_protocol import checks


class Range(NamedTuple):
    """Range low..high of a response."""

    low: int
    high: int

    def clamp(self, value: int) -> int:
        """Nearest number of the range."""
        return min(max(value, self.low), self.high)


def rate(epsilon: Fraction, sensitivity: int = 1) -> Fraction:
    """Rate ε/Δ = ln α of the noise."""
    return checked(epsilon).epsilon / checks.count("sensitivity", sensitivity)


def release(
    value: int, *, epsilon: Fraction, draw: Below, sensitivity: int = 1, within: Range | tuple[int, int] | None = None
) -> int:
    """Release a whole number with noise; clamping comes last."""
    inside = None if within is None else _range(within)
    response = value + discrete_laplace(1 / rate(epsilon, sensitivity), draw)
    return response if inside is None else inside.clamp(response)


def clamped_distribution(
    value: int, *, epsilon: Fraction, within: Range | tuple[int, int], sensitivity: int = 1
) -> Distribution[int]:
    """Exact distribution of `release` within a range: the ends collect all that lies beyond them."""
    steep, inside = rate(epsilon, sensitivity), _range(within)
    if inside.low == inside.high:
        return {inside.low: 1.0}
    ends = {
        inside.low: at_least(value - inside.low, rate=steep),
        inside.high: at_least(inside.high - value, rate=steep),
    }
    return {
        each: ends[each] if each in ends else pmf(each - value, rate=steep)
        for each in range(inside.low, inside.high + 1)
    }


def pmf(noise: int, *, rate: Fraction) -> float:
    """Probability Pr[noise = k] = α^{−|k|}(α−1)/(α+1). N21, §2."""
    steep = float(rate)
    return math.exp(-steep * abs(noise)) * math.tanh(steep / 2)


def at_least(noise: int, *, rate: Fraction) -> float:
    """Exact tail Pr[noise ≥ k]: α^{−k}·α/(α+1) for k ≥ 0, and by symmetry below."""
    steep = float(rate)
    if noise < 0:
        return 1 - at_least(1 - noise, rate=rate)
    return math.exp(-steep * noise) / (1 + math.exp(-steep))


def paid(epsilon: Fraction) -> Paid:
    """Price: ε, clamped or not."""
    return checked(epsilon)


def _range(within: Range | tuple[int, int]) -> Range:
    inside = Range(*within)
    checks.require(inside.low <= inside.high, "is empty", where="within", remedy="give (low, high), low ≤ high")
    return inside


def _positive_count(sample: LabelledSample, targets: Targets, draw: Below) -> int:
    return release(sum(sample.labels), epsilon=targets.epsilon, draw=draw, within=(0, len(sample)))


def _needed(_d: int, targets: Targets) -> int:
    """Number of users for which the noise is a share α."""
    noise = mechanisms.geometric_error(epsilon=float(targets.epsilon), failure=targets.beta)
    return checks.whole(noise / targets.alpha)


MECHANISM: Final = Mechanism(
    name="geometric",
    summary="the number of positive examples, with clamped geometric noise",
    by="N21, §2",
    concepts=POINT,
    answers=A_NUMBER,
    run=_positive_count,
    needed=_needed,
    off=lambda found, sample: abs(found - sum(sample.labels)) / len(sample),
    place=1,
)
