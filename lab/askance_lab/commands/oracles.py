"""`askance oracles`: every strategy against every oracle, on small examples, as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from askance_lab.commands.shared.options import MOST_USERS, EpsilonOption, JsonOption, SeedOption, examples
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.tables import echo_table
from askance_lab.experiments.oracle_table import COLUMNS, TableEntry, rows
from askance_protocol.budget import charge_from_text
from askance_server.strategies.registry import registry

SCHEMA_VERSION: Final = 1

app = typer.Typer()


@app.command(
    epilog=examples("askance oracles", "askance oracles --users 20000 --epsilon 0.5", "askance oracles --http --json")
)
def oracles(
    users: Annotated[
        int, typer.Option("--users", min=1, max=MOST_USERS, help="Number of users that each run asks.")
    ] = 200_000,
    epsilon: EpsilonOption = "1",
    seed: SeedOption = 1,
    over_http: Annotated[
        bool, typer.Option("--http", help="Add the column of runs over HTTP: a server is started for each strategy.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run every strategy against every oracle on small examples, and print the table of what was learned."""
    charge_from_text(epsilon)  # otherwise every cell of the table would refuse it
    columns = [name for name in COLUMNS if over_http or name != "http"]
    table: dict[str, dict[str, TableEntry]] = {}
    with ProgressBar("strategies", len(registry()), quiet=True) as bar:
        bar.at(0)
        for name, row in rows(columns, epsilon, users, seed):
            table[name] = row
            bar.at(len(table))
    if as_json:
        said = {name: {column: row[column].to_json() for column in columns} for name, row in table.items()}
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "users": users, "epsilon": epsilon, "rows": said}))
        return
    cells = [[name, *(str(row[column]) for column in columns)] for name, row in table.items()]
    head = ["strategy", *columns]
    rule = f"|{'---|' * len(head)}"
    echo_table("\n".join([_line(head), rule, *map(_line, cells)]), head, cells)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
