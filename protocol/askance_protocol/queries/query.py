"""A statistical query (KLNRS11, Def. 5.4), as it is published: what is asked of one example.

- boolean: g: D → {0, 1}, a test.
- real: g: D → [−1, 1], an integer over a declared denominator, clamped to it.
- cell: g: D → {none, cell 0, …, cell m − 1}, with an optional sign: m queries of which at most one is not zero.

An answer is one integer: 0 or 1; the numerator; or 0 for none and ±(cell + 1) for a cell.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np
from pydantic import Field, TypeAdapter

from askance_protocol.arrays import Integers
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns, Example
from askance_protocol.queries.language import (
    MAX_ENTRIES,
    AnyNumber,
    AnyTest,
    Expression,
)
from askance_protocol.queries.nodes import clamp
from askance_protocol.schema import Schema
from askance_protocol.values import Value, read_exactly

MAX_NODES: Final = 256
MAX_DEPTH: Final = 16
MAX_CELLS: Final = 1 << 16
MAX_DENOMINATOR: Final = 1 << 17


class _AnyQuery(Value):
    """What is asked of one example."""

    @abstractmethod
    def value(self, example: Example) -> np.int64:
        """The answer for one example in 64 bits, by the same steps whichever it is: what a report is made of."""

    def answer(self, example: Example) -> int:
        """The answer for one example."""
        return int(self.value(example))


class BooleanQuery(_AnyQuery):
    """Whether a test holds."""

    kind: Literal["boolean"] = "boolean"
    test: AnyTest

    def roots(self) -> Iterator[Expression]:
        """The expressions that are evaluated."""
        yield self.test

    def check(self, schema: Schema) -> None:
        """Refuse what this schema cannot answer."""
        self.test.check(schema)

    def value(self, example: Example) -> np.int64:
        """One if the test holds, else zero."""
        return np.int64(self.test.value(example))

    def answers(self, columns: Columns) -> Integers:
        """One or zero for each example."""
        return self.test.column(columns).astype(np.int64)

    def inputs(self, schema: Schema) -> int:  # noqa: ARG002 - the other queries need it
        """The number of inputs of a channel that has one for each answer."""
        return 2

    def input_of(self, answer: Any) -> Any:
        """The number of an answer, or of each of an array of them, among these inputs."""
        return answer


class RealQuery(_AnyQuery):
    """A value in [−1, 1]."""

    kind: Literal["real"] = "real"
    numerator: AnyNumber
    denominator: Annotated[int, Field(ge=1, le=MAX_DENOMINATOR)]

    def roots(self) -> Iterator[Expression]:
        """The expressions that are evaluated."""
        yield self.numerator

    def check(self, schema: Schema) -> None:
        """Refuse what this schema cannot answer."""
        self.numerator.bounds(schema)

    def value(self, example: Example) -> np.int64:
        """The numerator, clamped."""
        return clamp(self.numerator.value(example), -self.denominator, self.denominator)

    def answers(self, columns: Columns) -> Integers:
        """The clamped numerator of each example."""
        return self.numerator.column(columns).clip(-self.denominator, self.denominator)

    def inputs(self, schema: Schema) -> int:  # noqa: ARG002 - the other queries need it
        """The number of inputs of a channel that has one for each numerator."""
        return 2 * self.denominator + 1

    def input_of(self, answer: Any) -> Any:
        """The number of a numerator, or of each of an array of them, among these inputs."""
        return answer + self.denominator


class CellQuery(_AnyQuery):
    """Which cell of a partition the example lies in, and with which sign."""

    kind: Literal["cell"] = "cell"
    cells: Annotated[int, Field(ge=1, le=MAX_CELLS)]
    cell: AnyNumber
    negative: AnyTest | None = None
    """Where it holds, the example counts −1 in its cell."""

    def roots(self) -> Iterator[Expression]:
        """The expressions that are evaluated."""
        yield self.cell
        if self.negative is not None:
            yield self.negative

    def check(self, schema: Schema) -> None:
        """Refuse what this schema cannot answer."""
        self.cell.bounds(schema)
        if self.negative is not None:
            self.negative.check(schema)

    def value(self, example: Example) -> np.int64:
        """Zero for none; else the number of the cell, counted from one, with its sign."""
        cell = self.cell.value(example)
        inside = (cell >= 0) & (cell < self.cells)
        sign = 1 if self.negative is None else 1 - 2 * self.negative.value(example)
        return (cell + 1) * inside * sign

    def answers(self, columns: Columns) -> Integers:
        """The signed cell number of each example, zero for none."""
        cell = self.cell.column(columns)
        answers = np.where((cell >= 0) & (cell < self.cells), cell + 1, 0)
        return answers if self.negative is None else np.where(self.negative.column(columns), -answers, answers)

    def always_inside(self, schema: Schema) -> bool:
        """Whether each example lies in a cell."""
        low, high = self.cell.bounds(schema)
        return low >= 0 and high < self.cells

    def inputs(self, schema: Schema) -> int:
        """The number of inputs of a channel that names cells. It has none for an example that lies in no cell."""
        if not self.always_inside(schema):
            low, high = self.cell.bounds(schema)
            raise ProtocolError(
                f"the cell lies in {low} .. {high}, not always in 0 .. {self.cells - 1}",
                where="query.cell",
                remedy="clamp it, or use a binary channel, which has an answer for no cell",
            )
        return self.cells if self.negative is None else 2 * self.cells

    def input_of(self, answer: Any) -> Any:
        """The number of a cell with its sign, or of each of an array of them, among these inputs."""
        return answer - 1 if self.negative is None else 2 * (abs(answer) - 1) + (answer < 0)


Query: TypeAlias = Annotated[BooleanQuery | RealQuery | CellQuery, Field(discriminator="kind")]
QUERY: Final[TypeAdapter[BooleanQuery | RealQuery | CellQuery]] = TypeAdapter(Query)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a query costs to evaluate, known before it is."""

    nodes: int
    depth: int
    entries: int


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """A query that this schema can answer, within the limits. Only `prepare` should make one."""

    query: BooleanQuery | RealQuery | CellQuery
    schema: Schema
    cost: Cost

    def answer(self, example: Example) -> int:
        """The answer for one example."""
        return int(self.value(example))

    def value(self, example: Example) -> np.int64:
        """The answer in 64 bits, by the same steps whichever it is: what a report is made of."""
        _same(self.schema, example.schema)
        return self.query.value(example)

    def answers(self, columns: Columns) -> Integers:
        """The answers for many examples."""
        _same(self.schema, columns.schema)
        return self.query.answers(columns)

    def of_alike(self, query: BooleanQuery | RealQuery | CellQuery) -> PreparedQuery:
        """A query that stands for this one and others, all prepared for this schema (`together`)."""
        return replace(self, query=query)


