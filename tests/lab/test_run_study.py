"""The protocol on one page is the protocol: the same rounds and hypotheses as a server's, and nobody else plans."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import pytest

import askance_lab.run_study as run_study_module
from askance_client.population import Population
from askance_client.simulation.blocks import BLOCK
from askance_client.simulation.population import synthetic
from askance_lab.engines import engine
from askance_lab.oracles.http import Http
from askance_lab.remote.local_server import LocalServer, local_server
from askance_lab.run_study import Collection, run_study
from askance_protocol.rounds import Bulletin, Cause, RoundAnswered, RoundClosed, RoundPublished, StudyEnded, read_study
from askance_protocol.tally import Tally
from askance_server.core.planning import terms_of
from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters
from askance_server.strategies.registry import registry
from tests.server.learners import bit, strategy_of, study

ROOT = Path(__file__).parents[2]
STRATEGIES = registry()

FOUR: dict[str, tuple[dict[str, Any], Population, int]] = {
    "mean": ({"users": "needed", "tolerance": "0.1"}, synthetic("mean", {}, 1), 9000),
    "histogram": ({"users": "all", "cells": 5}, synthetic("histogram", {"cells": 5}, 2), 4000),
    "masked-parity-two-rounds": ({"users": "all", "d": 4}, synthetic("masked-parity", {"d": 4}, 3), 5000),
    "decision-list": ({"users": "all", "d": 4, "epsilon": "4"}, synthetic("decision-list", {"d": 4}, 4), 6000),
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    """One of its own for each study: a round counts the users who are enrolled."""
    with local_server(tmp_path / "server", "4") as found:
        yield found


@pytest.mark.parametrize("name", FOUR)
def test_the_page_and_a_server_have_the_same_rounds_and_the_same_hypothesis(
    server: LocalServer, name: str, tmp_path: Path
) -> None:
    """With the server's nonce and clock, to the digest: round ids name queries, channels, cohorts and deadlines."""
    parameters, population, users = FOUR[name]
    strategy, whole = STRATEGIES[name], {"epsilon": "1", **parameters}
    with Http(server, name, whole, population, users, 7, tmp_path) as http:
        over_http = http.learn(strategy, {})
        end = http.end()
    published = [round_.spec for round_ in http.rounds]
    clock = iter([spec.deadline - terms_of(whole).deadline_seconds for spec in published])
    spec = read_study(http.rounds[0].study.to_bytes())
    view = run_study(spec, strategy, population, users, 7, clock=lambda: next(clock))

    assert list(view.rounds) == [round_.id for round_ in http.rounds]
    assert view.end.reason == end.reason
    said = view.replay.output
    assert isinstance(said, Hypothesis)
    assert said == over_http.hypothesis
    assert dict(said.value) == dict(end.hypothesis)


def test_a_study_tells_its_whole_story_in_order() -> None:
    strategy = STRATEGIES["masked-parity"]
    spec = study(strategy, d=4, users="all")
    view = run_study(spec, strategy, synthetic("masked-parity", {"d": 4}, 1), 4000, 1)
    kinds = [type(entry.notice).__name__ for entry in view.entries]

    once = [each.__name__ for each in (RoundPublished, RoundClosed, RoundAnswered)]
    assert kinds == ["StudyPublished", *once, *once, StudyEnded.__name__]
    assert view.end.cause is Cause.LEARNED
    assert Bulletin().extend(view.entries) == view.bulletin


@pytest.mark.parametrize(("name", "workers"), [("local", 1), ("dask", 1)])
def test_the_engine_changes_nothing(name: str, workers: int) -> None:
    strategy = STRATEGIES["masked-parity"]
    spec, population = study(strategy, d=4, users="all"), synthetic("masked-parity", {"d": 4}, 1)
    alone = run_study(spec, strategy, population, 150_000, 1)
    with engine(name, workers) as opened:
        shared = run_study(spec, strategy, population, 150_000, 1, opened)

    assert shared.entries == alone.entries


