"""Prices (ε,δ) of mechanisms as fractions, and their composition."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from askance_protocol import checks


@dataclass(frozen=True, slots=True)
class Paid:
    """(ε,δ)-differential privacy under replacement of one entry of the database."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        remedy = "give ε ≥ 0 and 0 ≤ δ < 1"
        checks.require(self.epsilon >= 0 and 0 <= self.delta < 1, "is no privacy", where="(ε,δ)", remedy=remedy)

    def __add__(self, other: Paid) -> Paid:
        """Price of both on the same database (basic composition)."""
        return Paid(self.epsilon + other.epsilon, self.delta + other.delta)

    def times(self, count: int) -> Paid:
        """Price of `count` runs (basic composition)."""
        return Paid(count * self.epsilon, count * self.delta)

    def __str__(self) -> str:
        return f"ε = {float(self.epsilon):g}" + (f", δ = {float(self.delta):g}" if self.delta else "")


def checked(epsilon: Fraction, delta: Fraction | None = None) -> Paid:
    """Check the price that a mechanism must keep to: ε > 0, and 0 < δ < 1 if it has one."""
    checks.positive("epsilon", float(epsilon))
    if delta is not None:
        checks.open_unit("delta", float(delta))
    return Paid(epsilon, delta or Fraction(0))


def advanced(each: Paid, count: int, slack: Fraction) -> tuple[float, float]:
    """Advanced composition (Dwork, Rothblum and Vadhan 2010): ε√(2k·ln(1/δ̃)) + kε(e^ε − 1), kδ + δ̃."""
    epsilon = float(each.epsilon)
    checks.open_unit("slack", float(slack))
    spread = epsilon * math.sqrt(2 * count * math.log(1 / slack)) + count * epsilon * math.expm1(epsilon)
    return spread, float(count * each.delta + slack)
