"""`askance run`: one strategy against one oracle, from its first round to what it learned."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from askance_client.population import Population
from askance_client.simulation.population import for_strategy
from askance_client.simulation.population.boolean import noise
from askance_lab.commands.shared.exit_codes import Exit, exit_of_cause
from askance_lab.commands.shared.options import (
    AlphaOption,
    DataOption,
    DimensionOption,
    EnrolmentOption,
    EpsilonOption,
    JsonOption,
    LabelOption,
    OperatorOption,
    SeedOption,
    SetOption,
    StrategyArgument,
    WorkersOption,
    examples,
    read_token,
)
from askance_lab.commands.shared.parse_set import parse_set
from askance_lab.data.table_population import OwnTable, own_table
from askance_lab.engines import engine as engine_of
from askance_lab.evaluation.error import error_of
from askance_lab.oracles.catalogue import NEED_NO_USERS, OracleSetting, is_approximate, is_kept, oracle_of
from askance_lab.oracles.crowds import check_size
from askance_lab.oracles.http import Http, StudyFailedError
from askance_lab.oracles.names import EngineName, OracleName
from askance_lab.oracles.oracle import Oracle
from askance_lab.oracles.oracle import run as run_against
from askance_lab.remote.local_server import LocalServer, local_server
from askance_protocol.budget import to_text
from askance_protocol.errors import UsageError
from askance_server.core import planning
from askance_server.core.planning import TooFewUsersError
from askance_server.core.run import StrategyError
from askance_server.core.strategy import Strategy
from askance_server.strategies.registry import registry

SCHEMA_VERSION: Final = 1
_KEPT: Final = 5
"""One row in this many of a table is kept from the learner, to measure the error on."""

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is asked for on the command line."""

    strategy: str
    parameters: Mapping[str, int | bool | str]
    """Parameters of the study: the strategy's own, and the planner's."""
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
    """How a run ended, and what it learned."""

    state: str
    reason: str = ""
    text: str = ""
    hypothesis: Mapping[str, Any] | None = None
    rounds: int = 0
    queries: int = 0
    received: tuple[int, ...] = ()
    spent: int | None = 0
    exit: Exit = Exit.OK


