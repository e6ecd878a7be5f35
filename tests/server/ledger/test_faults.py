"""Whatever is raised wherever in a ledger: what it says is what is stored, and a retry is told the truth.

`ASKANCE_TORTURE=1` raises each error at each line; else they take turns.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from askance_server.ledger.base import Ledger
from askance_server.ledger.sqlite import SqliteLedger
from askance_server.ledger.sqlite import ledger as sqlite
from tests.server.ledger.faults import (
    OPERATIONS,
    CatchesItsOwnErrorsOnly,
    Embedded,
    Fault,
    KeepsWithoutStopping,
    Trials,
    at_line,
    at_query,
    at_statement,
    cut,
    raising,
    within_bytes,
)
from tests.server.ledger.ledgers import Keeper, PostgresKeeper
from tests.server.ledger.memory_ledger import MemoryKeeper
from tests.server.ledger.starving import starve

pytest_plugins = ("tests.server.ledger.ledgers",)

TORTURE = os.environ.get("ASKANCE_TORTURE") == "1"

ERRORS: Final[tuple[Callable[[], BaseException], ...]] = (
    MemoryError,
    KeyboardInterrupt,
    lambda: OverflowError("Python int too large to convert to SQLite INTEGER"),
    lambda: sqlite3.OperationalError("disk I/O error"),
)
operations = pytest.mark.parametrize("operation", OPERATIONS)


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place for embedded ledgers, in memory where there is one; each closing writes a checkpoint."""
    monkeypatch.setattr(sqlite, "CHECKPOINT_AFTER", 1)
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path / "ledger"
        return
    with tempfile.TemporaryDirectory(prefix="askance-faults-", dir=memory) as folder:
        yield Path(folder) / "ledger"


ANY_LINE: Final = [at_line(make) for make in ERRORS]
ANY_QUERY: Final = [at_query(raising(make), after=after) for make in ERRORS[:3] for after in (False, True)]
ANY_CUT: Final = [at_query(cut, after=after) for after in (False, True)]
ANY_STATEMENT: Final = [at_statement(make, after=after) for make in ERRORS for after in (False, True)]


def sweep(make: Callable[[], Keeper], operation: str, faults: list[Fault], *, durable: bool = True) -> list[str]:
    """What is wrong after a fault at each place of an operation. The faults take turns; in torture each has its own."""
    if not TORTURE:
        turns = list(faults)
        faults = [lambda ledger, place, work: turns[place % len(turns)](ledger, place, work)]
    wrong: list[str] = []
    for fault in faults:
        trials = Trials(make, OPERATIONS[operation], fault, durable)
        wrong += trials.run()
        trials.keeper.ledger.close()
        assert wrong or trials.struck, "a sweep that strikes nowhere proves nothing"
    return wrong


@operations
def test_an_error_at_any_line_of_the_embedded_ledger_loses_nothing(directory: Path, operation: str) -> None:
    assert sweep(lambda: Embedded(directory), operation, ANY_LINE) == []


@operations
def test_an_error_at_any_statement_of_the_embedded_ledger_loses_nothing(directory: Path, operation: str) -> None:
    assert sweep(lambda: Embedded(directory), operation, ANY_STATEMENT) == []


@pytest.mark.parametrize("faults", [ANY_LINE, ANY_STATEMENT], ids=["lines", "statements"])
def test_the_sweep_finds_a_ledger_that_catches_errors_of_its_database_only(
    directory: Path, faults: list[Fault]
) -> None:
    wrong = sweep(lambda: Embedded(directory, CatchesItsOwnErrorsOnly), "a report", faults)
    assert any("not stored, and a retry is told [<Verdict.REPEATED" in fault for fault in wrong), wrong


@operations
def test_a_disk_that_is_full_at_any_place_loses_nothing(directory: Path, operation: str) -> None:
    assert sweep(lambda: Embedded(directory), operation, [within_bytes(1_000)]) == []


@operations
def test_an_error_at_any_line_of_the_ledger_in_memory_loses_nothing(operation: str) -> None:
    assert sweep(MemoryKeeper, operation, ANY_LINE, durable=False) == []


def test_the_sweep_finds_a_ledger_in_memory_that_goes_on_half_way() -> None:
    class Keeper(MemoryKeeper):
        def open(self) -> Ledger:
            return KeepsWithoutStopping()

    assert sweep(Keeper, "a report", ANY_LINE, durable=False) != []


def test_memory_that_is_short_at_any_allocation_of_sqlite_loses_nothing(directory: Path) -> None:
    starved = starve(directory, SqliteLedger, *OPERATIONS)

    assert {name: found.wrong for name, found in starved.items()} == {name: [] for name in OPERATIONS}
    assert all(found.refused >= 5 and found.answered for found in starved.values()), starved


def test_short_memory_finds_a_ledger_that_catches_errors_of_its_database_only(directory: Path) -> None:
    found = starve(directory, CatchesItsOwnErrorsOnly, "a report")["a report"]
    assert any("not stored, and a retry is told [<Verdict.REPEATED" in fault for fault in found.wrong), found


@operations
@pytest.mark.parametrize("faults", [ANY_LINE[:3], ANY_QUERY, ANY_CUT], ids=["lines", "queries", "cuts"])
def test_an_error_or_a_cut_anywhere_in_the_postgres_ledger_loses_nothing(
    database: str, operation: str, faults: list[Fault]
) -> None:
    assert sweep(lambda: PostgresKeeper(database), operation, faults) == []
