"""`askance curator`: one learner or mechanism of the trusted curator, on made-up examples or on one's own table."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Final

import typer

from askance_lab.commands.shared.completion import words_of
from askance_lab.commands.shared.options import (
    DataOption,
    JsonOption,
    LabelOption,
    PositiveOption,
    SchemaOption,
    examples,
)
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.table_options import (
    ColumnOption,
    HighOption,
    LowOption,
    MissingOption,
    TableOptions,
)
from askance_lab.commands.shared.targets import read_targets
from askance_lab.curator import render
from askance_lab.curator.concepts import Answer, Database
from askance_lab.curator.draws import Below, below
from askance_lab.curator.held_out import release_share
from askance_lab.curator.inputs import MechanismInput, made_up, own
from askance_lab.curator.mechanism import Mechanism, sure
from askance_lab.curator.registry import mechanism, mechanisms
from askance_lab.theory.targets import Targets
from askance_protocol.errors import ProtocolError
from askance_protocol.progress import Tell
from askance_protocol.randomness import OsRandom, SimulatedRandom
from askance_protocol.text import counted

SCHEMA_VERSION: Final = 1
MOST_USERS: Final = 10_000_000
"""The most made-up users that a run accepts: all of them are in memory."""

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class CuratorOptions:
    """The options given on the command line."""

    users: int | None
    d: int | None
    targets: Targets
    seed: int | None
    table: TableOptions

    @property
    def not_private(self) -> tuple[str, ...]:
        """Why no ε covers what is printed about real rows; empty if one does, or if there are none."""
        if self.table.data is None:
            return ()
        reasons = {
            "the schema was inferred from the rows: declare it with --schema": self.table.schema is None,
            "rows with a gap are left out, so that how many are left tells of them: give --missing VALUE": (
                self.table.skips
            ),
            "the noise comes from a seed, and could be taken off: leave out --seed": self.seed is not None,
        }
        return tuple(reason for reason, holds in reasons.items() if holds)


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
    error_interval: tuple[float, float] | None
    error_on: str
    fresh: int
    epsilon: float | None
    delta: float | None
    protects: str
    not_private: tuple[str, ...]
    simulated_noise: bool
    users_needed: int | None
    seconds: float | None = None
    """Not told of real rows where ε is claimed: some learners take longer on some of them."""

    def to_json(self) -> dict[str, object]:
        """The result as one JSON object."""
        return {name.rstrip("_"): value for name, value in asdict(self).items()}

    def lines(self) -> str:
        """The result in two lines for a person."""
        parts = [
            self._error(),
            counted(self.users, "user"),
            self._price(),
            "no bound is proved here"
            if self.users_needed is None
            else f"{counted(self.users_needed, 'user')} by the bound",
            "" if self.seconds is None else f"{self.seconds:.2f} s",
        ]
        warning = "".join(f"\nNot private: {reason}." for reason in self.not_private)
        return f"{self.name} ({self.by}): {self.text}\n{' · '.join(part for part in parts if part)}{warning}"

    def _error(self) -> str:
        if self.error is None:
            return ""
        low, high = self.error_interval or (None, None)
        inside = "" if low is None else f" (from {low:.4g} to {high:.4g})"
        return f"error {self.error:.4g}{inside} on {self.error_on}"

    def _price(self) -> str:
        if self.epsilon is None:
            return "no ε is claimed"
        delta = f", δ = {self.delta:g}" if self.delta else ""
        noise = " (noise from a seed)" if self.simulated_noise else ""
        return f"ε = {self.epsilon:g}{delta} paid{' for a label' if self.protects == 'labels' else ''}{noise}"


@app.command(
    epilog=examples(
        "askance curator list",
        "askance curator generic-parity --d 8 --epsilon 0.5",
        "askance curator generic-interval --data people.csv --schema people.json --positive yes --column age",
    )
)
def curator(
    name: Annotated[
        str,
        typer.Argument(
            help="Name of the mechanism: generic-parity, point, interval, …; `list` prints all.",
            autocompletion=words_of("askance_lab.curator.registry", "mechanisms", "list"),
        ),
    ],
    users: Annotated[
        int | None,
        typer.Option(
            "--users",
            min=1,
            max=MOST_USERS,
            help="Number of simulated users.  [default: as many as the theorem's bound asks for]",
        ),
    ] = None,
    d: Annotated[
        int | None,
        typer.Option(
            "--d",
            min=1,
            max=4096,
            help="Number of bits of a simulated user's example.  [default: what suits the mechanism]",
        ),
    ] = None,
    epsilon: Annotated[
        str,
        typer.Option("--epsilon", help="Privacy parameter ε that the whole run may spend."),
    ] = "1",
    delta: Annotated[
        str,
        typer.Option("--delta", help="Privacy parameter δ that the whole run may spend, for mechanisms that use one."),
    ] = "1e-6",
    alpha: Annotated[
        float | None,
        typer.Option(
            "--alpha", help="Largest error that the answer should have.  [default: 0.1; 0.2 for some sanitizers]"
        ),
    ] = None,
    beta: Annotated[float, typer.Option("--beta", help="Probability with which the error may exceed --alpha.")] = 0.1,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            help="Seed of simulated users and of noise. Without it the noise on --data is real, and only then private.",
        ),
    ] = None,
    data: DataOption = None,
    schema: SchemaOption = None,
    label: LabelOption = None,
    positive: PositiveOption = None,
    column: ColumnOption = None,
    low: LowOption = None,
    high: HighOption = None,
    missing: MissingOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run one mechanism of the trusted curator; print its answer, how wrong that is, and the privacy it cost.

    All that it prints about the rows of --data is paid for by ε and δ, if --schema declares what they may hold: the
    error on rows held out has noise too. Otherwise no ε is claimed.
    """
    if name == "list":
        typer.echo(_list(as_json=as_json))
        return
    chosen = mechanism(name)
    targets = read_targets(epsilon, delta, chosen.alpha if alpha is None else alpha, beta)
    options = CuratorOptions(
        users, d, targets, seed, TableOptions.of(data, schema, column, low, high, missing, label, positive)
    )
    _refuse_misplaced(options)
    begin = time.perf_counter()
    with ProgressBar(chosen.name, quiet=True) as bar:
        result = _run(chosen, options, bar.tell)
    if data is None or result.not_private:
        result = replace(result, seconds=round(time.perf_counter() - begin, 3))
    typer.echo(json.dumps(result.to_json()) if as_json else result.lines())


