"""`askance survey`, `run --ask` and `plan --ask`: what is asked of a table, what a gap counts as, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from askance_client.tables import written_schema
from askance_protocol.errors import AskanceError, DataError, UsageError
from askance_protocol.schema import CategoryField, IntegerField, Schema
from tests.lab.commands.calls import invoke

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
