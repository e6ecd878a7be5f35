"""A table in a file of any format: named columns, a row for each user, read some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray

from askance_protocol.errors import DataError
from askance_protocol.text import quoted

Cells: TypeAlias = list[str] | NDArray[Any]
"""One column of some rows: text as it is written, or what a typed format holds."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows, one after the other."""

    first: int
    """The number of the first row, from 1."""
    columns: Mapping[str, Cells]
    lines: Sequence[int] = ()
    """On which line of a text file each row ends."""
    read: int = 0
    """How much of the table has been read after these rows, of `Table.size`."""


class Table(Protocol):
    """A file that is open for reading, more than once if necessary."""

    @property
    def path(self) -> Path:
        """Where the file is."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, as they are written."""
        ...

    @property
    def size(self) -> int:
        """How much there is to read: the bytes of a text file, else rows."""
        ...

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """Read all rows, with these columns only."""
        ...


class CellError(Exception):
    """A cell, or with no row a whole column, that cannot be read. It never says what is written there."""

    def __init__(self, row: int | None, what: str, remedy: str) -> None:
        self.row = row
        self.what = what
        self.remedy = remedy
        super().__init__(what)

    def at(self, path: Path, batch: Batch, column: str) -> DataError:
        """The same error, with the place where a person finds it."""
        where = [str(path)]
        if self.row is not None:
            line = f" (line {batch.lines[self.row]})" if batch.lines else ""
            where.append(f"row {batch.first + self.row}{line}")
        return DataError(self.what, where=", ".join([*where, f"column {quoted(column)}"]), remedy=self.remedy)
