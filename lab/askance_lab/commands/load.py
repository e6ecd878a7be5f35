"""`askance load`: so many simulated users against a server, and what it made of them.

At the end the server's tally has to be exactly what was acknowledged.
"""

from __future__ import annotations

import asyncio
import csv
import html
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from askance_lab.commands.fleet import DEFAULT_SERVER, EnrolmentOption, JsonOption, ServerOption, percentiles, token_of
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.reaching import reaching
from askance_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from askance_client import Server
    from askance_lab.remote.study_client import OpenedStudy

SCHEMA_VERSION: Final = 1
_SEED: Final = 1
_MOST_AT_ONCE: Final = 10_000_000

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent."""

    url: str
    users: int
    batch: int
    """0: singles, each a real user with a wallet."""
    rate: float
    processes: int
    connections: int
    epsilon: str
    operator: str
    enrolment: str


@dataclass(frozen=True, slots=True)
class LoadOutcome:
    """What came of it."""

    study: OpenedStudy
    verdicts: Mapping[str, int]
    latencies: Sequence[float]
    seconds: float


@app.command()
def load(
    users: Annotated[int, typer.Option("--users", min=1, help="How many users report.")],
    server: ServerOption = DEFAULT_SERVER,
    batch: Annotated[
        int,
        typer.Option("--batch", min=0, max=1_000_000, help="Reports of a gateway's batch; 0: each user by herself."),
    ] = 0,
    rate: Annotated[float, typer.Option("--rate", min=0, help="Users in a second; 0 for as many as can.")] = 0,
    processes: Annotated[int, typer.Option("--processes", min=1, max=64, help="Processes that share the users.")] = 1,
    connections: Annotated[
        int, typer.Option("--connections", min=1, max=512, help="Connections of each process.")
    ] = 32,
    epsilon: Annotated[str, typer.Option("--epsilon", help="ε of each report.")] = "1",
    operator: Annotated[
        Path,
        typer.Option(
            "--operator-token",
            metavar="FILE",
            envvar="ASKANCE_OPERATOR_TOKEN_FILE",
            help="A file with the operator's token.",
        ),
    ] = Path("askance-data/operator.token"),
    enrolment: EnrolmentOption = Path("askance-data/enrolment.token"),
    report: Annotated[
        Path | None, typer.Option("--report", help="Write what came of it to a .html or .csv file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Load a server with simulated users in a study of their own, and check its tally."""
    _check_report(report)
    tokens = token_of(operator, "operator token"), token_of(enrolment, "enrolment token")
    asked = Load(server.rstrip("/"), users, batch, rate, processes, connections, epsilon, *tokens)
    with reaching(), tempfile.TemporaryDirectory(prefix="askance-load-") as folder:
        outcome = _gateway(asked, Path(folder)) if batch else _singles(asked, Path(folder))
        tallied = asyncio.run(_tally(asked, outcome.study))
    figures = _figures(asked, outcome, tallied)
    if report is not None:
        report.write_text(_html(figures) if report.suffix == ".html" else _csv(figures), "utf-8")
    typer.echo(json.dumps(figures) if as_json else _text(figures))
    if figures["tallied"] != figures["acknowledged"]:
        typer.echo("askance: the server's tally is not what it acknowledged", err=True)
        raise typer.Exit(Exit.CHECK_FAILED)


def _check_report(report: Path | None) -> None:
    if report is not None and report.suffix not in {".html", ".csv"}:
        raise ProtocolError(
            "is neither .html nor .csv", where="--report", remedy="name a file that ends in one of them"
        )


# ----------------------------------------------------------------------------------------------------------- sending


def _singles(asked: Load, folder: Path) -> LoadOutcome:
    """Real users, each with a wallet."""
    from askance_client.simulation.fleet import FleetShard, enrol_shard, run_fleet, shards_of  # noqa: PLC0415 - takes a while
    from askance_client.simulation.population import synthetic  # noqa: PLC0415
    from askance_protocol.budget import charge_from_text  # noqa: PLC0415

    cap = charge_from_text(asked.epsilon)
    whole = FleetShard(asked.url, range(asked.users), folder, cap, asked.enrolment, asked.connections, asked.rate)
    crews = shards_of(whole, asked.processes)
    for crew in crews:
        asyncio.run(enrol_shard(crew))
    study = asyncio.run(_open(asked))
    bar = ProgressBar("load", asked.users)
    came = run_fleet(
        crews, study.id, synthetic("mean", {}, _SEED), lambda now: bar.at(now.results.total(), now.results)
    )
    bar.at(came.results.total())
    bar.end(came.results)
    verdicts = {"accepted" if name == "answered" else name: number for name, number in came.results.items()}
    return LoadOutcome(study, verdicts, came.latencies, bar.seconds)


