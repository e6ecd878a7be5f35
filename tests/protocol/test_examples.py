"""One example and columns of many: the same integers both ways, and nothing readable by accident."""

from __future__ import annotations

import io
import logging
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns, Example, words_for, words_of
from askance_protocol.schema import BitsField, CategoryField, IntegerField, LabelField, RealField, Schema
from tests.protocol.generators import batches, examples, extremes, fixed, schemas

SCHEMA = Schema(
    fields=(
        BitsField(name="x", width=66),
        CategoryField(name="colour", values=("red", "green", "blue")),
        IntegerField(name="age", low=-5, high=120),
        RealField(name="score", low=-1, high=2, denominator=100),
        LabelField(name="y"),
    )
)


def arrays(count: int = 4) -> dict[str, np.ndarray[Any, Any]]:
    """Columns of SCHEMA as a file of many users gives them."""
    source = np.random.default_rng(1)
    return {
        "x": source.integers(0, 2, (count, 66)),
        "colour": source.choice(["red", "green", "blue"], count),
        "age": source.integers(-5, 121, count),
        "score": source.uniform(-1, 2, count),
        "y": source.choice([-1, 1], count),
    }


def raw(schema: Schema, rows: list[Example]) -> dict[str, np.ndarray[Any, Any]]:
    """What a person would hand to Columns.of for these examples."""
    records = [row.record() for row in rows]
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for field in schema.fields:
        shown = [record[field.name] for record in records]
        if field.empty is not None and None in shown:
            filled = [field.show(field.least) if value is None else value for value in shown]
            columns[field.name] = np.ma.array(filled, mask=[value is None for value in shown])
            continue
        match field:
            case BitsField():
                columns[field.name] = np.array([list(map(int, str(bits))) for bits in shown], np.uint8).reshape(
                    len(rows), field.width
                )
            case CategoryField():
                columns[field.name] = np.array(shown, object)
            case RealField():
                columns[field.name] = np.array(shown, np.float64)
            case _:
                columns[field.name] = np.array(shown, np.int64)
    return columns


def same(left: Columns, right: Columns) -> bool:
    """Equal in every integer, and in type and layout."""
    pairs = [(left[name], right[name]) for name in left.schema.position]
    return len(left) == len(right) and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


# ------------------------------------------------------------------------------------------- both ways alike


@fixed(120)
@given(st.data())
def test_columns_hold_what_the_examples_held(data: st.DataObject) -> None:
    """Every row of the columns of some examples is that example."""
    schema = data.draw(schemas())
    rows = data.draw(batches(schema))
    columns = Columns.of_examples(schema, rows)

    assert len(columns) == len(rows)
    assert rows == [columns.example(row) for row in range(len(rows))]


@fixed(120)
@given(st.data())
def test_a_column_packs_what_a_record_parses(data: st.DataObject) -> None:
    """Columns.of on raw arrays equals Example.of on the records of the same users."""
    schema = data.draw(schemas())
    rows = [*extremes(schema), *data.draw(batches(schema))]

    assert same(Columns.of_examples(schema, rows), Columns.of(schema, raw(schema, rows)))


@fixed(120)
@given(st.data())
def test_a_record_is_read_back(data: st.DataObject) -> None:
    """Example.of undoes record()."""
    schema = data.draw(schemas())
    example = data.draw(examples(schema))

    assert example == Example.of(schema, example.record())


@fixed(200)
@given(
    st.lists(st.floats(min_value=-1, max_value=2), min_size=1, max_size=20), st.sampled_from([1, 3, 7, 100, 1 << 20])
)
def test_a_real_rounds_alike_both_ways(numbers: list[float], denominator: int) -> None:
    """One user and a column of many round the same float to the same numerator."""
    field = RealField(name="score", low=-1, high=2, denominator=denominator)
    columns = Columns.of(Schema(fields=(field,)), {"score": np.array(numbers)})

    assert [field.parse(number) for number in numbers] == columns["score"].tolist()


@pytest.mark.parametrize("width", [1, 63, 64, 65, 127, 128, 129, 4095, 4096])
def test_bits_are_packed_lowest_first(width: int) -> None:
    """Bit i of a vector is bit i mod 64 of word i // 64, and no bit beyond the width is set."""
    schema = Schema(fields=(BitsField(name="x", width=width),))
    bits = np.random.default_rng(width).integers(0, 2, (3, width))
    bits[0] = 1
    columns = Columns.of(schema, {"x": bits})

    assert columns["x"].shape == (words_for(width), 3)
    for user in range(3):
        number = sum(int(bit) << index for index, bit in enumerate(bits[user]))
        assert columns.example(user).values == (number,)
        assert columns["x"][:, user].tolist() == words_of(number, width)


