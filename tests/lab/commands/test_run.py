"""`askance run`, as the contract has it: each oracle, a table of one's own, what does not go together."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askance_client.simulation.population import synthetic
from askance_client.tables import FromFile, from_file
from askance_lab.commands.shared.estimates_text import estimate_lines, numbers_text
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.data.table_file import TableFile
from askance_lab.data.table_population import table_population
from askance_lab.evaluation.error import error_of, error_on
from askance_protocol.errors import AskanceError
from askance_server.core.strategy import Estimate
from askance_server.strategies.registry import registry
from tests.lab.commands.calls import askance, invoke, json_of

CONTRACT = {
    "strategy",
    "d",
    "users",
    "rounds",
    "interactive",
    "hypothesis",
    "target",
    "error",
    "success",
    "max_spent_micro_epsilon",
    "seconds",
    "oracle",
    "engine",
    "error_interval",
    "error_known",
    "estimates",
}


def run_json(*arguments: object, code: int = 0) -> Any:
    return json.loads(invoke("run", *arguments, "--json", code=code))


# ------------------------------------------------------------------------------------------------------ the contract

SPENT = {"exact": 0, "adversarial": 0, "samples": None}


@pytest.mark.parametrize(
    "oracle", ["local", "http", "exact", "adversarial", "samples", "curator", "fresh", "fresh-laplace"]
)
def test_a_run_against_each_oracle_prints_what_the_contract_says(oracle: str) -> None:
    ran = run_json("masked-parity", "--d", 4, "--users", 150_000, "--seed", 3, "--oracle", oracle)

    assert set(ran) >= CONTRACT
    assert ran["schema_version"] == 2
    assert (ran["strategy"], ran["d"], ran["users"], ran["rounds"]) == ("masked-parity", 4, 150_000, 2)
    assert (ran["oracle"], ran["engine"]) == (oracle, "local" if oracle == "local" else None)
    assert ran["hypothesis"] == ran["target"]
    assert (ran["error"], ran["error_known"], ran["success"]) == (0, "exactly", True)
    assert ran["max_spent_micro_epsilon"] == SPENT.get(oracle, 1_000_000)
    assert (ran["received"] == []) is (oracle in {"exact", "adversarial"})


def test_counts_are_a_run_of_any_number_of_users() -> None:
    ran, again, other = (
        run_json("masked-parity", "--d", 64, "--users", 10**12, "--counts", "--seed", seed) for seed in (3, 3, 4)
    )

    assert set(ran) >= CONTRACT
    assert (ran["oracle"], ran["engine"], ran["users"], sum(ran["received"])) == ("local", "counts", 10**12, 10**12)
    assert (ran["error"], ran["success"], ran["max_spent_micro_epsilon"]) == (0, True, 1_000_000)
    assert ran["estimates"] == again["estimates"] != other["estimates"]
    assert ran["target"] == run_json("masked-parity", "--d", 64, "--users", 1000, "--seed", 3)["target"]


def test_local_is_the_default_oracle_and_the_same_seed_gives_the_same() -> None:
    first, again = (run_json("mean", "--users", 3000, "--seed", 4) for _ in range(2))

    assert (first["oracle"], first["engine"]) == ("local", "local")
    assert first["success"] is (first["error"] <= 0.05)
    del first["seconds"], again["seconds"]
    assert first == again
    assert run_json("mean", "--users", 3000, "--seed", 5)["hypothesis"] != first["hypothesis"]


def test_dask_gives_the_numbers_of_the_local_engine() -> None:
    ran = [run_json("mean", "--users", 250_000, "--engine", engine) for engine in ("local", "dask")]

    assert [each["engine"] for each in ran] == ["local", "dask"]
    assert ran[0]["hypothesis"] == ran[1]["hypothesis"]
    assert ran[0]["received"] == ran[1]["received"] == [250_000]


def test_parameters_reach_the_strategy_and_the_planner() -> None:
    cells = run_json("histogram", "--set", "cells=3", "--set", "tolerance=0.2", "--users", 9000, "--beta", "0.2")
    assert len(cells["hypothesis"]["shares"]) == 3
    assert cells["success"] is True

    clean, noisy = (
        run_json("conjunction", "--d", 4, "--alpha", "0.2", *more, "--users", 400_000, "--oracle", "samples")
        for more in ([], ["--eta", "0.3"])
    )
    assert clean["error"] == noisy["error"] == 0


def test_labels_that_are_wrong_are_undone_for_users_who_report_too() -> None:
    asked = ["conjunction", "--d", 4, "--alpha", "0.3", "--users", 60_000, "--epsilon", "4"]
    found = [run_json(*asked, "--eta", "0.1", "--seed", seed) for seed in range(3)]
    # The control: a study that is told of less noise than there is learns something else.
    naive = run_json(*asked, "--eta", "0.1", "--set", "eta=0")

    assert all(each["success"] for each in found)
    assert not naive["success"]


def test_a_domain_that_is_too_large_is_stood_for_by_examples_and_says_so() -> None:
    large = run_json("masked-parity-pooled", "--d", 32, "--oracle", "exact", "--users", 100_000)
    small = run_json("masked-parity-pooled", "--d", 16, "--oracle", "exact")

    assert (large["approximate"], small["approximate"]) == (True, False)
    assert small["users"] == 0
    assert large["error"] == small["error"] == 0


def test_an_error_that_has_no_formula_is_measured_with_an_interval() -> None:
    ran = run_json("perceptron", "--d", 3, "--users", 200_000)
    low, high = ran["error_interval"]

    assert (ran["error_known"], ran["error_level"]) == ("held-out", 0.95)
    assert low <= ran["error"] <= high < 0.2
    assert high - low < 0.01


def test_a_biased_population_is_not_judged_by_the_formula_for_fair_bits() -> None:
    """All of 2 bits, of which each is 1 in 3 of 4 cases, against no bits: P = 1 − 9/16, point by point."""
    population = synthetic("conjunction", {"d": 2, "bias": "0.75", "relevant": 2}, 1)

    assert error_of(registry()["conjunction"], {"variables": []}, population).value == pytest.approx(7 / 16)
    fair = synthetic("conjunction", {"d": 2, "relevant": 2}, 1)
    assert error_of(registry()["conjunction"], {"variables": []}, fair).value == 3 / 4


@pytest.mark.parametrize("oracle", ["local", "http", "exact"])
def test_a_run_says_how_sure_its_estimates_are_where_users_report(oracle: str) -> None:
    ran = run_json("mean", "--users", 2000, "--oracle", oracle)
    learned = ran["hypothesis"]

    assert ran["estimates_left_out"] == 0
    if oracle == "exact":
        assert ran["estimates"] == []
        return
    [found] = ran["estimates"]
    assert list(found) == ["name", "estimate", "low", "high", "level", "reports"]
    assert (found["name"], found["level"], found["reports"]) == ("mean(value, -1, 1)", 0.95, 2000)
    assert found["estimate"] == learned["mean"]
    assert learned["low"] <= found["low"] < found["estimate"] < found["high"] <= learned["high"]
    assert learned["high"] - learned["low"] < 0.25
    assert ran["error_known"] == "exactly"


def test_estimates_are_a_table_of_80_columns() -> None:
    mean = invoke("run", "mean", "--users", 2000)
    assert re.search(r"\(-?0\.\d+ to -?0\.\d+ at 95 %, 2,000 reports\)\nerror 0\.\d+ exactly · 2,000 users · ", mean)
    assert re.search(r"\n\nquestion +estimate +from +to \(95 %\) +reports\nmean\(value, -1, 1\) +-?0\.\d+ ", mean)
    cells = invoke("run", "histogram", "--set", "cells=30", "--users", 2000).splitlines()
    assert cells[2].startswith("Planned for ")
    assert (len(cells), cells[-1]) == (18, "… and 18 more: --json has them")
    learner = invoke("run", "kmeans", "--users", 2000).splitlines()
    assert "held out" in learner[1]
    assert (len(learner), learner[-1]) == (10, "… and 199 more: --json has them")
    assert max(map(len, [*mean.splitlines(), *cells, *learner])) <= 80


def test_numbers_are_as_exact_as_their_interval_is_wide_and_its_ends_are_rounded_outwards() -> None:
    assert numbers_text(0.436749, 0.37431, 0.50041) == ("0.437", "0.374", "0.501")
    assert numbers_text(48.5312, 39.9876, 55.14) == ("48.5", "39.9", "55.2")
    assert numbers_text(0.05143, 0.0004422, 0.1089) == ("0.051", "0.000", "0.109")
    assert numbers_text(-0.0004, -0.2, 0.1) == ("0.000", "-0.200", "0.100")
    assert numbers_text(123456.7, 100000.0, 150000.0) == ("123457", "100000", "150000")
    # What is known exactly, and what is finer than a column is wide, by four digits as it is.
    assert numbers_text(0.25, 0.25, 0.25) == ("0.25", "0.25", "0.25")
    assert numbers_text(2**-31, 2**-32, 2**-30) == ("4.657e-10", "2.328e-10", "9.314e-10")
    cells = [Estimate(f"share(c): '{name}'", high / 2, 0.0, high, 0.95, 9) for name, high in (("a", 0.2), ("b", 0.03))]
    assert [line.split()[2:] for line in estimate_lines(cells)[1:]] == [
        ["0.100", "0.000", "0.200", "9"],
        ["0.015", "0.000", "0.030", "9"],
    ]
    source = np.random.default_rng(8)
    lows, widths = source.normal(0, 100, 200).tolist(), (10.0 ** source.uniform(-7, 7, 200)).tolist()
    for low, width in zip(lows, widths, strict=True):
        value, least, most = map(float, numbers_text(low + width / 3, low, low + width))
        assert least <= low < low + width <= most
        assert least <= value <= most
        assert most - least <= 1.03 * width + 2


def test_it_reads_as_text() -> None:
    assert "nobody was asked" in invoke("run", "masked-parity", "--d", 4, "--oracle", "exact")
    assert "seen in the clear" in invoke("run", "mean", "--users", 100, "--oracle", "samples")
    assert "ε = 0.5 at most spent" in invoke("run", "mean", "--users", 100, "--epsilon", "0.5")


def test_too_few_users_have_an_exit_code_and_a_reason() -> None:
    for oracle in ("local", "fresh", "curator"):
        ran = run_json("masked-parity", "--d", 16, "--users", 1, "--oracle", oracle, code=Exit.TOO_FEW_USERS)
        assert ran["state"] == "failed"
        assert "round" in ran["reason"]
        assert (ran["hypothesis"], ran["error"], ran["success"]) == ({}, None, None)


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (["masked-parity", "--d", 4], "--users"),
        (["mean", "--users", 10, "--oracle", "exact", "--engine", "dask"], "--engine"),
        (["mean", "--users", 10, "--oracle", "curator", "--workers", 2], "--workers"),
        (["mean", "--users", 10, "--oracle", "exact", "--cluster", "tcp://127.0.0.1:1"], "--cluster"),
        (["mean", "--users", 10, "--cluster", "tcp://127.0.0.1:1"], "--cluster"),
        (["mean", "--users", 10, "--engine", "dask", "--workers", 2, "--cluster", "tcp://127.0.0.1:1"], "--cluster"),
        (["mean", "--users", 10, "--engine", "dask", "--cluster", "nowhere://at-all"], "--cluster"),
        (["mean", "--users", 10, "--oracle", "exact", "--keep", "it"], "--keep"),
        (["mean", "--users", 10, "--oracle", "local", "--server", "http://127.0.0.1:1"], "--server"),
        (["mean", "--users", 10, "--server", "http://127.0.0.1:1"], "--server"),
        (["mean", "--users", 10, "--label", "y"], "--label"),
        (["mean", "--users", 10, "--counts", "--oracle", "exact"], "--counts"),
        (["mean", "--users", 10, "--counts", "--engine", "dask"], "--counts"),
        (["mean", "--users", 10, "--counts", "--workers", 2], "--counts"),
        (["mean", "--users", 10, "--counts", "--data", "people.csv"], "--counts"),
        (["kmeans", "--users", 10, "--counts"], "--counts"),
        (["mean", "--users", 10, "--set", "cells"], "--set"),
        (["mean", "--users", 10, "--alpha", "0.1"], "alpha"),
        (["histogram", "--users", 10], "cells"),
        (["mean", "--users", 10, "--epsilon", "none"], "epsilon"),
        (["masked-parity", "--d", 4, "--users", 10, "--eta", "0.5"], "eta"),
        (["no-such-thing", "--users", 10], "strategy"),
    ],
)
def test_what_does_not_go_together_is_refused(options: list[object], where: str) -> None:
    with pytest.raises(AskanceError) as refused:
        invoke("run", *options)

    assert where in refused.value.where
    assert refused.value.remedy


# --------------------------------------------------------------------------------------------------------- own table


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of numbers, categories and a bit, sorted by its label: as a file may be."""
    columns = synthetic("heart", {}, 2).columns(range(10_000))
    records = [columns.example(row).record() for row in range(len(columns))]
    for record in records:
        record["ill"] = "yes" if record.pop("y") == 1 else "no"
    records.sort(key=lambda record: str(record["ill"]))
    path = tmp_path_factory.mktemp("own") / "patients.csv"
    names = list(records[0])
    path.write_text("\n".join([",".join(names), *(",".join(str(r[name]) for name in names) for r in records)]) + "\n")
    return path