@pytest.mark.parametrize("users", ["all", "needed", 250_000])
def test_the_size_of_a_task_changes_nothing(users: str | int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a round that ends within a task, at the block that brings the last report that it asks for."""
    strategy = STRATEGIES["mean"]
    spec, population = study(strategy, users=users, tolerance="0.008"), synthetic("mean", {}, 1)
    block_by_block = run_study(spec, strategy, population, 730_000, 1)
    assert len(run_study_module.tasks_of(730_000)) == 8
    monkeypatch.setattr(run_study_module, "_TASKS", 2)

    assert [len(task) for task in run_study_module.tasks_of(730_000)] == [400_000, 330_000]
    assert run_study(spec, strategy, population, 730_000, 1).entries == block_by_block.entries
    (tally,) = block_by_block.counted.values()
    assert (tally[0].received == 730_000) == (users == "all")


def test_control_a_round_that_counts_whole_tasks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = STRATEGIES["mean"]
    spec, population = study(strategy, users="needed", tolerance="0.008"), synthetic("mean", {}, 1)
    block_by_block = run_study(spec, strategy, population, 730_000, 1)
    whole = Collection.__call__
    monkeypatch.setattr(run_study_module, "_TASKS", 2)
    monkeypatch.setattr(Collection, "__call__", lambda asked, users: [together(whole(asked, users))])

    assert run_study(spec, strategy, population, 730_000, 1).entries != block_by_block.entries


def together(blocks: list[list[Tally]]) -> list[Tally]:
    return [reduce(add, part) for part in zip(*blocks, strict=True)]


def test_tasks_are_whole_blocks_some_tens_or_large_ones() -> None:
    for users, count, longest in (
        (1, 1, 1),
        (100_001, 2, BLOCK),
        (30_000_000, 34, 9 * BLOCK),
        (10**9, 313, 32 * BLOCK),
    ):
        tasks = run_study_module.tasks_of(users)

        assert (len(tasks), len(tasks[0])) == (count, longest)
        assert [task.start % BLOCK for task in tasks] == [0] * count
        assert [user for task in tasks for user in (task.start, task.stop)][1:-1] == sorted(
            [task.stop for task in tasks[:-1]] * 2
        )
        assert tasks[-1].stop == users


def test_without_a_seed_the_noise_is_real_and_so_differs() -> None:
    strategy = STRATEGIES["mean"]
    spec, population = study(strategy, users="all"), synthetic("mean", {}, 1)
    # Two counts of some hundreds are equal one time in fifty; seven are equal one time in fifty to the sixth.
    one, *others = (run_study(spec, strategy, population, 1000, None) for _ in range(7))

    assert all(one.entries[:2] == other.entries[:2] for other in others)
    assert any(one.entries[3] != other.entries[3] for other in others)


@pytest.mark.parametrize(
    ("run", "cause"),
    [
        (lambda _: _too_many(), Cause.TOO_FEW_USERS),
        (lambda _: _raising(), Cause.STRATEGY),
    ],
)
def test_a_study_that_cannot_learn_says_why(run: Callable[[Parameters], Asking], cause: Cause) -> None:
    strategy = strategy_of(run)
    view = run_study(study(strategy), strategy, nobody, 50, 1)

    assert view.end.state == "failed"
    assert view.end.cause is cause


def _too_many() -> Asking:
    yield [Ask(bit(0), 0.001)]
    return Hypothesis("", {})


def _raising() -> Asking:
    raise RuntimeError("no")
    yield []


nobody: Any = None
"""No study here gets as far as looking at its population."""


# ------------------------------------------------------------------------------------------------ nothing else does

STEPS = {
    "plan_round": {"server/askance_server/core/study.py"},
    "tally_round": {
        "lab/askance_lab/run_study.py",  # the page
        "server/askance_server/ledger",  # a ledger's own reports
        "server/askance_server/core/live.py",  # what is told of a round while it is open
        "protocol/askance_protocol/tally.py",
    },
    "respond_all": {"client/askance_client/simulation/blocks.py", "protocol/askance_protocol/rounds/prepared.py"},
    "answer_of": {"server/askance_server/core/replay.py"},
}
"""The functions that plan, tally, respond for many users and answer, and who may call each."""


def calls(function: str) -> set[str]:
    """The files of the four rooms in which a function of this name is called."""
    found: set[str] = set()
    for room in ("protocol", "client", "server", "lab"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and _name(node.func) == function:
                    found.add(str(path.relative_to(ROOT)))
    return found


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


@pytest.mark.parametrize("function", STEPS)
def test_nothing_else_plans_tallies_or_answers_a_round(function: str) -> None:
    found = calls(function)

    assert found
    assert {file for file in found if not any(file.startswith(known) for known in STEPS[function])} == set()
