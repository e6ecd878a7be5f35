"""Mean squared errors of a survey beside a cohort for each question, and beside pure-ldp and multi-freq-ldpy.

All have the same columns, users and ε. A survey asks its questions together, each user one of them; the others ask
each question of a cohort of its own, of as many users for each. Shares of all are kept at 0 or above and made to add up
to 1, as multi-freq-ldpy does. How often each report comes is drawn at once, by the exact tables of the channels.

The libraries run in an environment of their own: one that is made for this and thrown away, or that of `--python`.
Exits 6 where the survey is worse than another beyond chance.

    python benchmarks/survey.py [--repetitions 20000] [--python FILE] [--json]
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from askance_lab.experiments.survey_plan import ExpectedSurvey
from askance_protocol.arrays import Floats
from askance_protocol.queries.telemetry import Measure, TelemetryQuestion
from askance_protocol.tally import Tally
from askance_server.core.estimators import estimated
from askance_server.core.planning import strategy_parameters
from askance_server.strategies.shared.survey_answers import rows_of
from askance_server.strategies.shared.survey_questions import questions

ASKS: Final = (
    "mean(minutes, 0, 120)",
    "share(country)",
    "histogram(version)",
    "share(plan = 'pro' and minutes > 30)",
    "mean(crashes)",
    "share(dark)",
    f"histogram(minutes, {', '.join(map(str, range(6, 120, 6)))})",
)
USERS: Final = 20_000
EPSILON: Final = 1
REPETITIONS: Final = 20_000
PACKAGES: Final = ("pure-ldp", "multi-freq-ldpy", "bitstring", "numba", "xxhash", "bitarray")
LONGEST: Final = 48
SURE: Final = 1.96
BEYOND_CHANCE: Final = 4.0
"""Standard errors: the best of six others, of seven questions, is often better by two."""
HEADER: Final = ("question", "survey", "own cohort", "pure-ldp", "multi-freq-ldpy", "survey / best other")

Error = tuple[float, float]
"""A mean squared error and its standard error."""
Row = dict[str, Any]


def main() -> int:
    """Compare question by question and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--python", type=Path, help="Python of an environment that has the libraries.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ours, shares = our_errors(options.repetitions)
    theirs = library_errors(options.python, options.repetitions, shares)
    rows = table(ours, theirs)
    worse = [row["question"] for row in rows if row["beyond_chance"]]
    if options.json:
        terms = {"epsilon": EPSILON, "users": USERS, "repetitions": options.repetitions}
        print(json.dumps({"schema_version": 2, **terms, "table": rows, "worse": worse}, indent=1, ensure_ascii=False))
    else:
        print("\n".join(markdown(rows)))
    return 6 if worse else 0


# -------------------------------------------------------------------------------------------------------------- ours


