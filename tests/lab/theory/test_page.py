"""docs/theory.md: what the code cites is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from askance_lab.theory.theorem import theorems

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "theory.md").read_text("utf-8")
ROOMS = ("protocol", "client", "server", "lab", "tests", "docs", "benchmarks", "examples")
CITED = re.compile(r"theory\.md#([a-z0-9-]+)(?![\w{-])")


def anchors(page: str) -> set[str]:
    """The anchors of its headings, as GitHub makes them of plain words."""
    return {re.sub(r"[^a-z0-9]+", "-", title.lower()) for title in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}


def citations(files: Iterator[Path]) -> Iterator[tuple[str, str]]:
    for file in files:
        for anchor in CITED.findall(file.read_text("utf-8")):
            yield file.name, anchor


def sources() -> Iterator[Path]:
    for room in ROOMS:
        for pattern in ("*.py", "*.md", "*.js"):
            yield from (file for file in (ROOT / room).rglob(pattern) if "node_modules" not in file.parts)


def test_every_anchor_that_is_cited_is_on_the_page() -> None:
    there = anchors(PAGE)

    assert [(name, anchor) for name, anchor in citations(sources()) if anchor not in there] == []


def test_a_citation_of_a_missing_anchor_is_found(tmp_path: Path) -> None:
    """The control."""
    (tmp_path / "a.py").write_text("# docs/theory.md" + "#trap-99", "utf-8")

    [(name, anchor)] = citations(iter([tmp_path / "a.py"]))

    assert (name, anchor) == ("a.py", "trap-99")
    assert anchor not in anchors(PAGE)


@pytest.mark.parametrize("trap", range(1, 25))
def test_every_trap_has_its_anchor(trap: int) -> None:
    assert f"trap-{trap}" in anchors(PAGE)


def test_every_record_that_a_table_names_exists() -> None:
    """In the checklist a record's name is the last of the second column, in backticks, with a hyphen or as a word."""
    rows = [line.split("|")[3] for line in PAGE.splitlines() if line.startswith("|") and line.count("|") == 5]
    named = {name for cell in rows if ";" in cell for name in re.findall(r"`([a-z0-9-]+)`", cell.rpartition(";")[2])}

    assert named
    assert named <= set(theorems())
