"""A query's name says what is estimated: as it is asked, in a field's own units, alike only where the same is meant."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from askance_protocol.examples import Example
from askance_protocol.queries import BooleanQuery, CellQuery, PreparedQuery, RealQuery, notation, prepare
from askance_protocol.queries.language import (
    Affine,
    And,
    Bit,
    Clamp,
    Compare,
    FieldValue,
    If,
    Integer,
    Is,
    Label,
    Lookup,
    Not,
    Or,
    Parity,
    Slice,
    Term,
    Xor,
)
from askance_protocol.queries.notation import CUT, MOST, Questions, questions
from askance_protocol.schema import BitsField, CategoryField, IntegerField, LabelField, RealField, Schema
from tests.protocol.generators import AnyQuery, queries, schemas
from tests.protocol.test_wording import EVERYBODY, SMALL, small_queries

PERSON: Final = Schema(
    fields=(
        BitsField(name="x", width=16),
        BitsField(name="smokes", width=1),
        CategoryField(name="plan", values=("free", "pro", "it's")),
        IntegerField(name="minutes", low=0, high=600),
        RealField(name="height", low=0, high=3, denominator=100),
        IntegerField(name="age", low=0, high=120, gap=True),
        CategoryField(name="kind", values=("a", "b"), gap=True),
        LabelField(name="y"),
    )
)
MINUTES, HEIGHT, PLAN = FieldValue(field="minutes"), FieldValue(field="height"), FieldValue(field="plan")
PRO = Is(field="plan", category="pro")
LONG = Compare(left=MINUTES, relation=">", right=Integer(of=30))
OLD = Compare(left=FieldValue(field="age", gap=-1), relation=">=", right=Integer(of=50))
TALL = Compare(left=HEIGHT, relation=">=", right=Integer(of=175))


def linear(weight: int, of: FieldValue | Clamp, constant: int) -> Affine:
    return Affine(constant=constant, terms=(Term(weight=weight, of=of),))


NAMES: Final[dict[str, AnyQuery]] = {
    "share(plan = 'pro')": BooleanQuery(test=PRO),
    "share(plan != 'pro')": BooleanQuery(test=Not(of=PRO)),
    'share(plan = "it\'s")': BooleanQuery(test=Is(field="plan", category="it's")),
    "share(plan = 'pro' and minutes > 30)": BooleanQuery(test=And(of=(PRO, LONG))),
    "share(plan != 'pro' or minutes <= 30)": BooleanQuery(test=Not(of=And(of=(PRO, LONG)))),
    "share((plan = 'pro' or y = 1) and minutes > 30)": BooleanQuery(test=And(of=(Or(of=(PRO, Label(sign=1))), LONG))),
    "share(height >= 1.75)": BooleanQuery(test=TALL),
    "share(1.75 = height)": BooleanQuery(test=Compare(left=Integer(of=175), relation="=", right=HEIGHT)),
    "share(smokes = 1)": BooleanQuery(test=Bit(field="smokes", index=0)),
    "share(x[3] = 0)": BooleanQuery(test=Not(of=Bit(field="x", index=3))),
    "share(odd(y = -1, parity(x[0], x[2]) = 1))": BooleanQuery(
        test=Xor(of=(Label(sign=-1), Parity(field="x", mask="5")))
    ),
    "share(parity(x, mask ffff) = 1)": BooleanQuery(test=Parity(field="x", mask="ffff")),
    "mean(minutes, 0, 120)": RealQuery(numerator=linear(2, MINUTES, -120), denominator=120),
    "mean(minutes, 30, 120)": RealQuery(numerator=linear(2, Clamp(of=MINUTES, low=30, high=120), -150), denominator=90),
    "mean(minutes, -7, 7)": RealQuery(numerator=MINUTES, denominator=7),
    "mean(height, 1.5, 2.5)": RealQuery(numerator=linear(-2, HEIGHT, 400), denominator=100),
    "mean(number(plan), -2, 2)": RealQuery(numerator=PLAN, denominator=2),
    "mean((minutes if plan = 'pro' else 0) / 600)": RealQuery(
        numerator=If(test=PRO, then=MINUTES, otherwise=Integer(of=0)), denominator=600
    ),
    "share(age >= 50)": BooleanQuery(test=OLD),
    "share(age < 50 or age is missing)": BooleanQuery(test=Not(of=OLD)),
    "share(age is missing)": BooleanQuery(
        test=Compare(left=Integer(of=-1), relation="=", right=FieldValue(field="age", gap=-1))
    ),
    "share(30 > age or age is missing)": BooleanQuery(
        test=Compare(left=Integer(of=30), relation=">", right=FieldValue(field="age", gap=0))
    ),
    "mean(age, -120, 120, missing 40)": RealQuery(numerator=FieldValue(field="age", gap=40), denominator=120),
    "share(kind = 'a'), share(kind = 'b'), share(kind is missing)": CellQuery(
        cells=3, cell=FieldValue(field="kind", gap=2)
    ),
    "share(kind = 'a' or kind is missing), share(kind = 'b')": CellQuery(cells=2, cell=FieldValue(field="kind", gap=0)),
    "share(plan = 'free'), share(plan = 'pro'), share(plan = \"it's\")": CellQuery(cells=3, cell=PLAN),
    "share(minutes = 0), share(minutes = 1)": CellQuery(cells=2, cell=MINUTES),
    "share(minutes = 10), share(minutes = 11)": CellQuery(cells=2, cell=linear(1, MINUTES, -10)),
    "share(minutes = 0), share(false)": CellQuery(cells=2, cell=linear(2, MINUTES, 0)),
    "share(plan = 'free', minus where y = -1), share(plan = 'pro', minus where y = -1)": CellQuery(
        cells=2, cell=PLAN, negative=Label(sign=-1)
    ),
    "share(cell 0 of x[4..5]), share(cell 1 of x[4..5])": CellQuery(cells=2, cell=Slice(field="x", first=4, width=2)),
    "share(cell 0 of lookup(minutes, [1, 0], -1))": CellQuery(
        cells=1, cell=Lookup(index=MINUTES, table=(1, 0), default=-1)
    ),
}


def names(query: AnyQuery, schema: Schema = PERSON) -> list[str]:
    asked = questions(prepare(query, schema))
    return [asked.name(number) for number in range(asked.count)]


@pytest.mark.parametrize("said", NAMES)
def test_a_query_is_named_as_it_is_asked(said: str) -> None:
    assert ", ".join(names(NAMES[said])) == said


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_query_has_names_that_can_be_printed_and_are_not_long(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    for name in names(data.draw(queries(schema)), schema)[:8]:
        assert name.isprintable()
        assert len(name) < 2 * MOST + 60


def test_what_is_long_is_cut() -> None:
    [said] = names(BooleanQuery(test=And(of=(LONG,) * 40)))

    assert said.endswith(f"{CUT})")
    assert len(said) == MOST + len("share()")


def test_a_category_cannot_steer_a_terminal() -> None:
    evil = Schema(fields=(CategoryField(name="plan", values=("\x1b[2J", "\u202egood", "line\nbreak")),))

    assert all(name.isprintable() for name in names(CellQuery(cells=3, cell=PLAN), evil))


# --------------------------------------------------------------------------------------------------- in its own units

MEANS: Final = [query for query in NAMES.values() if isinstance(query, RealQuery)]


def unit_faults(tell: Callable[[AnyQuery], Questions]) -> list[str]:
    """Means of a field whose answers are not told as the field, kept between the two ends that the name has."""
    faults = list[str]()
    for query in MEANS:
        asked = tell(query)
        what, *ends = asked.name(0).removeprefix("mean(").removesuffix(")").split(", ")
        if len(ends) != 2:
            continue
        low, high = map(Fraction, ends)
        for minutes in range(0, 601, 3):
            record = {
                "x": "0" * 16,
                "smokes": "0",
                "plan": ("free", "pro", "it's")[minutes % 3],
                "minutes": minutes,
                "age": None,
            }
            example = Example.of(PERSON, {**record, "height": minutes / 200, "kind": None, "y": 1})
            held = {"minutes": minutes, "height": Fraction(minutes, 200), "number(plan)": minutes % 3}[what]
            if what == "height":
                held = Fraction(example.number("height").item(), 100)
            told = asked.told(query.answer(example) / query.denominator)
            if abs(told - min(max(held, low), high)) > 1e-9:
                faults.append(f"{asked.name(0)}: {told} of {held}")
                break
    return faults


def test_a_mean_is_told_in_the_units_of_its_field() -> None:
    assert unit_faults(lambda query: questions(prepare(query, PERSON))) == []


def test_a_mean_in_other_units_is_found() -> None:
    """The control: each of the two numbers forgotten."""

    def unscaled(query: AnyQuery) -> Questions:
        asked = questions(prepare(query, PERSON))
        return Questions(query, asked.name, Fraction(1), asked.offset)

    def not_shifted(query: AnyQuery) -> Questions:
        asked = questions(prepare(query, PERSON))
        return Questions(query, asked.name, asked.scale)

    assert len(unit_faults(unscaled)) >= 3
    assert len(unit_faults(not_shifted)) >= 3


# ---------------------------------------------------------------------------------- alike only where the same is meant


@cache
def small_answers() -> list[tuple[PreparedQuery, list[int]]]:
    """Small queries, each with everybody's answers."""
    return [(prepare(query, SMALL), [query.answer(each) for each in EVERYBODY]) for query in small_queries()]


