"""`askance client`: take part in a study as one person, with an example from your file and a wallet of your own."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from askance_client import Answered, Reason, Refusal, Result, Server, Unanswered, User, Wallet, enrol
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.options import (
    DEFAULT_SERVER,
    EnrolmentOption,
    JsonOption,
    ServerOption,
    examples,
    read_token,
)
from askance_lab.commands.shared.participation import next_study, population_for
from askance_lab.remote.study_client import unwrap
from askance_protocol.budget import limit_from_text, to_text
from askance_protocol.errors import DataError, UsageError

SCHEMA_VERSION: Final = 1

app = typer.Typer()


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


@app.command(
    epilog=examples(
        "askance client --data me.csv --cap 1 --enrolment-token askance-data/enrolment.token",
        "askance client --data people.csv --row 3 --wallet third.wallet --cap 1",
        "askance client --data me.csv --server http://127.0.0.1:9000 --once --json",
    )
)
def client(
    data: Annotated[
        Path, typer.Option("--data", metavar="FILE", help="CSV, Parquet or NumPy file that has your example in a row.")
    ],
    row: Annotated[int, typer.Option("--row", min=1, help="Row of the file that is yours; 1 is the first.")] = 1,
    server: ServerOption = DEFAULT_SERVER,
    study: Annotated[
        str, typer.Option("--study", metavar="ID", help="Study to take part in.  [default: the next one that is open]")
    ] = "",
    wallet: Annotated[
        Path, typer.Option("--wallet", metavar="FILE", help="Your wallet; it is made if there is none.")
    ] = Path("askance.wallet"),
    cap: Annotated[
        str | None, typer.Option("--cap", help="ε that a new wallet will ever spend; an old one has its cap already.")
    ] = None,
    enrolment: EnrolmentOption = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Take part in simulations too, where gateways may answer for you.")
    ] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Answer what is asked now and stop, instead of waiting for more rounds.")
    ] = False,
    moved: Annotated[
        bool, typer.Option("--moved", help="Let the wallet accept that its server is now found at --server.")
    ] = False,
    wait: Annotated[float, typer.Option("--wait", min=0, help="Seconds to wait for a study to appear.")] = 600,
    as_json: JsonOption = False,
) -> None:
    """Take part in a study as one person: your example stays in its file, your spending in your wallet.

    Exit code 5 means that a round asked for more than your budget, 6 that the server did not play by the rules.
    """
    if not data.exists():
        raise DataError("is not there", where=str(data), remedy="name the file that holds your example: --data FILE")
    if cap is None and not wallet.exists():
        raise UsageError("is new and has no cap", where=str(wallet), remedy="say what it may ever spend: --cap 1")
    results = asyncio.run(
        _take_part(ClientOptions(server, study, data, row, wallet, cap, enrolment, wait, simulated, once, moved))
    )
    echo_results(results, as_json=as_json)
    raise typer.Exit(exit_of(results))


async def _take_part(options: ClientOptions) -> list[Result]:
    wallet = Wallet.open(options.wallet, cap=None if options.cap is None else limit_from_text(options.cap))
    try:
        async with Server(options.server) as server:
            if options.moved:
                wallet.moved(server.url)
            # First, because a round is planned over users who are there.
            unwrap(await enrol(wallet, server, read_token(options.enrolment, "enrolment token")))
            study = await _study(server, options)
            user = User(
                population_for(study, 0, options.data).example(options.row - 1), wallet, simulated=options.simulated
            )
            part = user.take_part if options.once else user.follow
            return await part(server, study["id"])
    finally:
        wallet.close()


async def _study(server: Server, options: ClientOptions) -> Mapping[str, Any]:
    if options.study:
        return unwrap(await server.document(f"/v1/studies/{options.study}"))
    return await next_study(options.server, set(), options.wait)


def echo_results(results: Sequence[Result], *, as_json: bool) -> None:
    """Print the result of each of a user's rounds, and nothing of her answers."""
    rows = [_row(result) for result in results]
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "rounds": rows}, ensure_ascii=False))
        return
    for each in rows:
        why = f" {each['reason']}" if "reason" in each else ""
        typer.echo(f"round {(each['round'] or '-')[:8]}: {each['result']}{why}: {each['detail']}")
    if not rows:
        typer.echo("nothing was asked of you")


def _row(result: Result) -> dict[str, Any]:
    match result:
        case Answered(round=round_, charged=charged):
            detail = f"ε = {to_text(charged)}"
            return {"round": round_, "result": "answered", "micro_epsilon": charged, "detail": detail}
        case Unanswered(round=round_, problem=problem):
            return {"round": round_, "result": "unanswered", "detail": problem}
        case Refusal(reason=reason, detail=detail, round=round_):
            return {"round": round_, "result": "refused", "reason": reason.value, "detail": detail}


def exit_of(results: Sequence[Result]) -> Exit:
    """The exit code: a refusal for her budget is told apart from one for a server that lies."""
    reasons = Counter(result.reason for result in results if isinstance(result, Refusal))
    if reasons[Reason.BEYOND_CAP] or reasons[Reason.BEYOND_STUDY_CAP]:
        return Exit.BUDGET_REFUSED
    return Exit.CHECK_FAILED if reasons else Exit.OK
