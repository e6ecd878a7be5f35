"""`askance fleet`: many users, each with a wallet of her own, take part in a server's studies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from askance_client import BulletinReader, History, Server, StudyNews
from askance_client.population import Population
from askance_client.simulation.fleet import FleetProgress, FleetShard, enrol_shard, late_of, run_fleet, shards_of
from askance_client.tables import column_names, count_rows
from askance_lab.commands.shared.exit_codes import Exit, say
from askance_lab.commands.shared.options import (
    A_YEAR,
    DEFAULT_SERVER,
    MOST_REPORTS,
    MOST_RUNS,
    MOST_USERS,
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
    NewsTeller,
    StudyOverThereError,
    close_command,
    next_study,
    percentiles,
    population_for,
    published_history,
    running_study,
    told_ending_of,
    typed_again,
    whole_name,
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
from askance_lab.remote.study_client import raise_refused
from askance_protocol.budget import limit_from_text
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import DataError, UsageError
from askance_protocol.rounds import ENDED, StudySpec
from askance_protocol.schema import Schema
from askance_protocol.text import counted, printable, quoted
from askance_server.auth import TokenFiles

SCHEMA_VERSION: Final = 1

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance fleet --users 1000 --enrolment-token askance-data/enrolment.token",
        "askance fleet --users 100000 --share 2/4 --processes 4 --study 1f2e3d4c",
        "askance fleet --users 500 --data people.csv --schema fields.json --column minutes --cap 2 --json",
    )
)
def fleet(
    users: Annotated[int, typer.Option("--users", min=1, max=MOST_USERS, help="Number of users to run.")],
    server: ServerOption = DEFAULT_SERVER,
    enrolment: EnrolmentOption = None,
    wallets: Annotated[
        Path, typer.Option("--wallets", metavar="DIR", help="Directory that keeps the users' wallets between runs.")
    ] = Path("askance-fleet"),
    first: Annotated[
        int,
        typer.Option(
            "--first", min=0, max=MOST_USERS, help="Row of the population at which these users begin, counted from 0."
        ),
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
    study: Annotated[
        list[str] | None,
        typer.Option(
            "--study", metavar="ID", help="Study to take part in, by the first digits of its id. May be given again."
        ),
    ] = None,
    studies: Annotated[
        int | None,
        typer.Option(
            "--studies", min=1, max=MOST_RUNS, help="Number of studies to take part in, before it stops.  [default: 1]"
        ),
    ] = None,
    processes: ProcessesOption = 1,
    connections: ConnectionsOption = 32,
    rate: Annotated[
        float,
        typer.Option(
            "--rate", min=0, max=MOST_REPORTS, help="Users that visit the server in a second; 0: as many as possible."
        ),
    ] = 0,
    wait: Annotated[
        float, typer.Option("--wait", min=0, max=A_YEAR, help="Seconds to wait for a study to appear.")
    ] = 600,
    as_json: JsonOption = False,
) -> None:
    """Let many users take part in the next studies of a server, each with a wallet of her own.

    They are made up and take part in simulated studies only; with --data they are yours, and --schema says what a
    study may ask of their rows.

    A study that runs already has to fit them before anybody is enrolled. Run it again after an interruption: the same
    wallets send the same reports, and nobody enrols or spends twice.

    Exit code 6 means that a study has failed or was cancelled, 7 that it had too few users.
    """
    if study and studies:
        remedy = "name the studies, or give their number"
        raise UsageError("exclude each other", where="--study, --studies", remedy=remedy)
    token = read_token(enrolment, "enrolment token")
    table = TableOptions.of(data, schema, column, low, high, missing)
    table.check_table()
    table.check_present()
    declared = table.declared()
    rows = share_of(range(first, first + users), share)
    whole = FleetShard(
        server.rstrip("/"), rows, wallets, limit_from_text(cap), token, connections, rate, simulated=data is None
    )
    source = _Source(table, declared, seed, rows)
    try:
        # Before anybody is enrolled: whom a study cannot ask would be waited for by every round of all users.
        named = asyncio.run(_first_look(server, study or [], source))
        shards = shards_of(whole, processes)
        for shard in shards:
            asyncio.run(enrol_shard(shard))
        say(f"{counted(len(rows), 'user')} {'is' if len(rows) == 1 else 'are'} enrolled")
        done, code = list[dict[str, Any]](), Exit.OK
        for number in range(len(named) or studies or 1):
            seen = {each["study"] for each in done}
            name = named[number] if named else asyncio.run(next_study(server, seen, wait))
            done.append(_take_part(shards, name, source, _closing(server, name, enrolment)))
            code = code or asyncio.run(told_ending_of(server, name))
    except KeyboardInterrupt:
        say(f"stopped; the same wallets go on with what they have drawn: {typed_again()}")
        raise
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "users": len(rows), "studies": done}))
    else:
        for each in done:
            counts = ", ".join(f"{name} {number:,}" for name, number in each["results"].items()) or "nobody was asked"
            typer.echo(f"{each['strategy']} ({each['study'][:8]}): {counts} in {each['seconds']:.1f} s")
    raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the examples of these users come from."""

    table: TableOptions
    declared: Schema | None
    seed: int
    rows: range

    def population(self, history: History) -> Population:
        """These users as a study asks for them; an error if it cannot ask them."""
        study, name = history.study, f"study {history.id[:8]}"
        if self.table.data is None and not study.simulated:
            remedy = "give the people's rows with --data FILE, or open a study with --simulated"
            raise UsageError("asks people, and these users are made up", where=name, remedy=remedy)
        population = population_for(study, self.seed, self.table, self.declared)
        self._check_number(MAX_USER if population.size is None else population.size)
        return population

    def check(self) -> None:
        """Check what can be known of a table as long as nobody asks about it: its columns' names, and its rows."""
        if self.table.data is not None:
            found = set(column_names(self.table.data))
            asked = self.table.columns or (() if self.declared is None else self.declared.position)
            if missing := [name for name in asked if name not in found]:
                where, remedy = str(self.table.data), "name columns as the first row of the file does"
                raise DataError(f"has no column {quoted(missing[0])}", where=where, remedy=remedy)
            with ProgressBar("reading", quiet=True) as bar:
                there = count_rows(self.table.data, bar.tell)
            self._check_number(there)

    def _check_number(self, there: int) -> None:
        if self.rows.stop > there:
            where = "users" if self.table.data is None else str(self.table.data)
            what = f"row {self.rows.stop:,} is to take part, and it has {there:,}"
            remedy = "give fewer --users, or a smaller --first"
            raise UsageError(what, where=where, remedy=remedy)


