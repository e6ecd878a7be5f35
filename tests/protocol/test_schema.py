"""Fields and schemas: what a person writes becomes one integer, and back, or is refused with the place."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from askance_protocol.errors import ProtocolError
from askance_protocol.schema import (
    MAX_FIELDS,
    MAX_MAGNITUDE,
    MAX_WIDTH,
    BitsField,
    CategoryField,
    IntegerField,
    LabelField,
    RealField,
    Schema,
)
from askance_protocol.values import read
from tests.protocol.generators import examples, extremes, fixed, schemas
from tests.protocol.studies import wrong

BITS = BitsField(name="x", width=4)
COLOUR = CategoryField(name="colour", values=("red", "green", "blue"))
AGE = IntegerField(name="age", low=-5, high=120)
SCORE = RealField(name="score", low=-1, high=2, denominator=100)
LABEL = LabelField(name="y")
ALL = Schema(fields=(BITS, COLOUR, AGE, SCORE, LABEL))


@fixed(100)
@given(schemas())
def test_parse_of_print_is_the_schema(schema: Schema) -> None:
    """A schema survives its canonical form, and that form is a fixed point."""
    again = read(Schema, schema.to_bytes())

    assert schema == again
    assert schema.to_bytes() == again.to_bytes()
    assert schema.digest() == again.digest()


@fixed(100)
@given(st.data())
def test_show_is_undone_by_parse(data: st.DataObject) -> None:
    """What a field shows, it reads back as the same integer: at its ends and in between."""
    schema = data.draw(schemas())
    for example in [*extremes(schema), data.draw(examples(schema))]:
        for field, held in zip(schema.fields, example.values, strict=True):
            assert held == field.parse(field.show(held))


def test_bits_are_written_lowest_first() -> None:
    """The first character is x_0, the lowest bit of the integer."""
    assert BITS.parse("1000") == 1
    assert BITS.parse("0011") == 12
    assert BITS.show(1) == "1000"


def test_the_widest_vector_is_read_whole() -> None:
    """4096 bits survive, and the last character is bit 4095."""
    field = BitsField(name="x", width=MAX_WIDTH)

    assert field.parse("0" * (MAX_WIDTH - 1) + "1") == 1 << (MAX_WIDTH - 1)
    assert field.parse("1" * MAX_WIDTH) == field.most


@fixed(200)
@given(st.floats(min_value=-1, max_value=2), st.sampled_from([1, 3, 100, 1 << 20]))
def test_a_real_is_kept_to_the_nearest_numerator(number: float, denominator: int) -> None:
    """Rounding is off by half a denominator at most (in exact arithmetic, up to a double's rounding)."""
    held = RealField(name="score", low=-1, high=2, denominator=denominator).parse(number)

    assert abs(Fraction(number) * denominator - held) <= Fraction(1, 2) + Fraction(1, 1 << 30)


def test_a_whole_number_is_a_real() -> None:
    """An int is read by a real field as the float of the same value is."""
    assert SCORE.parse(2) == SCORE.parse(2.0) == 200
    assert SCORE.parse(-1) == -100


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *[(BITS, value) for value in ("", "101", "10101", "10a1", "１000", "1 01", "-101", 5, None, True, b"1010")],
        *[(COLOUR, value) for value in ("", "Red", "violet", 0, None, True, ["red"], {})],
        *[(AGE, value) for value in (-6, 121, 10**400, 3.0, "3", True, None)],
        *[(SCORE, value) for value in (-1.01, 2.001, float("nan"), float("inf"), 10**400, -(10**400), "1", True, None)],
        *[(LABEL, value) for value in (0, 2, -2, 1.0, "1", True, None)],
    ],
)
def test_a_wrong_value_is_refused_by_name_and_not_repeated(field: Any, wrong: object) -> None:
    """Whatever stands there, the error is ours, names the field, and says what to give instead."""
    with pytest.raises(ProtocolError) as caught:
        field.parse(wrong)

    assert caught.value.where == f"field {field.name!r}"
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("field", "secret"),
    [(BITS, "secret"), (COLOUR, "secret"), (AGE, "secret"), (AGE, 987654321), (SCORE, 987654321), (LABEL, 987654321)],
)
def test_an_error_never_repeats_a_value(field: Any, secret: object) -> None:
    """A log of refusals shows nobody's example."""
    with pytest.raises(ProtocolError) as caught:
        field.parse(secret)

    assert str(secret) not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: BitsField(name="x", width=0),
        lambda: BitsField(name="x", width=MAX_WIDTH + 1),
        lambda: BitsField(name="x", width=True),
        lambda: BitsField(name="x", width=wrong("4")),
        lambda: BitsField(name="x", width=wrong(4.0)),
        lambda: BitsField(name="X", width=4),
        lambda: BitsField(name="x\n", width=4),
        lambda: BitsField(name="9x", width=4),
        lambda: BitsField(name="x" * 65, width=4),
        lambda: BitsField(**wrong({"name": "x", "width": 4, "colour": "red"})),
        lambda: CategoryField(name="c", values=("one",)),
        lambda: CategoryField(name="c", values=("one", "one")),
        lambda: CategoryField(name="c", values=("one", "")),
        lambda: CategoryField(name="c", values=("one", "t" * 65)),
        lambda: CategoryField(name="c", values=("one", "\ud800")),
        lambda: CategoryField(name="c", values=tuple(map(str, range(4097)))),
        lambda: IntegerField(name="n", low=1, high=0),
        lambda: IntegerField(name="n", low=0, high=MAX_MAGNITUDE + 1),
        lambda: IntegerField(name="n", low=False, high=1),
        lambda: RealField(name="r", low=1, high=1, denominator=1),
        lambda: RealField(name="r", low=0, high=1, denominator=0),
        lambda: RealField(name="r", low=0, high=wrong(1.0), denominator=1),
        lambda: Schema(fields=()),
        lambda: Schema(fields=(BITS, IntegerField(name="x", low=0, high=1))),
        lambda: Schema(fields=(LABEL, LabelField(name="z"))),
        lambda: Schema(fields=tuple(LabelField(name=f"f{i}") for i in range(MAX_FIELDS + 1))),
    ],
)
def test_a_wrong_declaration_is_refused(make: Any) -> None:
    """Nothing out of bounds, doubled, coerced or unknown becomes a schema."""
    with pytest.raises(ValidationError):
        make()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"fields":[{"kind":"bits","name":"x","width":true}]}', "fields[0].bits.width"),
        ('{"fields":[{"kind":"bits","name":"x","width":"4"}]}', "fields[0].bits.width"),
        ('{"fields":[{"kind":"bits","name":"x","width":4,"size":4}]}', "fields[0].bits.size"),
        ('{"fields":[{"kind":"label","name":"y"},{"kind":"text","name":"x"}]}', "fields[1]"),
        ('{"fields":[{"name":"x","width":4}]}', "fields[0]"),
        ('{"fields":[{"kind":"category","name":"c","values":["a",1]}]}', "fields[0].category.values[1]"),
        ('{"fields":[],"more":1}', "fields"),
        ("{}", "fields"),
        ("[]", "document"),
    ],
)
def test_a_wrong_document_is_refused_with_its_place(text: str, place: str) -> None:
    """Reading a schema names the member that is wrong."""
    with pytest.raises(ProtocolError) as caught:
        read(Schema, text)

    assert place == caught.value.where


