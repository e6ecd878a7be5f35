"""`askance demo`: a server, client processes, and what a second round is worth.

The same users answer two learners of MASKED-PARITY, each at ε = 1: A_MP, which asks in rounds, and the strongest
learner we know that asks everything at once (KLNRS11, §5.3). With `--server` it conducts clients that run elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from askance_client import BulletinReader, RemoteError, Server
from askance_client.simulation.population import synthetic
from askance_lab.commands.shared.exit_codes import exit_of_cause
from askance_lab.commands.shared.options import EpsilonOption, JsonOption, OperatorOption, examples, read_token
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.tables import echo_table
from askance_lab.evaluation.exact import exact_error
from askance_lab.remote.local_server import LocalServer, local_server
from askance_lab.remote.study_client import StudyResult, create, ended, unwrap
from askance_lab.theory.masked_parity import users_masked_parity_noninteractive, users_masked_parity_pooled
from askance_protocol.budget import charge_from_text, to_text
from askance_protocol.rounds import StudyState
from askance_server.strategies.registry import registry

SCHEMA_VERSION: Final = 1
LEARNERS: Final = ("masked-parity-pooled", "masked-parity-noninteractive")
_SECONDS: Final = 600
_POLL: Final = 0.2
_PLANNED: Final = (8, 16, 32, 64)
_COMMAND: Final = (sys.executable, "-m", "askance_lab", "fleet", "--json")

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the command line."""

    users: int
    d: int
    epsilon: str
    seed: int
    clients: int
    begun: float


@dataclass(frozen=True, slots=True)
class DemoResult:
    """One learner's study, how it ended, and when."""

    study: str
    end: StudyResult
    seconds: float