def _gateway(asked: Load, folder: Path) -> LoadOutcome:
    """One gateway that speaks for all."""
    if asked.processes > 1 or asked.rate:
        raise ProtocolError("goes with single reports only", where="--processes, --rate", remedy="leave out --batch")
    return asyncio.run(_deliver(asked, folder))


async def _deliver(asked: Load, folder: Path) -> LoadOutcome:
    from askance_client import BulletinReader, Server  # noqa: PLC0415 - takes a while
    from askance_client.simulation.gateway import Gateway, SentBatches  # noqa: PLC0415
    from askance_client.simulation.population import synthetic  # noqa: PLC0415
    from askance_lab.remote.study_client import unwrap  # noqa: PLC0415

    async with Server(asked.url) as server:
        first = await enrol_many(server, asked.enrolment, asked.users)
    study = await _open(asked)
    async with Server(asked.url) as server:
        book, bar = SentBatches(folder / "gateway.book"), ProgressBar("load", asked.users)
        try:
            numbers = range(first, first + asked.users)
            gateway = Gateway(
                server, study.gateway_token, synthetic("mean", {}, _SEED), numbers, book, block=asked.batch
            )
            gateway.tell = lambda: bar.at(gateway.verdicts.total(), gateway.verdicts)
            watch = BulletinReader(server, study.id)
            unwrap(await watch.refresh() or ())
            unwrap(await gateway.answer(watch) or ())
        finally:
            book.close()
        bar.end(gateway.verdicts)
        return LoadOutcome(study, gateway.verdicts, gateway.latencies, bar.seconds)


async def enrol_many(server: Server, token: str, users: int) -> int:
    """Enrol users who need no tokens, since a gateway speaks for them; the first of their consecutive numbers."""
    from askance_client import Refusal  # noqa: PLC0415 - takes a while
    from askance_lab.remote.study_client import unwrap  # noqa: PLC0415

    firsts: list[int] = []
    for begin in range(0, users, _MOST_AT_ONCE):
        enrolled = unwrap(await server.enrol(token, min(_MOST_AT_ONCE, users - begin)))
        assert not isinstance(enrolled, Refusal)  # noqa: S101 - told the type checker: `said` has refused it
        firsts.append(enrolled.first)
    if firsts != list(range(firsts[0], firsts[0] + users, _MOST_AT_ONCE)):
        raise ProtocolError("others enrol at the same time", where="server", remedy="try again when they are done")
    return firsts[0]


async def _open(asked: Load) -> OpenedStudy:
    from askance_client import Server  # noqa: PLC0415 - takes a while
    from askance_lab.remote.study_client import create  # noqa: PLC0415

    async with Server(asked.url) as server:
        return await create(server, asked.operator, "mean", {"users": "all", "epsilon": asked.epsilon}, "Load")


async def _tally(asked: Load, study: OpenedStudy) -> int:
    """What the server has, once the round is closed."""
    from askance_client import Problem, Server  # noqa: PLC0415 - takes a while
    from askance_lab.remote.study_client import unwrap  # noqa: PLC0415

    async with Server(asked.url) as server:
        [round_] = unwrap(await server.document(f"/v1/studies/{study.id}"))["rounds"]
        closed = await server.command(f"/v1/rounds/{round_['id']}/close", asked.operator)
        if not (isinstance(closed, Problem) and closed.name == "round-not-open"):
            unwrap(closed)
        tallies = unwrap(await server.document(f"/v1/rounds/{round_['id']}/tally"))["tallies"]
        return sum(count for part in tallies for row in part for count in row)


# ------------------------------------------------------------------------------------------------------------ figures


def _figures(asked: Load, outcome: LoadOutcome, tallied: int) -> dict[str, Any]:
    acknowledged = outcome.verdicts.get("accepted", 0) + outcome.verdicts.get("repeated", 0)
    return {
        "schema_version": SCHEMA_VERSION,
        "server": asked.url,
        "study": outcome.study.id,
        "users": asked.users,
        "batch": asked.batch,
        "processes": asked.processes,
        "seconds": round(outcome.seconds, 3),
        "reports_per_second": round(acknowledged / outcome.seconds, 1),
        "verdicts": dict(outcome.verdicts),
        "acknowledged": acknowledged,
        "tallied": tallied,
        **percentiles(outcome.latencies),
    }


def _text(figures: Mapping[str, Any]) -> str:
    verdicts = ", ".join(f"{name} {number:,}" for name, number in figures["verdicts"].items())
    shown = " · ".join(
        f"{name.split('_')[0]} {figures[name]:g} ms" for name in figures if name.endswith("_milliseconds")
    )
    rate = f"{figures['seconds']:.1f} s: {figures['reports_per_second']:,.0f} a second"
    tallied = f"the server's tally: {figures['tallied']:,}"
    return "\n".join((f"{figures['acknowledged']:,} reports in {rate}", verdicts, shown, tallied))


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
