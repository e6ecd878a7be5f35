"""`askance fleet`: many users, each with a wallet of her own, take part in a server's studies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from askance_client.population import Population
from askance_client.simulation.fleet import FleetProgress, FleetShard, enrol_shard, run_fleet, shards_of
from askance_lab.commands.shared.exit_codes import Exit, say
from askance_lab.commands.shared.options import (
    DEFAULT_SERVER,
    ConnectionsOption,
    DataOption,
    EnrolmentOption,
    JsonOption,
    ProcessesOption,
    ServerOption,
    examples,
    read_token,
)
from askance_lab.commands.shared.participation import (
    PauseTeller,
    next_study,
    percentiles,
    population_for,
    published_study,
    told_ending_of,
)
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.table_options import (
    ColumnOption,
    DeclaredOption,
    HighOption,
    LowOption,
    MissingOption,
    TableOptions,
)
from askance_protocol.budget import limit_from_text
from askance_protocol.errors import UsageError
from askance_protocol.rounds import StudySpec
from askance_protocol.text import printable, quoted

SCHEMA_VERSION: Final = 1

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance fleet --users 1000 --enrolment-token askance-data/enrolment.token",
        "askance fleet --users 100000 --share 2/4 --studies 2 --processes 4",
        "askance fleet --users 500 --data people.csv --schema fields.json --column minutes --cap 2 --json",
    )
)
def fleet(
    users: Annotated[int, typer.Option("--users", min=1, help="Number of users to run.")],
    server: ServerOption = DEFAULT_SERVER,
    enrolment: EnrolmentOption = None,
    wallets: Annotated[
        Path, typer.Option("--wallets", metavar="DIR", help="Directory that keeps the users' wallets between runs.")
    ] = Path("askance-fleet"),
    first: Annotated[
        int, typer.Option("--first", min=0, help="Row of the population at which these users begin, counted from 0.")
    ] = 0,
    share: Annotated[
        str,
        typer.Option("--share", metavar="K/N", help="Run only the K-th of N equal shares of these users."),
    ] = "1/1",
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the simulated population: its examples and its truth.")
    ] = 1,
    data: DataOption = None,
    schema: DeclaredOption = None,
    column: ColumnOption = None,
    low: LowOption = None,
    high: HighOption = None,
    missing: MissingOption = None,
    cap: Annotated[str, typer.Option("--cap", help="ε that each user's own wallet will ever spend.")] = "1",
    studies: Annotated[
        int, typer.Option("--studies", min=1, help="Number of studies to take part in, before it stops.")
    ] = 1,
    processes: ProcessesOption = 1,
    connections: ConnectionsOption = 32,
    rate: Annotated[
        float, typer.Option("--rate", min=0, help="Users that visit the server in a second; 0: as many as possible.")
    ] = 0,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for a study to appear.")] = 600,
    as_json: JsonOption = False,
) -> None:
    """Let many users take part in the next studies of a server, each with a wallet of her own.

    They are made up and take part in simulated studies only; with --data they are yours, and --schema says what a
    study may ask of their rows.

    Run it again after an interruption: the same wallets send the same reports, and nobody spends twice.

    Exit code 6 means that a study has failed or was cancelled, 7 that it had too few users.
    """
    token = read_token(enrolment, "enrolment token")
    table = TableOptions.of(data, schema, column, low, high, missing)
    table.check_table()
    table.check_present()
    declared = table.declared()
    rows = share_of(range(first, first + users), share)
    whole = FleetShard(
        server.rstrip("/"), rows, wallets, limit_from_text(cap), token, connections, rate, simulated=data is None
    )
    shards = shards_of(whole, processes)
    done, code = list[dict[str, Any]](), Exit.OK
    for shard in shards:
        asyncio.run(enrol_shard(shard))
    say(f"{len(rows):,} users are enrolled and wait for studies")
    for _ in range(studies):
        name = asyncio.run(next_study(server, {each["study"] for each in done}, wait))
        study = asyncio.run(published_study(server, name))
        say(asked_of(study))
        done.append(_take_part(shards, study, population_for(study, seed, table, declared)))
        code = code or asyncio.run(told_ending_of(server, name))
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "users": len(rows), "studies": done}))
    else:
        for each in done:
            counts = ", ".join(f"{name} {number:,}" for name, number in each["results"].items())
            typer.echo(f"{each['strategy']} ({each['study'][:8]}): {counts} in {each['seconds']:.1f} s")
    raise typer.Exit(code)


def share_of(rows: range, share: str) -> range:
    """The K-th of N equal shares, so that several fleets are told the same and differ in one word."""
    number, slash, shares = share.partition("/")
    digits = slash and (number + shares).isascii() and number.isdigit() and shares.isdigit()
    if not digits or not 1 <= int(number) <= int(shares) <= len(rows):
        remedy = "write it as 2/4, with no more shares than users"
        raise UsageError(f"{quoted(share)} is no share of {len(rows)} users", where="--share", remedy=remedy)
    return rows[len(rows) * (int(number) - 1) // int(shares) : len(rows) * int(number) // int(shares)]


def asked_of(study: StudySpec) -> str:
    """What a study asks about: users who are somebody's rows have no other way to read it."""
    fields = ", ".join(field.name for field in study.example.fields)
    return f"study {study.digest()[:8]} ({printable(study.title)}) asks about {fields}"


def _take_part(shards: Sequence[FleetShard], study: StudySpec, population: Population) -> dict[str, Any]:
    name = study.digest()
    with ProgressBar(study.strategy, sum(len(shard.rows) for shard in shards)) as bar:
        paused = PauseTeller()

        def tell(progress: FleetProgress) -> None:
            bar.at(progress.results.total(), progress.results)
            paused(progress.paused)

        ended = run_fleet(shards, name, population, tell)
        bar.at(ended.results.total())
        bar.end(ended.results)
    return {
        "study": name,
        "strategy": study.strategy,
        "results": dict(ended.results),
        "max_spent_micro_epsilon": ended.spent,
        "seconds": round(bar.seconds, 3),
        **percentiles(ended.latencies),
    }
