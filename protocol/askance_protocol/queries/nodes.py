"""Nodes of a query: a test or a number, evaluated for one example and for columns of many.

Theory of operation
-------------------
A query that failed on some example would leak by its silence. So the language is total: after `prepare` has checked
an expression against a schema, no example makes it raise, overflow or loop.

- There are integers and truth values only. No division, no recursion, no floats.
- `bounds` computes, from the schema alone, between which integers each number lies, and refuses what could leave
  ±(2⁵³ − 1): then Python integers, int64 columns and a browser's numbers all compute the same.
- A lookup outside its table gives the declared default.

A server that sends questions and clocks the answers learns for which examples evaluation takes longer. So the same
steps are taken whatever the example:

- A number is 64 bits wide, an `np.int64`. A Python integer grows with its value, and what is done with it takes longer.
- A vector is read in its whole length, a byte for each bit, and multiplied with public weights at once.
- All parts of a node are evaluated. What follows from them is computed or picked by an index, never by a branch.
- What is kept between answers (`Expression.array`, tables of channels) is made of the question, never of an answer.

Each expression is one frozen class with its JSON form as fields, `value` for one example and `column` for many.
`bounds` and `check` read only public data.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers, Truths
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns, Example
from askance_protocol.schema import BitsField, Schema
from askance_protocol.values import Value

MAX_ENTRIES: Final = 8192
"""Numbers in all the tables and weight lists of one query."""

Bounds: TypeAlias = tuple[int, int]


class Expression(Value):
    """A node of a query."""

    __slots__ = ("_array",)

    def parts(self) -> Iterator[Expression]:
        """The nodes directly below this one."""
        return iter(())

    def entries(self) -> int:
        """The number of table entries and weights that this node carries."""
        return 0

    def numbers(self) -> Iterable[int]:
        """The numbers that this node multiplies with or looks up; none for most."""
        return ()

    def array(self) -> Integers:
        """These numbers as an array: made once, and kept in a slot as a document keeps its bytes."""
        kept: Integers | None = getattr(self, "_array", None)
        if kept is None:
            kept = np.array(tuple(self.numbers()), np.int64)
            kept.flags.writeable = False
            object.__setattr__(self, "_array", kept)
        return kept

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
        """Whether the test holds of one example: by the same steps, whichever it is."""

    @abstractmethod
    def column(self, columns: Columns) -> Truths:
        """Whether the test holds, for each of many examples."""


class BaseNumber(Expression):
    """An expression that is an integer on every example."""

    @abstractmethod
    def bounds(self, schema: Schema) -> Bounds:
        """The least and the largest value that it can take; refuses what this schema cannot answer."""

    @abstractmethod
    def value(self, example: Example) -> np.int64:
        """The number's value on one example: by the same steps, whichever it is."""

    @abstractmethod
    def column(self, columns: Columns) -> Integers:
        """The number's values on many examples."""


def bits_field(node: Expression, schema: Schema, name: str) -> BitsField:
    """The field of this name, if it is a bit vector."""
    field = schema.field(name)
    if not isinstance(field, BitsField):
        raise node.refuse(f"{name!r} is not a bit vector")
    return field


def product(example: Example, name: str, weights: Integers, first: int = 0) -> np.int64:
    """Σ weight · bit over the bits first, first + 1, … of a vector."""
    total: np.int64 = example.bits(name)[first : first + len(weights)].dot(weights)
    return total


@lru_cache(maxsize=1 << 12)
def wide(constant: int) -> np.int64:
    """A constant of a query in 64 bits, made once. Never a value: which ones are kept would be seen."""
    return np.int64(constant)


def clamp(value: np.int64, low: int, high: int) -> np.int64:
    """The value, or the nearer end where it lies outside low .. high; as wide as the value is."""
    return min(max(value, wide(low)), wide(high))


def bit_column(words: NDArray[Any], index: int) -> Integers:
    """One bit of every example, from its word."""
    return (words[index // 64] >> np.uint64(index % 64) & np.uint64(1)).astype(np.int64)