def test_categories_come_as_text_or_index() -> None:
    """Both spellings of a category column, and text held as objects, give the same indexes."""
    field = CategoryField(name="c", values=("red", "green", "ünïcödé"))
    schema = Schema(fields=(field,))
    text = ["green", "ünïcödé", "red"]

    for column in (np.array(text), np.array(text, object), np.array([1, 2, 0]), np.array([1, 2, 0], np.uint8)):
        assert Columns.of(schema, {"c": column})["c"].tolist() == [1, 2, 0]


def test_bits_come_as_truth_values_too() -> None:
    """A bit vector may be a boolean array."""
    given = arrays()

    assert same(Columns.of(SCHEMA, given), Columns.of(SCHEMA, {**given, "x": given["x"].astype(bool)}))


def test_of_nobody_there_are_columns_too() -> None:
    """No users is not an error, in any way to make columns."""
    for columns in (
        Columns.of_examples(SCHEMA, []),
        Columns.of(SCHEMA, arrays(0)),
        Columns.of(SCHEMA, arrays()).part(2, 2),
        Columns.of(SCHEMA, arrays()).take(np.array([], np.intp)),
    ):
        assert len(columns) == 0
        assert columns["x"].shape == (2, 0)
        assert columns["age"].shape == (0,)


# ------------------------------------------------------------------------------------------- parts and rows


@fixed(60)
@given(st.data())
def test_a_part_is_its_rows(data: st.DataObject) -> None:
    """part(begin, end) means what a slice means, beyond the ends as well."""
    schema = data.draw(schemas())
    rows = data.draw(batches(schema))
    begin, end = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    part = Columns.of_examples(schema, rows).part(begin, end)

    assert [part.example(row) for row in range(len(part))] == rows[begin:end]


@fixed(60)
@given(st.data())
def test_taken_rows_come_in_the_order_asked_for(data: st.DataObject) -> None:
    """take() repeats and reorders."""
    schema = data.draw(schemas())
    rows = [*extremes(schema), *data.draw(batches(schema))]
    wanted = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9))
    taken = Columns.of_examples(schema, rows).take(np.array(wanted, np.intp))

    assert [taken.example(row) for row in range(len(taken))] == [rows[row] for row in wanted]


def test_a_part_is_not_copied() -> None:
    """part() shares memory: a shard of many users costs nothing."""
    columns = Columns.of(SCHEMA, arrays())

    assert all(np.shares_memory(columns[name], columns.part(1, 3)[name]) for name in SCHEMA.position)


def test_no_column_can_be_written() -> None:
    """Columns are read-only however they were made, and the caller's own arrays are copied and left writable."""
    given = arrays()
    columns = Columns.of(SCHEMA, given)
    again = Columns.of_examples(SCHEMA, [columns.example(0), columns.example(1)])
    for made in (columns, again, columns.part(0, 2), columns.take(np.array([1, 0]))):
        for name in SCHEMA.position:
            with pytest.raises(ValueError, match="read-only"):
                made[name][..., 0] = 0

    assert all(array.flags.writeable for array in given.values())
    given["age"][:] = 0
    assert columns["age"].tolist() == arrays()["age"].tolist()


# ------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("name", "row", "wrong"),
    [
        ("x", 2, 2),
        ("x", 3, -1),
        ("colour", 1, "violet"),
        ("age", 3, 121),
        ("age", 0, -6),
        ("score", 2, 2.01),
        ("score", 1, np.nan),
        ("score", 1, np.inf),
        ("y", 2, 0),
        ("y", 1, 2),
    ],
)
def test_a_wrong_value_is_refused_with_field_and_row(name: str, row: int, wrong: object) -> None:
    """One bad value among many is found, counted, and not repeated."""
    given = arrays()
    if name == "x":
        given[name][row, 65] = wrong
    else:
        given[name] = given[name].astype("<U9") if name == "colour" else given[name]
        given[name][row] = wrong
    with pytest.raises(ProtocolError) as caught:
        Columns.of(SCHEMA, given)

    assert caught.value.where == f"field {name!r}, row {row}"
    assert caught.value.what == "is not a value of this field (1 such rows)"
    assert caught.value.remedy


