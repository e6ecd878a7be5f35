"""Questions in words: what a query asks, and what a field holds, in plain English for whoever has to answer.

Theory of operation
-------------------
A person consents to what she can read, so the words say all that the query does: two queries that read alike ask the
same of every example (`tests/protocol/test_wording.py` looks at all small ones). Only long lists are shortened, of more
than `SHOWN` numbers or names, and then their length is told. Nothing that a server wrote steers the terminal or page
that the words are shown on.

A number is told as the query computes it: a real field counts in steps, and a query that looks at these looks at
"10 × height".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise, repeat
from typing import Final, assert_never

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
    Expression,
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
from askance_protocol.queries.query import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.tests import RELATIONS
from askance_protocol.schema import (
    AnyField,
    BitsField,
    CategoryField,
    IntegerField,
    LabelField,
    RealField,
    Schema,
)
from askance_protocol.text import printable

SHOWN: Final = 32
"""Numbers or names of a list that are shown."""
TOLD: Final = 1024
"""Values of a field, no category, of which each is told what a table says of it."""

_RELATIONS: Final[Mapping[str, tuple[str, str]]] = {
    "<": ("is less than", "is at least"),
    "<=": ("is at most", "is more than"),
    "=": ("is", "is not"),
    "!=": ("is not", "is"),
    ">=": ("is at least", "is less than"),
    ">": ("is more than", "is at most"),
}
"""Each relation, and its opposite."""


def words(query: BooleanQuery | RealQuery | CellQuery, schema: Schema) -> str:
    """What a query asks of one example: "whether plan is 'pro'", "the value of height, from -1 to 1"."""
    match query:
        case BooleanQuery(test=test):
            return f"whether {_test(test, schema)}"
        case RealQuery():
            return _scaled(query, schema) or f"the value of {_quotient(query, schema)}, from -1 to 1"
        case CellQuery():
            return _cell(query, schema)
        case _:
            assert_never(query)


def field_words(field: AnyField) -> str:
    """What a field holds: "plan: one of 'free', 'pro'"."""
    match field:
        case BitsField(width=width):
            holds = "one bit" if width == 1 else f"{width} bits"
        case CategoryField(values=values):
            holds = f"one of {_list(map(_quoted, values))}"
        case IntegerField(low=low, high=high):
            holds = f"a whole number from {low} to {high}"
        case RealField(low=low, high=high, denominator=denominator):
            holds = f"a number from {low} to {high}, in steps of 1/{denominator}"
        case LabelField():
            holds = "a label, +1 or -1"
        case _:
            assert_never(field)
    return f"{field.name}: {holds}{'' if field.empty is None else ', or nothing'}"


def fields_of(query: BooleanQuery | RealQuery | CellQuery, schema: Schema) -> tuple[str, ...]:
    """Names of the fields that a query looks at, in the schema's order."""
    found = set[str]()
    for node in _nodes(query.roots()):
        if isinstance(node, Label) and schema.label is not None:
            found.add(schema.label.name)
        elif isinstance(node, Bit | Parity | Is | FieldValue | Slice | Dot):
            found.add(node.field)
    return tuple(name for name in schema.position if name in found)


def _nodes(roots: Iterable[Expression]) -> Iterator[Expression]:
    for node in roots:
        yield node
        yield from _nodes(node.parts())


# ------------------------------------------------------------------------------------------------------------ queries


def _scaled(query: RealQuery, schema: Schema) -> str | None:
    """The mean of a column, as surveys ask it: "your rating, on a scale from 1 to 5"; None for other queries."""
    number, there = query.numerator, None
    if isinstance(number, If):
        there = _presence(number.test, schema)
        if there is None or number.otherwise != Integer(of=0):
            return None
        number = number.then
    match number:
        case Affine(
            constant=constant, terms=(Term(weight=weight, of=Clamp(of=FieldValue() as value, low=low, high=high)),)
        ):
            field = schema.field(value.field)
        case _:
            return None
    ends = (weight * low + constant, weight * high + constant)
    if not isinstance(field, IntegerField | RealField) or ends != (-query.denominator, query.denominator):
        return None
    if weight != 1 + (high - low) % 2 or (value.gap is None) is not (there is None) or there not in {None, field.name}:
        return None
    scale = f"your {field.name}, on a scale from {_in_units(low, field)} to {_in_units(high, field)}"
    beyond = "" if low <= field.least and field.most <= high else ", where what is beyond counts as the nearer end"
    return scale + beyond + ("" if there is None else ", or the middle of it if there is nothing")


