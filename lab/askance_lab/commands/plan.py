"""`askance plan`: the number of users that a strategy needs, as proved, as planned and as measured.

To plan a study one wants to see all of it: the bound of KLNRS11, Thm 5.7, as the text states it (with c = 1) and with
the constants that are proved; the users that the server's planner would ask; what sufficed in simulation; the accuracy
that users there are can meet; and all of this against ε.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from askance_client.tables import read_schema
from askance_lab.commands.shared.engine_options import ClusterOption, EngineOption, WorkersOption, shared_work
from askance_lab.commands.shared.exit_codes import say
from askance_lab.commands.shared.options import (
    MOST_RUNS,
    MOST_USERS,
    AlphaOption,
    AskOption,
    CountsOption,
    DimensionOption,
    JsonOption,
    PopulationOption,
    SetOption,
    StrategyArgument,
    ToleranceOption,
    examples,
    parse_asks,
)
from askance_lab.commands.shared.parse_set import parse_set
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.tables import echo_table
from askance_lab.commands.shared.window import wrapped
from askance_lab.engines import Engine
from askance_lab.experiments import measured_users
from askance_lab.experiments.accuracy import accuracy_with
from askance_lab.experiments.measured_users import MeasuredUsers, Measurement
from askance_lab.experiments.planned_users import plan_study
from askance_lab.experiments.shuffled_reports import shuffled
from askance_lab.experiments.survey_plan import ExpectedSurvey
from askance_protocol.checks import open_unit
from askance_protocol.errors import UsageError
from askance_protocol.parameters import Parameters
from askance_protocol.progress import Tell
from askance_protocol.schema import Schema
from askance_protocol.text import counted, quoted
from askance_server.core.study import strategy_named
from askance_server.strategies.registry import registry
from askance_server.strategies.shared.survey_asks import WIDTH, gain
from askance_server.strategies.survey import SURVEY

SCHEMA_VERSION: Final = 1
_OPTIONS: Final = ("d", "alpha", "tolerance", "eta", "width", "epsilon", "beta")
"""Parameters that have an option of their own."""
_DEFAULTS: Final = {"epsilon": "1", "beta": "0.05"}
_NUMBERED: Final = re.compile(r"ask[1-9][0-9]*", re.ASCII)
PROVED: Final = "KLNRS11, Thm 5.7, with the constants that are proved"
EXACT: Final = "the server's plan, by exact binomial tails"

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance plan masked-parity --d 64",
        "askance plan conjunction --d 8 --users 100000 --epsilon 0.5,1,2",
        "askance plan decision-list --d 4 --measure --seeds 40",
        'askance plan survey --ask "share(country)" --ask "mean(minutes, 0, 120)" --width 0.05',
    )
)
def plan(
    strategy: StrategyArgument,
    d: DimensionOption = None,
    epsilon: Annotated[
        str,
        typer.Option(
            "--epsilon", metavar="E,…", help="Privacy parameter ε of each user's report; several for a row of each."
        ),
    ] = "1",
    alpha: AlphaOption = None,
    beta: Annotated[str, typer.Option("--beta", help="Probability with which the study may fail.")] = "0.05",
    tolerance: ToleranceOption = None,
    eta: Annotated[
        str | None, typer.Option("--eta", help="Share of the users' labels that are wrong, below 0.5: it is undone.")
    ] = None,
    ask: AskOption = None,
    width: Annotated[
        str | None,
        typer.Option(
            "--width",
            help="Of a survey: width that the intervals may have, of a mean as a part of its range.  [default: 0.1]",
        ),
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(
            "--users",
            min=1,
            max=MOST_USERS,
            help="Say what so many users can meet: the best accuracy; of a survey, widths.",
        ),
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema", metavar="FILE", help="Of a survey: JSON document that declares the columns.  [default: made-up]"
        ),
    ] = None,
    parameter: SetOption = None,
    population: PopulationOption = None,
    delta: Annotated[
        str, typer.Option("--delta", help="Failure δ of what a trusted shuffler would make of the reports.")
    ] = "0.000001",
    measure: Annotated[
        bool, typer.Option("--measure", help="Search by simulation for the number of users that suffice: no bound.")
    ] = False,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=MOST_RUNS, help="Number of simulated studies with --measure.")
    ] = 40,
    counts: CountsOption = False,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder that keeps what --measure has found, and goes on with.")
    ] = Path("askance-plan"),
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how many users a strategy needs: as proved, exactly as the server plans, and as measured."""
    own = {"d": d, "alpha": alpha, "tolerance": tolerance, "eta": eta, "width": width}
    own |= {**parse_set(parameter or []), **parse_asks(ask)}
    asked = {name: value for name, value in own.items() if value is not None}
    several = [part.strip() for part in epsilon.split(",")] if "," in epsilon else [epsilon]
    if schema is not None and strategy != SURVEY.name:
        raise UsageError(f"does not go with {strategy}", where="--schema", remedy="leave it out, or plan a survey")
    if measure and (len(several) > 1 or schema is not None):
        raise UsageError("measures one ε, over made-up users", where="--measure", remedy="leave out the others")
    if not measure and (engine != "local" or workers > 1 or cluster is not None):
        where, remedy = "--engine, --workers, --cluster", "give --measure, or leave them out"
        raise UsageError("share simulated studies", where=where, remedy=remedy)
    example = None if schema is None else read_schema(schema)
    wanted = [
        Wanted(
            strategy, {**asked, "epsilon": one, "beta": beta}, population, example, users, _delta(delta), out, counts
        )
        for one in several
    ]
    with ProgressBar("planning", quiet=True) as bar:
        answers = [_answer(each, asked, bar.tell) for each in wanted]
    if measure:
        with shared_work(engine, workers, cluster) as processes:
            answers[0]["measured"] = _measure(wanted[0], seeds, answers[0]["enrol"], processes).to_json()
    answer = answers[0] if len(answers) == 1 else _by_epsilon(answers)
    if as_json:
        typer.echo(json.dumps(answer))
    elif len(answers) > 1:
        _echo_by_epsilon(answers)
    else:
        _echo(answer)


