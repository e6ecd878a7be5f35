"""How many users a strategy needs: studies in process, by the protocol's own rounds; only the people are simulated.

A study is planned, dealt, answered, randomized, tallied and estimated as over a server, user by user: what is left out
is the wire and the ledger. All of the users who are enrolled count, whether they were asked or not; how many were asked
on average is told besides. Users are made and forgotten chunk by chunk, so the memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from askance_client.population import Population
from askance_client.simulation.population import synthetic
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.shared.oracle import run
from askance_server.core import planning
from askance_server.core.estimators import clopper_pearson
from askance_server.core.strategy import Parameters, Strategy

Learner = Callable[[int, int], "TrialOutcome"]
"""From users and a seed to how a study ended."""


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """How one study ended."""

    success: bool
    asked: int
    """Users who gave a report."""
    rounds: int


@dataclass(frozen=True, slots=True)
class SuccessRate:
    """How a number of studies ended that differ in nothing but their seeds."""

    users: int
    seeds: int
    successes: int
    asked: float
    rounds: float

    @property
    def rate(self) -> float:
        """The share of successes."""
        return self.successes / self.seeds

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Clopper and Pearson's interval for the chance of success."""
        low, high = clopper_pearson(np.array([self.successes]), self.seeds, confidence)
        return float(low[0]), float(high[0])

    def to_json(self) -> dict[str, Any]:
        """For a report."""
        return {
            "users": self.users,
            "seeds": self.seeds,
            "successes": self.successes,
            "rate": self.rate,
            "interval": [round(end, 4) for end in self.interval()],
            "mean_asked": round(self.asked),
            "mean_rounds": round(self.rounds, 2),
        }


@dataclass(frozen=True, slots=True)
class UsersNeeded:
    """The fewest users of those tried at which enough studies succeeded, and all that was tried."""

    users: int
    tried: tuple[SuccessRate, ...]


def users_needed(
    learner: Learner,
    seeds: Sequence[int],
    start: int,
    rate: Fraction = Fraction(19, 20),
    step: Fraction = Fraction(1, 50),
) -> UsersNeeded:
    """Search until the fewest users that do and the most that do not lie within `step` of each other.

    The same seeds everywhere, so that the rates that are compared share their populations.
    """
    tried: list[SuccessRate] = []

    def enough(users: int) -> bool:
        tried.append(measure(learner, users, seeds))
        return tried[-1].successes >= rate * tried[-1].seeds

    low, high = _bracket(enough, start)
    while high - low > max(1, step * low):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return UsersNeeded(high, tuple(sorted(tried, key=lambda measured: measured.users)))


def _bracket(enough: Callable[[int], bool], start: int) -> tuple[int, int]:
    """Users that do not suffice, and users that do, an eighth apart."""
    users = start
    if enough(users):
        while users > 1 and enough(lower := users * 8 // 9):
            users = lower
        return users * 8 // 9, users
    while True:
        last, users = users, users + max(1, users // 8)
        if enough(users):
            return last, users


def measure(learner: Learner, users: int, seeds: Sequence[int]) -> SuccessRate:
    """Run it once for each seed."""
    ended = [learner(users, seed) for seed in seeds]
    asked, rounds = (sum(values) / len(ended) for values in ([e.asked for e in ended], [e.rounds for e in ended]))
    return SuccessRate(users, len(ended), sum(e.success for e in ended), asked, rounds)


def learner_of(strategy: Strategy, parameters: Parameters, kind: str = "masked-parity") -> Learner:
    """A strategy over a kind of population, which shares its parameters `d` and the like."""
    own = planning.strategy_parameters(parameters)

    def learn(users: int, seed: int) -> TrialOutcome:
        return study(strategy, {"users": "all", **parameters}, synthetic(kind, own, seed), users, seed)

    return learn


def study(strategy: Strategy, parameters: Parameters, population: Population, users: int, seed: int) -> TrialOutcome:
    """One study, to its end. It fails, as on the server, where a part hears of nobody or too few are left."""
    people = LocalReports(study_for(strategy, parameters, seed), strategy, population, users, seed)
    try:
        learned = run(strategy, planning.strategy_parameters(parameters), people).hypothesis.value
    except planning.TooFewUsersError:
        return TrialOutcome(False, sum(people.received), len(people.rounds))
    success = all(learned.get(name) == value for name, value in population.truth.items())
    return TrialOutcome(success, sum(people.received), len(people.rounds))
