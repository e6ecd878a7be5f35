"""`askance load`: send a server the reports of many simulated users, and check its tally against them."""

from __future__ import annotations

import asyncio
import csv
import html
import io
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from askance_client import BulletinReader, Problem, Server
from askance_client.simulation.fleet import FleetShard, enrol_shard, run_fleet, shards_of
from askance_client.simulation.gateway import Gateway, SentBatches
from askance_client.simulation.population import synthetic
from askance_lab.commands.shared.exit_codes import Exit, say
from askance_lab.commands.shared.options import (
    DEFAULT_SERVER,
    MOST_REPORTS,
    MOST_USERS,
    ConnectionsOption,
    EnrolmentOption,
    EpsilonOption,
    JsonOption,
    OperatorOption,
    ProcessesOption,
    ServerOption,
    examples,
    read_token,
)
from askance_lab.commands.shared.participation import percentiles
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.remote.study_client import OpenedStudy, check_server, create, enrol_many, raise_refused, unwrap
from askance_protocol.budget import charge_from_text
from askance_protocol.errors import UsageError
from askance_protocol.text import counted

SCHEMA_VERSION: Final = 1
_SEED: Final = 1
_REACHED: Final = 0.9
"""Of the rate that was asked for, the part that counts as all of it."""
_BUSY: Final = 0.7
"""The part of the time for which this command computes where it is what limits the speed."""
_WHOSE: Final[Mapping[str, str]] = {
    "rate": "the rate that was asked for",
    "load": "the speed of this command, not of the server, as it computed {busy} of the time",
    "server": "the speed of the server, as this command computed {busy} of the time and else waited",
    "both": "the speed of this command and the server together, as this command computed {busy} of the time",
}

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What is sent to which server."""

    url: str
    users: int
    batch: int
    """Reports of one batch of a gateway; 0: single reports, each of a real user with a wallet."""
    rate: float
    processes: int
    connections: int
    epsilon: str
    operator: str
    enrolment: str


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """What the server answered, and how fast."""

    study: OpenedStudy
    verdicts: Mapping[str, int]
    latencies: Sequence[float]
    seconds: float
    busy: float
    """The part of this time that this command's processes computed, each on average; else they waited."""


