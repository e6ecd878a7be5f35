"""Users that a mean and shares take until 95 % of the studies keep their promise, within .05, at ε = 1.

As benchmarks/rounds.py does it for quantiles and heavy strings. Prints one JSON object; benchmarks/users.py reads it
from docs/users/measured.json. What is measured is kept in a file, if one is given, and not measured again.

    python benchmarks/questions.py [seeds] [--workers N] [--keep FILE]
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final, NamedTuple

from tasks import arguments, measured_tasks

from askance_lab.experiments.sample_size import PromiseTrial, users_needed
from askance_protocol.parameters import Parameters
from askance_server.core.strategy import Strategy
from askance_server.strategies.histogram import HISTOGRAM
from askance_server.strategies.mean import MEAN


class SearchTask(NamedTuple):
    """One search, and where it begins."""

    question: str
    strategy: Strategy
    parameters: Parameters
    start: int
    seeds: int

    @property
    def key(self) -> str:
        """Names it among the results."""
        return f"{self.question} seeds={self.seeds}"


_QUESTIONS: Final = (
    ("mean within .05", MEAN, {"tolerance": "0.05"}, 7_000),
    ("2 shares within .05", HISTOGRAM, {"cells": 2, "tolerance": "0.05"}, 3_000),
    ("16 shares within .05", HISTOGRAM, {"cells": 16, "tolerance": "0.05"}, 12_000),
)


def row(task: SearchTask) -> dict[str, Any]:
    """The fewest users with which enough studies kept the promise."""
    found = users_needed(PromiseTrial(task.strategy, task.parameters, {}), range(task.seeds), task.start)
    return {"question": task.question, "strategy": task.strategy.name, **found.measured.to_json()}


def main() -> int:
    """Search, print."""
    chosen = arguments(__doc__, seeds=400)
    tasks = [SearchTask(*each, chosen.seeds) for each in _QUESTIONS]
    rows = measured_tasks(row, {task.key: task for task in tasks}, chosen)
    print(json.dumps({"schema_version": 1, "epsilon": "1", "seeds": chosen.seeds, "rows": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