def read_query(data: bytes | str) -> BooleanQuery | RealQuery | CellQuery:
    """A query from its published form, as it stands in a round: with every member, defaults too."""
    return read_exactly(QUERY, data, limit=1 << 18)


def prepare(query: BooleanQuery | RealQuery | CellQuery, schema: Schema) -> PreparedQuery:
    """Check a query against its schema and the limits. What passes is total."""
    cost = measure(query)
    for what, count, limit in (
        ("nodes", cost.nodes, MAX_NODES),
        ("levels", cost.depth, MAX_DEPTH),
        ("table entries", cost.entries, MAX_ENTRIES),
    ):
        if count > limit:
            raise ProtocolError(
                f"has {count} {what}, over the limit of {limit}", where="query", remedy="ask less at once"
            )
    query.check(schema)
    return PreparedQuery(query, schema, cost)


def measure(query: BooleanQuery | RealQuery | CellQuery) -> Cost:
    """Count nodes, levels and table entries."""
    nodes = depth = entries = 0
    level = list(query.roots())
    while level:
        depth += 1
        nodes += len(level)
        entries += sum(node.entries() for node in level)
        level = [part for node in level for part in node.parts()]
    return Cost(nodes, depth, entries)


def _same(schema: Schema, other: Schema) -> None:
    if schema is not other and schema != other:
        raise ProtocolError("is of another schema", where="example", remedy="prepare the query for this schema")
