"""Tests: the expressions that are true or false of an example."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from askance_protocol.arrays import Truths
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns, Example, bits_of, words_of
from askance_protocol.queries.nodes import (
    BaseTest,
    Expression,
    bits_field,
    product,
)
from askance_protocol.schema import CategoryField, Schema
from askance_protocol.values import WHOLE, Name

if TYPE_CHECKING:
    # Tests contain numbers and numbers contain tests: `language` knows both, and completes the classes.
    from askance_protocol.queries.language import AnyNumber, AnyTest


class Constant(BaseTest):
    """True, or false, of everybody."""

    op: Literal["constant"] = "constant"
    truth: bool

    def check(self, schema: Schema) -> None:
        """Accept every schema: a constant looks at nothing."""

    def value(self, example: Example) -> bool:
        """Return the constant."""
        return self.truth

    def column(self, columns: Columns) -> Truths:
        """Return the constant for each example."""
        return np.full(len(columns), self.truth)


class Bit(BaseTest):
    """x_index = 1."""

    op: Literal["bit"] = "bit"
    field: Name
    index: Annotated[int, Field(ge=0)]

    def check(self, schema: Schema) -> None:
        """Refuse a field that has no such bit."""
        if self.index >= bits_field(self, schema, self.field).width:
            raise self.refuse(f"{self.field!r} has no bit {self.index}", "bits are numbered from 0")

    def value(self, example: Example) -> bool:
        """Whether the bit is set."""
        return bool(example.bits(self.field)[self.index])

    def column(self, columns: Columns) -> Truths:
        """Whether the bit is set, for each example."""
        word = columns[self.field][self.index // 64].astype(np.uint64, copy=False)
        return (word & np.uint64(1 << self.index % 64)) != 0


class Parity(BaseTest):
    """r ⊙ x = 1: an odd number of the bits of x that the mask r selects are set."""

    op: Literal["parity"] = "parity"
    field: Name
    mask: Annotated[str, Field(pattern=r"^(0|[1-9a-f][0-9a-f]{0,1023})\z")]
    """r as a hexadecimal integer: r_i is bit i."""

    def check(self, schema: Schema) -> None:
        """Refuse a mask that selects bits beyond the field."""
        width = bits_field(self, schema, self.field).width
        if int(self.mask, 16) >> width:
            raise self.refuse(f"the mask selects bits that {self.field!r} does not have", f"use {width} bits at most")

    def entries(self) -> int:
        """One entry for each 64-bit word of the mask."""
        return -(-len(self.mask) // 16)

    def numbers(self) -> Iterable[int]:
        """The bits of the mask, up to the highest that is set."""
        mask = int(self.mask, 16)
        return bits_of(mask, mask.bit_length()).tolist()

    def value(self, example: Example) -> bool:
        """Whether an odd number of the selected bits is set: the mask's bits times the vector's."""
        return bool(product(example, self.field, self.array()) & 1)

    def column(self, columns: Columns) -> Truths:
        """The parity of the selected bits of each example: fold their words into one, then count its bits."""
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
        """Refuse a category that the field does not declare."""
        field = schema.field(self.field)
        if not isinstance(field, CategoryField):
            raise self.refuse(f"{self.field!r} is not a category")
        if self.category not in field.index:
            raise self.refuse(f"{self.field!r} has no such value", "use one of the declared values")

    def value(self, example: Example) -> bool:
        """Compare the index that is held with that of the category."""
        return bool(example.number(self.field) == _category(example.schema, self.field, self.category))

    def column(self, columns: Columns) -> Truths:
        """Compare the index that is held with that of the category."""
        return columns[self.field] == _category(columns.schema, self.field, self.category)


class Label(BaseTest):
    """y = sign."""

    op: Literal["label"] = "label"
    sign: Annotated[Literal[1, -1], WHOLE]

    def check(self, schema: Schema) -> None:
        """Refuse examples without a label."""
        if schema.label is None:
            raise self.refuse("the examples have no label")

    def value(self, example: Example) -> bool:
        """Whether the label has this sign."""
        return bool(example.number(_label(example.schema)) == self.sign)

    def column(self, columns: Columns) -> Truths:
        """Whether the label of each example has this sign."""
        return columns[_label(columns.schema)] == self.sign


class Not(BaseTest):
    """The test does not hold."""

    op: Literal["not"] = "not"
    of: AnyTest

    def parts(self) -> Iterator[Expression]:
        """The test that is negated."""
        yield self.of

    def check(self, schema: Schema) -> None:
        """Refuse what the test refuses."""
        self.of.check(schema)

    def value(self, example: Example) -> bool:
        """The opposite of the test."""
        return not self.of.value(example)

    def column(self, columns: Columns) -> Truths:
        """The opposite of the test."""
        return ~self.of.column(columns)


class _Several(BaseTest):
    of: Annotated[tuple[AnyTest, ...], Field(min_length=1, max_length=255)]

    def parts(self) -> Iterator[Expression]:
        """The tests that are joined."""
        return iter(self.of)

    def check(self, schema: Schema) -> None:
        """Refuse what any of the tests refuses."""
        for test in self.of:
            test.check(schema)


_JOINS: Final[dict[str, Callable[[bool, bool], bool]]] = {
    "and": bool.__and__,
    "or": bool.__or__,
    "xor": bool.__xor__,
}
"""Of two truths. They are methods of C, which take the same steps for all."""


class And(_Several):
    """All of the tests hold. All are evaluated, so that time does not depend on which fails."""

    op: Literal["and"] = "and"

    def value(self, example: Example) -> bool:
        """Evaluate every test, then join all: `all` would stop at the first that fails."""
        return reduce(_JOINS[self.op], [test.value(example) for test in self.of])

    def column(self, columns: Columns) -> Truths:
        """Evaluate every test on all examples, then join."""
        return _join(np.bitwise_and, [test.column(columns) for test in self.of])


class Or(_Several):
    """At least one of the tests holds."""

    op: Literal["or"] = "or"

    def value(self, example: Example) -> bool:
        """Evaluate every test, then join all: `any` would stop at the first that holds."""
        return reduce(_JOINS[self.op], [test.value(example) for test in self.of])

    def column(self, columns: Columns) -> Truths:
        """Evaluate every test on all examples, then join."""
        return _join(np.bitwise_or, [test.column(columns) for test in self.of])


class Xor(_Several):
    """An odd number of the tests hold; of two: they differ."""

    op: Literal["xor"] = "xor"

    def value(self, example: Example) -> bool:
        """Whether an odd number of the tests holds."""
        return reduce(_JOINS[self.op], [test.value(example) for test in self.of])

    def column(self, columns: Columns) -> Truths:
        """Evaluate every test on all examples, then join."""
        return _join(np.bitwise_xor, [test.column(columns) for test in self.of])


RELATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
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
        """The two numbers that are compared."""
        yield self.left
        yield self.right

    def check(self, schema: Schema) -> None:
        """Refuse what either number refuses."""
        self.left.bounds(schema)
        self.right.bounds(schema)

    def value(self, example: Example) -> bool:
        """Evaluate both numbers, then compare."""
        return bool(RELATIONS[self.relation](self.left.value(example), self.right.value(example)))

    def column(self, columns: Columns) -> Truths:
        """Evaluate both numbers, then compare."""
        truths: Truths = RELATIONS[self.relation](self.left.column(columns), self.right.column(columns))
        return truths


def _join(how: np.ufunc, truths: list[Truths]) -> Truths:
    return reduce(how, truths)


def _category(schema: Schema, name: str, value: str) -> int:
    return schema.field(name).parse(value)


def _label(schema: Schema) -> str:
    if schema.label is None:
        raise ProtocolError(
            "the examples have no label", where="label", remedy="prepare a query before it is evaluated"
        )
    return schema.label.name
