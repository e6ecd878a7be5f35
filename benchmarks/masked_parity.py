"""Users that MASKED-PARITY takes until 95 % of the studies learn it exactly, at ε = 1. docs/masked-parity.md reads it.

Prints one JSON object. All enrolled users count, and how many were asked is told besides: of a learner that enrols
until it is sure, that is what counts. Where it says "tallied", the users of a study are tallied and not drawn one by
one (`masked_parity_tallies`, the same law); else every study is in process, user by user, with the protocol's own
rounds. Exits 6 where a goal is missed. What is measured is kept in a file, if one is given, and not measured again.

The goals at d = 64 are measured on seeds that nothing was tuned on, fixed here beforehand: `FRESH`.

    python benchmarks/masked_parity.py [seeds] [--workers N] [--keep FILE]
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from masked_parity_tallies import tallied
from tasks import arguments, measured_tasks

from askance_lab.experiments.sample_size import LearnerTrial, learner_of, measure
from askance_lab.theory.masked_parity import users_masked_parity_repaired
from askance_server.strategies.masked_parity_noninteractive import MASKED_PARITY_NONINTERACTIVE
from askance_server.strategies.masked_parity_pooled import MASKED_PARITY_POOLED
from askance_server.strategies.masked_parity_two_rounds import MASKED_PARITY_TWO_ROUNDS
from askance_server.strategies.masked_parity_until_sure import MASKED_PARITY_UNTIL_SURE

RATE: Final = 0.95
FRESH: Final = range(20_000, 21_000)
AGAIN: Final = range(30_000, 31_000)
"""A second thousand for the learner that enrols until it is sure: how far the first was luck."""
POOLED: Final = MASKED_PARITY_POOLED.name
TWO_ROUNDS: Final = MASKED_PARITY_TWO_ROUNDS.name
UNTIL_SURE: Final = MASKED_PARITY_UNTIL_SURE.name
NONINTERACTIVE: Final = MASKED_PARITY_NONINTERACTIVE.name
STRATEGIES: Final = {
    each.name: each
    for each in (
        MASKED_PARITY_POOLED,
        MASKED_PARITY_TWO_ROUNDS,
        MASKED_PARITY_UNTIL_SURE,
        MASKED_PARITY_NONINTERACTIVE,
    )
}


class Goal(NamedTuple):
    """With this number of users 95 % of the studies are to learn (r, a)."""

    strategy: str
    d: int
    users: int
    rounds: int = 0
    """How many a search may have; 0: as many as it has by itself."""
    by_tallies: bool = True
    asked: int = 0
    """How many users are to be asked on average at most; 0: all of them."""

    @property
    def learner(self) -> LearnerTrial:
        """The strategy in this dimension."""
        parameters = {"d": self.d, **({"rounds": self.rounds} if self.rounds else {})}
        return (tallied if self.by_tallies else learner_of)(STRATEGIES[self.strategy], parameters)

    def __str__(self) -> str:
        rounds = f" in {self.rounds} rounds" if self.rounds else ""
        how = "tallied" if self.by_tallies else "user by user"
        return f"{self.strategy}{rounds} at d = {self.d} with {self.users} users, {how}"


GOALS: Final = (Goal(POOLED, 64, 312_000, 100), Goal(UNTIL_SURE, 64, 325_000, asked=225_000))
"""On `FRESH` seeds."""
CURVE: Final = tuple(
    Goal(POOLED, 64, users, rounds)
    for rounds, users in ((2, 392_000), (3, 366_000), (6, 342_000), (12, 330_000), (20, 325_000), (100, 318_000))
)
"""About where so many rounds do."""
COMPARED: Final = (
    Goal(NONINTERACTIVE, 8, 29_000, by_tallies=False),
    Goal(POOLED, 16, 14_000),
    Goal(POOLED, 16, 14_000, by_tallies=False),
)
"""At d = 16 both ways, which is to say the same."""
SMALL: Final = (
    *(Goal(UNTIL_SURE, d, users) for d, users in ((32, 66_000), (16, 13_000), (8, 2_800))),
    *(Goal(POOLED, d, users) for d, users in ((32, 69_000), (16, 14_000), (8, 3_400))),
    Goal(NONINTERACTIVE, 8, 13_805, by_tallies=False),
)
"""About where each does in small dimensions."""


EXACTLY_TWO: Final = (
    *(Goal(TWO_ROUNDS, d, users) for d, users in ((8, 8_000), (16, 37_500), (32, 175_000), (64, 790_000))),
    *(Goal(POOLED, d, users, 2) for d, users in ((8, 5_400), (16, 19_500), (32, 84_000), (64, 385_000))),
)
"""About where exactly two rounds do: found on other seeds, and measured on `FRESH` ones."""


class GoalTask(NamedTuple):
    """What one worker does."""

    goal: Goal
    seeds: range

    @property
    def key(self) -> str:
        """Names it among the results."""
        of = f"{self.seeds.start} to {self.seeds.stop - 1}"
        return f"measure {self.goal} seeds={of}"


def main() -> int:
    """Measure, print, compare with the goals."""
    chosen = arguments(__doc__, seeds=200)
    begin = time.perf_counter()
    few, more = range(chosen.seeds), range(3 * chosen.seeds // 2)
    groups: dict[str, Sequence[GoalTask]] = {
        "goals": [GoalTask(goal, FRESH) for goal in GOALS],
        "again": [GoalTask(GOALS[1], AGAIN)],
        "curve": [GoalTask(goal, more) for goal in CURVE],
        "small": [GoalTask(goal, few) for goal in SMALL],
        "compared": [GoalTask(goal, few) for goal in COMPARED],
        "two_rounds": [GoalTask(goal, FRESH) for goal in EXACTLY_TWO],
    }
    tasks = {task.key: task for group in groups.values() for task in group}
    found = dict(zip(tasks, measured_tasks(row, tasks, chosen), strict=True))
    rows = {name: [found[task.key] for task in group] for name, group in groups.items()}
    missed = [str(goal) for goal, each in zip(GOALS, rows["goals"], strict=True) if is_missed(goal, each)]
    result = {
        "schema_version": 2,
        "epsilon": "1",
        "rate": RATE,
        **rows,
        "by_the_bound": {str(d): bound(d) for d in (8, 16, 32, 64)},
        "missed": missed,
        "seconds": round(time.perf_counter() - begin),
    }
    print(json.dumps(result))
    return 6 if missed else 0


def is_missed(goal: Goal, found: dict[str, Any]) -> bool:
    """Whether too few studies were right, or too many users asked."""
    return found["rate"] < RATE or bool(goal.asked and found["mean_asked"] > goal.asked)


def row(task: GoalTask) -> dict[str, Any]:
    """The rate at the goal's users."""
    goal, seeds = task.goal, task.seeds
    found = measure(goal.learner, goal.users, seeds)
    most = STRATEGIES[goal.strategy].planned({"d": goal.d, **({"rounds": goal.rounds} if goal.rounds else {})}).rounds
    how = {"most_rounds": most, "tallied": goal.by_tallies, "first_seed": seeds.start}
    return {"strategy": goal.strategy, "d": goal.d, **how, **found.to_json()}


def bound(d: int) -> int:
    """KLNRS11, Thm 5.7 with the constants that are proved: a fresh portion for each query of A_MP."""
    return users_masked_parity_repaired(dimension=d, epsilon=1, failure=0.05).total


if __name__ == "__main__":
    sys.exit(main())
