"""Privacy and accuracy targets that all learners of a comparison share."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from askance_protocol.budget import MICRO


@dataclass(frozen=True, slots=True)
class Targets:
    """ε and δ of each user, and an error of at most α with probability 1 − β."""

    epsilon: Fraction = Fraction(1)
    delta: Fraction = Fraction(1, 10**6)
    alpha: float = 0.1
    beta: float = 0.1

    @property
    def micro(self) -> int:
        """ε in micro-ε, the protocol's unit."""
        return int(self.epsilon * MICRO)

    @property
    def error(self) -> Fraction:
        """α as an exact fraction."""
        return Fraction(str(self.alpha))

    @property
    def failure(self) -> Fraction:
        """β as an exact fraction."""
        return Fraction(str(self.beta))
