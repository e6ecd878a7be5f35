"""How many users have to enrol, so that a study has enough of them in each of its rounds.

Theory of operation
-------------------
More than the sum of what its rounds need, because each round takes whole slots of users (`planning.SLOTS`), and more of
them than it needs: some never answer. So what is left for the next round is less than it looks. And a study that takes
all users divides them by its strategy's portions, which are fixed before anybody knows what a round will ask.

`users_to_enrol` gives a number that suffices either way:

- *As many as needed.* A round of target T takes T and one in twenty more, up to the end of a slot. A slot has at most
  `fullest_slot` users, so the sum of these, over the rounds before the last, is what the last has to go without.
- *All.* A round takes its portion of those who are left, up to the end of a slot; that has to be its target at least.

A strategy may ask more or fewer rounds, and more or less in them, as its answers are: what each round may need at the
most is found by `possible_runs`. A shorter run leaves users over, and a round that needs less takes less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from askance_server.core.planning import SLOTS, with_spare
from askance_server.core.strategy import Strategy

_FAILURE: Final = 2.0**-40
"""Probability with which some slot may hold more than is reckoned with."""


def users_to_enrol(strategy: Strategy, targets: Sequence[int], most: Sequence[int] = ()) -> int:
    """Least number of users with whom rounds of these targets have enough; with `most`, those of a longer run, too."""
    return max(users_as_needed(targets), users_as_needed(most or targets), _of_all(strategy, targets))


def users_as_needed(targets: Sequence[int]) -> int:
    """Least number of users with whom rounds of these targets have enough, where each takes as many as it needs."""
    taken = sum(map(with_spare, targets))
    users, lost = taken, 0
    # The more users, the fuller are the slots; but only one in 65,536 is in each, so this ends after a few steps.
    while users < taken + (lost := (len(targets) - 1) * (fullest_slot(users) - 1)):
        users = taken + lost
    return users


def _of_all(strategy: Strategy, targets: Sequence[int]) -> int:
    low, high = 0, max(sum(targets), 1)
    while not _all_suffice(strategy, targets, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _all_suffice(strategy, targets, middle) else (middle, high)
    return high


def _all_suffice(strategy: Strategy, targets: Sequence[int], users: int) -> bool:
    left, slot = users, fullest_slot(users)
    for number, target in enumerate(targets, 1):
        wanted = int(left * strategy.portion(number))
        if wanted < target:
            return False
        left -= wanted + slot - 1
    return True


def fullest_slot(users: int) -> int:
    """Number of users that no slot exceeds, but with probability 2⁻⁴⁰.

    Of so many users a slot has Binomial(users, 1/SLOTS), with the mean m: m + t of them or more with probability
    exp(t − (m + t)·ln(1 + t/m)) at most (Chernoff). The union bound does the rest.
    """
    mean, allowed = users / SLOTS, math.log(_FAILURE / SLOTS)
    low, high = 0, 1
    while high - (mean + high) * math.log1p(high / mean) > allowed:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        exceeded = middle - (mean + middle) * math.log1p(middle / mean)
        low, high = (middle, high) if exceeded > allowed else (low, middle)
    return math.ceil(mean + high)
