"""`askance plan`: the number of users that a strategy needs, by the papers' bound and by our own plan.

To plan a study one wants to see both: the bound of KLNRS11, Thm 5.7, as the text states it (with c = 1) and with the
constants that are proved, and the users that the server's planner would ask.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from askance_lab.commands.shared.options import (
    AlphaOption,
    DimensionOption,
    EpsilonOption,
    JsonOption,
    PopulationOption,
    SetOption,
    StrategyArgument,
    examples,
)
from askance_lab.commands.shared.parse_set import parse_set
from askance_lab.commands.shared.tables import echo_table
from askance_lab.experiments.planned_users import PlannedRound, planned_rounds

SCHEMA_VERSION: Final = 1

app = typer.Typer()


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
    population: PopulationOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how many users a strategy needs: by the papers' bound, as stated and as repaired, and as the server plans."""
    own = {"d": d, "alpha": alpha, **parse_set(parameter or [])}
    asked = {name: value for name, value in own.items() if value is not None}
    planned = planned_rounds(strategy, {**asked, "epsilon": epsilon, "beta": beta}, population)
    answer = _answer(strategy, asked, epsilon, beta, planned)
    if as_json:
        typer.echo(json.dumps(answer))
    else:
        _echo(answer)


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
        "rounds": [
            {name: getattr(each, name) for name in ("queries", "tolerance", *names)}
            | {"liars": [{"share": one.share, "shift": one.shift} for one in each.liars]}
            for each in rounds
        ],
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
    typer.echo(_liars(answer["rounds"]))


def _liars(rounds: Sequence[dict[str, Any]]) -> str:
    """One sentence on the worst round: more users make it no better, so it is no column of the users needed."""
    worst = max((each["liars"] for each in rounds), key=lambda liars: liars[0]["shift"])
    said = ", ".join(f"{one['share']:.0%} of them by up to {one['shift']:.3g}" for one in worst)
    return f"Users who lie shift an estimate, however many users there are: {said}."


def _users(counts: dict[str, int]) -> list[str]:
    return [f"{counts[name]:,}" for name in ("stated", "repaired", "planned")]
