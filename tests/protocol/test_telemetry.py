"""Questions as people write them: what they mean, of every example; and what of them is refused, and how.

Each random question is made together with a plain function of a record that says what it means. Nothing of that shares
code with the compiler.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_protocol.errors import AskanceError, ProtocolError
from askance_protocol.examples import Example
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, prepare, telemetry
from askance_protocol.queries.language import Compare, FieldValue, Integer
from askance_protocol.queries.telemetry import MISSING, TelemetryQuestion, compile_question, fields_asked
from askance_protocol.schema import BitsField, CategoryField, IntegerField, LabelField, RealField, Schema

Record = Mapping[str, Any]
Meaning = Callable[[Record], bool]

SCHEMA: Final = Schema(
    fields=(
        IntegerField(name="minutes", low=0, high=12, gap=True),
        IntegerField(name="age", low=-3, high=4),
        CategoryField(name="country", values=("de", "fr", "it's")),
        CategoryField(name="plan", values=("free", "pro"), gap=True),
        RealField(name="load", low=-1, high=2, denominator=4, gap=True),
        RealField(name="score", low=0, high=1, denominator=8),
        BitsField(name="dark", width=1),
        BitsField(name="flags", width=3),
        LabelField(name="y"),
    )
)
ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def a_record(source: random.Random) -> dict[str, Any]:
    def or_gap(value: Any) -> Any:
        return None if source.random() < 0.25 else value

    return {
        "minutes": or_gap(source.randint(0, 12)),
        "age": source.randint(-3, 4),
        "country": source.choice(["de", "fr", "it's"]),
        "plan": or_gap(source.choice(["free", "pro"])),
        "load": or_gap(source.randint(-4, 8) / 4),
        "score": source.randint(0, 8) / 8,
        "dark": source.choice("01"),
        "flags": "".join(source.choices("01", k=3)),
        "y": source.choice([-1, 1]),
    }


def number_of(name: str, record: Record) -> Any:
    """What a question compares: of bits, one as a number."""
    if "[" in name:
        return int(record[name[:-3]][int(name[-2])])
    return int(record[name]) if name == "dark" else record[name]


def a_comparison(source: random.Random) -> tuple[str, Meaning]:
    kind = source.choice(["number", "number", "text", "alone", "missing"])
    negated = source.random() < 0.5
    if kind == "alone":
        name = source.choice(["dark", "flags[0]", "flags[2]", "y"])
        return name, lambda record: number_of(name, record) == 1
    if kind == "missing":
        name = source.choice(["minutes", "plan", "load"])
        text = f"{name} is {'not ' if negated else ''}missing"
        return text, lambda record: (record[name] is None) is not negated
    if kind == "text":
        name = source.choice(["country", "plan"])
        wanted = source.choice({"country": ["de", "fr", "it's"], "plan": ["free", "pro"]}[name])
        quoted = "'" + wanted.replace("'", "''") + "'" if source.random() < 0.5 else f'"{wanted}"'
        relation = source.choice(["=", "!="])
        return (
            f"{name} {relation} {quoted}",
            lambda record: record[name] is not None and ORDERS[relation](record[name], wanted),
        )
    name = source.choice(["minutes", "age", "load", "score", "dark", "flags[1]", "y"])

    def a_number() -> Fraction:
        return Fraction(source.randint(-60, 140), source.choice([1, 4, 5, 8, 10]))

    def written(value: Fraction) -> str:
        return f"{float(value):g}"

    if source.random() < 0.3:
        among = [
            a_number() if source.random() < 0.3 else Fraction(source.randint(-2, 9))
            for _ in range(source.randint(1, 3))
        ]
        text = f"{name} {'not ' if negated else ''}in ({', '.join(map(written, among))})"

        def is_in(record: Record) -> bool:
            held = number_of(name, record)
            return held is not None and (Fraction(held) in among) is not negated

        return text, is_in
    relation, value = source.choice([*ORDERS]), a_number() if source.random() < 0.5 else Fraction(source.randint(-2, 9))

    def compared(record: Record) -> bool:
        held = number_of(name, record)
        return held is not None and ORDERS[relation](Fraction(held), value)

    return f"{name}{source.choice(['', ' '])}{relation}{source.choice(['', ' '])}{written(value)}", compared


def a_condition(source: random.Random, depth: int) -> tuple[str, Meaning]:
    how = source.choice(["and", "or", "not", "one"]) if depth else "one"
    if how == "one":
        return a_comparison(source)
    if how == "not":
        text, meaning = a_condition(source, depth - 1)
        return f"not ({text})", lambda record: not meaning(record)
    parts = [a_condition(source, depth - 1) for _ in range(source.randint(2, 3))]
    word = source.choice([how, how.upper()])
    joined = all if how == "and" else any
    return f" {word} ".join(f"({text})" for text, _ in parts), lambda record: joined(
        meaning(record) for _, meaning in parts
    )


def a_question(seed: int) -> tuple[str, Meaning]:
    """A share, and what it means; short enough for a parameter."""
    source = random.Random(seed)
    while True:
        text, meaning = a_condition(source, source.randint(0, 3))
        if len(text) < 190:
            return f"share({text})", meaning


RECORDS: Final = [a_record(random.Random(seed)) for seed in range(64)]
EXAMPLES: Final = [Example.of(SCHEMA, record) for record in RECORDS]


def answers(query: BooleanQuery | RealQuery | CellQuery) -> list[int]:
    """One by one. That columns give the same is what the tests of the language are for."""
    prepared = prepare(query, SCHEMA)
    return [prepared.answer(example) for example in EXAMPLES]


def wrong_shares(compile_: Callable[[str, Schema], TelemetryQuestion], seeds: range) -> list[str]:
    """The random questions that mean something else compiled than they do."""
    wrong = list[str]()
    for seed in seeds:
        text, meaning = a_question(seed)
        [query] = compile_(text, SCHEMA).queries
        if answers(query) != [int(meaning(record)) for record in RECORDS]:
            wrong.append(text)
    return wrong


def test_shares_mean_what_they_say_of_every_example() -> None:
    assert wrong_shares(compile_question, range(300)) == []


@pytest.mark.parametrize("planted", ["gaps count", "an order that is turned"])
def test_a_compiler_that_is_wrong_is_found(planted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted faults of the test above: a gap passes a comparison, or ≥ is taken for >."""
    made = telemetry.Compare

    def broken(**parts: Any) -> Compare:
        found = made(**parts)
        left, right = found.left, found.right
        if planted != "gaps count":
            return found.model_copy(update={"relation": ">"}) if found.relation == ">=" else found
        if isinstance(left, FieldValue) and isinstance(right, Integer) and left.gap is not None:
            return found.model_copy(update={"left": left.model_copy(update={"gap": right.of})})
        return found

    monkeypatch.setattr(telemetry, "Compare", broken)

    assert wrong_shares(compile_question, range(200))


