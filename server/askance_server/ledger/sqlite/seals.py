"""Seals: what each table of the file holds, in one number that only this program keeps in step.

Theory of operation
-------------------
The seal of a table is the number of its rows and the sum, modulo 2²⁵⁶, of a digest of each row. A sum knows no order:
a row that is added or replaced costs a digest or two, however long the table is. A seal is written in the transaction
of the rows. Whatever anything else has changed since, a statement by hand or a bit of the disk, leaves rows and seal
apart. Columns of reports are not digested again: the checksum of their row covers them, and the seal covers that.

*What a seal does not tell.* It has no key: whoever knows this page can compute it anew. And an older copy of the file
has older seals that agree with it. Against that there is `ledger.commits` beside the file, which says how many commits
were made: it is written after each, and not synced. So it may lag behind the file after a power cut, and is never
ahead of it, unless the file has lost what was acknowledged: a write-ahead log that was cut or removed, a disk that did
not keep what it had confirmed, an older copy put in the file's place. An older copy of the whole directory cannot be
told from the directory as it was.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.text import counted
from askance_server.ledger.base import LedgerError
from askance_server.ledger.digests import Row, digest

COMMITS_FILE: Final = "ledger.commits"

SEALED: Final = {
    "checkpoints": "last_group, length(spent), checksum",
    "enrolments": "first_user, users, cap",
    "entries": "study, sequence, digest, body",
    "epochs": "user, epoch",
    "heartbeat": "one, beats",
    "kinds": "first_user, kind",
    "report_groups": "id, round, reports, checksum",
    "rounds": "number, id, study",
    "server_keys": "number, fingerprint",
    "sqlite_master": "type, name, tbl_name, sql",
    "tickets": "id, users, used",
}
"""What is digested of each table's rows. Changed only by a migration that seals anew."""

_SMALL: Final = {"enrolments", "epochs", "kinds", "rounds", "server_keys", "sqlite_master", "tickets"}
_LONG: Final = {"entries", "report_groups"}
_MODULUS: Final = 1 << 256
_DIGITS: Final = 20
_TOLD: Final = 1000
"""One of so many rows is told of, when they are counted."""


@dataclass(frozen=True, slots=True)
class Seal:
    """The seal of one table."""

    rows: int = 0
    sum: int = 0
    commits: int = 0

    def changed(self, table: str, *, gone: Row | None = None, new: Row | None = None) -> Seal:
        """The seal after a row has gone, or come, or one has taken the place of the other."""
        rows, sum_ = self.rows, self.sum
        if gone is not None:
            rows, sum_ = rows - 1, sum_ - digest(table, gone)
        if new is not None:
            rows, sum_ = rows + 1, sum_ + digest(table, new)
        return Seal(rows, sum_ % _MODULUS, self.commits)

    def pack(self, table: str) -> tuple[int, bytes, int, str]:
        """Its columns; the sum counts in a digest of the two numbers beside it, so that it covers them, too."""
        whole = (self.sum + digest("seals", (table, self.rows, self.commits))) % _MODULUS
        return self.rows, whole.to_bytes(32, "little"), self.commits, table

    @classmethod
    def unpack(cls, table: str, rows: int, sum_: bytes, commits: int) -> Seal:
        """The seal in these columns. If one of them was changed, it is that of no rows that there ever were."""
        whole = int.from_bytes(sum_, "little") - digest("seals", (table, rows, commits))
        return cls(rows, whole % _MODULUS, commits)

    def agrees(self, other: Seal) -> bool:
        """Whether both are of the same rows."""
        return (self.rows, self.sum) == (other.rows, other.sum)


@dataclass(slots=True)
class Seals:
    """The seals of all tables, as they are in the file and as the transaction that is open leaves them."""

    kept: dict[str, Seal] = field(default_factory=dict[str, Seal])
    changed: dict[str, Seal] = field(default_factory=dict[str, Seal])

    @classmethod
    def of(cls, db: sqlite3.Connection) -> Seals:
        """Those of a file."""
        rows = db.execute("SELECT name, rows, sum, commits FROM seals").fetchall()
        return cls({name: Seal.unpack(name, count, sum_, made) for name, count, sum_, made in rows})

    @property
    def commits(self) -> int:
        """Number of tables that commits have changed: it grows with every commit."""
        return sum(seal.commits for seal in self.kept.values())

    def change(self, table: str, *, gone: Row | None = None, new: Row | None = None) -> None:
        """Count a row in that comes, and one out that goes."""
        seal = self.changed.get(table, self.kept[table])
        self.changed[table] = seal.changed(table, gone=gone, new=new)

    def hold(self, table: str, row: Row) -> None:
        """Count this row as the only one: the table repeats what others say, and may have been emptied by hand."""
        self.changed[table] = Seal(commits=self.kept[table].commits).changed(table, new=row)

    def write(self, db: sqlite3.Connection) -> None:
        """Write what has changed, as the last statements of the transaction."""
        for table, before in self.changed.items():
            seal = self.changed[table] = Seal(before.rows, before.sum, before.commits + 1)
            db.execute("UPDATE seals SET rows = ?, sum = ?, commits = ? WHERE name = ?", seal.pack(table))

    def committed(self) -> None:
        """Take over what was written."""
        self.kept |= self.changed
        self.changed = {}


def rows_of(db: sqlite3.Connection, table: str) -> Iterator[Row]:
    """What is digested of a table, row by row."""
    # Both names are of `SEALED`.
    return iter(db.execute(f"SELECT {SEALED[table]} FROM {table}"))  # noqa: S608