def our_errors(repetitions: int) -> tuple[dict[str, dict[str, Error]], dict[str, list[float]]]:
    """Errors of a survey and of a cohort for each question; and the true shares of what libraries can ask, too."""
    together = surveyed(ASKS)
    errors = {name: {"survey": each} for name, each in simulated(together, USERS, repetitions, 1).items()}
    for number, text in enumerate(ASKS):
        alone = simulated(surveyed([text]), USERS // len(ASKS), repetitions, 100 + number)
        errors[text]["own cohort"] = alone[text]
    exact = exact_answers(together)
    shares = {
        question.text: whole(np.array(exact[question.text])[np.newaxis])[0].tolist()
        for question in asked_in(together)
        if question.measure is not Measure.MEAN
    }
    return errors, shares


def surveyed(asks: Sequence[str], **more: str) -> ExpectedSurvey:
    """A survey of these questions, and how likely each report is."""
    parameters = {f"ask{number}": text for number, text in enumerate(asks, 1)} | more
    return ExpectedSurvey.of({**parameters, "users": "all", "epsilon": str(EPSILON)})


def asked_in(survey: ExpectedSurvey) -> list[TelemetryQuestion]:
    """The questions of a survey."""
    return questions(strategy_parameters(survey.study.parameters), survey.study.example)


def simulated(survey: ExpectedSurvey, users: int, repetitions: int, seed: int) -> dict[str, Error]:
    """Mean squared error of each question: of shares over all cells, of means as a part of their range."""
    source, parts = np.random.default_rng(seed), survey.round.parts
    dealt = np.array([part.part.share for part in parts], np.float64)
    reports = source.multinomial(users, dealt / dealt.sum(), repetitions)
    answers = [
        source.multinomial(reports[:, number], likely.ravel() / likely.sum()) @ scores / reports[:, number, np.newaxis]
        for number, (likely, scores) in enumerate(zip(survey.likely, scores_of(survey), strict=True))
    ]
    exact, found = exact_answers(survey), dict[str, Error]()
    place = {part.part.query: number for number, part in enumerate(parts)}
    for question in asked_in(survey):
        mine = [answers[place[query]] for query in question.queries]
        said = np.array([told(question, [each[run] for each in mine]) for run in range(repetitions)])
        truth = np.array(exact[question.text])[np.newaxis]
        if question.measure is Measure.MEAN:
            errors = ((said - truth) / float(question.high - question.low)) ** 2
        else:
            errors = (whole(said) - whole(truth)) ** 2
        each = errors.mean(axis=1)
        found[question.text] = float(each.mean()), float(each.std() / math.sqrt(repetitions))
    return found


def scores_of(survey: ExpectedSurvey) -> list[Floats]:
    """What each report is worth: estimates are linear in the tally."""
    return [
        np.array(
            [estimated(part, Tally(single.reshape(likely.shape))) for single in np.eye(likely.size, dtype=np.int64)]
        )
        for part, likely in zip(survey.round.parts, survey.likely, strict=True)
    ]


def exact_answers(survey: ExpectedSurvey) -> Mapping[str, list[float]]:
    """The answers without noise: what is estimated when all reports are as they are expected."""
    answers = {
        part.part.query: likely.ravel() @ scores
        for part, likely, scores in zip(survey.round.parts, survey.likely, scores_of(survey), strict=True)
    }
    return {
        question.text: told(question, [answers[query] for query in question.queries]) for question in asked_in(survey)
    }


def told(question: TelemetryQuestion, answers: Sequence[Floats]) -> list[float]:
    """The numbers of a question, as a survey tells them."""
    given = [each if question.measure is Measure.HISTOGRAM or len(each) > 1 else float(each[0]) for each in answers]
    return [value for _, value in rows_of(question, given)]


def whole(shares: Floats) -> Floats:
    """Shares at 0 or above that add up to 1; of a share alone, it and the rest."""
    both = np.hstack([1 - shares, shares]) if shares.shape[1] == 1 else shares
    kept = np.clip(both, 0, None)
    total = kept.sum(axis=1, keepdims=True)
    return np.where(total > 0, kept / np.where(total > 0, total, 1), 1 / both.shape[1])


# ------------------------------------------------------------------------------------------------------------ theirs


def library_errors(python: Path | None, repetitions: int, shares: Mapping[str, list[float]]) -> dict[str, Any]:
    """Errors of each oracle of the libraries, question by question."""
    asked = {"epsilon": EPSILON, "repetitions": repetitions, "users": USERS // len(ASKS), "shares": shares}
    with tempfile.TemporaryDirectory(prefix="askance-survey-") as folder:
        if python is None:
            venv.create(folder, with_pip=True)
            python = Path(folder) / "bin" / "python"
            # Packages of a fixed list, into an environment that is thrown away.
            subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)  # noqa: S603 - see above
        script = Path(__file__).with_name("survey_libraries.py")
        said = subprocess.run(  # noqa: S603 - the file beside this one
            [python, "-W", "ignore", script], input=json.dumps(asked), text=True, stdout=subprocess.PIPE, check=True
        )
    found: dict[str, Any] = json.loads(said.stdout)
    return found


# ------------------------------------------------------------------------------------------------------------- table


def table(ours: Mapping[str, Mapping[str, Error]], theirs: Mapping[str, Mapping[str, Error]]) -> list[Row]:
    """A row for each question; the ratio is against the best of the others, with its interval at 95 %."""
    rows = list[Row]()
    for question, mine in ours.items():
        others = {"own cohort": mine["own cohort"], **theirs.get(question, {})}
        best = min(others, key=lambda name: others[name][0])
        (error, off), (other, other_off) = mine["survey"], others[best]
        reach = math.exp(SURE * math.hypot(off / error, other_off / other))
        rows.append(
            {
                "question": question,
                "survey": error,
                **{name: each[0] for name, each in others.items()},
                "best": best,
                "ratio": error / other,
                "beyond_chance": error / other > reach ** (BEYOND_CHANCE / SURE),
                "ratio_low": error / other / reach,
                "ratio_high": error / other * reach,
            }
        )
    return rows


def markdown(rows: Sequence[Row]) -> list[str]:
    """The table as a document has it; errors in hundred-thousandths."""
    lines = [f"| {' | '.join(HEADER)} |", "|---|---|---|---|---|---|"]
    for row in rows:
        name = row["question"]
        if len(name) > LONGEST:
            name = f"{name[: LONGEST // 2].rpartition(', ')[0]}, …, {name.rpartition(', ')[2]}"
        cells = [f"`{name}`", *(f"{1e5 * row[name]:.2f}" for name in ("survey", "own cohort"))]
        for library in ("pure-ldp", "multi-freq-ldpy"):
            known = {name: row[name] for name in row if name.startswith(library)}
            best = min(known, key=lambda name: known[name], default="")
            cells.append(f"{1e5 * known[best]:.2f} ({best.removeprefix(library).strip()})" if best else "—")
        lines.append(
            f"| {' | '.join(cells)} | {row['ratio']:.2f} ({row['ratio_low']:.2f} to {row['ratio_high']:.2f}) |"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
