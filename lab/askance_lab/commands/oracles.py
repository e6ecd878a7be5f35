"""`askance oracles`: every strategy against every oracle, on small examples, as a table."""

from __future__ import annotations

import json
from typing import Annotated, Final

import typer

from askance_lab.commands.fleet import JsonOption

SCHEMA_VERSION: Final = 1


def oracles(
    users: Annotated[int, typer.Option("--users", min=1, help="How many users each run asks.")] = 200_000,
    epsilon: Annotated[str, typer.Option("--epsilon", help="ε of each report.")] = "1",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which populations, and which noise.")] = 1,
    over_http: Annotated[bool, typer.Option("--http", help="Over HTTP, too: a server for each strategy.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run every strategy against every oracle on small examples, and print the table of what was learned."""
    from askance_lab.experiments.oracle_table import COLUMNS, rows  # noqa: PLC0415 - takes a while

    columns = [name for name in COLUMNS if over_http or name != "http"]
    table = dict(rows(columns, epsilon, users, seed))
    if as_json:
        said = {name: {column: row[column].to_json() for column in columns} for name, row in table.items()}
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "users": users, "epsilon": epsilon, "rows": said}))
        return
    typer.echo(f"| strategy | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name, row in table.items():
        typer.echo(f"| {name} | {' | '.join(str(row[column]) for column in columns)} |")
