"""`askance run`: one strategy against one oracle, from its first round to what it learned."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final, cast

import typer

from askance_client.simulation.population.synthetic import noise
from askance_lab.commands.shared.completion import words
from askance_lab.commands.shared.engine_options import ClusterOption, EngineOption, WorkersOption, shared_work
from askance_lab.commands.shared.estimates_text import estimate_lines, most_estimates
from askance_lab.commands.shared.exit_codes import EXIT_OF, Exit, say
from askance_lab.commands.shared.options import (
    MOST_USERS,
    AlphaOption,
    AskOption,
    BetaOption,
    CountsOption,
    DataOption,
    DimensionOption,
    EnrolmentOption,
    EpsilonOption,
    JsonOption,
    LabelOption,
    OperatorOption,
    PopulationOption,
    PositiveOption,
    SchemaOption,
    SetOption,
    StrategyArgument,
    ToleranceOption,
    examples,
    parse_asks,
    read_token,
)
from askance_lab.commands.shared.parse_set import parse_set
from askance_lab.commands.shared.progress import CountedEngine, ProgressBar
from askance_lab.commands.shared.table_options import (
    ColumnOption,
    HighOption,
    LowOption,
    MissingOption,
    TableOptions,
)
from askance_lab.commands.shared.window import wrapped
from askance_lab.data.made_up import made_up, split_parameters
from askance_lab.data.table_population import OwnTable, table_population
from askance_lab.engines import Engine
from askance_lab.evaluation.proportion import CONFIDENCE
from askance_lab.experiments.kept_run import KeptRun
from askance_lab.experiments.plan_of_run import PlanOfRun, plan_of_run
from askance_lab.experiments.single_run import SingleRun, run_once
from askance_lab.oracles.local import study_for
from askance_lab.oracles.shared.bshouty_feldman import bshouty_feldman
from askance_lab.oracles.shared.registry import oracle_named, oracle_names
from askance_lab.oracles.shared.setting import OracleKind, OracleSetting
from askance_lab.remote.local_server import LocalServer
from askance_protocol.budget import to_text
from askance_protocol.errors import UsageError
from askance_protocol.parameters import Parameters
from askance_protocol.progress import Tell
from askance_protocol.schema import Schema
from askance_protocol.text import counted, one_of, quoted
from askance_server.core import planning
from askance_server.core.adapted import reasked
from askance_server.core.estimates import MOST_ESTIMATES
from askance_server.core.strategy import Strategy
from askance_server.strategies.registry import registry

SCHEMA_VERSION: Final = 2
"""Version 2: `error_known` is exactly, held-out or null, and never of examples that were learned from."""
_KEPT: Final = 5
"""One row in this many of a table is kept from the learner, to measure the error on."""
_REPORTING: Final = ("local", "http")
"""Oracles whose answers are made of a study's reports: it is planned, and undoes noise of labels that it is told of."""

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of the command line."""

    strategy: Strategy
    parameters: Parameters
    """Parameters of the study: the strategy's own, and the planner's."""
    own: Parameters
    """Parameters of the simulated users that are none of the study's."""
    population: str | None
    users: int | None
    seed: int | None
    """None: 1 for whatever is made up, and real noise for the rows of a table."""
    eta: str | None
    oracle: OracleKind
    engine: str
    workers: int
    counts: bool
    table: TableOptions
    server: LocalServer | None
    cluster: str | None = None
    keep: Path | None = None

    @property
    def number(self) -> int:
        """Seed of whatever is made up."""
        return 1 if self.seed is None else self.seed

    @property
    def document(self) -> dict[str, Any]:
        """Whatever decides how simulated users report, as JSON."""
        return {
            "strategy": self.strategy.name,
            "parameters": {name: str(value) for name, value in sorted({**self.own, **self.parameters}.items())},
            "population": self.population,
            "users": self.users,
            "seed": self.number,
            "eta": self.eta,
            "version": version("askance"),
        }

    def not_private(self, table: OwnTable | None) -> list[str]:
        """Why no ε covers what is printed about real rows; empty if one does, or if there are none."""
        reasons = {
            "the schema was inferred from the rows: declare it with --schema, the label's value with --positive": table
            is not None
            and table.inferred,
            "users with a gap are left out, which tells that they have one: leave out --missing skip": self.table.skips,
            "the noise comes from a seed, and could be taken off: leave out --seed": self.seed is not None,
            f"--oracle {self.oracle.name} has no real noise: use --oracle local": self.oracle.name != "local",
        }
        return [] if table is None else [reason for reason, holds in reasons.items() if holds]