@pytest.mark.parametrize(
    ("text", "cells", "cell_of"),
    [
        (
            "histogram(country)",
            ["'de'", "'fr'", '"it\'s"'],
            lambda record: ["de", "fr", "it's"].index(record["country"]),
        ),
        ("share(country)", ["'de'", "'fr'", '"it\'s"'], lambda record: ["de", "fr", "it's"].index(record["country"])),
        (
            "histogram(plan)",
            ["'free'", "'pro'", MISSING],
            lambda record: {"free": 0, "pro": 1, None: 2}[record["plan"]],
        ),
        ("histogram(age)", ["-3", "-2", "-1", "0", "1", "2", "3", "4"], lambda record: record["age"] + 3),
        (
            "histogram( load , 0, 0.75 )",
            ["under 0", "0 to under 0.75", "0.75 or more", MISSING],
            lambda record: 3 if record["load"] is None else (record["load"] >= 0) + (record["load"] >= 0.75),
        ),
        ("histogram(score, 0.3)", ["under 0.3", "0.3 or more"], lambda record: int(record["score"] >= 0.3)),
    ],
)
def test_histograms_put_every_example_into_its_cell(
    text: str, cells: list[str], cell_of: Callable[[Record], int]
) -> None:
    found = compile_question(text, SCHEMA)
    [query] = found.queries

    assert list(found.names) == [f"{text}: {cell}" for cell in cells]
    assert isinstance(query, CellQuery)
    assert query.cells == len(cells)
    assert answers(query) == [cell_of(record) + 1 for record in RECORDS]


@pytest.mark.parametrize(
    ("text", "field", "low", "high"),
    [
        ("mean(age)", "age", -3, 4),
        ("mean(age, -1, 2)", "age", -1, 2),
        ("mean(score, 0.25, 1)", "score", 0.25, 1),
        ("mean(minutes, 0, 12)", "minutes", 0, 12),
        ("mean(minutes, 3, 40)", "minutes", 3, 40),
        ("mean(load)", "load", -1, 2),
        ("mean(dark)", "dark", 0, 1),
        ("mean(flags[1])", "flags[1]", 0, 1),
        ("mean(y)", "y", -1, 1),
    ],
)
def test_means_are_of_the_users_who_have_a_value(text: str, field: str, low: float, high: float) -> None:
    found = compile_question(text, SCHEMA)
    held = [number_of(field, record) for record in RECORDS]
    value, *known = found.queries

    assert (found.low, found.high, found.names) == (low, high, (text,))
    assert isinstance(value, RealQuery)
    assert [Fraction(answer, value.denominator) for answer in answers(value)] == [
        0
        if one is None
        else (2 * Fraction(min(max(one, low), high)) - Fraction(low) - Fraction(high)) / Fraction(high - low)
        for one in held
    ]
    assert [answers(query) for query in known] == ([[int(one is not None) for one in held]] if None in held else [])


