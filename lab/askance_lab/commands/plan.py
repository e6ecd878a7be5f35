"""`askance plan`: how many users a strategy needs, by the papers' bound and by our own plan.

Whoever plans a study should see both: the bound of KLNRS11, Thm 5.7, as the text states it (with c = 1) and with the
constants that are proved, and the users that the server's planner would ask.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from askance_lab.commands.fleet import JsonOption
from askance_lab.commands.shared.parse_set import parse_set

if TYPE_CHECKING:
    from askance_server.core.strategy import Ask, Strategy

SCHEMA_VERSION: Final = 1
_SAMPLE: Final = 20_000
"""Examples that stand for the population, so that an adaptive strategy can go on to its next round."""
_SEED: Final = 1

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """One round of a strategy, and the users that it takes."""

    queries: int
    """As the papers count them: one for each cell of a partition."""
    tolerance: float
    stated: int
    repaired: int
    planned: int


@app.command()
def plan(
    strategy: Annotated[str, typer.Argument(help="Which strategy: mean, conjunction, masked-parity, …")],
    d: Annotated[int | None, typer.Option("--d", min=1, help="The dimension of the examples.")] = None,
    epsilon: Annotated[str, typer.Option("--epsilon", help="ε of each report.")] = "1",
    alpha: Annotated[str | None, typer.Option("--alpha", help="The error that the hypothesis may have.")] = None,
    beta: Annotated[str, typer.Option("--beta", help="The probability with which the study may fail.")] = "0.05",
    parameter: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Another parameter.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say how many users a strategy needs: by the papers' bound, as stated and as repaired, and as planned."""
    own = {"d": d, "alpha": alpha, **parse_set(parameter or [])}
    asked = {name: value for name, value in own.items() if value is not None}
    rounds = plan_of(strategy, {**asked, "epsilon": epsilon, "beta": beta})
    said = _said(strategy, asked, epsilon, beta, rounds)
    typer.echo(json.dumps(said) if as_json else _text(said))


def plan_of(name: str, parameters: dict[str, int | bool | str]) -> list[PlannedRound]:
    """Each round of a strategy over a population that stands for all."""
    from askance_client.simulation.population import for_strategy  # noqa: PLC0415 - takes a while
    from askance_lab.evaluation.weighted import WeightedExamples  # noqa: PLC0415
    from askance_lab.oracles.exact import Exact  # noqa: PLC0415
    from askance_server.core import planning  # noqa: PLC0415
    from askance_server.core import study as rounds  # noqa: PLC0415
    from askance_server.core.run import Run  # noqa: PLC0415
    from askance_server.core.strategy import Hypothesis  # noqa: PLC0415
    from askance_server.strategies.registry import registry  # noqa: PLC0415

    strategies = registry()
    study = rounds.study_of(
        strategies, strategy=name, parameters=parameters, title="A plan", nonce="0" * 32, simulated=True
    )
    oracle = Exact(WeightedExamples(for_strategy(name, parameters, {}, _SEED).columns(range(_SAMPLE))))
    strategy, found = strategies[name], list[PlannedRound]()
    run = Run(strategy, planning.strategy_parameters(parameters))
    said = run.step(None)
    while not isinstance(said, Hypothesis):
        demand = planning.demand(study, said, strategy.rounds)
        found.append(_round(said, strategy, parameters, demand.target))
        said = run.step(oracle.answer(said))
    return found


def _round(
    asks: Sequence[Ask], strategy: Strategy, parameters: dict[str, int | bool | str], planned: int
) -> PlannedRound:
    """KLNRS11, Thm 5.7, on the queries of one round; β is shared by the rounds, as the planner shares it."""
    from askance_lab.theory.local import (  # noqa: PLC0415 - takes a while
        users_sq_simulation_repaired,
        users_sq_simulation_stated,
    )
    from askance_protocol.queries import CellQuery  # noqa: PLC0415
    from askance_server.core import planning  # noqa: PLC0415

    terms = planning.terms_of(parameters)
    queries = sum(ask.query.cells if isinstance(ask.query, CellQuery) else 1 for ask in asks)
    tolerance, epsilon = min(ask.tolerance for ask in asks), terms.epsilon / 1e6
    failure = terms.beta / strategy.rounds
    stated = users_sq_simulation_stated(
        queries=queries, bound=1, tolerance=tolerance, epsilon=epsilon, failure=failure, constant=1
    )
    repaired = users_sq_simulation_repaired(
        queries=queries, bound=1, tolerance=tolerance, epsilon=epsilon, failure=failure
    )
    return PlannedRound(queries, tolerance, stated, repaired, planned)


def _said(
    strategy: str, parameters: dict[str, Any], epsilon: str, beta: str, rounds: Sequence[PlannedRound]
) -> dict[str, Any]:
    names = ("stated", "repaired", "planned")
    return {
        "schema_version": SCHEMA_VERSION,
        "strategy": strategy,
        "parameters": parameters,
        "epsilon": epsilon,
        "beta": beta,
        "rounds": [{name: getattr(each, name) for name in ("queries", "tolerance", *names)} for each in rounds],
        "users": {name: sum(getattr(each, name) for each in rounds) for name in names},
    }


def _text(said: dict[str, Any]) -> str:
    head = f"{'round':<7}{'queries':>8}{'tolerance':>11}{'T5.7, c = 1':>16}{'T5.7, proved':>18}{'planned':>14}"
    rows = [
        f"{number:<7}{each['queries']:>8}{each['tolerance']:>11.4g}"
        f"{each['stated']:>16,}{each['repaired']:>18,}{each['planned']:>14,}"
        for number, each in enumerate(said["rounds"], 1)
    ]
    users = said["users"]
    total = f"{'in all':<26}{users['stated']:>16,}{users['repaired']:>18,}{users['planned']:>14,}"
    return "\n".join(
        (f"{said['strategy']} at ε = {said['epsilon']}, β = {said['beta']}: users needed", head, *rows, total)
    )
