"""`askance fleet`, `askance client`: one user, or a hundred thousand of her, against a server over HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.reaching import reaching
from askance_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from askance_client import Result, Server
    from askance_client.population import Population
    from askance_client.simulation.fleet import FleetShard

SCHEMA_VERSION: Final = 1
_POLL: Final = 0.2

app = typer.Typer()

ServerOption = Annotated[
    str, typer.Option("--server", envvar="ASKANCE_SERVER", metavar="URL", help="The server's URL.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
EnrolmentOption = Annotated[
    Path | None,
    typer.Option(
        "--enrolment-token",
        metavar="FILE",
        envvar="ASKANCE_ENROLMENT_TOKEN_FILE",
        help="A file with a token of somebody who may enrol.",
    ),
]
DEFAULT_SERVER: Final = "http://127.0.0.1:8080"


def token_of(path: Path | None, what: str) -> str:
    """The token in a file; none where there is no file."""
    if path is None:
        return ""
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise ProtocolError("cannot be read", where=str(path), remedy=f"name the file that holds the {what}") from None


# ------------------------------------------------------------------------------------------------------------- fleet


@app.command()
def fleet(
    users: Annotated[int, typer.Option("--users", min=1, help="How many users.")],
    server: ServerOption = DEFAULT_SERVER,
    enrolment: EnrolmentOption = None,
    wallets: Annotated[Path, typer.Option("--wallets", help="The folder that keeps their wallets.")] = Path(
        "askance-fleet"
    ),
    first: Annotated[int, typer.Option("--first", min=0, help="The first row of the population that is theirs.")] = 0,
    share: Annotated[
        str, typer.Option("--share", metavar="K/N", help="Only the K-th of N equal shares of these users.")
    ] = "1/1",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which population: its examples and its truth.")] = 1,
    data: Annotated[
        Path | None, typer.Option("--data", help="A file with a row for each user, instead of a seed.")
    ] = None,
    cap: Annotated[str, typer.Option("--cap", help="ε that each user's own wallet will ever spend.")] = "1",
    studies: Annotated[int, typer.Option("--studies", min=1, help="Take part in so many studies, then stop.")] = 1,
    processes: Annotated[int, typer.Option("--processes", min=1, max=64, help="Processes that share the users.")] = 1,
    connections: Annotated[
        int, typer.Option("--connections", min=1, max=512, help="Connections of each process.")
    ] = 32,
    rate: Annotated[float, typer.Option("--rate", min=0, help="Visits in a second; 0 for as many as can.")] = 0,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for a study to appear.")] = 600,
    as_json: JsonOption = False,
) -> None:
    """Let many users take part in the next studies of a server, each with a wallet of her own."""
    from askance_client.simulation.fleet import FleetShard, enrol_shard, shards_of  # noqa: PLC0415 - takes a while
    from askance_protocol.budget import limit_from_text  # noqa: PLC0415

    token = token_of(enrolment, "enrolment token")
    rows = share_of(range(first, first + users), share)
    whole = FleetShard(server.rstrip("/"), rows, wallets, limit_from_text(cap), token, connections, rate)
    crews = shards_of(whole, processes)
    done: list[dict[str, Any]] = []
    with reaching():
        for crew in crews:
            asyncio.run(enrol_shard(crew))
        typer.echo(f"askance: {len(rows):,} users are enrolled and wait for studies", err=True)
        for _ in range(studies):
            study = asyncio.run(_next_study(server, {each["study"] for each in done}, wait))
            done.append(_take_part(crews, study, seed, data))
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "users": len(rows), "studies": done}))
        return
    for each in done:
        counts = ", ".join(f"{name} {number:,}" for name, number in each["results"].items())
        typer.echo(f"{each['strategy']} ({each['study'][:8]}): {counts} in {each['seconds']:.1f} s")


def share_of(rows: range, share: str) -> range:
    """One of several equal shares, so that several fleets are told the same and differ in one word."""
    number, slash, shares = share.partition("/")
    digits = slash and (number + shares).isascii() and number.isdigit() and shares.isdigit()
    if not digits or not 1 <= int(number) <= int(shares) <= len(rows):
        remedy = "write it as 2/4, with no more shares than users"
        raise ProtocolError(f"{share!r} is no share of {len(rows)} users", where="--share", remedy=remedy)
    return rows[len(rows) * (int(number) - 1) // int(shares) : len(rows) * int(number) // int(shares)]


def _take_part(crews: Sequence[FleetShard], study: Mapping[str, Any], seed: int, data: Path | None) -> dict[str, Any]:
    from askance_client.simulation.fleet import run_fleet  # noqa: PLC0415 - takes a while
    from askance_lab.commands.shared.progress import ProgressBar  # noqa: PLC0415

    population = population_for(study, seed, data)
    bar = ProgressBar(study["study"]["strategy"], sum(len(crew.rows) for crew in crews))
    came = run_fleet(
        crews, study["id"], population, lambda progress: bar.at(progress.results.total(), progress.results)
    )
    bar.at(came.results.total())
    bar.end(came.results)
    return {
        "study": study["id"],
        "strategy": study["study"]["strategy"],
        "results": dict(came.results),
        "max_spent_micro_epsilon": came.spent,
        "seconds": round(bar.seconds, 3),
        **percentiles(came.latencies),
    }


def population_for(study: Mapping[str, Any], seed: int, data: Path | None) -> Population:
    """The users of a study: from a file, or made up as its strategy wants them."""
    from askance_client.simulation.population import for_strategy  # noqa: PLC0415 - takes a while
    from askance_client.tables import from_file  # noqa: PLC0415 - takes a while
    from askance_protocol.schema import Schema  # noqa: PLC0415

    spec = study["study"]
    if data is not None:
        return from_file(data, schema=Schema.model_validate_json(json.dumps(spec["example"])))
    return for_strategy(spec["strategy"], spec["parameters"], {}, seed)


async def _next_study(url: str, done: set[str], wait: float) -> Mapping[str, Any]:
    """The oldest study that takes reports and was not taken part in."""
    from askance_client import Server  # noqa: PLC0415 - takes a while
    from askance_lab.remote.study_client import unwrap  # noqa: PLC0415

    end = time.monotonic() + wait
    async with Server(url) as server:
        while time.monotonic() < end:
            for study in unwrap(await server.studies()):
                if study["state"] in {"running", "sealed"} and study["id"] not in done:
                    return study
            await asyncio.sleep(_POLL)
    raise ProtocolError(
        f"no study appeared in {wait:g} s", where="--wait", remedy="open one: askance demo --server URL"
    )


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds within which so many in a hundred were acknowledged."""
    import numpy as np  # noqa: PLC0415 - takes a while

    if not seconds:
        return {}
    shares = (50, 90, 99, 100)
    values = np.percentile(np.array(seconds) * 1000, shares).round(2).tolist()
    return {f"p{share}_milliseconds": value for share, value in zip(shares, values, strict=True)}


