"""Nodes of a query: a test or a number, evaluated for one example and for columns of many.

Theory of operation
-------------------
A query that failed on some example would leak by its silence. So the language is total: after `prepare` has checked
an expression against a schema, no example makes it raise, overflow or loop.

- There are integers and truth values only. No division, no recursion, no floats.
- `bounds` computes, from the schema alone, between which integers each number lies, and refuses what could leave
  ±(2⁵³ − 1): then Python integers, int64 columns and a browser's numbers all compute the same.
- A lookup outside its table gives the declared default.

Each expression is one frozen class with its JSON form as fields, `value` for one example and `column` for many.
`bounds` and `check` read only public data.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
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

    def parts(self) -> Iterator[Expression]:
        """The nodes directly below this one."""
        return iter(())

    def entries(self) -> int:
        """The number of table entries and weights that this node carries."""
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
        """Whether the test holds of one example."""

    @abstractmethod
    def column(self, columns: Columns) -> Truths:
        """Whether the test holds, for each of many examples."""


class BaseNumber(Expression):
    """An expression that is an integer on every example."""

    @abstractmethod
    def bounds(self, schema: Schema) -> Bounds:
        """The least and the largest value that it can take; refuses what this schema cannot answer."""

    @abstractmethod
    def value(self, example: Example) -> int:
        """The number's value on one example."""

    @abstractmethod
    def column(self, columns: Columns) -> Integers:
        """The number's values on many examples."""


def bits_field(node: Expression, schema: Schema, name: str) -> BitsField:
    """The field of this name, if it is a bit vector."""
    field = schema.field(name)
    if not isinstance(field, BitsField):
        raise node.refuse(f"{name!r} is not a bit vector")
    return field


def bit_column(words: NDArray[Any], index: int) -> Integers:
    """One bit of every example, from its word."""
    return (words[index // 64] >> np.uint64(index % 64) & np.uint64(1)).astype(np.int64)
