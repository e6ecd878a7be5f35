"""Gaps and only the columns that are asked: who has nothing takes part like everybody, and no error shows a cell."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askance_client.tables import (
    FromFile,
    Repairs,
    bounds_nothing,
    chosen,
    from_file,
    infer_schema,
    read_schema,
    repaired,
    written_schema,
)
from askance_protocol.errors import AskanceError, DataError, UsageError
from askance_protocol.schema import (
    AnyField,
    BitsField,
    CategoryField,
    IntegerField,
    LabelField,
    RealField,
    Schema,
)
from tests.client.tables.test_files import SECRET, text

MINUTES = IntegerField(name="minutes", low=0, high=120, gap=True)
PLAN = CategoryField(name="plan", values=("free", "pro"), gap=True)
SCORE = RealField(name="score", low=-1, high=1, denominator=100, gap=True)
GAPS = Schema(fields=(MINUTES, PLAN, SCORE))
ROWS = [
    {"minutes": 7, "plan": "pro", "score": 0.5},
    {"minutes": None, "plan": "free", "score": None},
    {"minutes": 120, "plan": None, "score": -0.25},
    {"minutes": 0, "plan": "free", "score": 1.0},
]
LINES = ["minutes,plan,score", "7,pro,.5", ",free,NaN", "120,?,-0.25", "0,free,1"]


def as_parquet(path: Path) -> Path:
    pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    parquet.write_table(pyarrow.table({name: [row[name] for row in ROWS] for name in ROWS[0]}), path)
    return path


def as_npz(path: Path) -> Path:
    """NumPy has no gap but NaN, and empty text."""
    minutes, score = (np.array([row[name] for row in ROWS], np.float64) for name in ("minutes", "score"))
    plan = np.array(["" if row["plan"] is None else row["plan"] for row in ROWS])
    np.savez(path, minutes=minutes, plan=plan, score=score)
    return path


def files(path: Path) -> list[Path]:
    return [text(path / "t.csv", *LINES), as_parquet(path / "t.parquet"), as_npz(path / "t.npz")]


def records(path: Path, **more: Any) -> list[dict[str, Any]]:
    population = from_file(path, **more)
    return [population.example(row).record() for row in range(population.size or 0)]


# -------------------------------------------------------------------------------------------------------------- gaps


def test_a_gap_is_read_alike_from_every_format(tmp_path: Path) -> None:
    for path in files(tmp_path):
        assert records(path, schema=GAPS) == ROWS


def test_a_gap_is_inferred_from_every_format(tmp_path: Path) -> None:
    for path in files(tmp_path):
        found = {field.name: field for field in from_file(path).schema.fields}
        assert {name for name, field in found.items() if field.empty is not None} == set(found)
        assert found["plan"] == PLAN
        assert found["minutes"] == MINUTES
        assert "plan: one of 2 categories: free, pro, or nothing" in from_file(path).summary


@pytest.mark.parametrize(
    ("cells", "field"),
    [
        (["1", '""', "0"], IntegerField(name="c", low=0, high=1, gap=True)),
        (['""', "x", "y"], CategoryField(name="c", values=("x", "y"), gap=True)),
        (["NULL", "1.5", "2"], RealField(name="c", low=1, high=2, denominator=10, gap=True)),
        (["n/a", "7", " NaN "], IntegerField(name="c", low=7, high=7, gap=True)),
    ],
)
def test_the_first_cell_with_a_value_says_what_a_column_is(cells: list[str], field: AnyField, tmp_path: Path) -> None:
    assert from_file(text(tmp_path / "t.csv", "c", *cells)).schema.fields == (field,)


def test_in_a_file_of_one_column_a_blank_line_is_a_gap_unless_it_is_the_last(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", "c", "", "1", "", "", "5", "", "")

    assert [row["c"] for row in records(path)] == [None, 1, None, None, 5]


def test_truths_with_gaps_come_from_parquet(tmp_path: Path) -> None:
    pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"a": [True, None, False]}), tmp_path / "t.parquet")

    assert [row["a"] for row in records(tmp_path / "t.parquet")] == [1, None, 0]


def test_a_declared_value_is_no_gap(tmp_path: Path) -> None:
    """NA is Namibia where the schema says so; elsewhere it says that there is nothing."""
    path = text(tmp_path / "t.csv", "country,n", "NA,1", "DE,2", ",3", "n/a,4")
    declared = Schema(fields=(CategoryField(name="country", values=("DE", "NA"), gap=True),))

    assert [row["country"] for row in records(path, schema=declared)] == ["NA", "DE", None, None]


def test_a_late_gap_and_a_late_fault_are_seen(tmp_path: Path) -> None:
    """In another batch of rows than the first; and the row of an error is counted with the gaps before it."""
    cells = ["1"] * 20_000
    cells[3] = cells[17_000] = cells[17_600] = "?"
    assert from_file(text(tmp_path / "t.csv", "a", *cells)).schema.fields[0].empty == 2
    cells[17_654] = f"x{SECRET}"

    with pytest.raises(DataError, match=r"row 17655 \(line 17656\), column 'a': is not a number") as caught:
        from_file(text(tmp_path / "t.csv", "a", *cells))
    assert SECRET not in str(caught.value)


# ----------------------------------------------------------------------------------------------------------- repairs


def test_a_gap_is_read_as_the_value_that_was_said(tmp_path: Path) -> None:
    for path in files(tmp_path):
        numbers = records(path, schema=GAPS, columns=["minutes", "score"], repairs=Repairs(missing="0"))
        assert [row["minutes"] for row in numbers] == [7, 0, 120, 0]
        assert [row["score"] for row in numbers] == [0.5, 0, -0.25, 1]
        plans = records(path, schema=GAPS, columns=["plan"], repairs=Repairs(missing="free"))
        assert [row["plan"] for row in plans] == ["pro", "free", "free", "free"]


def test_what_a_gap_is_read_as_has_to_be_a_value_whether_or_not_there_is_one(tmp_path: Path) -> None:
    """From public data alone: whether somebody has a gap is not told by an error."""
    whole = text(tmp_path / "t.csv", "minutes,plan,score", "7,pro,.5")
    for columns, missing in ((["minutes"], "121"), (["minutes"], "x"), (["plan"], "basic"), (["score"], "2")):
        with pytest.raises(UsageError, match="is no value of"):
            from_file(whole, schema=GAPS, columns=columns, repairs=Repairs(missing=missing))


def test_rows_with_a_gap_in_what_is_asked_can_be_left_out(tmp_path: Path) -> None:
    for path in files(tmp_path):
        assert records(path, schema=GAPS, repairs=Repairs(skip=True)) == [ROWS[0], ROWS[3]]
        assert len(records(path, schema=GAPS, columns=["plan"], repairs=Repairs(skip=True))) == 3
        assert all(field.empty is None for field in from_file(path, repairs=Repairs(skip=True)).schema.fields)


def test_when_no_row_is_left_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="has no rows"):
        from_file(
            text(tmp_path / "t.csv", "minutes,b", ",1"), schema=chosen(GAPS, ["minutes"]), repairs=Repairs(skip=True)
        )


def test_numbers_beyond_a_given_range_count_as_its_end(tmp_path: Path) -> None:
    """Who is beyond it reports like everybody, too."""
    path = text(tmp_path / "t.csv", "minutes,plan", "500,pro", "-3,free", "60,free", ",pro")
    for schema in (Schema(fields=(MINUTES,)), None):
        found = from_file(path, schema=schema, columns=["minutes"], repairs=Repairs(low=10, high=90))
        assert isinstance(found, FromFile)
        assert found.clamped == {"minutes": 2}
        assert found.schema.fields == (IntegerField(name="minutes", low=10, high=90, gap=True),)
        assert [found.example(row).record()["minutes"] for row in range(4)] == [90, 10, 60, None]


def test_a_range_that_is_given_is_declared_whatever_the_rows_hold(tmp_path: Path) -> None:
    bits = text(tmp_path / "bits.csv", "a", "0", "1")
    huge = text(tmp_path / "huge.csv", "a", "0", str(1 << 50))
    bound = Repairs(low=0, high=9)

    assert from_file(bits, repairs=bound).schema == from_file(huge, repairs=bound).schema
    assert from_file(bits, repairs=bound).schema.fields == (IntegerField(name="a", low=0, high=9),)


def test_several_columns_keep_their_ranges_within_the_bounds(tmp_path: Path) -> None:
    """Bounds for one made the noise of the other that of their range: they narrow, and never widen."""
    path = text(tmp_path / "t.csv", "minutes,rating,on", "500,2,0", "20,5,1", "60,4,0")
    ranges = [
        IntegerField(name="minutes", low=20, high=120),
        IntegerField(name="rating", low=2, high=5),
        BitsField(name="on", width=1),
    ]
    assert [*from_file(path, repairs=Repairs(low=0, high=120)).schema.fields] == ranges
    assert bounds_nothing(Schema(fields=tuple(ranges)), Repairs(low=0, high=120))
    assert not bounds_nothing(Schema(fields=tuple(ranges)), Repairs(low=0, high=100))


def test_a_number_beyond_a_declared_range_counts_as_the_nearer_end(tmp_path: Path) -> None:
    """Column by column, and unasked: a refusal would tell that somebody has one."""
    path = text(tmp_path / "t.csv", "minutes,rating", "500,2", "-3,9", "60,4")
    schema = Schema(fields=(IntegerField(name="minutes", low=0, high=90), IntegerField(name="rating", low=1, high=5)))
    found = from_file(path, schema=schema)

    assert [found.example(row).record() for row in range(3)] == [
        {"minutes": 90, "rating": 2},
        {"minutes": 0, "rating": 5},
        {"minutes": 60, "rating": 4},
    ]
    assert isinstance(found, FromFile)
    assert (found.schema, found.clamped) == (schema, {"minutes": 2, "rating": 1})


def test_a_range_without_anything_in_it_is_refused() -> None:
    with pytest.raises(UsageError, match="no range"):
        repaired(GAPS, Repairs(low=200))


# --------------------------------------------------------------------------------------------- only what is asked


BROKEN = ["Name,minutes,minutes2,plan,plan", f"{SECRET},7,x{SECRET},a,b", f"{SECRET},9,3,c,d", f"x,{'10'},,e,f"]


def test_a_broken_cell_in_a_column_that_nobody_asks_is_no_error(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", *BROKEN)
    declared = Schema(fields=(MINUTES, IntegerField(name="minutes2", low=0, high=9, gap=True)))

    assert [row["minutes"] for row in records(path, columns=["minutes"])] == [7, 9, 10]
    assert [row["minutes"] for row in records(path, schema=declared, columns=["minutes"])] == [7, 9, 10]


def test_control_a_broken_cell_in_a_column_that_is_asked_is_named_and_not_shown(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", *BROKEN)
    declared = Schema(fields=(MINUTES, IntegerField(name="minutes2", low=0, high=9, gap=True)))

    for columns in (["minutes2"], ["minutes", "minutes2"], None):
        with pytest.raises(DataError, match=r"row 1 \(line 2\), column 'minutes2': is not a number") as caught:
            from_file(path, schema=declared, columns=columns)
        assert SECRET not in str(caught.value)
    with pytest.raises(DataError, match="column 5: has the name of column 4"):
        from_file(path, columns=["plan"])


@pytest.mark.parametrize("schema", [None, GAPS])
def test_a_column_that_is_not_there_is_named(schema: Schema | None, tmp_path: Path) -> None:
    with pytest.raises(AskanceError, match=r"no (column|field) 'hours'"):
        from_file(text(tmp_path / "t.csv", *LINES), schema=schema, columns=["hours"])


def test_the_label_comes_with_the_columns(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", "a,b,ill", "1,x,yes", "5,x,no")

    found = from_file(path, columns=["a"], label="ill")
    assert found.schema.fields == (IntegerField(name="a", low=1, high=5), LabelField(name="ill"))
    declared = Schema(
        fields=(IntegerField(name="a", low=0, high=9), BitsField(name="b", width=3), LabelField(name="ill"))
    )
    assert from_file(path, schema=declared, columns=["a"], label="ill").schema == chosen(declared, ["a"])


def test_a_wide_table_is_read_where_few_columns_are_asked(tmp_path: Path) -> None:
    names = ",".join(f"c{place}" for place in range(3000))
    rows = [",".join(str(place + row) for place in range(3000)) for row in range(3)]

    assert records(text(tmp_path / "t.csv", names, *rows), columns=["c2999"]) == [
        {"c2999": 2999 + row} for row in range(3)
    ]


# --------------------------------------------------------------------------------------------- how a CSV is written


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_csv_is_read_however_it_is_written(delimiter: str, end: str, mark: str, tmp_path: Path) -> None:
    rows = [["n", "said"], ["1", '"a, b; c"'], ["22", '"two\nlines | \t and a ""word"""'], ["", "z"]]
    path = tmp_path / "t.csv"
    path.write_bytes((mark + "".join(delimiter.join(row) + end for row in rows)).encode())

    assert records(path) == [
        {"n": 1, "said": "a, b; c"},
        {"n": 22, "said": 'two\nlines | \t and a "word"'},
        {"n": None, "said": "z"},
    ]


