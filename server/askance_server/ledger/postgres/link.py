"""One connection to PostgreSQL: how it is opened, what it must promise, and what an error may tell about it."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final, LiteralString, TypeVar

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import Connection, Cursor, IsolationLevel
from psycopg.abc import PQGen
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.errors import IdleInTransactionSessionTimeout, ReadOnlySqlTransaction
from psycopg.postgres import types
from psycopg.pq import Format
from psycopg.rows import TupleRow

from askance_server.ledger.base import LedgerAwayError, LedgerError, LedgerUrlError
from askance_server.ledger.schemas import migrations

T = TypeVar("T")

Link = Connection[TupleRow]

PATIENCE: Final = 30.0
"""Seconds for which a server waits for the answer to one statement, which is about a block of users at most."""

LOCKS: Final = 0x61736B
"""The first half of all advisory locks of this ledger; a round's second half is its key."""

_ITEM: Final = np.dtype([("size", ">i4"), ("value", ">i8")])


class _Integers(Dumper):
    """An array of integers as PostgreSQL's binary bigint[]: a list would be taken apart number by number."""

    format = Format.BINARY
    oid = types["int8"].array_oid

    def dump(self, obj: NDArray[np.integer[Any]]) -> bytes:
        """One dimension, no nulls, the element type, the length, and indexes from 1; then the items."""
        items = np.empty(len(obj), _ITEM)
        items["size"], items["value"] = 8, obj
        return np.array([1, 0, types["int8"].oid, len(obj), 1], ">i4").tobytes() + items.tobytes()


class _PatientLink(Connection[TupleRow]):
    """A connection that is given up when the database does not answer: one that is frozen keeps its sockets open."""

    patience = math.inf
    """Seconds for which an answer is waited for."""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:  # noqa: ARG002 - as psycopg has it; versions before 3.3 know no timeout
        return super().wait(self._within(gen), interval)

    def _within(self, steps: PQGen[T]) -> PQGen[T]:
        """The same steps, for as long as they may take."""
        until = time.monotonic() + self.patience
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > until:
                    self.close()
                    raise psycopg.OperationalError("does not answer")
                wanted = steps.send(ready)
        except StopIteration as end:
            return end.value


@contextmanager
def waiting(link: Link, seconds: float) -> Generator[None]:
    """Wait for answers on this connection for so many seconds."""
    if not isinstance(link, _PatientLink):
        raise TypeError(type(link).__name__)
    before, link.patience = link.patience, seconds
    try:
        yield
    finally:
        link.patience = before


def ask(link: Link, query: LiteralString, parameters: tuple[Any, ...] = ()) -> Cursor[TupleRow]:
    """Execute one statement, its values in PostgreSQL's binary form."""
    return link.execute(query, parameters, binary=True)


def first(rows: Cursor[TupleRow]) -> Any:
    """The value of a query that has exactly one."""
    ((value,),) = rows.fetchall()
    return value


def connect(url: str) -> Link:
    """A connection that commits to disk, at the level that `charge` needs."""
    try:
        parts = {"connect_timeout": 10, "application_name": "askance", **conninfo_to_dict(url)}
    except psycopg.Error:
        # Not repeated: whatever it is, a password may be in it.
        remedy = "write postgresql://user@host:5432/database"
        raise LedgerUrlError("cannot be read", where="the database URL", remedy=remedy) from None
    try:
        link = _PatientLink.connect(**parts, autocommit=True)  # pyright: ignore[reportArgumentType] - as libpq names them
    except psycopg.Error as error:
        raise failure(url, error) from None
    try:
        _settle(link, url)
    except psycopg.Error as error:
        # A database may be lost again right after it took the connection.
        link.close()
        raise failure(url, error) from None
    except BaseException:
        link.close()
        raise
    return link


def _settle(link: Link, url: str) -> None:
    link.adapters.register_dumper(np.ndarray, _Integers)
    link.isolation_level = IsolationLevel.READ_COMMITTED
    if first(ask(link, "SELECT current_setting('fsync')")) != "on":
        raise LedgerError(f"{shown(url)} does not write to disk: set fsync = on in postgresql.conf and restart it.")
    # Whatever role or database say: an acknowledged report is on disk, and a frozen replica keeps no locks for ever.
    durable = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
    ask(link, durable)
    ask(link, "SELECT set_config('idle_in_transaction_session_timeout', '60s', false)")
    # What this program knows to write; the tables refuse who knows less than they are.
    ask(link, "SELECT set_config('askance.schema', %s, false)", (str(max(migrations("postgres"))),))


def shown(url: str) -> str:
    """The URL without its password and options, to be shown."""
    parts = {"host": "", "port": "", "user": "", "dbname": "", **conninfo_to_dict(url)}
    user = f"{parts['user']}@" if parts["user"] else ""
    port = f":{parts['port']}" if parts["port"] else ""
    return f"postgresql://{user}{parts['host']}{port}/{parts['dbname']}"


def failure(url: str, error: psycopg.Error) -> LedgerError:
    """The error to raise for one of the database, without what the database may tell about rows."""
    if isinstance(error, ReadOnlySqlTransaction):
        return LedgerAwayError(
            f"{shown(url)} takes no writes now: it is read-only. Nothing was stored; it is tried again until it does."
        )
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | IdleInTransactionSessionTimeout):
        message = " ".join((error.diag.message_primary or str(error)).split())
        if password := conninfo_to_dict(url).get("password"):
            message = message.replace(str(password), "***")
        return LedgerAwayError(
            message,
            where=shown(url),
            remedy="See that the server runs and takes connections, then try again: what was acknowledged is stored, "
            "and a report may be sent again",
        )
    message = "a value was refused" if isinstance(error, psycopg.DataError) else error.diag.message_primary or ""
    return LedgerError(
        f"{shown(url)}: {type(error).__name__} ({error.sqlstate}): {message}. Nothing was stored. Check the role's"
        " rights and the server's log, and verify the ledger before going on."
    )
