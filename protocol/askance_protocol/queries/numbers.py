"""Numbers: the expressions that are an integer on every example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from askance_protocol.arrays import Integers
from askance_protocol.canonical import MAX_SAFE_INTEGER
from askance_protocol.examples import Columns, Example
from askance_protocol.queries.nodes import (
    MAX_ENTRIES,
    BaseNumber,
    Bounds,
    Expression,
    bit_column,
    bits_field,
    clamp,
    product,
    wide,
)
from askance_protocol.schema import BitsField, Schema
from askance_protocol.values import Name, SafeInteger, Value

if TYPE_CHECKING:
    # Tests contain numbers and numbers contain tests: `language` knows both, and completes the classes.
    from askance_protocol.queries.language import AnyNumber, AnyTest


class Integer(BaseNumber):
    """The same integer for everybody."""

    op: Literal["integer"] = "integer"
    of: SafeInteger

    def bounds(self, schema: Schema) -> Bounds:
        """The integer itself."""
        return self.of, self.of

    def value(self, example: Example) -> np.int64:
        """The integer itself."""
        return wide(self.of)

    def column(self, columns: Columns) -> Integers:
        """The integer, for each example."""
        return np.full(len(columns), self.of, np.int64)


class FieldValue(BaseNumber):
    """What a field holds: an integer, the numerator of a real, a category's index, a label ±1."""

    op: Literal["field"] = "field"
    field: Name
    gap: SafeInteger | None = None
    """What a user counts as who has nothing there. A question of a field with gaps has to say it, no other may."""

    def bounds(self, schema: Schema) -> Bounds:
        """The field's own range, with what a gap counts as."""
        field = schema.field(self.field)
        if isinstance(field, BitsField):
            raise self.refuse(f"{self.field!r} is a bit vector", "take a `slice` or a `dot` of it")
        if (self.gap is None) is not (field.empty is None):
            what, remedy = (
                (f"{self.field!r} has gaps", 'say what one counts as: "gap"')
                if self.gap is None
                else (f"{self.field!r} has no gaps", 'leave out "gap"')
            )
            raise self.refuse(what, remedy)
        gap = field.least if self.gap is None else self.gap
        return min(field.least, gap), max(field.most, gap)

    def value(self, example: Example) -> np.int64:
        """The integer that the field holds, or what a gap counts as: picked alike."""
        held = example.number(self.field)
        if self.gap is None:
            return held
        return (held, wide(self.gap))[bool(held == _empty(example.schema, self.field))]

    def column(self, columns: Columns) -> Integers:
        """The integer that the field holds, or what a gap counts as."""
        held = columns[self.field].astype(np.int64, copy=False)
        return held if self.gap is None else np.where(held == _empty(columns.schema, self.field), self.gap, held)


class Slice(BaseNumber):
    """Bits first .. first + width − 1 of a vector as a binary number, the first bit lowest."""

    op: Literal["slice"] = "slice"
    field: Name
    first: Annotated[int, Field(ge=0)]
    width: Annotated[int, Field(ge=1, le=52)]

    def bounds(self, schema: Schema) -> Bounds:
        """From 0 to the largest binary number of this width."""
        if self.first + self.width > bits_field(self, schema, self.field).width:
            raise self.refuse(f"reaches beyond the bits of {self.field!r}")
        return 0, (1 << self.width) - 1

    def numbers(self) -> Iterable[int]:
        """The powers of two, the lowest first."""
        return (1 << bit for bit in range(self.width))

    def value(self, example: Example) -> np.int64:
        """The selected bits, each times its power of two."""
        return product(example, self.field, self.array(), self.first)

    def column(self, columns: Columns) -> Integers:
        """The selected bits of each example, each in its place."""
        bits = range(self.width)
        return _sum(len(columns), (bit_column(columns[self.field], self.first + bit) << bit for bit in bits))


class Dot(BaseNumber):
    """Σ w_i · x_i over the bits of a vector."""

    op: Literal["dot"] = "dot"
    field: Name
    weights: Annotated[tuple[SafeInteger, ...], Field(min_length=1, max_length=4096)]

    def bounds(self, schema: Schema) -> Bounds:
        """From the sum of the negative weights to that of the positive."""
        if len(self.weights) != bits_field(self, schema, self.field).width:
            raise self.refuse(f"has {len(self.weights)} weights", f"give one for each bit of {self.field!r}")
        # Partial sums come in any order, so they are bounded one by one: Σ |w_i|.
        return _safe(self, -sum(-w for w in self.weights if w < 0), sum(w for w in self.weights if w > 0))

    def entries(self) -> int:
        """One entry for each weight."""
        return len(self.weights)

    def numbers(self) -> Iterable[int]:
        """The weights."""
        return self.weights

    def value(self, example: Example) -> np.int64:
        """Every weight times its bit, set or not."""
        return product(example, self.field, self.array())

    def column(self, columns: Columns) -> Integers:
        """The sum of the weights of the bits that are set."""
        bits = columns[self.field]
        return _sum(
            len(columns), (bit_column(bits, index) * weight for index, weight in enumerate(self.weights) if weight)
        )


class Term(Value):
    """One summand of an affine form."""

    weight: SafeInteger
    of: AnyNumber


