"""The options of every command that takes a table, or a schema of one: what of it is asked, and what a gap means.

    --data FILE --schema FILE --column C --low A --high B --missing skip|VALUE --label COL --positive VALUE

Whoever has a gap takes part like everybody, because that she does not answer would tell that she has one. So a gap is
either a value of its field, held like any other (`"gap": true` in the schema), or read as the value that --missing
says. To leave rows out is possible only where nobody's ε is at stake: in a simulation by `askance run`, which then
claims none. A number beyond the range of its column counts as the nearer end, for the same reason. --low and --high are
the range of a single column of numbers; of several, and of those that a schema declares, they narrow each range.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from askance_client.population import Population
from askance_client.tables import FromFile, Repairs, bounds_nothing, chosen, read_schema, repaired
from askance_lab.commands.shared.completion import columns
from askance_lab.data.table_file import TableFile
from askance_protocol.errors import ProtocolError, UsageError
from askance_protocol.examples import Columns
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.schema import IntegerField, RealField, Schema

SKIP: Final = "skip"

DeclaredOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--schema", metavar="FILE", help="JSON file of the fields that a study may ask about, no others."),
]

ColumnOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="C",
        autocompletion=columns,
        help="Column that is asked, and has to be sound; no other is looked at, but the label. May be given again.  "
        "[default: all]",
    ),
]
LowOption: TypeAlias = Annotated[
    int | None, typer.Option("--low", metavar="A", help="Least number of the column; what is below counts as A.")
]
HighOption: TypeAlias = Annotated[
    int | None, typer.Option("--high", metavar="B", help="Largest number of the column; what is above counts as B.")
]
MissingOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--missing",
        metavar="skip|VALUE",
        help="What a gap counts as. skip leaves the row out, which tells that it has one: in simulations only.  "
        "[default: a gap is a value, where the schema says so]",
    ),
]


@dataclass(frozen=True, slots=True)
class TableOptions:
    """What a command was told about a table."""

    data: Path | None = None
    schema: Path | None = None
    columns: tuple[str, ...] | None = None
    low: int | None = None
    high: int | None = None
    missing: str | None = None
    label: str | None = None
    positive: str | None = None
    row: int | None = None
    """The one row that is looked at, from 1; None: all."""

    @classmethod
    def of(
        cls,
        data: Path | None,
        schema: Path | None,
        column: list[str] | None,
        low: int | None,
        high: int | None,
        missing: str | None,
        label: str | None = None,
        positive: str | None = None,
    ) -> TableOptions:
        """The options as a command has them."""
        if low is not None and high is not None and low > high:
            raise UsageError("is above --high", where="--low", remedy="give the smaller number first")
        return cls(data, schema, tuple(dict.fromkeys(column)) if column else None, low, high, missing, label, positive)

    @property
    def skips(self) -> bool:
        """Whether rows with a gap are left out."""
        return self.missing == SKIP

    @property
    def repairs(self) -> Repairs:
        """What is read in place of gaps and of numbers beyond the range."""
        return Repairs(None if self.skips else self.missing, self.skips, self.low, self.high)

    def check_table(self) -> None:
        """Refuse options that say something of a table where none is given."""
        about = {
            "--label": self.label,
            "--schema": self.schema,
            "--positive": self.positive,
            "--column": self.columns,
            "--low": self.low,
            "--high": self.high,
            "--missing": self.missing,
        }
        for option, value in about.items():
            if value is not None and self.data is None:
                raise UsageError("is for a table", where=option, remedy="give the table: --data FILE")

    def check_present(self) -> None:
        """Refuse to leave anybody out, where users are asked for real."""
        if self.skips:
            raise UsageError(
                "would tell who has a gap, because she does not report",
                where="--missing skip",
                remedy='say what a gap counts as: --missing VALUE; or declare it: "gap": true',
            )

    def table(self, tell: Tell = tell_nobody) -> TableFile:
        """The table; `tell` hears how much of it has been read. It is an error that there is none."""
        if self.data is None:
            raise UsageError("is missing", where="--data", remedy="name the file that has a row for each user")
        table = TableFile.of(self.data, self.schema, self.label, self.positive, self.columns, self.repairs)
        if table.schema is not None:
            self._check_bounds(table.schema)
        return replace(table, row=self.row, tell=tell)

    def declared(self) -> Schema | None:
        """The fields that may be asked about, as the schema and the options together declare them; None: any."""
        if self.schema is None:
            self._check_declared()
            return None
        declared = read_schema(self.schema)
        try:
            of_columns = declared if self.columns is None else chosen(declared, self.columns)
        except ProtocolError as error:
            raise UsageError(error.what, where="--column", remedy=error.remedy) from None
        numbers = [field for field in of_columns.fields if isinstance(field, IntegerField | RealField)]
        if self.repairs.bounded and not numbers:
            raise UsageError("bound no column of numbers", where="--low, --high", remedy="leave them out")
        self._check_bounds(of_columns)
        return repaired(of_columns, self.repairs)

    def _check_bounds(self, schema: Schema) -> None:
        """Refuse bounds that change nothing: a number beyond a declared range counts as its nearer end anyway."""
        asked = [field for field in schema.fields if self.columns is None or field.name in self.columns]
        if asked and bounds_nothing(Schema(fields=tuple(asked)), self.repairs):
            what = "lie beyond what the schema declares, and change nothing"
            raise UsageError(what, where="--low, --high", remedy="leave them out, or declare another range")

    def _check_declared(self) -> None:
        """Refuse options that change what is declared where neither a schema nor a table is there to be changed."""
        for option, value in {"--column": self.columns, "--low, --high": self.low, "--missing": self.missing}.items():
            if value is not None and self.data is None:
                raise UsageError("is for declared fields", where=option, remedy="declare them: --schema FILE")

    def rows_for(self, example: Schema, tell: Tell = tell_nobody) -> Population:
        """The rows of the table as the examples of a study: only the columns that it asks about are looked at."""
        asked = set(example.position) - set(example.position if self.columns is None else self.columns)
        if asked:
            what = f"leaves out {', '.join(sorted(asked))}, which the study asks about"
            raise UsageError(what, where="--column", remedy="choose another study with --study")
        found = self.table(tell).asking(None).rows_as(example, None)
        if found.schema == example or not isinstance(found, FromFile):
            return found
        # A field that may have gaps keeps them, though the rows have none any more.
        rows = Columns(example, found.rows.arrays, len(found.rows))
        return FromFile(found.name, example, found.size, found.truth, found.summary, rows)
