"""The closed language that questions are asked in: tests (true or false) and numbers (integers).

Theory of operation
-------------------
A query that failed on some example would leak by its silence (DESIGN, "Randomize once"). So the language is
total: after `prepare` has checked an expression against a schema, no example makes it raise, overflow or loop.

- There are integers and truth values only. No division, no recursion, no floats.
- `bounds` computes, from the schema alone, between which integers each number lies, and refuses what could leave
  ±(2⁵³ − 1): then Python integers, int64 columns and a browser's numbers all compute the same.
- A lookup outside its table gives the declared default.

Each expression is one frozen class with its JSON form as fields, `value` for one example and `column` for many.
`bounds` and `check` read only public data.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from askance_protocol.canonical import MAX_SAFE_INTEGER
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns, Example, words_of
from askance_protocol.schema import BitsField, CategoryField, Schema
from askance_protocol.values import WHOLE, Name, SafeInteger, Value

MAX_ENTRIES: Final = 8192
"""Numbers in all the tables and weight lists of one query."""

Bounds: TypeAlias = tuple[int, int]
Truths: TypeAlias = NDArray[np.bool]
Integers: TypeAlias = NDArray[np.int64]


class Expression(Value):
    """A node of a query."""

    def parts(self) -> Iterator[Expression]:
        """The nodes directly below."""
        return iter(())

    def entries(self) -> int:
        """How many numbers of a table or list this node carries."""
        return 0

    def refuse(self, what: str, remedy: str = "") -> ProtocolError:
        """An error at this node."""
        return ProtocolError(what, where=str(getattr(self, "op", "query")), remedy=remedy)


class BaseTest(Expression):
    """An expression that is true or false of every example."""

    @abstractmethod
    def check(self, schema: Schema) -> None:
        """Refuse what this schema cannot answer."""

    @abstractmethod
    def value(self, example: Example) -> bool:
        """Whether it holds of one example."""

    @abstractmethod
    def column(self, columns: Columns) -> Truths:
        """Of which of many examples it holds."""


class BaseNumber(Expression):
    """An expression that is an integer on every example."""

    @abstractmethod
    def bounds(self, schema: Schema) -> Bounds:
        """The least and the largest value that it can take; refuses what this schema cannot answer."""

    @abstractmethod
    def value(self, example: Example) -> int:
        """Its value on one example."""

    @abstractmethod
    def column(self, columns: Columns) -> Integers:
        """Its values on many examples."""


# ---------------------------------------------------------------------------------------------------- tests


class Constant(BaseTest):
    """True, or false, of everybody."""

    op: Literal["constant"] = "constant"
    truth: bool

    def check(self, schema: Schema) -> None:
        """Nothing to check."""

    def value(self, example: Example) -> bool:
        """The constant."""
        return self.truth

    def column(self, columns: Columns) -> Truths:
        """The constant, for each."""
        return np.full(len(columns), self.truth)


class Bit(BaseTest):
    """x_index = 1."""

    op: Literal["bit"] = "bit"
    field: Name
    index: Annotated[int, Field(ge=0)]

    def check(self, schema: Schema) -> None:
        """The field has such a bit."""
        if self.index >= _bits(self, schema, self.field).width:
            raise self.refuse(f"{self.field!r} has no bit {self.index}", "bits are numbered from 0")

    def value(self, example: Example) -> bool:
        """Look at the bit."""
        return bool(example[self.field] >> self.index & 1)

    def column(self, columns: Columns) -> Truths:
        """Look at the bit in its word."""
        return _bit(columns[self.field], self.index).astype(np.bool)


class Parity(BaseTest):
    """r ⊙ x = 1: an odd number of the bits of x that the mask r selects are set."""

    op: Literal["parity"] = "parity"
    field: Name
    mask: Annotated[str, Field(pattern=r"^(0|[1-9a-f][0-9a-f]{0,1023})\z")]
    """r as a hexadecimal integer: r_i is bit i."""

    def check(self, schema: Schema) -> None:
        """The mask fits the field."""
        width = _bits(self, schema, self.field).width
        if int(self.mask, 16) >> width:
            raise self.refuse(f"the mask selects bits that {self.field!r} does not have", f"use {width} bits at most")

    def entries(self) -> int:
        """A number for each word of the mask."""
        return -(-len(self.mask) // 16)

    def value(self, example: Example) -> bool:
        """Count the selected bits."""
        return bool((example[self.field] & int(self.mask, 16)).bit_count() & 1)

    def column(self, columns: Columns) -> Truths:
        """Fold the selected words into one, then count its bits."""
        words = columns[self.field]
        folded = np.zeros(len(columns), np.uint64)
        for word, mask in zip(words, words_of(int(self.mask, 16), 64 * len(words)), strict=True):
            if mask:
                folded ^= word.astype(np.uint64, copy=False) & np.uint64(mask)
        return (np.bitwise_count(folded) & 1).astype(np.bool)


class Is(BaseTest):
    """A category has this value."""

    op: Literal["is"] = "is"
    field: Name
    category: str

    def check(self, schema: Schema) -> None:
        """There is such a value."""
        field = schema.field(self.field)
        if not isinstance(field, CategoryField):
            raise self.refuse(f"{self.field!r} is not a category")
        if self.category not in field.index:
            raise self.refuse(f"{self.field!r} has no such value", "use one of the declared values")

    def value(self, example: Example) -> bool:
        """Compare indexes."""
        return example[self.field] == _category(example.schema, self.field, self.category)

    def column(self, columns: Columns) -> Truths:
        """Compare indexes."""
        return columns[self.field] == _category(columns.schema, self.field, self.category)


class Label(BaseTest):
    """y = sign."""

    op: Literal["label"] = "label"
    sign: Annotated[Literal[1, -1], WHOLE]

    def check(self, schema: Schema) -> None:
        """Examples are labelled."""
        if schema.label is None:
            raise self.refuse("the examples have no label")

    def value(self, example: Example) -> bool:
        """Compare the label."""
        return example[_label(example.schema)] == self.sign

    def column(self, columns: Columns) -> Truths:
        """Compare the labels."""
        return columns[_label(columns.schema)] == self.sign


class Not(BaseTest):
    """The test does not hold."""

    op: Literal["not"] = "not"
    of: AnyTest

    def parts(self) -> Iterator[Expression]:
        """The test."""
        yield self.of

    def check(self, schema: Schema) -> None:
        """The test is answerable."""
        self.of.check(schema)

    def value(self, example: Example) -> bool:
        """The opposite."""
        return not self.of.value(example)

    def column(self, columns: Columns) -> Truths:
        """The opposite."""
        return ~self.of.column(columns)


class _Several(BaseTest):
    of: Annotated[tuple[AnyTest, ...], Field(min_length=1, max_length=255)]

    def parts(self) -> Iterator[Expression]:
        """The tests."""
        return iter(self.of)

    def check(self, schema: Schema) -> None:
        """The tests are answerable."""
        for test in self.of:
            test.check(schema)


class And(_Several):
    """All of the tests hold. All are evaluated, so that time does not depend on which fails."""

    op: Literal["and"] = "and"

    def value(self, example: Example) -> bool:
        """Evaluate every test, then join."""
        truths = [test.value(example) for test in self.of]
        return all(truths)

    def column(self, columns: Columns) -> Truths:
        """Join the columns."""
        return _join(np.bitwise_and, [test.column(columns) for test in self.of])


class Or(_Several):
    """At least one of the tests holds."""

    op: Literal["or"] = "or"

    def value(self, example: Example) -> bool:
        """Evaluate every test, then join."""
        truths = [test.value(example) for test in self.of]
        return any(truths)

    def column(self, columns: Columns) -> Truths:
        """Join the columns."""
        return _join(np.bitwise_or, [test.column(columns) for test in self.of])


class Xor(_Several):
    """An odd number of the tests hold; of two: they differ."""

    op: Literal["xor"] = "xor"

    def value(self, example: Example) -> bool:
        """Count modulo two."""
        return bool(sum(test.value(example) for test in self.of) & 1)

    def column(self, columns: Columns) -> Truths:
        """Join the columns."""
        return _join(np.bitwise_xor, [test.column(columns) for test in self.of])


_RELATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}


class Compare(BaseTest):
    """Two numbers stand in a relation."""

    op: Literal["compare"] = "compare"
    left: AnyNumber
    relation: Literal["<", "<=", "=", "!=", ">=", ">"]
    right: AnyNumber

    def parts(self) -> Iterator[Expression]:
        """Both numbers."""
        yield self.left
        yield self.right

    def check(self, schema: Schema) -> None:
        """Both are answerable."""
        self.left.bounds(schema)
        self.right.bounds(schema)

    def value(self, example: Example) -> bool:
        """Compare."""
        return bool(_RELATIONS[self.relation](self.left.value(example), self.right.value(example)))

    def column(self, columns: Columns) -> Truths:
        """Compare."""
        truths: Truths = _RELATIONS[self.relation](self.left.column(columns), self.right.column(columns))
        return truths


# -------------------------------------------------------------------------------------------------- numbers


class Integer(BaseNumber):
    """The same integer for everybody."""

    op: Literal["integer"] = "integer"
    of: SafeInteger

    def bounds(self, schema: Schema) -> Bounds:
        """Itself."""
        return self.of, self.of

    def value(self, example: Example) -> int:
        """Itself."""
        return self.of

    def column(self, columns: Columns) -> Integers:
        """Itself, for each."""
        return np.full(len(columns), self.of, np.int64)


class FieldValue(BaseNumber):
    """What a field holds: an integer, the numerator of a real, a category's index, a label ±1."""

    op: Literal["field"] = "field"
    field: Name

    def bounds(self, schema: Schema) -> Bounds:
        """The field's own range."""
        field = schema.field(self.field)
        if isinstance(field, BitsField):
            raise self.refuse(f"{self.field!r} is a bit vector", "take a `slice` or a `dot` of it")
        return field.least, field.most

    def value(self, example: Example) -> int:
        """What is held."""
        return example[self.field]

    def column(self, columns: Columns) -> Integers:
        """What is held."""
        return columns[self.field].astype(np.int64, copy=False)


