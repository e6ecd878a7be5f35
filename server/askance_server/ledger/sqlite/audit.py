"""The audit of an embedded ledger from outside: the file, its structure, its seals, and what follows from its log.

It only reads, in one transaction, so that it may look at the file of a server that is running.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from askance_protocol.progress import Tell, tell_nobody
from askance_server.ledger.base import Fault
from askance_server.ledger.schemas import migrations
from askance_server.ledger.sqlite.ledger import SqliteLedger
from askance_server.ledger.sqlite.opening import FILE, reader, refusing, schema_of
from askance_server.ledger.sqlite.seals import COMMITS_FILE, Seals, broken_seals, last_key, lost, read_commits

_MOST: Final = 10
"""Findings of SQLite's own check that are told."""

_REBUILT: Final = {
    "table checkpoints": "nothing is lost: delete its rows, and the next round that closes writes it anew from the log",
    "table heartbeat": "nothing is lost: only tries at writing are counted there; the rest of this directory may have"
    " been changed by the same hand",
}


def audit(directory: Path, fingerprint: str | None = None, tell: Tell = tell_nobody) -> list[Fault]:
    """Faults of the ledger in a data directory. `fingerprint` is that of the server's key, if there is one."""
    path = directory / FILE
    if not path.exists():
        return [
            Fault(str(path), "the ledger is gone", "put it back from a backup: without it, what was spent is forgotten")
        ]
    with refusing(path), closing(reader(path)) as db:
        db.execute("BEGIN")
        return list(_audit(directory, db, fingerprint, tell))


def _audit(directory: Path, db: sqlite3.Connection, fingerprint: str | None, tell: Tell) -> Iterator[Fault]:
    path, newest = directory / FILE, max(migrations("sqlite"))
    # The pages first: what is read from broken ones says nothing.
    tell("checking pages", 0, 0)
    broken = [Fault(str(path), what) for what in _pages(db)]
    yield from broken
    version = schema_of(db)
    if version > newest:
        yield Fault(str(path), f"it has schema {version}, and this program knows {newest}", "look with a newer askance")
        return
    if version < newest:
        yield Fault(
            str(path),
            f"it has schema {version}, of an older version, which is not looked at",
            "start the server once: it brings the file up to date, and seals what has no seal",
        )
        return
    if not broken:
        yield from _content(directory, db, fingerprint, tell)


def _pages(db: sqlite3.Connection) -> Iterator[str]:
    """What SQLite itself finds."""
    try:
        for (found,) in db.execute(f"PRAGMA integrity_check({_MOST})"):
            if found != "ok":
                yield f"its pages are damaged: {found}"
        for table, row, parent, _ in db.execute("PRAGMA foreign_key_check").fetchall()[:_MOST]:
            yield f"row {row} of table {table} refers to no row of table {parent}"
    except (sqlite3.DatabaseError, UnicodeError) as error:
        yield f"its pages are damaged: {error}"


def _content(directory: Path, db: sqlite3.Connection, fingerprint: str | None, tell: Tell) -> Iterator[Fault]:
    """Rows that are not what was written, and what the log does not lead to."""
    path = directory / FILE
    seals = Seals.of(db)
    yield from _numbering(db)
    tell("reading the log", 0, 0)
    try:
        for fault in SqliteLedger.reading(directory, db).verify(tell):
            yield replace(fault, next=_REBUILT.get(fault.where, ""))
    except Exception as error:  # what is damaged breaks in its own ways
        for where, what in broken_seals(db, seals):
            yield Fault(where, what)
        yield Fault(str(path), f"it cannot be read: {error or type(error).__name__}")
    counted = read_commits(directory / COMMITS_FILE)
    if counted is None:
        yield Fault(
            str(directory / COMMITS_FILE),
            "it is gone, so that an older copy of the ledger cannot be told",
            "start the server: it makes it anew; see that ledger and backups are where they should be",
        )
    elif counted > seals.commits:
        yield Fault(str(path), lost(directory / COMMITS_FILE, counted, seals.commits), "put the newer files back")
    yield from _key(db, fingerprint)


def _numbering(db: sqlite3.Connection) -> Iterator[Fault]:
    """Groups are numbered without gaps, and SQLite remembers the last number that it gave."""
    ((count, last),) = db.execute("SELECT count(*), coalesce(max(id), 0) FROM report_groups").fetchall()
    given = db.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    if count != last or given != ([("report_groups", last)] if last else []):
        yield Fault("table report_groups", "its numbers have gaps, or the last number given is another")


def _key(db: sqlite3.Connection, fingerprint: str | None) -> Iterator[Fault]:
    known = last_key(db)
    if fingerprint is not None and known is not None and fingerprint != known:
        yield Fault(
            "server.key",
            "it is not the key that this ledger was used with last: tokens in use are refused",
            "put the old key back; with this one, every user needs a new token",
        )
