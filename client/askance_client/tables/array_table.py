"""NumPy files as tables: an .npz with an array for each column, or an .npy with a structured array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from askance_client.tables.table import Batch
from askance_protocol.errors import DataError

_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class ArrayTable:
    """A NumPy file, in memory as a whole."""

    path: Path
    columns: Mapping[str, NDArray[Any]]

    @classmethod
    def open(cls, path: Path) -> ArrayTable:
        """Load the columns. Pickled arrays are refused: loading them could run code."""
        columns = _loaded(path)
        lengths = {len(column) if column.ndim else -1 for column in columns.values()}
        if len(lengths) != 1 or -1 in lengths:
            raise DataError(
                "does not hold columns of one length",
                where=str(path),
                remedy="give every column one value for each user",
            )
        return cls(path, columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the file."""
        return tuple(self.columns)

    @property
    def size(self) -> int:
        """Its rows."""
        return len(next(iter(self.columns.values())))

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """Read all rows: views of the columns."""
        for begin in range(0, self.size, _ROWS):
            end = min(begin + _ROWS, self.size)
            yield Batch(begin + 1, {name: self.columns[name][begin:end] for name in names}, read=end)


def _loaded(path: Path) -> Mapping[str, NDArray[Any]]:
    array, columns = _read(path)
    if array is None:
        return columns
    if array.dtype.names is None:
        raise DataError(
            "is an array without column names", where=str(path), remedy="save a structured array, or use np.savez"
        )
    return {name: array[name] for name in array.dtype.names}


def _read(path: Path) -> tuple[NDArray[Any] | None, Mapping[str, NDArray[Any]]]:
    """The one array of an .npy, or the named arrays of an .npz."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return cast("NDArray[Any]", loaded), {}
        with loaded:
            return None, {name: loaded[name] for name in loaded.files}
    except (ValueError, EOFError, BadZipFile):
        raise DataError(
            "is not a NumPy file of numbers, truths and text",
            where=str(path),
            remedy="write it with np.savez, an array for each column, or with np.save from a structured array",
        ) from None
