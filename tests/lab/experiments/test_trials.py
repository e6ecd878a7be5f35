"""The harness of experiments: outcomes that depend on the seed alone, kept as they come, and never measured twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from askance_lab.engines import engine
from askance_lab.experiments import checkpoint as checkpoints
from askance_lab.experiments.checkpoint import Checkpoint
from askance_lab.experiments.trials import run_points, run_tasks, run_trials
from askance_protocol.errors import DataError

POINTS = {"one": 1, "two": 2}


def noisy(point: int, seed: int) -> int:
    return int(np.random.default_rng([point, seed]).integers(1 << 40))


def noisy_by_worker(point: int, seed: int) -> int:
    """The fault: the stream is the worker's."""
    return int(np.random.default_rng([os.getpid(), point, seed]).integers(1 << 40))


def never(point: int, seed: int) -> int:
    raise AssertionError(f"{point}, {seed} was measured again")


def stops_at_seed_3(point: int, seed: int) -> int:
    if seed == 3:
        raise KeyboardInterrupt
    return noisy(point, seed)


def squared(task: int) -> int:
    return task * task


def stops_at_4(task: int) -> int:
    if task == 4:
        raise KeyboardInterrupt
    return task * task


# ------------------------------------------------------------------------------------------------------- same numbers


@pytest.mark.parametrize(("name", "workers"), [("local", 2), ("dask", 1), ("dask", 2)])
def test_outcomes_are_the_same_for_any_engine_and_number_of_workers(name: str, workers: int) -> None:
    here = run_points(noisy, POINTS, 6, engine(), Checkpoint())
    with engine(name, workers) as there:
        assert run_points(noisy, POINTS, 6, there, Checkpoint()) == here
        assert run_trials(noisy, 1, range(6), there) == here["one"]
        assert run_tasks(squared, POINTS, there, Checkpoint()) == {"one": 1, "two": 4}


@pytest.mark.parametrize("name", ["local", "dask"])
def test_control_streams_of_the_workers_are_found(name: str) -> None:
    here = run_points(noisy_by_worker, POINTS, 6, engine(), Checkpoint())
    with engine(name, 2) as there:
        assert run_points(noisy_by_worker, POINTS, 6, there, Checkpoint()) != here


# --------------------------------------------------------------------------------------------------------- what is kept


def test_what_is_interrupted_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path, whole = tmp_path / "kept.json", run_points(noisy, POINTS, 5, engine(), Checkpoint())
    with pytest.raises(KeyboardInterrupt):
        run_points(stops_at_seed_3, POINTS, 5, engine(), Checkpoint(path))
    told: list[int] = []

    assert Checkpoint(path).results == {"one": list(whole["one"][:3])}
    assert run_points(noisy, POINTS, 5, engine(), Checkpoint(path), told.append) == whole
    assert told == list(range(3, 11))
    assert run_points(never, POINTS, 5, engine(), Checkpoint(path)) == whole
    assert run_points(never, POINTS, 2, engine(), Checkpoint(path)) == {key: each[:2] for key, each in whole.items()}


def test_tasks_that_are_interrupted_go_on_where_they_stopped(tmp_path: Path) -> None:
    path, tasks = tmp_path / "kept.json", {str(number): number for number in (7, 2, 4, 3)}
    with pytest.raises(KeyboardInterrupt):
        run_tasks(stops_at_4, tasks, engine(), Checkpoint(path))
    told: list[int] = []

    assert Checkpoint(path).results == {"7": 49, "2": 4}
    assert run_tasks(squared, tasks, engine(), Checkpoint(path), told.append) == {"7": 49, "2": 4, "4": 16, "3": 9}
    assert told == [2, 3, 4]


KILLED = """
import os, sys
from pathlib import Path
from askance_lab.engines import engine
from askance_lab.experiments import checkpoint
from askance_lab.experiments.checkpoint import Checkpoint
from askance_lab.experiments.trials import run_points
from tests.lab.experiments.test_trials import noisy

def killed(point, seed):
    if seed == 4:
        os.kill(os.getpid(), 9)
    return noisy(point, seed)

checkpoint.EVERY = 0
run_points(killed, {"one": 1}, 9, engine(), Checkpoint(Path(sys.argv[1])))
"""


def test_a_process_that_is_killed_has_kept_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    run = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)

    assert run.returncode == -9
    assert Checkpoint(path).results == {"one": [noisy(1, seed) for seed in range(4)]}


def test_results_are_written_while_they_come_and_not_all_at_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(checkpoints.time, "monotonic", lambda: now)
    path = tmp_path / "kept.json"
    kept = Checkpoint(path)
    kept.keep("a", 1)
    assert not path.exists()
    now = checkpoints.EVERY
    kept.keep("b", None)
    assert Checkpoint(path).results == {"a": 1, "b": None}
    kept.keep("c", 3)
    assert "c" not in Checkpoint(path).results
    with kept:
        pass
    assert Checkpoint(path).results == {"a": 1, "b": None, "c": 3}
    assert [each.name for each in tmp_path.iterdir()] == ["kept.json"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema_version": 2, "results": {}}', '{"schema_version": 1, "errors": {}}', "5"]
)
def test_a_file_that_holds_no_such_results_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(text)
    with pytest.raises(DataError, match="results of version 1"):
        Checkpoint(path)
    path.write_text(json.dumps({"schema_version": 1, "results": {"a": 1}}))
    assert Checkpoint(path).results == {"a": 1}
