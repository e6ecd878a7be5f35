"""Schema inference: a schema for a table that comes without one.

It is read off the data: the bounds of a number are those of the rows that are there, the categories those that some
row has. That tells about these rows. With examples of real people a schema has to be declared, from what is known
without them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from askance_client.tables import cells as read
from askance_client.tables.cells import Numbers
from askance_client.tables.reading import AS_IT_IS, PLAIN, Repairs, Signs, no_rows
from askance_client.tables.table import Batch, CellError, Cells, Table
from askance_protocol.errors import DataError
from askance_protocol.schema import (
    MAX_CATEGORIES,
    MAX_FIELDS,
    MAX_MAGNITUDE,
    MAX_WIDTH,
    AnyField,
    BitsField,
    CategoryField,
    IntegerField,
    LabelField,
    RealField,
    Schema,
)

_FINEST: Final = 100_000
"""Reals are kept to five decimals at most, which a query for their mean can still take (its limit is 2¹⁷)."""
_MAX_REAL: Final = 1 << 20
_LONG: Final = 64


class _Observer(Protocol):
    """Looks at one column, some rows at a time, and tells at the end which field it is."""

    def see(self, cells: Cells) -> None:
        """Look at some more rows."""
        ...

    def field(self, name: str) -> AnyField:
        """The field that can hold all that was seen."""
        ...


def infer(
    table: Table,
    label: str | None,
    positive: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    repairs: Repairs = AS_IT_IS,
    left_out: dict[str, DataError] | None = None,
) -> tuple[Schema, Signs]:
    """Infer a field for each column. The label is the column of this name, or else the only one with −1 and 1 in it.

    Of the label the two values are inferred, unless `positive` says which one stands for +1. Only `columns` are looked
    at, or all. A column that no field can hold is an error, or, where there is a place for it, `left_out` with the
    reason.
    """
    names = table.names if columns is None else tuple(columns)
    looked_at = [name for name in names if positive is None or name != label]
    observed = _observed(table, looked_at, label, left_out)
    only = [name for name in observed if label is None and observed[name].signs]
    if len(only) == 1:
        label = only[0]
    alone = _alone(observed, label)
    fields = [
        field
        for name in names
        if (name in observed or name not in looked_at)
        and (field := _field(table, name, observed.get(name), label, repairs, left_out, alone)) is not None
    ]
    if not 0 < len(fields) <= MAX_FIELDS:
        what, remedy = (
            (f"has more than {MAX_FIELDS} columns", "name those that are asked: --column")
            if fields
            else ("has no column that a field can hold", "see the reasons")
        )
        raise DataError(what, where=str(table.path), remedy=remedy)
    schema = Schema(fields=tuple(fields))
    if positive is not None:
        return schema, Signs(None, positive)
    return schema, PLAIN if label is None or label not in observed else _signs(table, label, observed[label])


def _alone(observed: Mapping[str, _Column], label: str | None) -> str | None:
    """The one column of numbers, whose range the bounds then are; with several, they narrow that of each."""
    numbers = {
        name: column.observer
        for name, column in observed.items()
        if name != label and isinstance(column.observer, _Numbers)
    }
    wide = [name for name, numbers_ in numbers.items() if not numbers_.is_bit] or [*numbers]
    return wide[0] if len(wide) == 1 else None


def infer_signs(table: Table, label: str) -> Signs:
    """Infer which of the two values of this column stands for −1, and which for +1."""
    return _signs(table, label, _observed(table, (label,), label, None)[label])


def _observed(
    table: Table, names: Sequence[str], label: str | None, left_out: dict[str, DataError] | None
) -> Mapping[str, _Column]:
    columns = {name: _Column(_Labels() if name == label else None) for name in names}
    empty = True
    for batch in table.batches(names):
        for name in tuple(columns):
            try:
                columns[name].see(batch, name, table.path)
            except DataError as error:
                if left_out is None:
                    raise
                left_out[name] = error
                del columns[name]
        empty = False
    if empty:
        raise no_rows(table)
    return columns


def _field(
    table: Table,
    name: str,
    column: _Column | None,
    label: str | None,
    repairs: Repairs,
    left_out: dict[str, DataError] | None,
    alone: str | None,
) -> AnyField | None:
    try:
        if column is None or name == label:
            return LabelField(name=name)
        return repairs.of(column.field(name, repairs, alone=name == alone), alone=name == alone)
    except CellError as error:
        wrong = error.at(table.path, _NOWHERE, name)
    except DataError as error:
        wrong = error
    if left_out is None:
        raise wrong
    left_out[name] = wrong
    return None


def _signs(table: Table, label: str, column: _Column) -> Signs:
    try:
        return column.observer.found if isinstance(column.observer, _Labels) else PLAIN
    except CellError as error:
        raise error.at(table.path, _NOWHERE, label) from None


_NOWHERE: Final = Batch(0, {})
"""The place of an error that is about a whole column."""


@dataclass(slots=True)
class _Column:
    """What was seen of one column. Its first row decides between numbers and text; bit strings may pass for either."""

    observer: _Observer | None = None
    strings: _BitStrings | None = None
    objection: DataError | None = None
    """Why the column is not what it was taken for. It counts only if it does not hold bit strings."""

    gap: bool = False
    """Whether a cell said that there is nothing. Of a label that is an error, when it is read."""

    def see(self, batch: Batch, name: str, path: Path) -> None:
        cells, gaps = batch.columns[name], None
        try:
            gaps = None if isinstance(self.observer, _Labels) else read.gaps(cells)
            if gaps is not None:
                self.gap = True
                cells = read.without(cells, gaps)
                if not len(cells):
                    return
            self._begin(cells)
            if self.strings is not None:
                self.strings.see(read.texts(cells))
            if self.observer is not None and self.objection is None:
                self.observer.see(cells)
        except CellError as error:
            if gaps is not None and error.row is not None:
                error.row = int(np.flatnonzero(~gaps)[error.row])
            self.objection = error.at(path, batch, name)
        if self.objection is not None and (self.strings is None or not self.strings.width):
            raise self.objection

    def _begin(self, cells: Cells) -> None:
        written = isinstance(cells, list) or cells.dtype.kind in "USO"
        if self.observer is None:
            self.strings = _BitStrings(typed=read.is_text(cells)) if written else None
            self.observer = _observer_for(cells)

    @property
    def signs(self) -> bool:
        """Whether −1 and 1 are all that is in it, and both."""
        return isinstance(self.observer, _Numbers) and self.observer.signs

    def field(self, name: str, repairs: Repairs, *, alone: bool) -> AnyField:
        if self.observer is None:
            raise CellError(None, "has nothing in any row", "leave it out, or declare a schema")
        bounded = alone and repairs.bounded and isinstance(self.observer, _Numbers)
        if self.strings is not None and self.strings.sure and not bounded:
            if self.gap and not repairs.gapless:
                raise CellError(None, "has bits in some rows and nothing in others", "say what is meant by --missing")
            return self.strings.field(name)
        if self.objection is not None:
            raise self.objection
        if isinstance(self.observer, _Numbers):
            if self.gap:
                self.observer.gaps()
            if alone:
                self.observer.bound(repairs)
        found = self.observer.field(name)
        if not self.gap or repairs.gapless:
            return found
        if isinstance(found, BitsField) and found.width == 1:
            found = IntegerField(name=name, low=0, high=1)
        return (
            found.model_copy(update={"gap": True})
            if isinstance(found, CategoryField | IntegerField | RealField)
            else found
        )


def _observer_for(cells: Cells) -> _Observer:
    if not isinstance(cells, list) and cells.ndim == 2:
        return _Vectors()
    return _Texts() if read.is_text(cells) else _Numbers()


@dataclass(slots=True)
class _BitStrings:
    """Whether all texts are bit strings of one width."""

    typed: bool
    """Whether the column is text anyway, not numbers."""
    width: int = -1
    """-1 before the first row, 0 once they differ."""
    zero_first: bool = False

    def see(self, strings: list[str]) -> None:
        if not self.width:
            return
        width = len(strings[0]) if self.width < 0 else self.width
        same = {len(string) for string in strings} == {width} and not "".join(strings).strip("01")
        self.width = width if same else 0
        self.zero_first = self.zero_first or any(string.startswith("0") for string in strings)

    @property
    def sure(self) -> bool:
        """Whether these are surely bit strings: 10 and 11 may be numbers, but not if some begin with 0."""
        return self.width > 0 and (self.typed or (self.width > 1 and self.zero_first))

    def field(self, name: str) -> AnyField:
        return _bits(name, self.width)


@dataclass(slots=True)
class _Vectors:
    """A row of bits for each user, in an array. That they are bits is checked when they are read."""

    width: int = 0

    def see(self, cells: Cells) -> None:
        self.width = cast("NDArray[Any]", cells).shape[1]

    def field(self, name: str) -> AnyField:
        return _bits(name, self.width)


@dataclass(slots=True)
class _Numbers:
    """The range of numbers, and how fine their decimals are."""

    whole: bool = True
    low: float = math.inf
    high: float = -math.inf
    zero: bool = False
    grain: int = 1
    bounded: bool = False
    typed: bool = False
    """Whether the file's format has types. Then whole numbers with gaps are doubles, for NaN."""

    def gaps(self) -> None:
        """Take doubles for whole numbers where nothing but the gaps has made doubles of them."""
        self.whole = self.whole or (self.typed and self.grain == 1)

    def bound(self, repairs: Repairs) -> None:
        """Take a range that is given in place of the one that was seen."""
        self.bounded = repairs.bounded
        self.low = self.low if repairs.low is None else repairs.low
        self.high = self.high if repairs.high is None else repairs.high

    def see(self, cells: Cells) -> None:
        found = read.numbers(cells)
        self.typed = not isinstance(cells, list)
        self.whole = self.whole and found.dtype.kind == "i"
        self.low, self.high = min(self.low, found.min().item()), max(self.high, found.max().item())
        self.zero = self.zero or bool((found == 0).any())
        while self.grain < _FINEST and not _multiples(found, self.grain):
            self.grain *= 10

    @property
    def is_bit(self) -> bool:
        """Whether these are 0 and 1."""
        return self.whole and self.low >= 0 and self.high <= 1

    @property
    def signs(self) -> bool:
        return self.whole and (self.low, self.high) == (-1, 1) and not self.zero

    def field(self, name: str) -> AnyField:
        limit = MAX_MAGNITUDE if self.whole else _MAX_REAL
        if max(-self.low, self.high) > limit:
            raise CellError(
                None,
                f"has numbers beyond {limit}",
                "divide the column by a power of ten, or leave it out: it may be what names the user",
            )
        if not self.whole:
            low = min(math.floor(self.low), _MAX_REAL - 1)
            return RealField(name=name, low=low, high=max(math.ceil(self.high), low + 1), denominator=self.grain)
        if self.is_bit and not self.bounded:
            return _bits(name, 1)
        return IntegerField(name=name, low=int(self.low), high=int(self.high))


