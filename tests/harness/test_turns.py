"""Files that take long are run first, whole; one that nobody has measured, if it says that it is slow, before them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from types import SimpleNamespace
from typing import Any, Final

from tests.harness.tree import ROOT
from tests.harness.turns import APART, KEPT, Turns, file_of, seconds


def test_the_longest_are_first_and_a_file_stays_whole() -> None:
    known, slow = {"a.py": 2.0, "b.py": 70.0}, {"new.py", "a.py"}
    nodes = ["a.py::one", "a.py::two", "short.py::one", "new.py::one", "b.py::one", "b.py::two[x::y]"]

    turns = sorted(nodes, key=lambda node: -seconds(file_of(node), known, slow, 70.0))
    assert turns == ["new.py::one", "b.py::one", "b.py::two[x::y]", "a.py::one", "a.py::two", "short.py::one"]


def test_what_is_kept_is_of_files_that_there_are() -> None:
    known = json.loads(KEPT.read_text("utf-8"))
    there = [file for file in known if (ROOT / file).is_file()]

    # Some may have gone since: nothing depends on it.
    assert len(there) > len(known) / 2 > 20
    assert all(spent > 0 for spent in known.values())


@dataclass(eq=False)
class Worker:
    """Runs what it is sent in the order in which it is sent, and nothing else."""

    sent: list[int] = field(default_factory=list[int])
    shutting_down: bool = False
    gateway: Any = field(default_factory=lambda: SimpleNamespace(id="one of the workers"))

    def send_runtest_some(self, places: list[int]) -> None:
        self.sent += places

    def shutdown(self) -> None:
        self.shutting_down = True


def at_work(workers: Sequence[Any], tests: list[str], *, dies: int | None = None) -> list[list[str]]:
    """What each worker runs, one test after the other in turn; the first may die in the middle of one of its tests."""
    option = SimpleNamespace(loadscopereorder=False)
    config: Any = SimpleNamespace(option=option, getvalue=lambda _: ["popen"] * len(workers))
    turns, ran = Turns(config), [list[str]() for _ in workers]
    for worker in workers:
        turns.add_node(worker)
        turns.add_node_collection(worker, tests)
    turns.schedule()
    while any(len(done) < len(worker.sent) for worker, done in zip(workers, ran, strict=True)):
        for worker, done in zip(workers, ran, strict=True):
            if len(done) == dies and worker is workers[0] and worker in turns.nodes:
                assert turns.remove_node(worker) == tests[worker.sent[dies]]
                worker.sent = worker.sent[:dies]
            elif len(done) < len(worker.sent):
                done.append(tests[worker.sent[len(done)]])
                turns.mark_test_complete(worker, worker.sent[len(done) - 1])
    return ran


SHARED: Final = sorted(APART)[0]
TESTS: Final = [f"{SHARED}::test[{number}]" for number in range(6)]
TESTS_OF_FILES: Final = [f"{name}.py::{number}" for name in "ab" for number in range(5)]


def test_each_test_is_run_once_a_file_by_one_worker_and_what_is_apart_by_all() -> None:
    ran = at_work([Worker(), Worker()], [*TESTS, *TESTS_OF_FILES])

    assert sorted(chain(*ran)) == sorted([*TESTS, *TESTS_OF_FILES])
    assert all(set(done) & set(TESTS) for done in ran)
    for file in "ab":
        [mine] = [[test for test in done if file_of(test) == f"{file}.py"] for done in ran if f"{file}.py::0" in done]
        assert mine == [f"{file}.py::{number}" for number in range(5)]


def test_what_a_worker_leaves_that_dies_is_run_by_the_others() -> None:
    dying, other = at_work([Worker(), Worker()], [*TESTS, *TESTS_OF_FILES], dies=2)

    # The test in which it died is run again as well: what it was about is told by its failure.
    assert sorted([*dying, *other]) == sorted([*TESTS, *TESTS_OF_FILES])


def test_what_is_apart_is_there() -> None:
    assert [file for file in APART if not (ROOT / file).is_file()] == []
