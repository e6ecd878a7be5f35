"""Number of attempts for a request, and the pauses between them."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

_SPREAD: Final = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Patience:
    """How often, and how far apart, a request is tried that got no answer, or was asked to come again."""

    attempts: int = 8
    first: float = 0.1
    """Seconds before the second attempt, at most; doubled for each further one."""
    longest: float = 10.0

    def pause(self, attempt: int, retry_after: float) -> float:
        """Seconds until the next attempt: doubled each time, at least what the server asks, and spread at random."""
        steps = min(self.first * 2**attempt, self.longest)
        return min(retry_after, self.longest) + steps * _SPREAD.random()


@dataclass(slots=True)
class Polling:
    """The pauses between two looks at a study: longer as long as nothing is new, and so many without an answer."""

    every: float
    """Seconds until the next look while there is news, at most."""
    fruitless: int = 100
    """Looks in a row without any answer that can be read, until it is given up: an hour or so, a second at first."""
    _quiet: int = 0
    _failed: int = 0

    def pause(self, *, news: bool) -> float:
        """Seconds until the next look: doubled each time up to 32 times as long, and spread at random."""
        self._quiet = 0 if news else min(self._quiet + 1, 5)
        return self.every * 2**self._quiet * (1 + _SPREAD.random()) / 2

    def goes_on(self, *, answered: bool) -> bool:
        """Note whether there was an answer; whether to look again."""
        self._failed = 0 if answered else self._failed + 1
        return self._failed < self.fruitless


PATIENCE: Final = Patience()
"""If none is given."""


def seconds_of(retry_after: str) -> float:
    """Read a Retry-After header: whole seconds. A date is not understood, and means now."""
    return float(retry_after) if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 6 else 0.0