def test_a_schema_is_frozen() -> None:
    """No one can widen a field after a query was checked against it."""
    with pytest.raises(ValidationError):
        BITS.width = 5


def test_equal_schemas_hash_alike() -> None:
    """Looking things up in a schema, which it remembers, changes neither its hash nor its equality."""
    other = read(Schema, ALL.to_bytes())
    assert other.position["y"] == 4

    assert other == ALL
    assert hash(other) == hash(ALL)
    assert other.to_bytes() == ALL.to_bytes()


def test_the_label_is_found() -> None:
    """The schema knows its label, and that it has none."""
    assert ALL.label == LABEL
    assert Schema(fields=(BITS,)).label is None


def test_an_unknown_field_is_named_with_those_there_are() -> None:
    """The error for a wrong name lists the right ones."""
    with pytest.raises(ProtocolError, match=r"no field 'z' \(use one of x, colour, age, score, y\)"):
        ALL.field("z")


RECORD = {"x": "1000", "colour": "green", "age": 40, "score": 0.5, "y": -1}


def test_a_record_is_read_field_by_field() -> None:
    """Members may come in any order, the integers come in the schema's."""
    assert ALL.parse(RECORD) == (1, 1, 40, 50, -1)
    assert ALL.parse(dict(reversed(RECORD.items()))) == (1, 1, 40, 50, -1)
    assert ALL.parse(list(RECORD.items())) == (1, 1, 40, 50, -1)


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({**RECORD, "z": 1}, "example: has a field 'z' that the schema does not"),
        ({name: RECORD[name] for name in ("x", "colour", "age", "y")}, "example: lacks the field 'score'"),
        ([*RECORD.items(), ("age", 41)], "example: names a field twice"),
        ({**RECORD, "age": 121}, "field 'age': is out of range"),
    ],
)
def test_a_record_names_every_field_once(record: Any, complaint: str) -> None:
    """Too many, too few, twice and out of range are each told apart."""
    with pytest.raises(ProtocolError) as caught:
        ALL.parse(record)

    assert str(caught.value).startswith(complaint)


