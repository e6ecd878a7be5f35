"""A learner in rounds that finds one of L candidates: it asks about the likeliest, and beats limits for one round.

A user compares her label y = ±1 with one public candidate c and answers y·c(x) by binary response. Over uniform x that
has mean 1 if c is the concept and 0 for every other candidate: so it is for the 2^d parities of PARITY, and for the d
conjunctions of a single bit. The posterior odds of a candidate are the likelihood ratio of its own reports. Each round
pours its users on the candidates with the highest odds until these are level: a user lowers the odds of a wrong
candidate by the divergence of a fair coin from the coin of the concept.

No user is made: reports about one candidate are independent coins, so the count of ones is drawn from its binomial law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from askance_lab.experiments.sample_size import TrialOutcome
from askance_protocol.arrays import Floats, Integers

_FIRST: Final = 0.45
"""Share of the users in the first of several rounds."""


@dataclass(frozen=True, slots=True)
class ListSearch:
    """A `LearnerTrial`: one study, in which every user gives one report in one of the rounds."""

    candidates: int
    rounds: int
    epsilon: float = 1.0

    def __call__(self, users: int, seed: int) -> TrialOutcome:
        """Draw a concept, ask round by round, and succeed if the likeliest candidate is the concept."""
        random = np.random.default_rng(seed)
        concept = int(random.integers(self.candidates))
        right = 1 / (1 + math.exp(-self.epsilon))
        for_one, for_zero = math.log(2 * right), math.log(2 - 2 * right)
        chance, odds = np.full(self.candidates, 0.5), np.zeros(self.candidates)
        chance[concept] = right
        for asked in _portions(users, self.rounds):
            each = poured(odds, asked, -(for_one + for_zero) / 2)
            ones = random.binomial(each, chance)
            odds += ones * for_one + (each - ones) * for_zero
        return TrialOutcome(int(np.argmax(odds)) == concept, users, self.rounds)


def _portions(users: int, rounds: int) -> list[int]:
    if rounds == 1:
        return [users]
    first = int(_FIRST * users)
    later, rest = divmod(users - first, rounds - 1)
    return [first, *(later + (at < rest) for at in range(rounds - 1))]


def poured(odds: Floats, users: int, cost: float) -> Integers:
    """Users for each candidate: those who get any end level, if each lowers the odds by `cost`."""
    order = np.sort(odds)[::-1]
    levels = (np.cumsum(order) - users * cost) / np.arange(1, len(odds) + 1)
    level = levels[np.flatnonzero(order >= levels)[-1]]
    shares = np.maximum(0.0, odds - level) / cost
    each = shares.astype(np.int64)
    # Whole users: the rest go where most of a share was cut off.
    each[np.argsort(each - shares, kind="stable")[: users - int(each.sum())]] += 1
    return each
