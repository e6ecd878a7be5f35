"""Files that take long are run first, whole; one that nobody has measured, if it says that it is slow, before them."""

from __future__ import annotations

import json

from tests.harness.tree import ROOT
from tests.harness.turns import KEPT, file_of, seconds


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
