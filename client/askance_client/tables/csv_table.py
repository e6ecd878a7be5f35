"""CSV files as tables: comma-separated text, UTF-8, with a header."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, TextIO

from askance_client.tables.table import Batch
from askance_protocol.errors import DataError

_ROWS: Final = 1 << 13
_Row = tuple[int, list[str]]


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A CSV file. All its cells are text: what a column holds is found out when it is read."""

    path: Path
    names: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> CsvTable:
        """Read the header."""
        with _text(path) as file:
            for _, header in _rows(path, file):
                return cls(path, tuple(header))
        raise DataError(
            "is empty", where=str(path), remedy="give a first line with the columns' names, and then a line a user"
        )

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """Read all rows, some thousand at a time."""
        places = [self.names.index(name) for name in names]
        with _text(self.path) as file:
            rows, first = islice(_rows(self.path, file), 1, None), 1
            while batch := list(islice(rows, _ROWS)):
                self._check_width(batch, first)
                columns = list(zip(*(row for _, row in batch), strict=True))
                chosen = {name: list(columns[place]) for name, place in zip(names, places, strict=True)}
                yield Batch(first, chosen, [line for line, _ in batch])
                first += len(batch)

    def _check_width(self, batch: list[_Row], first: int) -> None:
        width = len(self.names)
        for at, (line, row) in enumerate(batch):
            if len(row) != width:
                raise DataError(
                    f"has {len(row)} cells where the header has {width}",
                    where=f"{self.path}, row {first + at} (line {line})",
                    remedy="give every column a value, and put text that has a comma in it between double quotes",
                )


def _text(path: Path) -> TextIO:
    # utf-8-sig: spreadsheets put a mark before the first name, and it is no part of it.
    return path.open(encoding="utf-8-sig", newline="")


def _rows(path: Path, file: TextIO) -> Iterator[_Row]:
    """Read each row with the line that it ends on. Blank lines may stand only at the end: elsewhere one is missing."""
    reader, blank = csv.reader(file, strict=True, skipinitialspace=True), 0
    try:
        for row in reader:
            if row and blank:
                break
            if row:
                yield reader.line_num, row
            else:
                blank = blank or reader.line_num
        else:
            return
    except csv.Error as error:
        place, remedy = f"{path}, line {reader.line_num}", "close every double quote, and double those inside a text"
        raise DataError(f"is not CSV: {error}", where=place, remedy=remedy) from None
    except UnicodeDecodeError:
        place = f"{path}, line {_undecodable(path)}"
        raise DataError("is not UTF-8", where=place, remedy="save the file as CSV in UTF-8") from None
    raise DataError("is blank, and rows follow", where=f"{path}, line {blank}", remedy="remove the line, or fill it in")


def _undecodable(path: Path) -> int:
    """The first line that is not UTF-8. The reader does not know: it is handed text in pieces."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 1
