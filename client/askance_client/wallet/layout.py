"""What a wallet file has to look like: made whole or not at all, recognized by its tables, and brought to this version.

Theory of operation
-------------------
*Only a file that is not there is new.* A file of no bytes may be a wallet that was cut, so it is refused: it would come
with a fresh cap. A new file gets its name when it is complete and on disk: a crash leaves a whole wallet or none.

*Tables.* A file is taken for a wallet if it has the tables and triggers of a version, word for word. A bit that has
flipped in a trigger's text could switch off what the trigger forbids.

*Upgrade.* One transaction, which reads the tables of version 1, writes those of version 2, and sets the version. Bytes,
charges, caps and what was heard stay as they are; what each owner had read of a study becomes what the file has read.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import sqlite3
import stat
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from askance_client.wallet.durable import sync_names
from askance_client.wallet.errors import WalletError, damaged, translated, unwritable
from askance_client.wallet.records import Owner
from askance_client.wallet.tables import FILE, HEADS, HEARD, OWNERS, REPORTS, CheckedTable, SqlValue

SCHEMA_VERSION: Final = 2
_APPLICATION: Final = 0x41534B57  # "ASKW", in the header of the file
_VERSION_1: Final = "7096c98b5e469e6e9cb216860c13e2e9cbae3ff10bdb20e16331fd5452408cac"
"""SHA-256 of the tables of version 1, as `_digest` gives it."""
_LEAST_BYTES: Final = 512
"""The smallest page of SQLite: what is shorter is no database, though SQLite takes it for an empty one."""

Tables = dict[str, str]
"""Each table and trigger by its name: its declaration without comments and spaces."""


# ---------------------------------------------------------------------------------------------------------- creation


def create(path: Path, owners: Sequence[Owner] = ()) -> None:
    """Make a new wallet file with these owners, readable by its owner only; nothing if there is one by now."""
    _refuse_leftovers(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        # Before SQLite writes, so that its rights are right from the start.
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        try:
            with translated(path):
                _fill(draft, owners)
            _to_disk(draft)
            with suppress(FileExistsError):  # Another process was first.
                os.link(draft, path)
        finally:
            draft.unlink()
        if os.name == "posix":
            _to_disk(path.parent)
            sync_names(path.absolute().parent.parent)  # Its folder may be as new as it is.
    except OSError as error:
        raise unwritable(path, str(error.strerror)) from None


def _refuse_leftovers(path: Path) -> None:
    """Refuse a place where a wallet's journal is: SQLite would write the old wallet's pages into the new one."""
    for end in ("-wal", "-journal"):
        left = path.with_name(path.name + end)
        if left.exists() and not path.exists():
            raise damaged(path, f"it is gone, and {left.name} is left of it")


def _fill(draft: Path, owners: Sequence[Owner]) -> None:
    with closing(sqlite3.connect(draft, isolation_level=None)) as db:
        # Nobody knows the file yet, and it is synchronized as a whole.
        db.execute("PRAGMA journal_mode = OFF")
        db.execute("PRAGMA synchronous = OFF")
        db.execute("BEGIN IMMEDIATE")
        _make(db, "TABLE")
        _make(db, "TRIGGER")
        _stamp(db)
        file_id = secrets.token_bytes(16)
        _insert(db, FILE, file_id, [(1, file_id, len(owners), 0)])
        _insert(db, OWNERS, file_id, owners)
        db.execute("COMMIT")


def _make(db: sqlite3.Connection, kind: str) -> None:
    """Make the tables, or the triggers."""
    for statement in _statements():
        if f"\nCREATE {kind} " in f"\n{statement}":
            db.execute(statement)


def _stamp(db: sqlite3.Connection) -> None:
    db.execute(f"PRAGMA application_id = {_APPLICATION}")
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _statements() -> Generator[str]:
    """The statements of schema.sql. `executescript` would commit the transaction that they belong to."""
    statement = ""
    for line in files("askance_client.wallet").joinpath("schema.sql").read_text("utf-8").splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _insert(db: sqlite3.Connection, table: CheckedTable, file_id: bytes, rows: Iterable[Sequence[SqlValue]]) -> None:
    db.executemany(table.insert, (table.inserted(file_id, row) for row in rows))


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ------------------------------------------------------------------------------------------------------- recognition


def check_file(path: Path) -> None:
    """Refuse a file that others can read, or that is too short to be one; without opening it.

    To open and close it beside SQLite would release the locks by which other processes know that it is in use.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise unwritable(path, str(error.strerror)) from None
    if os.name == "posix" and found.st_mode & 0o077:
        raise WalletError("can be read by others", where=str(path), remedy=f"chmod 600 {path}")
    if not stat.S_ISREG(found.st_mode):
        raise WalletError("is no file", where=str(path), remedy="name another file")
    if found.st_size < _LEAST_BYTES:
        raise damaged(path, f"it has {found.st_size} bytes")