def confused() -> list[str]:
    """Names that stand for two different things to estimate."""
    meanings = defaultdict[str, set[tuple[float, ...]]](set)
    for prepared, answers in small_answers():
        asked, query = questions(prepared), prepared.query
        for number in range(asked.count):
            name = asked.name(number)
            if CUT in name:
                continue
            match query:
                case RealQuery(denominator=one):
                    meaning = tuple(round(asked.told(answer / one), 9) for answer in answers)
                case CellQuery():
                    meaning = tuple((abs(answer) == number + 1) * (1.0 if answer > 0 else -1.0) for answer in answers)
                case BooleanQuery():
                    meaning = tuple(map(float, answers))
            meanings[name].add(tuple(each + 0.0 for each in meaning))
    return [name for name, found in meanings.items() if len(found) > 1]


def test_two_questions_of_one_name_are_the_same() -> None:
    assert confused() == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("_several", '"and" if isinstance(test, And) is holds else "or"', '"and"'),
        ("_bracketed", 'f"({said})" if isinstance(test, And | Or) else said', "said"),
        ("_test", "schema, holds=not holds", "schema"),
        ("_sum", "if number.constant:", "if False:"),
        ("_number", ", {default})", ")"),
        ("_number", ", {low}, {high})", ")"),
        ("_cells", 'f", minus where', '"" if True else f", minus where'),
    ],
)
def test_names_that_leave_something_out_are_found(
    monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str
) -> None:
    """The control."""
    source = inspect.getsource(getattr(notation, name))
    assert source.count(old) == 1
    planted: dict[str, Any] = {}
    exec(source.replace(old, new), notation.__dict__, planted)
    monkeypatch.setattr(notation, name, planted[name])

    assert confused()
