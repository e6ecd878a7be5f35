"""`askance run`: one strategy, from its first round to what it learned."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from askance_lab.exits import Exit
from askance_lab.fleet_command import EnrolmentOption, JsonOption, token_of
from askance_lab.local_server import LocalServer, local_server
from askance_lab.reaching import reaching
from askance_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from askance_client.population import Population
    from askance_lab.operator import End, Study

SCHEMA_VERSION: Final = 1
_POLL: Final = 0.02
_TOO_FEW: Final = ("users who can still pay", "parts had none")
"""How the reasons of the driver read where more users would have helped."""

app = typer.Typer()


class OracleName(StrEnum):
    """Who answers a strategy's queries."""

    HTTP = "http"


@dataclass(frozen=True, slots=True)
class Run:
    """What is asked for."""

    strategy: str
    d: int | None
    epsilon: str
    users: int
    seed: int
    eta: str | None
    tolerance: str | None

    def parameters(self) -> dict[str, int | bool | str]:
        """As the study says them."""
        said: dict[str, int | bool | str] = {"users": "all", "epsilon": self.epsilon}
        said |= {"d": self.d} if self.d is not None else {}
        return said | ({"tolerance": self.tolerance} if self.tolerance is not None else {})

    def population(self) -> Population:
        """Whom it is learned from."""
        from askance_client.population import for_strategy  # noqa: PLC0415 - takes a while

        own: dict[str, int | bool | str] = {"eta": self.eta} if self.eta is not None else {}
        return for_strategy(self.strategy, self.parameters(), own, self.seed)


@app.command()
def run(
    strategy: Annotated[str, typer.Argument(help="Which strategy: mean, conjunction, masked-parity, …")],
    users: Annotated[int, typer.Option("--users", min=1, help="How many users are asked.")],
    d: Annotated[int | None, typer.Option("--d", min=1, help="The dimension of the examples.")] = None,
    epsilon: Annotated[str, typer.Option("--epsilon", help="ε of each report.")] = "1",
    eta: Annotated[str | None, typer.Option("--eta", help="The share of labels that are wrong.")] = None,
    tolerance: Annotated[str | None, typer.Option("--tolerance", help="What the strategy's queries tolerate.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which population, and which noise.")] = 1,
    oracle: Annotated[OracleName, typer.Option("--oracle", help="Who answers the queries.")] = OracleName.HTTP,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", help="A server that runs; one of its own, if it is not said."),
    ] = None,
    operator: Annotated[
        Path | None,
        typer.Option(
            "--operator-token", metavar="FILE", envvar="ASKANCE_OPERATOR_TOKEN_FILE", help="Goes with --server."
        ),
    ] = None,
    enrolment: EnrolmentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a strategy over simulated users and say what it learned, and how wrong that is."""
    asked = Run(strategy, d, epsilon, users, seed, eta, tolerance)
    begin = time.perf_counter()
    with (
        reaching(),
        tempfile.TemporaryDirectory(prefix="askance-run-") as folder,
        _server(asked, server, operator, enrolment, Path(folder)) as found,
    ):
        end = asyncio.run(_http(asked, found, Path(folder)))
    said = answer(asked, end, time.perf_counter() - begin)
    typer.echo(json.dumps({**said, "oracle": oracle.value}) if as_json else _text(said, end))
    if end.state.value != "finished":
        raise typer.Exit(Exit.TOO_FEW_USERS if any(why in end.reason for why in _TOO_FEW) else Exit.CHECK_FAILED)


def _server(
    asked: Run, url: str | None, operator: Path | None, enrolment: Path | None, folder: Path
) -> AbstractContextManager[LocalServer]:
    if url is None:
        return local_server(folder / "server", asked.epsilon)
    if operator is None or enrolment is None:
        raise ProtocolError(
            "needs tokens",
            where="--server",
            remedy="give --operator-token FILE and --enrolment-token FILE, of its data directory",
        )
    tokens = token_of(operator, "operator token"), token_of(enrolment, "enrolment token")
    return nullcontext(LocalServer(url.rstrip("/"), folder, *tokens))


async def _http(asked: Run, found: LocalServer, folder: Path) -> End:
    """Over a server: users enrol, the study opens, and a gateway speaks for all of them."""
    from askance_client import Server  # noqa: PLC0415 - takes a while
    from askance_lab.load_command import enrol_many  # noqa: PLC0415
    from askance_lab.operator import create  # noqa: PLC0415

    population = asked.population()
    async with Server(found.url) as server:
        first = await enrol_many(server, found.enrolment, asked.users)
        title = f"{asked.strategy}, {asked.users} users"
        study = await create(server, found.operator, asked.strategy, asked.parameters(), title)
        return await _speak(server, study, population, range(first, first + asked.users), asked.seed, folder)


async def _speak(server: Any, study: Study, population: Population, numbers: range, seed: int, folder: Path) -> End:
    from askance_client import Watch  # noqa: PLC0415 - takes a while
    from askance_client.gateway import Book, Gateway  # noqa: PLC0415
    from askance_lab.operator import ended, said  # noqa: PLC0415

    watch, book = Watch(server, study.id), Book(folder / "gateway.book")
    try:
        gateway = Gateway(server, study.gateway_token, population, numbers, book, seed)
        while not watch.ended:
            said(await watch.refresh() or ())
            said(await gateway.answer(watch) or ())
            await asyncio.sleep(_POLL)
        return await ended(watch)
    finally:
        book.close()


def answer(asked: Run, end: End, seconds: float) -> dict[str, Any]:
    """What the contract says that a run prints."""
    from askance_lab.hypotheses import error_of  # noqa: PLC0415 - takes a while

    truth = asked.population().truth
    error = error_of(asked.strategy, end.hypothesis, truth)
    return {
        "schema_version": SCHEMA_VERSION,
        "strategy": asked.strategy,
        "d": asked.d,
        "epsilon": asked.epsilon,
        "users": asked.users,
        "rounds": end.rounds,
        "received": list(end.received),
        "interactive": end.interactive,
        "state": end.state.value,
        "reason": end.reason,
        "hypothesis": dict(end.hypothesis),
        "target": dict(truth),
        "error": error,
        "success": None if error is None else error == 0,
        "max_spent_micro_epsilon": end.charge,
        "seconds": round(seconds, 3),
    }


def _text(said: dict[str, Any], end: End) -> str:
    from askance_protocol.budget import to_text  # noqa: PLC0415 - takes a while

    if not end.hypothesis:
        return f"{said['strategy']}: {end.state.value}: {end.reason}"
    error = "nobody knows how wrong" if said["error"] is None else f"error {said['error']:.4g}"
    spent = f"ε = {to_text(end.charge)} at most spent"
    rounds = f"{end.rounds} round{'s' if end.rounds > 1 else ''}"
    return f"{end.text}\n{error} · {said['users']:,} users · {rounds} · {spent} · {said['seconds']:.1f} s"