class Slice(BaseNumber):
    """Bits first .. first + width − 1 of a vector as a binary number, the first bit lowest."""

    op: Literal["slice"] = "slice"
    field: Name
    first: Annotated[int, Field(ge=0)]
    width: Annotated[int, Field(ge=1, le=52)]

    def bounds(self, schema: Schema) -> Bounds:
        """All binary numbers of this width."""
        if self.first + self.width > _bits(self, schema, self.field).width:
            raise self.refuse(f"reaches beyond the bits of {self.field!r}")
        return 0, (1 << self.width) - 1

    def value(self, example: Example) -> int:
        """Shift and mask."""
        return example[self.field] >> self.first & (1 << self.width) - 1

    def column(self, columns: Columns) -> Integers:
        """Add the bits up, each in its place."""
        bits = range(self.width)
        return _sum(len(columns), (_bit(columns[self.field], self.first + bit) << bit for bit in bits))


class Dot(BaseNumber):
    """Σ w_i · x_i over the bits of a vector."""

    op: Literal["dot"] = "dot"
    field: Name
    weights: Annotated[tuple[SafeInteger, ...], Field(min_length=1, max_length=4096)]

    def bounds(self, schema: Schema) -> Bounds:
        """All negative weights, to all positive weights."""
        if len(self.weights) != _bits(self, schema, self.field).width:
            raise self.refuse(f"has {len(self.weights)} weights", f"give one for each bit of {self.field!r}")
        # Partial sums come in any order, so they are bounded one by one: Σ |w_i|.
        return _safe(self, -sum(-w for w in self.weights if w < 0), sum(w for w in self.weights if w > 0))

    def entries(self) -> int:
        """One for each weight."""
        return len(self.weights)

    def value(self, example: Example) -> int:
        """Add the weights of the bits that are set."""
        return sum(weight for index, weight in enumerate(self.weights) if example[self.field] >> index & 1)

    def column(self, columns: Columns) -> Integers:
        """Add the weights of the bits that are set."""
        bits = columns[self.field]
        return _sum(len(columns), (_bit(bits, index) * weight for index, weight in enumerate(self.weights) if weight))


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
        """The numbers."""
        return (term.of for term in self.terms)

    def entries(self) -> int:
        """One for each weight."""
        return len(self.terms)

    def bounds(self, schema: Schema) -> Bounds:
        """The sum of the bounds. Every partial sum, in every order, has to be safe too."""
        summands = [sorted(term.weight * bound for bound in term.of.bounds(schema)) for term in self.terms]
        summands.append([self.constant, self.constant])
        _safe(self, sum(min(low, 0) for low, _ in summands), sum(max(high, 0) for _, high in summands))
        return sum(low for low, _ in summands), sum(high for _, high in summands)

    def value(self, example: Example) -> int:
        """Add up."""
        return self.constant + sum(term.weight * term.of.value(example) for term in self.terms)

    def column(self, columns: Columns) -> Integers:
        """Add up."""
        terms = (term.of.column(columns) * term.weight for term in self.terms)
        return _sum(len(columns), terms) + self.constant


