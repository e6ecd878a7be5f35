"""`askance curator`: one learner or mechanism of the trusted curator, on made-up examples or on one's own table."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.options import JsonOption
from askance_lab.commands.shared.targets import terms_of
from askance_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from askance_lab.curator.catalogue import Mechanism
    from askance_lab.curator.inputs import MechanismInput
    from askance_lab.curator.privacy import Paid
    from askance_lab.theory.targets import Targets

SCHEMA_VERSION: Final = 1
MOST_USERS: Final = 10_000_000
"""All of them are in memory."""

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class CuratorOptions:
    """What is asked for on the command line."""

    name: str
    users: int | None
    d: int | None
    terms: Targets
    seed: int | None
    data: Path | None
    label: str | None
    column: str | None


@app.command()
def curator(
    name: Annotated[str, typer.Argument(help="Which: generic-parity, point, interval, …; list: all of them.")],
    users: Annotated[
        int | None,
        typer.Option("--users", min=1, max=MOST_USERS, help="How many made-up users; as many as its bound asks for."),
    ] = None,
    d: Annotated[int | None, typer.Option("--d", min=1, max=4096, help="Bits of a made-up example.")] = None,
    epsilon: Annotated[str, typer.Option("--epsilon", help="ε of the whole.")] = "1",
    delta: Annotated[str, typer.Option("--delta", help="δ of the whole, where it takes one.")] = "1e-6",
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="The error that is aimed at: 0.1, of some 0.2.")
    ] = None,
    beta: Annotated[float, typer.Option("--beta", help="The chance with which it may be missed.")] = 0.1,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of examples and noise. On a table without it: real noise.")
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="FILE", help="Your own table: a row a user.")] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="COL", help="The table's column to predict.")] = None,
    column: Annotated[
        str | None, typer.Option("--column", metavar="COL", help="The table's column of numbers, if there are several.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run what a trusted curator would, and say what it found, how wrong that is, and what it cost."""
    if name == "list":
        typer.echo(_list(as_json=as_json))
        return
    from askance_lab.curator.catalogue import entry  # noqa: PLC0415 - takes a while

    terms = terms_of(epsilon, delta, entry(name).alpha if alpha is None else alpha, beta)
    asked = CuratorOptions(name, users, d, terms, seed, data, label, column)
    _check(asked)
    begin = time.perf_counter()
    said = _run(asked)
    said["seconds"] = round(time.perf_counter() - begin, 3)
    typer.echo(json.dumps(said) if as_json else _text(said))


def _check(asked: CuratorOptions) -> None:
    table = {"--label": asked.label, "--column": asked.column}
    made_up = {"--users": asked.users, "--d": asked.d}
    for option, value in (table if asked.data is None else made_up).items():
        if value is not None:
            where = "goes with --data" if asked.data is None else "is the table's own"
            raise ProtocolError(where, where=option, remedy="leave it out")


def _run(asked: CuratorOptions) -> dict[str, Any]:
    from askance_lab.curator.catalogue import MechanismRun as Terms_  # noqa: PLC0415
    from askance_lab.curator.catalogue import entry  # noqa: PLC0415
    from askance_lab.curator.draws import below  # noqa: PLC0415 - takes a while
    from askance_protocol.randomness import OsRandom, SimulatedRandom  # noqa: PLC0415

    chosen = entry(asked.name)
    given = _given(asked, chosen)
    # Whose rows are real is owed real noise: with a seed it could be taken off again.
    real = asked.data is not None and asked.seed is None
    draw = below(OsRandom() if real else SimulatedRandom(asked.seed or 0, stream=3))
    try:
        found = chosen.run(given.database, Terms_(asked.terms, draw))
    except ProtocolError as error:
        if error.where not in ("examples", "database") or "at least" not in error.remedy:
            raise
        typer.echo(f"askance: {error}", err=True)
        raise typer.Exit(Exit.TOO_FEW_USERS) from None
    return _said(asked, chosen, given, found, real=real)


def _given(asked: CuratorOptions, chosen: Mechanism) -> MechanismInput:
    from askance_lab.curator.inputs import made_up, own  # noqa: PLC0415 - takes a while

    if asked.data is not None:
        labelled = chosen.off is None
        return own(asked.data, asked.label, asked.column, chosen.kind, asked.seed or 0, labelled=labelled)
    d = asked.d or chosen.d
    users = asked.users or _affordable(chosen.needed(d, asked.terms))
    return made_up(chosen.kind, d, asked.terms.alpha, users, asked.seed or 0)


def _affordable(users: int) -> int:
    what = f"would be {users:,}, as its bound asks for"
    if users > MOST_USERS:
        raise ProtocolError(what, where="--users", remedy=f"say how many, up to {MOST_USERS:,}, or allow a larger ε")
    return users


def _said(asked: CuratorOptions, chosen: Mechanism, given: MechanismInput, found: Any, *, real: bool) -> dict[str, Any]:
    from askance_lab.curator import render as words  # noqa: PLC0415 - takes a while

    d = asked.d or (chosen.d if asked.data is None else given.database.d)
    paid: Paid = chosen.paid(asked.terms, d)
    return {
        "schema_version": SCHEMA_VERSION,
        "name": asked.name,
        "by": chosen.by,
        "class": chosen.kind.value,
        "d": d,
        "users": len(given.database),
        "hypothesis": None if found is None else words.value(chosen, d, found),
        "text": words.text(chosen, given, d, found),
        "features": list(given.features),
        "error": _error(asked, chosen, given, found),
        "error_on": "fresh rows" if given.fresh else "the whole distribution" if chosen.off is None else "these users",
        "fresh": given.fresh,
        "epsilon": float(paid.epsilon),
        "delta": float(paid.delta),
        "simulated_noise": not real,
        "users_needed": _needed(chosen, d, asked.terms),
    }


def _needed(chosen: Mechanism, d: int, terms: Targets) -> int | None:
    """None: the theorem is about larger domains."""
    try:
        return chosen.needed(d, terms)
    except ProtocolError:
        return None


def _error(asked: CuratorOptions, chosen: Mechanism, given: MechanismInput, found: Any) -> float | None:
    """How far a mechanism is off is no less private than its input: it is told of made-up users only."""
    if found is None:
        return None
    if chosen.off is None:
        return given.error(found)
    return chosen.off(found, given.database) if asked.data is None else None


def _text(said: dict[str, Any]) -> str:
    error = "" if said["error"] is None else f"error {said['error']:.4g} on {said['error_on']} · "
    delta = f", δ = {said['delta']:g}" if said["delta"] else ""
    needed = "no bound at this d" if said["users_needed"] is None else f"{said['users_needed']:,} users by the bound"
    noise = " (noise from a seed)" if said["simulated_noise"] else ""
    return (
        f"{said['name']} ({said['by']}): {said['text']}\n"
        f"{error}{said['users']:,} users · ε = {said['epsilon']:g}{delta} paid{noise} · "
        f"{needed} · {said['seconds']:.2f} s"
    )


def _list(*, as_json: bool) -> str:
    from askance_lab.curator.catalogue import CATALOGUE  # noqa: PLC0415 - takes a while

    if as_json:
        rows = [{"name": name, "by": each.by, "summary": each.summary} for name, each in CATALOGUE.items()]
        return json.dumps({"schema_version": SCHEMA_VERSION, "curator": rows})
    return "\n".join(f"{name:<22} {each.by:<32} {each.summary}" for name, each in CATALOGUE.items())
