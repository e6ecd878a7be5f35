"""One table answers many studies: what is asked is told by the columns, and no other column matters."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from askance_client.simulation.population import synthetic
from askance_client.tables import written_schema
from askance_lab.oracles.shared.bshouty_feldman import bshouty_feldman
from askance_protocol.errors import AskanceError, DataError, ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery
from askance_protocol.schema import CategoryField, IntegerField, RealField, Schema
from askance_server.strategies.histogram import HISTOGRAM
from askance_server.strategies.mean import MEAN
from tests.lab.commands.calls import invoke

USERS: Final = 4000
PEOPLE: Final = synthetic("telemetry", {}, 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The made-up table as a file, its schema, and the same with a column that is broken in its last row."""
    path = tmp_path_factory.mktemp("telemetry")
    rows = [PEOPLE.example(user).record() for user in range(USERS)]
    for name, last in (("t.csv", {}), ("broken.csv", {"crashes": "7741x", "country": "7741y"})):
        with (path / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(PEOPLE.schema.position))
            writer.writeheader()
            writer.writerows([*rows[:-1], {**rows[-1], **last}])
    (path / "s.json").write_text(written_schema(PEOPLE.schema))
    return path


def run(folder: Path, strategy: str, *options: str, file: str = "t.csv") -> Any:
    more = ("--data", folder / file, "--schema", folder / "s.json", "--users", USERS, "--epsilon", "8", "--seed", "1")
    return json.loads(invoke("run", strategy, *more, *options, "--json"))


def held(name: str) -> list[Any]:
    return [PEOPLE.example(user).record()[name] for user in range(USERS)]


def test_a_mean_is_of_those_who_have_a_value(folder: Path) -> None:
    minutes = [value for value in held("minutes") if value is not None]

    found = run(folder, "mean", "--column", "minutes")
    assert found["hypothesis"]["mean"] == pytest.approx(np.mean(minutes), abs=6)
    by_parameter = run(folder, "mean", "--set", "column=minutes")["hypothesis"]
    assert by_parameter["mean"] == pytest.approx(np.mean(minutes), abs=6)


def test_a_gap_counts_as_what_was_said(folder: Path) -> None:
    as_zero = [value or 0 for value in held("minutes")]

    found = run(folder, "mean", "--column", "minutes", "--missing", "0")
    assert found["hypothesis"]["mean"] == pytest.approx(np.mean(as_zero), abs=6)
    assert abs(np.mean(as_zero) - np.mean([value for value in held("minutes") if value is not None])) > 2


def test_rows_with_a_gap_may_be_left_out_and_then_no_epsilon_is_claimed(folder: Path) -> None:
    with pytest.raises(AskanceError):
        run(folder, "mean", "--column", "minutes", "--missing", "skip")  # so many users are not left
    options = ("--data", folder / "t.csv", "--schema", folder / "s.json", "--column", "minutes", "--missing", "skip")
    found = json.loads(invoke("run", "mean", *options, "--json"))

    assert any("--missing skip" in reason for reason in found["not_private"])


def test_a_histogram_has_a_cell_for_each_value_and_one_for_gaps(folder: Path) -> None:
    plans = held("plan")

    found = run(folder, "histogram", "--column", "plan")["hypothesis"]
    names = ["'free'", "'pro'", "'team'", "missing"]
    assert found["cells"] == [f"histogram(plan): {name}" for name in names]
    shares = [plans.count(value) / USERS for value in ("free", "pro", "team", None)]
    assert found["shares"] == pytest.approx(shares, abs=0.06)


def test_numbers_are_cut_and_bounded(folder: Path) -> None:
    found = run(folder, "histogram", "--column", "minutes", "--set", "cuts=30,60")["hypothesis"]
    assert [name.rpartition(": ")[2] for name in found["cells"]] == [
        "under 30",
        "30 to under 60",
        "60 or more",
        "missing",
    ]

    bounded = run(folder, "mean", "--column", "minutes", "--low", "0", "--high", "30")["hypothesis"]["mean"]
    assert bounded == pytest.approx(np.mean([min(value, 30) for value in held("minutes") if value is not None]), abs=3)


