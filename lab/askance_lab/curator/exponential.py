"""The exponential mechanism: solution f with probability in proportion to e^{ε·q(S,f)/2Δ}.

KLNRS08, Def. 3.5; KLNRS11, Lemma 3.3; BNS13, Prop. 1. Scores are whole numbers (examples that a hypothesis labels
right, say) of sensitivity Δ. What counts is by how much a score is below the best: so nothing overflows at any score,
and the draw is exact (`draws.draw_exponential`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from operator import index
from typing import Final, SupportsIndex, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from askance_lab.curator.concepts import A_NUMBER, POINT
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.draws import Below, chances, draw_exponential
from askance_lab.curator.mechanism import Mechanism
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory import mechanisms
from askance_lab.theory.targets import Targets
from askance_protocol import checks
from askance_protocol.arrays import Integers
from askance_protocol.errors import ProtocolError

Scores: TypeAlias = Sequence[int] | Integers | NDArray[np.int32]
_REMEDY: Final = "give whole numbers below 2^63: multiply fractions, and the sensitivity, by their denominator"


def rate(epsilon: Fraction, sensitivity: int = 1) -> Fraction:
    """Weight ε/2Δ of a unit of score."""
    return checked(epsilon).epsilon / (2 * checks.count("sensitivity", sensitivity))


def choose(
    scores: Scores,
    *,
    epsilon: Fraction,
    draw: Below,
    sensitivity: int = 1,
    multiplicities: Sequence[int] | None = None,
) -> int:
    """Choose the index of a solution or, with multiplicities, of a group of solutions with equal scores."""
    steep = rate(epsilon, sensitivity)
    losses = _losses(scores)
    if multiplicities is not None:
        return draw_exponential(losses.tolist(), list(multiplicities), steep, draw)
    # Solutions of one score are one level: among them all are alike.
    distinct, counts = np.unique(losses, return_counts=True)
    found = draw_exponential(distinct.tolist(), counts.tolist(), steep, draw)
    return int(np.flatnonzero(losses == distinct[found])[draw(int(counts[found]))])


def probabilities(
    scores: Scores, *, epsilon: Fraction, sensitivity: int = 1, multiplicities: Sequence[int] | None = None
) -> list[float]:
    """Probability of each solution, or of each group."""
    losses = _losses(scores)
    many = [1] * len(losses) if multiplicities is None else list(multiplicities)
    return chances(losses.tolist(), many, rate(epsilon, sensitivity)).tolist()


def paid(epsilon: Fraction) -> Paid:
    """Price: ε (BNS13, Prop. 1(i))."""
    return checked(epsilon)


def _losses(scores: Scores) -> Integers:
    if not len(scores):
        raise ProtocolError("are none", where="scores", remedy="give the score of at least one solution")
    values = np.asarray(scores)
    if values.dtype.kind not in "iu" or values.dtype == np.uint64:
        values = np.array([_whole(score) for score in scores], np.int64)
    best, worst = int(values.max()), int(values.min())
    checks.require(best - worst < 1 << 63, "lie too far apart", where="scores", remedy=_REMEDY)
    return best - values.astype(np.int64)


def _whole(score: object) -> int:
    """The score, if it is exactly a whole number that 64 bits hold: another one would be chosen by another law."""
    try:
        whole = index(cast("SupportsIndex", score))
    except TypeError:
        raise ProtocolError("are no whole numbers", where="scores", remedy=_REMEDY) from None
    checks.require(-(1 << 63) <= whole < 1 << 63, "are beyond 64 bits", where="scores", remedy=_REMEDY)
    return whole


def _ones(sample: LabelledSample) -> list[int]:
    """Number of positive examples in which each bit is 1."""
    positive = [x for x, y in sample.pairs() if y]
    return [sum(x >> i & 1 for x in positive) for i in range(sample.d)]


def _behind(found: float, sample: LabelledSample) -> float:
    """Share of the examples by which another bit is 1 more often."""
    ones = _ones(sample)
    return (max(ones) - ones[int(found)]) / len(sample)


def _needed(d: int, targets: Targets) -> int:
    """Number of users for which the loss is a share α."""
    loss = mechanisms.exponential_loss(solutions=d, epsilon=float(targets.epsilon), failure=targets.beta)
    return checks.whole(loss / targets.alpha)


MECHANISM: Final = Mechanism(
    name="exponential",
    summary="the bit that is 1 in most positive examples",
    by="KLNRS08 Def. 3.5, BNS13 Prop. 1",
    concepts=POINT,
    answers=A_NUMBER,
    run=lambda sample, targets, draw: choose(_ones(sample), epsilon=targets.epsilon, draw=draw),
    needed=_needed,
    off=_behind,
    place=2,
)
