"""The proper (ε,δ) learner of POINT_d: A_dist, or a guess. BNS13, §3.1, Lemma 1.

c_j(x) = 1 where x = j. If the target's own point shows often, no other point has a 1, and A_dist finds it, however many
points there are. If it hardly shows, nearly every c_i is a good hypothesis, and so is a guess.

Derived, as the proof is left out: write t for the mass of the target's point j.

* Where the learner does not guess it returns c_j: only j has a 1. So it errs only by guessing.
* A guess i has error at most t + D(i). For t ≤ α/2 that is above α for fewer than 2/α points, so for less than
  2/(α·2^d) of the guesses; generally, for t ≤ sα, for less than 1/((1−s)α·2^d). The text's 2^d ≥ 1/(αβ) may leave only
  s = 0: 13 points of mass .074 and t = .03 are .102 of the guesses at d = 7, α = β = .1 (trap 18: 2^d ≥ 4/(αβ)).
* For t ≥ sα, j shows Bin(m,t) times, and A_dist misses the more rarely the more it shows. With s = 1 − 1/(αβ·2^d), m
  examples are enough if Bin(m, sα) is missed with at most β: an exact sum, `missed`, without a constant.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Final

import numpy as np

from askance_lab.curator import distance
from askance_lab.curator.concepts import A_POINT, POINT
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.mechanism import Mechanism, approximate, exactly
from askance_lab.curator.privacy import Paid
from askance_lab.curator.search import least
from askance_protocol import checks
from askance_server.core import binomial

_LISTED: Final = 20
"""d up to which a distribution is written down, point by point."""
_TAIL: Final = 1e-15


def learn(sample: LabelledSample, *, epsilon: Fraction, delta: Fraction, draw: Below, stated: bool = False) -> int:
    """Learn a point j, for c_j. `stated`: with A_dist as written, which spends half as much (trap 18)."""
    best, gap = _ahead(sample)
    # Step 2. The text hands it α/2 and β/2 as well; A_dist has no such parameters.
    found = distance.choose(gap, epsilon=epsilon, delta=delta, draw=draw, stated=stated)
    # Steps 3 and 4.
    return best if found and best is not None else draw(1 << sample.d)


def point_distribution(
    sample: LabelledSample, *, epsilon: Fraction, delta: Fraction, stated: bool = False
) -> Distribution[int]:
    """Exact distribution of the learned point."""
    checks.require(sample.d <= _LISTED, "has too many points to list", where="d", remedy=f"use d up to {_LISTED}")
    best, gap = _ahead(sample)
    found = distance.found_chance(gap, epsilon=epsilon, delta=delta, stated=stated)
    guess = (1 - found) / (1 << sample.d)
    return {j: guess + (found if j == best else 0.0) for j in range(1 << sample.d)}


def paid(*, epsilon: Fraction, delta: Fraction, stated: bool = False) -> Paid:
    """Price of A_dist: a guess does not read the database."""
    return distance.paid(epsilon=epsilon, delta=delta, stated=stated)


def _ahead(sample: LabelledSample) -> distance.Ahead[int]:
    """Step 1: q(S,x) is the number of (x,1) in S. Points that do not appear score 0 (trap 13)."""
    scores = Counter(point for point, label in zip(sample.points, sample.labels, strict=True) if label)
    return distance.ahead(scores, others=len(scores) < 1 << sample.d)


def missed(examples: int, mass: float, *, epsilon: Fraction, delta: Fraction, stated: bool = False) -> float:
    """Exact probability that a target of this mass is not found in this number of examples."""
    checks.count("examples", examples)
    checks.between("mass", mass, 0, 1)
    least, most = (binomial.quantile(tail, examples, mass) for tail in (_TAIL, 1 - _TAIL))
    shown = np.arange(least, most + 1)
    found = [distance.found_chance(k, epsilon=epsilon, delta=delta, stated=stated) for k in shown.tolist()]
    return float(1 - binomial.probability(shown, examples, mass) @ np.array(found))


def examples_needed(
    dimension: int, *, epsilon: Fraction, delta: Fraction, error: Fraction, failure: Fraction, stated: bool = False
) -> int:
    """Sufficient number of examples at every d from log2(2/αβ) on: Lemma 1 with its constant filled in.

    `theory.approximate` has the Chernoff form of it, `examples_point_repaired`, for A_dist as written.
    """
    lightest = _lightest(dimension, error, failure)

    def enough(examples: int) -> bool:
        return missed(examples, lightest, epsilon=epsilon, delta=delta, stated=stated) <= failure

    return least(enough)


def _lightest(dimension: int, error: Fraction, failure: Fraction) -> float:
    """Largest mass sα below which guessing is right with probability 1 − β; s ≥ ½, above which few guesses are."""
    for name, value in (("error", error), ("failure", failure)):
        checks.open_unit(name, float(value))
    guesses = error * failure * (1 << checks.count("dimension", dimension))
    remedy = "a smaller domain is for the generic learner"
    checks.require(guesses >= 2, "Lemma 1 needs 2^d ≥ 2/(αβ)", where="dimension", remedy=remedy)
    return float(error * (1 - 1 / guesses))


MECHANISM: Final = Mechanism(
    name="point",
    summary="POINT, by A_dist",
    by="BNS13 Lemma 1",
    concepts=POINT,
    answers=A_POINT,
    run=lambda sample, targets, draw: learn(sample, epsilon=targets.epsilon, delta=targets.delta, draw=draw),
    needed=lambda d, targets: examples_needed(d, **exactly(targets)),
    paid=approximate,
    place=30,
)
