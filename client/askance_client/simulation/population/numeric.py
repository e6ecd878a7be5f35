"""Shared parts of populations over reals: their coordinates and resolution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from askance_protocol.schema import RealField

MAX_COORDINATES: Final = 128
DENOMINATOR: Final[Mapping[str, str]] = {"denominator": "reals are multiples of one over this"}


def coordinates(d: int, denominator: int) -> tuple[RealField, ...]:
    """The fields x0, x1, … of reals in [−1, 1]."""
    return tuple(RealField(name=f"x{j}", low=-1, high=1, denominator=denominator) for j in range(d))
