"""`askance oracles`: every strategy against every oracle, on small examples, as a table."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from askance_client.population import Population
from askance_client.simulation.population import for_strategy
from askance_client.simulation.population.kinds import FOR_STRATEGY, KINDS
from askance_lab.commands.shared.options import EpsilonOption, JsonOption, SeedOption, examples
from askance_lab.commands.shared.tables import echo_table
from askance_lab.evaluation.error import error_of
from askance_lab.oracles.catalogue import OracleSetting, is_kept, oracle_of
from askance_lab.oracles.http import Http
from askance_lab.oracles.names import OracleName
from askance_lab.oracles.oracle import Oracle, run
from askance_lab.remote.local_server import local_server
from askance_protocol.errors import ProtocolError
from askance_protocol.parameters import Parameters
from askance_server.core.run import StrategyError
from askance_server.core.strategy import Strategy
from askance_server.strategies.registry import registry

app = typer.Typer()

WorstError: TypeAlias = tuple[float | None, bool | None]
"""The error, and whether it is as small as was promised."""

SCHEMA_VERSION: Final = 1
NOISE: Final = "0.3"
CLOSE: Final = 0.05
"""Largest error that counts as learned where a strategy promises nothing."""

SMALL: Final[Mapping[str, Parameters]] = {
    "mean": {},
    "histogram": {"cells": 4},
    "conjunction": {"d": 4, "alpha": "0.2"},
    "decision-list": {"d": 4, "alpha": "0.2"},
    "kmeans": {"d": 2, "k": 3},
}
"""The parameters of each strategy here."""
_ELSE: Final[Parameters] = {"d": 4}
"""The parameters of every other strategy."""

COLUMNS: Final[Mapping[str, tuple[OracleName, bool, bool]]] = {
    "exact": (OracleName.EXACT, False, False),
    "adversarial": (OracleName.ADVERSARIAL, False, False),
    "samples": (OracleName.SAMPLES, False, False),
    "noisy samples": (OracleName.SAMPLES, True, True),
    "the same, naive": (OracleName.SAMPLES, True, False),
    "curator": (OracleName.CURATOR, False, False),
    "fresh": (OracleName.FRESH, False, False),
    "fresh-laplace": (OracleName.FRESH_LAPLACE, False, False),
    "local": (OracleName.LOCAL, False, False),
    "http": (OracleName.HTTP, False, False),
}
"""The oracle of each column, whether its labels are noisy, and whether it knows so."""


@app.command(
    epilog=examples("askance oracles", "askance oracles --users 20000 --epsilon 0.5", "askance oracles --http --json")
)
def oracles(
    users: Annotated[int, typer.Option("--users", min=1, help="Number of users that each run asks.")] = 200_000,
    epsilon: EpsilonOption = "1",
    seed: SeedOption = 1,
    over_http: Annotated[
        bool, typer.Option("--http", help="Add the column of runs over HTTP: a server is started for each strategy.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run every strategy against every oracle on small examples, and print the table of what was learned."""
    columns = [name for name in COLUMNS if over_http or name != "http"]
    table = dict(_rows(columns, {"users": "all", "epsilon": epsilon}, users, seed))
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "users": users, "epsilon": epsilon, "rows": table}))
        return
    cells = [[name, *(_cell(name, column, row[column]) for column in columns)] for name, row in table.items()]
    head = ["strategy", *columns]
    rule = f"|{'---|' * len(head)}"
    echo_table("\n".join([_line(head), rule, *map(_line, cells)]), head, cells)


def _rows(columns: list[str], parameters: Parameters, users: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:

    for name, strategy in registry().items():
        whole = {**parameters, **SMALL.get(name, _ELSE)}
        yield name, {column: _run(column, strategy, whole, users, seed) for column in columns}


def _run(
    column: str,
    strategy: Strategy,
    parameters: Parameters,
    users: int,
    seed: int,
) -> dict[str, Any]:
    """One entry of the table: the error, and whether the strategy's promise is kept."""
    name, noisy, knows = COLUMNS[column]
    own: dict[str, int | bool | str] = {"eta": NOISE} if noisy else {}
    try:
        populations = _populations(strategy, parameters, own, seed, masks=name is OracleName.ADVERSARIAL)
        errors = list[WorstError]()
        for population in populations:
            setting = OracleSetting(strategy, parameters, population, users, seed, float(NOISE) if knows else 0.0)
            with ExitStack() as stack:
                learned = run(strategy, setting.own, _oracle(name, setting, stack)).hypothesis
            error = error_of(strategy.name, learned.value, population)
            met = None if error.value is None else is_kept(setting, learned.value, error.value, CLOSE)
            errors.append((error.value, met))
    except (ProtocolError, StrategyError) as error:
        return {"error": None, "learned": None, "reason": str(error)}
    worst, met = max(errors, key=lambda each: each[0] or 0.0)
    return {"error": worst, "learned": met, "reason": ""}


def _populations(
    strategy: Strategy, parameters: Parameters, own: Parameters, seed: int, *, masks: bool
) -> Sequence[Population]:
    """One population; before an adversary one for each mask, since a guess is right about one of them."""
    kind = FOR_STRATEGY.get(strategy.name, "")
    if own and not _has_noise(strategy.name):
        raise ProtocolError("have no labels", where="examples")
    several: list[Parameters] = [{**own, "a": a} for a in (0, 1)] if masks and kind == "masked-parity" else [own]
    return [for_strategy(strategy.name, parameters, each, seed) for each in several]


def _oracle(name: OracleName, setting: OracleSetting, stack: ExitStack) -> Oracle:

    if name is not OracleName.HTTP:
        return oracle_of(name, setting)
    # A server of its own: on a shared one it would wait for users that an earlier study left over.
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="askance-oracles-")))
    server = stack.enter_context(local_server(folder / "server", str(setting.parameters["epsilon"])))
    asked = setting.strategy.name, setting.parameters, setting.population, setting.users, setting.seed
    return stack.enter_context(Http(server, *asked, folder))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(name: str, column: str, entry: Mapping[str, Any]) -> str:
    if entry["reason"]:
        _, noisy, _ = COLUMNS[column]
        return "no labels" if noisy and not _has_noise(name) else "cannot"
    if entry["error"] is None:
        return "ran"
    return "learned" if entry["learned"] else f"error {entry['error']:.2g}"


def _has_noise(strategy: str) -> bool:
    """Whether the labels of a strategy's examples can be made wrong."""
    kind = FOR_STRATEGY.get(strategy, "")
    return not kind or "eta" in KINDS[kind].parameters
