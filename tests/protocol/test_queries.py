"""Queries: one meaning however they are evaluated, no input that makes them fail, and a cost known before.

The meaning is written down a second time, in `meaning`, from the documented JSON form alone: a plain recursive
function over dicts and what a person wrote, sharing no code with the language.
"""

from __future__ import annotations

import json
import operator
import pickle
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from askance_protocol.arrays import Truths
from askance_protocol.canonical import MAX_SAFE_INTEGER
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns, Example
from askance_protocol.queries import (
    BooleanQuery,
    CellQuery,
    PreparedQuery,
    RealQuery,
    measure,
    prepare,
    read_query,
)
from askance_protocol.queries.language import (
    MAX_ENTRIES,
    Affine,
    And,
    AnyNumber,
    AnyTest,
    BaseNumber,
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
from askance_protocol.queries.query import MAX_CELLS, MAX_DENOMINATOR, MAX_DEPTH, MAX_NODES
from askance_protocol.schema import BitsField, CategoryField, IntegerField, LabelField, RealField, Schema
from tests.protocol.generators import (
    OPERATIONS,
    AnyQuery,
    all_nodes,
    cases,
    columns_of,
    every_bit_string,
    extremes,
    fixed,
    queries,
    schemas,
)
from tests.protocol.studies import wrong

# ------------------------------------------------------------------------------------ the meaning, once more

RELATIONS = {"<": operator.lt, "<=": operator.le, "=": operator.eq, "!=": operator.ne, ">=": operator.ge}


def held(schema: dict[str, Any], record: Mapping[str, Any], name: str) -> int:
    """The integer that a field other than bits holds."""
    field = next(field for field in schema["fields"] if field["name"] == name)
    match field["kind"]:
        case "category":
            return field["values"].index(record[name])
        case "real":
            return round(Fraction(record[name]) * field["denominator"])
        case _:
            return record[name]


def meaning(  # noqa: PLR0911, PLR0912 - a case for each operation is the point
    node: dict[str, Any], schema: dict[str, Any], record: Mapping[str, Any]
) -> Any:
    """What an expression says of a record."""

    def of(below: dict[str, Any]) -> Any:
        return meaning(below, schema, record)

    def bits() -> str:
        return record[node["field"]]

    match node["op"]:
        case "constant":
            return node["truth"]
        case "bit":
            return bits()[node["index"]] == "1"
        case "parity":
            mask = f"{int(node['mask'], 16):b}"[::-1]
            return sum(x == r == "1" for x, r in zip(bits(), mask, strict=False)) % 2 == 1
        case "is":
            return record[node["field"]] == node["category"]
        case "label":
            name = next(field["name"] for field in schema["fields"] if field["kind"] == "label")
            return record[name] == node["sign"]
        case "not":
            return not of(node["of"])
        case "and":
            return all(map(of, node["of"]))
        case "or":
            return any(map(of, node["of"]))
        case "xor":
            return sum(map(of, node["of"])) % 2 == 1
        case "compare":
            left, right = of(node["left"]), of(node["right"])
            return left > right if node["relation"] == ">" else RELATIONS[node["relation"]](left, right)
        case "integer":
            return node["of"]
        case "field" if record[node["field"]] is None:
            return node["gap"]
        case "field":
            return held(schema, record, node["field"])
        case "slice":
            return sum(2**place for place in range(node["width"]) if bits()[node["first"] + place] == "1")
        case "dot":
            return sum(weight for weight, x in zip(node["weights"], bits(), strict=True) if x == "1")
        case "affine":
            return node["constant"] + sum(term["weight"] * of(term["of"]) for term in node["terms"])
        case "lookup":
            return dict(enumerate(node["table"])).get(of(node["index"]), node["default"])
        case "if":
            return of(node["then"] if of(node["test"]) else node["otherwise"])
        case "clamp":
            return sorted([node["low"], of(node["of"]), node["high"]])[1]
    raise AssertionError(node)


def answer_of(query: dict[str, Any], schema: dict[str, Any], record: Mapping[str, Any]) -> int:
    """What a query answers of a record."""
    match query["kind"]:
        case "boolean":
            return 1 if meaning(query["test"], schema, record) else 0
        case "real":
            numerator, most = meaning(query["numerator"], schema, record), query["denominator"]
            return sorted([-most, numerator, most])[1]
        case "cell":
            cell = meaning(query["cell"], schema, record)
            negative = "negative" in query and meaning(query["negative"], schema, record)
            return 0 if not 0 <= cell < query["cells"] else -(cell + 1) if negative else cell + 1
    raise AssertionError(query)


def span(query: AnyQuery) -> range:
    """The answers that a query may give, as its documentation says."""
    match query:
        case BooleanQuery():
            return range(2)
        case RealQuery():
            return range(-query.denominator, query.denominator + 1)
        case CellQuery():
            return range(-query.cells if query.negative is not None else 0, query.cells + 1)


# ------------------------------------------------------------------------------------------------- agreement


def test_the_generators_reach_the_whole_language() -> None:
    """Every operation, every kind of query, tall ones and bushy ones: what is drawn below leaves nothing out."""
    seen: set[str] = set()
    tallest = bushiest = 0

    @fixed(300)
    @given(cases())
    def look(case: tuple[Schema, AnyQuery, list[Example]]) -> None:
        nonlocal tallest, bushiest
        _, query, _ = case
        seen.update({wrong(node).op for node in all_nodes(query)}, {query.kind})
        tallest = max(tallest, measure(query).depth)
        bushiest = max(bushiest, measure(query).nodes)

    look()

    assert OPERATIONS | {"boolean", "real", "cell"} == seen
    assert tallest >= 12
    assert bushiest >= 25


@fixed(500)
@given(cases())
def test_scalar_vectorised_and_written_meaning_agree(case: tuple[Schema, AnyQuery, list[Example]]) -> None:
    """One user alone, many at once, and the second writing of the language give the same answers, within range."""
    schema, query, users = case
    prepared = prepare(query, schema)
    together = prepared.answers(Columns.of_examples(schema, users))
    alone = [prepared.answer(user) for user in users]
    expected = [answer_of(query.to_json(), schema.to_json(), user.record()) for user in users]

    assert together.dtype == np.int64
    assert together.shape == (len(users),)
    assert expected == alone
    assert expected == together.tolist()
    assert all(type(answer) is int and answer in span(query) for answer in alone)


@fixed(250)
@given(cases())
def test_no_number_leaves_its_bounds(case: tuple[Schema, AnyQuery, list[Example]]) -> None:
    """Each number of each query stays where `bounds` says, for the extremes too, and bounds are safe integers."""
    schema, query, users = case
    users = [*users, *extremes(schema)]
    columns = Columns.of_examples(schema, users)
    for node in all_nodes(query):
        if not isinstance(node, BaseNumber):
            continue
        low, high = node.bounds(schema)
        alone = [node.value(user) for user in users]

        assert -MAX_SAFE_INTEGER <= low <= high <= MAX_SAFE_INTEGER
        assert all(low <= value <= high for value in alone)
        assert alone == node.column(columns).tolist()


@fixed(60)
@given(st.data())
def test_answers_of_a_part_are_a_part_of_the_answers(data: st.DataObject) -> None:
    """Evaluation looks at each user alone: shards and orders do not matter."""
    schema, query, users = data.draw(cases())
    users = [*users, *extremes(schema)]
    prepared, columns = prepare(query, schema), Columns.of_examples(schema, users)
    cut = data.draw(st.integers(0, len(users)))
    order = data.draw(st.permutations(range(len(users))))
    whole = prepared.answers(columns)

    assert whole[:cut].tolist() == prepared.answers(columns.part(0, cut)).tolist()
    assert whole[list(order)].tolist() == prepared.answers(columns.take(np.array(order))).tolist()


# -------------------------------------------------------------------------------------------------- totality


def assert_total(prepared: PreparedQuery, users: Iterable[Example]) -> None:
    """Every user gets an answer in range, alone and together with others: nothing raises, nothing is silent."""
    users = list(users)
    for user in users:
        answer = prepared.answer(user)
        if type(answer) is not int or answer not in span(prepared.query):
            raise AssertionError(f"answered {type(answer).__name__}")
    together = prepared.answers(Columns.of_examples(prepared.schema, users))
    if together.shape != (len(users),) or not all(answer in span(prepared.query) for answer in together.tolist()):
        raise AssertionError("did not answer every user in range")


@fixed(250)
@given(cases())
def test_every_query_answers_every_user(case: tuple[Schema, AnyQuery, list[Example]]) -> None:
    """No user, the most extreme included, makes a prepared query raise or stay silent."""
    schema, query, users = case

    assert_total(prepare(query, schema), [*users, *extremes(schema)])


N, R, Y = FieldValue(field="n"), FieldValue(field="r"), FieldValue(field="y")
TINY = Schema(fields=(BitsField(name="x", width=3), LabelField(name="y")))


class RaisesOnSome(Bit):
    """A planted fault: a test that fails on the users who hold the bit."""

    def value(self, example: Example) -> bool:
        if super().value(example):
            raise ZeroDivisionError
        return False


class SilentOnSome(Bit):
    """A planted fault: no answer from the users who hold the bit."""

    def value(self, example: Example) -> Any:
        return None if super().value(example) else False


class RaisesTogether(Bit):
    """A planted fault: fails only where many are evaluated at once."""

    def column(self, columns: Columns) -> Truths:
        raise OverflowError


class LosesSome(Bit):
    """A planted fault: leaves out the users who hold the bit."""

    def column(self, columns: Columns) -> Truths:
        return super().column(columns)[~super().column(columns)]


class OutOfRange(Integer):
    """A planted fault: a number that the query does not clamp."""

    def value(self, example: Example) -> Any:
        return float("nan")


@pytest.mark.parametrize(
    ("fault", "seen_as"),
    [
        (RaisesOnSome, ZeroDivisionError),
        (SilentOnSome, TypeError),
        (RaisesTogether, OverflowError),
        (LosesSome, AssertionError),
    ],
)
def test_control_a_query_that_fails_on_some_user_is_caught(fault: type[Bit], seen_as: type[Exception]) -> None:
    """The negative control: a query that raises or is silent on some input does not pass the totality check."""
    assert_total(prepare(BooleanQuery(test=Bit(field="x", index=2)), TINY), extremes(TINY))
    with pytest.raises(seen_as):
        assert_total(prepare(BooleanQuery(test=fault(field="x", index=2)), TINY), extremes(TINY))


@pytest.mark.parametrize("fault", [RaisesOnSome, RaisesTogether])
def test_control_a_fault_deep_inside_a_query_is_caught(fault: type[Bit]) -> None:
    """No branch hides a fault, because every branch is evaluated."""
    choice = If(test=And(of=(Constant(truth=False), fault(field="x", index=2))), then=Integer(of=1), otherwise=N)
    query = CellQuery(cells=2, cell=choice, negative=Label(sign=-1))
    schema = Schema(fields=(*TINY.fields, IntegerField(name="n", low=0, high=1)))
    with pytest.raises((ZeroDivisionError, OverflowError)):
        assert_total(prepare(query, schema), extremes(schema))


def test_control_an_answer_that_is_no_integer_is_caught() -> None:
    """The negative control of the range: NaN passes a clamp, and is no answer."""
    with pytest.raises(ValueError, match="NaN"):
        assert_total(prepare(RealQuery(numerator=OutOfRange(of=0), denominator=1), TINY), extremes(TINY))


def test_every_part_is_evaluated() -> None:
    """`and`, `or` and `if` do not stop early: what takes how long says nothing of the example."""
    visited: list[str] = []

    class Seen(Bit):
        def value(self, example: Example) -> bool:
            visited.append(self.field)
            return super().value(example)

    class SeenNumber(Integer):
        def value(self, example: Example) -> np.int64:
            visited.append("number")
            return super().value(example)

    bits = tuple(Seen(field="x", index=index) for index in range(3))
    choice = If(test=Or(of=bits), then=SeenNumber(of=1), otherwise=SeenNumber(of=0))
    query = CellQuery(cells=2, cell=choice, negative=And(of=bits))
    for user in extremes(TINY):
        visited.clear()
        prepare(query, TINY).answer(user)

        assert sorted(visited) == ["number"] * 2 + ["x"] * 6


# ------------------------------------------------------------------------------------------------- canonical


@fixed(300)
@given(st.data())
def test_parse_of_print_is_the_query(data: st.DataObject) -> None:
    """A query survives its canonical form, and that form is a fixed point: one query, one digest."""
    query = data.draw(queries(data.draw(schemas())))
    again = read_query(query.to_bytes())

    assert query == again
    assert hash(query) == hash(again)
    assert query.to_bytes() == again.to_bytes()
    assert query.digest() == again.digest()


@fixed(100)
@given(st.data())
def test_another_spelling_is_the_same_query(data: st.DataObject) -> None:
    """Member order and white space do not change a query or its digest."""
    query = data.draw(queries(data.draw(schemas())))

    def backwards(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: backwards(item) for key, item in sorted(value.items(), reverse=True)}
        return [backwards(item) for item in value] if isinstance(value, list) else value

    again = read_query(json.dumps(backwards(query.to_json()), indent=1))

    assert query == again
    assert query.digest() == again.digest()


TERSE = (
    ('"constant":0,', "", "a sum without its constant"),
    ('"default":0,', "", "a lookup without its default"),
    ('"cells":3', '"cells":3,"negative":null', "an absent sign, written"),
)


@pytest.mark.parametrize(("old", "new", "what"), TERSE, ids=[what for _, _, what in TERSE])
def test_a_query_is_read_from_what_its_digest_is_of_and_from_no_shorter_or_longer_form(
    old: str, new: str, what: str
) -> None:
    """One spelling for a digest: defaults are published, and what is absent is absent."""
    written = (
        '{"cell":{"constant":0,"op":"affine","terms":[{"of":{"default":0,"index":{"of":0,"op":"integer"},'
        '"op":"lookup","table":[1]},"weight":1}]},"cells":3,"kind":"cell"}'
    )
    assert read_query(written).to_bytes().decode() == written
    assert written.count(old) == 1, what
    with pytest.raises(ProtocolError, match="leaves out a member, or adds a null"):
        read_query(written.replace(old, new))


def test_a_query_is_frozen() -> None:
    """Nobody changes a query after it was checked."""
    query = BooleanQuery(test=Bit(field="x", index=0))
    with pytest.raises(ValidationError):
        query.test = Constant(truth=True)
    with pytest.raises(ValidationError):
        wrong(query.test).index = 5


# ------------------------------------------------------------------------------------- refusals when reading


@pytest.mark.parametrize(
    ("test", "place"),
    [
        ('{"op":"halt"}', "boolean.test"),
        ('{"op":"integer","of":1}', "boolean.test"),
        ('{"op":1}', "boolean.test"),
        ("{}", "boolean.test"),
        ("true", "boolean.test"),
        ('["bit","x",0]', "boolean.test"),
        ('{"op":"bit","field":"x","index":true}', "boolean.test.bit.index"),
        ('{"op":"bit","field":"x","index":"1"}', "boolean.test.bit.index"),
        ('{"op":"bit","field":"x","index":null}', "boolean.test.bit.index"),
        ('{"op":"bit","field":"x","index":-1}', "boolean.test.bit.index"),
        ('{"op":"bit","field":"x","index":1.0}', "number"),
        ('{"op":"bit","field":"x","index":1e0}', "number"),
        ('{"op":"bit","field":"x"}', "boolean.test.bit.index"),
        ('{"op":"bit","field":"x","index":1,"of":1}', "boolean.test.bit.of"),
        ('{"op":"bit","field":"X","index":1}', "boolean.test.bit.field"),
        ('{"op":"bit","field":"x\\n","index":1}', "boolean.test.bit.field"),
        ('{"op":"constant","truth":1}', "boolean.test.constant.truth"),
        ('{"op":"constant","truth":"true"}', "boolean.test.constant.truth"),
        ('{"op":"label","sign":0}', "boolean.test.label.sign"),
        ('{"op":"label","sign":true}', "boolean.test.label.sign"),
        ('{"op":"label","sign":"1"}', "boolean.test.label.sign"),
        ('{"op":"parity","field":"x","mask":1}', "boolean.test.parity.mask"),
        ('{"op":"parity","field":"x","mask":""}', "boolean.test.parity.mask"),
        ('{"op":"parity","field":"x","mask":"0f"}', "boolean.test.parity.mask"),
        ('{"op":"parity","field":"x","mask":"F"}', "boolean.test.parity.mask"),
        ('{"op":"parity","field":"x","mask":"0xf"}', "boolean.test.parity.mask"),
        ('{"op":"parity","field":"x","mask":"f\\n"}', "boolean.test.parity.mask"),
        ('{"op":"parity","field":"x","mask":"-1"}', "boolean.test.parity.mask"),
        ('{"op":"parity","field":"x","mask":"' + "1" * 1025 + '"}', "boolean.test.parity.mask"),
        ('{"op":"and","of":[]}', "boolean.test.and.of"),
        ('{"op":"and","of":{"op":"label","sign":1}}', "boolean.test.and.of"),
        ('{"op":"not","of":{"op":"or","of":[{"op":"label","sign":1},{"op":"x"}]}}', "boolean.test.not.of.or.of[1]"),
        ('{"op":"compare","left":{"op":"integer","of":0},"relation":"==","right":{"op":"integer","of":0}}', "relation"),
        ('{"op":"compare","left":{"op":"label","sign":1},"relation":"=","right":{"op":"integer","of":0}}', "left"),
    ],
)
def test_a_wrong_test_is_refused_with_its_place(test: str, place: str) -> None:
    """Unknown operations and members, and every value of another type, are refused where they stand."""
    with pytest.raises(ProtocolError) as caught:
        read_query(f'{{"kind":"boolean","test":{test}}}')

    assert caught.value.where.endswith(place)


@pytest.mark.parametrize(
    ("number", "place"),
    [
        ('{"op":"bit","field":"x","index":0}', "real.numerator"),
        ("3", "real.numerator"),
        ('{"op":"integer","of":true}', "real.numerator.integer.of"),
        ('{"op":"integer","of":"3"}', "real.numerator.integer.of"),
        ('{"op":"integer","of":9007199254740992}', "number"),
        ('{"op":"field","field":3}', "real.numerator.field.field"),
        ('{"op":"slice","field":"x","first":0,"width":0}', "real.numerator.slice.width"),
        ('{"op":"slice","field":"x","first":0,"width":53}', "real.numerator.slice.width"),
        ('{"op":"slice","field":"x","first":-1,"width":1}', "real.numerator.slice.first"),
        ('{"op":"dot","field":"x","weights":[]}', "real.numerator.dot.weights"),
        ('{"op":"dot","field":"x","weights":[1,true]}', "real.numerator.dot.weights[1]"),
        ('{"op":"affine","terms":[]}', "real.numerator.affine.terms"),
        ('{"op":"affine","terms":[{"weight":1}]}', "real.numerator.affine.terms[0].of"),
        ('{"op":"affine","terms":[{"weight":1,"of":{"op":"integer","of":1},"x":1}]}', "terms[0].x"),
        ('{"op":"affine","constant":null,"terms":[{"weight":1,"of":{"op":"integer","of":1}}]}', "affine.constant"),
        ('{"op":"lookup","index":{"op":"integer","of":1},"table":[]}', "real.numerator.lookup.table"),
        ('{"op":"lookup","index":{"op":"integer","of":1},"table":[null]}', "real.numerator.lookup.table[0]"),
        ('{"op":"clamp","of":{"op":"integer","of":1},"low":1,"high":0}', "real.numerator.clamp"),
        ('{"op":"if","test":{"op":"label","sign":1},"then":{"op":"integer","of":1}}', "real.numerator.if.otherwise"),
    ],
)
def test_a_wrong_number_is_refused_with_its_place(number: str, place: str) -> None:
    """The same for numbers."""
    with pytest.raises(ProtocolError) as caught:
        read_query(f'{{"kind":"real","denominator":1,"numerator":{number}}}')

    assert caught.value.where.endswith(place)


TRUE = '{"op":"constant","truth":true}'
ZERO = '{"op":"integer","of":0}'


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[]", "document"),
        ("null", "document"),
        ("{}", "document"),
        (f'{{"test":{TRUE}}}', "document"),
        (f'{{"kind":"Boolean","test":{TRUE}}}', "document"),
        (f'{{"kind":"boolean","test":{TRUE},"kind":"boolean"}}', "object"),
        (f'{{"kind":"boolean","test":{TRUE},"epsilon":1}}', "boolean.epsilon"),
        (f'{{"kind":"boolean","numerator":{ZERO}}}', "boolean.test"),
        (f'{{"kind":"real","numerator":{ZERO}}}', "real.denominator"),
        (f'{{"kind":"real","numerator":{ZERO},"denominator":0}}', "real.denominator"),
        (f'{{"kind":"real","numerator":{ZERO},"denominator":{MAX_DENOMINATOR + 1}}}', "real.denominator"),
        (f'{{"kind":"real","numerator":{ZERO},"denominator":true}}', "real.denominator"),
        (f'{{"kind":"cell","cell":{ZERO},"cells":0}}', "cell.cells"),
        (f'{{"kind":"cell","cell":{ZERO},"cells":{MAX_CELLS + 1}}}', "cell.cells"),
        (f'{{"kind":"cell","cell":{ZERO},"cells":1,"negative":false}}', "cell.negative"),
    ],
)
def test_a_wrong_query_is_refused_with_its_place(text: str, place: str) -> None:
    """Unknown kinds, missing and doubled members, and limits that are passed."""
    with pytest.raises(ProtocolError) as caught:
        read_query(text)

    assert place == caught.value.where


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bit(field="x", index=True),
        lambda: Bit(field="x", index=wrong(1.0)),
        lambda: Label(sign=wrong(True)),
        lambda: Label(sign=wrong(1.0)),
        lambda: Integer(of=True),
        lambda: Integer(of=wrong(1.0)),
        lambda: Integer(of=MAX_SAFE_INTEGER + 1),
        lambda: Constant(truth=wrong(1)),
        lambda: Term(weight=wrong(1.5), of=Integer(of=1)),
        lambda: Dot(field="x", weights=(1, wrong(0.5))),
        lambda: Lookup(index=Integer(of=0), table=(wrong(float("nan")),)),
        lambda: Not(of=wrong(Integer(of=1))),
        lambda: RealQuery(numerator=Integer(of=1), denominator=wrong(1.0)),
        lambda: BooleanQuery(test=wrong(None)),
    ],
)
def test_python_is_held_to_the_same_as_json(make: Any) -> None:
    """A strategy cannot slip a float or a truth value in either."""
    with pytest.raises(ValidationError):
        make()


