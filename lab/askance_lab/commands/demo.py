"""`askance demo`: a server, four client processes, and what a second round is worth.

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
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from askance_lab.commands.fleet import JsonOption, token_of
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.reaching import reaching
from askance_lab.remote.local_server import LocalServer, local_server
from askance_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from askance_client import Server
    from askance_lab.remote.study_client import StudyResult

SCHEMA_VERSION: Final = 1
LEARNERS: Final = ("masked-parity-pooled", "masked-parity-noninteractive")
_SECONDS: Final = 600
_POLL: Final = 0.2
_PLANNED: Final = (8, 16, 32, 64)
_COMMAND: Final = (sys.executable, "-c", "from askance_lab.cli import main; main()", "fleet", "--json")

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class Demo:
    """What is shown."""

    users: int
    d: int
    epsilon: str
    seed: int
    clients: int
    begun: float


@dataclass(frozen=True, slots=True)
class DemoResult:
    """One learner's study, what it came to, and when."""

    study: str
    end: StudyResult
    seconds: float


@app.command()
def demo(
    users: Annotated[int, typer.Option("--users", min=100, help="How many users take part.")] = 8000,
    d: Annotated[int, typer.Option("--d", min=2, max=64, help="Bits of an example; a power of two.")] = 8,
    epsilon: Annotated[str, typer.Option("--epsilon", help="ε of each report.")] = "1",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which population.")] = 1,
    clients: Annotated[int, typer.Option("--clients", min=1, max=16, help="Client processes.")] = 4,
    port: Annotated[int, typer.Option("--port", help="Where the server listens, if it is free.")] = 8080,
    server: Annotated[
        str | None,
        typer.Option("--server", metavar="URL", envvar="ASKANCE_SERVER", help="Conduct clients that run elsewhere."),
    ] = None,
    operator: Annotated[
        Path | None,
        typer.Option(
            "--operator-token", metavar="FILE", envvar="ASKANCE_OPERATOR_TOKEN_FILE", help="Goes with --server."
        ),
    ] = None,
    public: Annotated[
        str | None,
        typer.Option(
            "--public-url",
            metavar="URL",
            envvar="ASKANCE_PUBLIC_URL",
            help="Where readers find that server, if not there.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the protocol at work: many clients, two learners, one table."""
    asked = Demo(users, d, epsilon, seed, clients, time.monotonic())
    with reaching(), contextlib.ExitStack() as stack:
        if server is not None:
            ends = asyncio.run(_conduct(asked, server.rstrip("/"), token_of(operator, "operator token")))
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
    from askance_protocol.budget import charge_from_text, to_text  # noqa: PLC0415 - takes a while

    return to_text(len(LEARNERS) * charge_from_text(epsilon))


# ---------------------------------------------------------------------------------------------------------- clients


@contextlib.contextmanager
def _clients(asked: Demo, found: LocalServer, folder: Path) -> Generator[list[subprocess.Popen[str]]]:
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


def _options(asked: Demo, url: str, token: Path, wallets: Path, rows: range) -> list[str]:
    unwrap = {
        "--server": url,
        "--enrolment-token": str(token),
        "--wallets": str(wallets),
        "--users": str(len(rows)),
        "--first": str(rows.start),
        "--seed": str(asked.seed),
        "--cap": _cap(asked.epsilon),
        "--studies": str(len(LEARNERS)),
    }
    return [*_COMMAND, *(text for pair in unwrap.items() for text in pair)]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ASKANCE_")}


def _results(fleet: Sequence[subprocess.Popen[str]]) -> dict[str, Counter[str]]:
    """What the clients say of each learner."""
    counted: dict[str, Counter[str]] = {learner: Counter() for learner in LEARNERS}
    for process in fleet:
        unwrap, _ = process.communicate(timeout=_SECONDS)
        if process.returncode:
            raise ProtocolError(
                f"ended with exit code {process.returncode}", where="client", remedy="run askance fleet"
            )
        for study in json.loads(unwrap)["studies"]:
            counted[study["strategy"]].update(study["results"])
    return counted


# -------------------------------------------------------------------------------------------------------- conducting


async def _conduct(asked: Demo, url: str, token: str) -> dict[str, DemoResult]:
    """Wait for the users, then open one study after the other; each learner's study and what it came to."""
    from askance_client import BulletinReader, Server  # noqa: PLC0415 - takes a while
    from askance_lab.remote.study_client import create, ended  # noqa: PLC0415

    ends: dict[str, DemoResult] = {}
    async with Server(url) as server:
        going = await _going(server)
        await _enrolled(server, asked.users)
        for learner in LEARNERS:
            parameters = {"d": asked.d, "users": "all", "epsilon": asked.epsilon}
            study = going.get(learner) or (await create(server, token, learner, parameters, _title(learner))).id
            bar = ProgressBar(learner, asked.users)
            end = await ended(BulletinReader(server, study), bar.at)
            bar.at(sum(end.received))
            bar.end()
            ends[learner] = DemoResult(study, end, time.monotonic() - asked.begun)
    return ends


def _title(learner: str) -> str:
    return f"Demo: {learner}"


async def _going(server: Server) -> dict[str, str]:
    """The studies of a demo that was interrupted: the users go on with them, so it does too."""
    from askance_lab.remote.study_client import unwrap  # noqa: PLC0415 - takes a while

    found = [(each["study"], each) for each in unwrap(await server.studies()) if each["state"] in {"running", "sealed"}]
    return {spec["strategy"]: each["id"] for spec, each in found if spec["title"] == _title(spec["strategy"])}


async def _enrolled(server: Server, users: int) -> None:
    """Until so many users are there."""
    bar, end = ProgressBar("enrolment", users), time.monotonic() + _SECONDS
    while (there := await server.metric("askance_users")) < users:
        if time.monotonic() > end:
            what = f"{there} of {users} users have enrolled in {_SECONDS} s"
            raise ProtocolError(what, where="clients", remedy="see their logs: askance fleet")
        bar.at(there)
        await asyncio.sleep(_POLL)
    bar.at(users)
    bar.end()


# --------------------------------------------------------------------------------------------------------- the table


def _print(
    asked: Demo, url: str, ends: Mapping[str, DemoResult], results: Mapping[str, Counter[str]], *, as_json: bool
) -> None:
    rows = [_row(asked, url, learner, ends[learner], results.get(learner)) for learner in LEARNERS]
    if as_json:
        unwrap = {"schema_version": SCHEMA_VERSION, "server": url, "d": asked.d, "truth": _truth(asked)}
        typer.echo(json.dumps({**unwrap, "learners": rows, "planned": _planned()}))
    else:
        typer.echo(_text(asked, url, rows))
    if any(row["state"] != "finished" for row in rows):
        raise typer.Exit(Exit.CHECK_FAILED)


def _truth(asked: Demo) -> dict[str, Any]:
    from askance_client.simulation.population import for_strategy  # noqa: PLC0415 - takes a while

    return dict(for_strategy(LEARNERS[0], {"d": asked.d}, {}, asked.seed).truth)


def _row(asked: Demo, url: str, learner: str, learned: DemoResult, results: Counter[str] | None) -> dict[str, Any]:
    from askance_lab.evaluation.exact import exact_error  # noqa: PLC0415 - takes a while
    from askance_server.strategies.registry import registry  # noqa: PLC0415

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
    """Users needed, by the formulas. THEORY.md, §1."""
    from askance_lab.theory.masked_parity import (  # noqa: PLC0415 - takes a while
        users_masked_parity_noninteractive,
        users_masked_parity_pooled,
    )

    return [
        {
            "d": d,
            "two_rounds": users_masked_parity_pooled(dimension=d, epsilon=1, failure=0.05),
            "one_round": users_masked_parity_noninteractive(dimension=d, epsilon=1, failure=0.05),
        }
        for d in _PLANNED
    ]


def _text(asked: Demo, url: str, rows: Sequence[Mapping[str, Any]]) -> str:
    from askance_protocol.budget import to_text  # noqa: PLC0415 - takes a while

    truth = _truth(asked)
    lines = [f"MASKED-PARITY, d = {asked.d}: the concept is r = {truth['r']}, a = {truth['a']}", ""]
    lines.append(f"{'learner':<30}{'rounds':>7}{'users':>10}{'error':>8}{'largest ε':>11}{'refusals':>10}  learned")
    for row in rows:
        error = "-" if row["error"] is None else f"{row['error']:.3f}"
        refusals = "-" if row["refusals"] is None else f"{row['refusals']:,}"
        spent, learned = to_text(row["max_spent_micro_epsilon"]), row["hypothesis"]
        shown = f"r = {learned['r']}, a = {learned['a']}" if learned else row["reason"]
        lines.append(
            f"{row['learner']:<30}{row['rounds']:>7}{row['users']:>10,}{error:>8}{spent:>11}{refusals:>10}  {shown}"
        )
    lines += ["", "users that each needs to be right 19 times in 20, at ε = 1 (by the formulas):"]
    lines += [
        f"  d = {each['d']:<3} two rounds {each['two_rounds']:>12,}   one round {each['one_round']:>12.2g}"
        for each in _planned()
    ]
    lines += ["", *(f"{row['learner']}: {row['url']}" for row in rows), f"every endpoint: {url}/docs"]
    return "\n".join(lines)