@app.command(
    epilog=examples(
        "askance run masked-parity --d 4 --users 200000",
        "askance run masked-parity --d 64 --users 1000000000000 --counts",
        'askance run survey --ask "mean(minutes, 0, 120)" --ask "share(plan = \'pro\')" --users 20000',
        "askance run decision-tree --data people.csv --schema people.json --positive yes --set depth=2 --json",
    )
)
def run(
    strategy: StrategyArgument,
    users: Annotated[
        int | None,
        typer.Option(
            "--users", min=1, max=MOST_USERS, help="Number of users to ask.  [default with --data: four rows in five]"
        ),
    ] = None,
    d: DimensionOption = None,
    epsilon: EpsilonOption = "1",
    alpha: AlphaOption = None,
    beta: BetaOption = None,
    eta: Annotated[
        str | None, typer.Option("--eta", help="Share of the users' labels that are wrong, below 0.5: it is undone.")
    ] = None,
    eta_most: Annotated[
        str | None,
        typer.Option(
            "--eta-most",
            help="Do not tell the strategy --eta, but that no more than this share of the labels is wrong: it learns "
            "for each rate, and takes the hypothesis that the fewest labels disagree with.",
        ),
    ] = None,
    tolerance: ToleranceOption = None,
    ask: AskOption = None,
    more: SetOption = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            help="Seed of simulated users and of noise; the same seed repeats a run. Without it the noise on --data is "
            "real, and only then private.  [default: 1 for simulated users]",
        ),
    ] = None,
    oracle: Annotated[
        str | None,
        typer.Option(
            "--oracle",
            metavar="NAME",
            autocompletion=words(*oracle_names()),
            help=f"Who answers the strategy's queries: {', '.join(oracle_names())}.  "
            "[default: local; http with --server]",
        ),
    ] = None,
    boolean: Annotated[
        bool,
        typer.Option("--boolean", help="Ask Boolean queries only, in place of real-valued ones (Bshouty, Feldman)."),
    ] = False,
    simulated_reports: Annotated[
        int | None,
        typer.Option(
            "--simulated-reports",
            min=1,
            max=planning.MOST_SIMULATED,
            help="Let nobody report to the strategy: make up so many reports of its local protocol by statistical "
            "queries, which the oracle answers (KLNRS11, Thm 5.14).",
        ),
    ] = None,
    population: PopulationOption = None,
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    counts: CountsOption = False,
    cluster: ClusterOption = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="FILE",
            help="File that keeps what simulated users have reported, round by round: the same call goes on with it.",
        ),
    ] = None,
    data: DataOption = None,
    schema: SchemaOption = None,
    column: ColumnOption = None,
    low: LowOption = None,
    high: HighOption = None,
    missing: MissingOption = None,
    label: LabelOption = None,
    positive: PositiveOption = None,
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
    kind = oracle_named(oracle or ("local" if server is None else "http"))
    runs = _strategy(strategy, boolean=boolean, kind=kind)
    own = {"d": d, "alpha": alpha, "beta": beta, "tolerance": tolerance, "simulated_reports": simulated_reports}
    own |= {"eta_most": eta_most}
    own |= {**parse_set(more or []), **parse_asks(ask)}
    given = {name: value for name, value in own.items() if value is not None}
    # What users report is corrected by what their study says of their labels; the other oracles are told by `_setting`.
    told = eta is not None and eta_most is None and kind.name in _REPORTING
    noisy = {"eta": eta} if told and eta is not None else {}
    study: Parameters = {"users": "all", "epsilon": epsilon, **noisy, **given}
    others: Parameters = {}
    if data is None:
        study, others = split_parameters(runs, study, population)
    if server is not None and kind.name != "http":
        raise UsageError(f"does not go with --oracle {kind.name}", where="--server", remedy="leave one out")
    found = _server(server, operator, enrolment)
    rows = TableOptions.of(data, schema, column, low, high, missing, label, positive)
    options = RunOptions(
        runs, study, others, population, users, seed, eta, kind, engine, workers, counts, rows, found, cluster, keep
    )
    _check(options)
    begin = time.perf_counter()
    with (
        ProgressBar("users", quiet=keep is None) as bar,
        shared_work(engine, workers, cluster) as processes,
        _keeping(processes, options) as asked,
    ):
        setting, table = _setting(options, CountedEngine(asked, bar, runs.rounds), bar.tell)
        bar.begin("users")
        ended = run_once(replace(setting, tell=_telling(bar, setting.users)), kind)
    answer = _answer(options, setting, ended, table) | {"seconds": round(time.perf_counter() - begin, 3)}
    planned = _planned(options, setting, boolean=boolean)
    answer["planned"] = None if planned is None else planned.to_json()
    told = "" if planned is None else planned.sentence
    typer.echo(json.dumps(answer) if as_json else _text(runs, answer, ended, told))
    raise typer.Exit(Exit.OK if ended.code is None else EXIT_OF[ended.code])


