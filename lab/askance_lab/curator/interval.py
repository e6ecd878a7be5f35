"""The proper (ε,δ) learner of INTERVAL_d, by Rec. BNS13, §3.3, Thm 2.

c_j(x) = 1 where x < j, 0 ≤ j ≤ 2^d. The text leaves out the application, "straight forward": here it is.

Q(S,j) is the number of examples that c_j labels right. Replacing an example changes it by at most 1. Where some c_j
made the labels, Q rises up to it and falls after it, so it is concave, and Q(S,j) = m: the promise is r = m.

Rec leaves at most a·m mistakes. On each side of the target take the shortest interval of mass α: a threshold with error
above α errs on all of one of them, and it shows am examples or fewer with Pr[Bin(m,α) ≤ am]. So a is as near to α as a
quarter of β allows, for both sides; Rec has the rest of β. For few examples it is α/2, and there is no promise. m is
public, so a is, and Rec's plan. `theory.approximate`'s bound has α/2 and e^{−αm/8} in their place.

Remark 1's way, a k-good interval (trap 16), is the text's motivation and not part of it: Rec takes the place of it.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import accumulate
from typing import Final

from askance_lab.curator import rec as algorithm
from askance_lab.curator import rec_plan
from askance_lab.curator.concepts import A_THRESHOLD, INTERVAL
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.mechanism import Mechanism, approximate, exactly
from askance_lab.curator.privacy import Paid, checked
from askance_lab.curator.rec import Quality
from askance_lab.curator.rec_plan import RecPlan
from askance_lab.curator.search import least
from askance_protocol import checks
from askance_server.core import binomial

_SAMPLING: Final = Fraction(1, 4)
"""The part of β for what the examples may hide."""


def quality(sample: LabelledSample) -> Quality:
    """Quality Q(S,·) on [0, 2^d]: (x,1) is right from x+1 on, (x,0) up to x, so it steps after each x."""
    steps: Counter[int] = Counter()
    for point, label in zip(sample.points, sample.labels, strict=True):
        steps[point] += 1 if label else -1
    points = sorted(steps)
    zeros = len(sample) - sum(sample.labels)
    values = tuple(accumulate((steps[point] for point in points), initial=zeros))
    return Quality(1 << sample.d, (0, *(point + 1 for point in points)), values)


def plan(
    dimension: int,
    examples: int,
    *,
    epsilon: Fraction,
    delta: Fraction,
    error: Fraction,
    failure: Fraction,
    base_case: int | None = None,
) -> RecPlan:
    """Plan Rec for this many examples: (ε,δ) shared out, one level by default, a as above."""
    checked(epsilon, delta)
    top = 1 << checks.count("dimension", dimension)
    aim = _aim(checks.count("examples", examples), error, failure)
    return rec_plan.tuned(
        top, epsilon=epsilon, delta=delta, error=aim, failure=failure * (1 - _SAMPLING), base_case=base_case
    )


def _aim(examples: int, error: Fraction, failure: Fraction) -> Fraction:
    """Share a of mistakes that Rec may leave (see the module)."""
    checks.open_unit("error", float(error))
    checks.open_unit("failure", float(failure))
    shown = binomial.quantile(float(failure * _SAMPLING / 2), examples, float(error))
    return max(Fraction(shown - 1, examples), error / 2)


def learn(
    sample: LabelledSample,
    *,
    epsilon: Fraction,
    delta: Fraction,
    error: Fraction,
    failure: Fraction,
    draw: Below,
    base_case: int | None = None,
) -> int:
    """Learn a threshold j: c_j has error at most α with probability 1 − β, from `examples_needed` examples."""
    how = plan(sample.d, len(sample), epsilon=epsilon, delta=delta, error=error, failure=failure, base_case=base_case)
    return follow(sample, how, draw)


def follow(sample: LabelledSample, how: RecPlan, draw: Below) -> int:
    """Learn a threshold with a given plan, such as `rec_plan.equal`, the text's."""
    return algorithm.rec(quality(sample), len(sample), plan=how, draw=draw)


def interval_distribution(sample: LabelledSample, how: RecPlan) -> Distribution[int]:
    """Exact distribution of the learned threshold."""
    return algorithm.rec_distribution(quality(sample), len(sample), plan=how)


def paid(dimension: int, how: RecPlan) -> Paid:
    """Price of all of Rec's mechanisms, by basic composition."""
    return rec_plan.paid(1 << checks.count("dimension", dimension), how)


def failure_bound(
    dimension: int,
    examples: int,
    *,
    epsilon: Fraction,
    delta: Fraction,
    error: Fraction,
    failure: Fraction,
    base_case: int | None = None,
) -> float:
    """Bound on Pr[error > α]: both tails, and Rec's failure at the promise m. May be 1."""
    how = plan(dimension, examples, epsilon=epsilon, delta=delta, error=error, failure=failure, base_case=base_case)
    shown = math.floor(how.error * examples)
    sampling = 2 * float(binomial.at_most(shown, examples, float(error)))
    return min(1.0, sampling + rec_plan.failure(1 << dimension, examples, how))


def examples_needed(
    dimension: int,
    *,
    epsilon: Fraction,
    delta: Fraction,
    error: Fraction,
    failure: Fraction,
    base_case: int | None = None,
) -> int:
    """Provably sufficient number of examples for `plan`. BNS13, Thm 2: `examples_interval_stated`, `_repaired`."""

    def enough(examples: int) -> bool:
        bound = failure_bound(
            dimension, examples, epsilon=epsilon, delta=delta, error=error, failure=failure, base_case=base_case
        )
        return bound <= failure

    return least(enough, 64)


MECHANISM: Final = Mechanism(
    name="interval",
    summary="INTERVAL, by Rec",
    by="BNS13 Thm 2",
    concepts=INTERVAL,
    answers=A_THRESHOLD,
    run=lambda sample, targets, draw: learn(sample, draw=draw, **exactly(targets)),
    needed=lambda d, targets: examples_needed(d, **exactly(targets)),
    paid=approximate,
    d=64,
    place=31,
)
