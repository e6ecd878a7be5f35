"""Read cells as numbers or as text. An error names the first unreadable cell, never its content."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from askance_client.tables.table import CellError, Cells
from askance_protocol.arrays import Floats, Integers, Truths

Numbers: TypeAlias = Integers | Floats

_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_MISSING: Final = frozenset({"", "na", "n/a", "nan", "null", "?"})
FILL_IN: Final = 'say what is meant: "gap": true at the field in the schema, or --missing VALUE'
_NO_NUMBER: Final = "give numbers, with a point for decimals, or declare another kind of field in a schema"


def is_text(cells: Cells) -> bool:
    """Whether a column is text by its type, or, where all is written as text, because its first cell is no number."""
    if isinstance(cells, list):
        return _NUMBER.fullmatch(cells[0]) is None
    return cells.dtype.kind in "USO"


def numbers(cells: Cells) -> Numbers:
    """Read a column as integers if it has only integers, else as floats. All are finite."""
    if isinstance(cells, list):
        return _finite(_parsed(cells))
    if cells.ndim != 1:
        raise CellError(None, "has several values for each user", "give one value, or an array of 0 and 1 for bits")
    match cells.dtype.kind:
        case "b" | "i":
            return cells.astype(np.int64)
        case "u" if not len(cells) or int(cells.max()) < 1 << 63:
            return cells.astype(np.int64)
        case "u" | "f":
            return _finite(cells.astype(np.float64))
        case "U" | "S" | "O":
            return _finite(_parsed(texts(cells)))
        case _:
            raise _no_column(cells)


def texts(cells: Cells) -> list[str]:
    """Read a column as text. A missing cell is an empty text."""
    if isinstance(cells, list):
        return cells
    if cells.dtype.kind == "S":
        return _decoded(cells)
    if cells.ndim != 1 or cells.dtype.kind not in "UO":
        raise _no_column(cells)
    values = cast("list[object]", cells.tolist())
    refuse(values, lambda value: value is None, "has no value", FILL_IN)
    refuse(values, lambda value: not isinstance(value, str), "is not text", "give the column one type")
    return cast("list[str]", values)


def gaps(cells: Cells, known: Collection[str] = ()) -> Truths | None:
    """Which cells say that there is nothing, but for texts that are `known` values; None where none does."""
    if not isinstance(cells, list) and (cells.ndim != 1 or cells.dtype.kind not in "fUSO"):
        return None
    if not isinstance(cells, list) and cells.dtype.kind == "f":
        found: Truths = np.isnan(cells)
    elif not isinstance(cells, list) and cells.dtype.kind == "O":
        found = np.array([_is_nothing(cell, known) for cell in cells.tolist()], np.bool)
    else:
        strings = texts(cells)
        missing = {cell for cell in set(strings) if is_missing(cell)}.difference(known)
        if not missing:
            return None
        found = np.fromiter((cell in missing for cell in strings), np.bool, len(strings))
    return found if found.any() else None


def _is_nothing(cell: object, known: Collection[str]) -> bool:
    if isinstance(cell, str):
        return cell not in known and is_missing(cell)
    return cell is None or (isinstance(cell, float) and math.isnan(cell))


def without(cells: Cells, left_out: Truths) -> Cells:
    """The other cells."""
    if isinstance(cells, list):
        return [cell for cell, out in zip(cells, left_out.tolist(), strict=True) if not out]
    return cells[~left_out]


def filled(cells: Cells, where: Truths, value: str) -> Cells:
    """The same cells, with this value written where they say that there is nothing."""
    if isinstance(cells, list):
        return [value if gap else cell for cell, gap in zip(cells, where.tolist(), strict=True)]
    if cells.dtype.kind == "f":
        return np.where(where, _parsed([value])[0], cells)
    return [value if gap else str(cell) for cell, gap in zip(texts_of(cells, where), where.tolist(), strict=True)]


def texts_of(cells: NDArray[Any], but: Truths) -> list[str]:
    """Read a column of text, but for some cells: these are empty."""
    if cells.dtype.kind != "O":
        return texts(cells)
    return texts(
        np.array(["" if out else cell for cell, out in zip(cells.tolist(), but.tolist(), strict=True)], object)
    )


def refuse_missing(cells: Sequence[str]) -> None:
    """Stop at a cell that is empty, or says that there is nothing."""
    if not _MISSING.isdisjoint({cell.strip().lower() for cell in set(cells)}):
        refuse(cells, is_missing, "has no value", FILL_IN)


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is nothing."""
    return cell.strip().lower() in _MISSING


def refuse(values: Iterable[Any], wrong: Callable[[Any], bool], what: str, remedy: str) -> None:
    """Stop at the first of these values that is wrong."""
    for row, value in enumerate(values):
        if wrong(value):
            raise CellError(row, what, remedy)


def refuse_rows(wrong: Truths, what: str, remedy: str) -> None:
    """Stop at the first of these rows that is wrong."""
    if wrong.any():
        raise CellError(int(wrong.argmax()), what, remedy)


def _parsed(cells: list[str]) -> Numbers:
    # One look at all cells at once keeps out what int() and float() would take besides: "1_000", " 1", "nan", "٣".
    joined = "".join(cells)
    try:
        if not joined.strip("+-0123456789"):
            return np.array(list(map(int, cells)), np.int64)
        if not joined.strip("+-0123456789.eE"):
            return np.array(list(map(float, cells)), np.float64)
    except (ValueError, OverflowError):
        pass
    refuse(cells, is_missing, "has no value", FILL_IN)
    refuse(cells, lambda cell: _NUMBER.fullmatch(cell) is None, "is not a number", _NO_NUMBER)
    return np.array(list(map(float, cells)), np.float64)


def _finite(array: Numbers) -> Numbers:
    if array.dtype.kind == "f":
        refuse_rows(np.isnan(array), "has no value", FILL_IN)
        refuse_rows(np.isinf(array), "is not a finite number", "leave out the row, or give a number")
    return array


def _decoded(cells: NDArray[Any]) -> list[str]:
    found: list[str] = []
    for row, cell in enumerate(cast("list[bytes]", cells.tolist())):
        try:
            found.append(cell.decode())
        except UnicodeDecodeError:
            raise CellError(row, "is not UTF-8", "save text as text, not as bytes") from None
    return found


def _no_column(cells: NDArray[Any]) -> CellError:
    return CellError(
        None, f"holds {cells.dtype.name}, of shape {cells.shape[1:]} for each user", "give numbers, truths, or text"
    )