def call_of(strategy: str, parameters: Parameters) -> str:
    """The command that plans this, as a shell takes it."""
    return f"askance plan {strategy}{_flags(parameters)}"


def _flags(parameters: Parameters) -> str:
    """Options for these parameters, with a blank before each; none for what is the default."""
    words = list[str]()
    for name, value in parameters.items():
        if _DEFAULTS.get(name) == value:
            continue
        if name in _OPTIONS:
            words += [f"--{name}", str(value)]
        elif _NUMBERED.fullmatch(name):
            words += ["--ask", str(value)]
        else:
            words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    return "".join(f" {_quoted(word)}" for word in words)


def _quoted(word: str) -> str:
    """For a shell: a question that has single quotes in double ones, which a person can read."""
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def _planned_for(answer: Mapping[str, Any]) -> str:
    """Strategy and parameters, for the title of a table; the questions of a survey have a table of their own."""
    own: Parameters = answer["parameters"]
    return answer["strategy"] + _flags({name: own[name] for name in own if not _NUMBERED.fullmatch(name)})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is planned."""

    strategy: str
    terms: Parameters
    """The study's parameters, and those of its users."""
    population: str | None
    example: Schema | None
    users: int | None
    delta: float
    out: Path
    counts: bool
    """Whether a measurement draws the tallies of its studies."""

    @property
    def measurement(self) -> Measurement:
        """What a measurement of it is."""
        return Measurement.of(self.strategy, self.terms, self.population, counts=self.counts)


def _delta(text: str) -> float:
    try:
        return open_unit("--delta", float(text))
    except ValueError:
        what, remedy = f"{quoted(text)} is no number between 0 and 1", "write it as 0.000001"
        raise UsageError(what, where="--delta", remedy=remedy) from None


