"""`askance landscape`: what is measured, what is said of it, and what it leaves behind."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

from askance_lab.cli import app
from askance_lab.curator.mechanism import AnyMechanism
from askance_lab.curator.registry import mechanisms
from askance_lab.data.problems import PROBLEMS, TOO_WRONG, LearningProblem
from askance_lab.engines import engine
from askance_lab.evaluation.weighted import WeightedExamples
from askance_lab.experiments.landscape import queries, report
from askance_lab.experiments.landscape.cells import BY_KEY, CELLS, LEARNERS, LIMITS, Model
from askance_lab.experiments.landscape.measurement import CellUsers, Task, find, known, run_all, tasks_of
from askance_lab.oracles.exact import Exact
from askance_lab.oracles.shared.oracle import run
from askance_lab.theory.targets import Targets
from askance_protocol.errors import AskanceError
from askance_server.core.strategy import Strategy
from tests.snapshots.outputs import lost

TERMS = Targets()
MODELS = list(Model)
DOCS = Path(__file__).parents[3] / "docs"


def found_of(cell: str, d: int, users: int) -> CellUsers:
    return CellUsers(cell, d, users, users - 1, users + 1, 0.9, 20)


# ------------------------------------------------------------------------------------------------------------ problems


@pytest.mark.parametrize("name", ["generic-parity", "generic-conjunction", "generic-point", "generic-interval"])
def test_the_error_of_a_hypothesis_is_how_often_it_labels_examples_wrongly(name: str) -> None:
    learner: AnyMechanism = mechanisms()[name]
    problem = PROBLEMS[learner.concepts.name](6, 0.1, 40_000, 1)
    database = learner.concepts.database(problem.columns)
    hypotheses: list[Any] = [(0, 1), (), (2,)] if name == "generic-conjunction" else [5, 17, 40, 63]

    assert learner.answers.labels is not None
    for hypothesis in hypotheses:
        wrong = float(np.mean(learner.answers.labels(hypothesis, database) != np.array(database.labels)))
        error = problem.error(learner.answers.to_json(hypothesis, 6))
        assert wrong == pytest.approx(error, abs=5 * 0.5 / math.sqrt(40_000))


@pytest.mark.parametrize("name", ["PARITY", "POINT", "INTERVAL"])
def test_the_least_error_of_a_wrong_hypothesis_is_just_above_alpha(name: str) -> None:
    problem, answers = PROBLEMS[name](6, 0.1, 10, 3), mechanisms()[f"generic-{name.lower()}"].answers
    errors = sorted(problem.error(answers.to_json(hypothesis, 6)) for hypothesis in range(64))

    assert errors[0] == 0
    assert errors[1] == pytest.approx(TOO_WRONG * 0.1, rel=0.4)
    assert errors[1] > 0.1
    assert not problem.good(None)


def test_masked_parity_is_parity_in_one_bit_more() -> None:
    problem = PROBLEMS["MASKED-PARITY"](8, 0.1, 500, 2)
    truth = problem.people.truth
    r = sum(int(bit) << i for i, bit in enumerate(str(truth["r"]))) + (int(str(truth["a"])) << 8)
    labels = mechanisms()["generic-parity"].answers.labels
    database = mechanisms()["generic-masked-parity"].concepts.database(problem.columns)

    assert labels is not None
    assert not (labels(r, database) ^ database.labels).any()


# ------------------------------------------------------------------------------------------------------------- queries


@pytest.mark.parametrize("d", [3, 5, 8])
@pytest.mark.parametrize("make", [lambda d: queries.DYADIC, queries.bisection])
def test_thresholds_are_learned_from_exact_answers(make: Any, d: int) -> None:
    strategy: Strategy = make(d)
    for seed in range(12):
        problem = PROBLEMS["INTERVAL"](d, 0.1, 400, seed)
        learned = run(strategy, {"d": d, "alpha": "0.1"}, Exact(WeightedExamples(problem.columns)))
        assert problem.error(learned.hypothesis.value) == 0
        assert learned.rounds <= strategy.rounds


def test_points_are_learned_from_exact_answers() -> None:
    for seed in range(12):
        problem = PROBLEMS["POINT"](7, 0.1, 400, seed)
        learned = run(queries.POINT, {"d": 7, "alpha": "0.1"}, Exact(WeightedExamples(problem.columns)))
        assert problem.good(learned.hypothesis.value)


# ----------------------------------------------------------------------------------------------------------- measuring


def test_every_class_has_a_learner_in_every_model() -> None:
    assert {(cell.problem, cell.model) for cell in CELLS} == {(name, model) for name in PROBLEMS for model in MODELS}
    assert set(LEARNERS) == {cell.measured_as for cell in CELLS}
    assert len(BY_KEY) == len(CELLS)


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.key)
def test_bounds_go_one_way_as_the_dimension_grows(cell: Any) -> None:
    """Up, but for A_dist's: in a small domain a random guess may hit another heavy point."""
    bounds = [cell.bound(d, TERMS) for d in sorted({*cell.dimensions, 64})]

    assert bounds == sorted(bounds, reverse=cell.learner == "A_dist")
    assert bounds[0] > 1


