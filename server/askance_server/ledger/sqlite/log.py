"""The log of accepted reports: groups as columns of bytes with a checksum, and the checkpoint of spending beside them.

A column has the narrowest type that holds it, which its length and the number of reports tell. A group or checkpoint
whose checksum is wrong raises `LedgerError`: nothing is skipped silently.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from askance_protocol.arrays import Integers
from askance_server.ledger.base import LedgerError, OutcomeColumn, Users
from askance_server.ledger.digests import Row

PIECE: Final = 1 << 20
"""Bytes of a checkpoint that are handed to SQLite at a time."""


@dataclass(frozen=True, slots=True)
class LoggedGroup:
    """One row of the log: reports of different users to one round."""

    id: int
    round: int
    users: Users
    outcomes: OutcomeColumn


@dataclass(frozen=True, slots=True)
class Log:
    """The tables `report_groups` and `checkpoints` of one file."""

    db: sqlite3.Connection
    path: Path

    def groups(self, after: int, enrolled: int) -> Iterator[LoggedGroup]:
        """The groups behind `after`, in the order of acceptance."""
        return self._groups("SELECT * FROM report_groups WHERE id > ? ORDER BY id", (after,), enrolled)

    def groups_of(self, number: int, after: int, enrolled: int) -> Iterator[LoggedGroup]:
        """Those of one round."""
        query = "SELECT * FROM report_groups WHERE round = ? AND id > ? ORDER BY id"
        return self._groups(query, (number, after), enrolled)

    def _groups(self, query: str, values: tuple[int, ...], enrolled: int) -> Iterator[LoggedGroup]:
        for id_, number, reports, *columns, checksum_ in self.db.execute(query, values):
            if checksum(number, *columns) != checksum_:
                raise self.damaged(id_, "its checksum is wrong")
            users, outcomes = unpack(reports, *columns)
            if int(users.max()) >= enrolled:
                raise self.damaged(id_, "it names a user who was never enrolled")
            yield LoggedGroup(id_, number, users, outcomes)

    def damaged(self, group: int, what: str) -> LedgerError:
        """What to tell of a group that is not what was written."""
        return LedgerError(
            f"{self.path}: group {group} of table report_groups is damaged: {what}."
            " Restore the directory from a backup; nothing was changed."
        )

    def read_checkpoint(self, spent: Integers) -> int:
        """The last group that is counted in, or 0 without a checkpoint; what each user had spent by then is noted."""
        query = "SELECT last_group, length(spent), checksum FROM checkpoints ORDER BY last_group DESC"
        row = self.db.execute(query).fetchone()
        if row is None:
            return 0
        last, size, checksum_ = row
        held = spent[: size // 8].view(np.uint8).data
        # In pieces: the whole is as large as all that is known of users.
        digest = hashlib.blake2b(last.to_bytes(8, "little"), digest_size=16)
        with self.db.blobopen("checkpoints", "spent", last, readonly=True) as blob:
            for begin in range(0, len(held), PIECE):
                held[begin : begin + PIECE] = piece = blob.read(PIECE)
                digest.update(piece)
        if size != len(held) or digest.digest() != checksum_:
            raise LedgerError(
                f"{self.path}: the checkpoint at group {last} is damaged. Restore the directory from a backup; or, to"
                " rebuild it from the log, delete the rows of table checkpoints and start again."
            )
        return int(last)


def append_group(db: sqlite3.Connection, number: int, users: Users, outcomes: OutcomeColumn) -> Row:
    """Inside the caller's transaction: one more group of reports to this round. Returns what of it is sealed."""
    columns = pack_users(users), pack_outcomes(outcomes)
    sum_ = checksum(number, *columns)
    insert = "INSERT INTO report_groups (round, reports, users, outcomes, checksum) VALUES (?, ?, ?, ?, ?)"
    id_ = db.execute(insert, (number, len(users), *columns, sum_)).lastrowid
    return (id_, number, len(users), sum_)


def write_checkpoint(db: sqlite3.Connection, spending: Integers) -> Row:
    """Inside the caller's transaction: replace the checkpoint by one of all groups. Returns what of it is sealed."""
    (last,) = db.execute("SELECT coalesce(max(id), 0) FROM report_groups").fetchone()
    spent = spending.astype("<i8", copy=False).view(np.uint8).data
    db.execute("DELETE FROM checkpoints")
    row: Row = (last, len(spent), checksum(last, spent, b""))
    db.execute("INSERT INTO checkpoints VALUES (?, zeroblob(?), ?)", row)
    # In pieces: as a parameter the whole would be copied, and its copy stay with the cached statement.
    with db.blobopen("checkpoints", "spent", last) as blob:
        for begin in range(0, len(spent), PIECE):
            blob.write(spent[begin : begin + PIECE])
    return row


def pack_users(users: Users) -> bytes:
    """The column in 4 bytes each, or 8 if one needs them."""
    return _pack(users, ("<u4", "<u8"))


def pack_outcomes(outcomes: OutcomeColumn) -> bytes:
    """The column in 1, 2 or 4 bytes each."""
    return _pack(outcomes, ("<u1", "<u2", "<u4"))


def _pack(column: Users | OutcomeColumn, types: tuple[str, ...]) -> bytes:
    narrow = next(kind for kind in types if int(column.max()) <= np.iinfo(kind).max)
    return column.astype(narrow).tobytes()


def unpack(reports: int, users: bytes, outcomes: bytes) -> tuple[Users, OutcomeColumn]:
    """The columns of a group, in the types that their lengths tell."""
    wide_users = np.frombuffer(users, f"<u{len(users) // reports}").astype(np.uint64)
    return wide_users, np.frombuffer(outcomes, f"<u{len(outcomes) // reports}").astype(np.uint32)


def checksum(number: int, users: bytes | memoryview, outcomes: bytes) -> bytes:
    """BLAKE2b of a number and two columns."""
    digest = hashlib.blake2b(number.to_bytes(8, "little"), digest_size=16)
    digest.update(users)
    digest.update(outcomes)
    return digest.digest()
