"""Figures that tests note, summed up in one table at the end of a run, and kept in the file of `--figures FILE`.

A test that counts something takes the fixture `figures` and calls it with the name of an item and its counts; the calls
of one item, from whatever test and worker, are added up. `conftest.py` loads this for every run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

PROPERTY: Final = "figures"

Figures = Callable[..., None]
"""Notes the counts of an item: `figures("kills, embedded", kills=50, lost=0)`."""


@pytest.fixture
def figures(record_property: Callable[[str, object], None]) -> Figures:
    """Note counts for the table at the end; they are printed with the test as well."""

    def note(item: str, **counts: int) -> None:
        # Workers hand on Python's own numbers only.
        whole = {name: int(count) for name, count in counts.items()}
        record_property(PROPERTY, [item, whole])
        print(f"{item}: {said(whole)}")

    return note


def said(counts: Mapping[str, int]) -> str:
    """Counts in one line."""
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())


def summed(noted: Iterable[tuple[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """The sum of each count of each item, both in the order of their first coming."""
    sums: dict[str, dict[str, int]] = {}
    for item, counts in noted:
        mine = sums.setdefault(item, {})
        for name, count in counts.items():
            mine[name] = mine.get(name, 0) + count
    return sums


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that names a file."""
    parser.addoption("--figures", metavar="FILE", type=Path, help="keep the figures of this run in a file, as JSON")


def kept(path: Path, sums: Mapping[str, Mapping[str, int]]) -> None:
    """Write the items of a run over those that the file has of them; what this run did not count stays."""
    items = json.loads(path.read_text("utf-8"))["items"] if path.exists() else {}
    told = {"schema_version": 1, "items": dict(sorted({**items, **sums}.items()))}
    path.write_text(json.dumps(told, indent=1) + "\n", "utf-8")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the table, if there is anything in it; keep it only if nothing failed."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    properties = [value for report in reports for name, value in report.user_properties if name == PROPERTY]
    sums = summed((item, counts) for item, counts in properties)
    if sums:
        terminalreporter.section("figures")
        width = max(map(len, sums))
        for item, counts in sorted(sums.items()):
            terminalreporter.write_line(f"{item:{width}}  {said(counts)}")
        path: Path | None = config.getoption("--figures")
        # A worker has run a part, and knows nothing of the failures of the others.
        whole = not hasattr(config, "workerinput")
        if path is not None and whole and not terminalreporter.stats.get("failed"):
            kept(path, sums)
