"""Search for the smallest whole number that is enough."""

from __future__ import annotations

from collections.abc import Callable


def least(enough: Callable[[int], bool], start: int = 1) -> int:
    """Find the least number that is enough by doubling from `start`, then halving; all above it have to be enough."""
    high = start
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