@app.command(
    epilog=examples(
        "askance load --users 500",
        "askance load --users 1000000 --batch 100000 --report load.html",
        "askance load --users 2000 --processes 2 --rate 200 --json",
    )
)
def load(
    users: Annotated[int, typer.Option("--users", min=1, max=MOST_USERS, help="Number of simulated users who report.")],
    server: ServerOption = DEFAULT_SERVER,
    batch: Annotated[
        int,
        typer.Option(
            "--batch",
            min=0,
            max=1_000_000,
            help="Reports that a gateway sends at a time; 0: each user sends her own report.",
        ),
    ] = 0,
    rate: Annotated[
        float,
        typer.Option("--rate", min=0, max=MOST_REPORTS, help="Users that report in a second; 0: as many as possible."),
    ] = 0,
    processes: ProcessesOption = 1,
    connections: ConnectionsOption = 32,
    epsilon: EpsilonOption = "1",
    operator: OperatorOption = Path("askance-data/operator.token"),
    enrolment: EnrolmentOption = Path("askance-data/enrolment.token"),
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE", help="Also write the figures to this .html or .csv file."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Send a server the reports of simulated users in a study of their own, and check its tally.

    It ends with exit code 6 if the server's tally is not exactly what it acknowledged.
    """
    _check(report, batch, processes, rate)
    tokens = read_token(operator, "operator token"), read_token(enrolment, "enrolment token")
    options = LoadOptions(server.rstrip("/"), users, batch, rate, processes, connections, epsilon, *tokens)
    asyncio.run(check_server(options.url))
    with tempfile.TemporaryDirectory(prefix="askance-load-") as folder:
        outcome = asyncio.run(_deliver(options, Path(folder))) if batch else _singles(options, Path(folder))
        tallied = asyncio.run(_tally(options, outcome.study))
    figures = _figures(options, outcome, tallied)
    if report is not None:
        report.write_text(_html(figures) if report.suffix == ".html" else _csv(figures), "utf-8")
    typer.echo(json.dumps(figures) if as_json else _text(figures))
    if figures["tallied"] != figures["acknowledged"]:
        say("the server's tally is not what it acknowledged")
        raise typer.Exit(Exit.CHECK_FAILED)


def _check(report: Path | None, batch: int, processes: int, rate: float) -> None:
    """Refuse options that do not go together."""
    if report is not None and report.suffix not in {".html", ".csv"}:
        raise UsageError("is neither .html nor .csv", where="--report", remedy="name a file that ends in one of them")
    if batch and (processes > 1 or rate):
        raise UsageError("go with single reports only", where="--processes, --rate", remedy="leave out --batch")


# ----------------------------------------------------------------------------------------------------------- sending


def _singles(options: LoadOptions, folder: Path) -> LoadOutcome:
    """Send single reports: each user has a wallet and a connection, as a real one has."""
    cap = charge_from_text(options.epsilon)
    whole = FleetShard(
        options.url, range(options.users), folder, cap, options.enrolment, options.connections, options.rate
    )
    shards = shards_of(whole, options.processes)
    for shard in shards:
        asyncio.run(enrol_shard(shard))
    study = asyncio.run(_open(options))
    before = _computed()
    with ProgressBar("load", options.users) as bar:
        ended = run_fleet(
            shards, study.id, synthetic("mean", {}, _SEED), lambda now: bar.at(now.results.total(), now.results)
        )
        bar.at(ended.results.total())
        bar.end(ended.results)
    verdicts = {"accepted" if name == "answered" else name: number for name, number in ended.results.items()}
    busy = (_computed() - before) / bar.seconds / options.processes
    return LoadOutcome(study, verdicts, ended.latencies, bar.seconds, busy)


async def _deliver(options: LoadOptions, folder: Path) -> LoadOutcome:
    """Send batches: one gateway speaks for all users."""
    async with Server(options.url) as server:
        first = await enrol_many(server, options.enrolment, options.users)
    numbers = range(first, first + options.users)
    study = await _open(options, numbers)
    before = _computed()
    async with Server(options.url) as server:
        with ProgressBar("load", options.users) as bar:
            sent = SentBatches(folder / "gateway.book")
            try:
                population = synthetic("mean", {}, _SEED)
                gateway = Gateway(server, study.gateway_token, population, numbers, sent, block=options.batch)
                gateway.tell = lambda: bar.at(gateway.verdicts.total(), gateway.verdicts)
                watch = BulletinReader(server, study.id)
                raise_refused(await watch.refresh())
                raise_refused(await gateway.answer(watch))
            finally:
                sent.close()
            bar.at(gateway.verdicts.total())
            bar.end(gateway.verdicts)
        busy = (_computed() - before) / bar.seconds
        return LoadOutcome(study, gateway.verdicts, gateway.latencies, bar.seconds, busy)


def _computed() -> float:
    """Seconds of a processor that this process has taken, and those of its children that have ended."""
    return sum(os.times()[:4])


async def _open(options: LoadOptions, gateway: range | None = None) -> OpenedStudy:
    parameters = {"users": "all", "epsilon": options.epsilon}
    async with Server(options.url) as server:
        return await create(server, options.operator, "mean", parameters, "Load", gateway=gateway)


async def _tally(options: LoadOptions, study: OpenedStudy) -> int:
    """What the server has, once the round is closed."""
    async with Server(options.url) as server:
        [round_] = unwrap(await server.document(f"/v1/studies/{study.id}"))["rounds"]
        closed = await server.command(f"/v1/rounds/{round_['id']}/close", options.operator)
        if not (isinstance(closed, Problem) and closed.name == "round-not-open"):
            unwrap(closed)
        tallies = unwrap(await server.document(f"/v1/rounds/{round_['id']}/tally"))["tallies"]
        return sum(count for part in tallies for row in part for count in row)


# ------------------------------------------------------------------------------------------------------------ figures


def _figures(options: LoadOptions, outcome: LoadOutcome, tallied: int) -> dict[str, Any]:
    acknowledged = outcome.verdicts.get("accepted", 0) + outcome.verdicts.get("repeated", 0)
    return {
        "schema_version": SCHEMA_VERSION,
        "server": options.url,
        "study": outcome.study.id,
        "users": options.users,
        "batch": options.batch,
        "processes": options.processes,
        "seconds": round(outcome.seconds, 3),
        "reports_per_second": round(acknowledged / outcome.seconds, 1),
        "speed_of": speed_of(acknowledged / outcome.seconds, options.rate, outcome.busy, batches=options.batch > 0),
        "load_busy": round(outcome.busy, 3),
        "verdicts": dict(outcome.verdicts),
        "acknowledged": acknowledged,
        "tallied": tallied,
        **percentiles(outcome.latencies),
    }


def speed_of(speed: float, rate: float, busy: float, *, batches: bool) -> str:
    """Whose speed was measured: that which was asked for, this command's, the server's, or that of both.

    A gateway that does not compute waits for the server; single users wait for the disk of their wallets, too.
    """
    if rate and speed >= _REACHED * rate:
        return "rate"
    return "load" if busy >= _BUSY else "server" if batches and busy <= 1 - _BUSY else "both"


def _text(figures: Mapping[str, Any]) -> str:
    verdicts = ", ".join(f"{name} {number:,}" for name, number in figures["verdicts"].items())
    shown = " · ".join(
        f"{name.split('_')[0]} {figures[name]:g} ms" for name in figures if name.endswith("_milliseconds")
    )
    whose = _WHOSE[figures["speed_of"]].format(busy=f"{min(100 * figures['load_busy'], 100):.0f} %")
    rate = f"{figures['seconds']:.1f} s: {whose}, {figures['reports_per_second']:,.0f} a second"
    tallied = f"the server's tally: {figures['tallied']:,}"
    return "\n".join((f"{counted(figures['acknowledged'], 'report')} in {rate}", verdicts, shown, tallied))


def _csv(figures: Mapping[str, Any]) -> str:
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["figure", "value"])
    rows.writerows(_flat(figures))
    return out.getvalue()


def _html(figures: Mapping[str, Any]) -> str:
    rows = "".join(f"<tr><th>{html.escape(name)}<td>{html.escape(str(value))}" for name, value in _flat(figures))
    style = "body{font:1rem system-ui;margin:2rem auto;max-width:40rem}th{text-align:left;padding-right:2rem}"
    head = f"<meta charset=utf-8><title>Askance: load</title><style>{style}</style>"
    return f"<!doctype html><html lang=en>{head}<h1>Load</h1><table>{rows}</table></html>\n"


def _flat(figures: Mapping[str, Any]) -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for name, value in figures.items():
        inner = cast("Mapping[str, Any]", value) if isinstance(value, dict) else None
        flat += [(name, value)] if inner is None else [(f"{name}.{each}", inner[each]) for each in inner]
    return flat