@pytest.mark.parametrize("strategy", ["conjunction", "decision-list", "decision-tree", "perceptron"])
def test_ones_own_table_is_learned_and_judged_on_rows_that_were_kept(patients: Path, strategy: str) -> None:
    # Who stops early leaves users unasked: in two rounds the perceptron cannot.
    all_rounds = ["--set", "rounds=2"] if strategy == "perceptron" else []
    exact = run_json(strategy, "--data", patients, "--label", "ill", "--oracle", "samples", *all_rounds)

    assert exact["users"] == 8_000
    assert 0 <= 8_000 - sum(exact["received"]) < exact["queries"]
    assert exact["d"] == len(exact["features"]) > 8
    assert exact["target"] == {}
    low, high = exact["error_interval"]
    assert (low <= exact["error"] <= high, exact["error_known"]) == (True, "held-out")
    # Who learned nothing is wrong about the rarer label.
    assert strategy == "conjunction" or exact["error"] < 0.45


def test_a_tree_is_learned_from_a_table_by_local_reports_and_speaks_its_names(tmp_path: Path) -> None:
    drawn = np.random.default_rng(3).integers(0, 2, (40_000, 3))
    lines = [f"{age + 40},{sport},{'no' if age else 'yes'},{age & sport}" for age, sport, _ in drawn.tolist()]
    (tmp_path / "people.csv").write_text("\n".join(["age,sport,young,tired", *lines]) + "\n")
    ran = run_json("decision-tree", "--data", tmp_path / "people.csv", "--label", "tired", "--epsilon", 2)

    assert ran["oracle"] == "local"
    assert ran["max_spent_micro_epsilon"] == 2_000_000
    assert ran["error"] == 0
    assert "sport" in ran["text"]


