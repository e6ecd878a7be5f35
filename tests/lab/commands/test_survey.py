"""`askance survey`, `run --ask` and `plan --ask`: what is asked of a table, what a gap counts as, what is refused."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from askance_client.tables import written_schema
from askance_lab.commands.shared import estimates_text
from askance_lab.commands.shared.estimates_text import estimate_lines
from askance_protocol.errors import AskanceError, DataError, MissingExtraError, UsageError
from askance_protocol.schema import CategoryField, IntegerField, Schema
from askance_server.core.strategy import Estimate
from tests.lab.commands.calls import at_home, invoke

USERS: Final = 3000
PEOPLE: Final = Schema(
    fields=(
        IntegerField(name="minutes", low=0, high=100, gap=True),
        CategoryField(name="plan", values=("free", "pro")),
        IntegerField(name="crashes", low=0, high=9),
    )
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every third user has no minutes, the others 50 or 90; every fourth pays; the last crash is no number."""
    path = tmp_path_factory.mktemp("survey")
    rows = [f"{['', '50', '90'][user % 3]},{['pro', 'free'][user % 4 > 0]},{user % 10}" for user in range(USERS)]
    for name, last in (("t.csv", rows[-1]), ("broken.csv", "50,free,7741x")):
        (path / name).write_text("\n".join(["minutes,plan,crashes", *rows[:-1], last]) + "\n")
    (path / "s.json").write_text(written_schema(PEOPLE))
    return path


def survey(folder: Path, *options: object, file: str = "t.csv", schema: bool = True) -> Any:
    declared = ("--schema", folder / "s.json") if schema else ()
    table = ("--data", folder / file, *declared, "--epsilon", "8", "--seed", "1")
    return json.loads(invoke("survey", *table, *options, "--json"))


def estimated(answer: Any) -> dict[str, float]:
    return {row["name"]: row["estimate"] for row in answer["estimates"]}


def test_a_survey_is_a_run_of_its_questions(folder: Path) -> None:
    asks = ("--ask", "mean(minutes)", "--ask", "share(plan)")
    found, run = survey(folder, *asks), ("--data", folder / "t.csv", "--schema", folder / "s.json")
    same = json.loads(invoke("run", "survey", *run, *asks, "--epsilon", "8", "--seed", "1", "--json"))

    assert found["estimates"] == same["estimates"]
    assert estimated(found) == pytest.approx(
        {"mean(minutes)": 70, "share(plan): 'free'": 0.75, "share(plan): 'pro'": 0.25}, abs=4
    )
    # A mean of whoever has a value: gaps that counted as 0 would make it 47.
    assert estimated(found)["mean(minutes)"] == pytest.approx(70, abs=4)


