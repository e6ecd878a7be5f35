"""What a seed gives: the same rounds, tallies and hypotheses as ever, however much faster they come.

A tally of this file that changes is a change of what a seed means. Such a change stands in the changelog, and the file
is written anew:

    python -m tests.lab.test_golden_runs
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import pytest

from askance_client.simulation.population import synthetic
from askance_lab.engines import engine
from askance_lab.run_study import run_study
from askance_protocol.rounds import RoundAnswered
from askance_server.core.in_memory import StudyInMemory
from askance_server.strategies.registry import registry
from tests.server.learners import study

FILE: Final = Path(__file__).with_name("golden_runs.json")
ALL: Final[dict[str, Any]] = {"users": "all"}

RUNS: Final[dict[str, tuple[dict[str, Any], str, int]]] = {
    "mean": (ALL, "mean", 230_001),
    "histogram": (ALL | {"cells": 128}, "histogram", 120_000),
    "heavy-hitters": (ALL | {"d": 12}, "strings", 120_000),
    "conjunction": (ALL | {"d": 64}, "conjunction", 110_000),
    "decision-list": (ALL | {"d": 8, "epsilon": "4"}, "decision-list", 60_000),
    "decision-list-checked": (ALL | {"d": 6, "epsilon": "4"}, "decision-list", 60_000),
    "decision-tree": (ALL | {"d": 6, "epsilon": "4"}, "decision-list", 60_000),
    "parity": (ALL | {"d": 6}, "parity", 60_000),
    "kmeans": (ALL, "clusters", 60_000),
    "perceptron": (ALL | {"d": 4}, "separator", 60_000),
    "masked-parity": (ALL | {"d": 64}, "masked-parity", 330_000),
    "masked-parity-pooled": (ALL | {"d": 16, "epsilon": "3"}, "masked-parity", 60_000),
    "masked-parity-noninteractive": (ALL | {"d": 8}, "masked-parity", 60_000),
}
"""Of each strategy its parameters, the kind of its users, and how many there are: more than a block, and no whole
number of blocks, where it costs nothing."""


def ran(name: str, workers: int = 1, engine_name: str = "local") -> StudyInMemory:
    parameters, kind, users = RUNS[name]
    strategy = registry()[name]
    population = synthetic(kind, {key: parameters[key] for key in ("d", "cells") if key in parameters}, 5)
    with engine(engine_name, workers) as pool:
        return run_study(study(strategy, **parameters), strategy, population, users, 11, pool)


def told(view: StudyInMemory) -> dict[str, Any]:
    """A study's rounds by their ids, each with a digest of its tallies, and why it ended."""
    answers = [entry.notice for entry in view.entries if isinstance(entry.notice, RoundAnswered)]
    return {"rounds": {each.round: _digest(each.tallies) for each in answers}, "cause": str(view.end.cause)}


def _digest(said: object) -> str:
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def kept() -> dict[str, dict[str, Any]]:
    return json.loads(FILE.read_text())


def test_ten_strategies_at_least() -> None:
    assert len(RUNS) >= 10
    assert list(kept()) == list(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_a_seed_gives_the_rounds_and_tallies_that_it_always_gave(name: str) -> None:
    assert told(ran(name)) == kept()[name]


def test_a_report_that_differs_is_seen() -> None:
    view = ran("parity")
    before = told(view)
    (answer,) = [each for each in view.entries if isinstance(each.notice, RoundAnswered)][-1:]
    assert isinstance(answer.notice, RoundAnswered)
    first, *others = answer.notice.tallies
    moved = ((first[0][0] + 1, first[0][1] - 1, *first[0][2:]), *first[1:])
    wrong = answer.model_copy(update={"notice": answer.notice.model_copy(update={"tallies": (moved, *others)})})
    view.entries[view.entries.index(answer)] = wrong

    assert told(view) != before


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: told(ran(name)) for name in RUNS}, indent=1) + "\n")
