"""`askance schema`: what the columns of a table hold, as a document to be edited and declared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from askance_client.tables import infer_schema, own_names, written_schema
from askance_lab.commands.shared.options import JsonOption, LabelOption, examples
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.table_options import (
    ColumnOption,
    HighOption,
    LowOption,
    MissingOption,
    TableOptions,
)
from askance_protocol.errors import DataError
from askance_protocol.text import quoted

SCHEMA_VERSION: Final = 1
OUTSIDE: Final = "inferred from the rows, so no ε covers what it says: edit it to what is publicly known"

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance schema people.csv --out people.json",
        "askance schema people.csv --column minutes --low 0 --high 120",
        "askance schema people.parquet --label ill --json",
    )
)
def schema(
    data: Annotated[Path, typer.Argument(metavar="FILE", help="CSV, Parquet or NumPy file with a row for each user.")],
    column: ColumnOption = None,
    low: LowOption = None,
    high: HighOption = None,
    missing: MissingOption = None,
    label: LabelOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to write to.  [default: standard output]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Infer a schema: for each column its kind, range or categories, and whether it has gaps.

    Edit it, and declare it by --schema. What is inferred from private rows tells about them: bounds and categories
    are those of the rows that are there. Columns that no field can hold are left out, each with the reason.
    """
    table = TableOptions.of(data, None, column, low, high, missing, label)
    with ProgressBar("reading", quiet=True) as bar:
        found = infer_schema(data, label=label, columns=table.columns, repairs=table.repairs, tell=bar.tell)
    text = written_schema(found.schema)
    if out is not None:
        _write(out, text)
    if as_json:
        fields = found.schema.to_json()["fields"]
        left_out = [{"column": number, "reason": reason} for number, reason in found.left_out.items()]
        answer = {"schema_version": SCHEMA_VERSION, "fields": fields, "left_out": left_out, "not_private": [OUTSIDE]}
        typer.echo(json.dumps(answer, ensure_ascii=False))
    elif out is None:
        typer.echo(text, nl=False)
    for name, own in own_names(data).items():
        typer.echo(f"askance: column {quoted(own)} is called {name} here", err=True)
    for number, reason in found.left_out.items():
        typer.echo(f"askance: column {number} is left out: it {reason}", err=True)
    typer.echo(f"askance: {OUTSIDE}", err=True)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = (error.strerror or "it seems impossible").lower()
        raise DataError(f"cannot be written: {reason}", where=str(path), remedy="name another file: --out") from None