def test_a_gap_counts_as_what_is_said(folder: Path) -> None:
    assert estimated(survey(folder, "--ask", "mean(minutes)", "--missing", "0"))["mean(minutes)"] == pytest.approx(
        140 / 3, abs=3
    )
    skipped = survey(folder, "--ask", "mean(minutes)", "--missing", "skip")
    assert (skipped["users"], estimated(skipped)["mean(minutes)"]) == (USERS * 2 // 3, pytest.approx(70, abs=3))
    assert any("--missing skip" in reason for reason in skipped["not_private"])


def test_numbers_beyond_a_range_count_as_its_ends(folder: Path) -> None:
    bounded = survey(folder, "--ask", "mean(minutes)", "--low", "0", "--high", "60")
    assert estimated(bounded)["mean(minutes)"] == pytest.approx(55, abs=3)


def test_bounds_of_one_column_are_not_those_of_another(folder: Path) -> None:
    """`--high 60` for the minutes: the noise of crashes from 0 to 9 stays as it is."""
    asks = ("--ask", "mean(minutes)", "--ask", "mean(crashes)")
    own, bounded = (survey(folder, *asks, *more)["estimates"][1] for more in ((), ("--high", "60")))

    assert bounded["name"] == "mean(crashes)"
    assert bounded["high"] - bounded["low"] == pytest.approx(own["high"] - own["low"], rel=0.1)
    with pytest.raises(UsageError, match="lie beyond what the schema declares, and change nothing"):
        survey(folder, *asks, "--low", "0", "--high", "120")


def test_how_many_numbers_count_as_the_end_of_their_range_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = at_home(
        capsys,
        "survey",
        "--data",
        folder / "t.csv",
        "--schema",
        folder / "s.json",
        "--high",
        "60",
        "--ask",
        "mean(minutes)",
    )

    assert code == 0
    assert "askance: 1,000 numbers of minutes are beyond its range, and count as the nearer end" in err
    assert (
        "beyond its range"
        not in at_home(
            capsys, "survey", "--data", folder / "t.csv", "--schema", folder / "s.json", "--ask", "mean(minutes)"
        )[2]
    )


def test_a_label_has_to_have_the_value_that_counts_as_positive(folder: Path) -> None:
    table = ("run", "conjunction", "--data", folder / "t.csv", "--label", "plan", "--column", "crashes")
    with pytest.raises(UsageError, match=r"--positive: 'maybe' is no value of column 'plan' \(give one of free, pro\)"):
        invoke(*table, "--positive", "maybe")
    invoke(*table, "--positive", "pro")


@pytest.mark.parametrize("schema", [True, False])
def test_only_the_columns_that_are_asked_have_to_be_sound(folder: Path, *, schema: bool) -> None:
    found = survey(folder, "--ask", "share(plan = 'pro')", file="broken.csv", schema=schema)
    assert found["state"] == "finished"
    # The control: asked about, the broken column is refused, and its cell is not repeated.
    if schema:
        with pytest.raises(DataError, match="column 'crashes'") as refused:
            survey(folder, "--ask", "mean(crashes)", file="broken.csv", schema=schema)
        assert "7741" not in str(refused.value)


def test_columns_that_are_named_are_all_that_may_be_asked(folder: Path) -> None:
    survey(folder, "--ask", "share(plan)", "--column", "plan")
    with pytest.raises(AskanceError, match="no field 'minutes'"):
        survey(folder, "--ask", "mean(minutes)", "--column", "plan")


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ((), "--ask"),
        (("--ask", "share(dark)", "--missing", "0"), "--missing"),
        (("--ask", "share(dark)", "--low", "3"), "--low"),
        (("--ask", "share(dark)", "--column", "dark"), "--column"),
        (("--ask", "share(dark)", "--low", "3", "--high", "1"), "--low"),
    ],
)
def test_what_says_nothing_here_is_refused(options: tuple[str, ...], where: str) -> None:
    with pytest.raises(UsageError) as refused:
        invoke("survey", *options, "--users", "100")
    assert refused.value.where == where


@pytest.mark.parametrize(
    "command",
    [
        ("survey", "--ask", "share(plan)", "--data"),
        ("run", "survey", "--ask", "share(plan)", "--data"),
        ("run", "mean", "--column", "crashes", "--data"),
        ("curator", "geometric", "--column", "crashes", "--data"),
        ("schema",),
    ],
)
def test_a_file_whose_package_is_missing_says_what_to_install(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "t.parquet"
    arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    parquet.write_table(arrow.table({"plan": ["free", "pro"] * 50, "crashes": [0, 5] * 50}), table)
    assert invoke(*command, table)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtraError) as missing:
        invoke(*command, table)
    assert (missing.value.where, missing.value.remedy) == ("pyarrow", "pip install 'askance[lab]'")


# ------------------------------------------------------------------------------------------------------------ planned


def planned(*options: object) -> Any:
    return json.loads(invoke("plan", "survey", *options, "--json"))


