"""The file that wallets are in: opening and checking it, transactions, and group commit for several owners."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, TypeVar

from askance_client.wallet.errors import WalletError, unwritable, wallet_error
from askance_client.wallet.records import Identity
from askance_protocol.budget import whole_micro

SCHEMA_VERSION: Final = 2
_APPLICATION: Final = 0x41534B57  # "ASKW", in the header of the file
_SECONDS: Final = 60.0
"""How long to wait for another process that writes."""

T = TypeVar("T")
_Work = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class WalletFile:
    """A file of wallets. Open one with `WalletFile.open`."""

    @classmethod
    def open(cls, path: Path | str) -> WalletFile:
        """Open a file, or create it readable by its owner only."""
        path = Path(path)
        if not _create(path):
            _check_private(path)
        try:
            db = sqlite3.connect(path, timeout=_SECONDS, isolation_level=None)
        except sqlite3.Error as error:
            raise wallet_error(path, error) from None
        try:
            _prepare(db, path)
        except sqlite3.Error as error:
            db.close()
            raise wallet_error(path, error) from None
        except BaseException:
            db.close()
            raise
        return cls(path, db)

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self.path, self._db = path, db
        self._waiting: list[_Work] = []
        self._durable = False

    def close(self) -> None:
        """Close the file, and with it all wallets that are in it."""
        self._db.close()

    # ------------------------------------------------------------------------------------------------ transactions

    def row(self, query: str, parameters: tuple[object, ...]) -> tuple[Any, ...] | None:
        """The one row of a query, if there is one."""
        rows = self.rows(query, parameters)
        return rows[0] if rows else None

    def rows(self, query: str, parameters: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        try:
            return self._db.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise wallet_error(self.path, error) from None

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Make the changes of a block, on disk when it ends, or none of them; as part of a transaction that is open."""
        outermost = not self._db.in_transaction
        try:
            if outermost:
                self._db.execute("BEGIN IMMEDIATE")  # From here on no other process decides.
            yield self._db
            if outermost:
                self._db.execute("COMMIT")
        except BaseException as error:
            if outermost and self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise wallet_error(self.path, error) from None
            raise

    async def group_commit(self, work: Callable[[], T], *, durable: bool = True) -> T:
        """Run this in one transaction with the other requests of this turn of the loop; it is on disk afterwards.

        What need not be `durable` outlives the process, but perhaps not the machine.
        """
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._commit_waiting)
        done: asyncio.Future[T] = loop.create_future()
        self._waiting.append((work, done))
        self._durable |= durable
        return await done

    def _commit_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        durable, self._durable = self._durable, False
        results: list[object] = []
        try:
            with self._synchronous(durable), self.transaction():
                results += [_attempt(work) for work, _ in waiting]
        except Exception as error:
            results = [error] * len(waiting)
        for (_, done), result in zip(waiting, results, strict=True):
            if done.done():
                continue
            if isinstance(result, Exception):
                done.set_exception(result)
            else:
                done.set_result(result)

    @contextmanager
    def _synchronous(self, durable: bool) -> Generator[None]:
        if durable:
            yield
            return
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            yield
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    # ------------------------------------------------------------------------------------------------- its owners

    def owners(self) -> list[int]:
        """The owners whose wallets are in this file."""
        return [owner for (owner,) in self.rows("SELECT id FROM owners ORDER BY id")]

    def add_all(self, owners: Sequence[tuple[int, int, Identity | None]]) -> None:
        """Add wallets: for each the owner, the cap in micro-ε, and the identity if she has enrolled. All or none."""
        rows = [
            (
                owner,
                whole_micro(cap, where="cap", least=1),
                *((identity.server, identity.user, identity.token) if identity else (None,) * 3),
            )
            for owner, cap, identity in owners
        ]
        with self.transaction() as db:
            db.executemany("INSERT INTO owners (id, cap, server, user_number, token) VALUES (?, ?, ?, ?, ?)", rows)

    def moved(self, server: str) -> None:
        """Change the address of the server that knows all owners: it is found elsewhere now."""
        with self.transaction() as db:
            db.execute("UPDATE owners SET server = ? WHERE server <> ?", (server, server))

    def numbers(self) -> list[int]:
        """Each owner's number at the server."""
        return [number for (number,) in self.rows("SELECT user_number FROM owners ORDER BY id")]

    def reported(self, round_: str) -> list[int]:
        """Owners who need not be asked again: the server has accepted or refused their report to this round."""
        query = "SELECT owner FROM reports WHERE round = ? AND state <> 'kept'"
        return [owner for (owner,) in self.rows(query, (round_,))]

    def waiting(self) -> list[int]:
        """Owners who have a report that is not acknowledged yet."""
        return [owner for (owner,) in self.rows("SELECT DISTINCT owner FROM reports WHERE state = 'kept'")]

    def most_spent(self) -> int:
        """The most that one of the owners has spent, in micro-ε."""
        query = "SELECT coalesce(max(spent), 0) FROM (SELECT sum(charge) AS spent FROM reports GROUP BY owner)"
        ((most,),) = self.rows(query)
        return int(most)


def _attempt(work: Callable[[], T]) -> T | Exception:
    """Run a statement; one that fails is rolled back alone."""
    try:
        return work()
    except Exception as error:
        return error


# ----------------------------------------------------------------------------------------------- opening and checking


def _create(path: Path) -> bool:
    """Create the file, unless it is there: before SQLite writes, so that its rights are right from the start."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return False
    except OSError as error:
        raise unwritable(path, str(error.strerror)) from None
    return True


def _check_private(path: Path) -> None:
    mode = path.stat().st_mode
    if os.name == "posix" and mode & 0o077:
        raise WalletError("can be read by others", where=str(path), remedy=f"chmod 600 {path}")


def _prepare(db: sqlite3.Connection, path: Path) -> None:
    """Check the file, make it durable, and create the tables if it is new. Another program's file stays as it is."""
    _is_new(db, path)
    _write_ahead(db)
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("BEGIN IMMEDIATE")
    if _is_new(db, path):
        for statement in _schema():
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {_APPLICATION}")
    ((version,),) = db.execute("PRAGMA user_version").fetchall()
    if version < SCHEMA_VERSION:
        # Version 2: what she declared that she has.
        db.execute("ALTER TABLE owners ADD COLUMN declared TEXT")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    db.execute("COMMIT")


def _schema() -> Generator[str]:
    """The statements of schema.sql. `executescript` would commit the transaction that they belong to."""
    statement = ""
    for line in files("askance_client.wallet").joinpath("schema.sql").read_text("utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _is_new(db: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is empty; an error if its content is not this program's."""
    # One statement, so that it sees one state of the file.
    query = "SELECT * FROM pragma_application_id, pragma_user_version, (SELECT count(*) FROM sqlite_schema)"
    ((application, version, tables),) = db.execute(query).fetchall()
    if application == 0 and tables == 0:
        return True
    if application != _APPLICATION:
        raise WalletError("is no wallet", where=str(path), remedy="name another file")
    if version > SCHEMA_VERSION:
        what = f"is of version {version}, this program knows {SCHEMA_VERSION}"
        raise WalletError(what, where=str(path), remedy="update askance")
    return False


def _write_ahead(db: sqlite3.Connection) -> None:
    """Switch to write-ahead logging. Where several processes do so at once, SQLite may refuse for now: ask again."""
    begin = time.monotonic()
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() - begin > _SECONDS:
                raise
            time.sleep(0.01)
        else:
            return
