"""A study that is kept: killed in the middle it goes on, and has the tallies that it would have had."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

import askance_lab.run_study as run_study_module
from askance_client.simulation.blocks import BLOCK
from askance_client.simulation.population import synthetic
from askance_lab.engines import Engine
from askance_lab.experiments import checkpoint
from askance_lab.experiments.kept_run import KeptRun
from askance_lab.run_study import SlotCount, run_study
from askance_protocol.errors import UsageError
from askance_server.core.in_memory import StudyInMemory
from askance_server.strategies.registry import registry
from tests.server.learners import study

STRATEGY = registry()["masked-parity"]
POPULATION = synthetic("masked-parity", {"d": 4}, 1)
RUN = {"seed": 1}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty tasks of a thousand users, and a file that is written at each."""
    monkeypatch.setattr(run_study_module, "BLOCK", BLOCK // 100)
    monkeypatch.setattr(checkpoint, "EVERY", 0.0)


class StoppingEngine:
    """An engine that counts its tasks of rounds, and is interrupted before one of them."""

    def __init__(self, after: int = 10**9) -> None:
        self.ran, self.after = 0, after

    def __call__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        if isinstance(function, SlotCount):
            yield from map(function, tasks)
            return
        for task in tasks:
            if self.ran == self.after:
                raise KeyboardInterrupt
            self.ran += 1
            yield function(task)


def ran(through: Engine | KeptRun, users: str = "all") -> StudyInMemory:
    spec = study(STRATEGY, d=4, users=users, epsilon="4")
    return run_study(spec, STRATEGY, POPULATION, 40_000, 1, cast("Engine", through))


@pytest.mark.parametrize("after", [0, 1, 17, 40, 55])
@pytest.mark.parametrize("users", ["all", "needed"])
def test_an_interrupted_run_goes_on_and_has_the_same_tallies(tmp_path: Path, after: int, users: str) -> None:
    """In the first round and in the second, at their first tasks and later."""
    whole = StoppingEngine()
    expected = ran(whole, users)
    assert (whole.ran == 80) == (users == "all"), "needed ends a round early, within its tasks"
    stopping, rest = StoppingEngine(after), StoppingEngine()
    if after < whole.ran:
        with pytest.raises(KeyboardInterrupt), KeptRun(stopping, tmp_path / "it", RUN) as kept:
            ran(kept, users)
    with KeptRun(rest, tmp_path / "it", RUN) as kept:
        assert ran(kept, users).entries == expected.entries
    # A round's last task may be done again, to be sure of it.
    assert whole.ran <= stopping.ran + rest.ran <= whole.ran + 2


def test_control_a_sum_that_misses_a_task_is_found(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), KeptRun(StoppingEngine(17), tmp_path / "it", RUN) as kept:
        ran(kept)
    document = json.loads((tmp_path / "it").read_text())
    ((id_, counted),) = ((name, value) for name, value in document["counted"].items() if name != "run")
    counted["users"] += 1000
    document["counted"][id_] = counted
    (tmp_path / "it").write_text(json.dumps(document))

    with KeptRun(StoppingEngine(), tmp_path / "it", RUN) as kept:
        assert ran(kept).entries != ran(StoppingEngine()).entries


def test_a_file_of_another_run_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    with KeptRun(StoppingEngine(), tmp_path / "it", RUN) as kept:
        ran(kept)
    before = (tmp_path / "it").read_bytes()
    with pytest.raises(UsageError, match="keeps another run"):
        KeptRun(StoppingEngine(), tmp_path / "it", {"seed": 2})
    assert (tmp_path / "it").read_bytes() == before


# --------------------------------------------------------------------------------------------------------- the command

COMMAND = [sys.executable, "-m", "askance_lab"]
RUN_PARITY = ["run", "masked-parity", "--d", "16", "--users", "2000000", "--json"]
KILLED = """
import os, signal
from askance_lab.cli import main
from askance_lab.experiments import checkpoint

write = checkpoint.Checkpoint.write

def write_and_die(kept):
    write(kept)
    if kept.results.keys() - {"run"}:
        os.kill(os.getpid(), signal.SIGKILL)

checkpoint.EVERY = 0.0
checkpoint.Checkpoint.write = write_and_die
main()
"""
"""A command that is killed as soon as it has kept a part of a round."""
SHOWN = """
from askance_lab.cli import main
from askance_lab.commands.shared import progress

progress._SECONDS_ELSEWHERE = 0.0
main()
"""
"""A command that prints each step of its progress: how many lines a plain one prints depends on how long it takes."""


def test_a_command_that_is_killed_goes_on_and_prints_the_same(tmp_path: Path) -> None:
    expected = told(subprocess.run([*COMMAND, *RUN_PARITY], capture_output=True, check=True).stdout)
    options = [*RUN_PARITY, "--keep", str(tmp_path / "it"), "--workers", "2"]
    first = subprocess.run([sys.executable, "-c", KILLED, *options], capture_output=True, check=False)
    assert first.returncode == -signal.SIGKILL
    counted = [value["users"] for name, value in read(tmp_path / "it").items() if name != "run"]
    assert counted
    assert 0 < counted[0] < 2_000_000

    again = subprocess.run([sys.executable, "-c", SHOWN, *options], capture_output=True, check=True)
    assert told(again.stdout) == expected
    progress = [json.loads(line) for line in again.stderr.splitlines()]
    of_rounds = {each["of"] for each in progress if each["what"] != SlotCount.label}
    assert of_rounds == {4_000_000}, "users of two rounds"
    refused = subprocess.run([*COMMAND, *options, "--seed", "2"], capture_output=True, text=True, check=False)
    assert (refused.returncode, "keeps another run" in refused.stderr) == (2, True)


def told(out: bytes) -> dict[str, Any]:
    return {name: value for name, value in json.loads(out).items() if name != "seconds"}


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())["counted"]
