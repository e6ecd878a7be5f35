"""How far long work has come: whoever does it tells, and whoever began it decides whether anybody is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Tell: TypeAlias = Callable[[str, int, int], None]
"""Is told which part of the work goes on, how much of it is done, and of how much: 0 where that cannot be known."""


def tell_nobody(part: str, done: int, of: int) -> None:
    """Tell no one: what hears of work that nobody watches."""