def _telling(bar: ProgressBar, users: int) -> Callable[[int], None]:
    """Show how many users have answered, where an oracle knows."""
    return lambda answered: bar.tell("reports", answered, users)


@contextmanager
def _keeping(processes: Engine, options: RunOptions) -> Generator[Engine]:
    """The engine itself, or with --keep one whose tallies are kept."""
    if options.keep is None:
        yield processes
        return
    try:
        with KeptRun(processes, options.keep, options.document) as kept:
            yield cast("Engine", kept)  # a study hands it nothing but collections
    except KeyboardInterrupt:
        say(f"{options.keep} keeps what was counted: the same call goes on with it")
        raise


# ----------------------------------------------------------------------------------------------------- what is asked


def _strategy(name: str, *, boolean: bool, kind: OracleKind) -> Strategy:
    strategies = registry()
    if name not in strategies:
        why = f": {strategies.broken[name]}" if name in strategies.broken else ""
        raise UsageError(f"there is no {quoted(name)} here{why}", where="strategy", remedy=one_of(name, strategies))
    if boolean and kind.name == "http":
        raise UsageError("is not known to a server", where="--boolean", remedy="choose another --oracle")
    return bshouty_feldman(strategies[name]) if boolean else strategies[name]


def _check(options: RunOptions) -> None:
    """Refuse options that do not go together."""
    if options.server is not None and options.oracle.name != "http":
        raise UsageError(f"does not go with --oracle {options.oracle.name}", where="--server", remedy="leave one out")
    shared = options.engine != "local" or options.workers > 1 or options.cluster is not None
    if options.oracle.name != "local" and shared:
        raise UsageError("simulate local reports", where="--engine, --workers, --cluster", remedy="use --oracle local")
    if options.keep is not None and (options.oracle.name != "local" or options.table.data is not None):
        raise UsageError("is for simulated users", where="--keep", remedy="leave it out, or use --oracle local")
    if options.counts:
        _check_counts(options)
    options.table.check_table()
    data = options.table.data
    if options.population is not None and data is not None:
        raise UsageError("are no rows of a table", where="--population", remedy="leave out one of it and --data")
    if options.users is None and data is None and options.oracle.asks_users:
        raise UsageError("is missing", where="--users", remedy="say how many users are asked")
    if data is not None and options.eta is not None and options.oracle.name not in {*_REPORTING, "samples"}:
        remedy = "for a table it says how noisy the labels are, and this oracle does not undo that"
        raise UsageError(f"does not go with --oracle {options.oracle.name}", where="--eta", remedy=remedy)


