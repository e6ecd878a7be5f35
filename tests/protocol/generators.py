"""Random schemas, examples, expressions and queries, shared by the tests of this room.

Queries are built well-typed: a number that could grow too large is clamped before it is summed, and table entries
are dealt out of a purse. What remains over a limit (clamps that make a tall query taller) is rare, and filtered.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from askance_protocol.canonical import MAX_SAFE_INTEGER
from askance_protocol.examples import Columns, Example
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, measure
from askance_protocol.queries.language import (
    MAX_ENTRIES,
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
from askance_protocol.queries.query import MAX_CELLS, MAX_DENOMINATOR, MAX_DEPTH, MAX_NODES
from askance_protocol.schema import (
    MAX_MAGNITUDE,
    MAX_WIDTH,
    AnyField,
    BitsField,
    CategoryField,
    IntegerField,
    LabelField,
    RealField,
    Schema,
)

AnyQuery = BooleanQuery | RealQuery | CellQuery
Draw = Callable[[st.SearchStrategy[Any]], Any]

OPERATIONS = {
    *("constant", "bit", "parity", "is", "label", "not", "and", "or", "xor", "compare"),
    *("integer", "field", "slice", "dot", "affine", "lookup", "if", "clamp"),
}


def fixed(examples: int) -> Callable[[Any], Any]:
    """The same cases on every run, and no complaint about a slow machine."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
    )


# --------------------------------------------------------------------------------------------------- schemas

WIDTHS = st.one_of(
    st.integers(1, 9),
    st.sampled_from([52, 63, 64, 65, 127, 128, 129, 191, 192, 193, 1024, MAX_WIDTH - 1, MAX_WIDTH]),
    st.integers(1, MAX_WIDTH),
)
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


def _ends(magnitude: int) -> st.SearchStrategy[list[int]]:
    return st.lists(
        st.one_of(st.integers(-9, 9), st.integers(-magnitude, magnitude), st.sampled_from([-magnitude, magnitude])),
        min_size=2,
        max_size=2,
        unique=True,
    ).map(sorted)


@st.composite
def fields(draw: Draw, name: str, kind: str) -> AnyField:
    gap = draw(st.sampled_from([None, None, True]))
    match kind:
        case "bits":
            return BitsField(name=name, width=draw(WIDTHS))
        case "category":
            return CategoryField(
                name=name, values=tuple(draw(st.lists(TEXTS, min_size=2, max_size=6, unique=True))), gap=gap
            )
        case "integer":
            low, high = draw(_ends(MAX_MAGNITUDE))
            return IntegerField(name=name, low=low, high=draw(st.sampled_from([high, low])), gap=gap)
        case "real":
            low, high = draw(_ends(1 << 20))
            denominator = draw(st.one_of(st.integers(1, 100), st.sampled_from([1 << 17, 1 << 20])))
            return RealField(name=name, low=low, high=high, denominator=denominator, gap=gap)
        case _:
            return LabelField(name=name)


@st.composite
def schemas(draw: Draw) -> Schema:
    """One to six fields of any kind, at most one a label, in any order."""
    kinds = draw(st.lists(st.sampled_from(["bits", "bits", "category", "integer", "real"]), min_size=1, max_size=5))
    if draw(st.booleans()):
        kinds.insert(draw(st.integers(0, len(kinds))), "label")
    return Schema(fields=tuple(draw(fields(f"f{place}", kind)) for place, kind in enumerate(kinds)))


# -------------------------------------------------------------------------------------------------- examples


def seeded(schema: Schema, seed: int) -> Example:
    """Values all over each field's range, from one small number: 4096 drawn bits would be slow to shrink."""
    source = random.Random(seed)
    return Example(schema, tuple(_value(source, part) for part in schema.fields))


def _value(source: random.Random, part: AnyField) -> int:
    if isinstance(part, LabelField):
        return source.choice([-1, 1])
    if part.empty is not None and source.random() < 0.3:
        return part.empty
    return source.randint(part.least, part.most)


def examples(schema: Schema) -> st.SearchStrategy[Example]:
    """Random examples, and now and then an extreme one."""
    seeds = st.integers(0, 2**32 - 1)
    return st.one_of(seeds.map(lambda seed: seeded(schema, seed)), st.sampled_from(list(extremes(schema))))


def extremes(schema: Schema) -> Iterator[Example]:
    """All fields at their least, all at their most, with either label; and all that may be empty empty."""
    for end in ("least", "most"):
        for label in (-1, 1):
            values = (label if isinstance(part, LabelField) else getattr(part, end) for part in schema.fields)
            yield Example(schema, tuple(values))
    if any(part.empty is not None for part in schema.fields):
        yield Example(schema, tuple(part.most if part.empty is None else part.empty for part in schema.fields))


def batches(schema: Schema) -> st.SearchStrategy[list[Example]]:
    """Some examples, maybe none."""
    return st.lists(examples(schema), max_size=8)


