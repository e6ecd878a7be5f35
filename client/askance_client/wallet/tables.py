"""The tables of a wallet file as this program reads and writes them: each row with a checksum.

A checksum is for accidents: a bit that has flipped, a sector that was lost, another program's write. It holds off
nobody who can write to the file and knows this program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final, TypeAlias

CHECKSUM_BYTES: Final = 16

SqlValue: TypeAlias = int | str | bytes | None


@dataclass(frozen=True, slots=True)
class CheckedTable:
    """One table: its columns in order, without the checksum; the first of them are its key."""

    name: str
    columns: tuple[str, ...]
    key: int = 1
    """Number of columns of the key."""
    changes: tuple[str, ...] = ()
    """The columns of a row that change."""
    select: str = field(init=False)
    insert: str = field(init=False)
    update: str = field(init=False)
    places: tuple[int, ...] = field(init=False)
    """Where the columns that change are in a row."""

    def __post_init__(self) -> None:
        every = (*self.columns, "checksum")
        change = ", ".join(f"{column} = ?" for column in (*self.changes, "checksum"))
        same = " AND ".join(f"{column} = ?" for column in self.columns[: self.key])
        statements = {
            "select": f"SELECT {', '.join(every)} FROM {self.name}",  # noqa: S608 -- names of this module
            "insert": f"INSERT INTO {self.name} ({', '.join(every)}) VALUES ({', '.join('?' * len(every))})",  # noqa: S608
            "update": f"UPDATE {self.name} SET {change} WHERE {same}",  # noqa: S608
        }
        for name, statement in statements.items():
            object.__setattr__(self, name, statement)
        object.__setattr__(self, "places", tuple(map(self.columns.index, self.changes)))

    def inserted(self, file_id: bytes, row: Sequence[SqlValue]) -> list[SqlValue]:
        """Parameters of `insert`."""
        return [*row, self.checksum(file_id, row)]

    def updated(self, file_id: bytes, row: Sequence[SqlValue]) -> list[SqlValue]:
        """Parameters of `update`."""
        return [*(row[place] for place in self.places), self.checksum(file_id, row), *row[: self.key]]

    def checksum(self, file_id: bytes, row: Sequence[SqlValue]) -> bytes:
        """Checksum of a row's values: it depends on the file and on the table too."""
        # ascii() tells 1 from '1' and from b'1', and writes what a wallet holds alike in every version of Python.
        values = ascii(tuple(row)).encode("ascii")
        return sha256(b"%b%b:%b" % (file_id, self.name.encode("ascii"), values)).digest()[:CHECKSUM_BYTES]


FILE: Final = CheckedTable("file", ("one", "id", "owner_count", "head_count"), changes=("owner_count", "head_count"))
OWNERS: Final = CheckedTable(
    "owners",
    ("id", "cap", "elsewhere", "server", "user_number", "token", "declared", "report_count", "heard_count"),
    changes=("elsewhere", "server", "user_number", "token", "declared", "report_count", "heard_count"),
)
HEADS: Final = CheckedTable("heads", ("study", "length", "head"), key=2)
REPORTS: Final = CheckedTable(
    "reports", ("owner", "round", "study", "charge", "body", "state"), key=2, changes=("state",)
)
HEARD: Final = CheckedTable("heard", ("owner", "round", "charge"), key=2)
