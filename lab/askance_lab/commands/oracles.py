"""`askance oracles`: every strategy against every oracle, on small examples, as a table."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from askance_lab.commands.fleet import JsonOption
from askance_lab.oracles.names import OracleName
from askance_lab.remote.local_server import local_server
from askance_protocol.errors import ProtocolError
from askance_protocol.parameters import Parameters

if TYPE_CHECKING:
    from askance_client.population import Population
    from askance_lab.oracles.catalogue import OracleSetting
    from askance_lab.oracles.oracle import Oracle
    from askance_server.core.strategy import Strategy

WorstError: TypeAlias = tuple[float | None, bool | None]
"""How large it is, and whether that is what was promised."""

SCHEMA_VERSION: Final = 1
NOISE: Final = "0.3"
CLOSE: Final = 0.05
"""An error that small counts as learned where a strategy promises nothing."""

SMALL: Final[Mapping[str, Parameters]] = {
    "mean": {},
    "histogram": {"cells": 4},
    "conjunction": {"d": 4, "alpha": "0.2"},
    "decision-list": {"d": 4, "alpha": "0.2"},
    "kmeans": {"d": 2, "k": 3},
}
"""What each strategy is given; others, four dimensions."""
_ELSE: Final[Parameters] = {"d": 4}

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
"""An oracle, whether labels are noisy, and whether it knows so."""


def oracles(
    users: Annotated[int, typer.Option("--users", min=1, help="How many users each run asks.")] = 200_000,
    epsilon: Annotated[str, typer.Option("--epsilon", help="ε of each report.")] = "1",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which populations, and which noise.")] = 1,
    over_http: Annotated[bool, typer.Option("--http", help="Over HTTP, too: a server for each strategy.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run every strategy against every oracle on small examples, and print the table of what was learned."""
    columns = [name for name in COLUMNS if over_http or name != "http"]
    table = dict(_rows(columns, {"users": "all", "epsilon": epsilon}, users, seed))
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "users": users, "epsilon": epsilon, "rows": table}))
        return
    typer.echo(f"| strategy | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name, row in table.items():
        typer.echo(f"| {name} | {' | '.join(_cell(row[column]) for column in columns)} |")


def _rows(columns: list[str], parameters: Parameters, users: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    from askance_server.strategies.registry import registry  # noqa: PLC0415 - takes a while

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
    from askance_lab.evaluation.error import error_of  # noqa: PLC0415 - takes a while
    from askance_lab.oracles.catalogue import OracleSetting, is_kept  # noqa: PLC0415
    from askance_lab.oracles.oracle import run  # noqa: PLC0415
    from askance_server.core.run import StrategyError  # noqa: PLC0415

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
    """One; before an adversary both masks, of which a guess meets one."""
    from askance_client.simulation.population import for_strategy  # noqa: PLC0415 - takes a while
    from askance_client.simulation.population.kinds import FOR_STRATEGY, KINDS  # noqa: PLC0415

    kind = FOR_STRATEGY.get(strategy.name, "")
    if own and kind and "eta" not in KINDS[kind].parameters:
        raise ProtocolError("have no labels", where="examples")
    several: list[Parameters] = [{**own, "a": a} for a in (0, 1)] if masks and kind == "masked-parity" else [own]
    return [for_strategy(strategy.name, parameters, each, seed) for each in several]


def _oracle(name: OracleName, setting: OracleSetting, stack: ExitStack) -> Oracle:
    from askance_lab.oracles.catalogue import oracle_of  # noqa: PLC0415 - takes a while
    from askance_lab.oracles.http import Http  # noqa: PLC0415

    if name is not OracleName.HTTP:
        return oracle_of(name, setting)
    # A server of its own: on another's, users whom an earlier study left over would be waited for.
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="askance-oracles-")))
    server = stack.enter_context(local_server(folder / "server", str(setting.parameters["epsilon"])))
    whom = setting.strategy.name, setting.parameters, setting.population, setting.users, setting.seed
    return stack.enter_context(Http(server, *whom, folder))


def _cell(entry: Mapping[str, Any]) -> str:
    if entry["reason"]:
        return "no labels" if "no label" in entry["reason"] else "cannot"
    if entry["error"] is None:
        return "ran"
    return "learned" if entry["learned"] else f"error {entry['error']:.2g}"
