"""A ledger of many enrolments with keys takes no memory for them: each is looked up where it is kept.

Measured by `tracemalloc`, which counts what Python allocates. The controls hold them, or read them all at once.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
import pytest

from askance_protocol.budget import MICRO
from askance_server.ledger import Ledger, Ticket
from askance_server.ledger.digests import RowSum
from askance_server.ledger.memory import MemoryLedger
from askance_server.ledger.postgres import PostgresLedger, seals
from askance_server.ledger.sqlite import SqliteLedger

pytest_plugins = ("tests.harness.postgres",)

TICKETS: Final = 50_000
ONE_BY_ONE: Final = 1000
FEW_BYTES: Final = 20
"""Of memory for each: what a dictionary takes for one is ten times as much."""


def key(number: int) -> str:
    return f"{number:032x}"


def kept_by_sqlite(directory: Path) -> None:
    """A ledger of so many tickets, written by its own statements in one commit."""
    with closing(SqliteLedger.open(directory)) as ledger, ledger._commit() as db:
        for number in range(TICKETS):
            ledger._keep_ticket(db, Ticket(key(number), number + 1), 1)


def kept_by_postgres(url: str) -> None:
    PostgresLedger.open(url).close()
    rows = [(key(number), number + 1, 1) for number in range(TICKETS)]
    with psycopg.connect(url) as link:
        link.execute("SELECT set_config('askance.schema', '1000', false)")
        with link.cursor().copy("COPY tickets (id, users, used) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        seals.seal(link, {"tickets": RowSum.of("tickets", *rows)})


def traced(work: Callable[[], object]) -> tuple[int, int]:
    """Bytes that a work leaves behind, and has at most meanwhile."""
    gc.collect()
    tracemalloc.start()
    try:
        left = work()
        gc.collect()
        held, most = tracemalloc.get_traced_memory()
        del left
    finally:
        tracemalloc.stop()
    return held, most


def opened(opens: Callable[[], Ledger]) -> tuple[int, int]:
    """What it takes to open a ledger for the second time in this process: what is loaded once is there."""
    opens().close()
    ledgers = list[Ledger]()
    held, most = traced(lambda: ledgers.append(opens()))
    # It knows them all the same.
    assert ledgers[0].enrol(1, MICRO, key=key(TICKETS // 2)) == range(TICKETS // 2, TICKETS // 2 + 1)
    assert ledgers[0].let_in(key(TICKETS - 1)) == 1
    assert ledgers[0].enrolled() == 0
    ledgers[0].close()
    return held // TICKETS, most // TICKETS


class HoldingTickets(SqliteLedger):
    """Reads all tickets when it is opened, as it was once."""

    def _load_users(self) -> None:
        super()._load_users()
        self.tickets = {id_: (users, used) for id_, users, used in self._db.execute("SELECT * FROM tickets")}


def test_to_open_an_embedded_ledger_of_many_keys_takes_no_memory_for_them(tmp_path: Path) -> None:
    kept_by_sqlite(tmp_path / "data")

    assert max(opened(lambda: SqliteLedger.open(tmp_path / "data"))) <= FEW_BYTES
    held, most = opened(lambda: HoldingTickets.open(tmp_path / "data"))
    assert most >= held > 5 * FEW_BYTES


def test_to_open_a_database_of_many_keys_reads_some_at_a_time(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_by_postgres(database)
    monkeypatch.setattr(seals, "_ROWS", 1000)

    assert max(opened(lambda: PostgresLedger.open(database))) <= FEW_BYTES
    monkeypatch.setattr(seals, "_ROWS", 10 * TICKETS)
    held, most = opened(lambda: PostgresLedger.open(database))
    assert most > 5 * FEW_BYTES
    assert held <= FEW_BYTES


def test_an_embedded_ledger_does_not_grow_by_keys(tmp_path: Path) -> None:
    """The control is the ledger in memory, which has no other place for them."""

    def grows(ledger: Ledger) -> int:
        with closing(ledger):
            # Room for the spending of all of them: arrays grow by doubling.
            ledger.enrol(10 * ONE_BY_ONE, MICRO)
            ledger.enrol(1, MICRO, key=key(0))

            def work() -> None:
                for number in range(1, ONE_BY_ONE):
                    ledger.enrol(1, MICRO, key=key(number))

            held, _ = traced(work)
            assert ledger.enrol(1, MICRO, key=key(ONE_BY_ONE - 1)).start == 11 * ONE_BY_ONE - 1
            return held // ONE_BY_ONE

    assert grows(SqliteLedger.open(tmp_path / "data")) <= FEW_BYTES
    assert grows(MemoryLedger()) > 5 * FEW_BYTES
