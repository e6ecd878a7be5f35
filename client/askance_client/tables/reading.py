"""Reading the rows of a table as columns of a schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from askance_client.tables import cells as read
from askance_client.tables.table import CellError, Cells, Table
from askance_protocol.errors import DataError, UsageError
from askance_protocol.examples import Column, Columns
from askance_protocol.schema import AnyField, BitsField, CategoryField, IntegerField, LabelField, RealField, Schema

_DECLARED: Final = "see the field's declaration in the schema"


@dataclass(frozen=True, slots=True)
class Signs:
    """The values of a label column that stand for −1 and for +1."""

    minus: str | float | None
    """None: every value but the one for +1, which is then as it is written."""
    plus: str | float


PLAIN: Final = Signs(-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Repairs:
    """What is read in place of a cell that a field cannot hold as it stands."""

    missing: str | None = None
    """What a gap is read as, as if it stood there; None: it stays a gap, where the field may have one."""
    skip: bool = False
    """Leave out rows with a gap: these users do not take part, which tells that they have one."""
    low: int | None = None
    """Numbers below it count as this one."""
    high: int | None = None
    """Numbers above it count as this one."""

    @property
    def gapless(self) -> bool:
        """Whether no field has gaps afterwards."""
        return self.skip or self.missing is not None

    @property
    def bounded(self) -> bool:
        """Whether numbers are clamped."""
        return self.low is not None or self.high is not None

    def of(self, field: AnyField, *, alone: bool = False) -> AnyField:
        """The field as it is after these repairs. `alone`: the bounds are its range; else they narrow it."""
        if isinstance(field, IntegerField | RealField) and self.bounded:
            low, high = (own if end is None else end for own, end in ((field.low, self.low), (field.high, self.high)))
            if not alone:
                low, high = max(low, field.low), min(high, field.high)
            if low + isinstance(field, RealField) > high:
                raise UsageError(f"leave {field.name!r} no range", where="low, high", remedy="give low below high")
            field = field.model_copy(update={"low": low, "high": high})
        if isinstance(field, CategoryField | IntegerField | RealField) and field.gap and self.gapless:
            field = field.model_copy(update={"gap": None})
        return field


AS_IT_IS: Final = Repairs()


def read_columns(
    table: Table, schema: Schema, signs: Signs, repairs: Repairs = AS_IT_IS, clamped: Counter[str] | None = None
) -> Columns:
    """Read all rows, checked. The schema is that of the repaired fields; `clamped` counts what is beyond a range."""
    clamped = Counter[str]() if clamped is None else clamped
    parts: dict[str, list[Column]] = {field.name: [] for field in schema.fields}
    count = 0
    for batch in table.batches(tuple(parts)):
        arrays: dict[str, NDArray[Any]] = {}
        for field in schema.fields:
            try:
                arrays[field.name] = _read(field, batch.columns[field.name], signs, repairs, clamped)
            except CellError as error:
                raise error.at(table.path, batch, field.name) from None
        packed = Columns.of(schema, _whole_rows(arrays) if repairs.skip else arrays)
        count += len(packed)
        for name, column in packed.arrays.items():
            parts[name].append(column)
    if not count:
        raise no_rows(table)
    return Columns(schema, _joined(parts), count)


def no_rows(table: Table) -> DataError:
    """The error of a table without rows."""
    return DataError("has no rows", where=str(table.path), remedy="give a row for each user, below the names")


def _joined(parts: dict[str, list[Column]]) -> Mapping[str, Column]:
    """Join the pieces of each column; they are released once it is made."""
    arrays: dict[str, Column] = {}
    for name in list(parts):
        column = cast("Column", np.concatenate(parts.pop(name), axis=-1))
        column.flags.writeable = False
        arrays[name] = column
    return arrays


def _whole_rows(arrays: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
    """The rows without a gap."""
    gaps = [np.ma.getmaskarray(array) for array in arrays.values() if isinstance(array, np.ma.MaskedArray)]
    if not gaps:
        return arrays
    whole = ~np.logical_or.reduce(gaps)
    return {name: np.asarray(array)[whole] for name, array in arrays.items()}


def _read(field: AnyField, cells: Cells, signs: Signs, repairs: Repairs, clamped: Counter[str]) -> NDArray[Any]:
    """Convert cells to the values that `Columns.of` takes for this field; gaps are masked."""
    gaps = read.gaps(cells, field.index if isinstance(field, CategoryField) else ())
    if gaps is None:
        return _values(field, cells, signs, clamped)
    if repairs.missing is not None:
        return _values(field, read.filled(cells, gaps, repairs.missing), signs, clamped)
    if isinstance(field, BitsField | LabelField) or not (repairs.skip or field.gap):
        return _values(field, cells, signs, clamped)
    stand_in = field.values[0] if isinstance(field, CategoryField) else str(field.low)
    values = _values(field, read.filled(cells, gaps, stand_in), signs, clamped)
    return cast("NDArray[Any]", np.ma.array(values, mask=gaps))


def _values(field: AnyField, cells: Cells, signs: Signs, clamped: Counter[str]) -> NDArray[Any]:
    match field:
        case BitsField():
            return _bits(field, cells)
        case CategoryField():
            return _categories(field, cells)
        case IntegerField() | RealField():
            return _numbers(field, cells, clamped)
        case LabelField():
            return _labels(cells, signs)


def _bits(field: BitsField, cells: Cells) -> NDArray[Any]:
    if not isinstance(cells, list) and cells.ndim == 2:
        return _bit_rows(field, cells)
    if field.width == 1:
        single = read.numbers(cells)
        read.refuse_rows((single != 0) & (single != 1), "is not a bit", "give 0 or 1")
        return single.astype(np.uint8)[:, None]
    strings, width = read.texts(cells), field.width
    if "".join(strings).strip("01") or {len(string) for string in strings} != {width}:
        read.refuse(
            strings,
            lambda string: len(string) != width or bool(string.strip("01")),
            f"is not a bit string of width {width}",
            f'give a text of {width} times "0" or "1"',
        )
    return np.frombuffer("".join(strings).encode(), np.uint8).reshape(-1, width) - np.uint8(ord("0"))


def _bit_rows(field: BitsField, cells: NDArray[Any]) -> NDArray[Any]:
    if cells.dtype.kind not in "biu" or cells.shape[1] != field.width:
        raise CellError(None, f"is not an array of users × {field.width} bits", "give 0 and 1 as integers")
    read.refuse_rows(((cells != 0) & (cells != 1)).any(axis=1), "is not a row of bits", "give 0 and 1")
    return cells.astype(np.uint8)


def _categories(field: CategoryField, cells: Cells) -> NDArray[Any]:
    strings = read.texts(cells)
    found = np.array([field.index.get(string, -1) for string in strings], np.int64)
    if (found < 0).any():
        # A declared value may well be "NA": what is missing is looked for among those that are not declared.
        read.refuse(
            strings, lambda string: string not in field.index and read.is_missing(string), "has no value", read.FILL_IN
        )
        read.refuse_rows(found < 0, "is not one of the declared values", _DECLARED)
    return found


def _numbers(field: IntegerField | RealField, cells: Cells, clamped: Counter[str]) -> NDArray[Any]:
    """Beyond the range a number counts as the nearer end: a refusal would tell that somebody has one."""
    written = read.numbers(cells)
    found = written.clip(field.low, field.high)
    clamped[field.name] += int(np.count_nonzero(found != written))
    if isinstance(field, RealField):
        return found.astype(np.float64)
    read.refuse_rows(found != np.floor(found), "is not a whole number", _DECLARED)
    return found.astype(np.int64)


def _written_as(cells: Cells, value: str) -> NDArray[Any]:
    """Whether each cell is this value, as a text or as a number."""
    try:
        number = float(value)
    except ValueError:
        number = None
    if not isinstance(cells, list) and cells.dtype.kind in "biuf":
        return np.full(len(cells), False) if number is None else cells == number
    return np.array([text == value or (number is not None and _is_number(text, number)) for text in read.texts(cells)])


def _is_number(text: str, number: float) -> bool:
    try:
        return float(text) == number
    except ValueError:
        return False


def _labels(cells: Cells, signs: Signs) -> NDArray[Any]:
    if signs.minus is None:
        # Every row has a label then, whatever stands in it: no refusal depends on what the rows hold.
        return np.where(_written_as(cells, str(signs.plus)), 1, -1)
    if signs == PLAIN and read.is_text(cells):
        raise CellError(0, "is not a label", "give 1 or -1, or say which value counts as +1")
    if isinstance(signs.plus, str):
        found: NDArray[Any] = np.array(read.texts(cells), np.object_)
    else:
        found = read.numbers(cells)
    plus = found == signs.plus
    remedy = "give 1 or -1" if signs == PLAIN else "give one of the two values that the column has"
    read.refuse_rows(~(plus | (found == signs.minus)), "is not a label", remedy)
    return np.where(plus, 1, -1)