@dataclass(slots=True)
class _Texts:
    """The different texts of a column."""

    values: set[str] = field(default_factory=set[str])

    def see(self, cells: Cells) -> None:
        texts = read.texts(cells)
        read.refuse_missing(texts)
        self.values.update(texts)
        if len(self.values) > MAX_CATEGORIES:
            raise CellError(
                None,
                f"has more than {MAX_CATEGORIES} different texts",
                "leave out what names the user, or put values into groups",
            )

    def field(self, name: str) -> AnyField:
        if len(self.values) < 2:
            raise CellError(None, "has the same text in every row", "leave it out, or declare a schema")
        if max(map(len, self.values)) > _LONG:
            raise CellError(None, f"has texts of more than {_LONG} characters", "shorten them, or leave the column out")
        return CategoryField(name=name, values=tuple(sorted(self.values)))


@dataclass(slots=True)
class _Labels:
    """The two values of a label: the smaller, or the first of two texts in alphabetical order, is −1."""

    text: bool | None = None
    values: set[Any] = field(default_factory=set[Any])

    def see(self, cells: Cells) -> None:
        if self.text is None:
            self.text = read.is_text(cells)
        if self.text:
            texts = read.texts(cells)
            read.refuse_missing(texts)
            self.values.update(texts)
        else:
            self.values.update(np.unique(read.numbers(cells).astype(np.float64)).tolist())
        if len(self.values) > 2:
            raise CellError(None, "has more than two different values", "a label has two: choose another column")

    def field(self, name: str) -> AnyField:
        return LabelField(name=name)

    @property
    def found(self) -> Signs:
        """The two values. A single one is taken for a label only if it is −1, 0 or 1."""
        values: list[Any] = sorted(self.values)
        if len(values) == 1:
            values = {-1: [-1.0, 1.0], 0: [0.0, 1.0], 1: [-1.0, 1.0]}.get(values[0], values)
        if len(values) < 2:
            raise CellError(None, "has the same value in every row", "a label has two: choose another column")
        return Signs(*values)


def _bits(name: str, width: int) -> BitsField:
    if not 1 <= width <= MAX_WIDTH:
        raise CellError(None, f"has {width} bits for each user", f"give from 1 to {MAX_WIDTH}")
    return BitsField(name=name, width=width)


def _multiples(found: Numbers, grain: int) -> bool:
    """Whether all are multiples of 1/grain, but for the last bits of a double."""
    if found.dtype.kind == "i":
        return True
    scaled = found * grain
    return bool((np.abs(scaled - np.rint(scaled)) <= 4 * np.spacing(np.abs(scaled))).all())