def _check_counts(options: RunOptions) -> None:
    """Refuse what goes user by user, and real rows: they have no law that they are drawn by."""
    shared = options.engine != "local" or options.workers > 1 or options.cluster is not None
    if options.oracle.name != "local" or shared or options.keep is not None:
        remedy = "leave out --oracle, --engine, --workers, --cluster and --keep: counts are drawn in this process"
        raise UsageError("simulates local reports, and no user by herself", where="--counts", remedy=remedy)
    if options.table.data is not None:
        raise UsageError("is for made-up users", where="--counts", remedy="leave it out: rows are asked one by one")


def _setting(options: RunOptions, processes: Engine, tell: Tell) -> tuple[OracleSetting, OwnTable | None]:
    """Who is learned from; and the table, if they are its rows."""
    strategy = options.strategy
    known = options.eta is not None and not planning.terms_of(options.parameters).eta_most
    eta = float(noise({"eta": options.eta})) if known and options.eta is not None else 0.0
    if options.table.data is None:
        own = options.own if options.eta is None else {**options.own, "eta": options.eta}
        people = made_up(strategy, options.parameters, options.number, own, options.population)
        users = options.users or 0
        return OracleSetting(
            _reasked(options, strategy.on(people.schema), people.schema),
            options.parameters,
            people,
            users,
            options.number,
            eta,
            processes,
            options.server,
            counts=options.counts,
        ), None
    mine = planning.strategy_parameters(options.parameters)
    table = table_population(options.table.table(tell), strategy, mine, options.number)
    for name, count in table.clamped.items():
        are, count_as = ("is", "counts") if count == 1 else ("are", "count")
        what = f"{counted(count, 'number')} of {name} {are} beyond its range, and {count_as} as the nearer end"
        say(f"{what}: no ε covers what this says")
    parameters, size = {**options.parameters, **table.parameters}, table.population.size or 1
    # Of who only asks, no error can be measured: then all rows are asked.
    kept = size // _KEPT if strategy.error or strategy.cost or strategy.predict else 0
    strategy, users = strategy.on(table.population.schema), options.users or size - kept
    real = not options.not_private(table)
    strategy = _reasked(options, strategy, table.population.schema)
    setting = OracleSetting(
        strategy, parameters, table.population, users, options.number, eta, processes, options.server, real_noise=real
    )
    return setting, replace(table, parameters=parameters)


def _reasked(options: RunOptions, strategy: Strategy, example: Schema) -> Strategy:
    """The strategy as the planner's parameters ask it, unless a study does that by itself."""
    if options.oracle.name in _REPORTING or not planning.terms_of(options.parameters).reasks:
        return strategy
    return reasked(strategy, study_for(strategy, options.parameters, options.number, example))


def _server(url: str | None, operator: Path | None, enrolment: Path | None) -> LocalServer | None:
    """The server that is named, with the tokens that open it."""
    if url is None:
        return None
    if operator is None or enrolment is None:
        raise UsageError(
            "needs tokens",
            where="--server",
            remedy="give --operator-token FILE and --enrolment-token FILE, of its data directory",
        )
    tokens = read_token(operator, "operator token"), read_token(enrolment, "enrolment token")
    return LocalServer(url.rstrip("/"), Path(), *tokens)


# ------------------------------------------------------------------------------------------------- what comes of it


