"""docs/security.md: each attack has a test that there is, and its figures are those that `make torture` counted."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.harness.figures import kept, said

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = (ROOT / "docs" / "security.md").read_text("utf-8")
ATTACKS, FIGURES = PAGE.split("\n## Figures\n")
TORTURE: Final[dict[str, Any]] = json.loads((ROOT / "docs" / "security" / "torture.json").read_text("utf-8"))


def rows(text: str) -> list[list[str]]:
    """The rows of all tables, without their heads."""
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for table in tables for row in table.splitlines()[2:]]


def unknown(text: str) -> list[str]:
    """What is named as a test and is none, and rows that name none."""
    named = [re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row[-1]) for row in rows(text)]
    wrong = [f"{path}::{name}" for row in named for path, name in row if name not in functions(ROOT / path)]
    return wrong + [row[0] for row, tests in zip(rows(text), named, strict=True) if not tests]


def functions(path: Path) -> set[str]:
    """The functions of a file of tests."""
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_attack_has_tests_that_there_are() -> None:
    assert len(rows(ATTACKS)) >= 25
    assert unknown(ATTACKS) == []


def test_a_row_without_a_test_and_one_with_a_wrong_name_are_found() -> None:
    head = "\n| tries | stopped by | test |\n|---|---|---|\n"
    assert unknown(head + "| a | b | `tests/test_security.py::test_nothing` |\n") == [
        "tests/test_security.py::test_nothing"
    ]
    assert unknown(head + "| a | b | none |\n") == ["a"]


def test_the_figures_are_what_was_counted() -> None:
    assert rows(FIGURES) == [[item, said(counts)] for item, counts in TORTURE["items"].items()]


def test_a_later_run_replaces_what_it_counted_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    kept(path, {"kills": {"lost": 0}, "cuts": {"lost": 0}})
    kept(path, {"kills": {"lost": 1}})

    told: dict[str, Any] = json.loads(path.read_text("utf-8"))
    assert told["items"] == {"cuts": {"lost": 0}, "kills": {"lost": 1}}


@pytest.mark.parametrize("fails", [False, True])
def test_figures_are_kept_of_a_run_in_which_no_worker_has_failed(tmp_path: Path, fails: bool) -> None:
    for number in range(2):
        test = f"def test(figures): figures('kills', lost={number}); assert not ({fails} and {number})"
        (tmp_path / f"test_{number}.py").write_text(test, "utf-8")
    options = ["-n", "2", "--dist", "loadfile", "-c", os.devnull, "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    options += ["-p", "tests.harness.figures", "--figures", str(tmp_path / "kept.json"), str(tmp_path)]
    ended = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, check=False, capture_output=True)

    assert ended.returncode == int(fails), ended.stdout.decode()
    assert (tmp_path / "kept.json").exists() is not fails
