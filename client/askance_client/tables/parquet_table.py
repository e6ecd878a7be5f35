"""Parquet files as tables, through pyarrow: it belongs to the extra `lab`, for those who have such files."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from askance_client.tables.table import Batch
from askance_protocol.errors import DataError, MissingExtraError

_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ParquetTable:
    """A Parquet file: columns with types, read row group by row group."""

    path: Path
    names: tuple[str, ...]
    size: int
    """Its rows: their bytes are packed."""

    @classmethod
    def open(cls, path: Path) -> ParquetTable:
        """Read the names of the columns."""
        with _file(path) as file:
            return cls(path, tuple(file.schema_arrow.names), int(file.metadata.num_rows))

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """Read all rows: values as NumPy knows them, NaN or None for those that are missing."""
        first = 1
        with _file(self.path) as file:
            for batch in file.iter_batches(batch_size=_ROWS, columns=list(names)):
                columns = {name: _array(batch.column(name)) for name in names}
                first, begin = first + batch.num_rows, first
                yield Batch(begin, columns, read=first - 1)


def _file(path: Path) -> Any:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtraError.of("pyarrow", "lab") from None
    try:
        return parquet.ParquetFile(path)
    except ValueError:
        raise DataError(
            "is not a Parquet file", where=str(path), remedy="write it again, or give it the ending of its format"
        ) from None


def _array(column: Any) -> NDArray[Any]:
    """Convert a column: categories to their text, decimals to floats, truths with gaps to 0, 1 and NaN."""
    types = importlib.import_module("pyarrow.types")
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_boolean(column.type) and column.null_count:
        column = column.cast("int8")
    if types.is_decimal(column.type):
        column = column.cast("float64")
    return column.to_numpy(zero_copy_only=False)