def _measure(wanted: Wanted, seeds: int, most: int, processes: Engine) -> MeasuredUsers:
    measurement = wanted.measurement
    trial = measurement.trial(wanted.population)
    try:
        with ProgressBar("simulated studies") as bar:
            return measured_users.measure(measurement, trial, seeds, most, wanted.out, bar.at, processes)
    except KeyboardInterrupt:
        say(f"{wanted.out} keeps what was measured: the same call goes on with it")
        raise


def _widths(survey: ExpectedSurvey, width: float, users: int) -> dict[str, Any]:
    """The width of each question's interval with this many users."""
    rows = survey.estimates(users)
    return {
        "width": width,
        "gain": {str(many): gain(survey.micro_epsilon, many) for many in (2, 3)},
        "together": survey.together,
        "widths": {
            "users": users,
            "questions": [
                {
                    "name": row.name,
                    "reports": row.reports,
                    "width": row.high - row.low,
                    "share_of_range": (row.high - row.low) / survey.ranges[row.name],
                }
                for row in rows
            ],
        },
    }


def _echo_widths(answer: dict[str, Any]) -> None:
    """The second table, of a survey: how wide each interval comes out."""
    rows = answer["widths"]["questions"]
    columns = ("question", "reports", "width", "of range")
    cells = [
        [row["name"], f"{row['reports']:,}", f"{row['width']:#.4g}", f"{row['share_of_range']:.4f}"] for row in rows
    ]
    longest = max(len(row["name"]) for row in rows)
    lines = [
        f"{name:<{longest}}{reports:>10}{width:>10}{share:>10}" for name, reports, width, share in (columns, *cells)
    ]
    title = f"95 % intervals with {counted(answer['widths']['users'], 'user')}, about"
    echo_table("\n".join((title, *lines)), columns, cells, title=title)
    for group in answer["together"]:
        _say(_in_one_report(**group))
    if not answer["together"]:
        _say(_in_several(answer["gain"]))


def _in_one_report(questions: list[str], variance: list[float]) -> str:
    """What is asked together, and what that gains."""
    least, most = (f"{end(variance):.2f}" for end in (min, max))
    of = least if least == most else f"{least} to {most}"
    return (
        f"One report, at the whole of ε, answers {' and '.join(questions)}: {of} of the variance that each has alone."
    )


def _in_several(gains: dict[str, float]) -> str:
    """Whether it would be better to let each user answer several questions."""
    best = max(gains, key=lambda many: gains[many])
    times, several = f"{1 / gains[best]:.2f}", f"{best} each, at a {'half' if best == '2' else 'third'} of ε,"
    if gains[best] <= 1:
        return f"Each user answers one question: {several} would need {times} times as many users."
    return f"Each user answers one question. {several} would do with {times} of them: ask in {best} surveys, one each."