@pytest.mark.parametrize("oracle", ["exact", "local"])
def test_the_error_on_rows_that_were_learned_from_is_not_told(patients: Path, oracle: str) -> None:
    """A learner is right on those more often than on the users that it will meet."""
    ask = ["decision-tree", "--data", patients, "--label", "ill", "--oracle", oracle]
    ran = run_json(*ask, "--users", 10_000)

    assert [ran[name] for name in ("error", "error_known", "error_interval", "error_level", "success")] == [None] * 5
    assert "every row was learned from: hold some out" in invoke("run", *ask, "--users", 10_000)
    # The control: one that is left over is enough to say something, and what it says is no more than one row can.
    one = run_json(*ask, "--users", 9_999)
    low, high = one["error_interval"]
    assert (one["error"] in (0, 1), one["error_known"], high - low > 0.9) == (True, "held-out", True)
    with pytest.raises(AskanceError, match="from 1 to 10000"):
        run_json("decision-tree", "--data", patients, "--label", "ill", "--users", 10_001)


def test_an_error_on_rows_that_were_learned_from_would_be_too_small(tmp_path: Path) -> None:
    """Why: labels are fair coins, so every hypothesis errs on half of the users to come, and on fewer of its rows."""
    drawn = np.random.default_rng(5).integers(0, 2, (60, 9)).tolist()
    lines = [",".join(map(str, row)) for row in drawn]
    (tmp_path / "coins.csv").write_text("\n".join([",".join("abcdefghy"), *lines]) + "\n")
    file = TableFile(tmp_path / "coins.csv", label="y")
    strategy = registry()["decision-tree"]
    table = table_population(file, strategy, {"depth": 3}, 1)
    ran = run_json("decision-tree", "--data", file.path, "--label", "y", "--users", 60, "--oracle", "exact")
    rows = table.population.columns(range(60))

    assert error_on(strategy, ran["hypothesis"], rows).value == pytest.approx(0.3, abs=0.12)
    assert (ran["error"], ran["error_known"]) == (None, None)


