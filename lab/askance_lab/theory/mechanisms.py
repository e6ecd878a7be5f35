"""The three noise mechanisms of a trusted curator: Laplace, geometric, exponential."""

from __future__ import annotations

import math
from typing import Final

from askance_lab.theory.theorem import EPSILON, ERROR, EXAMPLES, FAILURE, Kind, Parameter, Theorem
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
    range is not ε-private (docs/errata.md#smaller).
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


# --- Records ---------------------------------------------------------------------------------------------------------


_SENSITIVITY: Final = Parameter("sensitivity", "Δ", "what one person changes at most", float, 1.0)
_WHOLE_SENSITIVITY: Final = Parameter("sensitivity", "Δ", "what one person changes at most", int, 1)
_WIDTH: Final = Parameter("width", "b", "the values lie in [0, b]", float, 1.0)

THEOREMS: Final = (
    Theorem(
        name="laplace",
        title="The Laplace mechanism",
        citation="KLNRS11, Thm 2.3; BNS13, Thm 1; BB-notes, Def. 2",
        says="Lap(Δ/ε) added to a value that one person changes by Δ at most is ε-private.",
        kind=Kind.PRICE,
        gives="scale",
        parameters=(_SENSITIVITY, EPSILON, _WIDTH, EXAMPLES),
        repaired=laplace_scale,
        others=(laplace_average_scale,),
        differs='BB-notes calls εn/b the "scale": that is its inverse. KLNRS08, footnote 5 has a standard deviation of '
        "√2/λ; it is √2·λ.",
        traps=(9, 21),
        checked_by=("lab/theory/test_mechanisms.py::test_the_laplace_scale_is_not_its_inverse",),
    ),
    Theorem(
        name="laplace-error",
        title="The error of Laplace noise",
        citation="BNS13, Thm 1; BB-notes, Thm 3",
        says="Lap(λ) exceeds x with probability e^{-x/λ}, exactly.",
        kind=Kind.PRICE,
        gives="error",
        parameters=(
            Parameter("scale", "λ", "scale of the noise", float, 1.0),
            FAILURE,
            Parameter("error", "x", "error that is allowed", float, 0.1),
        ),
        sharp=laplace_error,
        others=(laplace_tail,),
        checked_by=("lab/theory/test_mechanisms.py::test_laplace_error_is_exceeded_exactly_as_often_as_said",),
    ),
    Theorem(
        name="laplace-average",
        title="A private average",
        citation="BB-notes, Thm 3",
        says="The noise on an average of n = (b/εα)·ln(1/β) values in [0, b] stays below α.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(_WIDTH, EPSILON, ERROR, FAILURE),
        repaired=examples_laplace_average,
        needs="the sampling error comes on top",
        checked_by=("lab/theory/test_mechanisms.py::test_laplace_error_is_exceeded_exactly_as_often_as_said",),
    ),
    Theorem(
        name="geometric",
        title="Symmetric geometric noise",
        citation="N21, §2",
        says="Noise k with probability (α-1)/(α+1)·α^{-|k|}, α^Δ = e^ε, is ε-private on whole numbers.",
        kind=Kind.PRICE,
        gives="error",
        parameters=(
            EPSILON,
            _WHOLE_SENSITIVITY,
            FAILURE,
            Parameter("distance", "k", "size of the noise", int, 5),
        ),
        sharp=geometric_error,
        others=(geometric_base, geometric_tail, geometric_variance),
        differs='"Truncate" means clamp: conditioning on the range is not ε-private. The exponent in f(k+j) is |k+j|.',
        checked_by=("lab/theory/test_mechanisms.py::test_geometric_noise_is_what_its_pmf_says",),
    ),
    Theorem(
        name="exponential",
        title="The exponential mechanism",
        citation="BNS13, Prop. 1; KLNRS08, Def. 3.5; KLNRS11, Lemma 3.3",
        says="Choosing h with weight exp(ε·score/2Δ) is ε-private and loses (2Δ/ε)·ln(|H|/β) of the best score at "
        "most.",
        kind=Kind.PRICE,
        gives="loss",
        parameters=(
            Parameter("solutions", "|H|", "number of solutions", int, 1000),
            EPSILON,
            FAILURE,
            _SENSITIVITY,
            Parameter("loss", "loss", "how far below the best score", float, 20.0),
        ),
        stated=exponential_loss,
        others=(exponential_tail,),
        checked_by=("lab/theory/test_mechanisms.py::test_the_exponential_tail_bounds_the_exact_mechanism",),
    ),
)
