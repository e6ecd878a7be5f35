"""Queries as the questions that their answers estimate: `share(plan = 'pro')`, `mean(minutes, 0, 120)`.

Theory of operation
-------------------
Whoever reads an estimate wants the question in the form in which it is asked, and in the units of the field. Both
follow from the query alone, so that anybody who has the bulletin gets the same name and the same number:

- a boolean query is a `share` of a test;
- a cell query is the `share` of each of its cells: `share(plan = 'pro')`; where a test counts against the cell, of
  which less that share is told: `share(i = 3, minus where y = -1)`. Of a computed cell: `share(cell 3 of …)`;
- a real query is a `mean`. Its numerator is often c + w·f, f a field, over a denominator D: then E[f] follows from
  the mean of (c + w·f)/D, exactly, and the question is `mean(f, low, high)`, between what the query keeps f. Any other
  numerator is a `mean` of what the query computes.

Numbers are told in a field's own units: 500 of a field in steps of 1/1000 is 0.5. Who has nothing in a field with gaps
counts as a number that the query says: a comparison that holds of it says so (`age < 50 or age is missing`), a mean
says the number. What is long is cut; a name with an ellipsis does not tell two queries apart.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Final, TypeVar, assert_never

from askance_protocol.arrays import Floats
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
    Xor,
)
from askance_protocol.queries.query import BooleanQuery, CellQuery, PreparedQuery, RealQuery
from askance_protocol.schema import BitsField, CategoryField, RealField, Schema
from askance_protocol.text import printable

Numbers = TypeVar("Numbers", float, Floats)

MOST: Final = 72
"""Characters of a test or of a number in a name; what is longer is cut."""
CUT: Final = "…"
"""What stands at the end of something that was cut."""
_LISTED: Final = 8
"""Numbers of a list that are told."""
_HOLDS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
_OPPOSITE: Final = {"<": ">=", "<=": ">", "=": "!=", "!=": "=", ">=": "<", ">": "<="}


@dataclass(frozen=True, slots=True)
class Questions:
    """What a query's answers estimate: a name for each, and how an answer is told in the units of the question."""

    query: BooleanQuery | RealQuery | CellQuery
    name: Callable[[int], str]
    """Name of a number: that of the cell, or 0 where a query has one answer."""
    scale: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)

    @property
    def count(self) -> int:
        """Number of its answers."""
        return self.query.cells if isinstance(self.query, CellQuery) else 1

    def told(self, answer: Numbers) -> Numbers:
        """An answer, or several, in the units of the question."""
        return float(self.scale) * answer + float(self.offset)


def questions(prepared: PreparedQuery) -> Questions:
    """Tell what a query asks, answer by answer."""
    query, schema = prepared.query, prepared.schema
    match query:
        case BooleanQuery(test=test):
            name = f"share({_cut(_alone(_test(test, schema)))})"
            return Questions(query, lambda _: name)
        case RealQuery():
            return _mean(query, schema)
        case CellQuery():
            return Questions(query, _cells(query, schema))
        case _:
            assert_never(query)


def _mean(query: RealQuery, schema: Schema) -> Questions:
    """The mean of a field in its own units where the query is linear in it, else of what the query computes."""
    one = query.denominator
    constant, weight, inner = _linear(query.numerator)
    low, high = sorted((Fraction(-one - constant, weight), Fraction(one - constant, weight)))
    if isinstance(inner, Clamp):
        low, high, inner = max(low, Fraction(inner.low)), min(high, Fraction(inner.high)), inner.of
    if not isinstance(inner, FieldValue) or low > high:
        # Nothing to undo: a mean of several fields, or of one that the query keeps at a single number.
        name = f"mean({_cut(_number(query.numerator, schema))}{'' if one == 1 else f' / {one}'})"
        return Questions(query, lambda _: name)
    step = _step(inner, schema)
    what = f"number({inner.field})" if isinstance(schema.field(inner.field), CategoryField) else inner.field
    missing = "" if inner.gap is None else f", missing {_decimal(Fraction(inner.gap, step))}"
    field = f"mean({what}, {_decimal(low / step)}, {_decimal(high / step)}{missing})"
    return Questions(query, lambda _: field, Fraction(one, weight) / step, Fraction(-constant, weight) / step)


