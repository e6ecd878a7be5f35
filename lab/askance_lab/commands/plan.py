"""`askance plan`: how many users a strategy needs, by the papers' bound and by our own plan.

Whoever plans a study should see both: the bound of KLNRS11, Thm 5.7, as the text states it (with c = 1) and with the
constants that are proved, and the users that the server's planner would ask.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from askance_lab.commands.fleet import JsonOption
from askance_lab.commands.shared.parse_set import parse_set

if TYPE_CHECKING:
    from askance_lab.experiments.planned_users import PlannedRound

SCHEMA_VERSION: Final = 1

app = typer.Typer()


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
    from askance_lab.experiments.planned_users import planned_rounds  # noqa: PLC0415 - takes a while

    rounds = planned_rounds(strategy, {**asked, "epsilon": epsilon, "beta": beta})
    said = _said(strategy, asked, epsilon, beta, rounds)
    typer.echo(json.dumps(said) if as_json else _text(said))


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
