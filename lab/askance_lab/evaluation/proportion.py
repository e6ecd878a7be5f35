"""A share that was counted, with the interval in which the chance behind it lies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from askance_protocol.errors import ProtocolError
from askance_server.core.estimators import clopper_pearson

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Proportion:
    """How many of a number of independent trials turned out one way."""

    count: int
    total: int
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        if not 0 <= self.count <= self.total or not self.total:
            raise ProtocolError(f"{self.count} of {self.total} is not a share", where="count")

    @property
    def rate(self) -> float:
        """The share."""
        return self.count / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's interval for the chance: it holds with this confidence, or more."""
        low, high = clopper_pearson(np.array([self.count]), self.total, self.confidence)
        return float(low[0]), float(high[0])

    @property
    def with_interval(self) -> tuple[float, float, float]:
        """The share and both ends of its interval, as reports list them."""
        return (self.rate, *self.interval)