@pytest.fixture(scope="module")
def declared(patients: Path) -> Path:
    """What the patients' columns may hold, written down without looking at a row."""
    fields = synthetic("heart", {}, 2).schema.fields
    named = [field.model_dump() for field in fields if field.name != "y"] + [{"kind": "label", "name": "ill"}]
    path = patients.with_name("patients.json")
    path.write_text(json.dumps({"fields": named}))
    return path


def test_epsilon_is_claimed_of_real_rows_with_a_declared_schema_and_real_noise_alone(
    patients: Path, declared: Path
) -> None:
    ask = ["decision-tree", "--set", "depth=1", "--data", patients, "--epsilon", 4]
    # Much noise: with as little as ε = 4 two runs may well say the same.
    noisy = ["decision-tree", "--set", "depth=1", "--data", patients, "--epsilon", "0.05"]
    private = [run_json(*noisy, "--schema", declared, "--positive", "yes") for _ in range(8)]

    assert private[0]["not_private"] == []
    # Runs of one table have other noise, also in the error on the rows that were kept.
    assert len({ran["error"] for ran in private}) > 3
    assert (private[0]["error_known"], private[0]["features"]) == ("held-out", private[1]["features"])
    low, high = private[0]["error_interval"]
    assert low <= private[0]["error"] <= high

    inferred = run_json(*ask, "--label", "ill")
    seeded = run_json(*ask, "--schema", declared, "--positive", "yes", "--seed", 1)
    clear = run_json(*ask, "--schema", declared, "--positive", "yes", "--oracle", "samples")
    assert ["inferred" in inferred["not_private"][0], "seed" in seeded["not_private"][0]] == [True, True]
    assert "--oracle samples" in clear["not_private"][0]
    assert [len(each["not_private"]) for each in (inferred, seeded, clear)] == [1, 1, 1]
    assert "no ε is claimed" in invoke("run", *ask, "--label", "ill")


