"""Search for the smallest sufficient whole number."""

from __future__ import annotations

from collections.abc import Callable


def least(enough: Callable[[int], bool], start: int = 1) -> int:
    """Smallest sufficient number, by doubling from `start`, then halving; all larger ones must be sufficient."""
    high = start
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
