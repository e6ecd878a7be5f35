"""CONTRIBUTING.md is true: its example is written, run, tested, linted and typed in a copy of the tree."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from askance_server.strategies.registry import registry
from tests.harness.tree import ROOT
from tests.server.strategies.test_strategies import BUILT_IN

PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
EXAMPLE = PAGE.split("\n## A change in thirty minutes\n")[1].split("\n## ")[0]
ROOMS = ("protocol", "client", "server", "lab")
STRATEGY = "server/askance_server/strategies/common_cell.py"
TEST = "tests/server/strategies/test_common_cell.py"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", EXAMPLE, re.MULTILINE | re.DOTALL)


def calls() -> list[str]:
    """The commands of the example, but those that clone and install."""
    return [line for block in blocks("sh")[1:] for line in block.splitlines()]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the example needs, in which a newcomer has done what it says."""
    folder = tmp_path_factory.mktemp("clone")
    hidden = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in (*ROOMS, "tests/harness", "tests/server"):
        shutil.copytree(ROOT / name, folder / name, ignore=hidden)
    for name in ("pyproject.toml", "conftest.py", "tests/__init__.py"):
        shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    strategy, test = blocks("python")
    (folder / STRATEGY).write_text(strategy, "utf-8")
    (folder / TEST).write_text(test, "utf-8")
    return folder


def ended(tree: Path, command: str) -> tuple[int, str]:
    """Exit code and output of a command in the copy."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ASKANCE_", "PYTEST_"))}
    environment["PYTHONPATH"] = os.pathsep.join(str(tree / room) for room in ROOMS)
    run = subprocess.run(
        ["bash", "-c", command], cwd=tree, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    return run.returncode, run.stdout + run.stderr


@pytest.mark.parametrize("command", calls())
def test_what_a_newcomer_types_works(tree: Path, command: str) -> None:
    code, said = ended(tree, command)

    assert code == 0, said


def test_the_example_does_each_step() -> None:
    """What is run above is all that the text promises: a run, its test, lint and types."""
    steps = (" run ", " pytest ", "ruff format", "ruff check", "pyright")

    assert [step for step in steps if step not in " ".join(calls())] == []
    assert (STRATEGY in EXAMPLE, TEST in EXAMPLE) == (True, True)
    [line] = blocks("toml")
    groups = tomllib.loads((ROOT / "tests" / "mutation" / "groups.toml").read_text("utf-8"))
    assert tomllib.loads(line) == {"askance_server.strategies.common_cell": [TEST]}
    assert "askance_server.strategies.mean" in groups["strategies"]["modules"], "there are such lines"
    assert all('    "common-cell": ' in block for block in blocks("py"))
    assert '    "mean": False,\n' in (ROOT / "tests/server/strategies/test_strategies.py").read_text("utf-8")


def lists(tests: Path = ROOT / "tests") -> set[tuple[str, str]]:
    """Test and name of each table with a row for every strategy, or for each that promises something."""
    every = {name: strategy for name, strategy in registry().items() if name in BUILT_IN}
    names, found = {name for name, strategy in every.items() if strategy.promise}, set[tuple[str, str]]()
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "masked-parity" in text else ():
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if names <= {getattr(key, "value", None) for key in node.value.keys}:
                    found.add((path.relative_to(tests.parent).as_posix(), ast.unparse(target)))
    return found


def test_the_example_names_each_list_of_strategies(tmp_path: Path) -> None:
    """A newcomer who leaves one out learns of it from `make check`, at the end of her half hour."""
    named = re.findall(r"^# (\S+\.py), in (\w+)", "\n".join(blocks("py")), re.MULTILINE)
    assert set(named) == lists()
    # The control: another one.
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_new.py").write_text(f"ALL = {dict.fromkeys(BUILT_IN, 1)}\n", "utf-8")
    assert lists(tmp_path / "tests") == {("tests/test_new.py", "ALL")}


def test_control_a_fault_that_is_planted_in_the_example_is_found(tree: Path) -> None:
    """The fault that the text names, one word of the strategy: the example's own test finds it."""
    [command] = [each for each in calls() if " pytest " in each]
    path = tree / STRATEGY
    sound = path.read_text("utf-8")
    assert "argmax" in sound
    path.write_text(sound.replace("argmax", "argmin"), "utf-8")
    try:
        code, said = ended(tree, command)
    finally:
        path.write_text(sound, "utf-8")

    assert code == 1, said
    assert "failed" in said