def test_the_error_on_rows_that_were_asked_is_not_told_where_epsilon_is_claimed(patients: Path, declared: Path) -> None:
    """They have paid ε for their reports."""
    ran = run_json(
        "decision-tree", "--set", "depth=1", "--data", patients, "--schema", declared, "--positive", "yes", "--users",
        10_000, "--epsilon", 4,
    )  # fmt: skip

    assert (ran["error"], ran["error_known"], ran["success"]) == (None, None, None)


def test_rows_are_shuffled_and_keep_their_labels(patients: Path) -> None:
    rows = from_file(patients, label="ill")
    file = TableFile(patients, label="ill")
    tables = [table_population(file, registry()["decision-list"], {}, seed) for seed in (1, 1, 2)]
    first, again, other = (each.population.columns(range(10_000)) for each in tables)

    assert np.array_equal(first["x"], again["x"])
    assert not np.array_equal(first["x"], other["x"])
    assert isinstance(rows, FromFile)
    male = tables[0].features.index("sex = male")
    seen = (first["x"][0].astype(np.uint64) >> np.uint64(male) & np.uint64(1)) == 1
    assert seen.sum() == (rows.rows["sex"] == 1).sum()
    assert (seen & (first["y"] == 1)).sum() == ((rows.rows["sex"] == 1) & (rows.rows["ill"] == 1)).sum()
    # The file is sorted by its label; a tenth of the shuffled rows has about a tenth of each.
    share = (first["y"] == 1).mean()
    assert abs((first["y"][:1000] == 1).mean() - share) < 5 * np.sqrt(share * (1 - share) / 1000)