def test_of_many_wrong_rows_the_first_is_named_and_all_are_counted() -> None:
    """The count says whether it is a slip or the wrong file."""
    given = arrays(100)
    given["age"][[7, 9, 50]] = 1000

    with pytest.raises(ProtocolError, match=r"^field 'age', row 7: is not a value of this field \(3 such rows\)"):
        Columns.of(SCHEMA, given)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("x", np.zeros((4, 66))),  # floats
        ("x", np.full((4, 66), "1")),
        ("x", np.full((4, 66), 1, object)),
        ("colour", np.array([0.0, 1.0, 2.0, 0.0])),
        ("colour", np.array([False, True, True, False])),
        ("colour", np.array([b"red"] * 4)),
        ("colour", np.array([None, 1, "red", ["red"]], object)),
        ("colour", np.array([-1, 0, 1, 2])),
        ("age", np.array([1.0, 2.0, 3.0, 4.0])),
        ("age", np.array(["1", "2", "3", "4"])),
        ("age", np.array([True, False, True, False])),
        ("age", np.array([1, 2, 3, 4], object)),
        ("age", np.full(4, 2**64 - 1, np.uint64)),
        ("y", np.array([True, True, True, True])),
        ("y", np.array([1.0, -1.0, 1.0, -1.0])),
    ],
)
def test_a_column_of_the_wrong_type_is_refused(name: str, wrong: np.ndarray[Any, Any]) -> None:
    """No truth value, float, text or object is taken for an integer: a record would not be either."""
    with pytest.raises(ProtocolError) as caught:
        Columns.of(SCHEMA, {**arrays(), name: wrong})

    assert caught.value.where == f"field {name!r}, row 0"


@pytest.mark.parametrize("spelt", ["None", "nan", "1", "True"])
def test_an_object_is_not_its_text(spelt: str) -> None:
    """A missing value among objects is not the category that happens to be called "None"."""
    schema = Schema(fields=(CategoryField(name="c", values=("None", "nan", "1", "True")),))
    missing = {"None": None, "nan": float("nan"), "1": 1, "True": True}[spelt]

    assert Columns.of(schema, {"c": np.array([spelt], object)}).example(0) == Example.of(schema, {"c": spelt})
    with pytest.raises(ProtocolError, match="row 0"):
        Columns.of(schema, {"c": np.array([missing], object)})


@pytest.mark.parametrize("wrong", [np.full(4, "1"), np.array([True] * 4), np.array([1.0] * 4, object)])
def test_a_real_column_holds_numbers(wrong: np.ndarray[Any, Any]) -> None:
    """Text, truth values and objects are refused as a whole column."""
    with pytest.raises(ProtocolError, match=r"^field 'score': is not a column of numbers"):
        Columns.of(SCHEMA, {**arrays(), "score": wrong})


@pytest.mark.parametrize("name", ["x", "colour", "age", "score", "y"])
@pytest.mark.parametrize("shape", [(), (4, 1), (4, 65), (4, 2), (4, 66, 1)])
def test_a_column_of_the_wrong_shape_is_refused(name: str, shape: tuple[int, ...]) -> None:
    """A table where a column belongs is refused, even if every value in it is right."""
    fill: Any = {"x": 1, "colour": "red", "age": 1, "score": 1.0, "y": 1}[name]
    with pytest.raises(ProtocolError) as caught:
        Columns.of(SCHEMA, {**arrays(), name: np.full(shape, fill)})

    assert caught.value.where == f"field {name!r}"
    assert caught.value.what == f"has shape {shape}"


def test_columns_name_every_field_once() -> None:
    """A missing and an unknown column are both named."""
    given = arrays()
    given["z"] = given.pop("age")

    with pytest.raises(ProtocolError, match="differ in 'age', 'z'"):
        Columns.of(SCHEMA, given)


def test_columns_are_of_one_length() -> None:
    """Every user has a value in every column."""
    with pytest.raises(ProtocolError, match="not of one length"):
        Columns.of(SCHEMA, {**arrays(), "age": arrays(5)["age"]})


@pytest.mark.parametrize(
    ("place", "wrong"),
    [(0, -1), (0, 1 << 66), (1, 3), (2, 121), (2, True), (3, 0.5), (3, 201), (4, 0), (4, None), (2, np.int64(3))],
)
def test_an_example_holds_only_values_of_its_fields(place: int, wrong: Any) -> None:
    """Not even by its constructor does an example get a value that a query was not checked for."""
    values = list(next(extremes(SCHEMA)).values)
    values[place] = wrong
    with pytest.raises(ProtocolError, match=SCHEMA.fields[place].name):
        Example(SCHEMA, tuple(values))


@pytest.mark.parametrize("count", [0, 4, 6])
def test_an_example_has_a_value_for_each_field(count: int) -> None:
    """Too few and too many values are refused."""
    with pytest.raises(ProtocolError, match="one value for each field"):
        Example(SCHEMA, (1,) * count)


def test_examples_of_another_schema_are_refused() -> None:
    """Columns never mix integers that mean different things; an equal schema is the same schema."""
    narrow = Schema(fields=(IntegerField(name="age", low=0, high=9),))
    wide = Schema(fields=(IntegerField(name="age", low=0, high=10),))
    equal = Schema(fields=(IntegerField(name="age", low=0, high=9),))
    example = Example.of(narrow, {"age": 3})

    assert Columns.of_examples(equal, [example]).example(0) == example
    with pytest.raises(ProtocolError, match="another schema"):
        Columns.of_examples(wide, [example])