# ----------------------------------------------------------------------------------- refusals when preparing

SCHEMA = Schema(
    fields=(
        BitsField(name="x", width=70),
        CategoryField(name="c", values=("red", "green")),
        IntegerField(name="n", low=-10, high=10),
        RealField(name="r", low=-1, high=1, denominator=100),
        LabelField(name="y"),
    )
)
UNLABELLED = Schema(fields=SCHEMA.fields[:-1])


def real(number: AnyNumber) -> RealQuery:
    """A query that asks for this number."""
    return RealQuery(numerator=number, denominator=1)


def boolean(test: AnyTest) -> BooleanQuery:
    """A query that asks for this test."""
    return BooleanQuery(test=test)


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        (boolean(Bit(field="x", index=70)), "bit: 'x' has no bit 70"),
        (boolean(Bit(field="z", index=0)), "schema: there is no field 'z' (use one of x, c, n, r)"),
        (boolean(Bit(field="n", index=0)), "bit: 'n' is not a bit vector"),
        (boolean(Parity(field="c", mask="1")), "parity: 'c' is not a bit vector"),
        (boolean(Parity(field="x", mask="4" + "0" * 17)), "parity: the mask selects bits that 'x' does not have"),
        (boolean(Is(field="n", category="red")), "is: 'n' is not a category"),
        (boolean(Is(field="c", category="blue")), "is: 'c' has no such value"),
        (boolean(Label(sign=1)), "label: the examples have no label"),
        (real(FieldValue(field="y")), "schema: there is no field 'y'"),
        (real(FieldValue(field="x")), "field: 'x' is a bit vector"),
        (real(Slice(field="x", first=69, width=2)), "slice: reaches beyond the bits of 'x'"),
        (real(Slice(field="x", first=2**53 - 1, width=1)), "slice: reaches beyond"),
        (real(Slice(field="r", first=0, width=1)), "slice: 'r' is not a bit vector"),
        (real(Dot(field="x", weights=(1,) * 69)), "dot: has 69 weights (give one for each bit of 'x')"),
        (real(Dot(field="y", weights=(1,))), "schema: there is no field 'y'"),
    ],
)
def test_what_this_schema_cannot_answer_is_refused_wherever_it_stands(query: AnyQuery, complaint: str) -> None:
    """The check reaches the root, both sides of a comparison, every branch of an `if`, a sign, and below."""
    with pytest.raises(ProtocolError, match=f"^{re.escape(complaint)}"):
        prepare(query, UNLABELLED)
    for around in surroundings(query):
        with pytest.raises(ProtocolError, match=f"^{re.escape(complaint)}"):
            prepare(around, UNLABELLED)


