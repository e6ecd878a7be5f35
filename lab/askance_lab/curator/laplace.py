"""The Laplace mechanism, on a grid: for any whole number, and for an average.

Texts: KLNRS11, Thm 2.3, and BNS13, Thm 1 (sensitivity form); BB-notes, Thm 3 (average).

Over the reals f(S) + Lap(Δ/ε) is ε-private; in doubles it is not, because each f(S) has doubles of its own that it can
reach (Mironov 2012; `experiments.float_laplace` holds the attack). So what is summed here are whole numbers, multiples
of a public unit, and the noise is the discrete Laplace distribution of the same scale: the same privacy, and no more
error than that of Lap rounded to the grid. BB-notes, Def. 2 prints the scale of an average as εn/b (with α for ε):
b/(εn) is meant (trap 9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from askance_lab.curator import geometric
from askance_lab.curator.concepts import A_NUMBER, POINT
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.draws import Below, discrete_laplace
from askance_lab.curator.mechanism import Mechanism
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory import mechanisms
from askance_lab.theory.targets import Targets
from askance_protocol import checks


def release(total: int, *, epsilon: Fraction, draw: Below, sensitivity: int = 1) -> int:
    """Release a whole number f(S) of sensitivity Δ, with noise of scale Δ/ε."""
    return total + discrete_laplace(1 / geometric.rate(epsilon, sensitivity), draw)


def average(
    values: Sequence[int], *, epsilon: Fraction, draw: Below, units: int = 1, width: Fraction | int = 1
) -> Fraction:
    """Release the average of n values in [0, b] with noise of scale b/(εn). Each is one of 0..units, in b/units.

    Not clamped, so that its mean is the average; clamping it afterwards is free. The number of values is public.
    """
    total = _total(values, units)
    noisy = release(total, epsilon=epsilon, sensitivity=units, draw=draw)
    return Fraction(noisy * width) / (units * len(values))


def average_failure(*, examples: int, error: Fraction, epsilon: Fraction, units: int = 1, width: int = 1) -> float:
    """Pr[noise on an average > error], exactly; BB-notes, Thm 3 has e^{−εn·error/b} for continuous noise."""
    checks.positive("error", float(error))
    steps = math.floor(error * checks.count("units", units) * checks.count("examples", examples) / width)
    return min(1.0, 2 * geometric.at_least(steps + 1, rate=geometric.rate(epsilon, units)))


def leaky_average(values: Sequence[int], *, epsilon: Fraction, generator: np.random.Generator, units: int = 1) -> float:
    """The same average over [0, 1] with Lap in doubles. NOT PRIVATE (float_laplace): to compare with only."""
    mean = _total(values, units) / (units * len(values))
    scale = mechanisms.laplace_average_scale(width=1, examples=len(values), epsilon=float(epsilon))
    return mean + float(generator.laplace(scale=scale))


def paid(epsilon: Fraction) -> Paid:
    """Price: ε. KLNRS11, Thm 2.3."""
    return checked(epsilon)


def _total(values: Sequence[int], units: int) -> int:
    """Sum of the values; refuses values outside the range that the noise is for."""
    checks.count("units", units)
    checks.require(len(values) > 0, "are none", where="values", remedy="give at least one")
    inside = all(type(value) is int and 0 <= value <= units for value in values)
    checks.require(inside, f"are not all whole numbers in 0 .. {units}", where="values", remedy="choose units to fit")
    return sum(values)


def _positive_share(sample: LabelledSample, targets: Targets, draw: Below) -> float:
    return float(average([int(label) for label in sample.labels], epsilon=targets.epsilon, draw=draw))


MECHANISM: Final = Mechanism(
    name="laplace",
    summary="the share of positive examples, with discrete Laplace noise",
    by="BB-notes Thm 3, KLNRS11 Thm 2.3",
    concepts=POINT,
    answers=A_NUMBER,
    run=_positive_share,
    needed=lambda _, targets: mechanisms.examples_laplace_average(
        width=1, epsilon=float(targets.epsilon), error=targets.alpha, failure=targets.beta
    ),
    off=lambda found, sample: abs(found - sum(sample.labels) / len(sample)),
    place=0,
)