# -------------------------------------------------------------------------------------------------- privacy


def test_neither_an_example_nor_columns_have_a_readable_form() -> None:
    """repr, str, format and a log line tell how much there is, not what."""
    schema = Schema(fields=(IntegerField(name="salary", low=0, high=10**9),))
    example = Example.of(schema, {"salary": 918273645})
    columns = Columns.of_examples(schema, [example] * 3)
    stream = io.StringIO()
    log = logging.Logger("test")
    log.addHandler(logging.StreamHandler(stream))
    log.warning("%s %r %s %r", example, example, columns, columns)
    seen = [
        repr(example),
        str(example),
        f"{example}",
        repr(columns),
        f"{[example]}{ ({1: columns}) }",
        stream.getvalue(),
    ]

    assert repr(example) == "Example(1 private values)"
    assert repr(columns) == "Columns(3 private examples)"
    assert not any("918273645" in text for text in seen)


def test_an_example_cannot_be_changed() -> None:
    """An example is a value."""
    example = next(extremes(SCHEMA))
    with pytest.raises(AttributeError):
        example.values = ()  # type: ignore[misc]


def test_what_queries_look_at_has_the_size_that_the_schema_says() -> None:
    """A byte for each bit and 64 bits for each number, for the smallest and the largest values; it travels, too."""
    for example in (*extremes(SCHEMA), pickle.loads(pickle.dumps(next(extremes(SCHEMA))))):
        for field in SCHEMA.fields:
            if isinstance(field, BitsField):
                bits = example.bits(field.name)
                assert (bits.dtype, bits.shape, bits.flags.writeable) == (np.uint8, (field.width,), False)
                assert sum(int(bit) << index for index, bit in enumerate(bits)) == example[field.name]
            else:
                assert type(example.number(field.name)) is np.int64
                assert example.number(field.name) == example[field.name]


def test_errors_of_columns_repeat_no_value() -> None:
    """What is wrong is said by its place alone."""
    given = {**arrays(), "age": np.full(4, 918273645)}
    with pytest.raises(ProtocolError) as caught:
        Columns.of(SCHEMA, given)

    assert "918273645" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------------- gaps

GAPS = Schema(
    fields=(
        CategoryField(name="colour", values=("red", "green"), gap=True),
        IntegerField(name="age", low=-5, high=120, gap=True),
        RealField(name="score", low=-1, high=2, denominator=100, gap=True),
    )
)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("colour", np.array(["red", None, "green"], object)),
        ("colour", np.ma.array(["red", "secret", "green"], mask=[False, True, False])),
        ("colour", np.ma.array([0, 77, 1], np.uint8, mask=[False, True, False])),
        ("age", np.ma.array([-5, 999, 120], mask=[False, True, False])),
        ("age", np.ma.array([0, 255, 120], np.uint8, mask=[False, True, False])),
        ("score", np.array([-1, np.nan, 2])),
        ("score", np.ma.array([-1, 99, 2], mask=[False, True, False])),
    ],
)
def test_a_gap_in_a_column_is_that_of_a_record(name: str, column: np.ndarray[Any, Any]) -> None:
    schema = Schema(fields=(GAPS.field(name),))
    columns = Columns.of(schema, {name: column})

    assert columns[name][1] == schema.fields[0].empty == Example.of(schema, {name: None})[name]
    assert columns.example(1).record() == {name: None}
    assert None not in (columns.example(0).record()[name], columns.example(2).record()[name])


@pytest.mark.parametrize(
    ("name", "column", "row"),
    [
        ("age", np.array([0, 121, 3]), 1),
        ("colour", np.array([0, 1, 2]), 2),
        ("age", np.ma.array([0, 1, 130], mask=[True, False, False]), 2),
        ("score", np.array([np.nan, 2.01]), 1),
        ("colour", np.array([None, "blue"], object), 1),
    ],
)
def test_no_value_passes_for_a_gap(name: str, column: np.ndarray[Any, Any], row: int) -> None:
    """The integer that a gap is held as is none that a column may write: 121 is too large an age, not a missing one."""
    with pytest.raises(ProtocolError, match=rf"row {row}"):
        Columns.of(Schema(fields=(GAPS.field(name),)), {name: column})


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("colour", np.array(["red", None], object)),
        ("age", np.ma.array([1, 2], mask=[False, True])),
        ("score", np.array([0.0, np.nan])),
        ("y", np.ma.array([1, 1], mask=[False, True])),
    ],
)
def test_a_gap_that_is_not_declared_is_refused_by_its_row(name: str, column: np.ndarray[Any, Any]) -> None:
    with pytest.raises(ProtocolError, match=rf"field '{name}', row 1"):
        Columns.of(Schema(fields=(SCHEMA.field(name),)), {name: column})
