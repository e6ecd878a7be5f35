"""`make demo` in a clean clone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("protocol", "client", "server", "lab")


@pytest.mark.slow
def test_a_clean_clone_shows_its_estimates(tmp_path: Path) -> None:
    """Packages aside: they are those of this environment; the code that runs is the clone's."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ASKANCE_", "MAKE"))}
    environment["PYTHONPATH"] = os.pathsep.join(str(clone / room) for room in ROOMS)
    installed = tmp_path / "installed"
    made = ["make", "--silent", "-o", installed, "demo", f"BIN={Path(sys.executable).parent}", f"INSTALLED={installed}"]
    run = subprocess.run(
        [*made, "DEMO=--json --port 0"],
        cwd=clone,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert run.returncode == 0, run.stderr
    shown = json.loads(run.stdout)
    first, second = shown["learners"]
    assert 0 < first["seconds_since_the_start"] <= second["seconds_since_the_start"]
    assert (first["learner"], second["learner"]) == ("masked-parity-pooled", "masked-parity-noninteractive")
    assert first["rounds"] >= 2
    assert second["rounds"] == 1
    # A learner that asks in rounds may be sure before all users were asked.
    assert 4000 < first["users"] <= second["users"] == 8000
    for row in (first, second):
        assert (row["refusals"], row["state"]) == (0, "finished")
        assert row["max_spent_micro_epsilon"] == 1_000_000
    # Nobody was asked anything: it ended by itself, where there was no terminal.
    assert "Enter" not in run.stdout
