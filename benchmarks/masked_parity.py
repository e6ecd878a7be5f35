"""Users that MASKED-PARITY takes until 95 % of the studies learn it exactly, at ε = 1. docs/masked-parity.md reads it.

Prints one JSON object. Every study is in process, user by user, with the protocol's own rounds; all enrolled users
count. Small d are searched; d = 64 is measured at its goals. Exits 6 where a goal is missed. What is measured is kept
in a file, if one is given, and not measured again.

    python benchmarks/masked_parity.py [seeds] [--workers N] [--keep FILE]
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final, NamedTuple

from tasks import arguments, measured_tasks

from askance_lab.experiments.sample_size import LearnerTrial, learner_of, measure, users_needed
from askance_lab.theory.masked_parity import users_masked_parity_repaired
from askance_server.strategies.masked_parity_noninteractive import MASKED_PARITY_NONINTERACTIVE
from askance_server.strategies.masked_parity_pooled import MASKED_PARITY_POOLED
from askance_server.strategies.masked_parity_two_rounds import MASKED_PARITY_TWO_ROUNDS

RATE: Final = 0.95
POOLED: Final = MASKED_PARITY_POOLED.name
TWO_ROUNDS: Final = MASKED_PARITY_TWO_ROUNDS.name
NONINTERACTIVE: Final = MASKED_PARITY_NONINTERACTIVE.name
STRATEGIES: Final = {
    each.name: each for each in (MASKED_PARITY_POOLED, MASKED_PARITY_TWO_ROUNDS, MASKED_PARITY_NONINTERACTIVE)
}


class Goal(NamedTuple):
    """With this number of users 95 % of the studies are to learn (r, a)."""

    strategy: str
    d: int
    users: int

    @property
    def learner(self) -> LearnerTrial:
        """The strategy in this dimension."""
        return learner_of(STRATEGIES[self.strategy], {"d": self.d})

    def __str__(self) -> str:
        return f"{self.strategy} at d = {self.d} with {self.users} users"


GOALS: Final = (
    Goal(NONINTERACTIVE, 8, 29_000),
    Goal(POOLED, 16, 45_000),
    Goal(POOLED, 64, 430_000),
    Goal(POOLED, 64, 400_000),
)
COMPARED: Final = (Goal(POOLED, 64, 360_000), Goal(POOLED, 64, 345_000), Goal(TWO_ROUNDS, 64, 800_000))
STARTS: Final = (
    Goal(POOLED, 8, 4_000),
    Goal(POOLED, 16, 16_000),
    Goal(POOLED, 32, 72_000),
    Goal(TWO_ROUNDS, 8, 8_000),
    Goal(TWO_ROUNDS, 16, 40_000),
    Goal(TWO_ROUNDS, 32, 170_000),
    Goal(NONINTERACTIVE, 8, 14_000),
)
"""Where each search begins."""


class GoalTask(NamedTuple):
    """What one worker does."""

    goal: Goal
    seeds: int
    search: bool

    @property
    def key(self) -> str:
        """Names it among the results."""
        return f"{'search from' if self.search else 'measure'} {self.goal} seeds={self.seeds}"


def main() -> int:
    """Measure, print, compare with the goals."""
    chosen = arguments(__doc__, seeds=200)
    begin = time.perf_counter()
    tasks = [GoalTask(goal, chosen.seeds, search=False) for goal in GOALS + COMPARED]
    tasks += [GoalTask(goal, chosen.seeds, search=True) for goal in STARTS]
    rows = measured_tasks(row, {task.key: task for task in tasks}, chosen)
    goals, compared = rows[: len(GOALS)], rows[len(GOALS) : len(GOALS + COMPARED)]
    missed = [str(goal) for goal, found in zip(GOALS, goals, strict=True) if found["rate"] < RATE]
    result = {
        "schema_version": 1,
        "epsilon": "1",
        "rate": RATE,
        "seeds": chosen.seeds,
        "goals": goals,
        "compared": compared,
        "searched": rows[len(GOALS + COMPARED) :],
        "by_the_bound": {str(d): bound(d) for d in (8, 16, 32, 64)},
        "missed": missed,
        "seconds": round(time.perf_counter() - begin),
    }
    print(json.dumps(result))
    return 6 if missed else 0


def row(task: GoalTask) -> dict[str, Any]:
    """The rate at the goal's users; of a search, at the fewest users with which enough studies were right."""
    goal, seeds = task.goal, range(task.seeds)
    if task.search:
        found = users_needed(goal.learner, seeds, goal.users).measured
    else:
        found = measure(goal.learner, goal.users, seeds)
    return {"strategy": goal.strategy, "d": goal.d, **found.to_json()}


def bound(d: int) -> int:
    """KLNRS11, Thm 5.7 with the constants that are proved: a fresh portion for each query of A_MP."""
    return users_masked_parity_repaired(dimension=d, epsilon=1, failure=0.05).total


if __name__ == "__main__":
    sys.exit(main())