def recount(db: sqlite3.Connection, table: str, tell: Callable[[int], None] = lambda _: None) -> Seal:
    """The seal that the rows of a table have now; `tell` hears how many have been counted."""
    rows = sum_ = 0
    for row in rows_of(db, table):
        rows, sum_ = rows + 1, sum_ + digest(table, row)
        if not rows % _TOLD:
            tell(rows)
    return Seal(rows, sum_ % _MODULUS)


def seal_all(db: sqlite3.Connection) -> None:
    """Inside the transaction of the migration that makes the table of seals: seal what there is."""
    _seal(db, {"sqlite_master", *_tables(db)})


def seal_more(db: sqlite3.Connection) -> None:
    """Inside the transaction of a migration that makes more tables: seal those.

    The structure is not sealed anew: only what is new of it is counted in. What was changed by hand before is found
    after the migration as well.
    """
    seals = Seals.of(db)
    new = (_tables(db) & SEALED.keys()) - seals.kept.keys()
    _seal(db, new)
    for row in list(rows_of(db, "sqlite_master")):
        if row[2] in new:
            seals.change("sqlite_master", new=row)
    seals.write(db)


def _tables(db: sqlite3.Connection) -> set[str]:
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _seal(db: sqlite3.Connection, tables: Set[str]) -> None:
    for table in sorted(tables & SEALED.keys()):
        insert = "INSERT INTO seals (rows, sum, commits, name) VALUES (?, ?, ?, ?)"
        db.execute(insert, recount(db, table).pack(table))


def last_key(db: sqlite3.Connection) -> str | None:
    """The fingerprint of the key that was used last."""
    row = db.execute("SELECT fingerprint FROM server_keys ORDER BY number DESC LIMIT 1").fetchone()
    return None if row is None else str(row[0])


def check_seals(db: sqlite3.Connection, seals: Seals, path: Path) -> None:
    """At each start: compare the small tables, which budgets hang on, and the number of rows of the long ones.

    `audit` compares them all.
    """
    for table in SEALED:
        seal = seals.kept.get(table, Seal())
        if table in _SMALL:
            agrees = recount(db, table).agrees(seal)
        elif table in _LONG:
            agrees = db.execute(f"SELECT count(*) FROM {table}").fetchone() == (seal.rows,)  # noqa: S608
        else:
            agrees = True  # A projection with a checksum of its own, or nothing that anything hangs on.
        if not agrees:
            raise LedgerError(
                f"{path}: table {table} is not what it was when it was written last. askance doctor --deep --database"
                f" {path.parent} says more; then restore the directory from a backup."
            )


def broken_seals(db: sqlite3.Connection, seals: Seals, tell: Tell = tell_nobody) -> Iterator[tuple[str, str]]:
    """The tables whose rows are not what was sealed, and what is wrong with each."""
    sealed, before = sum(seal.rows for seal in seals.kept.values()), 0
    for table in SEALED:
        seal = seals.kept.get(table)
        try:
            found = recount(db, table, partial(_tell_rows, tell, before, sealed))
        except sqlite3.Error as error:
            yield f"table {table}", f"it cannot be read: {error}"
            continue
        before += found.rows
        _tell_rows(tell, before, sealed, 0)
        if seal is None:
            yield f"table {table}", "its seal is gone"
        elif found.rows != seal.rows:
            yield f"table {table}", f"{counted(found.rows, 'row')}, and {seal.rows} were written"
        elif found.sum != seal.sum:
            yield f"table {table}", "a row, or its seal, is not what was written"
    for table in sorted(seals.kept.keys() - SEALED):
        yield f"table {table}", "a seal of a table that this program does not know"


def _tell_rows(tell: Tell, before: int, sealed: int, rows: int) -> None:
    tell("verifying seals", before + rows, sealed)


# ------------------------------------------------------------------------------------------- the count beside the file


@dataclass(frozen=True, slots=True)
class CommitCount:
    """`ledger.commits`: the number of commits that were acknowledged, as far as the operating system has kept it."""

    path: Path
    descriptor: int

    @classmethod
    def open(cls, directory: Path, commits: int) -> CommitCount:
        """Open the file, make it where there is none, and refuse a ledger that has fewer commits than it says."""
        path = directory / COMMITS_FILE
        counted = read_commits(path)
        if counted is not None and counted > commits:
            raise LedgerError(lost(path, counted, commits))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        count = cls(path, descriptor)
        count.write(commits)
        os.fsync(descriptor)
        return count

    def write(self, commits: int) -> None:
        """Say that so many commits were made: they are on disk."""
        os.pwrite(self.descriptor, b"%0*d\n" % (_DIGITS, commits), 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


def read_commits(path: Path) -> int | None:
    """The count in the file, or None where there is none, or none that can be read."""
    with suppress(FileNotFoundError, ValueError):
        return int(path.read_text(encoding="ascii"))
    return None


def lost(path: Path, counted: int, commits: int) -> str:
    """What to tell of a file that has fewer commits than were counted."""
    return (
        f"{path.with_name('ledger.sqlite')} has lost {counted - commits} of {counted} commits that were made: its"
        " write-ahead log was cut, or it is an older copy. Put the newer files back; if there are none, and what was"
        f" spent since may be forgotten here, delete {path} and start again (docs/operate.md, Restore)."
    )