def _linear(number: AnyNumber) -> tuple[int, int, AnyNumber]:
    """A number as constant + weight · another."""
    if isinstance(number, Affine) and len(number.terms) == 1 and number.terms[0].weight:
        return number.constant, number.terms[0].weight, number.terms[0].of
    return 0, 1, number


def _step(value: FieldValue, schema: Schema) -> int:
    """How many of the integers that a field holds make one of its units."""
    field = schema.field(value.field)
    return field.denominator if isinstance(field, RealField) else 1


def _cells(query: CellQuery, schema: Schema) -> Callable[[int], str]:
    constant, weight, inner = _linear(query.cell)
    minus = "" if query.negative is None else f", minus where {_cut(_test(query.negative, schema))}"
    if not isinstance(inner, FieldValue):
        # The number comes first: what is long may be cut.
        whole = _cut(_number(query.cell, schema))
        return lambda cell: f"share(cell {cell} of {whole}{minus})"

    def named(cell: int) -> str:
        held = Fraction(cell - constant, weight)
        # No example holds a number between two integers: such a cell is empty.
        said = _comparison(inner, "=", Integer(of=int(held)), schema) if held.denominator == 1 else "false"
        return f"share({said if minus else _alone(said)}{minus})"

    return named


# ------------------------------------------------------------------------------------------------------------- tests


def _test(test: AnyTest, schema: Schema, *, holds: bool = True) -> str:
    """A test, or its opposite."""
    match test:
        case Constant(truth=truth):
            said = "true" if truth is holds else "false"
        case Bit() | Parity():
            said = f"{_bits(test, schema)} = {int(holds)}"
        case Is(field=name, category=category):
            said = f"{name} {'=' if holds else '!='} {_quoted(category)}"
        case Label(sign=sign):
            label = "label" if schema.label is None else schema.label.name
            said = f"{label} = {sign if holds else -sign}"
        case Not(of=of):
            said = _test(of, schema, holds=not holds)
        case Compare(left=left, relation=relation, right=right):
            said = _comparison(left, relation if holds else _OPPOSITE[relation], right, schema)
        case And() | Or() | Xor():
            said = _several(test, schema, holds=holds)
        case _:
            assert_never(test)
    return said


def _bits(test: Bit | Parity, schema: Schema) -> str:
    field = schema.field(test.field)
    if isinstance(test, Bit):
        return field.name if isinstance(field, BitsField) and field.width == 1 else f"{field.name}[{test.index}]"
    mask = int(test.mask, 16)
    if mask.bit_count() > _LISTED:
        return f"parity({field.name}, mask {test.mask})"
    return f"parity({', '.join(f'{field.name}[{bit}]' for bit in range(mask.bit_length()) if mask >> bit & 1)})"


def _several(test: And | Or | Xor, schema: Schema, *, holds: bool) -> str:
    """Tests that are joined; the opposite of `and` and `or` is told by that of the other (De Morgan)."""
    if len(test.of) == 1:
        return _test(test.of[0], schema, holds=holds)
    if isinstance(test, Xor):
        return f"{'odd' if holds else 'even'}({', '.join(_test(each, schema) for each in test.of)})"
    joint = "and" if isinstance(test, And) is holds else "or"
    return f" {joint} ".join(_bracketed(each, schema, holds=holds) for each in test.of)


def _bracketed(test: AnyTest, schema: Schema, *, holds: bool) -> str:
    """A test as a part of a longer one."""
    said = _test(test, schema, holds=holds)
    while isinstance(test, Not):
        test = test.of
    return f"({said})" if isinstance(test, And | Or) else said


