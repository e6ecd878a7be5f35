"""`askance plan`: the number of users that a strategy needs, by the papers' bound and by our own plan.

To plan a study one wants to see both: the bound of KLNRS11, Thm 5.7, as the text states it (with c = 1) and with the
constants that are proved, and the users that the server's planner would ask.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from askance_client.tables import read_schema
from askance_lab.commands.shared.options import (
    AlphaOption,
    AskOption,
    DimensionOption,
    EpsilonOption,
    JsonOption,
    PopulationOption,
    SetOption,
    StrategyArgument,
    examples,
    parse_asks,
)
from askance_lab.commands.shared.parse_set import parse_set
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.tables import echo_table
from askance_lab.commands.shared.window import wrapped
from askance_lab.experiments.planned_users import StudyPlan, plan_study
from askance_lab.experiments.survey_plan import ExpectedSurvey
from askance_protocol.errors import UsageError
from askance_protocol.progress import Tell
from askance_protocol.text import counted
from askance_server.strategies.shared.survey_asks import gain
from askance_server.strategies.survey import SURVEY

SCHEMA_VERSION: Final = 1

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance plan masked-parity --d 64",
        "askance plan mean --epsilon 0.5 --set tolerance=0.02",
        'askance plan survey --ask "share(country)" --ask "mean(minutes, 0, 120)" --width 0.05',
        "askance plan conjunction --d 8 --alpha 0.1 --beta 0.01 --json",
    )
)
def plan(
    strategy: StrategyArgument,
    d: DimensionOption = None,
    epsilon: EpsilonOption = "1",
    alpha: AlphaOption = None,
    beta: Annotated[str, typer.Option("--beta", help="Probability with which the study may fail.")] = "0.05",
    ask: AskOption = None,
    width: Annotated[
        str | None,
        typer.Option(
            "--width",
            help="Of a survey: width that the intervals should have, of a mean as a part of its range.  [default: 0.1]",
        ),
    ] = None,
    users: Annotated[
        int | None, typer.Option("--users", min=1, help="Of a survey: say how wide the intervals of so many users are.")
    ] = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema", metavar="FILE", help="Of a survey: JSON document that declares the columns.  [default: made-up]"
        ),
    ] = None,
    parameter: SetOption = None,
    population: PopulationOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how many users a strategy needs: by the papers' bound, as stated and as repaired, and as the server plans."""
    own = {"d": d, "alpha": alpha, "width": width, **parse_set(parameter or []), **parse_asks(ask)}
    asked = {name: value for name, value in own.items() if value is not None}
    survey, example = strategy == SURVEY.name, None if schema is None else read_schema(schema)
    for option, given in {"--users": users, "--schema": schema}.items():
        if given is not None and not survey:
            raise UsageError(f"does not go with {strategy}", where=option, remedy="leave it out, or plan a survey")
    terms = {**asked, "epsilon": epsilon, "beta": beta}
    with ProgressBar("planning", quiet=True) as bar:
        planned = plan_study(strategy, terms, population, example, bar.tell)
        answer = _answer(strategy, asked, epsilon, beta, planned)
        if survey:
            bar.begin("working out intervals")
            expected = ExpectedSurvey.of(terms, population, example)
            answer |= _widths(expected, float(asked.get("width", "0.1")), users, bar.tell)
    if as_json:
        typer.echo(json.dumps(answer))
        return
    _echo(answer)
    if survey:
        _echo_widths(answer)


def _widths(survey: ExpectedSurvey, width: float, users: int | None, tell: Tell) -> dict[str, Any]:
    """Users for a width, and the width of each question with so many users: those, unless others are given."""
    needed = survey.users_for(width, tell)
    rows = survey.estimates(users or needed)
    return {
        "width": width,
        "users_for_width": needed,
        "gain": {str(many): gain(survey.micro_epsilon, many) for many in (2, 3)},
        "together": survey.together,
        "widths": {
            "users": users or needed,
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
    _say(f"Intervals of width {answer['width']:g} need about {counted(answer['users_for_width'], 'user')}.")
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


def _answer(strategy: str, parameters: dict[str, Any], epsilon: str, beta: str, planned: StudyPlan) -> dict[str, Any]:
    names = ("stated", "repaired", "planned")
    return {
        "schema_version": SCHEMA_VERSION,
        "strategy": strategy,
        "parameters": parameters,
        "epsilon": epsilon,
        "beta": beta,
        "rounds": [
            {name: getattr(each, name) for name in ("queries", "tolerance", *names, "questions_each")}
            | {"liars": [{"share": one.share, "shift": one.shift} for one in each.liars]}
            for each in planned.rounds
        ],
        "users": {name: sum(getattr(each, name) for each in planned.rounds) for name in names},
        "enrol": planned.enrol,
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
    enrol = counted(answer["enrol"], "user")
    _say(f"Enrol {enrol}: so many suffice, whether a study takes as many as it needs or all.")
    each = [one["questions_each"] for one in answer["rounds"]]
    if max(each) > 1:
        said = " or ".join(f"{many}" for many in sorted(set(each)))
        _say(f"One report, at the whole of ε, answers up to {said} yes/no questions of its round.")
    _say(_liars(answer["rounds"]))


def _say(sentence: str) -> None:
    typer.echo("\n".join(wrapped(sentence)))


def _liars(rounds: Sequence[dict[str, Any]]) -> str:
    """One sentence on the worst round: more users make it no better, so it is no column of the users needed."""
    worst = max((each["liars"] for each in rounds), key=lambda liars: liars[0]["shift"])
    said = ", ".join(f"{100 * one['share']:g} % of them by up to {one['shift']:.3g}" for one in worst)
    return f"Users who lie shift an estimate, however many users there are: {said}."


def _users(counts: dict[str, int]) -> list[str]:
    return [f"{counts[name]:,}" for name in ("stated", "repaired", "planned")]
