"""`askance run`: one strategy against one oracle, from its first round to what it learned. `askance oracles`: all."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from askance_lab.commands import oracles as oracles_command
from askance_lab.commands.fleet import EnrolmentOption, JsonOption, token_of
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.parse_set import parse_set
from askance_lab.commands.shared.reaching import reaching
from askance_lab.oracles.names import EngineName, OracleName
from askance_lab.remote.local_server import LocalServer, local_server
from askance_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from askance_client.population import Population
    from askance_lab.data.table_population import OwnTable
    from askance_lab.oracles.catalogue import OracleSetting
    from askance_lab.oracles.http import Http
    from askance_lab.oracles.oracle import Oracle
    from askance_server.core.strategy import Strategy

SCHEMA_VERSION: Final = 1
_TOO_FEW: Final = ("users who can still pay", "parts had none")
"""How the reasons of the driver read where more users would have helped."""
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
    oracle: OracleName
    engine: EngineName
    workers: int
    data: Path | None
    label: str | None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """What a run has come to."""

    state: str
    reason: str = ""
    text: str = ""
    hypothesis: Mapping[str, Any] | None = None
    rounds: int = 0
    queries: int = 0
    received: tuple[int, ...] = ()
    spent: int | None = 0
    too_few: bool = False


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
        OracleName | None, typer.Option("--oracle", help="Who answers the queries: local, or http with --server.")
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
    chosen = oracle or (OracleName.LOCAL if server is None else OracleName.HTTP)
    said = {"d": d, "alpha": alpha, "beta": beta, "tolerance": tolerance, **parse_set(more or [])}
    parameters = {
        "users": "all",
        "epsilon": epsilon,
        **{name: value for name, value in said.items() if value is not None},
    }
    asked = RunOptions(strategy, parameters, users, seed, eta, chosen, engine, workers, data, label)
    _check(asked, server)
    begin = time.perf_counter()
    setting, table = _setting(asked)
    with reaching(), _oracle(asked, setting, server, operator, enrolment) as found:
        ended = _ended(setting, found)
    answer = _answer(asked, setting, ended, table) | {"seconds": round(time.perf_counter() - begin, 3)}
    typer.echo(json.dumps(answer) if as_json else _text(answer, ended))
    if ended.state != "finished":
        raise typer.Exit(Exit.TOO_FEW_USERS if ended.too_few else Exit.CHECK_FAILED)


# ----------------------------------------------------------------------------------------------------- what is asked


def _check(asked: RunOptions, server: str | None) -> None:
    """Refuse options that do not go together."""
    over_http = asked.oracle is OracleName.HTTP
    if server is not None and not over_http:
        raise ProtocolError(f"does not go with --oracle {asked.oracle}", where="--server", remedy="leave one out")
    if asked.oracle is not OracleName.LOCAL and (asked.engine is not EngineName.LOCAL or asked.workers > 1):
        raise ProtocolError("simulate local reports", where="--engine, --workers", remedy="use --oracle local")
    if asked.label is not None and asked.data is None:
        raise ProtocolError("names a column of no table", where="--label", remedy="give the table: --data FILE")
    needs_none = {OracleName.EXACT, OracleName.ADVERSARIAL}
    if asked.users is None and asked.data is None and asked.oracle not in needs_none:
        raise ProtocolError("is missing", where="--users", remedy="say how many users are asked")


def _setting(asked: RunOptions) -> tuple[OracleSetting, OwnTable | None]:
    """Who is learned from; and the table, if they are its rows."""
    from askance_lab.engines import engine  # noqa: PLC0415
    from askance_lab.oracles.catalogue import OracleSetting  # noqa: PLC0415 - takes a while

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
    from askance_client.simulation.population import for_strategy  # noqa: PLC0415 - takes a while
    from askance_server.core import planning  # noqa: PLC0415

    wanted = strategy.schema(planning.strategy_parameters(asked.parameters))
    population = for_strategy(strategy.name, asked.parameters, own, asked.seed)
    if population.schema != wanted:
        remedy = "give the table: --data FILE --label COL"
        raise ProtocolError(f"have other examples than {strategy.name!r}", where="users", remedy=remedy)
    return population


def _table(asked: RunOptions, path: Path, strategy: Strategy) -> OwnTable:
    from askance_lab.data.table_population import own_table  # noqa: PLC0415 - takes a while
    from askance_server.core import planning  # noqa: PLC0415

    if asked.eta is not None and asked.oracle is not OracleName.SAMPLES:
        remedy = "for a table it says how noisy the labels are, and the samples oracle undoes that"
        raise ProtocolError(f"does not go with --oracle {asked.oracle}", where="--eta", remedy=remedy)
    own = planning.strategy_parameters(asked.parameters)
    table = own_table(path, asked.label, strategy, own, asked.seed)
    return replace(table, parameters={**asked.parameters, **table.parameters})


def _rate(eta: str | None) -> float:
    from askance_client.simulation.population.synthetic import noise  # noqa: PLC0415 - takes a while

    return 0.0 if eta is None else float(noise({"eta": eta}))


# ------------------------------------------------------------------------------------------------------- who answers


@contextmanager
def _oracle(
    asked: RunOptions, setting: OracleSetting, url: str | None, operator: Path | None, enrolment: Path | None
) -> Generator[Oracle]:
    """The oracle, as long as it is needed."""
    from askance_lab.oracles.catalogue import oracle_of  # noqa: PLC0415 - takes a while

    if asked.oracle is not OracleName.HTTP:
        yield oracle_of(asked.oracle, setting)
        return
    with (
        tempfile.TemporaryDirectory(prefix="askance-run-") as folder,
        _server(str(setting.parameters["epsilon"]), url, operator, enrolment, Path(folder)) as found,
        _over_http(setting, found, Path(folder)) as oracle,
    ):
        yield oracle


def _over_http(setting: OracleSetting, found: LocalServer, folder: Path) -> Http:
    from askance_lab.oracles.crowds import check_size  # noqa: PLC0415 - takes a while
    from askance_lab.oracles.http import Http  # noqa: PLC0415

    check_size(setting.population, setting.users)
    name, parameters = setting.strategy.name, setting.parameters
    return Http(found, name, parameters, setting.population, setting.users, setting.seed, folder)


def _server(
    cap: str, url: str | None, operator: Path | None, enrolment: Path | None, folder: Path
) -> AbstractContextManager[LocalServer]:
    if url is None:
        return local_server(folder / "server", cap)
    if operator is None or enrolment is None:
        raise ProtocolError(
            "needs tokens",
            where="--server",
            remedy="give --operator-token FILE and --enrolment-token FILE, of its data directory",
        )
    tokens = token_of(operator, "operator token"), token_of(enrolment, "enrolment token")
    return nullcontext(LocalServer(url.rstrip("/"), folder, *tokens))


# ------------------------------------------------------------------------------------------------- what comes of it


def _ended(setting: OracleSetting, oracle: Oracle) -> RunOutcome:
    from askance_lab.oracles.http import Http, StudyFailedError  # noqa: PLC0415 - takes a while
    from askance_lab.oracles.oracle import run as run_against  # noqa: PLC0415
    from askance_server.core.planning import TooFewUsersError  # noqa: PLC0415
    from askance_server.core.run import StrategyError  # noqa: PLC0415

    try:
        learned = run_against(setting.strategy, setting.own, oracle)
    except TooFewUsersError as error:
        return RunOutcome("failed", str(error), received=_received(oracle), too_few=True)
    except StudyFailedError as error:
        return RunOutcome("failed", str(error), too_few=any(why in str(error) for why in _TOO_FEW))
    except StrategyError as error:
        return RunOutcome("failed", str(error))
    end = oracle.end(learned) if isinstance(oracle, Http) else None
    return RunOutcome(
        "finished",
        learned.hypothesis.text if end is None else end.reason,
        learned.hypothesis.text,
        learned.hypothesis.value,
        learned.rounds,
        learned.queries,
        _received(oracle) if end is None else end.received,
        learned.max_spent_micro_epsilon,
    )


def _received(oracle: Oracle) -> tuple[int, ...]:
    """Users of each round, where users are asked."""
    return tuple(getattr(oracle, "received", ()))


def _answer(asked: RunOptions, setting: OracleSetting, ended: RunOutcome, table: OwnTable | None) -> dict[str, Any]:
    """What the contract says that a run prints."""
    from askance_lab.evaluation.error import error_of  # noqa: PLC0415 - takes a while
    from askance_lab.oracles.catalogue import NEED_NO_USERS, is_approximate, is_kept  # noqa: PLC0415

    learned = ended.hypothesis or {}
    error = error_of(setting.strategy.name, learned, setting.population, setting.users)
    return {
        "schema_version": SCHEMA_VERSION,
        "strategy": asked.strategy,
        "d": setting.parameters.get("d"),
        "epsilon": setting.parameters["epsilon"],
        "users": setting.users,
        "oracle": asked.oracle.value,
        "engine": asked.engine.value if asked.oracle is OracleName.LOCAL else None,
        "approximate": asked.oracle in NEED_NO_USERS and is_approximate(setting),
        "rounds": ended.rounds,
        "queries": ended.queries,
        "received": list(ended.received),
        "interactive": setting.strategy.interactive,
        "state": ended.state,
        "reason": ended.reason,
        "hypothesis": dict(learned),
        "target": dict(setting.population.truth),
        "text": ended.text if table is None else table.read(ended.text),
        "features": [] if table is None else list(table.features),
        "error": error.value,
        "error_known": error.known,
        "error_interval": None if error.interval is None else list(error.interval),
        "success": None if error.value is None else is_kept(setting, learned, error.value),
        "max_spent_micro_epsilon": ended.spent,
    }


def _text(said: Mapping[str, Any], ended: RunOutcome) -> str:
    if ended.state != "finished":
        return f"{said['strategy']}: {ended.state}: {ended.reason}"
    parts = [
        _error(said),
        *([f"{said['users']:,} users"] if ended.received else []),
        f"{ended.rounds} round{'s' if ended.rounds > 1 else ''}",
        _spent(ended.spent),
        f"{said['seconds']:.1f} s",
    ]
    return f"{said['text']}\n{' · '.join(parts)}"


def _error(said: Mapping[str, Any]) -> str:
    if said["error"] is None:
        return "nobody knows how wrong"
    low, high = said["error_interval"] or (None, None)
    return f"error {said['error']:.4g}" + ("" if low is None else f" (from {low:.4g} to {high:.4g})")


def _spent(spent: int | None) -> str:
    from askance_protocol.budget import to_text  # noqa: PLC0415 - takes a while

    if spent is None:
        return "examples seen in the clear"
    return f"ε = {to_text(spent)} at most spent" if spent else "nobody was asked"
