"""CSV files as tables: text in UTF-8 with a header, its cells separated by commas, semicolons, tabs or bars."""

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
_DELIMITERS: Final = (",", ";", "\t", "|")
_Row = list[str]


@dataclass(frozen=True, slots=True)
class CsvTable:
    """A CSV file. All its cells are text: what a column holds is found out when it is read."""

    path: Path
    names: tuple[str, ...]
    delimiter: str = ","

    @property
    def size(self) -> int:
        """Its bytes, as they are on disk."""
        return self.path.stat().st_size

    @classmethod
    def open(cls, path: Path) -> CsvTable:
        """Read the header. What separates its names best is what separates all cells; of several alike the comma."""
        headers, faults = list[tuple[str, list[str]]](), list[DataError]()
        for delimiter in _DELIMITERS:
            # A quoted name is followed by the file's own delimiter, and is no CSV by another one.
            try:
                headers += [(delimiter, header)] if (header := _header(path, delimiter)) else []
            except DataError as error:
                faults.append(error)
        if faults and not headers:
            raise faults[0]
        if not headers:
            raise DataError(
                "is empty", where=str(path), remedy="give a first line with the columns' names, and then a line a user"
            )
        delimiter, header = max(headers, key=lambda each: len(each[1]))
        return cls(path, tuple(header), delimiter)

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """Read all rows, some thousand at a time."""
        places = [self.names.index(name) for name in names]
        first = 1
        for lines, rows, read in self._plain():
            yield _batch(first, names, places, rows, lines, read)
            first += len(rows)
        with _text(self.path) as file:
            others = islice(_rows(self.path, file, self.delimiter), first, None)
            while numbered := list(islice(others, _ROWS)):
                lines, rows = [line for line, _ in numbered], [row for _, row in numbered]
                self._check_width(lines, rows, first)
                yield _batch(first, names, places, rows, lines, file.buffer.tell())
                first += len(rows)

    def _plain(self) -> Iterator[tuple[Sequence[int], list[_Row], int]]:
        """Rows as long as each is a line of its own, and sound: most files are such to their end, and quickly read."""
        with _text(self.path) as file:
            reader = csv.reader(file, delimiter=self.delimiter, strict=True, skipinitialspace=True)
            try:
                plain = next(reader, list[str]()) == list(self.names) and reader.line_num == 1
                while plain:
                    begin, rows = reader.line_num, list(islice(reader, _ROWS))
                    lines = range(begin + 1, reader.line_num + 1)
                    plain = (
                        len(rows) > 0 and len(lines) == len(rows) and {len(row) for row in rows} == {len(self.names)}
                    )
                    if plain:
                        yield lines, rows, file.buffer.tell()
            except (csv.Error, UnicodeDecodeError):
                # They are read again, and the error then says where it is.
                return

    def _check_width(self, lines: Sequence[int], rows: list[_Row], first: int) -> None:
        width = len(self.names)
        for at, (line, row) in enumerate(zip(lines, rows, strict=True)):
            if len(row) != width:
                raise DataError(
                    f"has {len(row)} cells where the header has {width}",
                    where=f"{self.path}, row {first + at} (line {line})",
                    remedy="give every column a value, and put text that has a comma in it between double quotes",
                )


def _batch(
    first: int, names: Sequence[str], places: Sequence[int], rows: list[_Row], lines: Sequence[int], read: int
) -> Batch:
    chosen = {name: [row[place] for row in rows] for name, place in zip(names, places, strict=True)}
    return Batch(first, chosen, lines, read)


def _text(path: Path) -> TextIO:
    # utf-8-sig: spreadsheets put a mark before the first name, and it is no part of it.
    return path.open(encoding="utf-8-sig", newline="")


def _header(path: Path, delimiter: str) -> list[str]:
    with _text(path) as file:
        return next((header for _, header in _rows(path, file, delimiter)), list[str]())


def _rows(path: Path, file: TextIO, delimiter: str) -> Iterator[tuple[int, _Row]]:
    """Read each row with the line that it ends on. Blank lines may stand only at the end: elsewhere one is missing.

    In a file of one column a blank line is a row with nothing in it, unless nothing follows.
    """
    reader, blank, width = csv.reader(file, delimiter=delimiter, strict=True, skipinitialspace=True), list[int](), 0
    try:
        for row in reader:
            if not row:
                blank.append(reader.line_num)
                continue
            if blank:
                if width != 1:
                    break
                yield from ((line, [""]) for line in blank)
                blank.clear()
            width = width or len(row)
            yield reader.line_num, row
        else:
            return
    except csv.Error as error:
        place, remedy = f"{path}, line {reader.line_num}", "close every double quote, and double those inside a text"
        raise DataError(f"is not CSV: {error}", where=place, remedy=remedy) from None
    except UnicodeDecodeError:
        place = f"{path}, line {_undecodable(path)}"
        raise DataError("is not UTF-8", where=place, remedy="save the file as CSV in UTF-8") from None
    remedy = "remove the line, or fill it in"
    raise DataError("is blank, and rows follow", where=f"{path}, line {blank[0]}", remedy=remedy)


def _undecodable(path: Path) -> int:
    """The first line that is not UTF-8. The reader does not know: it is handed text in pieces."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 1
