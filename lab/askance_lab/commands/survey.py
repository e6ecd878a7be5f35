"""`askance survey`: many questions about mixed columns, answered in a table: `askance run survey`, in short."""

from __future__ import annotations

from typing import Annotated

import typer

from askance_lab.commands.run import run
from askance_lab.commands.shared.options import (
    MOST_USERS,
    AskOption,
    DataOption,
    EnrolmentOption,
    EpsilonOption,
    JsonOption,
    OperatorOption,
    PopulationOption,
    SchemaOption,
    examples,
)
from askance_lab.commands.shared.table_options import ColumnOption, HighOption, LowOption, MissingOption
from askance_protocol.errors import UsageError

app = typer.Typer()


@app.command(
    epilog=examples(
        'askance survey --ask "mean(minutes, 0, 120)" --ask "share(country)" --users 20000',
        "askance survey --ask \"share(plan = 'pro' and minutes > 30)\" --data app.csv --schema app.json",
        'askance survey --ask "histogram(version)" --users 20000 --simultaneous --json',
    )
)
def survey(
    ask: AskOption = None,
    users: Annotated[
        int | None,
        typer.Option("--users", min=1, max=MOST_USERS, help="Number of users to ask.  [default with --data: all rows]"),
    ] = None,
    epsilon: EpsilonOption = "1",
    width: Annotated[
        str | None,
        typer.Option(
            "--width", help="Width that the intervals should have, of a mean as a part of its range.  [default: 0.1]"
        ),
    ] = None,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Let all intervals of the table hold at once, not each for itself.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of simulated users and of noise, as in askance run."),
    ] = None,
    oracle: Annotated[
        str | None, typer.Option("--oracle", metavar="NAME", help="Who answers, as in askance run.  [default: local]")
    ] = None,
    population: PopulationOption = None,
    data: DataOption = None,
    schema: SchemaOption = None,
    column: ColumnOption = None,
    low: LowOption = None,
    high: HighOption = None,
    missing: MissingOption = None,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="Server on which the survey runs; it is asked over HTTP."),
    ] = None,
    operator: OperatorOption = None,
    enrolment: EnrolmentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask many questions at once; each user answers one, with ε. The answer is a table with intervals at 95 %."""
    if not ask:
        remedy = 'ask --ask "mean(minutes, 0, 120)", --ask "share(country)" or --ask "histogram(version)"'
        raise UsageError("is missing", where="--ask", remedy=remedy)
    more = [*([] if width is None else [f"width={width}"]), *(["simultaneous=true"] if simultaneous else [])]
    run(
        "survey",
        users=users,
        epsilon=epsilon,
        ask=ask,
        more=more,
        seed=seed,
        oracle=oracle,
        population=population,
        data=data,
        schema=schema,
        column=column,
        low=low,
        high=high,
        missing=missing,
        server=server,
        operator=operator,
        enrolment=enrolment,
        as_json=as_json,
    )