class Lookup(BaseNumber):
    """table[index], or the default where there is no such entry."""

    op: Literal["lookup"] = "lookup"
    index: AnyNumber
    table: Annotated[tuple[SafeInteger, ...], Field(min_length=1, max_length=MAX_ENTRIES)]
    default: SafeInteger = 0

    def parts(self) -> Iterator[Expression]:
        """The index."""
        yield self.index

    def entries(self) -> int:
        """One for each entry."""
        return len(self.table)

    def bounds(self, schema: Schema) -> Bounds:
        """The least and the largest entry, with the default where the index can miss."""
        low, high = self.index.bounds(schema)
        reached = [*self.table[max(low, 0) : max(high + 1, 0)]]
        if low < 0 or high >= len(self.table):
            reached.append(self.default)
        return min(reached), max(reached)

    def value(self, example: Example) -> int:
        """Look up."""
        index = self.index.value(example)
        return self.table[index] if 0 <= index < len(self.table) else self.default

    def column(self, columns: Columns) -> Integers:
        """Look up in the table with the default behind its end."""
        index = self.index.column(columns)
        missed = (index < 0) | (index >= len(self.table))
        return np.array([*self.table, self.default], np.int64)[np.where(missed, len(self.table), index)]


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
        """The bounds of both."""
        self.test.check(schema)
        (low, high), (other_low, other_high) = self.then.bounds(schema), self.otherwise.bounds(schema)
        return min(low, other_low), max(high, other_high)

    def value(self, example: Example) -> int:
        """Evaluate both, then choose."""
        return (self.otherwise.value(example), self.then.value(example))[self.test.value(example)]

    def column(self, columns: Columns) -> Integers:
        """Evaluate both, then choose."""
        return np.where(self.test.column(columns), self.then.column(columns), self.otherwise.column(columns))


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
        """The number."""
        yield self.of

    def bounds(self, schema: Schema) -> Bounds:
        """The number's bounds, clamped."""
        low, high = self.of.bounds(schema)
        return min(max(low, self.low), self.high), min(max(high, self.low), self.high)

    def value(self, example: Example) -> int:
        """Clamp."""
        return min(max(self.of.value(example), self.low), self.high)

    def column(self, columns: Columns) -> Integers:
        """Clamp."""
        return self.of.column(columns).clip(self.low, self.high)


