"""The order in which files of tests are run: what takes longest first, so that several workers end at the same time.

A file stays whole with one worker: one that takes long and begins last would keep it busy while the others have nothing
left to do. How long each took is kept in `seconds.json`, and written by `--seconds FILE` at the end of a run of all
tests; it decides nothing but the order. A file that it does not know comes first if it has tests with the mark `slow`.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

KEPT: Final = Path(__file__).with_name("seconds.json")
LEAST: Final = 0.5
"""What takes less is not kept: such files are run last, in their own order."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that names a file."""
    parser.addoption("--seconds", metavar="FILE", type=Path, help="keep the seconds of each file of this run, as JSON")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files that take long first."""
    known: dict[str, float] = json.loads(KEPT.read_text("utf-8"))
    slow = {file_of(item.nodeid) for item in items if item.get_closest_marker("slow") is not None}
    first = max(known.values(), default=0.0)
    items.sort(key=lambda item: -seconds(file_of(item.nodeid), known, slow, first))


def seconds(file: str, known: dict[str, float], slow: set[str], first: float) -> float:
    """How long a file is thought to take."""
    return known.get(file, first if file in slow else 0.0)


def file_of(node: str) -> str:
    """The file of a test, by its id."""
    return node.partition("::")[0]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Keep the seconds of a run, if they are asked for; a worker knows its own part only."""
    path: Path | None = config.getoption("--seconds")
    if path is None or hasattr(config, "workerinput"):
        return
    took = Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                took[file_of(report.nodeid)] += report.duration  # pyright: ignore[reportArgumentType] - it adds floats
    kept = {file: round(spent, 1) for file, spent in sorted(took.items()) if spent >= LEAST}
    path.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
