"""A user's own table: the file, and all that was said about it before anybody looked into it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from askance_client.population import Population
from askance_client.tables import AS_IT_IS, FromFile, Repairs, column_names, from_file, read_schema, repaired, values_of
from askance_protocol.errors import UsageError
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.schema import Schema
from askance_protocol.text import QUOTED, printable, quoted

_UNLABELLED: Final[Mapping[str, None]] = {"label": None, "positive": None}


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
    columns: tuple[str, ...] | None = None
    """The columns that are asked, beside the label; None: all. The others are not looked at."""
    repairs: Repairs = AS_IT_IS
    """What is read in place of gaps, and of numbers beyond a range."""
    row: int | None = None
    """The one row that is read, from 1; None: all."""
    tell: Tell = tell_nobody
    """Hears how much of it has been read."""

    @classmethod
    def of(
        cls,
        path: Path,
        schema: Path | None,
        label: str | None,
        positive: str | None,
        columns: tuple[str, ...] | None = None,
        repairs: Repairs = AS_IT_IS,
    ) -> TableFile:
        """What the options of a command say. A declared schema names the label, too."""
        if schema is None:
            return cls(path, None, label, positive, columns, repairs)
        declared = read_schema(schema)
        field = None if declared.label is None else declared.label.name
        if label not in (None, field):
            what = f"declares {quoted(field)} as its label" if field else "declares no label"
            raise UsageError(
                what, where="--schema", remedy=f"declare {quoted(label)} as the label, or leave out --label"
            )
        return cls(path, declared, field, positive, columns, repairs)

    def names(self) -> tuple[str, ...]:
        """Names of the columns that may be asked: they are read, and no row."""
        return column_names(self.path) if self.columns is None else self.columns

    def asking(self, columns: tuple[str, ...] | None) -> TableFile:
        """The same table, of which these columns are asked, and the label."""
        return dataclasses.replace(self, columns=columns)

    def only(self, columns: tuple[str, ...]) -> TableFile:
        """The same table, of which these columns are asked, and nothing else: the label only if it is one of them."""
        if self.schema is None:
            return dataclasses.replace(self, columns=columns, **({} if self.label in columns else _UNLABELLED))
        fields = tuple(self.schema.field(name) for name in dict.fromkeys(columns))
        labelled = self.label in columns
        schema = Schema(fields=tuple(field for field in self.schema.fields if field in fields))
        return dataclasses.replace(self, schema=schema, columns=None, **({} if labelled else _UNLABELLED))

    def rows(self) -> Population:
        """Read all rows."""
        label = self.label if self.schema is None or self.positive is not None else None
        rows = from_file(
            self.path,
            schema=self.schema,
            label=label,
            positive=self.positive,
            columns=self.columns,
            repairs=self.repairs,
            row=self.row,
            tell=self.tell,
        )
        return self._with_both_labels(rows, self.positive)

    def rows_as(self, schema: Schema, label: str | None) -> Population:
        """Read the columns of another schema; without a label's name its values are −1 and 1."""
        if repaired(schema, dataclasses.replace(self.repairs, missing=None)) != schema:
            what = "is not the range that is asked about"
            raise UsageError(what, where="--low, --high", remedy="leave them out")
        positive = self.positive if label else None
        rows = from_file(
            self.path, schema=schema, label=label, positive=positive, repairs=self.repairs, row=self.row, tell=self.tell
        )
        return self._with_both_labels(rows, positive)

    def _with_both_labels(self, rows: Population, positive: str | None) -> Population:
        """The rows, if some have the value that counts as +1. This looks at the rows, as a simulation may."""
        field = rows.schema.label
        if positive is None or field is None or not isinstance(rows, FromFile):
            return rows
        if not (np.asarray(rows.rows.arrays[field.name]) > 0).any():
            values = ", ".join(printable(value, QUOTED) for value in values_of(self.path, field.name))
            what = f"{quoted(positive)} is no value of column {quoted(field.name)}"
            raise UsageError(what, where="--positive", remedy=f"give one of {values}")
        return rows