@app.command(
    epilog=examples(
        "askance run masked-parity --d 4 --users 200000",
        "askance run mean --users 100000 --epsilon 0.5 --oracle http",
        "askance run decision-tree --data people.csv --label ill --set depth=2 --json",
    )
)
def run(
    strategy: StrategyArgument,
    users: Annotated[
        int | None,
        typer.Option("--users", min=1, help="Number of users to ask.  [default with --data: four rows in five]"),
    ] = None,
    d: DimensionOption = None,
    epsilon: EpsilonOption = "1",
    alpha: AlphaOption = None,
    beta: Annotated[
        str | None, typer.Option("--beta", help="Probability with which the study may fail.  [default: 0.05]")
    ] = None,
    eta: Annotated[
        str | None, typer.Option("--eta", help="Share of the simulated users' labels that are wrong, below 0.5.")
    ] = None,
    tolerance: Annotated[
        str | None, typer.Option("--tolerance", help="Error that the strategy allows in the answer to a query.")
    ] = None,
    more: SetOption = None,
    seed: SeedOption = 1,
    oracle: Annotated[
        OracleName | None,
        typer.Option("--oracle", help="Who answers the strategy's queries.  [default: local; http with --server]"),
    ] = None,
    engine: Annotated[
        EngineName, typer.Option("--engine", help="What runs the simulated users of --oracle local.")
    ] = EngineName.LOCAL,
    workers: WorkersOption = 1,
    data: DataOption = None,
    label: LabelOption = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server", metavar="URL", help="Server to use with --oracle http.  [default: start one for this run]"
        ),
    ] = None,
    operator: OperatorOption = None,
    enrolment: EnrolmentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a strategy against an oracle, and say what it learned and how wrong that is.

    It ends with exit code 7 if there are too few users, and 6 if the strategy failed otherwise.
    """
    chosen = oracle or (OracleName.LOCAL if server is None else OracleName.HTTP)
    own = {"d": d, "alpha": alpha, "beta": beta, "tolerance": tolerance, **parse_set(more or [])}
    given = {name: value for name, value in own.items() if value is not None}
    parameters = {"users": "all", "epsilon": epsilon, **given}
    asked = RunOptions(strategy, parameters, users, seed, eta, chosen, engine, workers, data, label)
    _check(asked, server)
    begin = time.perf_counter()
    setting, table = _setting(asked)
    with _oracle(asked, setting, server, operator, enrolment) as found:
        ended = _ended(setting, found)
    answer = _answer(asked, setting, ended, table) | {"seconds": round(time.perf_counter() - begin, 3)}
    typer.echo(json.dumps(answer) if as_json else _text(answer, ended))
    raise typer.Exit(ended.exit)


# ----------------------------------------------------------------------------------------------------- what is asked


def _check(asked: RunOptions, server: str | None) -> None:
    """Refuse options that do not go together."""
    if server is not None and asked.oracle is not OracleName.HTTP:
        raise UsageError(f"does not go with --oracle {asked.oracle}", where="--server", remedy="leave one out")
    if asked.oracle is not OracleName.LOCAL and (asked.engine is not EngineName.LOCAL or asked.workers > 1):
        raise UsageError("simulate local reports", where="--engine, --workers", remedy="use --oracle local")
    if asked.label is not None and asked.data is None:
        raise UsageError("names a column of no table", where="--label", remedy="give the table: --data FILE")
    if asked.users is None and asked.data is None and asked.oracle not in NEED_NO_USERS:
        raise UsageError("is missing", where="--users", remedy="say how many users are asked")


def _setting(asked: RunOptions) -> tuple[OracleSetting, OwnTable | None]:
    """Who is learned from; and the table, if they are its rows."""
    strategy, where = _strategy(asked.strategy), engine_of(asked.engine, asked.workers)
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

    strategies = registry()
    if name not in strategies:
        why = f": {strategies.broken[name]}" if name in strategies.broken else ""
        raise UsageError(f"there is no {name!r} here{why}", where="strategy", remedy=f"use {', '.join(strategies)}")
    return strategies[name]


def _people(strategy: Strategy, asked: RunOptions, own: Mapping[str, int | bool | str]) -> Population:
    """Simulated users, who have the examples that the strategy learns from."""
    wanted = strategy.schema(planning.strategy_parameters(asked.parameters))
    population = for_strategy(strategy.name, asked.parameters, own, asked.seed)
    if population.schema != wanted:
        remedy = "give the table: --data FILE --label COL"
        raise UsageError(f"have other examples than {strategy.name!r}", where="simulated users", remedy=remedy)
    return population


def _table(asked: RunOptions, path: Path, strategy: Strategy) -> OwnTable:

    if asked.eta is not None and asked.oracle is not OracleName.SAMPLES:
        remedy = "for a table it says how noisy the labels are, and the samples oracle undoes that"
        raise UsageError(f"does not go with --oracle {asked.oracle}", where="--eta", remedy=remedy)
    own = planning.strategy_parameters(asked.parameters)
    table = own_table(path, asked.label, strategy, own, asked.seed)
    return replace(table, parameters={**asked.parameters, **table.parameters})


def _rate(eta: str | None) -> float:

    return 0.0 if eta is None else float(noise({"eta": eta}))


# ------------------------------------------------------------------------------------------------------- who answers


@contextmanager
def _oracle(
    asked: RunOptions, setting: OracleSetting, url: str | None, operator: Path | None, enrolment: Path | None
) -> Generator[Oracle]:
    """The oracle, while the block lasts."""
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

    check_size(setting.population, setting.users)
    name, parameters = setting.strategy.name, setting.parameters
    return Http(found, name, parameters, setting.population, setting.users, setting.seed, folder)


def _server(
    cap: str, url: str | None, operator: Path | None, enrolment: Path | None, folder: Path
) -> AbstractContextManager[LocalServer]:
    if url is None:
        return local_server(folder / "server", cap)
    if operator is None or enrolment is None:
        raise UsageError(
            "needs tokens",
            where="--server",
            remedy="give --operator-token FILE and --enrolment-token FILE, of its data directory",
        )
    tokens = read_token(operator, "operator token"), read_token(enrolment, "enrolment token")
    return nullcontext(LocalServer(url.rstrip("/"), folder, *tokens))


# ------------------------------------------------------------------------------------------------- what comes of it


def _ended(setting: OracleSetting, oracle: Oracle) -> RunOutcome:
    try:
        learned = run_against(setting.strategy, setting.own, oracle)
    except TooFewUsersError as error:
        return RunOutcome("failed", str(error), received=_received(oracle), exit=Exit.TOO_FEW_USERS)
    except StudyFailedError as error:
        cause = oracle.end().cause if isinstance(oracle, Http) else None
        return RunOutcome("failed", str(error), exit=exit_of_cause(cause, finished=False))
    except StrategyError as error:
        return RunOutcome("failed", str(error), exit=Exit.CHECK_FAILED)
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
    """Number of reports of each round, where users are asked."""
    return tuple(getattr(oracle, "received", ()))


def _answer(asked: RunOptions, setting: OracleSetting, ended: RunOutcome, table: OwnTable | None) -> dict[str, Any]:
    """What `run --json` prints."""
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


def _text(answer: Mapping[str, Any], ended: RunOutcome) -> str:
    if ended.state != "finished":
        return f"{answer['strategy']}: {ended.state}: {ended.reason}"
    parts = [
        _error(answer),
        *([f"{answer['users']:,} users"] if ended.received else []),
        f"{ended.rounds} round{'s' if ended.rounds > 1 else ''}",
        _spent(ended.spent),
        f"{answer['seconds']:.1f} s",
    ]
    return f"{answer['text']}\n{' · '.join(parts)}"


def _error(answer: Mapping[str, Any]) -> str:
    if answer["error"] is None:
        return "nobody knows how wrong"
    low, high = answer["error_interval"] or (None, None)
    return f"error {answer['error']:.4g}" + ("" if low is None else f" (from {low:.4g} to {high:.4g})")


def _spent(spent: int | None) -> str:

    if spent is None:
        return "examples seen in the clear"
    return f"ε = {to_text(spent)} at most spent" if spent else "nobody was asked"