def _presence(test: AnyTest, schema: Schema) -> str | None:
    """The field of which a test asks whether there is a value; None for other tests."""
    match test:
        case Compare(left=FieldValue(field=name, gap=int(gap)), relation=">", right=Integer(of=of)) if of == gap:
            field = schema.field(name)
            return name if isinstance(field, IntegerField | RealField) and gap < field.least else None
        case _:
            return None


def _in_units(held: int, field: IntegerField | RealField) -> str:
    """A number that a field holds, as people write it: a real field counts in steps."""
    steps = field.denominator if isinstance(field, RealField) else 1
    if held % steps == 0:
        return str(held // steps)
    return str(held / steps) if steps in {10, 100, 1000} else f"{held}/{steps}"


def _quotient(query: RealQuery, schema: Schema) -> str:
    """The value of a real query: a real field itself, where the query counts in the field's own steps."""
    number, denominator = query.numerator, query.denominator
    if isinstance(number, FieldValue):
        field = schema.field(number.field)
        if isinstance(field, RealField) and field.denominator == denominator and number.gap is None:
            return field.name
    return _factor(number, schema) + (f" / {denominator}" if denominator > 1 else "")


def _cell(query: CellQuery, schema: Schema) -> str:
    field = schema.field(query.cell.field) if isinstance(query.cell, FieldValue) else None
    if isinstance(field, CategoryField) and (end := _of_all_values(query, field)) is not None:
        asked = f"which one {field.name} is, of {_list(map(_quoted, field.values))}{end}"
    elif (counted := _of_all_numbers(query, schema) or _of_ranges(query, schema)) is not None:
        asked = counted
    else:
        last = f"to {query.cells - 1}" if query.cells > 1 else "alone"
        asked = f"which group you are in, of those numbered 0 {last}, if any: number {_number(query.cell, schema)}"
    if query.negative is None:
        return asked
    return f"{asked}; and whether {_test(query.negative, schema)}, which counts against the group"


def _of_all_values(query: CellQuery, field: CategoryField) -> str | None:
    """What is said of a gap where each value is a group, in its place; None where the groups are others."""
    gap, values = query.cell.gap if isinstance(query.cell, FieldValue) else None, len(field.values)
    if gap is None:
        return "" if query.cells == values else None
    if gap == values and query.cells == values + 1:
        return ", or whether there is nothing"
    return ", if any" if query.cells == values and not 0 <= gap < values else None


def _of_all_numbers(query: CellQuery, schema: Schema) -> str | None:
    """What is asked where each whole number of a field is a group, in its place; None where the groups are others."""
    if (index := _shifted(query.cell)) is None:
        return None
    value, constant = index
    field = schema.field(value.field)
    if not isinstance(field, IntegerField) or constant != -field.least or value.gap is not None:
        return None
    whole = query.cells == field.most - field.least + 1
    return f"which number {field.name} is, from {field.least} to {field.most}" if whole else None


def _of_ranges(query: CellQuery, schema: Schema) -> str | None:
    """What is asked where a field is cut into groups, the lowest first: "which range minutes is in, of below 30, …"."""
    cell, cuts, names, gaps = query.cell, list[int](), set[str](), set[int | None]()
    if not isinstance(cell, Affine) or cell.constant or any(term.weight != 1 for term in cell.terms):
        return None
    *parts, last = [term.of for term in cell.terms]
    missing = _missing(last, schema)
    for part in parts if missing else [*parts, last]:
        match part:
            case If(
                test=Compare(left=FieldValue(field=name, gap=gap), relation=">=", right=Integer(of=cut)),
                then=Integer(of=1),
                otherwise=Integer(of=0),
            ):
                names.add(name)
                gaps.add(gap)
                cuts.append(cut)
            case _:
                return None
    if len(names) != 1 or len(gaps) != 1 or cuts != sorted({*cuts}) or missing not in {None, *names}:
        return None
    field, [gap] = schema.field(*names), gaps
    if not isinstance(field, IntegerField | RealField) or query.cells != len(cuts) + 1 + (missing is not None):
        return None
    if (gap is None) is not (missing is None) or (gap is not None and gap < cuts[-1]):
        return None
    said = [_in_units(cut, field) for cut in cuts]
    between = [f"from {low} to below {high}" for low, high in pairwise(said)]
    ranges = _list([f"below {said[0]}", *between, f"from {said[-1]} on"])
    return f"which range {field.name} is in, of {ranges}" + (", or whether there is nothing" if missing else "")


def _missing(number: AnyNumber, schema: Schema) -> str | None:
    """The field of whose gaps a number is 1, and else 0."""
    match number:
        case If(test=test, then=Integer(of=0), otherwise=Integer(of=1)):
            return _presence(test, schema)
        case _:
            return None


# -------------------------------------------------------------------------------------------------------------- tests


def _test(test: AnyTest, schema: Schema, *, holds: bool = True) -> str:
    """A test, or its opposite, as a clause."""
    match test:
        case Constant(truth=truth):
            said = f"the answer is {'yes' if truth is holds else 'no'} for everybody"
        case Bit() | Parity():
            said = _bits(test, schema, holds=holds)
        case Is(field=name, category=category):
            said = f"{name} {_RELATIONS['='][not holds]} {_quoted(category)}"
        case Label(sign=sign):
            said = f"{_label(schema)} is {sign if holds else -sign:+d}"
        case Not(of=of):
            said = _test(of, schema, holds=not holds)
        case Compare():
            said = _comparison(test, schema, holds=holds)
        case And() | Or() | Xor():
            said = _several(test, schema, holds=holds)
        case _:
            assert_never(test)
    return said


def _comparison(test: Compare, schema: Schema, *, holds: bool) -> str:
    """A field beside a number as people write it, and what a gap counts as; other numbers as they are computed."""
    verb, left, right = _RELATIONS[test.relation][not holds], test.left, test.right
    field = schema.field(left.field) if isinstance(left, FieldValue) else None
    if (name := _presence(test, schema)) is not None:
        return f"there is {'a' if holds else 'no'} value for {name}"
    if (
        not isinstance(left, FieldValue)
        or not isinstance(right, Integer)
        or not isinstance(field, IntegerField | RealField)
    ):
        return f"{_factor(left, schema)} {verb} {_factor(right, schema)}"
    said = f"{field.name} {verb} {_in_units(right.of, field)}"
    if left.gap is None:
        return said
    yes = RELATIONS[test.relation](left.gap, right.of) is holds
    return f"{said} (nothing counts as {'yes' if yes else 'no'})"


def _bits(test: Bit | Parity, schema: Schema, *, holds: bool) -> str:
    """One bit, or the parity of some."""
    field = schema.field(test.field)
    mask = 1 << test.index if isinstance(test, Bit) else int(test.mask, 16)
    chosen = [index for index in range(mask.bit_length()) if mask >> index & 1]
    if len(chosen) == 1:
        bit = field.name if isinstance(field, BitsField) and field.width == 1 else f"bit {chosen[0]} of {field.name}"
        return f"{bit} is {int(holds)}"
    parity = "odd" if holds else "even"
    if not chosen:
        return f"the number of ones among no bits of {field.name} is {parity}"
    return f"the number of ones among bits {_list(map(str, chosen))} of {field.name} is {parity}"


def _several(test: And | Or | Xor, schema: Schema, *, holds: bool) -> str:
    """Tests that are joined. The opposite of several is told of the whole."""
    if len(test.of) == 1:
        return _test(test.of[0], schema, holds=holds)
    if isinstance(test, Xor):
        parity = "an odd" if holds else "an even"
        return f"{parity} number of these are true: {'; '.join(_clauses(test.of, schema))}"
    joined = (" and " if isinstance(test, And) else " or ").join(_clauses(test.of, schema))
    return joined if holds else f"it is not so that ({joined})"


def _clauses(tests: Sequence[AnyTest], schema: Schema) -> Iterator[str]:
    """Tests as parts of a longer sentence: what is joined itself stands in brackets."""
    for each in tests:
        clause = _test(each, schema)
        yield f"({clause})" if _joined(each) else clause


def _joined(test: AnyTest) -> bool:
    """Whether a test is told by several clauses."""
    if isinstance(test, Not):
        return _joined(test.of)
    if isinstance(test, And | Or | Xor):
        return len(test.of) > 1 or any(map(_joined, test.of))
    return False


# ------------------------------------------------------------------------------------------------------------ numbers


def _number(number: AnyNumber, schema: Schema) -> str:
    """A number, as a phrase."""
    match number:
        case Integer(of=of):
            said = str(of)
        case FieldValue(field=name, gap=gap):
            said = _held(schema.field(name)) + ("" if gap is None else f", or {gap} where there is nothing")
        case Slice(field=name, first=first, width=width):
            bits = f"bit {first}" if width == 1 else f"bits {first} to {first + width - 1}"
            said = f"{bits} of {name}, read as a number"
        case Dot(field=name, weights=weights):
            said = f"the bits of {name} times {_list(map(str, weights))}, added up"
        case Affine():
            said = _sum(number, schema)
        case Lookup():
            said = _by_value(number, schema) or _by_entry(number, schema)
        case If(test=test, then=then, otherwise=otherwise):
            condition = f"({_test(test, schema)})" if _joined(test) else _test(test, schema)
            said = f"{_factor(then, schema)} if {condition}, else {_factor(otherwise, schema)}"
        case Clamp(of=of, low=low, high=high):
            said = f"{_factor(of, schema)}, but not below {low} nor above {high}"
        case _:
            assert_never(number)
    return said


def _by_entry(lookup: Lookup, schema: Schema) -> str:
    """What a table says, entry by entry."""
    entry = f"entry {_factor(lookup.index, schema)}, counted from 0, of the list {_list(map(str, lookup.table))}"
    return f"{entry}, or {lookup.default} where it has none"


def _by_value(lookup: Lookup, schema: Schema) -> str | None:
    """What a table says of each value of a field: "1 if plan is 'free', 0 if it is 'pro'"; None where that is long.

    Neighbours of which it says the same are told together.
    """
    if (index := _shifted(lookup.index)) is None:
        return None
    value, constant = index
    field = schema.field(value.field)
    if not isinstance(field, CategoryField | IntegerField | RealField):
        return None
    by_name = isinstance(field, CategoryField)
    if field.most - field.least >= (SHOWN if by_name else TOLD):
        return None

    def entry(held: int) -> int:
        place = held + constant
        return lookup.table[place] if 0 <= place < len(lookup.table) else lookup.default

    runs = [(said, tuple(run)) for said, run in groupby(range(field.least, field.most + 1), entry)]
    if len(runs) > SHOWN:
        return None
    subjects = chain([field.name if by_name else _held(field)], repeat("it"))
    pieces = [f"{said} if {it} is {_run(field, run)}" for it, (said, run) in zip(subjects, runs, strict=False)]
    if value.gap is not None:
        pieces.append(f"{entry(value.gap)} if there is nothing")
    return ", ".join(pieces)


def _shifted(index: AnyNumber) -> tuple[FieldValue, int] | None:
    """The field that an index is, and what is added to it; None for other indexes."""
    match index:
        case FieldValue():
            return index, 0
        case Affine(constant=constant, terms=(Term(weight=1, of=FieldValue() as value),)):
            return value, constant
        case _:
            return None


def _run(field: CategoryField | IntegerField | RealField, run: Sequence[int]) -> str:
    """Neighbouring values of a field."""
    if isinstance(field, CategoryField):
        return " or ".join(_quoted(field.values[place]) for place in run)
    return str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}"


