"""docs/decisions: the list is the files, each page has all its parts, and what a page names is there."""

from __future__ import annotations

import re

import pytest

from tests.harness.tree import ROOT

FOLDER = ROOT / "docs" / "decisions"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
HEADINGS = ["Context", "Decision", "Why not the others", "Consequences", "In the code", "Measured by"]


def listed(text: str) -> list[str]:
    """The pages that the list names, in its table."""
    return re.findall(r"^\| \[[\w-]+\]\(([\w-]+\.md)\)", text, re.MULTILINE)


def parts(page: str) -> list[str]:
    """The headings of a page; one without a text below it counts for nothing."""
    return re.findall(r"^## (.+)\n\n(?!#)\S", page, re.MULTILINE)


def lost(page: str) -> list[str]:
    """Paths in code spans that are not there: what has a slash, or ends as a file does."""
    named = re.findall(r"`((?:protocol|client|server|lab|tests|benchmarks|docs)/[\w./-]+)`", page)
    return [name for name in named if not (ROOT / name).exists()]


def test_the_list_names_every_decision_once() -> None:
    text = (FOLDER / "README.md").read_text("utf-8")

    assert sorted(listed(text)) == [path.name for path in PAGES]
    assert len(PAGES) >= 11
    # The control: a line that is missing, and one that is there twice.
    assert sorted(listed(text.replace("[dask](dask.md)", ""))) != [path.name for path in PAGES]
    assert listed("| [dask](dask.md) | a |\n| [dask](dask.md) | b |\n") == ["dask.md", "dask.md"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_decision_has_its_reasons_and_where_it_is(path: object) -> None:
    page = FOLDER.joinpath(str(path)).read_text("utf-8")
    *_, code, measured = page.split("\n## ")

    assert parts(page) == HEADINGS
    assert lost(page) == []
    assert re.search(r"`[a-z]+/[\w./-]+`", code), "it says where"
    assert re.search(r"`(tests|benchmarks|make|python|askance)\b|```console", measured), "it says what has shown it"
    assert 150 < len(page.split()) < 450, "a page is short"


def test_a_part_that_is_empty_and_a_file_that_is_gone_are_found() -> None:
    """The control."""
    assert parts("## Context\n\nIt was so.\n\n## Decision\n\n## In the code\n\nThere.\n") == ["Context", "In the code"]
    assert lost("see `server/askance_server/no_such_module.py` and `tests/vectors`") == [
        "server/askance_server/no_such_module.py"
    ]
