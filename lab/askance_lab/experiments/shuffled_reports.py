"""What a trusted shuffler would make of the reports of a plan: the weakest of its rounds.

Each user reports in one round, so she hides among the reports of her own. Of a round that asks one question by one bit
the blanket is exact; of any other the clones of any randomizer are taken, over all of its reports, as if it were hidden
who was asked which question: here the public coin tells it. See `theory.shuffling`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from askance_lab.experiments.planned_users import StudyPlan
from askance_lab.theory.shuffling import EXACT, shuffled_epsilon_any, shuffled_epsilon_binary
from askance_protocol.budget import MICRO
from askance_protocol.parameters import Parameters
from askance_server.core import planning


@dataclass(frozen=True, slots=True)
class Shuffled:
    """(ε_c, δ) of the reports of one round, had they been shuffled. They are not."""

    epsilon: float
    delta: float
    users: int
    """Reports of the round."""
    method: Literal["blanket", "clones", "closed"]
    theorem: str = "shuffling"
    exists: bool = False
    """Whether there is a shuffler."""


def shuffled(plan: StudyPlan, parameters: Parameters, delta: float) -> Shuffled:
    """The largest ε_c of all rounds: that of the smallest, of those with one question and of the others."""
    epsilon = planning.terms_of(parameters).epsilon
    smallest: Mapping[bool, int] = {
        one: min((each.planned for each in plan.rounds if each.one_bit is one), default=0) for one in (True, False)
    }
    found = [_of(users, epsilon, delta, one) for one, users in smallest.items() if users]
    return max(found, key=lambda each: each.epsilon)


@lru_cache(maxsize=256)
def _of(users: int, micro_epsilon: int, delta: float, one_bit: bool) -> Shuffled:
    central = shuffled_epsilon_binary if one_bit else shuffled_epsilon_any
    exact = central(users=users, epsilon=micro_epsilon / MICRO, delta=delta)
    method: Literal["blanket", "clones", "closed"] = "blanket" if one_bit else "clones"
    return Shuffled(_up(exact), delta, users, method if users <= EXACT else "closed")


def _up(number: float) -> float:
    """Rounded up to three digits."""
    if not number:
        return 0.0
    digits = 2 - math.floor(math.log10(number))
    return math.ceil(number * 10**digits) / 10**digits