BAD: Final = [
    ("sum(minutes)", 1, "mean, share or histogram"),
    ("mean minutes", 6, "'('"),
    ("mean(minutes", 13, "')'"),
    ("mean()", 6, "a field"),
    ("mean(hours)", 6, "no field 'hours'"),
    ("mean(country)", 6, "is a category"),
    ("mean(minutes, 5)", 16, "a low and a high end"),
    ("mean(minutes, 5, 5)", 15, "not below"),
    ("mean(minutes, 0.5, 5)", 15, "no value"),
    ("mean(minutes, 0, 'x')", 18, "a number"),
    ("mean(flags)", 6, "3 bits"),
    ("mean(flags[3])", 6, "numbered from 0"),
    ("mean(flags[-1])", 12, "numbered from 0"),
    ("mean(age[0])", 6, "no bits"),
    ("share()", 7, "a field"),
    ("share(age)", 7, "alone is no condition"),
    ("share(age =)", 12, "a number or a text"),
    ("share(plan = pro)", 14, "a text in quotes"),
    ("share(plan = 'gold')", 14, "no value 'gold'"),
    ("share(plan = 1)", 14, "holds texts"),
    ("share(plan < 'pro')", 14, "no order"),
    ("share(age = 'x')", 13, "holds numbers"),
    ("share(country is missing)", 7, "no gaps"),
    ("share(plan is gone)", 15, "'missing'"),
    ("share(age in ())", 15, "a number or a text"),
    ("share(age in (1, 2)", 20, "')'"),
    ("share(age > 1 and)", 18, "a field"),
    ("share(age > 1 or or dark)", 18, "a field"),
    ("share(not)", 10, "a field"),
    ("share(age > 1) and dark", 16, "the end"),
    ("share(plan = 'pro)", 14, "no end"),
    ("share(age > 1; dark)", 14, "means nothing"),
    ("share(" + "(" * 20 + "dark" + ")" * 20 + ")", 19, "inside each other"),
    ("histogram(minutes, 5, 3)", 23, "do not rise"),
    ("histogram(minutes, 0)", 20, "divides"),
    ("histogram(load)", 11, "too many values"),
    ("histogram(country, 3)", 20, "not cut"),
    ("histogram(dark)", 11, "two values"),
]


@pytest.mark.parametrize(("text", "place", "said"), BAD)
def test_an_error_names_the_question_the_place_what_was_expected_and_the_fields(
    text: str, place: int, said: str
) -> None:
    with pytest.raises(ProtocolError) as refused:
        compile_question(text, SCHEMA)

    assert refused.value.where == f"question {text!r}"
    assert f"at character {place}" in refused.value.what
    assert said in refused.value.what
    assert "the fields are minutes, age, country, plan, load, score, dark, flags, y" in refused.value.remedy


def test_a_mean_over_too_many_steps_is_refused() -> None:
    wide = Schema(fields=(IntegerField(name="bytes", low=0, high=1 << 30),))

    assert compile_question("mean(bytes, 0, 131072)", wide).high == 131072
    with pytest.raises(ProtocolError, match="more than 131072"):
        compile_question("mean(bytes)", wide)


@pytest.mark.parametrize(("text", "helped"), [("count(country)", True), ("Sum(load)", True), ("median(load)", False)])
def test_who_asks_for_a_count_is_told_how_to_come_by_one(text: str, helped: bool) -> None:
    with pytest.raises(ProtocolError) as refused:
        compile_question(text, SCHEMA)

    assert ("times the number of users; the fields are minutes" in str(refused.value)) is helped


def test_what_is_asked_is_known_before_the_schema_is() -> None:
    assert fields_asked("share(plan = 'pro' and not (minutes > 3 or plan is missing))") == ("plan", "minutes")
    assert fields_asked("mean(load, 0, 1)") == ("load",)
    with pytest.raises(ProtocolError, match="mean, share or histogram"):
        fields_asked("load")


PIECES: Final = [
    "mean",
    "share",
    "histogram",
    "(",
    ")",
    ",",
    "and",
    "or",
    "not",
    "in",
    "is",
    "missing",
    "minutes",
    "plan",
    "flags",
    "[",
    "]",
    "0",
    "1.5",
    "-2",
    "'pro'",
    "'",
    '"',
    "=",
    "!=",
    "<",
    ">=",
    "dark",
    "é",
    "==",
]


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=24).map(" ".join)))
def test_whatever_is_written_is_compiled_or_refused(text: str) -> None:
    """No other error, and what is compiled is total."""
    try:
        queries = compile_question(text, SCHEMA).queries
    except AskanceError:
        queries = ()
    for query in queries:
        answers(query)


def test_names_of_cells_steer_no_terminal() -> None:
    odd = Schema(fields=(CategoryField(name="who", values=("\x1b[2J", "b")),))

    assert compile_question("share(who)", odd).names[0] == r"share(who): '\x1b[2J'"