def test_plan_answers_how_many_once_and_says_how_wide_the_intervals_of_these_users_are() -> None:
    asks = ("--ask", "share(dark)", "--ask", "mean(crashes)", "--ask", "mean(minutes)")
    found = planned(*asks, "--width", "0.1")
    rows = found["widths"]["questions"]

    assert [row["name"] for row in rows] == ["share(dark)", "mean(crashes)", "mean(minutes)"]
    assert found["widths"]["users"] == found["enrol"] == found["exact"]["enrol"]
    assert "users_for_width" not in found
    assert max(row["share_of_range"] for row in rows) <= 0.1
    # All are about as wide, whatever they range over.
    assert min(row["share_of_range"] for row in rows) > 0.06
    assert rows[1]["width"] == pytest.approx(9 * rows[1]["share_of_range"])
    # A quarter of the users: twice as wide.
    quarter = planned(*asks, "--width", "0.1", "--users", found["enrol"] // 4)["widths"]["questions"]
    for narrow, wide in zip(rows, quarter, strict=True):
        assert wide["share_of_range"] == pytest.approx(2 * narrow["share_of_range"], rel=0.15)


def test_plan_deals_users_evenly_where_no_width_is_asked() -> None:
    asks = ("--ask", "share(dark)", "--ask", "mean(minutes)")
    even = {row["name"]: row for row in planned(*asks, "--users", 6000)["widths"]["questions"]}
    alike = {row["name"]: row for row in planned(*asks, "--width", "0.1", "--users", 6000)["widths"]["questions"]}

    assert {row["reports"] for row in even.values()} == {3000}
    assert alike["mean(minutes)"]["reports"] > 4 * alike["share(dark)"]["reports"]
    assert alike["mean(minutes)"]["width"] < even["mean(minutes)"]["width"]


def test_plan_says_what_one_report_answers_together(folder: Path) -> None:
    asks = ("--ask", "share(plan = 'pro')", "--ask", "mean(crashes)", "--ask", "share(crashes > 4)")
    asked = ("plan", "survey", *asks, "--schema", folder / "s.json", "--users", 6000, "--epsilon")
    [group] = json.loads(invoke(*asked, "4", "--json"))["together"]

    assert group == {
        "questions": ["share(plan = 'pro')", "share(crashes > 4)"],
        "variance": pytest.approx([0.54, 0.54], abs=0.01),
    }
    said = " ".join(invoke(*asked, "4").split())
    assert "One report, at the whole of ε, answers share(plan = 'pro') and share(crashes > 4): 0.54 of the" in said
    assert "Each user answers one question" not in said
    # Below the threshold nothing is, and the plan says so as before.
    assert json.loads(invoke(*asked, "1", "--json"))["together"] == []
    apart = " ".join(invoke(*asked, "1").split())
    assert "Each user answers one question: 2 each, at a half of ε, would need 1.78 times" in apart


def test_plan_takes_a_declared_schema_and_reads_as_text(folder: Path) -> None:
    said = invoke("plan", "survey", "--schema", folder / "s.json", "--ask", "share(plan)", "--users", 5000)

    assert said.count("Enrol") == 1
    assert "need about" not in said
    assert "95 % intervals with 5,000 users" in said
    assert "share(plan): 'pro'" in said
    assert "Each user answers one question" in said
    assert max(map(len, said.partition("95 % intervals")[2].splitlines()[:-1])) <= 80


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("survey",), "0 questions"),
        (("survey", "--ask", "share(plan"), "at character"),
        (("survey", "--ask", "share(dark)", "--width", "2"), "width"),
        (("survey", "--ask", "share(dark)", "--ask", "share(plan)", "--users", "1"), "too few"),
        (("mean", "--schema", "nowhere.json"), "does not go with mean"),
        (("mean", "--ask", "share(dark)"), "ask1"),
    ],
)
def test_what_cannot_be_planned_is_refused(options: tuple[str, ...], said: str) -> None:
    with pytest.raises(AskanceError, match=said.replace("(", r"\(")):
        invoke("plan", *options)


# ------------------------------------------------------------------------------------------------------- as a table


def table_of(*names: str, width: int = 80) -> list[str]:
    return estimate_lines([Estimate(name, 0.5, 0.4, 0.6, 0.95, 100) for name in names], width=width)[1:]


LONG: Final = "share(plan = 'pro' and minutes > 30 and crashes >= 1 and country = 'at')"


@pytest.mark.parametrize(
    ("old", "new"),
    [("share", "shade"), ("30", "31"), (">= 1", ">= 2"), ("'at'", "'de'"), ("minutes", "seconds")],
)
def test_rows_of_a_table_differ_where_their_questions_do(old: str, new: str) -> None:
    lines = table_of(LONG, LONG.replace(old, new))

    assert len(set(lines)) == 2
    assert max(map(len, lines)) <= 80


def test_questions_that_differ_in_several_places_are_shown_whole() -> None:
    """No single cut tells all three apart: those that would be alike go on in the next line."""
    names = [LONG, LONG.replace("30", "31"), LONG.replace("'at'", "'de'"), "share(dark)"]
    lines = table_of(*names, width=50)
    shown = "".join(line.partition(" 0.500 ")[0] for line in lines).replace(" ", "")

    assert max(map(len, lines)) <= 50
    assert [name for name in names[:2] if name.replace(" ", "") not in shown] == []


def test_control_a_cut_at_the_end_makes_rows_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimates_text, "_within", lambda names, room: [[name[: room - 1] + "…"] for name in names])

    assert len(set(table_of(LONG, LONG.replace("'at'", "'de'")))) == 1