# ----------------------------------------------------------------------------------------------- expressions


def weight_lists(count: int, limit: int) -> st.SearchStrategy[tuple[int, ...]]:
    """`count` integers up to `limit` in magnitude: tiny ones, zeros, and as large as allowed."""

    def spread(seed: int) -> tuple[int, ...]:
        source = random.Random(seed)
        top = source.choice([min(1, limit), min(9, limit), limit])
        return tuple(source.choice([source.randint(-top, top), top, -top]) for _ in range(count))

    return st.integers(0, 2**32 - 1).map(spread)


@dataclass
class Writer:
    """Draws expressions over one schema. `depth` levels are allowed below a node, itself included."""

    draw: Draw
    schema: Schema
    entries: int = MAX_ENTRIES
    by_kind: dict[str, list[AnyField]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in self.schema.fields:
            self.by_kind.setdefault(part.kind, []).append(part)

    def any_field(self, kind: str) -> Any:
        return self.draw(st.sampled_from(self.by_kind[kind]))

    def below(self, depth: int, count: int) -> list[int]:
        """How deep each part may be: all a level less, or, in a tall expression, all but one a leaf."""
        if depth <= 4:
            return [depth - 1] * count
        tall = self.draw(st.integers(0, count - 1))
        return [depth - 1 if place == tall else 1 for place in range(count)]

    def choose(self, leaves: dict[str, int], inner: dict[str, int], depth: int) -> str:
        """An operation, by weight. Above depth 3 always one that goes on, so that tall expressions are tall."""
        weights = leaves if depth == 1 else inner if depth > 3 else {**leaves, **inner}
        return self.draw(st.sampled_from([op for op, weight in weights.items() for _ in range(weight)]))

    def test(self, depth: int) -> AnyTest:
        bits, category, label = (2 * (kind in self.by_kind) for kind in ("bits", "category", "label"))
        leaves = {"constant": 1, "bit": bits, "parity": bits, "is": category, "label": label}
        inner = {"not": 1, "and": 1, "or": 1, "xor": 1, "compare": 2}
        write: Callable[[int], AnyTest] = getattr(self, f"test_{self.choose(leaves, inner, depth)}")
        return write(depth)

    def test_constant(self, depth: int) -> Constant:
        return Constant(truth=self.draw(st.booleans()))

    def test_bit(self, depth: int) -> Bit:
        bits = self.any_field("bits")
        return Bit(field=bits.name, index=self.draw(st.integers(0, bits.width - 1)))

    def test_parity(self, depth: int) -> Parity:
        bits = self.any_field("bits")
        full = (1 << bits.width) - 1
        mask = random.Random(self.draw(st.integers(0, 2**32 - 1))).randint(0, full)
        mask = self.draw(st.sampled_from([mask, full, 0, 1 << bits.width - 1]))
        self.entries -= 64
        return Parity(field=bits.name, mask=f"{mask:x}")

    def test_is(self, depth: int) -> Is:
        category = self.any_field("category")
        return Is(field=category.name, category=self.draw(st.sampled_from(category.values)))

    def test_label(self, depth: int) -> Label:
        return Label(sign=self.draw(st.sampled_from([1, -1])))

    def test_not(self, depth: int) -> Not:
        return Not(of=self.test(depth - 1))

    def several(self, depth: int) -> tuple[AnyTest, ...]:
        return tuple(map(self.test, self.below(depth, self.draw(st.integers(1, 3)))))

    def test_and(self, depth: int) -> And:
        return And(of=self.several(depth))

    def test_or(self, depth: int) -> Or:
        return Or(of=self.several(depth))

    def test_xor(self, depth: int) -> Xor:
        return Xor(of=self.several(depth))

    def test_compare(self, depth: int) -> Compare:
        left, right = self.below(depth, 2)
        relation = self.draw(st.sampled_from(["<", "<=", "=", "!=", ">=", ">"]))
        return Compare(left=self.number(left), relation=relation, right=self.number(right))

    def number(self, depth: int) -> AnyNumber:
        bits, others = 2 * ("bits" in self.by_kind), bool(self.by_kind.keys() - {"bits"})
        leaves = {"integer": 1, "field": others, "slice": bits, "dot": bits}
        inner = {"affine": 2, "lookup": 1, "if": 1, "clamp": 1}
        write: Callable[[int], AnyNumber] = getattr(self, f"number_{self.choose(leaves, inner, depth)}")
        return write(depth)

    def safe(self) -> int:
        ends = [MAX_SAFE_INTEGER, -MAX_SAFE_INTEGER]
        return self.draw(st.one_of(st.integers(-9, 9), st.integers(*sorted(ends)), st.sampled_from(ends)))

    def number_integer(self, depth: int) -> Integer:
        return Integer(of=self.safe())

    def number_field(self, depth: int) -> FieldValue:
        parts = [part for part in self.schema.fields if not isinstance(part, BitsField)]
        part = self.draw(st.sampled_from(parts))
        return FieldValue(field=part.name, gap=None if part.empty is None else self.safe())

    def number_slice(self, depth: int) -> Slice:
        bits = self.any_field("bits")
        width = self.draw(st.integers(1, min(52, bits.width)))
        return Slice(field=bits.name, first=self.draw(st.integers(0, bits.width - width)), width=width)

    def number_dot(self, depth: int) -> AnyNumber:
        bits = self.any_field("bits")
        if bits.width > self.entries - 3000:  # what parities, tables and affine forms may still want
            return self.number_integer(depth)
        self.entries -= bits.width
        return Dot(field=bits.name, weights=self.draw(weight_lists(bits.width, MAX_SAFE_INTEGER // bits.width)))

    def number_affine(self, depth: int) -> Affine:
        """Every summand gets an equal share of the safe range; a number too large for any weight is clamped."""
        below = self.below(depth, self.draw(st.integers(1, 3)))
        share = MAX_SAFE_INTEGER // (len(below) + 1)
        terms = tuple(self.term(level, share) for level in below)
        self.entries -= len(terms)
        (constant,) = self.draw(weight_lists(1, share))
        return Affine(constant=constant, terms=terms)

    def term(self, depth: int, share: int) -> Term:
        number = self.number(depth)
        largest = max(map(abs, number.bounds(self.schema)))
        if largest > share:
            number, largest = Clamp(of=number, low=-1000, high=1000), 1000
        (weight,) = self.draw(weight_lists(1, share // max(largest, 1)))
        return Term(weight=weight, of=number)

    def number_lookup(self, depth: int) -> Lookup:
        index = self.number(depth - 1)
        table = self.draw(weight_lists(self.draw(st.integers(1, 20)), MAX_SAFE_INTEGER))
        self.entries -= len(table)
        return Lookup(index=index, table=table, default=self.safe())

    def number_if(self, depth: int) -> If:
        test, then, otherwise = self.below(depth, 3)
        return If(test=self.test(test), then=self.number(then), otherwise=self.number(otherwise))

    def number_clamp(self, depth: int) -> Clamp:
        low, high = sorted((self.safe(), self.safe()))
        return Clamp(of=self.number(depth - 1), low=low, high=high)


DEPTHS = st.sampled_from([1, 2, 3, 4, 4, 5, 5, 8, 10, 12, MAX_DEPTH - 1, MAX_DEPTH])


def queries(schema: Schema) -> st.SearchStrategy[AnyQuery]:
    """A boolean, real or cell-valued query that `prepare` accepts for this schema."""
    return unlimited(schema).filter(within_limits)


def within_limits(query: AnyQuery) -> bool:
    cost = measure(query)
    return cost.nodes <= MAX_NODES and cost.depth <= MAX_DEPTH and cost.entries <= MAX_ENTRIES


@st.composite
def unlimited(draw: Draw, schema: Schema) -> AnyQuery:
    """A query of the right types, whatever it costs."""
    writer = Writer(draw, schema)
    kind = draw(st.sampled_from(["boolean", "real", "cell"]))
    if kind == "boolean":
        return BooleanQuery(test=writer.test(draw(DEPTHS)))
    number = writer.number(draw(DEPTHS))
    low, high = number.bounds(schema)
    if kind == "real":
        denominator = draw(st.one_of(st.integers(1, 9), st.just(max(-low, high, 1)), st.just(MAX_DENOMINATOR)))
        return RealQuery(numerator=number, denominator=min(denominator, MAX_DENOMINATOR))
    cells = draw(st.one_of(st.integers(1, 9), st.just(max(high, 1)), st.just(MAX_CELLS)))
    negative = writer.test(draw(st.integers(1, 4))) if draw(st.booleans()) else None
    return CellQuery(cells=min(cells, MAX_CELLS), cell=number, negative=negative)


@st.composite
def cases(draw: Draw) -> tuple[Schema, AnyQuery, list[Example]]:
    """A schema, a query for it, and some users."""
    schema = draw(schemas())
    return schema, draw(queries(schema)), draw(batches(schema))


def all_nodes(query: AnyQuery) -> Iterator[Expression]:
    """Every node of a query."""
    level = list(query.roots())
    while level:
        yield from level
        level = [part for node in level for part in node.parts()]


# ------------------------------------------------------------------------------------------------- by hand


def every_bit_string(width: int) -> Iterator[str]:
    """All of {0, 1}^width, as it is written: x_0 first."""
    for number in range(1 << width):
        yield f"{number:0{width}b}"[::-1]


def columns_of(schema: Schema, records: list[dict[str, Any]]) -> Columns:
    """The columns of these records."""
    return Columns.of_examples(schema, [Example.of(schema, record) for record in records])
