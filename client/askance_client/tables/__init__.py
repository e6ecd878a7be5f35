"""Your own table as a population: CSV, Parquet or NumPy, a row for each user, read against a schema."""

from askance_client.tables.file import FORMATS, FromFile, from_file
from askance_client.tables.schema_file import read_schema

__all__ = ["FORMATS", "FromFile", "from_file", "read_schema"]
