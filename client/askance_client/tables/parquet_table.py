"""Tables as Parquet files, through pyarrow, which only those who have such files need."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from askance_client.tables.table import Batch
from askance_protocol.errors import ProtocolError

_ROWS: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class ParquetTable:
    """Columns with types, read row group by row group."""

    path: Path
    names: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> ParquetTable:
        """Read the schema."""
        with _file(path) as file:
            return cls(path, tuple(file.schema_arrow.names))

    def batches(self, names: Sequence[str]) -> Iterator[Batch]:
        """The values as NumPy knows them: what is missing comes as NaN or None."""
        first = 1
        with _file(self.path) as file:
            for batch in file.iter_batches(batch_size=_ROWS, columns=list(names)):
                yield Batch(first, {name: _array(batch.column(name)) for name in names})
                first += batch.num_rows


def _file(path: Path) -> Any:
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ProtocolError(
            "is a Parquet file, and pyarrow is not installed", where=str(path), remedy="pip install 'askance[lab]'"
        ) from None
    try:
        return parquet.ParquetFile(path)
    except ValueError:
        raise ProtocolError(
            "is not a Parquet file", where=str(path), remedy="write it again, or give it the ending of its format"
        ) from None


def _array(column: Any) -> NDArray[Any]:
    """Categories as their text, decimals as floats."""
    types = importlib.import_module("pyarrow.types")
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_decimal(column.type):
        column = column.cast("float64")
    return column.to_numpy(zero_copy_only=False)
