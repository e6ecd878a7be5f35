"""Engines: the same results whatever runs the tasks, in the order that is asked for, by workers that start once."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dask.config
import distributed
import numpy as np
import psutil
import pytest

import askance_lab.engines as engines_folder
from askance_client.simulation.population import synthetic
from askance_lab.commands.shared.exit_codes import EXIT_OF, Exit
from askance_lab.engines import LostWorkerError, WorkerPool, engine, engine_names
from askance_lab.engines import dask as dask_engine
from askance_lab.engines.dask import TOGETHER, ClusterError, Dask, portion
from askance_lab.engines.shared.workers import IN_FLIGHT
from askance_lab.run_study import Collection, run_study
from askance_protocol.errors import MissingExtraError, UsageError
from askance_server.strategies.registry import registry
from tests.harness.marks import SECONDS
from tests.server.learners import study

KINDS = [("local", 1), ("local", 2), ("dask", 1), ("dask", 2)]
BY_TWO = pytest.mark.parametrize(
    "workers", [kind for kind in KINDS if kind[1] == 2], ids=["local", "dask"], indirect=True
)
"""Tests of workers that are processes; those of all tests are opened once."""


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


@pytest.mark.parametrize("name", ["local", pytest.param("dask", marks=pytest.mark.slow)])
def test_a_worker_that_always_dies_is_an_error_in_one_line_and_the_next_call_starts_anew(name: str) -> None:
    with engine(name, 2) as opened:
        with pytest.raises(LostWorkerError, match="ended 3 times before a task was done"):
            list(opened(dies, range(3)))
        assert list(opened(itself, [1, 2])) == [1, 2]


@dataclass(frozen=True)
class KilledAtFive:
    """Draws by the task's seed; the process that is first given task 5 is killed, as the system kills one."""

    file: Path
    by_attempt: bool = False
    """The fault: a task that is done again draws from another stream."""

    def __call__(self, seed: int) -> list[int]:
        again = self.file.exists()
        if seed == 5 and not again:
            self.file.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return draws_by_seed(seed + 100 * (self.by_attempt and again and seed == 5))


@BY_TWO
def test_a_worker_that_is_killed_changes_nothing(workers: WorkerPool, tmp_path: Path) -> None:
    expected = [draws_by_seed(seed) for seed in range(30)]

    assert list(workers(KilledAtFive(tmp_path / "killed"), range(30))) == expected
    assert (tmp_path / "killed").exists(), "none was killed"
    # Control: streams that are not the task's own are found.
    assert list(workers(KilledAtFive(tmp_path / "again", by_attempt=True), range(30))) != expected


@BY_TWO
def test_a_worker_that_is_killed_in_the_middle_of_a_round_changes_no_tally(workers: WorkerPool) -> None:
    """The whole protocol: of two workers one is killed after the first results, and the tallies are those of one."""
    strategy = registry()["mean"]
    spec, population = study(strategy, users="all"), synthetic("mean", {}, 1)
    alone = run_study(spec, strategy, population, 1_600_000, 1)
    victim = next(iter(workers(process_of, range(6))))

    def killing(function: Any, tasks: Any) -> Iterator[Any]:
        for number, result in enumerate(workers(function, tasks)):
            if number == 1 and isinstance(function, Collection):
                os.kill(victim, signal.SIGKILL)
            yield result

    killed = run_study(spec, strategy, population, 1_600_000, 1, killing)
    assert victim not in set(workers(process_of, range(12)))
    assert killed.entries == alone.entries


# ------------------------------------------------------------------------------------------------- what is on its way


class Tasks(Sequence[int]):
    """Many tasks, and how many of them were looked at."""

    looked = 0

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, index: Any) -> Any:
        if index >= len(self):
            raise IndexError
        self.looked = max(self.looked, index + 1)
        return index


@BY_TWO
def test_only_some_tasks_are_on_their_way_however_many_there_are(workers: WorkerPool) -> None:
    tasks = Tasks()
    results = workers.completed(itself, tasks)
    for _ in range(20):
        next(results)

    together = TOGETHER if isinstance(workers, Dask) else 1
    assert 20 <= tasks.looked <= 20 + (IN_FLIGHT * 2 + 1) * together


def test_tasks_go_out_together_while_many_are_left_and_one_by_one_in_the_end() -> None:
    left, sizes = 100, list[int]()
    while left:
        sizes.append(portion(left, 2))
        left -= sizes[-1]

    assert sizes[0] == TOGETHER
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-6:] == [1] * 6


