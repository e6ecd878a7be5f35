"""`askance curator`: one learner or mechanism of the trusted curator, on made-up examples or on one's own table."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from askance_lab.commands.shared.options import JsonOption
from askance_lab.commands.shared.targets import terms_of
from askance_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from askance_lab.curator.concepts import Answer, Database
    from askance_lab.curator.inputs import MechanismInput
    from askance_lab.curator.mechanism import Mechanism
    from askance_lab.theory.targets import Targets

SCHEMA_VERSION: Final = 1
MOST_USERS: Final = 10_000_000
"""All of them are in memory."""

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class CuratorOptions:
    """The options given on the command line."""

    users: int | None
    d: int | None
    targets: Targets
    seed: int | None
    data: Path | None
    label: str | None
    column: str | None


@dataclass(frozen=True, slots=True)
class CuratorResult:
    """What a run found, how wrong it is, and what it cost: the fields of its JSON, in their order."""

    schema_version: int
    name: str
    by: str
    class_: str
    d: int
    users: int
    hypothesis: Mapping[str, object] | None
    text: str
    features: list[str]
    error: float | None
    error_on: str
    fresh: int
    epsilon: float
    delta: float
    simulated_noise: bool
    users_needed: int | None
    seconds: float = 0.0

    def to_json(self) -> dict[str, object]:
        """The result as one JSON object."""
        return {name.rstrip("_"): value for name, value in asdict(self).items()}

    def lines(self) -> str:
        """The result in two lines for a person."""
        error = "" if self.error is None else f"error {self.error:.4g} on {self.error_on} · "
        delta = f", δ = {self.delta:g}" if self.delta else ""
        needed = "no bound at this d" if self.users_needed is None else f"{self.users_needed:,} users by the bound"
        noise = " (noise from a seed)" if self.simulated_noise else ""
        return (
            f"{self.name} ({self.by}): {self.text}\n"
            f"{error}{self.users:,} users · ε = {self.epsilon:g}{delta} paid{noise} · "
            f"{needed} · {self.seconds:.2f} s"
        )


@app.command()
def curator(
    name: Annotated[str, typer.Argument(help="The mechanism to run: generic-parity, point, …; `list` shows all.")],
    users: Annotated[
        int | None,
        typer.Option(
            "--users", min=1, max=MOST_USERS, help="Number of made-up users. Default: as many as its bound asks for."
        ),
    ] = None,
    d: Annotated[int | None, typer.Option("--d", min=1, max=4096, help="Bits of a made-up example.")] = None,
    epsilon: Annotated[str, typer.Option("--epsilon", help="Privacy budget ε of the whole run.")] = "1",
    delta: Annotated[
        str, typer.Option("--delta", help="Privacy budget δ of the whole run, for mechanisms that use one.")
    ] = "1e-6",
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="Error to aim at. Default: 0.1, or 0.2 for some sanitizers.")
    ] = None,
    beta: Annotated[float, typer.Option("--beta", help="Probability with which the error may be missed.")] = 0.1,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of examples and noise. Without it, a table gets real noise."),
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="FILE", help="Your own table, one row a user.")] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="COL", help="Column of the table to predict.")] = None,
    column: Annotated[
        str | None,
        typer.Option("--column", metavar="COL", help="Column of numbers to use, if the table has several."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a mechanism of the trusted curator; print what it found, how wrong that is, and what it cost."""
    if name == "list":
        typer.echo(_list(as_json=as_json))
        return
    from askance_lab.curator.registry import mechanism  # noqa: PLC0415 - takes a while

    chosen = mechanism(name)
    targets = terms_of(epsilon, delta, chosen.alpha if alpha is None else alpha, beta)
    options = CuratorOptions(users, d, targets, seed, data, label, column)
    _refuse_misplaced(options)
    begin = time.perf_counter()
    result = replace(_run(chosen, options), seconds=round(time.perf_counter() - begin, 3))
    typer.echo(json.dumps(result.to_json()) if as_json else result.lines())


def _refuse_misplaced(options: CuratorOptions) -> None:
    """Options of tables go with a table, those of made-up users without one."""
    table = {"--label": options.label, "--column": options.column}
    made_up = {"--users": options.users, "--d": options.d}
    for option, value in (table if options.data is None else made_up).items():
        if value is not None:
            what = "goes with --data" if options.data is None else "is the table's own"
            raise ProtocolError(what, where=option, remedy="leave it out")


def _run(chosen: Mechanism[Database, Answer], options: CuratorOptions) -> CuratorResult:
    from askance_lab.curator.draws import below  # noqa: PLC0415 - takes a while
    from askance_lab.curator.render import as_json, as_text  # noqa: PLC0415
    from askance_protocol.randomness import OsRandom, SimulatedRandom  # noqa: PLC0415

    given = _input(chosen, options)
    # Real rows get real noise: noise from a seed could be taken off again.
    real = options.data is not None and options.seed is None
    draw = below(OsRandom() if real else SimulatedRandom(options.seed or 0, stream=3))
    found = chosen.run(given.database, options.targets, draw)
    d = options.d or (chosen.d if options.data is None else given.database.d)
    paid = chosen.paid(options.targets, d)
    return CuratorResult(
        schema_version=SCHEMA_VERSION,
        name=chosen.name,
        by=chosen.by,
        class_=chosen.concepts.name,
        d=d,
        users=len(given.database),
        hypothesis=as_json(chosen, d, found),
        text=as_text(chosen, d, found, given.names),
        features=list(given.names.features),
        error=_error(chosen, options, given, found),
        error_on="fresh rows" if given.fresh else "the whole distribution" if chosen.off is None else "these users",
        fresh=given.fresh,
        epsilon=float(paid.epsilon),
        delta=float(paid.delta),
        simulated_noise=not real,
        users_needed=_needed(chosen, d, options.targets),
    )


def _input(chosen: Mechanism[Database, Answer], options: CuratorOptions) -> MechanismInput[Database, Answer]:
    from askance_lab.curator.inputs import made_up, own  # noqa: PLC0415 - takes a while

    seed = options.seed or 0
    if options.data is not None:
        return own(chosen, options.data, options.label, options.column, seed)
    d = options.d or chosen.d
    users = options.users or _affordable(chosen.needed(d, options.targets))
    return made_up(chosen, d, options.targets.alpha, users, seed)


def _affordable(users: int) -> int:
    what = f"would be {users:,}, as its bound asks for"
    if users > MOST_USERS:
        raise ProtocolError(what, where="--users", remedy=f"say how many, up to {MOST_USERS:,}, or allow a larger ε")
    return users


def _needed(chosen: Mechanism[Database, Answer], d: int, targets: Targets) -> int | None:
    """The users that its bound asks for; None where the theorem is about larger domains."""
    try:
        return chosen.needed(d, targets)
    except ProtocolError:
        return None


def _error(
    chosen: Mechanism[Database, Answer],
    options: CuratorOptions,
    given: MechanismInput[Database, Answer],
    found: Answer | None,
) -> float | None:
    """How far a release is off is no less private than its input: it is told of made-up users only."""
    if found is None:
        return None
    if chosen.off is None:
        return given.error(found)
    return chosen.off(found, given.database) if options.data is None else None


def _list(*, as_json: bool) -> str:
    from askance_lab.curator.registry import mechanisms  # noqa: PLC0415 - takes a while

    known = mechanisms().values()
    if as_json:
        rows = [{"name": each.name, "by": each.by, "summary": each.summary} for each in known]
        return json.dumps({"schema_version": SCHEMA_VERSION, "curator": rows})
    return "\n".join(f"{each.name:<22} {each.by:<32} {each.summary}" for each in known)