def _factor(number: AnyNumber, schema: Schema) -> str:
    """A number as a part of a longer phrase: all but a plain number or a name stands in brackets."""
    phrase = _number(number, schema)
    return phrase if isinstance(number, Integer) or " " not in phrase else f"({phrase})"


def _held(field: AnyField) -> str:
    """The integer that a field holds."""
    match field:
        case RealField(denominator=denominator) if denominator > 1:
            return f"{denominator} × {field.name}"
        case CategoryField(values=values):
            return f"the place of {field.name}, counted from 0, in {_list(map(_quoted, values))}"
        case _:
            return field.name


def _sum(number: Affine, schema: Schema) -> str:
    terms = [(term.weight, _factor(term.of, schema)) for term in number.terms]
    phrases = [(weight, phrase if abs(weight) == 1 else f"{abs(weight)} × {phrase}") for weight, phrase in terms]
    if number.constant:
        phrases.append((number.constant, str(abs(number.constant))))
    sign, first = phrases[0]
    rest = "".join(f" {'-' if weight < 0 else '+'} {phrase}" for weight, phrase in phrases[1:])
    return f"{'-' if sign < 0 else ''}{first}{rest}"


# -------------------------------------------------------------------------------------------------------------- words


def _label(schema: Schema) -> str:
    return "the label" if schema.label is None else schema.label.name


def _quoted(name: str) -> str:
    return printable(repr(name))


def _list(names: Iterable[str]) -> str:
    """A list with commas; a long one is shortened, and its length is told."""
    all_ = list(names)
    if len(all_) <= SHOWN:
        return ", ".join(all_)
    return f"{', '.join(all_[: SHOWN - 1])}, … ({len(all_)} in all)"