@pytest.mark.parametrize("late", ["5\n\n6", '"5', '"5"x', "5,6", '"5\n"', "\udcff"])
def test_what_begins_like_any_csv_is_read_as_slowly_as_it_has_to_be(late: str, tmp_path: Path) -> None:
    """Many rows that are lines come quickly; from the first that is not, rows are counted with their lines."""
    plain = "".join(f"{row}\n" for row in range(20_000))
    (tmp_path / "t.csv").write_bytes(f"a\n{plain}{late}\n7\n".encode("utf-8", "surrogateescape"))
    if late == "5\n\n6":
        assert [row["a"] for row in records(tmp_path / "t.csv")][19_998:] == [19_998, 19_999, 5, None, 6, 7]
        return

    with pytest.raises(DataError, match=r"(line 2000[234]\)?)[:,]"):
        from_file(tmp_path / "t.csv")


def test_a_tsv_is_a_table(tmp_path: Path) -> None:
    assert records(text(tmp_path / "t.tsv", "a\tb", "5\tx", "7\ty")) == [{"a": 5, "b": "x"}, {"a": 7, "b": "y"}]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"\r\n"])
def test_an_empty_file_is_said_to_be_empty(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)

    with pytest.raises(DataError, match="is empty"):
        from_file(tmp_path / "t.csv")


