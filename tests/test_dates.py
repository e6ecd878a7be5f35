"""No test begins to fail on a date: a moment that stands in one as a number is looked at by no clock, and says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.harness.tree import ROOT, project_files

EARLIEST, LATEST = 1_600_000_000, 3_900_000_000
"""Seconds since 1970: from the year 2020 to 2093. What is beyond no run comes to see."""

REASONS = {
    "tests/client/test_last_lies.py": "the clock that the client in JavaScript is given",
    "tests/client/test_wallet.py": "a clock of the test itself, which jumps",
    "tests/client/test_wallet_upgrade.py": "the clock of the test itself, before the deadlines of a wallet of 0.1",
    "tests/releases/certain.py": "the clock of who writes what is kept, and of its tests",
    "tests/server/core/test_study.py": "the clock that the driver is given",
    "tests/server/ledger/upgrading.py": "the clock that the driver is given",
    "tests/server/dashboard/played.py": "a number that spreads bits, and no moment",
    "tests/server/strategies/test_more_strategies.py": "the clock that the driver is given",
    "tests/server/test_auth.py": "the expiry of a token that is read at a time which is given",
    "tests/server/test_changed_strategies.py": "the clock that the driver is given",
    "tests/vectors/parts.py": "vectors are never changed, and have no clock",
    "tests/vectors/whole.py": "vectors are never changed, and have no clock",
    "tests/test_dates.py": "these lines",
}


def moments(source: str) -> Iterator[float]:
    """The numbers of a program that may be moments of our time."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and EARLIEST <= node.value <= LATEST:
            yield node.value


def test_no_test_names_a_moment_that_its_runs_will_come_to() -> None:
    programs = [path for path in project_files() if path.suffix == ".py" and path.is_relative_to(ROOT / "tests")]
    named = {path.relative_to(ROOT).as_posix() for path in programs if list(moments(path.read_text("utf-8")))}

    assert named == set(REASONS)


def test_a_moment_is_found_however_it_is_written() -> None:
    """The control: the deadline that stood in the tests of version 0.1, in January 2027."""
    assert list(moments("liar.ask(part(), deadline=1_800_000_001)")) == [1_800_000_001]
    assert list(moments('{"deadline": 1800000000, "now": 1.8e9}')) == [1_800_000_000] * 2
    assert list(moments("FAR = 4_000_000_000; PASSED = 1_000_000_000; sure = True")) == []
