"""Users that a question takes at once and in rounds, until 95 % of the studies keep its promise, at ε = 1.

Quantiles (Zipf's law over so many values; rank within .05) and heavy hitters (strings of so many bits; a share of .2),
each by the strategy that asks in rounds and by the one that asks at once, over the same users. All who are enrolled
count. Prints one JSON object; docs/telemetry.md reads it. What is measured is kept in a file, if one is given, and not
measured again.

    python benchmarks/rounds.py [seeds] [--workers N] [--keep FILE]
"""

from __future__ import annotations

import json
import sys
import time
from fractions import Fraction
from typing import Any, Final, NamedTuple

from tasks import arguments, measured_tasks

from askance_lab.experiments.sample_size import PromiseTrial, users_needed
from askance_protocol.parameters import Parameters
from askance_server.core.strategy import Strategy
from askance_server.strategies.heavy_hitters import HEAVY_HITTERS
from askance_server.strategies.heavy_hitters_at_once import HEAVY_HITTERS_AT_ONCE
from askance_server.strategies.quantile import QUANTILE
from askance_server.strategies.quantile_at_once import QUANTILE_AT_ONCE

STEP: Final = Fraction(1, 20)
"""How near each other the numbers are between which a search ends."""


class Question(NamedTuple):
    """What is asked, by two strategies, and where the searches begin."""

    name: str
    in_rounds: Strategy
    at_once: Strategy
    parameters: Parameters
    own: Parameters
    starts: tuple[int, int]


QUESTIONS: Final = (
    *(
        Question(f"median of {cells:,} values", QUANTILE, QUANTILE_AT_ONCE, {"cells": cells}, {"zipf": "1"}, starts)
        for cells, starts in ((16, (3_000, 2_500)), (256, (6_000, 14_000)), (4095, (8_000, 40_000)))
    ),
    *(
        Question(
            f"heavy strings of {d} bits", HEAVY_HITTERS, HEAVY_HITTERS_AT_ONCE, {"d": d, "share": "0.2"}, {}, starts
        )
        for d, starts in ((12, (5_000, 5_000)), (32, (20_000, 40_000)), (64, (40_000, 80_000)))
    ),
)


class SearchTask(NamedTuple):
    """One search: of a question by one of its strategies."""

    question: int
    rounds: bool
    seeds: int

    @property
    def key(self) -> str:
        """Names it among the results."""
        return f"{QUESTIONS[self.question].name} {'in rounds' if self.rounds else 'at once'} seeds={self.seeds}"


def row(task: SearchTask) -> dict[str, Any]:
    """The fewest users with which enough studies kept the promise."""
    question = QUESTIONS[task.question]
    strategy = question.in_rounds if task.rounds else question.at_once
    trial = PromiseTrial(strategy, question.parameters, question.own)
    found = users_needed(trial, range(task.seeds), question.starts[0 if task.rounds else 1], step=STEP)
    return {"question": question.name, "strategy": strategy.name, **found.measured.to_json()}


def main() -> int:
    """Search, print."""
    chosen = arguments(__doc__, seeds=100)
    begin = time.perf_counter()
    tasks = [SearchTask(at, rounds, chosen.seeds) for at in range(len(QUESTIONS)) for rounds in (True, False)]
    rows = measured_tasks(row, {task.key: task for task in tasks}, chosen)
    pairs = zip(rows[::2], rows[1::2], strict=True)
    ratios = {mine["question"]: round(once["users"] / mine["users"], 2) for mine, once in pairs}
    result = {
        "schema_version": 1,
        "epsilon": "1",
        "seeds": chosen.seeds,
        "rows": rows,
        "ratios": ratios,
        "seconds": round(time.perf_counter() - begin),
    }
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
