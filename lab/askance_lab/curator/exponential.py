"""The exponential mechanism: solution f with probability in proportion to e^{ε·q(S,f)/2Δ}.

KLNRS08, Def. 3.5; KLNRS11, Lemma 3.3; BNS13, Prop. 1. Scores are whole numbers (examples that a hypothesis labels
right, say) of sensitivity Δ. What counts is by how much a score is below the best: so nothing overflows at any score,
and the draw is exact (`draws.level`).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_lab.curator.draws import Below, chances, level
from askance_lab.curator.privacy import Paid, checked
from askance_protocol import checks
from askance_protocol.errors import ProtocolError

Scores: TypeAlias = Sequence[int] | NDArray[np.int64]


def rate(epsilon: Fraction, sensitivity: int = 1) -> Fraction:
    """ε/2Δ: what a unit of score is worth."""
    return checked(epsilon).epsilon / (2 * checks.count("sensitivity", sensitivity))


def choose(
    scores: Scores,
    *,
    epsilon: Fraction,
    draw: Below,
    sensitivity: int = 1,
    multiplicities: Sequence[int] | None = None,
) -> int:
    """The index of a solution, or, with multiplicities, of a group of solutions that score alike."""
    steep = rate(epsilon, sensitivity)
    losses = _losses(scores)
    if multiplicities is not None:
        return level(losses.tolist(), list(multiplicities), steep, draw)
    # Solutions of one score are one level: among them all are alike.
    distinct, counts = np.unique(losses, return_counts=True)
    found = level(distinct.tolist(), counts.tolist(), steep, draw)
    return int(np.flatnonzero(losses == distinct[found])[draw(int(counts[found]))])


def probabilities(
    scores: Scores, *, epsilon: Fraction, sensitivity: int = 1, multiplicities: Sequence[int] | None = None
) -> list[float]:
    """The probability of each."""
    losses = _losses(scores)
    many = [1] * len(losses) if multiplicities is None else list(multiplicities)
    return chances(losses.tolist(), many, rate(epsilon, sensitivity)).tolist()


def paid(epsilon: Fraction) -> Paid:
    """ε, and no more (BNS13, Prop. 1(i))."""
    return checked(epsilon)


def _losses(scores: Scores) -> NDArray[np.int64]:
    if not len(scores):
        raise ProtocolError("are none", where="scores", remedy="give the score of at least one solution")
    values = np.asarray(scores, np.int64)
    return values.max() - values
