"""Files as populations: the same rows out of every format, and errors that name the place and never the value."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askance_client.population import Population
from askance_client.simulation.population import synthetic
from askance_client.tables import column_names, from_file, read_schema
from askance_protocol.errors import AskanceError, Code, MissingExtraError, UsageError
from askance_protocol.examples import Columns
from askance_protocol.schema import (
    AnyField,
    BitsField,
    CategoryField,
    IntegerField,
    LabelField,
    RealField,
    Schema,
)

PEOPLE = Schema(
    fields=(
        BitsField(name="genes", width=70),
        BitsField(name="smokes", width=1),
        CategoryField(name="town", values=("Aachen", "Bonn, on the Rhine", 'C"ologne', "Düren")),
        IntegerField(name="age", low=0, high=120),
        RealField(name="height", low=0, high=3, denominator=100),
        LabelField(name="ill"),
    )
)


def people(count: int) -> Columns:
    source = np.random.default_rng(1)
    arrays = {
        "genes": source.integers(0, 2, (count, 70)),
        "smokes": source.integers(0, 2, (count, 1)),
        "town": source.integers(0, 4, count),
        "age": source.integers(18, 100, count),
        "height": source.integers(150, 200, count) / 100,
        "ill": source.choice([-1, 1], count),
    }
    return Columns.of(PEOPLE, arrays)


def records(columns: Columns) -> list[dict[str, Any]]:
    return [columns.example(row).record() for row in range(len(columns))]


def text(path: Path, *lines: str, encoding: str = "utf-8") -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode(encoding))
    return path


def typed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def as_csv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with (path / "people.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path / "people.csv"


def as_npz(path: Path, rows: list[dict[str, Any]]) -> Path:
    np.savez(path / "people.npz", **typed(rows))
    return path / "people.npz"


def as_npz_of_bits(path: Path, rows: list[dict[str, Any]]) -> Path:
    bits = np.array([[int(bit) for bit in row["genes"]] for row in rows], np.uint8)
    np.savez(path / "people.npz", **{**typed(rows), "genes": bits, "smokes": typed(rows)["smokes"] == "1"})
    return path / "people.npz"


def as_npz_of_bytes(path: Path, rows: list[dict[str, Any]]) -> Path:
    np.savez(path / "people.npz", **{**typed(rows), "town": np.array([row["town"].encode() for row in rows])})
    return path / "people.npz"


def as_npy(path: Path, rows: list[dict[str, Any]]) -> Path:
    columns = typed(rows)
    array = np.empty(len(rows), [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        array[name] = column
    np.save(path / "people.npy", array)
    return path / "people.npy"


def as_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    table = pyarrow.table({name: list(column) for name, column in typed(rows).items()})
    town = table.column("town").dictionary_encode()
    table = table.set_column(table.column_names.index("town"), "town", town)
    height = table.column("height").cast(pyarrow.decimal128(5, 2))
    table = table.set_column(table.column_names.index("height"), "height", height)
    parquet.write_table(table, path / "people.parquet")
    return path / "people.parquet"


WRITERS = [as_csv, as_npz, as_npz_of_bits, as_npz_of_bytes, as_npy, as_parquet]
Writer = Callable[[Path, list[dict[str, Any]]], Path]


def complaint(path: Path, **more: Any) -> str:
    with pytest.raises(AskanceError) as caught:
        from_file(path, **more)
    assert (caught.value.code is Code.DATA) == (str(path) in str(caught.value)) == (caught.value.where != "schema")
    assert caught.value.remedy
    return str(caught.value).replace(f"{path}, ", "").replace(f"{path}: ", "")


# ------------------------------------------------------------------------------------------------ round trips


@pytest.mark.parametrize("write", WRITERS)
def test_what_was_written_is_read_with_the_schema(write: Writer, tmp_path: Path) -> None:
    rows = records(people(300))
    population = from_file(write(tmp_path, rows), schema=PEOPLE)

    assert population.schema == PEOPLE
    assert population.size == 300
    assert records(population.columns(range(300))) == rows


@pytest.mark.parametrize("write", WRITERS)
def test_what_was_written_is_read_without_a_schema(write: Writer, tmp_path: Path) -> None:
    rows = records(people(300))
    population = from_file(write(tmp_path, rows))

    assert [field.kind for field in population.schema.fields] == [field.kind for field in PEOPLE.fields]
    assert records(population.columns(range(300))) == rows
    assert "not private" in population.summary


def test_many_rows_come_in_order(tmp_path: Path) -> None:
    """More than one batch of every reader."""
    numbers = np.arange(140_000)
    np.savez(tmp_path / "n.npz", n=numbers)
    text(tmp_path / "n.csv", "n", *map(str, numbers.tolist()))

    for name in ("n.npz", "n.csv"):
        population = from_file(tmp_path / name)
        assert population.schema == Schema(fields=(IntegerField(name="n", low=0, high=139_999),))
        assert (population.columns(range(140_000))["n"] == numbers).all()


def test_a_files_user_is_its_row_whatever_the_chunk(tmp_path: Path) -> None:
    population = from_file(as_csv(tmp_path, records(people(50))), schema=PEOPLE)
    whole = population.columns(range(50))

    for begin, end in [(0, 50), (0, 0), (50, 50), (7, 9), (49, 50)]:
        part = population.columns(range(begin, end))
        assert records(part) == records(whole)[begin:end]
    assert population.example(49) == whole.example(49)
    assert not whole["age"].flags.writeable


@pytest.mark.parametrize("users", [range(49, 51), range(51, 52), range(-1, 3)])
def test_a_file_has_no_more_users_than_rows(users: range, tmp_path: Path) -> None:
    population = from_file(as_csv(tmp_path, records(people(50))), schema=PEOPLE)

    with pytest.raises(UsageError, match="number users from 0 to 49"):
        population.columns(users)


def test_a_synthetic_population_survives_its_file(tmp_path: Path) -> None:
    population = synthetic("heart", {}, 1)
    rows = records(population.columns(range(400)))
    read = from_file(as_csv(tmp_path, rows), schema=population.schema)

    assert [read.example(user) for user in range(400)] == [population.example(user) for user in range(400)]


def test_a_file_says_who_it_is(tmp_path: Path) -> None:
    population: Population = from_file(as_csv(tmp_path, records(people(50))), schema=PEOPLE)

    assert population.name == "people.csv"
    assert population.truth == {}
    assert population.summary.splitlines() == [
        "people.csv: 50 users, 6 fields",
        "  genes: 70 bits",
        "  smokes: one bit",
        '  town: one of 4 categories: Aachen, Bonn, on the Rhine, C"ologne, Düren',
        "  age: a whole number from 0 to 120",
        "  height: a real from 0 to 3, in steps of 1/100",
        "  ill: the label, -1 read as -1, 1 as +1",
    ]


# -------------------------------------------------------------------------------------------------- inference


@pytest.mark.parametrize(
    ("cells", "field"),
    [
        (["0", "1", "1"], BitsField(name="c", width=1)),
        (["1", "1"], BitsField(name="c", width=1)),
        (["010", "111"], BitsField(name="c", width=3)),
        (["0" * 70, "1" * 70], BitsField(name="c", width=70)),
        (["10", "11"], IntegerField(name="c", low=10, high=11)),
        (["01", "10", "12"], IntegerField(name="c", low=1, high=12)),
        (["-3", "+7", "0"], IntegerField(name="c", low=-3, high=7)),
        (["1", "-1", "0"], IntegerField(name="c", low=-1, high=1)),
        (["1", "-1"], LabelField(name="c")),
        (["5", "5"], IntegerField(name="c", low=5, high=5)),
        (["1.5", "-2.25", "3"], RealField(name="c", low=-3, high=3, denominator=100)),
        (["1", "2.5"], RealField(name="c", low=1, high=3, denominator=10)),
        (["2.0", "2.0"], RealField(name="c", low=2, high=3, denominator=1)),
        (["1048576.0"], RealField(name="c", low=1048575, high=1048576, denominator=1)),
        (["0.333333333", "1e-1"], RealField(name="c", low=0, high=1, denominator=100_000)),
        (["1e3", "2E+3"], RealField(name="c", low=1000, high=2000, denominator=1)),
        (["b", "a", "1"], CategoryField(name="c", values=("1", "a", "b"))),
    ],
)
def test_a_field_is_inferred_from_text(cells: list[str], field: AnyField, tmp_path: Path) -> None:
    population = from_file(text(tmp_path / "t.csv", "c", *cells))

    assert population.schema.fields == (field,)
    assert population.size == len(cells)


@pytest.mark.parametrize(
    ("cells", "field"),
    [
        (np.array([True, False]), BitsField(name="c", width=1)),
        (np.array([0, 1], np.uint8), BitsField(name="c", width=1)),
        (np.array([[0, 1], [1, 1]]), BitsField(name="c", width=2)),
        (np.array(["01", "10"]), BitsField(name="c", width=2)),
        (np.array(["1", "0"]), BitsField(name="c", width=1)),
        (np.array(["11", "10"]), BitsField(name="c", width=2)),
        (np.array(["11", "12"]), CategoryField(name="c", values=("11", "12"))),
        (np.array([0.5, 1], np.float32), RealField(name="c", low=0, high=1, denominator=10)),
        (np.array([1, 7], np.uint64), IntegerField(name="c", low=1, high=7)),
        (np.array([-1, 1], np.int8), LabelField(name="c")),
    ],
)
def test_a_field_is_inferred_from_an_array(cells: np.ndarray[Any, Any], field: AnyField, tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", c=cells)

    assert from_file(tmp_path / "t.npz").schema.fields == (field,)


@pytest.mark.parametrize(
    ("cells", "labels", "shown"),
    [
        (["0", "1", "0"], [-1, 1, -1], "0 read as -1, 1 as +1"),
        (["1", "-1"], [1, -1], "-1 read as -1, 1 as +1"),
        (["2", "1"], [1, -1], "1 read as -1, 2 as +1"),
        (["0.0", "1"], [-1, 1], "0 read as -1, 1 as +1"),
        (["yes", "no"], [1, -1], "'no' read as -1, 'yes' as +1"),
        (["0", "0"], [-1, -1], "0 read as -1, 1 as +1"),
        (["1", "1"], [1, 1], "-1 read as -1, 1 as +1"),
    ],
)
def test_a_named_label_has_two_values(cells: list[str], labels: list[int], shown: str, tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", "c", *cells)
    population = from_file(path, label="c")

    assert population.columns(range(len(cells)))["c"].tolist() == labels
    assert shown in population.summary
    assert from_file(path, schema=population.schema, label="c").example(0) == population.example(0)


def test_of_two_columns_of_signs_neither_is_taken_for_the_label(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", "a,b", "1,-1", "-1,1")

    assert from_file(path).schema.label is None
    named = from_file(path, label="b").schema
    assert named.fields == (IntegerField(name="a", low=-1, high=1), LabelField(name="b"))


def test_a_byte_order_mark_spaces_quotes_and_blank_lines_at_the_end_do_no_harm(tmp_path: Path) -> None:
    lines = ["a, b", '1, "x, y"', '2, "two\nlines"', "", ""]
    population = from_file(text(tmp_path / "t.csv", *lines, encoding="utf-8-sig"))

    assert population.example(0).record() == {"a": 1, "b": "x, y"}
    assert population.example(1).record() == {"a": 2, "b": "two\nlines"}


def test_columns_that_the_schema_does_not_name_are_left_out(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", "Name of the user,a,,a2", "Ann,1,,x", "Bob,,,y")
    schema = Schema(fields=(CategoryField(name="a2", values=("x", "y")),))
    population = from_file(path, schema=schema)

    assert population.example(1).record() == {"a2": "y"}
    assert "3 columns left out" in population.summary


def test_a_column_that_the_schema_names_is_there_once(tmp_path: Path) -> None:
    schema = Schema(fields=(IntegerField(name="a", low=0, high=9),))

    found = complaint(text(tmp_path / "t.csv", "B,B,a,a", "1,2,3,4"), schema=schema)

    assert found.startswith("column 4: has the name of column 3")


def test_a_declared_category_may_look_like_nothing(tmp_path: Path) -> None:
    schema = Schema(fields=(CategoryField(name="a", values=("NA", "EU")),))

    assert from_file(text(tmp_path / "t.csv", "a", "NA", "EU"), schema=schema).example(0)["a"] == 0


# ----------------------------------------------------------------------------------------------------- errors

SECRET = "7741"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], "is empty"),
        (["a,b"], "has no rows"),
        (["a,b", "1,2", f"{SECRET}"], "row 2 (line 3): has 1 cells where the header has 2"),
        (["a,b", "1,2", f"1,2,{SECRET}"], "row 2 (line 3): has 3 cells where the header has 2"),
        (["a,b", "1,2", "", f"{SECRET},2"], "line 3: is blank, and rows follow"),
        (["a,b", f"{SECRET},", "1,NaN"], "column 'b': has nothing in any row"),
        (["a,b", "1,01", f"{SECRET},"], "column 'b': has bits in some rows and nothing in others"),
        (["a,b", ",x", "1,y", ",y", f"{SECRET}x,z"], "row 4 (line 5), column 'a': is not a number"),
        (["a,b", "1,x", f"{SECRET}x,y"], "row 2 (line 3), column 'a': is not a number"),
        (["a,b", "1,x", "1_0,y"], "row 2 (line 3), column 'a': is not a number"),
        (["a,b", "1,x", "inf,y"], "row 2 (line 3), column 'a': is not a number"),
        (["a,b", "1,x", "1e999,y"], "row 2 (line 3), column 'a': is not a finite number"),
        (["a,b", "1,x", "١,y"], "row 2 (line 3), column 'a': is not a number"),
        (["a,b", "1,x", "--1,y"], "row 2 (line 3), column 'a': is not a number"),
        (["a,b", '1,"two\nlines"', f"{SECRET}x,y"], "row 2 (line 4), column 'a': is not a number"),
        (["a", "01", "10", f"{SECRET}x"], "row 3 (line 4), column 'a': is not a number"),
        (["a", "0" * 30, "1" * 29], "column 'a': has numbers beyond 1048576"),
        (["a", "1", str(1 << 41)], "column 'a': has numbers beyond 1099511627776"),
        (["a", "1.5", "2000000"], "column 'a': has numbers beyond 1048576"),
        (["a", *(f"user{SECRET}{j}" for j in range(4097))], "column 'a': has more than 4096 different texts"),
        (["a", "Ann", "Ann"], "column 'a': has the same text in every row"),
        (["a", "x" * 65, "y"], "column 'a': has texts of more than 64 characters"),
        (["a", "01" * 2049], "column 'a': has 4098 bits for each user"),
        (["a,b,a", "1,2,3"], "column 3: has the name of column 1"),
        (["a,,b", "1,2,3"], "column 2: has no name"),
        ([f"{SECRET},a", "1,2"], "column 1: has a name that no field can have"),
        (["a,2nd", "1,2"], "column 2: has a name that no field can have"),
        (["a", f'"{SECRET}'], "line 2: is not CSV"),
        (["a", f'"x"{SECRET}'], "line 2: is not CSV"),
        ([",".join(f"c{j}" for j in range(257)), ",".join("1" * 257)], "has more than 256 columns"),
    ],
)
def test_a_csv_error_names_the_place_and_not_the_value(lines: list[str], expected: str, tmp_path: Path) -> None:
    found = complaint(text(tmp_path / "t.csv", *lines))

    assert found.startswith(expected)
    assert SECRET not in found


def test_a_late_error_names_its_row(tmp_path: Path) -> None:
    cells = ["1"] * 20_000
    cells[17_654] = f"x{SECRET}"

    found = complaint(text(tmp_path / "t.csv", "a", *cells))

    assert found.startswith("row 17655 (line 17656), column 'a': is not a number")
    assert SECRET not in found


def test_text_that_is_not_utf_8_is_found(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", "a", *["x"] * 9000, "Düren", encoding="latin-1")

    assert complaint(path).startswith(f"{path}, line 9002: is not UTF-8".removeprefix(f"{path}, "))


@pytest.mark.parametrize(
    ("field", "cells", "expected"),
    [
        (BitsField(name="a", width=1), ["1", "2"], "is not a bit"),
        (BitsField(name="a", width=2), ["01", "7"], "is not a bit string of width 2"),
        (BitsField(name="a", width=2), ["01", "07"], "is not a bit string of width 2"),
        (CategoryField(name="a", values=("x", "y")), ["x", f"{SECRET}"], "is not one of the declared values"),
        (CategoryField(name="a", values=("x", "y")), ["x", '""'], "has no value"),
        (CategoryField(name="a", values=("x", "y")), ["x", "n/a"], "has no value"),
        (IntegerField(name="a", low=0, high=9), ["1", "NaN"], "has no value"),
        (RealField(name="a", low=0, high=9, denominator=2), ["1", "?"], "has no value"),
        (BitsField(name="a", width=1), ["1", "null"], "has no value"),
        (BitsField(name="a", width=2), ["01", "na"], "is not a bit string of width 2"),
        (LabelField(name="a"), ["1", '""'], "has no value"),
        (IntegerField(name="a", low=0, high=9), ["1", "1.5"], "is not a whole number"),
        (LabelField(name="a"), ["1", "0"], "is not a label"),
        (LabelField(name="a"), ["1", "yes"], "is not a number"),
    ],
)
def test_a_row_that_is_not_as_declared_is_refused(
    field: AnyField, cells: list[str], expected: str, tmp_path: Path
) -> None:
    found = complaint(text(tmp_path / "t.csv", "a", *cells), schema=Schema(fields=(field,)))

    assert found.startswith(f"row 2 (line 3), column 'a': {expected}")
    assert SECRET not in found


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (np.array([np.nan, np.nan]), "column 'a': has nothing in any row"),
        (np.array([1.0, np.inf]), "row 2, column 'a': is not a finite number"),
        (np.array([1j]), "column 'a': holds complex128"),
        (np.array(["2020-01-01"], "datetime64[D]"), "column 'a': holds datetime64"),
        (np.array([b"x", b"\xff"]), "row 2, column 'a': is not UTF-8"),
        (np.array([[0, 1], [0, 2]]), "row 2, column 'a': is not a row of bits"),
        (np.array([[0.5, 1]]), "column 'a': is not an array of users × 2 bits"),
        (np.zeros((2, 2, 2)), "column 'a': has several values for each user"),
        (np.array([], np.float64), "has no rows"),
        (np.array([None, "x"], np.object_), "is not a NumPy file"),
        (np.array(1), "does not hold columns of one length"),
    ],
)
def test_an_array_error_names_the_place(cells: np.ndarray[Any, Any], expected: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", a=cells)

    assert complaint(tmp_path / "t.npz").startswith(expected)


def test_arrays_of_several_lengths_or_without_names_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "two.npz", a=np.zeros(2), b=np.zeros(3))
    np.savez(tmp_path / "none.npz")
    np.save(tmp_path / "plain.npy", np.zeros(3))
    (tmp_path / "text.npy").write_text("a,b\n1,2\n")
    (tmp_path / "empty.npz").write_bytes(b"")

    assert complaint(tmp_path / "two.npz").startswith("does not hold columns of one length")
    assert complaint(tmp_path / "none.npz").startswith("does not hold columns of one length")
    assert complaint(tmp_path / "plain.npy").startswith("is an array without column names")
    assert complaint(tmp_path / "text.npy").startswith("is not a NumPy file")
    assert complaint(tmp_path / "empty.npz").startswith("is not a NumPy file")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([None, None], "column 'a': has nothing in any row"),
        (["x", None, "x"], "column 'a': has the same text in every row"),
        ([[1], [2]], "row 1, column 'a': is not text"),
    ],
)
def test_a_parquet_error_names_the_place(cells: list[Any], expected: str, tmp_path: Path) -> None:
    pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"a": cells}), tmp_path / "t.parquet")

    assert complaint(tmp_path / "t.parquet").startswith(expected)


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    assert complaint(text(tmp_path / "t.parquet", "a", "1")).startswith("is not a Parquet file")


def test_without_pyarrow_parquet_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_parquet(tmp_path, records(people(3)))

    def nothing(name: str) -> Any:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", nothing)

    with pytest.raises(MissingExtraError, match=r"pyarrow: is not installed \(pip install 'askance\[lab\]'\)"):
        from_file(path)


def test_a_file_that_is_not_there_or_of_no_known_format_is_refused(tmp_path: Path) -> None:
    for name in ("t.csv", "t.npz", "t.parquet"):
        assert complaint(tmp_path / name).startswith("cannot be read: no such file")
    assert complaint(text(tmp_path / "t.xlsx", "a")).startswith("is of no known format")


def test_columns_that_are_asked_for_have_to_be_there(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", "a,b", "1,2", "3,4", "5,6")

    assert complaint(path, label="c").startswith("has no column 'c'")
    assert complaint(path, label="b").startswith("row 3") or "more than two" in complaint(path, label="b")
    assert complaint(path, schema=Schema(fields=(LabelField(name="y"),))).startswith("has no column 'y'")
    schema = Schema(fields=(IntegerField(name="a", low=0, high=9), LabelField(name="b")))
    assert complaint(path, schema=schema, label="a").startswith("schema: does not declare 'a' as its label")


def test_a_label_with_one_unusual_value_is_refused(tmp_path: Path) -> None:
    assert complaint(text(tmp_path / "t.csv", "a", "2", "2"), label="a").startswith(
        "column 'a': has the same value in every row"
    )


# ----------------------------------------------------------------------------------------- declared before one looked


def test_with_a_positive_value_every_row_has_a_label_whatever_stands_in_it(tmp_path: Path) -> None:
    """So no refusal, and nothing that is said of the table, depends on the values that its label has."""
    schema = Schema(fields=(IntegerField(name="age", low=0, high=99), LabelField(name="ill")))
    words = text(tmp_path / "words.csv", "age,ill", "1,yes", "2,no", "3,perhaps", "4,")
    numbers = text(tmp_path / "numbers.csv", "age,ill", "1,2", "2,2.0", "3,0", "4,-1")
    np.savez(tmp_path / "typed.npz", age=np.arange(4), ill=np.array([2.0, 2.0, 1.0, 7.0]))

    for path, value, expected in (
        (words, "yes", [1, -1, -1, -1]),
        (words, "1", [-1, -1, -1, -1]),
        (numbers, "2", [1, 1, -1, -1]),
        (tmp_path / "typed.npz", "2", [1, 1, -1, -1]),
        (tmp_path / "typed.npz", "yes", [-1, -1, -1, -1]),
    ):
        for given in (schema, None):
            read = from_file(path, schema=given, label="ill", positive=value)
            assert read.columns(range(4))["ill"].tolist() == expected
            assert "every other value read as -1" in read.summary

    with pytest.raises(UsageError, match="names a value of no label"):
        from_file(words, schema=schema, positive="yes")


def test_labels_in_words_under_a_declared_schema_ask_for_the_positive_value(tmp_path: Path) -> None:
    words = text(tmp_path / "words.csv", "ill", "yes", "no")

    with pytest.raises(AskanceError, match="say which value counts as"):
        from_file(words, schema=Schema(fields=(LabelField(name="ill"),)))


def test_a_schema_is_read_from_a_file_as_one_would_write_it(tmp_path: Path) -> None:
    path = text(
        tmp_path / "people.json", '{"fields": [', ' {"low": 0, "high": 9, "name": "age", "kind": "integer"}', "]}"
    )

    assert read_schema(path) == Schema(fields=(IntegerField(name="age", low=0, high=9),))


@pytest.mark.parametrize(
    ("written", "where"),
    [
        (b"", "people.json"),
        (b"\xff", "byte 0"),
        (b'{"fields": []}', "fields"),
        (b'{"fields": [{"kind": "integer", "name": "age", "low": 0}]}', "fields[0]"),
        (b'{"fields": [{"kind": "integer", "name": "age", "low": 0, "high": 9, "unit": "y"}]}', "unit"),
        (b'{"fields": [{"kind": "label", "name": "y"}, {"kind": "label", "name": "z"}]}', "people.json"),
    ],
)
def test_a_file_that_holds_no_schema_is_refused_at_its_place(tmp_path: Path, written: bytes, where: str) -> None:
    (tmp_path / "people.json").write_bytes(written)

    with pytest.raises(AskanceError) as refused:
        read_schema(tmp_path / "people.json")
    assert refused.value.code is Code.DATA
    assert where in refused.value.where
    assert refused.value.remedy


def test_a_schema_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AskanceError, match="cannot be read"):
        read_schema(tmp_path / "none.json")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_header_that_begins_with_a_quoted_name_is_read(delimiter: str, tmp_path: Path) -> None:
    """By another delimiter than its own that line is no CSV: the file was refused for it."""
    path = text(tmp_path / "t.csv", delimiter.join(['"Movie Rating"', '"plan"']), delimiter.join(["3", '"a,b;c"']))
    schema = Schema(fields=(IntegerField(name="movie_rating", low=0, high=5),))

    assert column_names(path) == ("movie_rating", "plan")
    assert from_file(path, schema=schema).example(0).record() == {"movie_rating": 3}
