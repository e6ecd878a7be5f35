"""`askance run`: one strategy against one oracle, from its first round to what it learned. `askance oracles`: all."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from askance_lab.commands import oracles as oracles_command
from askance_lab.commands.fleet import EnrolmentOption, JsonOption, token_of
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.parse_set import parse_set
from askance_lab.commands.shared.reaching import reaching
from askance_lab.engines import EngineName
from askance_lab.remote.local_server import LocalServer
from askance_protocol.errors import Code, ProtocolError, UsageError

if TYPE_CHECKING:
    from askance_client.population import Population
    from askance_lab.data.table_population import OwnTable
    from askance_lab.experiments.single_run import SingleRun
    from askance_lab.oracles.shared.setting import OracleSetting
    from askance_server.core.strategy import Strategy

SCHEMA_VERSION: Final = 1
_KEPT: Final = 5
"""Of so many rows of a table one is kept from the learner, to measure the error on."""

app = typer.Typer()
app.command()(oracles_command.oracles)


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is asked for on the command line."""

    strategy: str
    parameters: Mapping[str, int | bool | str]
    """The study's."""
    users: int | None
    seed: int
    eta: str | None
    oracle: str
    engine: EngineName
    workers: int
    data: Path | None
    label: str | None


@app.command()
def run(
    strategy: Annotated[str, typer.Argument(help="Which strategy: mean, conjunction, masked-parity, …")],
    users: Annotated[
        int | None, typer.Option("--users", min=1, help="How many users are asked; of a table, four rows of five.")
    ] = None,
    d: Annotated[int | None, typer.Option("--d", min=1, help="The dimension of the examples.")] = None,
    epsilon: Annotated[str, typer.Option("--epsilon", help="ε of each report.")] = "1",
    alpha: Annotated[str | None, typer.Option("--alpha", help="The error that the strategy aims at.")] = None,
    beta: Annotated[str | None, typer.Option("--beta", help="The chance that the plan may fail.")] = None,
    eta: Annotated[str | None, typer.Option("--eta", help="The share of labels that are wrong.")] = None,
    tolerance: Annotated[str | None, typer.Option("--tolerance", help="What the strategy's queries tolerate.")] = None,
    more: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Another parameter of the strategy.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which population, and which noise.")] = 1,
    oracle: Annotated[
        str | None, typer.Option("--oracle", help="Who answers the queries: local, or http with --server.")
    ] = None,
    engine: Annotated[EngineName, typer.Option("--engine", help="Where users are simulated.")] = EngineName.LOCAL,
    workers: Annotated[int, typer.Option("--workers", min=1, max=256, help="Processes that simulate them.")] = 1,
    data: Annotated[Path | None, typer.Option("--data", metavar="FILE", help="Your own table: a row a user.")] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="COL", help="The table's column to predict.")] = None,
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
    """Run a strategy against an oracle and say what it learned, and how wrong that is."""
    chosen = oracle or ("local" if server is None else "http")
    said = {"d": d, "alpha": alpha, "beta": beta, "tolerance": tolerance, **parse_set(more or [])}
    parameters = {
        "users": "all",
        "epsilon": epsilon,
        **{name: value for name, value in said.items() if value is not None},
    }
    asked = RunOptions(strategy, parameters, users, seed, eta, chosen, engine, workers, data, label)
    from askance_lab.experiments.single_run import run_once  # noqa: PLC0415 - takes a while
    from askance_lab.oracles.shared.registry import oracle_named  # noqa: PLC0415

    _check(asked, server)
    begin = time.perf_counter()
    setting, table = _setting(asked)
    with reaching():
        ended = run_once(replace(setting, server=_server(server, operator, enrolment)), oracle_named(chosen))
    answer = _answer(asked, setting, ended, table) | {"seconds": round(time.perf_counter() - begin, 3)}
    typer.echo(json.dumps(answer) if as_json else _text(answer, ended))
    if ended.state != "finished":
        raise typer.Exit(Exit.TOO_FEW_USERS if ended.code is Code.TOO_FEW_USERS else Exit.CHECK_FAILED)


# ----------------------------------------------------------------------------------------------------- what is asked


def _check(asked: RunOptions, server: str | None) -> None:
    """Refuse options that do not go together."""
    over_http = asked.oracle == "http"
    if server is not None and not over_http:
        raise ProtocolError(f"does not go with --oracle {asked.oracle}", where="--server", remedy="leave one out")
    if asked.oracle != "local" and (asked.engine is not EngineName.LOCAL or asked.workers > 1):
        raise ProtocolError("simulate local reports", where="--engine, --workers", remedy="use --oracle local")
    if asked.label is not None and asked.data is None:
        raise ProtocolError("names a column of no table", where="--label", remedy="give the table: --data FILE")
    from askance_lab.oracles.shared.registry import oracle_named  # noqa: PLC0415

    if asked.users is None and asked.data is None and oracle_named(asked.oracle).asks_users:
        raise ProtocolError("is missing", where="--users", remedy="say how many users are asked")


