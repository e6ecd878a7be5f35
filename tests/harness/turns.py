"""The order in which tests are run: what takes longest first, so that several workers end at the same time.

A file stays whole with one worker: a document is read from top to bottom, and what a file sets up once is set up once.
One that takes long and begins last would keep it busy while the others have nothing left to do. How long each took is
kept in `seconds.json`, and written by `--seconds FILE` at the end of a run of all tests; it decides nothing but the
order. A file that it does not know comes first if it has tests with the mark `slow`. Files whose tests take long and
share nothing are handed out test by test (`APART`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

KEPT: Final = Path(__file__).with_name("seconds.json")
LEAST: Final = 0.5
"""What takes less is not kept: such files are run last, in their own order."""

APART: Final = frozenset(
    {
        "tests/client/test_client_kills.py",
        "tests/client/test_enrolment_kills.py",
        "tests/server/ledger/test_crashes.py",
        "tests/server/ledger/test_faults.py",
        "tests/server/ledger/test_ledger_machine.py",
        "tests/server/ledger/test_room_kills.py",
        "tests/server/test_description.py",
    }
)
"""Files whose tests go to whichever worker is free."""


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


class Turns(LoadScopeScheduling):
    """Hands out files in the order in which they were collected, and the tests of some one by one.

    It looks tests up by their names, and forgets what is done: what it is made from counts all tests for each.
    """

    _places: dict[str, int]

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Note where each test stands, which is the same with every worker."""
        self._places = {test: place for place, test in enumerate(collection)}
        super().add_node_collection(node, collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Note that a test is done."""
        test = self.registered_collections[node][item_index]
        units = self.assigned_work[node]
        unit = units[self._split_scope(test)]
        unit[test] = True
        if all(unit.values()):
            del units[self._split_scope(test)]
        self._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope, unit = self.workqueue.popitem(last=False)
        self.assigned_work[node][scope] = unit
        node.send_runtest_some([self._places[test] for test, done in unit.items() if not done])

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if file_of(nodeid) in APART else file_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """The scheduler of tests that several workers run, whatever `--dist` says."""
    config.option.loadscopereorder = False
    return Turns(config, log)
