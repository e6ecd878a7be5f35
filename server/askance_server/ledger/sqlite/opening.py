"""Opening the embedded ledger: the lock of its directory, the promises of its connection, the version of its schema."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Final

from askance_server.ledger.base import LedgerBusyError, LedgerError
from askance_server.ledger.schemas import migrations

FILE: Final = "ledger.sqlite"


def lock(directory: Path) -> int:
    """Take the directory's lock and return its file descriptor, or name the process that holds it."""
    path = directory / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise LedgerBusyError(
            f"{directory} is in use by process {holder}. Stop it, or give another directory with --database."
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def connect(path: Path) -> sqlite3.Connection:
    """A connection that commits to disk, to a file whose schema is up to date."""
    try:
        path.touch(mode=0o600)
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        ((level,),) = db.execute("PRAGMA synchronous").fetchall()
        # Both are asserted: a setting that is silently not taken would acknowledge what a power cut can lose.
        if (mode, level) != ("wal", 2):
            raise LedgerError(f"{path}: journal_mode is {mode} and synchronous is {level}, not wal and 2.")
        _migrate(db, path)
    except sqlite3.DatabaseError as error:
        raise LedgerError(f"{path} is not a ledger or is damaged: {error}. Restore it from a backup.") from error
    return db


def reader(path: Path) -> sqlite3.Connection:
    """A connection that only reads, for one thread: each of its statements sees what was committed when it began."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring an older file up to date, each version in a transaction of its own."""
    scripts = migrations("sqlite")
    ((version,),) = db.execute("PRAGMA user_version").fetchall()
    if version > max(scripts):
        raise LedgerError(
            f"{path} has schema {version}, this program knows {max(scripts)}. Start it with a newer askance."
        )
    for number in range(version + 1, max(scripts) + 1):
        db.executescript(f"BEGIN;\n{scripts[number]}\nPRAGMA user_version = {number};\nCOMMIT;")
