"""What is wanted of all learners alike, and what each may spend on a user."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from askance_protocol.budget import MICRO


@dataclass(frozen=True, slots=True)
class Targets:
    """ε and δ; error α at most but with probability β."""

    epsilon: Fraction = Fraction(1)
    delta: Fraction = Fraction(1, 10**6)
    alpha: float = 0.1
    beta: float = 0.1

    @property
    def micro(self) -> int:
        """ε as the protocol counts it."""
        return int(self.epsilon * MICRO)

    @property
    def error(self) -> Fraction:
        """α, to the digit."""
        return Fraction(str(self.alpha))

    @property
    def failure(self) -> Fraction:
        """β, to the digit."""
        return Fraction(str(self.beta))
