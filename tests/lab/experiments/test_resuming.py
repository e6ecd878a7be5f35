"""Measurements that take minutes are gone on with: after a kill the results are those that there would have been."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from askance_lab.commands import separation as separation_command
from tests.harness import warm
from tests.lab.commands.calls import at_home

KILLED = """
import os, sys
from askance_lab.cli import main
from askance_lab.experiments import checkpoint
checkpoint.EVERY = 0
keep, left = checkpoint.Checkpoint.keep, [int(sys.argv.pop(1))]
def kept_and_killed(self, key, result):
    keep(self, key, result)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), 9)
checkpoint.Checkpoint.keep = kept_and_killed
main()
"""
SEPARATION = ("separation", "--d", "4", "--users", "600,900", "--seeds", "3")
LANDSCAPE = ("landscape", "--classes", "POINT", "--d", "8", "--seeds", "10")


def results(capsys: pytest.CaptureFixture[str], out: Path, *call: str) -> tuple[Any, str]:
    """What a call leaves, and what it says on standard error."""
    code, _, told = at_home(capsys, *call, "--out", out)
    assert code == 0, told
    return json.loads((out / "results.json").read_text()), told


@pytest.mark.slow
@pytest.mark.parametrize(("call", "kept"), [(SEPARATION, 7), (LANDSCAPE, 2)], ids=["separation", "landscape"])
def test_after_a_kill_the_results_are_those_of_one_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], call: tuple[str, ...], kept: int
) -> None:
    killed = tmp_path / "killed"
    run = warm.run([str(kept), *call, "--out", str(killed)], KILLED)
    assert run.returncode == -9, run.stderr
    assert not (killed / "results.json").exists()
    [file] = [each for each in killed.iterdir() if each.suffix == ".json"]
    # What the killed call has measured is not measured again: a change to it is seen in the results. The control.
    changed = tmp_path / "changed"
    changed.mkdir()
    document = json.loads(file.read_text())
    part: dict[str, Any] = next(each for each in document.values() if isinstance(each, dict))
    first = next(iter(part))
    all_77 = dict.fromkeys(("users", "low", "high"), 77)
    part[first] = {**part[first], **all_77} if isinstance(part[first], dict) else [[0.6, 2], *part[first][1:]]
    (changed / file.name).write_text(json.dumps(document))

    whole, _ = results(capsys, tmp_path / "whole", *call)
    resumed, told = results(capsys, killed, *call, "--resume")
    assert resumed == whole
    assert f"has {kept} of " in told
    assert results(capsys, changed, *call, "--resume")[0] != whole


@pytest.mark.slow
def test_a_call_with_other_parameters_in_the_same_folder_takes_none_of_its_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, _ = results(capsys, tmp_path / "fresh", *SEPARATION, "--epsilon", "4")
    results(capsys, tmp_path / "shared", *SEPARATION)
    other, told = results(capsys, tmp_path / "shared", *SEPARATION, "--epsilon", "4", "--resume")

    assert other == fresh
    assert "has 0 of 18 measurements already: what else is there has other parameters" in told
    # The control: measurements by a name that leaves ε out are taken for those of another ε.
    results(capsys, tmp_path / "planted", *SEPARATION)
    before = (tmp_path / "planted" / "measured.json").read_text().replace("epsilon=1", "epsilon=4")
    (tmp_path / "planted" / "measured.json").write_text(before)
    assert results(capsys, tmp_path / "planted", *SEPARATION, "--epsilon", "4", "--resume")[0] != fresh


def test_who_interrupts_a_measurement_is_told_how_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(separation_command, "measure", interrupted)
    code, _, told = at_home(capsys, *SEPARATION, "--out", tmp_path / "out")
    assert code == 130
    assert "go on with --resume" in told
