"""Users that MASKED-PARITY takes until 95 % of the studies learn it exactly, at ε = 1. docs/masked-parity.md reads it.

Prints one JSON object. Every study is in process, user by user, with the protocol's own rounds; all enrolled users
count. Small d are searched; d = 64 is measured at its goals. Exits 6 where a goal is missed.

    python benchmarks/masked_parity.py [seeds]
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any, Final, NamedTuple

from askance_lab.experiments.sample_size import SuccessRate, learner_of, measure, users_needed
from askance_lab.theory.masked_parity import users_masked_parity_repaired
from askance_server.core.strategy import Strategy
from askance_server.strategies.masked_parity_noninteractive import MASKED_PARITY_NONINTERACTIVE
from askance_server.strategies.masked_parity_pooled import MASKED_PARITY_POOLED
from askance_server.strategies.masked_parity_two_rounds import MASKED_PARITY_TWO_ROUNDS

RATE: Final = 0.95


class Goal(NamedTuple):
    """So many users, and 95 % of the studies learn (r, a)."""

    strategy: Strategy
    d: int
    users: int


GOALS: Final = (
    Goal(MASKED_PARITY_NONINTERACTIVE, 8, 29_000),
    Goal(MASKED_PARITY_POOLED, 16, 45_000),
    Goal(MASKED_PARITY_POOLED, 64, 430_000),
    Goal(MASKED_PARITY_POOLED, 64, 400_000),
)
SEARCHED: Final = (
    Goal(MASKED_PARITY_POOLED, 8, 4_000),
    Goal(MASKED_PARITY_POOLED, 16, 16_000),
    Goal(MASKED_PARITY_POOLED, 32, 72_000),
    Goal(MASKED_PARITY_TWO_ROUNDS, 8, 8_000),
    Goal(MASKED_PARITY_TWO_ROUNDS, 16, 40_000),
    Goal(MASKED_PARITY_TWO_ROUNDS, 32, 170_000),
    Goal(MASKED_PARITY_NONINTERACTIVE, 8, 14_000),
)
"""Where each search begins."""
COMPARED: Final = (
    Goal(MASKED_PARITY_POOLED, 64, 360_000),
    Goal(MASKED_PARITY_POOLED, 64, 345_000),
    Goal(MASKED_PARITY_TWO_ROUNDS, 64, 800_000),
)


def main() -> int:
    """Measure, print, compare with the goals."""
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    begin = time.perf_counter()
    goals, compared = ([measured(goal, seeds) for goal in which] for which in (GOALS, COMPARED))
    missed = [named(goal) for goal, one in zip(GOALS, goals, strict=True) if one.rate < RATE]
    result = {
        "schema_version": 1,
        "epsilon": "1",
        "rate": RATE,
        "seeds": seeds,
        "goals": rows(GOALS, goals),
        "compared": rows(COMPARED, compared),
        "searched": [searched(goal, seeds) for goal in SEARCHED],
        "by_the_bound": {str(d): bound(d) for d in (8, 16, 32, 64)},
        "missed": missed,
        "seconds": round(time.perf_counter() - begin),
    }
    print(json.dumps(result))
    return 6 if missed else 0


def measured(goal: Goal, seeds: int) -> SuccessRate:
    """As many studies as there are seeds."""
    return measure(learner_of(goal.strategy, {"d": goal.d}), goal.users, range(seeds))


def searched(begin: Goal, seeds: int) -> dict[str, Any]:
    """The fewest users that do, and what they did."""
    needed = users_needed(learner_of(begin.strategy, {"d": begin.d}), range(seeds), begin.users)
    [there] = [one for one in needed.tried if one.users == needed.users]
    return {"strategy": begin.strategy.name, "d": begin.d, **there.to_json()}


def rows(goals: tuple[Goal, ...], all_measured: list[SuccessRate]) -> list[dict[str, Any]]:
    """With their names."""
    pairs = zip(goals, all_measured, strict=True)
    return [{"strategy": goal.strategy.name, "d": goal.d, **one.to_json()} for goal, one in pairs]


def named(goal: Goal) -> str:
    """For people."""
    return f"{goal.strategy.name} at d = {goal.d} with {goal.users} users"


def bound(d: int) -> int:
    """KLNRS11, Thm 5.7 with the constants that are proved: a fresh portion for each query of A_MP."""
    return users_masked_parity_repaired(dimension=d, epsilon=1, failure=0.05).total


if __name__ == "__main__":
    sys.exit(main())