def surroundings(query: AnyQuery) -> list[AnyQuery]:
    """The query's expression in every place that takes one."""
    zero, true = Integer(of=0), Constant(truth=True)
    if isinstance(query, BooleanQuery):
        test: AnyTest = query.test
        number: AnyNumber = If(test=test, then=zero, otherwise=zero)
    else:
        assert isinstance(query, RealQuery)
        number = query.numerator
        test = Compare(left=zero, relation="<", right=number)
    return [
        *map(boolean, (test, Not(of=test), And(of=(true, test)), Or(of=(true, test)), Xor(of=(test, true)))),
        boolean(Compare(left=number, relation="<", right=zero)),
        boolean(Compare(left=zero, relation="<", right=number)),
        *map(real, (number, Affine(terms=(Term(weight=0, of=zero), Term(weight=0, of=number))))),
        *map(real, (Lookup(index=number, table=(1,)), Clamp(of=number, low=0, high=1))),
        real(If(test=test, then=zero, otherwise=zero)),
        real(If(test=true, then=number, otherwise=zero)),
        real(If(test=true, then=zero, otherwise=number)),
        CellQuery(cells=1, cell=number),
        CellQuery(cells=1, cell=zero, negative=test),
    ]


@pytest.mark.parametrize(
    ("just", "over"),
    [
        # Σ |w| over the bits
        (
            Dot(field="x", weights=(MAX_SAFE_INTEGER - 68, *(1,) * 68, -MAX_SAFE_INTEGER)),
            Dot(field="x", weights=(MAX_SAFE_INTEGER - 68, *(1,) * 69)),
        ),
        # a sum of three
        (
            Affine(constant=MAX_SAFE_INTEGER - 30, terms=(Term(weight=3, of=FieldValue(field="n")),)),
            Affine(constant=MAX_SAFE_INTEGER - 29, terms=(Term(weight=3, of=FieldValue(field="n")),)),
        ),
        # a negative weight, on the negative side
        (
            Affine(constant=30 - MAX_SAFE_INTEGER, terms=(Term(weight=-3, of=FieldValue(field="n")),)),
            Affine(constant=29 - MAX_SAFE_INTEGER, terms=(Term(weight=-3, of=FieldValue(field="n")),)),
        ),
        # one product
        (
            Affine(terms=(Term(weight=MAX_SAFE_INTEGER // 10, of=FieldValue(field="n")),)),
            Affine(terms=(Term(weight=MAX_SAFE_INTEGER // 10 + 1, of=FieldValue(field="n")),)),
        ),
    ],
)
def test_arithmetic_that_could_leave_the_safe_integers_is_refused(just: AnyNumber, over: AnyNumber) -> None:
    """Up to ±(2^53 − 1) a query is accepted, one beyond it is not, by the schema alone."""
    prepare(real(just), SCHEMA)
    with pytest.raises(ProtocolError, match=r"can leave ±\(2\^53 - 1\)"):
        prepare(real(over), SCHEMA)


def test_a_partial_sum_may_not_leave_them_either() -> None:
    """A sum that ends small but passes 2^53 on the way is refused: a browser would have rounded it."""
    large = Term(weight=1, of=Integer(of=MAX_SAFE_INTEGER))
    minus = Term(weight=-1, of=Integer(of=MAX_SAFE_INTEGER))
    prepare(real(Affine(terms=(large, minus))), SCHEMA)
    for terms in ((large, Term(weight=1, of=Integer(of=1)), minus), (minus, minus, large, large)):
        with pytest.raises(ProtocolError, match="affine: can leave"):
            prepare(real(Affine(terms=terms)), SCHEMA)


def test_a_clamp_makes_a_large_number_summable() -> None:
    """The remedy that the error names works."""
    large = FieldValue(field="n")
    term = Term(weight=MAX_SAFE_INTEGER, of=Clamp(of=large, low=0, high=1))
    prepared = prepare(RealQuery(numerator=Affine(terms=(term,)), denominator=1), SCHEMA)

    assert_total(prepared, extremes(SCHEMA))


def test_a_lookup_reaches_only_entries_that_its_index_can() -> None:
    """Bounds of a lookup are those of the entries in reach, with the default where the index can miss."""
    huge, index = MAX_SAFE_INTEGER, Clamp(of=FieldValue(field="n"), low=1, high=2)

    assert Lookup(index=index, table=(huge, 5, 7, huge), default=huge).bounds(SCHEMA) == (5, 7)
    assert Lookup(index=index, table=(huge, 5), default=-3).bounds(SCHEMA) == (-3, 5)
    assert Lookup(index=index, table=(huge,), default=-3).bounds(SCHEMA) == (-3, -3)
    assert Lookup(index=Integer(of=-1), table=(huge,), default=9).bounds(SCHEMA) == (9, 9)
    assert Lookup(index=FieldValue(field="n"), table=(4,) * 20, default=4).bounds(SCHEMA) == (4, 4)


# ----------------------------------------------------------------------------------------------------- limits


def wide(nodes: int) -> BooleanQuery:
    """A query with this number of nodes and three levels."""
    bit = Bit(field="x", index=0)
    return boolean(And(of=(And(of=(bit,) * 100), And(of=(bit,) * (nodes - 103)))))


def tall(levels: int) -> BooleanQuery:
    """A query with this number of levels."""
    test: AnyTest = Bit(field="x", index=0)
    for _ in range(levels - 1):
        test = Not(of=test)
    return boolean(test)


def heavy(entries: int) -> RealQuery:
    """A query with this number of table entries, in two tables, weights and a mask."""
    first = Lookup(index=Integer(of=0), table=(0,) * 100)
    second = Lookup(index=Integer(of=0), table=(0,) * (entries - 100 - 70 - 2 - 2))
    masked = If(test=Parity(field="x", mask="1" + "0" * 16), then=second, otherwise=Dot(field="x", weights=(1,) * 70))
    return real(Affine(terms=(Term(weight=1, of=first), Term(weight=1, of=masked))))


@pytest.mark.parametrize(
    ("make", "limit", "what"),
    [(wide, MAX_NODES, "nodes"), (tall, MAX_DEPTH, "levels"), (heavy, MAX_ENTRIES, "table entries")],
)
def test_at_the_limit_accepted_over_it_refused_with_the_count(make: Any, limit: int, what: str) -> None:
    """The cost is known before evaluation, and the error says how much was asked of how much there is."""
    for query in (make(limit), read_query(make(limit).to_bytes())):
        prepared = prepare(query, SCHEMA)
        assert limit in {prepared.cost.nodes, prepared.cost.depth, prepared.cost.entries}
        assert_total(prepared, extremes(SCHEMA))
    for over in (limit + 1, limit + 7):
        with pytest.raises(ProtocolError, match=f"^query: has {over} {what}, over the limit of {limit} "):
            prepare(make(over), SCHEMA)


@pytest.mark.parametrize(
    ("make", "limit"),
    [
        (lambda count: boolean(Or(of=(Label(sign=1),) * count)), 255),
        (lambda count: real(Affine(terms=(Term(weight=0, of=Integer(of=0)),) * count)), 255),
        (lambda count: real(Lookup(index=Integer(of=0), table=(0,) * count)), MAX_ENTRIES),
        (lambda count: real(Dot(field="x", weights=(0,) * count)), 4096),
        (lambda count: CellQuery(cell=Integer(of=0), cells=count), MAX_CELLS),
    ],
)
def test_a_list_too_long_is_not_even_read(make: Any, limit: int) -> None:
    """One list over its own limit is refused by the form."""
    assert read_query(make(limit).to_bytes()) == make(limit)
    with pytest.raises(ValidationError, match=str(limit)):
        make(limit + 1)


def test_cost_is_counted_over_both_roots() -> None:
    """A cell query's sign counts too, and masks, weights, terms and tables are all entries."""
    query = CellQuery(
        cells=2,
        cell=Affine(terms=(Term(weight=1, of=Slice(field="x", first=0, width=1)),)),
        negative=Xor(of=(Label(sign=-1), Not(of=Parity(field="x", mask="1" * 17)))),
    )
    cost = measure(query)

    assert (cost.nodes, cost.depth, cost.entries) == (6, 3, 3)


def test_a_text_nested_too_deep_to_be_a_query_is_refused() -> None:
    """A hundred levels do not reach the parser."""
    with pytest.raises(ProtocolError, match="nested deeper than 64"):
        read_query('{"kind":"boolean","test":' + '{"op":"not","of":' * 100 + TRUE + "}" * 101)


def test_a_text_too_long_to_be_a_query_is_refused() -> None:
    """A query of more than 256 KiB is refused with its length."""
    with pytest.raises(ProtocolError, match="over the limit of 262144"):
        read_query(" " * (1 << 18) + "1")


# -------------------------------------------------------------------------------------------- another schema


def test_users_of_another_schema_are_refused_on_public_grounds() -> None:
    """Integers of one schema are never read by another's query; an equal schema, read again, will do."""
    prepared = prepare(boolean(Bit(field="x", index=69)), SCHEMA)
    (user, *_) = extremes(SCHEMA)
    (stranger, *_) = extremes(UNLABELLED)
    again = Schema.model_validate_json(SCHEMA.to_bytes())
    twin = Example(again, user.values)

    assert prepared.answer(twin) == prepared.answers(Columns.of_examples(again, [twin]))[0] == 0
    with pytest.raises(ProtocolError, match="another schema"):
        prepared.answer(stranger)
    with pytest.raises(ProtocolError, match="another schema"):
        prepared.answers(Columns.of_examples(UNLABELLED, [stranger]))


# ----------------------------------------------------------------------------------- each operation, by hand


FULL = Schema(
    fields=(
        BitsField(name="x", width=3),
        CategoryField(name="c", values=("red", "green", "blue")),
        IntegerField(name="n", low=-2, high=2),
        RealField(name="r", low=-1, high=1, denominator=2),
        LabelField(name="y"),
    )
)


def everybody() -> list[dict[str, Any]]:
    """All examples of FULL."""
    return [
        {"x": x, "c": c, "n": n, "r": r, "y": y}
        for x in every_bit_string(3)
        for c in ("red", "green", "blue")
        for n in range(-2, 3)
        for r in (-1.0, -0.5, 0.0, 0.5, 1.0)
        for y in (-1, 1)
    ]


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (Constant(truth=True), lambda u: True),
        (Constant(truth=False), lambda u: False),
        (Bit(field="x", index=2), lambda u: u["x"][2] == "1"),
        (Parity(field="x", mask="5"), lambda u: (u["x"][0] == "1") != (u["x"][2] == "1")),
        (Parity(field="x", mask="0"), lambda u: False),
        (Is(field="c", category="green"), lambda u: u["c"] == "green"),
        (Label(sign=1), lambda u: u["y"] == 1),
        (Label(sign=-1), lambda u: u["y"] == -1),
        (Not(of=Label(sign=1)), lambda u: u["y"] != 1),
        (And(of=(Bit(field="x", index=0), Label(sign=1))), lambda u: u["x"][0] == "1" and u["y"] == 1),
        (Or(of=(Bit(field="x", index=0), Label(sign=1))), lambda u: u["x"][0] == "1" or u["y"] == 1),
        (Xor(of=(Bit(field="x", index=0), Label(sign=1))), lambda u: (u["x"][0] == "1") != (u["y"] == 1)),
        (Xor(of=tuple(Bit(field="x", index=i) for i in range(3))), lambda u: u["x"].count("1") in {1, 3}),
        (Compare(left=N, relation="<", right=Y), lambda u: u["n"] < u["y"]),
        (Compare(left=N, relation="<=", right=Y), lambda u: u["n"] <= u["y"]),
        (Compare(left=N, relation="=", right=Y), lambda u: u["n"] == u["y"]),
        (Compare(left=N, relation="!=", right=Y), lambda u: u["n"] != u["y"]),
        (Compare(left=N, relation=">=", right=Y), lambda u: u["n"] >= u["y"]),
        (Compare(left=N, relation=">", right=Y), lambda u: u["n"] > u["y"]),
        (Integer(of=-7), lambda u: -7),
        (N, lambda u: u["n"]),
        (R, lambda u: int(u["r"] * 2)),
        (Y, lambda u: u["y"]),
        (FieldValue(field="c"), lambda u: ["red", "green", "blue"].index(u["c"])),
        (Slice(field="x", first=1, width=2), lambda u: int(u["x"][1]) + 2 * int(u["x"][2])),
        (Dot(field="x", weights=(3, -5, 0)), lambda u: 3 * int(u["x"][0]) - 5 * int(u["x"][1])),
        (
            Affine(constant=4, terms=(Term(weight=-3, of=N), Term(weight=2, of=R))),
            lambda u: 4 - 3 * u["n"] + int(4 * u["r"]),
        ),
        (Lookup(index=N, table=(10, 11), default=-1), lambda u: {0: 10, 1: 11}.get(u["n"], -1)),
        (If(test=Label(sign=1), then=N, otherwise=Integer(of=9)), lambda u: u["n"] if u["y"] == 1 else 9),
        (Clamp(of=N, low=-1, high=0), lambda u: max(-1, min(0, u["n"]))),
    ],
)
def test_each_operation_says_what_its_docstring_says(expression: Any, says: Any) -> None:
    """Over every example of a small schema: alone, together, and against a line of Python."""
    records = everybody()
    columns = columns_of(FULL, records)
    alone = [expression.value(columns.example(row)) for row in range(len(columns))]
    expected = [says(record) for record in records]

    assert expected == alone
    assert expected == expression.column(columns).tolist()
    assert all(type(value) in {bool, np.int64} for value in alone)


def test_what_a_node_keeps_is_its_own() -> None:
    """The array that evaluation makes once is in no copy, no pickle and no comparison."""
    schema = Schema(fields=(BitsField(name="x", width=3),))
    user = Example.of(schema, {"x": "110"})
    node, fresh = (Dot(field="x", weights=(1, 2, 4)) for _ in range(2))
    assert node.value(user) == 3

    assert node == fresh
    assert pickle.loads(pickle.dumps(node)) == fresh
    assert node.to_bytes() == fresh.to_bytes()
    assert node.model_copy(update={"weights": (5, 7, 9)}).value(user) == 12
    with pytest.raises(ValueError, match="read-only"):
        node.array()[0] = 9


def test_a_real_answer_is_clamped_to_its_denominator() -> None:
    """A numerator beyond the denominator counts as ±1, and no more."""
    prepared = prepare(RealQuery(numerator=N, denominator=1), FULL)
    columns = columns_of(FULL, everybody())

    assert prepared.answers(columns).tolist() == [max(-1, min(1, user["n"])) for user in everybody()]


def test_a_cell_answer_is_counted_from_one_and_signed() -> None:
    """Outside the cells the answer is 0, whatever the sign says."""
    prepared = prepare(CellQuery(cells=2, cell=N, negative=Label(sign=-1)), FULL)
    columns = columns_of(FULL, everybody())
    expected = [user["y"] * (user["n"] + 1) if user["n"] in {0, 1} else 0 for user in everybody()]

    assert expected == prepared.answers(columns).tolist()
    assert set(expected) == {-2, -1, 0, 1, 2}


def test_the_widest_vector_is_asked_about() -> None:
    """Bits, parities, slices and weights at the far end of 4096 bits."""
    schema = Schema(fields=(BitsField(name="x", width=4096),))
    x = np.random.default_rng(5).integers(0, 2, (20, 4096))
    columns = Columns.of(schema, {"x": x})
    mask = sum(1 << index for index in range(0, 4096, 3))
    weights = tuple(int(weight) for weight in np.random.default_rng(6).integers(-(2**40), 2**40, 4096))

    assert Bit(field="x", index=4095).column(columns).tolist() == (x[:, 4095] == 1).tolist()
    assert Parity(field="x", mask=f"{mask:x}").column(columns).tolist() == (x[:, ::3].sum(axis=1) % 2 == 1).tolist()
    assert (
        Slice(field="x", first=4044, width=52).column(columns).tolist() == (x[:, 4044:] @ (1 << np.arange(52))).tolist()
    )
    assert Dot(field="x", weights=weights).column(columns).tolist() == (x @ np.array(weights)).tolist()


def test_errors_about_users_repeat_nothing_of_them() -> None:
    """The only errors after `prepare` are about schemas, and carry no value."""
    schema = Schema(fields=(IntegerField(name="salary", low=0, high=10**9), LabelField(name="y")))
    user = Example.of(schema, {"salary": 918273645, "y": 1})
    unchecked = PreparedQuery(boolean(Label(sign=1)), UNLABELLED, measure(boolean(Label(sign=1))))
    with pytest.raises(ProtocolError) as caught:
        unchecked.answer(user)

    assert "918273645" not in str(caught.value)
    assert "918273645" not in repr(prepare(boolean(Label(sign=1)), schema))
