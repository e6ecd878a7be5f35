"""Your own table as a population: CSV, Parquet or NumPy, a row for each user, read against a schema."""

from askance_client.tables.file import (
    FORMATS,
    FromFile,
    Inferred,
    bounds_nothing,
    chosen,
    column_names,
    count_rows,
    from_file,
    infer_schema,
    own_names,
    repaired,
    values_of,
)
from askance_client.tables.reading import AS_IT_IS, Repairs
from askance_client.tables.schema_file import read_schema, written_schema

__all__ = [
    "AS_IT_IS",
    "FORMATS",
    "FromFile",
    "Inferred",
    "Repairs",
    "bounds_nothing",
    "chosen",
    "column_names",
    "count_rows",
    "from_file",
    "infer_schema",
    "own_names",
    "read_schema",
    "repaired",
    "values_of",
    "written_schema",
]