def _answer(options: RunOptions, setting: OracleSetting, ended: SingleRun, table: OwnTable | None) -> dict[str, Any]:
    """What `run --json` prints."""
    learned, error = ended.learned, ended.error
    text = "" if learned is None else learned.hypothesis.text
    return {
        "schema_version": SCHEMA_VERSION,
        "strategy": options.strategy.name,
        "d": setting.parameters.get("d"),
        "epsilon": setting.parameters["epsilon"],
        "users": setting.users,
        "oracle": options.oracle.name,
        "engine": _engine_of(options),
        "approximate": not options.oracle.asks_users and setting.is_approximate,
        "rounds": 0 if learned is None else learned.rounds,
        "queries": 0 if learned is None else learned.queries,
        "received": list(ended.received),
        "interactive": setting.strategy.interactive,
        "state": ended.state,
        "reason": ended.reason,
        "hypothesis": {} if learned is None else dict(learned.hypothesis.value),
        "target": dict(setting.population.truth),
        "text": text if table is None else table.read(text),
        "features": [] if table is None else list(table.features),
        "error": error.value,
        "error_known": error.known,
        "error_interval": None if error.interval is None else list(error.interval),
        "error_level": None if error.interval is None else CONFIDENCE,
        "success": ended.success,
        "estimates": [asdict(each) for each in ended.estimates[:MOST_ESTIMATES]],
        "estimates_left_out": max(0, len(ended.estimates) - MOST_ESTIMATES),
        "max_spent_micro_epsilon": 0 if learned is None else learned.max_spent_micro_epsilon,
        "not_private": options.not_private(table),
    }


def _engine_of(options: RunOptions) -> str | None:
    """What ran the users; None: another oracle than that in process."""
    return None if options.oracle.name != "local" else "counts" if options.counts else options.engine


def _planned(options: RunOptions, setting: OracleSetting, *, boolean: bool) -> PlanOfRun | None:
    """What was planned for the users who were asked, as a server asks them; None for other oracles."""
    if boolean or options.oracle.name not in _REPORTING:
        return None
    if options.table.data is None:
        return plan_of_run(options.strategy, {**setting.parameters, **options.own}, setting.users, options.population)
    return plan_of_run(options.strategy, setting.parameters, setting.users, example=setting.population.schema)


def _text(strategy: Strategy, answer: Mapping[str, Any], ended: SingleRun, planned: str = "") -> str:
    if ended.state != "finished":
        return "\n".join(filter(None, (f"{answer['strategy']}: {ended.state}: {ended.reason}", planned)))
    # Who only asks has nothing to be wrong by but the intervals.
    judged = bool(strategy.error or strategy.cost or strategy.predict) or not ended.estimates
    parts = [
        *([_error(answer)] if judged else []),
        *([counted(answer["users"], "user")] if ended.received else []),
        counted(answer["rounds"], "round"),
        "no ε is claimed" if answer["not_private"] else _spent(answer["max_spent_micro_epsilon"]),
        f"{answer['seconds']:.1f} s",
    ]
    lines = [answer["text"], " · ".join(parts), *(wrapped(planned) if planned else [])]
    lines += [f"Error unknown: {ended.error.why}."] if ended.error.why else []
    lines += [f"Not private: {reason}." for reason in answer["not_private"]]
    table = estimate_lines(ended.estimates, most=most_estimates(strategy))
    return "\n".join([*lines, "", *table] if table else lines)


def _error(answer: Mapping[str, Any]) -> str:
    """The error, and by what it is known: exactly, or on what was held out, with its interval."""
    if answer["error"] is None:
        return "error unknown"
    if answer["error_known"] == "exactly":
        return f"error {answer['error']:.4g} exactly"
    low, high = answer["error_interval"] or (None, None)
    return f"error {answer['error']:.4g} held out" + ("" if low is None else f" (from {low:.4g} to {high:.4g})")


def _spent(spent: int | None) -> str:
    if spent is None:
        return "examples seen in the clear"
    return f"ε = {to_text(spent)} at most spent" if spent else "nobody was asked"