# -------------------------------------------------------------------------------------------------- inferred schemas


def test_a_schema_is_inferred_as_a_document_that_reads_back(tmp_path: Path) -> None:
    found = infer_schema(text(tmp_path / "t.csv", *LINES))
    (tmp_path / "s.json").write_text(written_schema(found.schema))

    assert read_schema(tmp_path / "s.json") == found.schema == from_file(tmp_path / "t.csv").schema
    assert written_schema(found.schema).splitlines()[1] == (
        '  {"name": "minutes", "kind": "integer", "gap": true, "low": 0, "high": 120},'
    )
    assert len(written_schema(found.schema).splitlines()) == 2 + len(found.schema.fields)


def test_columns_that_no_field_can_hold_are_left_out_with_the_reason(tmp_path: Path) -> None:
    head = ["2020,id,n,same,n2,mixed,twice,twice,void,y"]
    rows = [
        f"{SECRET} x,u{SECRET}{row},{row},k,{row}.5,{row if row != 9 else SECRET + 'x'},1,2,,{row % 2}"
        for row in range(4200)
    ]
    found = infer_schema(text(tmp_path / "t.csv", *head, *rows))

    assert tuple(found.schema.position) == ("n", "n2", "y")
    assert dict(found.left_out) == {
        1: "has a name that no field can have",
        2: "has more than 4096 different texts",
        4: "has the same text in every row",
        6: "is not a number",
        7: "has the name of column 8",
        8: "has the name of column 7",
        9: "has nothing in any row",
    }
    assert SECRET not in json.dumps(dict(found.left_out))


def test_a_column_that_was_named_is_an_error_instead(tmp_path: Path) -> None:
    path = text(tmp_path / "t.csv", "same,n", "k,1", "k,2")

    assert tuple(infer_schema(path, columns=["n"]).schema.position) == ("n",)
    with pytest.raises(DataError, match="column 'same': has the same text in every row"):
        infer_schema(path, columns=["same"])


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "is empty"),
        (["a,b"], "has no rows"),
        (["1 B,2", "1,2"], "has no column with a name that a field can have"),
        (["a,b", "x,y", "x,y"], "has no column that a field can hold"),
    ],
)
def test_a_table_without_anything_to_infer_is_refused(lines: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=said):
        infer_schema(text(tmp_path / "t.csv", *lines))
