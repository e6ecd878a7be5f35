"""`askance plan`: the number of users that a strategy needs, by the papers' bound and by our own plan.

To plan a study one wants to see both: the bound of KLNRS11, Thm 5.7, as the text states it (with c = 1) and with the
constants that are proved, and the users that the server's planner would ask.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from askance_client.simulation.population import for_strategy
from askance_lab.commands.shared.options import (
    AlphaOption,
    DimensionOption,
    EpsilonOption,
    JsonOption,
    SetOption,
    StrategyArgument,
    examples,
)
from askance_lab.commands.shared.parse_set import parse_set
from askance_lab.commands.shared.tables import echo_table
from askance_lab.evaluation.weighted import WeightedExamples
from askance_lab.oracles.exact import Exact
from askance_lab.theory.local import users_sq_simulation_repaired, users_sq_simulation_stated
from askance_protocol.queries import CellQuery
from askance_server.core import planning
from askance_server.core import study as rounds
from askance_server.core.run import Run
from askance_server.core.strategy import Ask, Hypothesis, Strategy
from askance_server.strategies.registry import registry

SCHEMA_VERSION: Final = 1
_SAMPLE: Final = 20_000
"""Number of examples that stand for the population, so that an adaptive strategy can go on to its next round."""
_SEED: Final = 1

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """One round of a strategy, and the number of users that it takes."""

    queries: int
    """Number of queries as the papers count them: one for each cell of a partition."""
    tolerance: float
    stated: int
    repaired: int
    planned: int


@app.command(
    epilog=examples(
        "askance plan masked-parity --d 64",
        "askance plan mean --epsilon 0.5 --set tolerance=0.02",
        "askance plan conjunction --d 8 --alpha 0.1 --beta 0.01 --json",
    )
)
def plan(
    strategy: StrategyArgument,
    d: DimensionOption = None,
    epsilon: EpsilonOption = "1",
    alpha: AlphaOption = None,
    beta: Annotated[str, typer.Option("--beta", help="Probability with which the study may fail.")] = "0.05",
    parameter: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how many users a strategy needs: by the papers' bound, as stated and as repaired, and as the server plans."""
    own = {"d": d, "alpha": alpha, **parse_set(parameter or [])}
    asked = {name: value for name, value in own.items() if value is not None}
    planned = plan_of(strategy, {**asked, "epsilon": epsilon, "beta": beta})
    answer = _answer(strategy, asked, epsilon, beta, planned)
    if as_json:
        typer.echo(json.dumps(answer))
    else:
        _echo(answer)


def plan_of(name: str, parameters: dict[str, int | bool | str]) -> list[PlannedRound]:
    """Each round of a strategy over a population that stands for all."""
    strategies = registry()
    study = rounds.study_of(
        strategies, strategy=name, parameters=parameters, title="A plan", nonce="0" * 32, simulated=True
    )
    oracle = Exact(WeightedExamples(for_strategy(name, parameters, {}, _SEED).columns(range(_SAMPLE))))
    strategy, found = strategies[name], list[PlannedRound]()
    run = Run(strategy, planning.strategy_parameters(parameters))
    asks = run.step(None)
    while not isinstance(asks, Hypothesis):
        demand = planning.demand(study, asks, strategy.rounds)
        found.append(_round(asks, strategy, parameters, demand.target))
        asks = run.step(oracle.answer(asks))
    return found


def _round(
    asks: Sequence[Ask], strategy: Strategy, parameters: dict[str, int | bool | str], planned: int
) -> PlannedRound:
    """KLNRS11, Thm 5.7, on the queries of one round; β is shared by the rounds, as the planner shares it."""
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


def _answer(
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


def _echo(answer: dict[str, Any]) -> None:
    columns = ("round", "queries", "tolerance", "T5.7, c = 1", "T5.7, proved", "planned")
    cells = [
        [str(number), str(each["queries"]), f"{each['tolerance']:.4g}", *_users(each)]
        for number, each in enumerate(answer["rounds"], 1)
    ]
    cells.append(["in all", "", "", *_users(answer["users"])])
    lines = [
        f"{number:<7}{queries:>8}{tolerance:>11}{stated:>16}{repaired:>18}{planned:>14}"
        for number, queries, tolerance, stated, repaired, planned in (columns, *cells)
    ]
    title = f"{answer['strategy']} at ε = {answer['epsilon']}, β = {answer['beta']}: users needed"
    echo_table("\n".join((title, *lines)), columns, cells, title=title)


def _users(counts: dict[str, int]) -> list[str]:
    return [f"{counts[name]:,}" for name in ("stated", "repaired", "planned")]