# ------------------------------------------------------------------------------------------------------------ client


@app.command()
def client(
    data: Annotated[Path, typer.Option("--data", help="A CSV, Parquet or NumPy file with your example in a row.")],
    row: Annotated[int, typer.Option("--row", min=1, help="Which row: 1 is the first of the data.")] = 1,
    server: ServerOption = DEFAULT_SERVER,
    study: Annotated[
        str, typer.Option("--study", help="The study's id; the one that is open, if it is not said.")
    ] = "",
    wallet: Annotated[Path, typer.Option("--wallet", help="Your wallet; it is made where there is none.")] = Path(
        "askance.wallet"
    ),
    cap: Annotated[str | None, typer.Option("--cap", help="ε that a new wallet will ever spend.")] = None,
    enrolment: EnrolmentOption = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Take part in a simulation, where gateways may speak for you.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Answer what is asked now, and do not wait for more.")] = False,
    moved: Annotated[bool, typer.Option("--moved", help="The server that knows you is found here now.")] = False,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for a study to appear.")] = 600,
    as_json: JsonOption = False,
) -> None:
    """Take part in a study as one person: your example stays in its file, your spending in your wallet."""
    if not data.exists():
        raise ProtocolError("is not there", where=str(data), remedy="name the file that holds your example")
    asked = ClientOptions(server, study, data, row, wallet, cap, enrolment, wait, simulated, once, moved)
    with reaching():
        results = asyncio.run(_one(asked))
    show(results, as_json=as_json)
    raise typer.Exit(exit_of(results))


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """What one person asks for."""

    server: str
    study: str
    data: Path
    row: int
    wallet: Path
    cap: str | None
    enrolment: Path | None
    wait: float
    simulated: bool
    once: bool
    moved: bool