def test_a_table_in_the_strategys_own_form_is_taken_as_it_is(tmp_path: Path) -> None:
    x = np.random.default_rng(1).integers(0, 2, (8000, 5))
    y = np.where(x[:, [0, 3]].all(axis=1), 1, -1)
    np.savez(tmp_path / "own.npz", x=x, y=y)
    ran = run_json("conjunction", "--d", 5, "--data", tmp_path / "own.npz", "--label", "y", "--oracle", "curator")

    assert ran["features"] == []
    assert ran["hypothesis"] == {"variables": [0, 3]}
    assert ran["error"] == 0

    (tmp_path / "values.csv").write_text("value\n" + "0.5\n-0.5\n1\n" * 400)
    assert run_json("mean", "--data", tmp_path / "values.csv", "--users", 1200, "--oracle", "exact")["hypothesis"][
        "mean"
    ] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["masked-parity", "--label", "ill"], "makes no examples that 'masked-parity' learns from"),
        (["decision-list"], "no label"),
        (["decision-list", "--label", "ill", "--d", 3], "the table makes it"),
        (["decision-list", "--label", "ill", "--eta", "0.1", "--oracle", "exact"], "--eta"),
        (["decision-list", "--label", "illness"], "no column"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(patients: Path, options: list[object], what: str) -> None:
    with pytest.raises(AskanceError, match=what):
        run_json(*options, "--data", patients)


# --------------------------------------------------------------------------------------------------------- as a process


def test_a_run_prints_what_the_contract_says() -> None:
    ran = json_of("run", "masked-parity-pooled", "--d", 4, "--users", 20_000, "--seed", 3, "--oracle", "http")

    assert {
        "strategy",
        "d",
        "users",
        "rounds",
        "interactive",
        "hypothesis",
        "target",
        "error",
        "success",
        "seconds",
    } <= set(ran)
    assert ran["hypothesis"] == ran["target"]
    assert (ran["error"], ran["success"], ran["interactive"]) == (0, True, True)
    assert ran["max_spent_micro_epsilon"] == 1_000_000
    assert len(ran["received"]) == ran["rounds"] > 1
    assert sum(ran["received"]) <= 20_000


def test_a_run_of_the_same_seed_draws_from_the_same_population_and_noise_marked_as_simulated() -> None:
    ran = [json_of("run", "mean", "--users", 3000, "--seed", 4) for _ in range(2)]

    assert ran[0]["target"] == ran[1]["target"]
    assert ran[0]["error"] < 0.2


def test_a_run_that_has_too_few_users_says_so() -> None:
    run = askance("run", "masked-parity", "--d", 16, "--users", 1)

    assert run.returncode == Exit.TOO_FEW_USERS
    assert "round" in run.stdout


def test_a_run_of_what_is_no_strategy_says_what_there_is() -> None:
    run = askance("run", "no-such-thing", "--users", 10)

    assert run.returncode == Exit.USAGE
    assert "masked-parity" in run.stderr


def test_a_run_says_what_was_planned_and_what_its_users_meet() -> None:
    few = json.loads(invoke("run", "mean", "--users", 1000, "--json"))["planned"]
    assert few == {"enrol": 7590, "enough": False, "meets": {"parameter": "tolerance", "value": "0.14"}}
    assert "\nPlanned for 7,590 users: 1,000 meet tolerance = 0.14.\n" in invoke("run", "mean", "--users", 1000)

    enough = json.loads(invoke("run", "mean", "--users", 7590, "--json"))["planned"]
    assert enough == {"enrol": 7590, "enough": True, "meets": None}
    assert "Planned" not in invoke("run", "mean", "--users", 7590)
    # Of whom nobody asks for reports there is no plan.
    assert json.loads(invoke("run", "mean", "--oracle", "exact", "--json"))["planned"] is None
