"""The three noise mechanisms of a trusted curator: Laplace, geometric, exponential."""

from __future__ import annotations

import math

from askance_protocol import checks


def laplace_scale(*, sensitivity: float, epsilon: float) -> float:
    """Scale Δ/ε of Lap that is ε-private. KLNRS11, Thm 2.3; BNS13, Thm 1; BB-notes §1.1.2. Its std is √2·Δ/ε."""
    return checks.positive("sensitivity", sensitivity) / checks.positive("epsilon", epsilon)


def laplace_average_scale(*, width: float, examples: int, epsilon: float) -> float:
    """Scale b/(εn) for an average of n values in [0, b]. BB-notes, Def. 2, which prints its inverse εn/b (trap 9)."""
    return laplace_scale(sensitivity=width / checks.count("examples", examples), epsilon=epsilon)


def laplace_tail(*, scale: float, error: float) -> float:
    """Pr[|Lap(λ)| > x] = e^{-x/λ}, exactly. BNS13, Thm 1."""
    return math.exp(-checks.positive("error", error) / checks.positive("scale", scale))


def laplace_error(*, scale: float, failure: float) -> float:
    """Error exceeded with probability exactly β: λ·ln(1/β). BB-notes, Thm 3."""
    return checks.positive("scale", scale) * math.log(1 / checks.open_unit("failure", failure))


def examples_laplace_average(*, width: float, epsilon: float, error: float, failure: float) -> int:
    """Examples until the noise on their average exceeds `error` with probability at most β. BB-notes, Thm 3.

    n = (b/(ε·error))·ln(1/β): noise only, the sampling error comes on top.
    """
    scale_of_one = laplace_average_scale(width=width, examples=1, epsilon=epsilon)
    return checks.whole(
        laplace_error(scale=scale_of_one, failure=failure) / checks.positive("error", error), "examples"
    )


def geometric_base(*, epsilon: float, sensitivity: int = 1) -> float:
    """The parameter α of symmetric geometric noise: α^Δ = e^ε. N21 §2."""
    return checks.exp(checks.positive("epsilon", epsilon) / checks.count("sensitivity", sensitivity))


def geometric_tail(*, epsilon: float, distance: int, sensitivity: int = 1) -> float:
    """Pr[|noise| >= k] = 2α^{1-k}/(α+1) for k >= 1, exactly. N21 §2, pmf α^{-|k|}(α-1)/(α+1).

    Clamping to a range that holds the true value only lowers it. "Truncate" in N21 means clamp: conditioning on the
    range is not ε-private (THEORY.md, "Smaller").
    """
    rate = checks.positive("epsilon", epsilon) / checks.count("sensitivity", sensitivity)
    checks.count("distance", distance)
    return 2 * math.exp(-rate * distance) / (1 + math.exp(-rate))


def geometric_error(*, epsilon: float, failure: float, sensitivity: int = 1) -> int:
    """Smallest k with Pr[|noise| > k] <= β, noise of N21 §2: 2α^{-k}/(α+1) <= β. May be 0."""
    rate = checks.positive("epsilon", epsilon) / checks.count("sensitivity", sensitivity)
    checks.open_unit("failure", failure)
    distance = max(0, math.ceil((math.log(2 / failure) - math.log1p(math.exp(-rate))) / rate) - 2)
    # Solved for k, the logarithms may land a hair off a whole number: start one below and settle it on the tail itself.
    while geometric_tail(epsilon=epsilon, distance=distance + 1, sensitivity=sensitivity) > failure:
        distance += 1
    return distance


def geometric_variance(*, epsilon: float, sensitivity: int = 1) -> float:
    """Variance 2α/(α-1)² of the noise of N21 §2."""
    rate = checks.positive("epsilon", epsilon) / checks.count("sensitivity", sensitivity)
    return 2 * math.exp(-rate) / math.expm1(-rate) ** 2


def exponential_tail(*, solutions: int, epsilon: float, loss: float, sensitivity: float = 1) -> float:
    """Pr[score <= best - loss] <= |H|·e^{-ε·loss/2Δ}. BNS13, Prop. 1(ii); KLNRS08, Def. 3.5."""
    checks.count("solutions", solutions)
    checks.positive("sensitivity", sensitivity)
    exponent = math.log(solutions) - checks.positive("epsilon", epsilon) * loss / (2 * sensitivity)
    return math.exp(min(0.0, exponent))


def exponential_loss(*, solutions: int, epsilon: float, failure: float, sensitivity: float = 1) -> float:
    """Loss of score exceeded with probability at most β: (2Δ/ε)·ln(|H|/β). BNS13, Prop. 1(ii)."""
    checks.count("solutions", solutions)
    rate = checks.positive("epsilon", epsilon) / (2 * checks.positive("sensitivity", sensitivity))
    return (math.log(solutions) - math.log(checks.open_unit("failure", failure))) / rate
