"""`make demo` in a clean clone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from askance_lab.commands.shared.export_files import read_export
from askance_protocol.errors import ProtocolError
from askance_server.core.export import verify_files
from askance_server.core.verification import VerificationError
from askance_server.strategies.registry import registry

ROOT = Path(__file__).parents[2]
ROUNDS = {"masked-parity-two-rounds": 2, "masked-parity-noninteractive": 1}
ROOMS = ("protocol", "client", "server", "lab")


@pytest.mark.slow
def test_a_clean_clone_shows_its_estimates(tmp_path: Path) -> None:
    """Packages aside: they are those of this environment; the code that runs is the clone's."""
    clone, scratch = tmp_path / "clone", tmp_path / "scratch"
    scratch.mkdir()
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, clone], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ASKANCE_", "MAKE"))}
    environment["PYTHONPATH"] = os.pathsep.join(str(clone / room) for room in ROOMS)
    environment["TMPDIR"] = str(scratch)
    ready = tmp_path / "ready"
    made = ["make", "--silent", "-o", ready, "demo", f"BIN={Path(sys.executable).parent}", f"READY={ready}"]
    run = subprocess.run(
        [*made, f"DEMO=--json --port 0 --export {tmp_path / 'exports'}"],
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
    rows = shown["learners"]
    assert len(rows) == 2 * shown["concepts"] == 80
    times = [row["seconds_since_the_start"] for row in rows]
    assert times[0] > 0
    assert times == sorted(times)
    for row in rows:
        assert row["strategy"] == row["learner"]
        if row["over"] == "http":
            # A learner that asks in rounds may be sure before all users were asked.
            assert row["d"] == 8
            assert 1500 < row["users"] <= 3000
            assert (row["rounds"] == 1) == (row["strategy"] == "masked-parity-noninteractive")
            assert row["rounds"] <= 6
        else:
            # Two rounds ask all that there are, like one.
            assert (row["rounds"], row["d"], row["users"]) == (ROUNDS[row["strategy"]], 16, 40_000)
        assert row["state"] == "finished"
        assert row["max_spent_micro_epsilon"] == 1_000_000
    live = [row for row in rows if row["over"] == "http"]
    assert [row["refusals"] for row in live] == [0, 0]
    # The separation: on 39 of 40 concepts everything follows from the seed.
    own = [row for row in rows if row["over"] == "process"]
    right = {learner: sum(row["error"] == 0 for row in own if row["learner"] == learner) for learner in ROUNDS}
    assert right["masked-parity-two-rounds"] >= 38
    assert right["masked-parity-noninteractive"] <= 26
    assert shown["conclusion"].startswith("A second round is worth it: masked-parity-two-rounds (2 rounds) learned ")
    assert shown["separation"]["difference"][1] > 0
    assert shown["limit"]["at_once"] > 40_000 == shown["limit"]["asked_in_rounds"]["most"]
    # Nobody was asked anything: it ended by itself, where there was no terminal, and left no address of what is gone.
    assert "Enter" not in run.stdout
    assert "http://" not in run.stdout
    assert list(scratch.iterdir()) == []
    check_exports(tmp_path / "exports", live, tmp_path / "empty")


def check_exports(exports: Path, live: list[dict[str, Any]], empty: Path) -> None:
    """What was shown live is verified in an empty folder by what was exported alone; 20 changes of each are found."""
    empty.mkdir()
    for row in live:
        path = exports / row["learner"]
        command = [sys.executable, "-m", "askance_lab", "study", "verify", path, "--json"]
        run = subprocess.run(command, cwd=empty, capture_output=True, text=True, timeout=600, check=False)
        assert run.returncode == 0, run.stderr
        assert list(empty.iterdir()) == []

        files = {name: bytes(read(1 << 24)) for name, read in read_export(path).items()}
        verified = verify_files(files, registry())
        assert verified.study.digest() == row["study"]
        found = 0
        for changed in changes(files, 20):
            with pytest.raises((VerificationError, ProtocolError)):
                verify_files(changed, registry())
            found += 1
        assert found == 20


def changes(files: dict[str, bytes], number: int) -> Iterator[dict[str, bytes]]:
    """The files with another digit in one place, here and there in each of them: in turn, from the largest."""
    names = sorted(files, key=lambda name: -len(files[name]))
    for place in range(number):
        name = names[place % len(names)]
        digits = [at for at, byte in enumerate(files[name]) if chr(byte).isdecimal()]
        at = digits[len(digits) * (place + 1) // (number + 1)]
        other = b"7" if files[name][at : at + 1] != b"7" else b"3"
        yield {**files, name: files[name][:at] + other + files[name][at + 1 :]}


def commands_of(*arguments: str) -> str:
    """What make would run."""
    made = ["make", "--dry-run", "--no-print-directory", *arguments]
    return subprocess.run(made, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_demo_installs_what_it_needs_with_hashes_and_says_so(tmp_path: Path) -> None:
    fresh = [f"READY={tmp_path / 'ready'}", f"INSTALLED={tmp_path / 'installed'}"]

    demo = commands_of("demo", *fresh)
    assert "--require-hashes -r demo-requirements.txt" in demo
    assert "constraints.txt" not in demo, "what tests need is not installed"
    assert "Installing into .venv what the demo needs" in demo
    assert "--quiet --disable-pip-version-check --progress-bar" not in demo, "pip says what it does"

    # What the tests need is installed when they are run, whether or not the demo was there before.
    (tmp_path / "ready").touch()
    everything = commands_of("install", *fresh)
    assert "--require-hashes -r constraints.txt" in everything
    assert "Installing into .venv all that the tests need" in everything
    # Minutes of silence look like a program that hangs.
    assert [line for line in everything.splitlines() if "--quiet" in line and "constraints.txt" in line] == []
    assert "pip install" not in commands_of("demo", *fresh), "the second demo begins at once"


def test_the_demos_part_of_the_lock_has_no_tool_of_the_tests() -> None:
    names = {
        line.partition("==")[0] for line in (ROOT / "demo-requirements.txt").read_text().splitlines() if "==" in line
    }

    assert {"editables", "fastapi", "hatchling", "numpy", "typer", "uvicorn"} <= names
    assert not names & {"pytest", "ruff", "basedpyright", "scipy", "dask", "pyarrow", "psycopg", "hypothesis"}
    # The control: the whole lock has them.
    assert "pytest==" in (ROOT / "constraints.txt").read_text()