class Heavy:
    """A function that carries something, and counts how often it is packed and unpacked."""

    packed = 0

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getstate__(self) -> Path:
        Heavy.packed += 1
        return self.folder

    def __setstate__(self, folder: Path) -> None:
        self.folder = folder
        (folder / f"{os.getpid()}-{time.monotonic_ns()}").touch()

    def __call__(self, task: int) -> int:
        return task


@BY_TWO
def test_what_a_function_carries_is_packed_once_and_sent_to_each_worker_once(
    workers: WorkerPool, tmp_path: Path
) -> None:
    before = Heavy.packed
    assert list(workers(Heavy(tmp_path), range(60))) == list(range(60))
    unpacked = [file.name.partition("-")[0] for file in tmp_path.iterdir()]

    assert Heavy.packed - before == 1
    assert len(unpacked) == len(set(unpacked)) <= 2


OUTLIVED = """
import os, time
from askance_lab.engines import engine
from tests.lab.engines.test_engines import process_of

if __name__ == "__main__":
    opened = engine({name!r}, 2)
    print(*set(opened(process_of, range(20))), flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("name", engine_names())
def test_workers_do_not_outlive_a_process_that_is_killed(name: str) -> None:
    script = OUTLIVED.format(name=name)
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
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


# ----------------------------------------------------------------------------------------------------------- clusters


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """A scheduler with one worker on the loopback, by its address: what somebody else has started."""
    local_cluster: Any = distributed.LocalCluster
    quiet = {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
    with (
        dask.config.set(quiet),
        local_cluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            host="127.0.0.1",
            protocol="tcp://",
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            silence_logs=logging.CRITICAL,
        ) as running,
    ):
        yield running.scheduler_address


def test_a_cluster_that_is_running_gives_the_same_results_and_goes_on(cluster: str) -> None:
    for _ in range(2):
        with engine("dask", cluster=cluster) as opened:
            assert list(opened(draws_by_seed, range(12))) == [draws_by_seed(seed) for seed in range(12)]
            assert opened.workers == 1


class Workers:
    """A cluster whose workers say this of their version, or have none."""

    def __init__(self, *versions: str | None) -> None:
        self.versions = versions

    def wait_for_workers(self, number: int, timeout: float) -> None:
        if len(self.versions) < number:
            raise TimeoutError

    def run(self, _: object) -> dict[int, str]:
        if None in self.versions:
            raise ModuleNotFoundError("No module named 'askance_lab'", name="askance_lab")
        return dict(enumerate(map(str, self.versions)))


def test_a_cluster_without_workers_or_of_another_version_is_refused() -> None:
    here, at = version("askance"), "tcp://10.0.0.1:8786"
    dask_engine._check(Workers(here, here), at)
    for workers, why in (
        (Workers(), rf"has no workers \(start some: dask worker {at}\)"),
        (Workers(here, "0.0.7"), rf"has askance 0.0.7, .*\(install {here} there"),
        (Workers(None), "cannot load askance_lab"),
    ):
        with pytest.raises(ClusterError, match=why):
            dask_engine._check(workers, at)


def test_a_cluster_that_does_not_answer_is_an_error_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("askance_lab.engines.dask._PATIENCE", 0.5)
    with closed_port() as port, pytest.raises(ClusterError, match=rf"tcp://127.0.0.1:{port}: does not answer") as told:
        list(engine("dask", cluster=f"tcp://127.0.0.1:{port}")(itself, [1]))
    assert EXIT_OF[told.value.code] == Exit.UNREACHABLE


@contextmanager
def closed_port() -> Iterator[int]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize("workers", [("dask", 2)], ids=["dask"], indirect=True)
def test_the_cluster_of_this_machine_listens_on_the_loopback_only(workers: WorkerPool) -> None:
    list(workers(itself, [1]))
    # distributed brings psutil.
    me = psutil.Process()
    hosts = {
        link.laddr[0]
        for process in (me, *me.children(recursive=True))
        for link in process.net_connections("inet")
        if link.status == psutil.CONN_LISTEN
    }

    assert hosts == {"127.0.0.1"}


def test_only_dask_has_clusters() -> None:
    with pytest.raises(UsageError, match="--cluster: is not for this engine"):
        engine("local", cluster="tcp://127.0.0.1:1")


def test_dask_that_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"askance\[dask\]"):
        list(engine("dask")(abs, [1]))