async def _first_look(url: str, named: Sequence[str], source: _Source) -> list[str]:
    """The ids of the studies that were named. They, or the one that runs now, have to fit these users."""
    async with Server(url) as server:
        await server.check()
        names = [await whole_name(server, name) for name in named]
        first = names or [each for each in [await running_study(server, frozenset())] if each is not None]
    for name in first:
        history = await published_history(url, name)
        if names and history.bulletin.state in ENDED:
            what, remedy = f"has ended: it is {history.bulletin.state.value}", f"askance study result {name[:8]}"
            raise StudyOverThereError(what, where=f"study {name[:8]}", remedy=remedy)
        source.population(history)
    if not first:
        source.check()
    return names


def _closing(server: str, study: str, enrolment: Path | None) -> str:
    """How an open round of this study is closed by who has its operator's token, in a file beside that of enrolment."""
    beside = None if enrolment is None else TokenFiles.of(enrolment.parent).operator
    operator = beside if beside is not None and beside.exists() else None
    return f"to close it now: {close_command(server, study, operator)}"


def share_of(rows: range, share: str) -> range:
    """The K-th of N equal shares, so that several fleets are told the same and differ in one word."""
    number, slash, shares = share.partition("/")
    digits = slash and (number + shares).isascii() and number.isdigit() and shares.isdigit()
    if not digits or not 1 <= int(number) <= int(shares) <= len(rows):
        remedy = "write it as 2/4, with no more shares than users"
        raise UsageError(f"{quoted(share)} is no share of {counted(len(rows), 'user')}", where="--share", remedy=remedy)
    return rows[len(rows) * (int(number) - 1) // int(shares) : len(rows) * int(number) // int(shares)]


def asked_of(study: StudySpec) -> str:
    """What a study asks about: users who are somebody's rows have no other way to read it."""
    fields = ", ".join(field.name for field in study.example.fields)
    return f"study {study.digest()[:8]} ({printable(study.title)}) asks about {fields}"


def _take_part(shards: Sequence[FleetShard], name: str, source: _Source, closing: str) -> dict[str, Any]:
    url = shards[0].url
    before = asyncio.run(published_history(url, name))
    population, study, news = source.population(before), before.study, NewsTeller(closing)
    say(asked_of(study))
    late = late_of(shards, before)
    news(StudyNews(over=before.bulletin.state.value if before.bulletin.state in ENDED else "", late=late))
    with ProgressBar(study.strategy, sum(len(shard.rows) for shard in shards)) as bar:

        def tell(progress: FleetProgress) -> None:
            bar.at(progress.results.total(), progress.results)
            news(replace(progress.news, late=late))

        ended = run_fleet(shards, name, population, tell)
        bar.at(ended.results.total())
        bar.end(ended.results)
    after, there = asyncio.run(_last_look(url, name))
    late = late_of(shards, after)
    news(replace(there, late=late))
    return {
        "study": name,
        "strategy": study.strategy,
        "results": dict(ended.results),
        "late": [{"round": each.number, "opened": each.opened, "closed": each.closed} for each in late],
        "max_spent_micro_epsilon": ended.spent,
        "seconds": round(bar.seconds, 3),
        **percentiles(ended.latencies),
    }


async def _last_look(url: str, name: str) -> tuple[History, StudyNews]:
    """The study as it stands when these users are through, and what it waits for."""
    async with Server(url) as server:
        reader = BulletinReader(server, name)
        raise_refused(await reader.refresh())
        return reader.history, StudyNews() if reader.ended else await reader.news()
