"""`askance schema` writes what can be edited and declared, and never shows a cell in an error."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from askance_client.tables import from_file, read_schema
from askance_lab.commands.shared.table_options import TableOptions
from askance_protocol.errors import AskanceError, DataError, UsageError
from askance_protocol.schema import CategoryField, IntegerField, RealField, Schema
from tests.lab.commands.calls import askance, invoke

ROWS = "minutes,plan,2020\n7,pro,Secret Ann\n,free,Secret Bob\n120,,Secret Cid\n"
FIELDS = (
    IntegerField(name="minutes", low=7, high=120, gap=True),
    CategoryField(name="plan", values=("free", "pro"), gap=True),
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(ROWS)
    return path


def test_a_schema_is_printed_written_and_declared(table: Path, tmp_path: Path) -> None:
    printed, out = invoke("schema", table), tmp_path / "people.json"
    assert invoke("schema", table, "--out", out) == ""

    assert out.read_text() == printed
    assert read_schema(out).fields == FIELDS
    assert from_file(table, schema=read_schema(out)).example(1).record() == {"minutes": None, "plan": "free"}


def test_it_says_in_one_line_that_no_epsilon_covers_it_and_why_a_column_is_left_out(table: Path) -> None:
    run = askance("schema", table)

    assert run.returncode == 0
    assert run.stderr.splitlines() == [
        "askance: column 3 is left out: it has a name that no field can have",
        "askance: inferred from the rows, so no ε covers what it says: edit it to what is publicly known",
    ]
    assert "Secret" not in run.stderr + run.stdout


def test_as_json_it_is_one_object(table: Path) -> None:
    found = json.loads(invoke("schema", table, "--json"))

    assert found["schema_version"] == 1
    assert Schema.model_validate_json(json.dumps({"fields": found["fields"]})).fields == FIELDS
    assert found["left_out"] == [{"column": 3, "reason": "has a name that no field can have"}]
    assert "no ε" in found["not_private"][0]


def test_a_column_with_a_name_of_its_own_is_kept_and_its_name_is_said(table: Path) -> None:
    table.write_text('"Movie Rating",plan,Straße,minutes,Plan,Ünits (€)\n3,pro,a,7,x,4\n4,free,b,9,y,5\n')
    run = askance("schema", table)

    assert [field["name"] for field in json.loads(run.stdout)["fields"]] == [
        "movie_rating",
        "plan",
        "strasse",
        "minutes",
        "units",
    ]
    assert run.stderr.splitlines()[:4] == [
        "askance: column 'Movie Rating' is called movie_rating here",
        "askance: column 'Straße' is called strasse here",
        "askance: column 'Ünits (€)' is called units here",
        # Another column has that name.
        "askance: column 5 is left out: it has a name that no field can have",
    ]
    with pytest.raises(DataError, match=r"has no column 'Movie Rating' \(it is called movie_rating here\)"):
        invoke("schema", table, "--column", "Movie Rating")
    answer = json.loads(invoke("run", "survey", "--data", table, "--ask", "mean(movie_rating)", "--json"))
    assert answer["estimates"][0]["name"] == "mean(movie_rating)"


def test_columns_ranges_and_gaps_are_declared_by_options(table: Path) -> None:
    options = ("--column", "minutes", "--low", "0", "--high", "180", "--missing", "0")
    found = json.loads(invoke("schema", table, *options, "--json"))

    assert found["fields"] == [{"name": "minutes", "kind": "integer", "low": 0, "high": 180}]


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("", (), r"is empty \("),
        ("a,b\n", (), r"has no rows \("),
        ("a,a\n1,2\n", (), "no column with a name that a field can have"),
        ("a,b\n7741x,1\n1,2\n", ("--column", "c"), "has no column 'c'"),
        ("a,b\n1,2\n77\n", (), r"row 2 \(line 3\): has 1 cells where the header has 2"),
        ("a,b\n1,2\n7741x,2\n", ("--column", "a"), r"row 2 \(line 3\), column 'a': is not a number"),
        ("a,b\n1,2\n", ("--low", "5", "--high", "2"), "--low: is above --high"),
        ('a,b\n1,"7741', (), "line 2: is not CSV"),
    ],
)
def test_an_error_names_the_place_and_never_the_cell(
    content: str, options: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text(content)

    with pytest.raises(AskanceError) as caught:
        invoke("schema", tmp_path / "t.csv", *options)
    assert re.search(said, str(caught.value))
    assert caught.value.remedy
    assert "7741" not in str(caught.value)


def test_a_file_that_cannot_be_written_is_named(table: Path, tmp_path: Path) -> None:
    with pytest.raises(AskanceError, match="cannot be written"):
        invoke("schema", table, "--out", tmp_path / "none" / "s.json")


# ------------------------------------------------------------------------------------------- the group of options

DECLARED = Schema(
    fields=(
        IntegerField(name="minutes", low=0, high=120, gap=True),
        CategoryField(name="plan", values=("free", "pro"), gap=True),
        RealField(name="score", low=0, high=1, denominator=10),
    )
)


def options(
    tmp_path: Path,
    *columns: str,
    low: int | None = None,
    high: int | None = None,
    missing: str | None = None,
    rows: str = ROWS,
) -> TableOptions:
    (tmp_path / "s.json").write_bytes(DECLARED.to_bytes())
    (tmp_path / "t.csv").write_text(rows)
    return TableOptions.of(tmp_path / "t.csv", tmp_path / "s.json", list(columns) or None, low, high, missing)


def test_a_declared_schema_is_that_of_the_columns_after_the_repairs(tmp_path: Path) -> None:
    assert options(tmp_path).declared() == DECLARED
    assert options(tmp_path, "score", "minutes", high=60, missing="0").declared() == Schema(
        fields=(
            IntegerField(name="minutes", low=0, high=60),
            RealField(name="score", low=0, high=1, denominator=10),
        )
    )


def test_what_cannot_be_declared_is_refused_by_its_option(tmp_path: Path) -> None:
    for wrong, said in (
        (options(tmp_path, "hours"), "--column"),
        (options(tmp_path, "plan", low=1), "--low"),
        (options(tmp_path, "plan", missing="basic"), "missing"),
        (options(tmp_path, "minutes", low=-5, high=120), "--low, --high: lie beyond what the schema declares"),
        (options(tmp_path, "minutes", high=600), "--low, --high: lie beyond what the schema declares"),
    ):
        with pytest.raises(UsageError, match=said):
            wrong.declared()


def test_for_a_study_only_its_columns_are_looked_at(tmp_path: Path) -> None:
    """What else the table holds may be broken; and a gap stays what the study declares."""
    example = Schema(fields=(DECLARED.fields[0],))
    broken = "minutes,plan,score\n7,basic,x\n,y,\n"

    assert [options(tmp_path, rows=broken).rows_for(example).example(row)["minutes"] for row in (0, 1)] == [7, 121]
    filled = options(tmp_path, rows=broken, missing="30").rows_for(example)
    assert filled.schema == example
    assert [filled.example(row)["minutes"] for row in (0, 1)] == [7, 30]


def test_a_study_of_another_column_or_range_is_refused(tmp_path: Path) -> None:
    example = Schema(fields=(DECLARED.fields[0],))

    with pytest.raises(UsageError, match="leaves out minutes"):
        options(tmp_path, "plan").rows_for(example)
    with pytest.raises(UsageError, match="--low, --high"):
        options(tmp_path, "minutes", low=5).rows_for(example)


@pytest.mark.parametrize("command", [("fleet", "--users", "3"), ("client", "--cap", "1", "--yes", "--study", "0" * 64)])
def test_nobody_is_left_out_where_users_are_asked_for_real(command: tuple[str, ...], table: Path) -> None:
    """She who has a gap and does not report has told it."""
    with pytest.raises(UsageError, match="would tell who has a gap"):
        invoke(*command, "--data", table, "--missing", "skip")


@pytest.mark.parametrize("option", [("--column", "a"), ("--low", "1"), ("--high", "1"), ("--missing", "0")])
def test_what_is_said_of_a_table_needs_one(option: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match=f"{option[0]}: is for a table"):
        invoke("fleet", "--users", "3", *option)
