"""The ledger: one interface with three implementations. `base` says what all of them guarantee.

`sqlite` keeps a data directory for one process, `postgres` a database for several, `memory` nothing beyond its own
life: it is for tests and for studies that run in one process. `migrations` has the SQL schemas.
"""

from __future__ import annotations

from pathlib import Path

from askance_protocol.progress import Tell, tell_nobody
from askance_server.ledger.base import (
    Census,
    Charge,
    Fault,
    Ledger,
    LedgerAwayError,
    LedgerBusyError,
    LedgerError,
    NoRoomError,
    NotFoundError,
    OutcomeColumn,
    StaleEpochError,
    Standing,
    Ticket,
    TicketUsedError,
    Users,
    Verdict,
    Verdicts,
)
from askance_server.ledger.kinds import UserKind, UserKinds
from askance_server.ledger.memory import MemoryLedger

__all__ = [
    "Census",
    "Charge",
    "Fault",
    "Ledger",
    "LedgerAwayError",
    "LedgerBusyError",
    "LedgerError",
    "MemoryLedger",
    "NoRoomError",
    "NotFoundError",
    "OutcomeColumn",
    "StaleEpochError",
    "Standing",
    "Ticket",
    "TicketUsedError",
    "UserKind",
    "UserKinds",
    "Users",
    "Verdict",
    "Verdicts",
    "audit_ledger",
    "older_schema",
    "open_ledger",
    "refuse_servers",
]


def open_ledger(database: str) -> Ledger:
    """Open the PostgreSQL ledger at a URL, or the embedded ledger in a directory."""
    # Imported here: each keeper brings what the other does not need.
    if database.startswith(("postgresql://", "postgres://")):
        from askance_server.ledger.postgres import PostgresLedger  # noqa: PLC0415

        return PostgresLedger.open(database)
    from askance_server.ledger.sqlite import SqliteLedger  # noqa: PLC0415

    return SqliteLedger.open(Path(database))


def audit_ledger(database: str, fingerprint: str | None = None, tell: Tell = tell_nobody) -> list[Fault]:
    """Look from outside at everything that a ledger holds, without changing it: a server may have it open.

    `fingerprint` is that of the server's key, if there is one. `tell` hears how much has been looked at.
    """
    if database.startswith(("postgresql://", "postgres://")):
        from askance_server.ledger.postgres import audit_postgres  # noqa: PLC0415

        return audit_postgres(database, fingerprint, tell)
    from askance_server.ledger.sqlite import audit_sqlite  # noqa: PLC0415

    return audit_sqlite(Path(database), fingerprint, tell)


def older_schema(database: str) -> int | None:
    """The version of a ledger's schema, if it is older than this program's: to open the ledger would change it."""
    if database.startswith(("postgresql://", "postgres://")):
        from askance_server.ledger.postgres import schema_at  # noqa: PLC0415

        return schema_at(database)
    from askance_server.ledger.sqlite import schema_behind  # noqa: PLC0415

    return schema_behind(Path(database))


def refuse_servers(database: str) -> None:
    """Refuse a ledger that a server has open."""
    if database.startswith(("postgresql://", "postgres://")):
        from askance_server.ledger.postgres.dumping import refuse_connections  # noqa: PLC0415

        return refuse_connections(database)
    from askance_server.ledger.sqlite import refuse_in_use  # noqa: PLC0415

    return refuse_in_use(Path(database))
