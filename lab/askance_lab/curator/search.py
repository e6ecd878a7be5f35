"""The smallest whole number that is enough."""

from __future__ import annotations

from collections.abc import Callable


def least(enough: Callable[[int], bool], start: int = 1) -> int:
    """By doubling from `start`, then halving. What is enough stays so for every larger number."""
    high = start
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