def test_the_interval_holds_the_number_that_is_known() -> None:
    """Any positive example is right with chance 1 − (1 − 1.05α)^n: 21 users are the first with 0.9."""
    exact = math.ceil(math.log(0.1) / math.log(1 - 0.105))
    found = find(Task("POINT · not private · any positive example", 32, TERMS, 400))

    assert exact == 21
    assert found.low is not None
    assert found.high is not None
    assert found.low < exact <= found.high
    assert found.low < found.users <= found.high
    assert found.high < 30


def test_a_learner_that_gets_no_better_has_no_upper_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: it is right 9 times in 10 however many users there are, so no number is surely enough."""
    key = "POINT · not private · any positive example"

    def fickle(problem: LearningProblem, _: Targets, seed: int) -> dict[str, int] | None:
        return next({"point": x} for x in range(256) if problem.good({"point": x})) if seed % 10 else None

    monkeypatch.setitem(LEARNERS, key, fickle)
    found = find(Task(key, 8, TERMS, 20))

    assert found.rate == 0.9
    assert found.high is None


@pytest.mark.slow
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.key in LEARNERS], ids=lambda cell: cell.key)
def test_users_as_the_bound_asks_for_are_enough_and_a_twelfth_of_those_needed_are_not(cell: Any) -> None:
    """Each learner at its smallest dimension; where the bound is above 2·10^5 users, 2·10^5 are tried."""
    d = cell.dimensions[0]
    bound = cell.bound(d, TERMS)
    make, learn = PROBLEMS[cell.problem], LEARNERS[cell.key]

    def right(users: int) -> int:
        problems = [make(d, TERMS.alpha, users, seed) for seed in range(10)]
        return sum(problem.good(learn(problem, TERMS, seed)) for seed, problem in enumerate(problems))

    assert right(min(bound, 200_000)) >= 8
    assert right(max(2, int(cell.start(d) / 12))) < 8


def test_a_measurement_goes_on_where_it_stopped_and_measures_nothing_twice(tmp_path: Path) -> None:
    tasks = tasks_of([cell for cell in CELLS if cell.model is Model.NOBODY], TERMS, 20, [8])
    first = run_all(tasks, tmp_path / "found.json", engine(), run=made_up)

    assert run_all(tasks, tmp_path / "found.json", engine(), run=never) == first
    other = [replace(task, seeds=30) for task in tasks]
    with pytest.raises(AssertionError, match="measured again"):
        run_all(other, tmp_path / "found.json", engine(), run=never)


def test_what_version_0_1_measured_is_known_and_not_measured_again() -> None:
    """The file of docs/landscape was written by it."""
    tasks = tasks_of(CELLS, TERMS, 100)

    assert len(known(tasks, DOCS / "landscape" / "found.json")) == len(tasks) > 90
    assert len(run_all(tasks, DOCS / "landscape" / "found.json", engine(), run=never)) == len(tasks)


def test_a_search_finds_the_same_on_another_engine(tmp_path: Path) -> None:
    tasks = tasks_of([cell for cell in CELLS if cell.model is Model.NOBODY], TERMS, 20, [8])
    with engine("local", 2) as workers:
        found = run_all(tasks, tmp_path / "found.json", workers)

    assert found == [find(task) for task in tasks]


def made_up(task: Task) -> CellUsers:
    return found_of(task.cell, task.d, 10 * task.d)


def never(task: Task) -> CellUsers:
    raise AssertionError(f"{task.key} was measured again")


def test_a_learner_of_two_models_is_measured_once() -> None:
    pair = [cell for cell in CELLS if (cell.problem, cell.learner) == ("POINT", "point-bits")]

    assert [cell.model for cell in pair] == [Model.AT_ONCE, Model.IN_ROUNDS]
    assert len(tasks_of(pair, TERMS, 20)) == len(pair[0].dimensions)


# ----------------------------------------------------------------------------------------------------------- reporting


def test_curves_cross_between_the_dimensions_where_their_order_changes() -> None:
    generic, rec = "INTERVAL · curator · generic", "INTERVAL · curator · Rec"
    users = {generic: {8: 100, 32: 400, 128: 1600}, rec: {8: 800, 32: 800, 128: 800}}
    found = [found_of(cell, d, n) for cell, curve in users.items() for d, n in curve.items()]
    [_, crossing] = report.crossovers(found)

    # Half-way from 32 to 128 on a logarithmic axis: 400·2 = 800, and d·2.
    assert crossing.between == (32, 128)
    assert crossing.d == pytest.approx(64)
    [nowhere, _] = report.crossovers(found)
    assert nowhere.d is None


def test_what_was_measured_and_what_is_proved_stand_in_tables_of_their_own() -> None:
    cell = next(cell for cell in CELLS if cell.learner == "A_dist")
    lines = report.tables([found_of(cell.key, 32, 400)], TERMS, [cell])
    measured, proved = (lines[lines.index(f"**POINT**, {kind}") :] for kind in ("measured", "proved"))
    mine, other = (next(line for line in part if "A_dist" in line) for part in (measured, proved))

    assert "| d = 32 |" in measured[2]
    assert "d = 64" not in measured[2]
    assert mine.endswith("| 400 [399, 401] |")
    assert "| d = 32 | d = 64 |" in proved[2]
    assert other.endswith(f"| enough | {cell.bound(32, TERMS):,} | {cell.bound(64, TERMS):,} |")
    assert cell.theorem in other
    assert next(line for line in measured if "generic" in line).endswith("| – |")


def test_a_bound_of_another_learner_has_that_ones_name_and_a_limit_a_row_of_its_own() -> None:
    cells = [cell for cell in CELLS if cell.problem == "MASKED-PARITY"]
    lines = report.tables([found_of(cells[1].key, 64, 345_000)], TERMS, cells)
    [bound] = [line for line in lines if "4.3e+09" in line]
    [limit] = [line for line in lines if "fewer never do" in line]

    assert "A_MP" in bound
    assert "masked-parity-pooled" not in bound
    assert limit.startswith("| local, at once | any learner | at-once-proved |")
    for cell in cells:
        if cell.model is Model.AT_ONCE:
            assert LIMITS[0].users(8, TERMS) < cell.bound(8, TERMS)


@pytest.mark.slow
def test_the_command_leaves_results_tables_and_plots(tmp_path: Path) -> None:
    ask = ["landscape", "--classes", "POINT,INTERVAL", "--d", "8", "--seeds", "10", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*ask, "--classes", "POINT", "--json"], catch_exceptions=False)
    results = json.loads(done.stdout)

    assert {point["learner"] for point in results["points"]} == {
        "point-bits",
        "generic",
        "A_dist",
        "any positive example",
    }
    assert results == json.loads((tmp_path / "out" / "results.json").read_text())
    assert lost("landscape", results) == []
    for point in results["points"]:
        assert point["bound"] > 0
        assert (point["low"] or 0) < point["users"] <= (point["high"] or math.inf)
    for name in ("landscape.svg", "landscape.png", "crossovers.svg", "crossovers.png", "tables.md", "found.json"):
        assert (tmp_path / "out" / name).stat().st_size > 100
    with pytest.raises(AskanceError, match="has results already"):
        CliRunner().invoke(app, ask, catch_exceptions=False)
    again = CliRunner().invoke(app, [*ask, "--classes", "POINT", "--resume"], catch_exceptions=False)
    assert "| curator | A_dist | ε, δ | " in again.stdout
    shown = CliRunner().invoke(app, [*ask, "--classes", "POINT", "--show"], catch_exceptions=False)
    assert shown.stdout == again.stdout


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (["--classes", "TREES"], "--classes"),
        (["--d", "eight"], "--d"),
        (["--d", "7"], "--classes, --d"),
        (["--epsilon", "0"], "ε"),
        (["--delta", "1"], "delta"),
        (["--alpha", "0.4"], "alpha"),
    ],
)
def test_what_cannot_be_is_refused(options: list[str], where: str, tmp_path: Path) -> None:
    with pytest.raises(AskanceError) as refused:
        CliRunner().invoke(app, ["landscape", "--out", str(tmp_path / "x"), *options], catch_exceptions=False)
    assert refused.value.where == where
    assert not (tmp_path / "x").exists()


# ------------------------------------------------------------------------------------------------------------ the docs


def test_the_tables_of_the_docs_are_what_the_command_prints() -> None:
    printed = CliRunner().invoke(app, ["landscape", "--out", str(DOCS / "landscape"), "--show"], catch_exceptions=False)
    page = (DOCS / "landscape.md").read_text("utf-8")

    assert printed.stdout.count("[") > 90
    assert printed.stdout.strip() in page


@pytest.mark.slow
@pytest.mark.parametrize("key", ["POINT · curator · A_dist", "INTERVAL · curator · Rec", "PARITY · curator · generic"])
def test_what_the_docs_say_was_measured_can_be_measured_again(key: str) -> None:
    """At the ends of each interval, with other seeds: too few users are too seldom right, enough are right enough."""
    kept = json.loads((DOCS / "landscape" / "found.json").read_text("utf-8"))["found"].values()
    [found] = [CellUsers(**each) for each in kept if each["cell"] == key and each["d"] == 8]
    make, learn = PROBLEMS[BY_KEY[key].problem], LEARNERS[key]

    def failures(users: int) -> int:
        problems = [make(8, TERMS.alpha, users, seed) for seed in range(1000, 1400)]
        return sum(not problem.good(learn(problem, TERMS, seed)) for seed, problem in enumerate(problems))

    assert found.low is not None
    assert found.high is not None
    # One-sided binomial tests at 10^-6 that the chance to fail is at least, at most, 1/10.
    assert failures(found.low) > binom.ppf(1e-6, 400, 0.1)
    assert failures(found.high) < binom.ppf(1 - 1e-6, 400, 0.1)