def _refuse_misplaced(options: CuratorOptions) -> None:
    """Refuse the options of tables without a table, and those of simulated users with one."""
    options.table.check_table()
    for option, value in {"--users": options.users, "--d": options.d}.items():
        if value is not None and options.table.data is not None:
            raise ProtocolError("is given by the table", where=option, remedy="leave it out")


def _run(chosen: Mechanism[Database, Answer], options: CuratorOptions, tell: Tell) -> CuratorResult:
    given = _input(chosen, options, tell)
    # Real rows get real noise: noise from a seed could be taken off again.
    real = options.table.data is not None and options.seed is None
    draw = below(OsRandom() if real else SimulatedRandom(options.seed or 0, stream=3))
    # Nobody knows when one of these ends: how long it takes may depend on rows and noise.
    tell(f"running {chosen.name}", 0, 0)
    answer = chosen.run(given.database, options.targets, draw)
    tell("measuring its error", 0, 0)
    d = options.d or (chosen.d if options.table.data is None else given.database.d)
    paid = chosen.paid(options.targets, d)
    error, interval = _error(chosen, options, given, answer, draw)
    return CuratorResult(
        schema_version=SCHEMA_VERSION,
        name=chosen.name,
        by=chosen.by,
        class_=chosen.concepts.name,
        d=d,
        users=len(given.database),
        hypothesis=render.as_json(chosen, d, answer),
        text=render.as_text(chosen, d, answer, given.names),
        features=list(given.names.features),
        error=error,
        error_interval=interval,
        error_on="fresh rows" if given.fresh else "the whole distribution" if chosen.off is None else "these users",
        fresh=given.fresh,
        epsilon=None if options.not_private else float(paid.epsilon),
        delta=None if options.not_private else float(paid.delta),
        protects=chosen.protects,
        not_private=options.not_private,
        simulated_noise=not real,
        users_needed=_users_needed(chosen, options, d),
    )


def _input(
    chosen: Mechanism[Database, Answer], options: CuratorOptions, tell: Tell
) -> MechanismInput[Database, Answer]:
    seed = options.seed or 0
    if options.table.data is not None:
        columns = options.table.columns or ()
        return own(chosen, options.table.table(tell).rows(), columns[0] if len(columns) == 1 else None, seed)
    d = options.d or chosen.d
    users = options.users or _affordable(chosen.needed(d, options.targets))
    tell(f"making up {users:,} users", 0, 0)
    return made_up(chosen, d, options.targets.alpha, users, seed)


def _affordable(users: int) -> int:
    what = f"would be {users:,}, as its bound asks for"
    if users > MOST_USERS:
        raise ProtocolError(what, where="--users", remedy=f"say how many, up to {MOST_USERS:,}, or allow a larger ε")
    return users


def _users_needed(chosen: Mechanism[Database, Answer], options: CuratorOptions, d: int) -> int | None:
    """Number of users that the theorem's bound asks for; None if it is about larger domains, or not about real rows."""
    try:
        return chosen.needed(d, options.targets) if options.table.data is None else sure(chosen, d, options.targets)
    except ProtocolError:
        return None


def _error(
    chosen: Mechanism[Database, Answer],
    options: CuratorOptions,
    given: MechanismInput[Database, Answer],
    answer: Answer | None,
    draw: Below,
) -> tuple[float | None, tuple[float, float] | None]:
    """Error of the answer, and its interval if it is measured; unknown for a release from a real table.

    There it is as private as the rows: so is the error of a hypothesis, which is therefore released with noise.
    """
    if answer is None:
        return None, None
    mistakes = given.mistakes(answer)
    if mistakes is not None:
        released = release_share(mistakes, given.fresh, epsilon=options.targets.epsilon, draw=draw)
        return released.value, released.interval
    if chosen.off is None or options.table.data is not None:
        return given.error(answer), None
    return chosen.off(answer, given.database), None


def _list(*, as_json: bool) -> str:
    known = mechanisms().values()
    if as_json:
        rows = [{"name": each.name, "by": each.by, "summary": each.summary} for each in known]
        return json.dumps({"schema_version": SCHEMA_VERSION, "curator": rows})
    return "\n".join(f"{each.name:<22} {each.by:<32} {each.summary}" for each in known)