def check_tables(db: sqlite3.Connection, path: Path) -> int:
    """Version of a wallet file; an error if it is none, and then the file stays as it is."""
    # One statement, so that it sees one state of the file.
    query = """
        SELECT * FROM pragma_application_id, pragma_user_version LEFT JOIN (
            SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%')
    """
    rows = db.execute(query).fetchall()
    (application, version, *_), tables = (
        rows[0],
        {str(name): _plain(str(sql)) for *_, name, sql in rows if name is not None},
    )
    known = _version_of(tables)
    if known is not None and application == _APPLICATION and version == known:
        return known
    if application == _APPLICATION and known is None and version > SCHEMA_VERSION:
        what = f"is of version {version}, this program knows {SCHEMA_VERSION}"
        raise WalletError(what, where=str(path), remedy="update askance")
    if application == _APPLICATION or known is not None:
        raise damaged(path, "its tables are not those of its version")
    if application == 0 and not tables:
        raise damaged(path, "it is an empty database")
    raise WalletError("is no wallet", where=str(path), remedy="name another file")


def _version_of(tables: Tables) -> int | None:
    if tables == _tables_of_version_2():
        return 2
    return 1 if _digest(tables) == _VERSION_1 else None


@cache
def _tables_of_version_2() -> Tables:
    with closing(sqlite3.connect(":memory:")) as db:
        _make(db, "TABLE")
        _make(db, "TRIGGER")
        return {name: _plain(sql) for name, sql in db.execute("SELECT name, sql FROM sqlite_schema WHERE sql NOT NULL")}


def _plain(sql: str) -> str:
    return "".join(re.sub("--[^\n]*", "", sql).split())


def _digest(tables: Tables) -> str:
    return hashlib.sha256(ascii(sorted(tables.items())).encode("ascii")).hexdigest()


# ----------------------------------------------------------------------------------------------------------- upgrade


def upgrade(db: sqlite3.Connection, path: Path) -> None:
    """Bring a file of version 1 to version 2, within a transaction that is open."""
    if db.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
        raise damaged(path, "its pages do not fit together")
    _check_kinds(db, path)
    for (trigger,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        db.execute(f"DROP TRIGGER {trigger}")
    for table in ("owners", "pins", "reports", "heard"):
        db.execute(f"ALTER TABLE {table} RENAME TO {table}_1")
    _make(db, "TABLE")
    try:
        _copy_from_1(db)
    except sqlite3.IntegrityError as error:
        raise damaged(path, str(error)) from None
    for table in ("heard", "reports", "pins", "owners"):
        db.execute(f"DROP TABLE {table}_1")
    # Last, because the cap is for new reports: copies may have spent more since these were drawn.
    _make(db, "TRIGGER")
    _stamp(db)


def _check_kinds(db: sqlite3.Connection, path: Path) -> None:
    """Refuse a value of another kind than its column: SQLite keeps it, and takes a charge that is a text for zero."""
    columns = """
        SELECT tables.name, columns.name, lower(columns.type)
        FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'
    """
    for table, column, kind in db.execute(columns).fetchall():
        other = f"SELECT 1 FROM {table} WHERE typeof({column}) NOT IN (?, 'null') LIMIT 1"  # noqa: S608 -- its own names
        if db.execute(other, (kind,)).fetchone():
            raise damaged(path, f"{table} holds a {column} that is no {kind}")


def _copy_from_1(db: sqlite3.Connection) -> None:
    file_id = secrets.token_bytes(16)
    owners = """
        SELECT id, cap, elsewhere, server, user_number, token, NULL,
            (SELECT count(*) FROM reports_1 WHERE owner = id), (SELECT count(*) FROM heard_1 WHERE owner = id)
        FROM owners_1
    """
    # Where two owners have read different histories, the first one's is kept: who is shown another one refuses it.
    heads = """
        SELECT study, length, head FROM (SELECT study, length, head, min(owner) FROM pins_1 GROUP BY study, length)
    """
    _insert(db, OWNERS, file_id, db.execute(owners))
    _insert(db, HEADS, file_id, db.execute(heads))
    _insert(db, REPORTS, file_id, db.execute("SELECT owner, round, NULL, charge, body, state FROM reports_1"))
    _insert(db, HEARD, file_id, db.execute("SELECT owner, round, charge FROM heard_1"))
    ((owner_count, head_count),) = db.execute("SELECT (SELECT count(*) FROM owners), (SELECT count(*) FROM heads)")
    _insert(db, FILE, file_id, [(1, file_id, owner_count, head_count)])