AnyTest: TypeAlias = Annotated[
    Constant | Bit | Parity | Is | Label | Not | And | Or | Xor | Compare, Field(discriminator="op")
]
AnyNumber: TypeAlias = Annotated[
    Integer | FieldValue | Slice | Dot | Affine | Lookup | If | Clamp, Field(discriminator="op")
]

for _recursive in (Not, And, Or, Xor, Compare, Term, Affine, Lookup, If, Clamp):
    _recursive.model_rebuild()


def _safe(node: Expression, low: int, high: int) -> Bounds:
    if max(-low, high) > MAX_SAFE_INTEGER:
        raise node.refuse("can leave ±(2^53 - 1)", "use smaller weights, or clamp what is summed")
    return low, high


def _bits(node: Expression, schema: Schema, name: str) -> BitsField:
    field = schema.field(name)
    if not isinstance(field, BitsField):
        raise node.refuse(f"{name!r} is not a bit vector")
    return field


def _bit(words: NDArray[Any], index: int) -> Integers:
    return (words[index // 64] >> np.uint64(index % 64) & np.uint64(1)).astype(np.int64)


def _sum(count: int, columns: Iterator[Integers]) -> Integers:
    total = np.zeros(count, np.int64)
    for column in columns:
        total += column
    return total


def _join(how: np.ufunc, truths: list[Truths]) -> Truths:
    joined: Truths = how.reduce(truths)
    return joined


def _category(schema: Schema, name: str, value: str) -> int:
    return schema.field(name).parse(value)


def _label(schema: Schema) -> str:
    if schema.label is None:
        raise ProtocolError(
            "the examples have no label", where="label", remedy="prepare a query before it is evaluated"
        )
    return schema.label.name
