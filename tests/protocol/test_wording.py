"""A question in words says what it asks: alike only where the same is asked, of the whole language, and harmless."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any, Final, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Example
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, prepare, read_query, wording
from askance_protocol.queries.language import (
    Affine,
    And,
    AnyNumber,
    AnyTest,
    Bit,
    Clamp,
    Compare,
    Constant,
    Dot,
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
from askance_protocol.queries.wording import SHOWN, field_words, fields_of, words
from askance_protocol.schema import BitsField, CategoryField, IntegerField, LabelField, RealField, Schema
from askance_server.strategies.registry import registry
from tests.protocol.generators import AnyQuery, all_nodes, queries, schemas

PERSON: Final = Schema(
    fields=(
        BitsField(name="x", width=8),
        BitsField(name="smokes", width=1),
        CategoryField(name="plan", values=("free", "pro", "it's")),
        IntegerField(name="age", low=0, high=120),
        RealField(name="height", low=-1, high=1, denominator=10),
        LabelField(name="y"),
        IntegerField(name="minutes", low=0, high=120, gap=True),
        CategoryField(name="kind", values=("a", "b"), gap=True),
        RealField(name="depth", low=-1, high=1, denominator=10, gap=True),
    )
)
X3, YES, PRO, OLD = (
    Bit(field="x", index=3),
    Label(sign=1),
    Is(field="plan", category="pro"),
    Compare(left=FieldValue(field="age"), relation=">=", right=Integer(of=50)),
)
AGE, HEIGHT = FieldValue(field="age"), FieldValue(field="height")
MINUTES, KIND, DEPTH = (FieldValue(field=name, gap=-1) for name in ("minutes", "kind", "depth"))

TESTS: Final[dict[str, AnyTest]] = {
    "the answer is yes for everybody": Constant(truth=True),
    "the answer is no for everybody": Constant(truth=False),
    "bit 3 of x is 1": X3,
    "smokes is 1": Bit(field="smokes", index=0),
    "bit 2 of x is 1": Parity(field="x", mask="4"),
    "the number of ones among bits 0, 2 of x is odd": Parity(field="x", mask="5"),
    "the number of ones among no bits of x is odd": Parity(field="x", mask="0"),
    "plan is 'pro'": PRO,
    'plan is "it\'s"': Is(field="plan", category="it's"),
    "y is +1": YES,
    "y is -1": Label(sign=-1),
    "bit 3 of x is 0": Not(of=X3),
    "plan is not 'pro'": Not(of=PRO),
    "the number of ones among bits 0, 2 of x is even": Not(of=Parity(field="x", mask="5")),
    "age is less than 50": Not(of=OLD),
    "it is not so that (y is +1 and bit 3 of x is 1)": Not(of=And(of=(YES, X3))),
    "y is +1 and bit 3 of x is 1 and plan is 'pro'": And(of=(YES, X3, PRO)),
    "bit 3 of x is 1 and y is +1": And(of=(Or(of=(X3,)), YES)),
    "(bit 3 of x is 1 or plan is 'pro') and y is +1": And(of=(Or(of=(X3, PRO)), YES)),
    "(it is not so that (bit 3 of x is 1 or plan is 'pro')) and y is +1": And(of=(Not(of=Or(of=(X3, PRO))), YES)),
    "y is +1 or bit 3 of x is 1": Or(of=(YES, X3)),
    "an odd number of these are true: y is +1; bit 3 of x is 1": Xor(of=(YES, X3)),
    "an even number of these are true: y is +1; bit 3 of x is 1": Not(of=Xor(of=(YES, X3))),
    "age is at least 50": OLD,
    "age is more than 50": Compare(left=AGE, relation=">", right=Integer(of=50)),
    "age is at most 50": Compare(left=AGE, relation="<=", right=Integer(of=50)),
    "age is 50": Compare(left=AGE, relation="=", right=Integer(of=50)),
    "age is not 50": Compare(left=AGE, relation="!=", right=Integer(of=50)),
    "(10 × height) is less than (bits 0 to 2 of x, read as a number)": Compare(
        left=HEIGHT, relation="<", right=Slice(field="x", first=0, width=3)
    ),
}

NUMBERS: Final[dict[str, AnyNumber]] = {
    "7": Integer(of=7),
    "age": AGE,
    "10 × height": HEIGHT,
    "minutes, or -1 where there is nothing": MINUTES,
    "10 × depth, or -1 where there is nothing": DEPTH,
    "the place of plan, counted from 0, in 'free', 'pro', \"it's\"": FieldValue(field="plan"),
    "bit 1 of x, read as a number": Slice(field="x", first=1, width=1),
    "the bits of x times 1, 2, 3, 4, -5, 6, 7, 0, added up": Dot(field="x", weights=(1, 2, 3, 4, -5, 6, 7, 0)),
    "-2 × age + (10 × height) - 5": Affine(constant=-5, terms=(Term(weight=-2, of=AGE), Term(weight=1, of=HEIGHT))),
    "4 if age is 0, 5 if it is 1, -1 if it is 2 to 120": Lookup(index=AGE, table=(4, 5), default=-1),
    "4 if plan is 'free' or 'pro', -1 if it is \"it's\"": Lookup(
        index=FieldValue(field="plan"), table=(4, 4), default=-1
    ),
    "3 if kind is 'a', 1 if it is 'b', 2 if there is nothing": Lookup(
        index=Affine(constant=1, terms=(Term(weight=1, of=KIND),)), table=(2, 3, 1), default=0
    ),
    "0 if 10 × height is -10 to -1, 1 if it is 0 to 9, 2 if it is 10": Lookup(
        index=Affine(constant=10, terms=(Term(weight=1, of=HEIGHT),)), table=(*[0] * 10, *[1] * 10), default=2
    ),
    "entry y, counted from 0, of the list 4, 5, or -1 where it has none": Lookup(
        index=FieldValue(field="y"), table=(4, 5), default=-1
    ),
    "entry (2 × age), counted from 0, of the list 4, 5, or -1 where it has none": Lookup(
        index=Affine(terms=(Term(weight=2, of=AGE),)), table=(4, 5), default=-1
    ),
    "entry (bit 1 of x, read as a number), counted from 0, of the list 4, 5, or -1 where it has none": Lookup(
        index=Slice(field="x", first=1, width=1), table=(4, 5), default=-1
    ),
    "age if (y is +1 or bit 3 of x is 1), else (10 × height)": If(test=Or(of=(YES, X3)), then=AGE, otherwise=HEIGHT),
    "age if y is +1, else 0": If(test=YES, then=AGE, otherwise=Integer(of=0)),
    "age, but not below 18 nor above 99": Clamp(of=AGE, low=18, high=99),
}


def ops(union: object) -> set[str]:
    """The names of all expressions of one sort."""
    return {kind.model_fields["op"].default for kind in get_args(get_args(union)[0])}


@pytest.mark.parametrize("said", TESTS)
def test_a_test_in_words(said: str) -> None:
    assert words(BooleanQuery(test=TESTS[said]), PERSON) == f"whether {said}"


@pytest.mark.parametrize("said", NUMBERS)
def test_a_number_in_words(said: str) -> None:
    assert f"number {said}" in words(CellQuery(cells=4, cell=NUMBERS[said]), PERSON)


def test_each_expression_of_the_language_stands_in_these_tables() -> None:
    """A new one has to be put into words, and shown here."""
    assert ops(AnyTest) == {test.op for test in TESTS.values()}
    assert ops(AnyNumber) == {number.op for number in NUMBERS.values()}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (RealQuery(numerator=HEIGHT, denominator=10), "the value of height, from -1 to 1"),
        (RealQuery(numerator=HEIGHT, denominator=20), "the value of (10 × height) / 20, from -1 to 1"),
        (RealQuery(numerator=AGE, denominator=120), "the value of age / 120, from -1 to 1"),
        (RealQuery(numerator=AGE, denominator=1), "the value of age, from -1 to 1"),
        (
            CellQuery(cells=3, cell=FieldValue(field="plan")),
            "which one plan is, of 'free', 'pro', \"it's\"",
        ),
        (CellQuery(cells=2, cell=KIND), "which one kind is, of 'a', 'b', if any"),
        (
            CellQuery(cells=3, cell=FieldValue(field="kind", gap=2)),
            "which one kind is, of 'a', 'b', or whether there is nothing",
        ),
        (
            CellQuery(cells=2, cell=FieldValue(field="kind", gap=1)),
            "which group you are in, of those numbered 0 to 1, if any: number the place of kind, counted from 0, in "
            "'a', 'b', or 1 where there is nothing",
        ),
        (
            RealQuery(numerator=DEPTH, denominator=10),
            "the value of (10 × depth, or -1 where there is nothing) / 10, from -1 to 1",
        ),
        (
            CellQuery(cells=2, cell=AGE, negative=YES),
            "which group you are in, of those numbered 0 to 1, if any: number age; and whether y is +1, which counts "
            "against the group",
        ),
        (
            CellQuery(cells=1, cell=AGE),
            "which group you are in, of those numbered 0 alone, if any: number age",
        ),
    ],
)
def test_a_query_in_words(query: AnyQuery, said: str) -> None:
    assert words(query, PERSON) == said


def test_a_real_field_that_counts_in_whole_steps_is_told_by_its_name() -> None:
    floor = Schema(fields=(RealField(name="floor", low=-2, high=9, denominator=1),))
    query = RealQuery(numerator=FieldValue(field="floor"), denominator=10)
    assert words(query, floor) == "the value of floor / 10, from -1 to 1"


def test_fields_in_words() -> None:
    assert [field_words(field) for field in PERSON.fields] == [
        "x: 8 bits",
        "smokes: one bit",
        "plan: one of 'free', 'pro', \"it's\"",
        "age: a whole number from 0 to 120",
        "height: a number from -1 to 1, in steps of 1/10",
        "y: a label, +1 or -1",
        "minutes: a whole number from 0 to 120, or nothing",
        "kind: one of 'a', 'b', or nothing",
        "depth: a number from -1 to 1, in steps of 1/10, or nothing",
    ]


def test_the_fields_that_a_query_looks_at_are_named_in_the_order_of_the_schema() -> None:
    query = CellQuery(cells=2, cell=If(test=PRO, then=AGE, otherwise=Slice(field="x", first=0, width=1)), negative=YES)

    assert fields_of(query, PERSON) == ("x", "plan", "age", "y")
    assert fields_of(BooleanQuery(test=Constant(truth=True)), PERSON) == ()


def test_long_lists_are_shortened_and_their_length_is_told() -> None:
    wide = Schema(fields=(BitsField(name="x", width=4096),))
    said = words(BooleanQuery(test=Parity(field="x", mask="f" * 1024)), wide)

    assert "… (4096 in all)" in said
    assert len(said) < 300
    assert f"{SHOWN - 2}, …" in said


@pytest.mark.parametrize(("values", "cells", "shown"), [(1024, 32, True), (1025, 32, False), (1024, 33, False)])
def test_a_table_is_told_by_value_as_long_as_that_can_be_read(values: int, cells: int, *, shown: bool) -> None:
    field = IntegerField(name="delay", low=1, high=values)
    index = Affine(constant=-1, terms=(Term(weight=1, of=FieldValue(field="delay")),))
    table = tuple(place * cells // values for place in range(values))
    said = words(CellQuery(cells=cells, cell=Lookup(index=index, table=table)), Schema(fields=(field,)))

    assert (f"{cells - 1} if it is {values - values // cells + 1} to {values}" in said) is shown
    assert ("counted from 0, of the list 0, 0" in said) is not shown


@pytest.mark.parametrize(("values", "shown"), [(32, True), (33, False)])
def test_of_many_categories_a_table_is_not_told_by_value(values: int, *, shown: bool) -> None:
    field = CategoryField(name="page", values=tuple(map(str, range(values))))
    said = words(CellQuery(cells=1, cell=Lookup(index=FieldValue(field="page"), table=(0,))), Schema(fields=(field,)))

    assert ("or '31'" in said) is shown
    assert len(said) < 500


def test_a_category_cannot_steer_a_terminal() -> None:
    evil = CategoryField(name="plan", values=("\x1b[2J", "\u202egood", "line\nbreak"))
    schema = Schema(fields=(evil,))
    said = [
        *(words(BooleanQuery(test=Is(field="plan", category=value)), schema) for value in evil.values),
        words(CellQuery(cells=3, cell=FieldValue(field="plan")), schema),
        field_words(evil),
    ]

    assert all(each.isprintable() for each in said)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_query_has_words_that_name_each_field_it_looks_at(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    query = data.draw(queries(schema))
    said = words(query, schema)

    assert said.isprintable()
    assert said == words(query, schema)
    looked_at = {getattr(node, "field", None) for node in all_nodes(query)} - {None}
    assert looked_at <= set(fields_of(query, schema))
    assert all(name in said for name in fields_of(query, schema))


# ----------------------------------------------------------------------------------- alike only where the same is asked

SMALL: Final = Schema(
    fields=(BitsField(name="x", width=2), LabelField(name="y"), CategoryField(name="c", values=("a", "b"), gap=True))
)
EVERYBODY: Final = [
    Example.of(SMALL, {"x": f"{bits:02b}", "y": label, "c": kind})
    for bits in range(4)
    for label in (-1, 1)
    for kind in ("a", "b", None)
]


def small_tests() -> Iterator[AnyTest]:
    """All tests of up to three levels, but for the numbers in them."""
    leaves: list[AnyTest] = [
        Constant(truth=True),
        Bit(field="x", index=0),
        Bit(field="x", index=1),
        Parity(field="x", mask="3"),
        Parity(field="x", mask="0"),
        Label(sign=1),
    ]
    middle: list[AnyTest] = [Not(of=leaf) for leaf in leaves]
    for kind in (And, Or, Xor):
        middle += [kind(of=pair) for pair in itertools.product(leaves, repeat=2)]
        middle += [kind(of=(leaf,)) for leaf in leaves]
    yield from leaves
    yield from middle
    yield from (Not(of=test) for test in middle)
    for kind in (And, Or, Xor):
        yield from (kind(of=(test, leaf)) for test in middle for leaf in leaves[1:5])
        yield from (kind(of=(leaf, test)) for test in middle for leaf in leaves[1:5])


def small_numbers() -> Iterator[AnyNumber]:
    """Numbers of up to three levels."""
    leaves: list[AnyNumber] = [
        Integer(of=1),
        Integer(of=-1),
        FieldValue(field="y"),
        Slice(field="x", first=0, width=2),
        Slice(field="x", first=1, width=1),
        Dot(field="x", weights=(1, 2)),
        Dot(field="x", weights=(2, -1)),
        *(FieldValue(field="c", gap=gap) for gap in (-1, 0, 1, 2)),
    ]

    def above(numbers: Iterable[AnyNumber]) -> Iterator[AnyNumber]:
        for each in numbers:
            for weight, constant in itertools.product((-1, 0, 1, 2), (-1, 0, 1)):
                yield Affine(constant=constant, terms=(Term(weight=weight, of=each),))
            yield Affine(terms=(Term(weight=1, of=leaves[2]), Term(weight=-1, of=each)))
            yield Clamp(of=each, low=0, high=1)
            yield Clamp(of=each, low=-1, high=1)
            yield Lookup(index=each, table=(3, 1), default=2)
            yield Lookup(index=each, table=(3,), default=1)
            yield Lookup(index=each, table=(3,), default=2)
            for test in (Label(sign=1), Or(of=(Label(sign=1), Bit(field="x", index=0)))):
                yield If(test=test, then=each, otherwise=leaves[0])
                yield If(test=test, then=leaves[2], otherwise=each)

    middle = list(above(leaves))
    yield from leaves
    yield from middle
    yield from above(middle[::5])


def small_queries() -> Iterator[AnyQuery]:
    """Queries over a schema of 24 examples."""
    for test in small_tests():
        yield BooleanQuery(test=test)
    for number in small_numbers():
        yield RealQuery(numerator=number, denominator=2)
        yield CellQuery(cells=3, cell=number)
        yield CellQuery(cells=2, cell=number)
        yield CellQuery(cells=3, cell=number, negative=Label(sign=1))
        yield CellQuery(cells=3, cell=number, negative=Label(sign=-1))
        yield BooleanQuery(test=Compare(left=number, relation="<", right=Integer(of=1)))
        yield BooleanQuery(test=Not(of=Compare(left=Integer(of=0), relation="=", right=number)))


def confused(wording: Callable[[AnyQuery, Schema], str]) -> list[str]:
    """Words that stand for two questions."""
    meanings = defaultdict[str, set[tuple[int, ...]]](set)
    for query in small_queries():
        meanings[wording(query, SMALL)].add(tuple(query.answer(each) for each in EVERYBODY))
    return [said for said, answers in meanings.items() if len(answers) > 1]


def test_two_questions_that_read_alike_ask_the_same_of_everybody() -> None:
    assert confused(words) == []


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("_clauses", 'f"({clause})" if _joined(each) else clause', "clause"),
        ("_several", "joined if holds else", "joined if True else"),
        ("_test", "schema, holds=not holds", "schema"),
        ("_factor", 'f"({phrase})"', "phrase"),
        ("_sum", "if number.constant:", "if False:"),
        ("_by_entry", ", or {lookup.default} where it has none", ""),
        ("_by_value", "if value.gap is not None:", "if False:"),
        ("_by_value", "held + constant", "held"),
        ("_number", ", but not below {low} nor above {high}", ""),
        ("_number", ' + ("" if gap is None else f", or {gap} where there is nothing")', ""),
        ("_of_all_values", "and not 0 <= gap < values", ""),
        ("_of_all_values", '", or whether there is nothing"', '", if any"'),
        ("_cell", 'f"{asked}; and whether {_test(query.negative, schema)}', 'f"{asked}'),
    ],
)
def test_words_that_leave_something_out_are_found(
    monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str
) -> None:
    """The control."""
    source = inspect.getsource(getattr(wording, name))
    assert source.count(old) == 1
    planted: dict[str, Any] = {}
    exec(source.replace(old, new), wording.__dict__, planted)
    monkeypatch.setattr(wording, name, planted[name])

    assert confused(words)


# ------------------------------------------------------------------------------------------- the questions of a survey

ASKED_OF: Final = Schema(
    fields=(
        IntegerField(name="rating", low=1, high=5),
        IntegerField(name="odd", low=0, high=5),
        IntegerField(name="minutes", low=0, high=120, gap=True),
        RealField(name="height", low=0, high=2, denominator=100),
        RealField(name="third", low=0, high=2, denominator=3, gap=True),
        CategoryField(name="plan", values=("free", "pro"), gap=True),
    )
)
NEARER: Final = ", where what is beyond counts as the nearer end"
NOTHING: Final = ", or the middle of it if there is nothing"
SURVEYED: Final = {
    "mean(rating)": ["your rating, on a scale from 1 to 5"],
    "mean(rating, 0, 10)": ["your rating, on a scale from 0 to 10"],
    "mean(odd)": ["your odd, on a scale from 0 to 5"],
    "mean(odd, 1, 4)": [f"your odd, on a scale from 1 to 4{NEARER}"],
    "mean(minutes, 0, 60)": [
        f"your minutes, on a scale from 0 to 60{NEARER}{NOTHING}",
        "whether there is a value for minutes",
    ],
    "mean(height)": ["your height, on a scale from 0 to 2"],
    "mean(height, 0, 0.5)": [f"your height, on a scale from 0 to 0.5{NEARER}"],
    "mean(third)": [f"your third, on a scale from 0 to 2{NOTHING}", "whether there is a value for third"],
    "histogram(rating)": ["which number rating is, from 1 to 5"],
    "histogram(rating, 3, 4)": ["which range rating is in, of below 3, from 3 to below 4, from 4 on"],
    "histogram(minutes, 30, 60)": [
        "which range minutes is in, of below 30, from 30 to below 60, from 60 on, or whether there is nothing"
    ],
    "share(minutes > 30)": ["whether minutes is more than 30 (nothing counts as no)"],
    "share(minutes <= 30)": ["whether minutes is at most 30 (nothing counts as no)"],
    "share(not minutes <= 30)": ["whether minutes is more than 30 (nothing counts as yes)"],
    "share(height > 0.5 and plan = 'pro')": ["whether height is more than 0.5 and plan is 'pro'"],
}


def surveyed(question: str) -> list[AnyQuery]:
    strategy = registry()["survey"].on(ASKED_OF)
    return [ask.query for ask in next(strategy.run({"ask1": question}))]


@pytest.mark.parametrize("question", SURVEYED)
def test_a_survey_asks_without_algebra(question: str) -> None:
    said = [words(query, ASKED_OF) for query in surveyed(question)]

    assert said == SURVEYED[question]
    assert [each for each in said if re.search(r"[×+/=]| - |, or -?\d", each)] == []


def near(query: AnyQuery) -> Iterator[AnyQuery]:
    """The same query with one number of it changed: what a server may ask in place of what its words say."""
    document = query.to_bytes().decode()
    for found in re.finditer(r"(?<=:)-?\d+", document):
        for other in (int(found[0]) - 1, int(found[0]) + 1):
            with contextlib.suppress(ProtocolError):
                changed = read_query(document[: found.start()] + str(other) + document[found.end() :])
                prepare(changed, ASKED_OF)
                yield changed


def answers_of(query: AnyQuery) -> list[Any]:
    """What it answers of every value of each of its fields, alone and with none: as a share of what it counts to."""
    ready = prepare(query, ASKED_OF)
    records = list[dict[str, Any]]()
    usual: dict[str, Any] = {"rating": 2, "odd": 1, "minutes": 5, "height": 0.5, "third": 1, "plan": "free"}
    for field in ASKED_OF.fields:
        values = getattr(field, "values", None) or [
            each / getattr(field, "denominator", 1) for each in range(field.least, field.most + 1)
        ]
        found = [*([] if field.empty is None else [None]), *values]
        records += [
            {**usual, field.name: int(each) if isinstance(field, IntegerField) and each is not None else each}
            for each in found
        ]
    scale = query.denominator if isinstance(query, RealQuery) else 1
    return [Fraction(int(ready.answer(Example.of(ASKED_OF, record))), scale) for record in records]


def read_alike(say: Callable[[AnyQuery], str]) -> list[str]:
    """Words of two queries that ask something else of somebody."""
    wrong = list[str]()
    for question in SURVEYED:
        for query in surveyed(question):
            wrong += [
                say(query) for each in near(query) if say(each) == say(query) and answers_of(each) != answers_of(query)
            ]
    return wrong


def test_a_question_with_another_number_in_it_reads_otherwise_or_asks_the_same() -> None:
    assert read_alike(lambda query: words(query, ASKED_OF)) == []


def test_control_words_that_leave_a_number_out_are_found() -> None:
    assert read_alike(lambda query: re.sub(r"\d+", "n", words(query, ASKED_OF))) != []
