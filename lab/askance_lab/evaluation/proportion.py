"""A counted share, with a confidence interval for the probability behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from askance_protocol.errors import ProtocolError
from askance_server.core.estimators import clopper_pearson

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Proportion:
    """Number of independent trials with one outcome, out of a total."""

    count: int
    total: int
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if not 0 <= self.count <= self.total or not self.total:
            raise ProtocolError(f"{self.count} of {self.total} is not a share", where="count")

    @property
    def rate(self) -> float:
        """Observed share."""
        return self.count / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper–Pearson interval for the probability, with at least this confidence."""
        low, high = clopper_pearson(np.array([self.count]), self.total, self.confidence)
        return float(low[0]), float(high[0])

    @property
    def with_interval(self) -> tuple[float, float, float]:
        """Share and both ends of its interval, as reports list them."""
        return (self.rate, *self.interval)


def chance_of_fewer(few: Proportion, many: Proportion) -> float:
    """Fisher's exact test, one-sided: how likely so few successes, or fewer, were if both probabilities were equal.

    The successes of both together are given; which of the trials they fell on is then by lot (hypergeometric).
    """
    successes, trials = few.count + many.count, few.total + many.total
    ways = range(max(0, successes - many.total), few.count + 1)
    found = sum(math.comb(few.total, k) * math.comb(many.total, successes - k) for k in ways)
    return found / math.comb(trials, successes)


def difference_interval(first: Proportion, second: Proportion) -> tuple[float, float]:
    """Interval for the difference of two probabilities, first minus second, with at least the first one's confidence.

    Each has half of the failure (Bonferroni), so it holds also where the trials of one depend on the other's.
    """
    confidence = (1 + first.confidence) / 2
    (low, high), (other_low, other_high) = (replace(each, confidence=confidence).interval for each in (first, second))
    return low - other_high, high - other_low
