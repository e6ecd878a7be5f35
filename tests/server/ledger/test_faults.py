"""Whatever is raised wherever in a ledger: what it says is what is stored, and a retry is told the truth.

`ASKANCE_TORTURE=1` raises each error at each line of the embedded ledger; else they take turns.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count, cycle
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from askance_server.ledger import base
from askance_server.ledger.base import Ledger, Verdict
from askance_server.ledger.postgres import PostgresLedger
from askance_server.ledger.postgres import ledger as postgres_ledger
from askance_server.ledger.sqlite import SqliteLedger
from askance_server.ledger.sqlite import ledger as sqlite
from tests.server.ledger.faults import (
    ID,
    OPERATIONS,
    CatchesItsOwnErrorsOnly,
    Embedded,
    Fault,
    GoesOnInATransaction,
    KeepsWithoutStopping,
    SwallowsItsErrors,
    Trials,
    at_line,
    at_query,
    at_statement,
    charge_in_two_steps,
    cut,
    prepare,
    raising,
    read_once,
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
    monkeypatch.setattr(base, "read_entry", read_once)
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


def taking_turns(faults: list[Fault]) -> Fault:
    """One of these after the other."""
    turns = cycle(faults)

    def strike(ledger: Ledger, place: int, work: Callable[[], object]) -> tuple[bool, object]:
        return next(turns)(ledger, place, work)

    return strike


def sweep(
    make: Callable[[], Keeper],
    operation: str,
    faults: list[Fault],
    *,
    durable: bool = True,
    every: int = 1,
    in_torture: int | None = None,
) -> list[str]:
    """What is wrong after a fault at each place of an operation. The faults take turns; in torture each has its own.

    Outside of torture only one place in `every` is tried. Where one in some is named for torture as well, faults take
    turns there too: a database is slower to open again than a file.
    """
    if not TORTURE or in_torture is not None:
        faults = [taking_turns(faults)]
    wrong: list[str] = []
    for fault in faults:
        trials = Trials(make, OPERATIONS[operation], fault, durable)
        wrong += trials.run(count(1, (in_torture or 1) if TORTURE else every))
        trials.keeper.ledger.close()
        assert wrong or trials.struck, "a sweep that strikes nowhere proves nothing"
    return wrong


@operations
def test_an_error_at_any_line_of_the_embedded_ledger_loses_nothing(directory: Path, operation: str) -> None:
    assert sweep(lambda: Embedded(directory), operation, ANY_LINE, every=3) == []


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


@pytest.mark.parametrize("operation", ["a report", "a group"])
def test_the_sweep_finds_a_ledger_that_takes_a_full_disk_for_nothing(directory: Path, operation: str) -> None:
    wrong = sweep(lambda: Embedded(directory, SwallowsItsErrors), operation, [within_bytes(1_000)])
    assert any("what was acknowledged is not stored" in fault for fault in wrong), wrong


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


@pytest.mark.slow
@operations
# An error between two steps of psycopg leaves a generator of its own unfinished, which complains when it is collected.
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("faults", "every", "in_torture"),
    [(ANY_LINE[:3], 29, 10), (ANY_QUERY, 2, 1), (ANY_CUT, 2, 1)],
    ids=["lines", "queries", "cuts"],
)
def test_an_error_or_a_cut_anywhere_in_the_postgres_ledger_loses_nothing(
    database: str, operation: str, faults: list[Fault], every: int, in_torture: int
) -> None:
    assert sweep(lambda: PostgresKeeper(database), operation, faults, every=every, in_torture=in_torture) == []


def test_the_sweep_finds_a_postgres_ledger_that_charges_in_two_steps(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_ledger, "_store", charge_in_two_steps)
    assert sweep(lambda: PostgresKeeper(database), "a report", ANY_QUERY, in_torture=1) != []


def acknowledged_and_lost(url: str, kind: type[PostgresLedger]) -> bool:
    """Whether a report is lost that is acknowledged by a ledger on whose connection a transaction was left open."""
    with closing(kind.open(url)) as ledger:
        prepare(ledger)
        id_ = ledger.bulletin(ID).rounds[0][0]
        ledger._mine.link.execute("BEGIN")
        verdicts = ledger.charge(id_, np.array([1], np.uint64), np.array([1], np.uint32))
        assert verdicts.tolist() == [Verdict.ACCEPTED]
    with closing(PostgresLedger.open(url)) as again:
        return again.received(id_) == 1  # That of `prepare`.


def test_nothing_goes_on_in_a_transaction_that_was_left_open(database: str) -> None:
    assert not acknowledged_and_lost(database, PostgresLedger)


def test_a_ledger_that_goes_on_in_a_transaction_that_was_left_open_loses_reports(database: str) -> None:
    assert acknowledged_and_lost(database, GoesOnInATransaction)