def _comparison(left: AnyNumber, relation: str, right: AnyNumber, schema: Schema) -> str:
    """Two numbers that are compared: a field and a plain number in the units of the field."""
    match left, right:
        case FieldValue(), Integer():
            return _compared(
                left, relation, right.of, f"{left.field} {relation} {_unit(right.of, left, schema)}", schema
            )
        case Integer(), FieldValue():
            turned = relation.translate(str.maketrans("<>", "><"))
            return _compared(
                right, turned, left.of, f"{_unit(left.of, right, schema)} {relation} {right.field}", schema
            )
        case _:
            return f"{_number(left, schema)} {relation} {_number(right, schema)}"


def _compared(value: FieldValue, relation: str, number: int, said: str, schema: Schema) -> str:
    """What is said of a field and a number; and of who has nothing there, if it holds of what that counts as."""
    field = schema.field(value.field)
    if value.gap is None or not _HOLDS[relation](value.gap, number):
        return said
    outside = relation == "=" and not (isinstance(field, BitsField) or field.least <= number <= field.most)
    return f"{value.field} is missing" if outside else f"({said} or {value.field} is missing)"


def _unit(number: int, value: FieldValue, schema: Schema) -> str:
    """A number that a field holds, as the field tells it."""
    field = schema.field(value.field)
    if isinstance(field, CategoryField):
        return _quoted(field.values[number]) if 0 <= number < len(field.values) else f"number {number}"
    return _decimal(Fraction(number, _step(value, schema)))


# ----------------------------------------------------------------------------------------------------------- numbers


def _number(number: AnyNumber, schema: Schema) -> str:
    """A number, in the integers that fields hold."""
    match number:
        case Integer(of=of):
            said = str(of)
        case FieldValue(field=name):
            step = _step(number, schema)
            category = isinstance(schema.field(name), CategoryField)
            said = f"number({name})" if category else name if step == 1 else f"{step} * {name}"
            said = said if number.gap is None else f"filled({said}, {number.gap})"
        case Slice(field=name, first=first, width=width):
            said = f"{name}[{first}]" if width == 1 else f"{name}[{first}..{first + width - 1}]"
        case Dot(field=name, weights=weights):
            said = f"dot({name}, {_list(weights)})"
        case Affine():
            said = _sum(number, schema)
        case Lookup(index=index, table=table, default=default):
            said = f"lookup({_number(index, schema)}, {_list(table)}, {default})"
        case If(test=test, then=then, otherwise=otherwise):
            said = f"({_number(then, schema)} if {_test(test, schema)} else {_number(otherwise, schema)})"
        case Clamp(of=of, low=low, high=high):
            said = f"clamp({_number(of, schema)}, {low}, {high})"
        case _:
            assert_never(number)
    return said


def _sum(number: Affine, schema: Schema) -> str:
    terms = [(term.weight, _number(term.of, schema)) for term in number.terms]
    said = [(weight, name if abs(weight) == 1 else f"{abs(weight)} * {name}") for weight, name in terms]
    if number.constant:
        said.append((number.constant, str(abs(number.constant))))
    first, rest = said[0], said[1:]
    tail = "".join(f" {'-' if weight < 0 else '+'} {name}" for weight, name in rest)
    whole = f"{'-' if first[0] < 0 else ''}{first[1]}{tail}"
    return f"({whole})" if " " in whole else whole


def _list(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_LISTED]))
    return f"[{shown}]" if len(numbers) <= _LISTED else f"[{shown}, {CUT} ({len(numbers)} in all)]"


def _decimal(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):.12g}"


def _quoted(name: str) -> str:
    return printable(repr(name))


def _alone(said: str) -> str:
    """What stands in brackets of its own already, without those around the whole of it."""
    depths = list(accumulate((character == "(") - (character == ")") for character in said))
    return said[1:-1] if said.startswith("(") and all(depths[:-1]) and not depths[-1] else said


def _cut(text: str) -> str:
    return text if len(text) <= MOST else text[: MOST - 1] + CUT
