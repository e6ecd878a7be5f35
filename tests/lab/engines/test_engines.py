"""Engines: the same results whatever runs the tasks, in the order that is asked for, by workers that start once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import askance_lab.engines as engines_folder
from askance_lab.engines import WorkerPool, engine, engine_names
from askance_lab.engines.local import LostWorkerError
from askance_protocol.errors import MissingExtraError, UsageError
from tests.harness.marks import SECONDS

KINDS = [("local", 1), ("local", 2), ("dask", 1), ("dask", 2)]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
def workers(request: pytest.FixtureRequest) -> Iterator[WorkerPool]:
    """Each engine with one worker and with two, opened once for all the tests."""
    with engine(*request.param) as opened:
        yield opened


def draws_by_seed(seed: int) -> list[int]:
    return np.random.default_rng(seed).integers(1 << 40, size=3).tolist()


def draws_by_worker(seed: int) -> list[int]:
    """The fault: the stream is the worker's."""
    return np.random.default_rng([os.getpid(), seed]).integers(1 << 40, size=3).tolist()


def process_of(_: int) -> int:
    return os.getpid()


def waits_at_zero(task: tuple[int, str]) -> int:
    """Task 0 ends when there is a file; where none ever comes, it fails and does not hang."""
    number, path = task
    end = time.monotonic() + SECONDS
    while number == 0 and not Path(path).exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    return number


def itself(task: int) -> int:
    return task


def fails_at_three(task: int) -> int:
    if task == 3:
        raise ValueError("three")
    return task


def dies(_: int) -> int:
    os._exit(3)


# ------------------------------------------------------------------------------------------------------------ results


def test_results_are_the_same_for_every_engine_and_number_of_workers(workers: WorkerPool) -> None:
    expected = [draws_by_seed(seed) for seed in range(12)]

    assert list(workers(draws_by_seed, range(12))) == expected
    assert sorted(workers.completed(draws_by_seed, range(12))) == list(enumerate(expected))


def test_control_streams_of_the_workers_are_found(workers: WorkerPool) -> None:
    """With several workers the check above fails where a stream depends on the worker."""
    in_this_process = [draws_by_worker(seed) for seed in range(12)]

    assert (list(workers(draws_by_worker, range(12))) == in_this_process) == (workers.workers == 1)


def test_a_result_is_there_before_those_of_longer_tasks_unless_order_is_asked_for(tmp_path: Path) -> None:
    tasks = [(number, str(tmp_path / "go")) for number in range(6)]
    with engine("local", 2) as two:
        came: list[int] = []
        for index, result in two.completed(waits_at_zero, tasks):
            assert index == result
            came.append(index)
            (tmp_path / "go").touch()
        assert came[0] != 0
        assert sorted(came) == list(range(6))
        assert list(two(waits_at_zero, tasks)) == list(range(6))


def test_one_worker_is_this_process_and_gives_each_result_at_once() -> None:
    ran: list[int] = []
    results = engine()(ran.append, [1, 2, 3])

    next(iter(results))
    assert ran == [1]
    assert list(engine()(process_of, [0])) == [os.getpid()]


def test_no_tasks_are_no_results(workers: WorkerPool) -> None:
    assert list(workers(draws_by_seed, [])) == []


def test_an_error_of_a_task_reaches_the_caller_and_the_engine_goes_on(workers: WorkerPool) -> None:
    with pytest.raises(ValueError, match="three"):
        list(workers(fails_at_three, range(6)))
    assert list(workers(fails_at_three, [1, 2])) == [1, 2]


# ------------------------------------------------------------------------------------------------------------ workers


@pytest.mark.parametrize("name", engine_names())
def test_workers_start_once_for_all_calls_and_end_with_the_engine(name: str) -> None:
    with engine(name, 2) as opened:
        pids = {pid for _ in range(5) for pid in opened(process_of, range(6))}
        assert 1 <= len(pids) <= 2
        assert os.getpid() not in pids
    with opened:
        assert not pids & set(opened(process_of, range(6)))


def test_a_worker_that_dies_is_an_error_in_one_line_and_the_next_call_starts_anew() -> None:
    with engine("local", 2) as opened:
        with pytest.raises(LostWorkerError, match="ended before its task did"):
            list(opened(dies, range(3)))
        assert list(opened(itself, [1, 2])) == [1, 2]


OUTLIVED = """
import os, time
from askance_lab.engines import engine
from tests.lab.engines.test_engines import process_of

if __name__ == "__main__":
    opened = engine("local", 2)
    print(*set(opened(process_of, range(20))), flush=True)
    os.kill(os.getpid(), 9)
"""


def test_workers_do_not_outlive_a_process_that_is_killed() -> None:
    run = subprocess.run([sys.executable, "-c", OUTLIVED], capture_output=True, text=True, check=False)
    pids = [int(pid) for pid in run.stdout.split()]

    assert run.returncode == -9
    assert pids
    end = time.monotonic() + SECONDS
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - as short as it gets
            return ") Z " not in stat.read()
    except (FileNotFoundError, ProcessLookupError):
        return False


# -------------------------------------------------------------------------------------------------------------- names


def test_an_engine_is_a_file_found_by_its_name(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "twice.py").write_text(
        "from askance_lab.engines.local import Local\n"
        "class Twice(Local):\n"
        "    def completed(self, function, tasks):\n"
        "        for index, task in enumerate(tasks):\n"
        "            function(task)\n"
        "            yield index, function(task)\n"
        "ENGINE = Twice\n"
    )
    monkeypatch.setattr(engines_folder, "__path__", [*engines_folder.__path__, str(tmp_path)])

    assert engine_names() == ["dask", "local", "twice"]
    assert list(engine("twice")(abs, [-1, 2])) == [1, 2]


def test_what_is_no_engine_is_refused() -> None:
    with pytest.raises(UsageError, match="use one of dask, local"):
        engine("spark")
    for number in (0, 257):
        with pytest.raises(UsageError, match="from 1 to 256"):
            engine("local", number)


def test_dask_that_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(MissingExtraError, match=r"askance\[dask\]"):
        list(engine("dask")(abs, [1]))
