"""The ledger: one interface, two keepers. See `base` for what both promise."""

from __future__ import annotations

from pathlib import Path

from askance_server.ledger.base import (
    Charge,
    Fault,
    Ledger,
    LedgerAwayError,
    LedgerBusyError,
    LedgerError,
    NotFoundError,
    Outcomes,
    Standing,
    Users,
    Verdict,
    Verdicts,
)

__all__ = [
    "Charge",
    "Fault",
    "Ledger",
    "LedgerAwayError",
    "LedgerBusyError",
    "LedgerError",
    "NotFoundError",
    "Outcomes",
    "Standing",
    "Users",
    "Verdict",
    "Verdicts",
    "open_ledger",
]


def open_ledger(database: str) -> Ledger:
    """A PostgreSQL ledger for a URL, the embedded one for the path of a directory."""
    # Imported here: each keeper brings what the other does not need.
    if database.startswith(("postgresql://", "postgres://")):
        from askance_server.ledger.postgres import PostgresLedger  # noqa: PLC0415

        return PostgresLedger.open(database)
    from askance_server.ledger.sqlite import SqliteLedger  # noqa: PLC0415

    return SqliteLedger.open(Path(database))