# ------------------------------------------------------------------------------------------------------------- gaps

GAPS = Schema(
    fields=(
        CategoryField(name="colour", values=("red", "green", "blue"), gap=True),
        IntegerField(name="age", low=-5, high=120, gap=True),
        RealField(name="score", low=-1, high=2, denominator=100, gap=True),
    )
)


def test_a_gap_is_one_above_the_largest_and_written_as_nothing() -> None:
    """Held like any value, so that nothing about it takes another way."""
    assert [field.empty for field in GAPS.fields] == [3, 121, 201]
    for field in GAPS.fields:
        assert field.parse(None) == field.empty
        assert field.show(field.empty or 0) is None
        with pytest.raises(ProtocolError):
            field.parse("")
    assert GAPS.parse({"colour": None, "age": 7, "score": None}) == (3, 7, 201)


def test_a_field_without_gaps_is_written_as_before_and_refuses_nothing() -> None:
    """A digest of version 0.1 stays what it was; and who has a gap where none is declared is told by name."""
    for field in ALL.fields:
        assert field.empty is None
        assert "gap" not in field.to_json()
        with pytest.raises(ProtocolError, match=field.name):
            field.parse(None)


@pytest.mark.parametrize("gap", ["false", "1", '"true"', "[]", "{}"])
def test_a_gap_is_declared_in_one_way(gap: str) -> None:
    """False would be a second way to say what leaving it out says, with another digest."""
    text = '{"fields":[{"kind":"integer","name":"a","low":0,"high":1,"gap":GAP}]}'
    assert read(Schema, text.replace("GAP", "true")).fields[0].empty == 2

    with pytest.raises(ProtocolError, match=r"fields\[0\]\.integer\.gap: "):
        read(Schema, text.replace("GAP", gap))


@pytest.mark.parametrize("field", ['"kind":"bits","name":"a","width":1', '"kind":"label","name":"a"'])
def test_bits_and_labels_have_no_gaps(field: str) -> None:
    with pytest.raises(ProtocolError, match="gap"):
        read(Schema, f'{{"fields":[{{{field},"gap":true}}]}}')