def _setting(asked: RunOptions) -> tuple[OracleSetting, OwnTable | None]:
    """Who is learned from; and the table, if they are its rows."""
    from askance_lab.engines import engine  # noqa: PLC0415
    from askance_lab.oracles.shared.setting import OracleSetting  # noqa: PLC0415 - takes a while

    strategy, where = _strategy(asked.strategy), engine(asked.engine, asked.workers)
    if asked.data is None:
        own: dict[str, int | bool | str] = {} if asked.eta is None else {"eta": asked.eta}
        people = _people(strategy, asked, own)
        users, eta = asked.users or 0, _rate(asked.eta)
        return OracleSetting(strategy, asked.parameters, people, users, asked.seed, eta, where), None
    table = _table(asked, asked.data, strategy)
    size = table.population.size or 1
    users = asked.users or size - size // _KEPT
    setting = OracleSetting(strategy, table.parameters, table.population, users, asked.seed, _rate(asked.eta), where)
    return setting, table


def _strategy(name: str) -> Strategy:
    from askance_server.strategies.registry import registry  # noqa: PLC0415 - takes a while

    strategies = registry()
    if name not in strategies:
        why = f": {strategies.broken[name]}" if name in strategies.broken else ""
        raise ProtocolError(f"there is no {name!r} here{why}", where="strategy", remedy=f"use {', '.join(strategies)}")
    return strategies[name]


def _people(strategy: Strategy, asked: RunOptions, own: Mapping[str, int | bool | str]) -> Population:
    """Made-up users, whose examples are those of the strategy."""
    from askance_lab.data.made_up import made_up  # noqa: PLC0415 - takes a while

    return made_up(strategy, asked.parameters, asked.seed, own)


def _table(asked: RunOptions, path: Path, strategy: Strategy) -> OwnTable:
    from askance_lab.data.table_population import own_table  # noqa: PLC0415 - takes a while
    from askance_server.core import planning  # noqa: PLC0415

    if asked.eta is not None and asked.oracle != "samples":
        remedy = "for a table it says how noisy the labels are, and the samples oracle undoes that"
        raise ProtocolError(f"does not go with --oracle {asked.oracle}", where="--eta", remedy=remedy)
    own = planning.strategy_parameters(asked.parameters)
    table = own_table(path, asked.label, strategy, own, asked.seed)
    return replace(table, parameters={**asked.parameters, **table.parameters})


def _rate(eta: str | None) -> float:
    from askance_client.simulation.population.boolean import noise  # noqa: PLC0415 - takes a while

    return 0.0 if eta is None else float(noise({"eta": eta}))


# ------------------------------------------------------------------------------------------------------- who answers


def _server(url: str | None, operator: Path | None, enrolment: Path | None) -> LocalServer | None:
    if url is None:
        return None
    if operator is None or enrolment is None:
        raise UsageError(
            "needs tokens",
            where="--server",
            remedy="give --operator-token FILE and --enrolment-token FILE, of its data directory",
        )
    tokens = token_of(operator, "operator token"), token_of(enrolment, "enrolment token")
    return LocalServer(url.rstrip("/"), Path(), *tokens)


# ------------------------------------------------------------------------------------------------- what comes of it


def _answer(asked: RunOptions, setting: OracleSetting, ended: SingleRun, table: OwnTable | None) -> dict[str, Any]:
    """What the contract says that a run prints."""
    from askance_lab.oracles.shared.registry import oracle_named  # noqa: PLC0415

    learned, error = ended.learned, ended.error
    text = "" if learned is None else learned.hypothesis.text
    return {
        "schema_version": SCHEMA_VERSION,
        "strategy": asked.strategy,
        "d": setting.parameters.get("d"),
        "epsilon": setting.parameters["epsilon"],
        "users": setting.users,
        "oracle": asked.oracle,
        "engine": asked.engine.value if asked.oracle == "local" else None,
        "approximate": not oracle_named(asked.oracle).asks_users and setting.is_approximate,
        "rounds": 0 if learned is None else learned.rounds,
        "queries": 0 if learned is None else learned.queries,
        "received": list(ended.received),
        "interactive": setting.strategy.interactive,
        "state": ended.state,
        "reason": ended.reason,
        "hypothesis": {} if learned is None else dict(learned.hypothesis.value),
        "target": dict(setting.population.truth),
        "text": text if table is None else table.read(text),
        "features": [] if table is None else list(table.features),
        "error": error.value,
        "error_known": error.known,
        "error_interval": None if error.interval is None else list(error.interval),
        "success": ended.success,
        "max_spent_micro_epsilon": 0 if learned is None else learned.max_spent_micro_epsilon,
    }


def _text(said: Mapping[str, Any], ended: SingleRun) -> str:
    if ended.state != "finished":
        return f"{said['strategy']}: {ended.state}: {ended.reason}"
    parts = [
        _error(said),
        *([f"{said['users']:,} users"] if ended.received else []),
        f"{said['rounds']} round{'s' if said['rounds'] > 1 else ''}",
        _spent(said["max_spent_micro_epsilon"]),
        f"{said['seconds']:.1f} s",
    ]
    return f"{said['text']}\n{' · '.join(parts)}"


def _error(said: Mapping[str, Any]) -> str:
    if said["error"] is None:
        return "error unknown"
    low, high = said["error_interval"] or (None, None)
    return f"error {said['error']:.4g}" + ("" if low is None else f" (from {low:.4g} to {high:.4g})")


def _spent(spent: int | None) -> str:
    from askance_protocol.budget import to_text  # noqa: PLC0415 - takes a while

    if spent is None:
        return "examples seen in the clear"
    return f"ε = {to_text(spent)} at most spent" if spent else "nobody was asked"