async def _one(asked: ClientOptions) -> list[Result]:
    from askance_client import Server, User, Wallet, enrol  # noqa: PLC0415 - takes a while
    from askance_lab.remote.study_client import unwrap  # noqa: PLC0415
    from askance_protocol.budget import limit_from_text  # noqa: PLC0415

    wallet = Wallet.open(asked.wallet, cap=None if asked.cap is None else limit_from_text(asked.cap))
    try:
        async with Server(asked.server) as server:
            if asked.moved:
                wallet.moved(server.url)
            # First, because a round is planned over users who are there.
            unwrap(await enrol(wallet, server, token_of(asked.enrolment, "enrolment token")))
            study = await _study(server, asked)
            user = User(population_for(study, 0, asked.data).example(asked.row - 1), wallet, simulated=asked.simulated)
            part = user.take_part if asked.once else user.follow
            return await part(server, study["id"])
    finally:
        wallet.close()


async def _study(server: Server, asked: ClientOptions) -> Mapping[str, Any]:
    from askance_lab.remote.study_client import unwrap  # noqa: PLC0415 - takes a while

    if asked.study:
        return unwrap(await server.document(f"/v1/studies/{asked.study}"))
    return await _next_study(asked.server, set(), asked.wait)


def show(results: Sequence[Result], *, as_json: bool) -> None:
    """What became of a user's rounds; nothing of her answers."""
    from askance_client import Answered, Refusal, Unanswered  # noqa: PLC0415 - takes a while
    from askance_protocol.budget import to_text  # noqa: PLC0415

    rows: list[dict[str, Any]] = []
    for result in results:
        match result:
            case Answered(round=round_, charged=charged):
                rows.append(
                    {
                        "round": round_,
                        "result": "answered",
                        "micro_epsilon": charged,
                        "detail": f"ε = {to_text(charged)}",
                    }
                )
            case Unanswered(round=round_, problem=problem):
                rows.append({"round": round_, "result": "unanswered", "detail": problem})
            case Refusal(reason=reason, detail=detail, round=round_):
                rows.append({"round": round_, "result": "refused", "reason": reason.value, "detail": detail})
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "rounds": rows}, ensure_ascii=False))
        return
    for each in rows:
        why = f" {each['reason']}" if "reason" in each else ""
        typer.echo(f"round {(each['round'] or '-')[:8]}: {each['result']}{why}: {each['detail']}")
    if not rows:
        typer.echo("nothing was asked of you")


def exit_of(results: Sequence[Result]) -> int:
    """A refusal is told apart: that of her budget, and of a server that lies."""
    from askance_client import Reason, Refusal  # noqa: PLC0415 - takes a while

    reasons = Counter(result.reason for result in results if isinstance(result, Refusal))
    if reasons[Reason.BEYOND_CAP] or reasons[Reason.BEYOND_STUDY_CAP]:
        return Exit.BUDGET_REFUSED
    return Exit.CHECK_FAILED if reasons else Exit.OK