def test_a_column_that_nobody_asks_may_be_broken(folder: Path) -> None:
    asked = ("--column", "minutes")
    assert run(folder, "mean", *asked, file="broken.csv")["hypothesis"] == run(folder, "mean", *asked)["hypothesis"]
    survey = ("--ask", "mean(minutes)", "--ask", "share(plan = 'pro')")
    assert run(folder, "survey", *survey, file="broken.csv")["state"] == "finished"


@pytest.mark.parametrize(
    ("strategy", "options"), [("mean", ("--column", "crashes")), ("survey", ("--ask", "share(country)"))]
)
def test_control_a_column_that_is_asked_has_to_be_sound(folder: Path, strategy: str, options: tuple[str, ...]) -> None:
    with pytest.raises(
        DataError, match=rf"row {USERS} \(line {USERS + 1}\), column '(crashes|country)': is not"
    ) as caught:
        run(folder, strategy, *options, file="broken.csv")
    assert "7741" not in str(caught.value)


def test_of_several_columns_one_has_to_be_named(folder: Path) -> None:
    with pytest.raises(AskanceError, match="there are several"):
        run(folder, "mean", "--column", "minutes", "--column", "crashes")
    with pytest.raises(AskanceError, match="'hours'"):
        run(folder, "mean", "--column", "hours")


# ------------------------------------------------------------------------------------- the strategies by themselves


def test_over_its_own_examples_a_strategy_is_what_it_was() -> None:
    """Whatever it is: also one that was made of it."""
    value = Schema(fields=(RealField(name="value", low=-1, high=1, denominator=50),))
    cell = Schema(fields=(IntegerField(name="cell", low=0, high=4),))

    for strategy, example in ((MEAN, value), (HISTOGRAM, cell), (replace(MEAN, summary="another"), value)):
        assert strategy.on(example) is strategy


def test_a_table_of_other_steps_than_the_parameters_say_is_refused(tmp_path: Path) -> None:
    """Its answers would be read in other units."""
    (tmp_path / "t.csv").write_text("value\n" + "0.5\n-0.5\n" * 200)
    coarse = Schema(fields=(RealField(name="value", low=-1, high=1, denominator=10),))
    (tmp_path / "s.json").write_text(written_schema(coarse))
    options = ("mean", "--data", tmp_path / "t.csv", "--schema", tmp_path / "s.json", "--oracle", "exact", "--json")

    with pytest.raises(ProtocolError, match="declares other examples"):
        invoke("run", *options)
    found = json.loads(invoke("run", *options, "--set", "denominator=10"))
    assert found["hypothesis"]["mean"] == pytest.approx(0, abs=0.1)


def test_a_mean_of_boolean_queries_alone_stays_one_over_a_table() -> None:
    asked = bshouty_feldman(MEAN).on(PEOPLE.schema).run({"column": "crashes"})

    assert {type(ask.query) for ask in next(asked)} == {BooleanQuery}


def test_a_category_has_no_mean() -> None:
    with pytest.raises(ProtocolError, match="has no mean"):
        MEAN.on(PEOPLE.schema).schema({"column": "country"})


def test_a_range_of_more_steps_than_can_be_asked_is_refused() -> None:
    fine = Schema(fields=(RealField(name="weight", low=0, high=500, denominator=1000),))

    with pytest.raises(ProtocolError, match="steps"):
        MEAN.on(fine).schema({})


def test_who_has_a_gap_is_asked_as_others_are() -> None:
    """The queries are total: on a gap they answer, each within its range."""
    gap = Schema(fields=(CategoryField(name="plan", values=("a", "b"), gap=True),))
    [ask] = next(HISTOGRAM.on(gap).run({}))

    assert ask.query.answers(Columns(gap, {"plan": np.array([0, 1, 2])}, 3)).tolist() == [1, 2, 3]
