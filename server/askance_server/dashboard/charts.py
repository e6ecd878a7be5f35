"""Coordinates of charts: templates draw them as SVG, and print the same numbers as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

_STEPS: Final = (1, 2, 2.5, 5, 10)
ChartPoint: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Axis:
    """Numbers from `low` to `high` on a line from `start` to `end`; by their logarithms, if so."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Where a number is, to a tenth of a unit; what is outside stands at the end."""
        inside = min(max(value, self.low), self.high)
        if self.logarithmic:
            part = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            part = (inside - self.low) / (self.high - self.low)
        return round(self.start + part * (self.end - self.start), 1)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within a range, about so many."""
    rough = (high - low) / about
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(size * each for each in _STEPS if size * each >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(each * step, 12) for each in range(first, last + 1)]


def line(points: Iterable[ChartPoint]) -> str:
    """The path through points."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points)


def band(upper: Sequence[ChartPoint], lower: Sequence[ChartPoint]) -> str:
    """The path around what is between two lines."""
    return line([*upper, *reversed(lower)]) + "Z"