class Affine(BaseNumber):
    """constant + Σ weight · number."""

    op: Literal["affine"] = "affine"
    constant: SafeInteger = 0
    terms: Annotated[tuple[Term, ...], Field(min_length=1, max_length=255)]

    def parts(self) -> Iterator[Expression]:
        """The numbers that are added up."""
        return (term.of for term in self.terms)

    def entries(self) -> int:
        """One entry for each weight."""
        return len(self.terms)

    def bounds(self, schema: Schema) -> Bounds:
        """The sum of the bounds. Every partial sum, in every order, has to be safe too."""
        summands = [sorted(term.weight * bound for bound in term.of.bounds(schema)) for term in self.terms]
        summands.append([self.constant, self.constant])
        _safe(self, sum(min(low, 0) for low, _ in summands), sum(max(high, 0) for _, high in summands))
        return sum(low for low, _ in summands), sum(high for _, high in summands)

    def value(self, example: Example) -> np.int64:
        """The constant and the weighted numbers, added up."""
        return sum((term.of.value(example) * term.weight for term in self.terms), start=wide(self.constant))

    def column(self, columns: Columns) -> Integers:
        """The constant and the weighted numbers, added up."""
        terms = (term.of.column(columns) * term.weight for term in self.terms)
        return _sum(len(columns), terms) + self.constant


class Lookup(BaseNumber):
    """table[index], or the default where there is no such entry."""

    op: Literal["lookup"] = "lookup"
    index: AnyNumber
    table: Annotated[tuple[SafeInteger, ...], Field(min_length=1, max_length=MAX_ENTRIES)]
    default: SafeInteger = 0

    def parts(self) -> Iterator[Expression]:
        """The number that the table is indexed by."""
        yield self.index

    def entries(self) -> int:
        """One entry for each number of the table."""
        return len(self.table)

    def bounds(self, schema: Schema) -> Bounds:
        """The least and the largest entry, with the default where the index can miss."""
        low, high = self.index.bounds(schema)
        reached = [*self.table[max(low, 0) : max(high + 1, 0)]]
        if low < 0 or high >= len(self.table):
            reached.append(self.default)
        return min(reached), max(reached)

    def numbers(self) -> Iterable[int]:
        """The table with the default on both sides, where an index beyond its ends is clamped to."""
        return (self.default, *self.table, self.default)

    def value(self, example: Example) -> np.int64:
        """The entry at the index, or the default: looked up alike."""
        return self.array()[1 + clamp(self.index.value(example), -1, len(self.table))]

    def column(self, columns: Columns) -> Integers:
        """The entry for each example."""
        return self.array()[1 + self.index.column(columns).clip(-1, len(self.table))]


class If(BaseNumber):
    """One number where a test holds, another where it does not. Both are evaluated."""

    op: Literal["if"] = "if"
    test: AnyTest
    then: AnyNumber
    otherwise: AnyNumber

    def parts(self) -> Iterator[Expression]:
        """The test and both numbers."""
        yield self.test
        yield self.then
        yield self.otherwise

    def bounds(self, schema: Schema) -> Bounds:
        """The bounds of both numbers, joined."""
        self.test.check(schema)
        (low, high), (other_low, other_high) = self.then.bounds(schema), self.otherwise.bounds(schema)
        return min(low, other_low), max(high, other_high)

    def value(self, example: Example) -> np.int64:
        """Evaluate both, then choose."""
        return (self.otherwise.value(example), self.then.value(example))[self.test.value(example)]

    def column(self, columns: Columns) -> Integers:
        """Evaluate both, then choose."""
        otherwise = self.otherwise.column(columns)
        # Both are safe integers. A branch a user would take ten times as long: no processor guesses examples.
        return otherwise + (self.then.column(columns) - otherwise) * self.test.column(columns)


class Clamp(BaseNumber):
    """The number, or the nearer end where it lies outside low .. high."""

    op: Literal["clamp"] = "clamp"
    of: AnyNumber
    low: SafeInteger
    high: SafeInteger

    @model_validator(mode="after")
    def _ordered(self) -> Clamp:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self

    def parts(self) -> Iterator[Expression]:
        """The number that is clamped."""
        yield self.of

    def bounds(self, schema: Schema) -> Bounds:
        """The number's bounds, clamped."""
        low, high = self.of.bounds(schema)
        return min(max(low, self.low), self.high), min(max(high, self.low), self.high)

    def value(self, example: Example) -> np.int64:
        """Evaluate the number, then clamp it."""
        return clamp(self.of.value(example), self.low, self.high)

    def column(self, columns: Columns) -> Integers:
        """Evaluate the number, then clamp it."""
        return self.of.column(columns).clip(self.low, self.high)


def _empty(schema: Schema, name: str) -> int | None:
    return schema.field(name).empty


def _safe(node: Expression, low: int, high: int) -> Bounds:
    if max(-low, high) > MAX_SAFE_INTEGER:
        raise node.refuse("can leave ±(2^53 - 1)", "use smaller weights, or clamp what is summed")
    return low, high


def _sum(count: int, columns: Iterator[Integers]) -> Integers:
    total = np.zeros(count, np.int64)
    for column in columns:
        total += column
    return total
