"""Questions that are alike, answered together: for many users, each of whom is asked another one of them.

Theory of operation
-------------------
The parts of a round mostly ask the same of another constant: of another bit of x, or whether i = j for another j. So
queries are laid over each other, node by node (`alike`). Where all say the same, the node stays; where they differ in a
constant, a node stands in that holds the constants of all (`_EACH`), and takes for each user the one of the query that
she was dealt. What comes out is one query, evaluated once, however many it was made of.

Which query that is stands in a column of its own, `DEALT`, beside the fields of the examples; nodes above it need not
know. Queries that differ in more than such constants are not alike, and are answered one by one: the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers, Truths
from askance_protocol.examples import Column, Columns, words_of
from askance_protocol.queries.language import Bit, Expression, Integer, Parity, Slice, Term
from askance_protocol.queries.query import BooleanQuery, CellQuery, RealQuery
from askance_protocol.values import Value

AnyQuery = BooleanQuery | RealQuery | CellQuery
Q = TypeVar("Q", bound=AnyQuery)

DEALT: Final = "dealt to"
"""The column of which of the queries each user is asked. No field has a name with a blank."""


def alike(queries: Sequence[AnyQuery]) -> AnyQuery | None:
    """One query in place of all, for columns that have `DEALT`; None where they differ in more than constants."""
    try:
        return cast("AnyQuery", _laid_over(queries))
    except _UnlikeError:
        return None


def dealt_to(columns: Columns, dealt: NDArray[np.integer[Any]]) -> Columns:
    """The same examples, with the number of the query that each is asked."""
    return Columns(columns.schema, {**columns.arrays, DEALT: cast("Column", dealt)}, len(columns))


class _UnlikeError(Exception):
    """Queries that differ in more than constants."""


def _laid_over(nodes: Sequence[Value]) -> Any:
    first = nodes[0]
    if any(type(node) is not type(first) for node in nodes):
        raise _UnlikeError
    names = list(type(first).model_fields)
    columns = {name: [getattr(node, name) for node in nodes] for name in names}
    differing = [name for name in names if not _is_node(columns[name][0]) and _differ(columns[name])]
    if differing:
        each = _EACH.get((type(first), *differing))
        if each is None:
            raise _UnlikeError
        return each(nodes)
    below = {name: _below(values) for name, values in columns.items()}
    return type(first).model_construct(**below)


def _below(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, Value):
        return _laid_over(values)
    if _is_node(first):
        if any(len(each) != len(first) for each in values):
            raise _UnlikeError
        return tuple(_laid_over(some) for some in zip(*values, strict=True))
    return first


def _is_node(value: Any) -> bool:
    """Whether a member holds a node, or several."""
    held = cast("tuple[Any, ...]", value)[:1] if isinstance(value, tuple) else (value,)
    return any(isinstance(each, Expression | Term) for each in held)


def _differ(values: Sequence[Any]) -> bool:
    return any(value != values[0] for value in values)


class _Each:
    """A node that has a constant for each of the queries."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.first = nodes[0]
        self.constants = self.of(nodes)

    def of(self, nodes: Sequence[Any]) -> NDArray[Any]:
        raise NotImplementedError

    def mine(self, columns: Columns) -> NDArray[Any]:
        """The constant of each user."""
        return self.constants.take(columns[DEALT], axis=-1)


class _EachInteger(_Each):
    def of(self, nodes: Sequence[Integer]) -> NDArray[Any]:
        return np.array([node.of for node in nodes], np.int64)

    def column(self, columns: Columns) -> Integers:
        return self.mine(columns)


class _EachBit(_Each):
    def of(self, nodes: Sequence[Bit]) -> NDArray[Any]:
        return np.array([node.index for node in nodes], np.uint64)

    def column(self, columns: Columns) -> Truths:
        return _bits_at(columns[self.first.field], self.mine(columns)).astype(np.bool)


class _EachSlice(_Each):
    def of(self, nodes: Sequence[Slice]) -> NDArray[Any]:
        return np.array([node.first for node in nodes], np.uint64)

    def column(self, columns: Columns) -> Integers:
        words, first = columns[self.first.field], self.mine(columns)
        total = np.zeros(len(columns), np.uint64)
        for bit in range(self.first.width):
            total |= _bits_at(words, first + np.uint64(bit)) << np.uint64(bit)
        return total.view(np.int64)


class _EachParity(_Each):
    def of(self, nodes: Sequence[Parity]) -> NDArray[Any]:
        masks = [int(node.mask, 16) for node in nodes]
        width = max(mask.bit_length() for mask in masks)
        return np.array([words_of(mask, width) for mask in masks], np.uint64).T

    def column(self, columns: Columns) -> Truths:
        folded = np.zeros(len(columns), np.uint64)
        for word, mask in zip(columns[self.first.field], self.mine(columns), strict=False):
            folded ^= word & mask
        return (np.bitwise_count(folded) & np.uint8(1)).view(np.bool)


_EACH: Final[Mapping[tuple[Any, ...], Callable[[Sequence[Any]], Any]]] = {
    (Integer, "of"): _EachInteger,
    (Bit, "index"): _EachBit,
    (Slice, "first"): _EachSlice,
    (Parity, "mask"): _EachParity,
}
"""The constants that may differ: of which node, and which."""


def _bits_at(words: NDArray[Any], index: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The bit at an index of its own of every example."""
    if len(words) == 1:
        return words[0] >> index & np.uint64(1)
    held = words[(index >> np.uint64(6)).view(np.int64), np.arange(words.shape[1])]
    return held >> (index & np.uint64(63)) & np.uint64(1)
