"""A user's own table: the file, and all that was said about it before anybody looked into it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from askance_client.population import Population
from askance_client.tables import from_file, read_schema
from askance_protocol.errors import UsageError
from askance_protocol.schema import Schema
from askance_protocol.text import quoted


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file with a row for each user, and what is declared of its columns."""

    path: Path
    schema: Schema | None = None
    """What its columns may hold; None: it is inferred from the rows, so that what is said later tells about them."""
    label: str | None = None
    """The column that is to be predicted."""
    positive: str | None = None
    """The value of the label that counts as +1; None: inferred, unless the label is −1 and 1 as it stands."""

    @classmethod
    def of(cls, path: Path, schema: Path | None, label: str | None, positive: str | None) -> TableFile:
        """What the options of a command say. A declared schema names the label, too."""
        if schema is None:
            return cls(path, None, label, positive)
        declared = read_schema(schema)
        field = None if declared.label is None else declared.label.name
        if label not in (None, field):
            what = f"declares {quoted(field)} as its label" if field else "declares no label"
            raise UsageError(
                what, where="--schema", remedy=f"declare {quoted(label)} as the label, or leave out --label"
            )
        return cls(path, declared, field, positive)

    def rows(self) -> Population:
        """Read all rows."""
        if self.schema is None:
            return from_file(self.path, label=self.label, positive=self.positive)
        return self.rows_as(self.schema, None if self.positive is None else self.label)

    def rows_as(self, schema: Schema, label: str | None) -> Population:
        """Read the columns of another schema; without a label's name its values are −1 and 1."""
        return from_file(self.path, schema=schema, label=label, positive=self.positive if label else None)