def _answer(wanted: Wanted, own: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """What `plan --json` prints, of one ε."""
    planned = plan_study(wanted.strategy, wanted.terms, wanted.population, wanted.example, tell)
    names = ("stated", "repaired", "planned")
    users = {name: sum(getattr(each, name) for each in planned.rounds) for name in names}
    holds = f"for the {planned.tried} runs that were tried" if planned.tried else "for every run"
    answer = {
        "schema_version": SCHEMA_VERSION,
        "strategy": wanted.strategy,
        "parameters": dict(own),
        "epsilon": wanted.terms["epsilon"],
        "beta": wanted.terms["beta"],
        "rounds": [
            {name: getattr(each, name) for name in ("queries", "tolerance", *names, "questions_each")}
            | {"channels": list(each.channels), "liars": [asdict(one) for one in each.liars]}
            for each in planned.rounds
        ],
        "users": users,
        "enrol": planned.enrol,
        "proved": {"users": users["repaired"], "by": PROVED, "holds": f"{holds}, over every population"},
        "exact": {"users": users["planned"], "enrol": planned.enrol, "by": EXACT, "holds": holds},
        "measured": _kept(wanted),
        "typical": None if planned.typical is None else asdict(planned.typical),
        "worst": {"users": planned.enrol, "holds": holds, "tried": planned.tried or None},
        "checks": strategy_named(registry(), wanted.strategy).checks,
        "shuffled": asdict(shuffled(planned, wanted.terms, wanted.delta)),
    }
    if wanted.strategy == SURVEY.name:
        tell("working out intervals", 0, 0)
        expected = ExpectedSurvey.of(wanted.terms, wanted.population, wanted.example)
        answer |= _widths(expected, float(str(wanted.terms.get("width", WIDTH))), wanted.users or planned.enrol)
    elif wanted.users is not None:
        strategy = strategy_named(registry(), wanted.strategy)
        found = accuracy_with(strategy, wanted.terms, wanted.users, wanted.population, tell=tell)
        answer["accuracy"] = {"users": wanted.users} | ({} if found is None else asdict(found))
    return answer


def _kept(wanted: Wanted) -> dict[str, Any] | None:
    """What was measured before, of the same."""
    if wanted.example is not None:
        return None
    found = measured_users.kept(wanted.measurement, wanted.out)
    return None if found is None else found.to_json()


def _by_epsilon(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    common = ("schema_version", "strategy", "parameters", "beta")
    return {name: answers[0][name] for name in common} | {"epsilons": list(answers)}


def _echo_by_epsilon(answers: Sequence[dict[str, Any]]) -> None:
    """A row for each ε."""
    met = [_met(answer) for answer in answers]
    columns = ("epsilon", "T5.7, proved", "exact", "enrol", *(["with these users"] if any(met) else []))
    cells = [
        [
            f"ε = {answer['epsilon']}",
            *(f"{count:,}" for count in (answer["users"]["repaired"], answer["users"]["planned"], answer["enrol"])),
            *([told] if any(met) else []),
        ]
        for answer, told in zip(answers, met, strict=True)
    ]
    lines = [
        f"{first:<12}{proved:>19}{exact:>15}{enrol:>15}{''.join(f'   {each}' for each in rest)}"
        for first, proved, exact, enrol, *rest in (columns, *cells)
    ]
    title = f"{_planned_for(answers[0])} at β = {answers[0]['beta']}: users needed"
    echo_table("\n".join((title, *(line.rstrip() for line in lines))), columns, cells, title=title)


def _met(answer: Mapping[str, Any]) -> str:
    """What users there are can meet, in a few words; empty where nobody asked."""
    if "widths" in answer:
        return f"width {max(row['share_of_range'] for row in answer['widths']['questions']):.4g}"
    found = answer.get("accuracy", {})
    if "value" not in found:
        return "none" if found else ""
    return f"{found['parameter']} = {found['value']}" if found["met"] else "too few"


def _echo(answer: dict[str, Any]) -> None:
    columns = ("round", "queries", "tolerance", "channel", "T5.7, c = 1", "T5.7, proved", "exact")
    cells = [
        [str(number), str(each["queries"]), f"{each['tolerance']:.4g}", "/".join(each["channels"]), *_users(each)]
        for number, each in enumerate(answer["rounds"], 1)
    ]
    cells.append(["in all", "", "", "", *_users(answer["users"])])
    wide = max(9, *(len(channel) + 2 for _, _, _, channel, *_ in cells))
    lines = [
        f"{number:<6}{queries:>8}{tolerance:>11}{channel:>{wide}}{stated:>15}{repaired:>17}{planned:>14}"
        for number, queries, tolerance, channel, stated, repaired, planned in (columns, *cells)
    ]
    title = f"{_planned_for(answer)} at ε = {answer['epsilon']}, β = {answer['beta']}: users needed"
    echo_table("\n".join((title, *lines)), columns, cells, title=title)
    _say(_enrol(answer))
    if len(answer["rounds"]) > 1 and answer["typical"] is not None:
        _say(_typical(**answer["typical"]))
    if answer["measured"] is not None:
        _say(_measured(answer["measured"]))
    if "accuracy" in answer:
        _say(_accuracy(**answer["accuracy"]))
    _say(_shuffled(answer["shuffled"], answer["epsilon"]))
    each = [one["questions_each"] for one in answer["rounds"]]
    if max(each) > 1:
        said = " or ".join(f"{many}" for many in sorted(set(each)))
        _say(f"One report, at the whole of ε, answers up to {said} yes/no questions of its round.")
    _say(_liars(answer["rounds"]))
    if "widths" in answer:
        _echo_widths(answer)


def _enrol(answer: Mapping[str, Any]) -> str:
    """How many have to enrol, and for which runs that is enough."""
    enough = f"Enrol {counted(answer['enrol'], 'user')}: so many suffice"
    if len(answer["rounds"]) == 1:
        return f"{enough}, whether a study takes as many as it needs or all."
    tried = answer["worst"]["tried"]
    runs = "whatever the answers are" if tried is None else f"in each of {tried} runs that were tried"
    unproved = "" if tried is None else "; what this strategy asks in others nobody has proved"
    if answer["checks"]:
        alone = "One that takes all shares them beforehand, and says if they were too few to check what it learned."
        return f"{enough} for a study that takes as many as it needs, {runs}{unproved}. {alone}"
    joined = ", and " if tried is None else ", "
    return f"{enough}, whether a study takes as many as it needs or all{joined}{runs}{unproved}."


def _typical(users: int, populations: int, rounds: int) -> str:
    return (
        f"A typical study takes {users:,} of them, in {counted(rounds, 'round')}: the median of "
        f"{counted(populations, 'made-up population')}, where it takes as many as it needs."
    )


def _measured(found: Mapping[str, Any]) -> str:
    low, high = (f"{100 * end:.1f}" for end in found["interval"])
    rate = f"in {found['successes']:,} of {found['seeds']:,} fresh simulated studies ({low} to {high} % at 95 %)"
    over = f"{found['population']} users, version {found['version']}: no bound"
    if not found["sufficed"]:
        return f"Measured: no number up to {found['users']:,} sufficed; that did {rate}. {over}."
    return f"Measured: {found['users']:,} users sufficed {rate}. Made-up {over}."


def _accuracy(users: int, parameter: str = "", value: str = "", enrol: int = 0, *, met: bool = False) -> str:
    if not parameter:
        return f"{counted(users, 'user')}: nothing can be planned for them."
    if not met:
        fewest = f"the fewest that suffice are {enrol:,}, at {parameter} = {value}"
        return f"{counted(users, 'user')} cannot meet any {parameter}: {fewest}."
    return f"{counted(users, 'user')} meet {parameter} = {value}, for which {enrol:,} suffice."


def _shuffled(found: Mapping[str, Any], epsilon: str) -> str:
    how = {
        "blanket": "by the exact blanket of binary response",
        "clones": "by clones, if who was asked what were hidden, too",
        "closed": "by a closed form, if who was asked what were hidden, too",
    }[found["method"]]
    return (
        f"A trusted shuffler would make ({found['epsilon']:.3g}, {found['delta']:g}) of ε = {epsilon}, in a round of "
        f"{found['users']:,} reports, {how}. There is none here: reports go straight to the aggregator."
    )


def _say(sentence: str) -> None:
    typer.echo("\n".join(wrapped(sentence)))


def _liars(rounds: Sequence[dict[str, Any]]) -> str:
    """One sentence on the worst round: more users make it no better, so it is no column of the users needed."""
    worst = max((each["liars"] for each in rounds), key=lambda liars: liars[0]["shift"])
    said = ", ".join(f"{100 * one['share']:g} % of them by up to {one['shift']:.3g}" for one in worst)
    return f"Users who lie shift an estimate, however many users there are: {said}."


def _users(counts: dict[str, int]) -> list[str]:
    return [f"{counts[name]:,}" for name in ("stated", "repaired", "planned")]
