"""Opening the embedded ledger: the lock of its directory, the promises of its connection, the version of its schema."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from askance_server.ledger.base import LedgerAwayError, LedgerBusyError, LedgerError
from askance_server.ledger.schemas import migrations
from askance_server.ledger.sqlite.seals import seal_all, seal_more

FILE: Final = "ledger.sqlite"

_COMPUTED: Final = {3: seal_all, 4: seal_more}
"""What migrations do that SQL cannot say, in the same transaction."""
_OF_THE_CONTENT: Final = {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
"""Codes of errors that are not of the surroundings; the first is of a table or column that is missing."""


def lock(directory: Path) -> int:
    """Take the directory's lock and return its file descriptor, or name the process that holds it."""
    path = directory / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        remedy = "stop it, or give another directory with --database"
        raise LedgerBusyError(f"is in use by process {holder}", where=str(directory), remedy=remedy) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def refuse_in_use(directory: Path) -> None:
    """Refuse a directory that a server has open."""
    if (directory / "lock").exists():
        os.close(lock(directory))


def connect(path: Path) -> sqlite3.Connection:
    """A connection that commits to disk, to a file whose schema is up to date."""
    with refusing(path):
        path.touch(mode=0o600)
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _promise(db, path)
            _migrate(db, path)
        except BaseException:
            db.close()
            raise
    return db


@contextmanager
def refusing(path: Path) -> Generator[None]:
    """Say of errors about a file whether it is damaged, or only cannot be reached now."""
    try:
        yield
    except (LedgerError, MemoryError, OSError):
        raise
    except sqlite3.DatabaseError as error:
        # An OperationalError is of the surroundings: a lock, rights, a full disk. The content is not concerned. One
        # without a code is Python's own, of text that is none.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        if isinstance(error, sqlite3.OperationalError) and code not in _OF_THE_CONTENT:
            raise LedgerAwayError(
                f"cannot be opened: {error}",
                where=str(path),
                remedy="look at its owner, its mode and the space on its disk; its content is not concerned",
            ) from error
        what = f"is not a ledger or is damaged: {error}"
        raise LedgerError(what, where=str(path), remedy="restore it from a backup") from error
    except Exception as error:
        # What was written had been checked. So what cannot be read is not what was written, however it shows: a text
        # that is none, a number that is a text, a round that nothing has published.
        what = f"is damaged, what it holds does not fit together ({type(error).__name__}: {error})"
        raise LedgerError(what, where=str(path), remedy="restore it from a backup") from error


def _promise(db: sqlite3.Connection, path: Path) -> None:
    (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA foreign_keys = ON")
    ((level,),) = db.execute("PRAGMA synchronous").fetchall()
    # Both are asserted: a setting that is silently not taken would acknowledge what a power cut can lose.
    if (mode, level) != ("wal", 2):
        raise LedgerError(f"{path}: journal_mode is {mode} and synchronous is {level}, not wal and 2.")


def reader(path: Path) -> sqlite3.Connection:
    """A connection that only reads, for one thread: each of its statements sees what was committed when it began."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring an older file up to date, each version in a transaction of its own."""
    scripts = migrations("sqlite")
    version = schema_of(db)
    if version > max(scripts):
        what = f"has schema {version}, this program knows {max(scripts)}"
        raise LedgerError(what, where=str(path), remedy="start it with a newer askance")
    for number in range(version + 1, max(scripts) + 1):
        db.executescript(f"BEGIN IMMEDIATE;\n{scripts[number]}")
        if number in _COMPUTED:
            _COMPUTED[number](db)
        db.execute(f"PRAGMA user_version = {number}")
        db.execute("COMMIT")


def schema_of(db: sqlite3.Connection) -> int:
    """The version of a file's schema."""
    ((version,),) = db.execute("PRAGMA user_version").fetchall()
    return int(version)


def schema_behind(directory: Path) -> int | None:
    """The version of a file's schema if it is older than this program's: to open the file would change it."""
    path = directory / FILE
    with refusing(path), closing(reader(path)) as db:
        version = schema_of(db)
    return version if 0 < version < max(migrations("sqlite")) else None