@app.command(
    epilog=examples(
        "askance demo",
        "askance demo --users 20000 --d 16 --seed 2",
        "askance demo --server http://127.0.0.1:8080 --operator-token askance-data/operator.token --json",
    )
)
def demo(
    users: Annotated[int, typer.Option("--users", min=100, help="Number of users who take part.")] = 8000,
    d: Annotated[int, typer.Option("--d", min=2, max=64, help="Number of bits of an example, a power of two.")] = 8,
    epsilon: EpsilonOption = "1",
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the simulated population: its examples and its truth.")
    ] = 1,
    clients: Annotated[
        int, typer.Option("--clients", min=1, max=16, help="Number of client processes that share the users.")
    ] = 4,
    port: Annotated[
        int, typer.Option("--port", help="Port of the server; the next free one if it is taken, 0 for any.")
    ] = 8080,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            envvar="ASKANCE_SERVER",
            help="Use this server and the fleets that are connected to it, instead of starting some.",
        ),
    ] = None,
    operator: OperatorOption = None,
    public: Annotated[
        str | None,
        typer.Option(
            "--public-url",
            metavar="URL",
            envvar="ASKANCE_PUBLIC_URL",
            help="Address of --server to print for readers, if they reach it by another.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the protocol at work: many clients, two learners, one table.

    One learner asks in rounds, the other asks everything at once; the table says what each learned from the same users.
    """
    asked = DemoOptions(users, d, epsilon, seed, clients, time.monotonic())
    with contextlib.ExitStack() as stack:
        if server is not None:
            ends = asyncio.run(_conduct(asked, server.rstrip("/"), read_token(operator, "operator token")))
            _print(asked, (public or server).rstrip("/"), ends, {}, as_json=as_json)
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="askance-demo-")))
        found = stack.enter_context(local_server(folder / "server", _cap(epsilon), port))
        fleet = stack.enter_context(_clients(asked, found, folder))
        ends = asyncio.run(_conduct(asked, found.url, found.operator))
        _print(asked, found.url, ends, _results(fleet), as_json=as_json)
        if sys.stdin.isatty() and sys.stdout.isatty():
            typer.echo("\nThe server runs until you press Enter.")
            sys.stdin.readline()


def _cap(epsilon: str) -> str:
    """A lifetime's budget: one report to each learner."""
    return to_text(len(LEARNERS) * charge_from_text(epsilon))


# ---------------------------------------------------------------------------------------------------------- clients


@contextlib.contextmanager
def _clients(asked: DemoOptions, found: LocalServer, folder: Path) -> Generator[list[subprocess.Popen[str]]]:
    """The client processes, each with its share of the users, and a log of its own."""
    token = found.directory / "enrolment.token"
    fleet: list[subprocess.Popen[str]] = []
    with contextlib.ExitStack() as stack:
        for number in range(asked.clients):
            begin, end = (asked.users * k // asked.clients for k in (number, number + 1))
            options = _options(asked, found.url, token, folder / f"client-{number}", range(begin, end))
            log = stack.enter_context((folder / f"client-{number}.log").open("w"))
            fleet.append(subprocess.Popen(options, stdout=subprocess.PIPE, stderr=log, text=True, env=_environment()))  # noqa: S603 - our own command
        try:
            yield fleet
        finally:
            for process in fleet:
                process.terminate()
                process.wait()


def _options(asked: DemoOptions, url: str, token: Path, wallets: Path, rows: range) -> list[str]:
    options = {
        "--server": url,
        "--enrolment-token": str(token),
        "--wallets": str(wallets),
        "--users": str(len(rows)),
        "--first": str(rows.start),
        "--seed": str(asked.seed),
        "--cap": _cap(asked.epsilon),
        "--studies": str(len(LEARNERS)),
    }
    return [*_COMMAND, *(text for pair in options.items() for text in pair)]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ASKANCE_")}


def _results(fleet: Sequence[subprocess.Popen[str]]) -> dict[str, Counter[str]]:
    """What the clients say of each learner."""
    counted: dict[str, Counter[str]] = {learner: Counter() for learner in LEARNERS}
    for process in fleet:
        printed, _ = process.communicate(timeout=_SECONDS)
        if process.returncode and not printed:  # A study that has failed is told of below.
            raise RemoteError(f"ended with exit code {process.returncode}", where="client", remedy="run askance fleet")
        for study in json.loads(printed)["studies"]:
            counted[study["strategy"]].update(study["results"])
    return counted


# -------------------------------------------------------------------------------------------------------- conducting


async def _conduct(asked: DemoOptions, url: str, token: str) -> dict[str, DemoResult]:
    """Wait for the users, then open one study after the other; each learner's study and what it came to."""
    ends: dict[str, DemoResult] = {}
    async with Server(url) as server:
        going = await _going(server)
        await _enrolled(server, asked.users)
        for learner in LEARNERS:
            parameters = {"d": asked.d, "users": "all", "epsilon": asked.epsilon}
            study = going.get(learner) or (await create(server, token, learner, parameters, _title(learner))).id
            with ProgressBar(learner, asked.users) as bar:
                end = await ended(BulletinReader(server, study), bar.at)
                bar.at(sum(end.received))
                bar.end()
            ends[learner] = DemoResult(study, end, time.monotonic() - asked.begun)
    return ends


def _title(learner: str) -> str:
    return f"Demo: {learner}"


async def _going(server: Server) -> dict[str, str]:
    """The studies of a demo that was interrupted: the users go on with them, so it does too."""
    found = [(each["study"], each) for each in unwrap(await server.studies()) if each["state"] in {"running", "sealed"}]
    return {spec["strategy"]: each["id"] for spec, each in found if spec["title"] == _title(spec["strategy"])}


async def _enrolled(server: Server, users: int) -> None:
    """Wait until as many users are enrolled."""
    end = time.monotonic() + _SECONDS
    with ProgressBar("enrolment", users) as bar:
        while (there := await server.metric("askance_users")) < users:
            if time.monotonic() > end:
                what = f"{there} of {users} users have enrolled in {_SECONDS} s"
                raise RemoteError(what, where="clients", remedy="see their logs: askance fleet")
            bar.at(there)
            await asyncio.sleep(_POLL)
        bar.at(users)
        bar.end()


# --------------------------------------------------------------------------------------------------------- the table


def _print(
    asked: DemoOptions, url: str, ends: Mapping[str, DemoResult], results: Mapping[str, Counter[str]], *, as_json: bool
) -> None:
    rows = [_row(asked, url, learner, ends[learner], results.get(learner)) for learner in LEARNERS]
    if as_json:
        answer = {"schema_version": SCHEMA_VERSION, "server": url, "d": asked.d, "truth": _truth(asked)}
        typer.echo(json.dumps({**answer, "learners": rows, "planned": _planned()}))
    else:
        _echo(asked, url, rows)
    for end in (ends[learner].end for learner in LEARNERS):
        if end.state is not StudyState.FINISHED:
            raise typer.Exit(exit_of_cause(end.cause, finished=False))


def _truth(asked: DemoOptions) -> dict[str, Any]:

    return dict(synthetic("masked-parity", {"d": asked.d}, asked.seed).truth)


def _row(
    asked: DemoOptions, url: str, learner: str, learned: DemoResult, results: Counter[str] | None
) -> dict[str, Any]:

    end = learned.end
    return {
        "learner": learner,
        "rounds": end.rounds,
        "users": sum(end.received),
        "hypothesis": dict(end.hypothesis),
        "error": exact_error(registry()[learner], end.hypothesis, _truth(asked)),
        "max_spent_micro_epsilon": end.charge,
        "refusals": None if results is None else results.total() - results["answered"],
        "state": end.state.value,
        "reason": end.reason,
        "seconds_since_the_start": round(learned.seconds, 1),
        "url": f"{url}/v1/studies/{learned.study}",
    }


def _planned() -> list[dict[str, int]]:
    """Users that each learner needs, by the formulas."""
    return [
        {
            "d": d,
            "two_rounds": users_masked_parity_pooled(dimension=d, epsilon=1, failure=0.05),
            "one_round": users_masked_parity_noninteractive(dimension=d, epsilon=1, failure=0.05),
        }
        for d in _PLANNED
    ]


_COLUMNS: Final = ("learner", "rounds", "users", "error", "largest ε", "refusals", "learned")


def _echo(asked: DemoOptions, url: str, rows: Sequence[Mapping[str, Any]]) -> None:
    truth, cells = _truth(asked), [_cells(row) for row in rows]
    title = f"MASKED-PARITY, d = {asked.d}: the concept is r = {truth['r']}, a = {truth['a']}"
    below = ["", "users that each needs to be right 19 times in 20, at ε = 1 (by the formulas):"]
    below += [
        f"  d = {each['d']:<3} two rounds {each['two_rounds']:>12,}   one round {each['one_round']:>12.2g}"
        for each in _planned()
    ]
    below += ["", *(f"{row['learner']}: {row['url']}" for row in rows), f"every endpoint: {url}/docs"]
    plain = [
        f"{name:<30}{rounds:>7}{users:>10}{error:>8}{spent:>11}{refusals:>10}  {learned}"
        for name, rounds, users, error, spent, refusals, learned in (_COLUMNS, *cells)
    ]
    echo_table("\n".join([title, "", *plain, *below]), _COLUMNS, cells, title=title, below=below)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    learned = row["hypothesis"]
    return (
        row["learner"],
        str(row["rounds"]),
        f"{row['users']:,}",
        "-" if row["error"] is None else f"{row['error']:.3f}",
        to_text(row["max_spent_micro_epsilon"]),
        "-" if row["refusals"] is None else f"{row['refusals']:,}",
        f"r = {learned['r']}, a = {learned['a']}" if learned else row["reason"],
    )
