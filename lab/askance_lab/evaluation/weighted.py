"""Weighted examples and the distribution of a query's answers on them, which every oracle in process uses.

An answer of one example is an integer (0 or 1; a numerator; 0 or ±(cell + 1)). All that an oracle needs to know of many
examples is how often each integer came: a *histogram*, whose entry k stands for the integer k + lowest(query).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Floats, Truths
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Column, Columns
from askance_protocol.queries import BooleanQuery, CellQuery, PreparedQuery, RealQuery
from askance_server.core.strategy import Answer

AnyQuery: TypeAlias = BooleanQuery | RealQuery | CellQuery


@dataclass(frozen=True, slots=True, eq=False)
class WeightedExamples:
    """Examples, each with a probability or a count; weights of None count each once."""

    columns: Columns
    weights: NDArray[Any] | None = None

    def flipped(self, where: Truths | None = None) -> WeightedExamples:
        """The same examples with the other label, everywhere or at some places."""
        return replace(self, columns=flip(self.columns, where))


def flip(columns: Columns, where: Truths | None = None) -> Columns:
    """The other label, everywhere or at some places."""
    field = columns.schema.label
    if field is None:
        raise ProtocolError("the examples have no label", where="oracle", remedy="choose another oracle")
    label = columns[field.name]
    turned: Column = -label.astype(np.int64) if where is None else np.where(where, -label.astype(np.int64), label)
    return Columns(columns.schema, {**columns.arrays, field.name: turned}, columns.count)


def lowest(query: AnyQuery) -> int:
    """Integer that entry 0 of a histogram counts. The range is symmetric, except a boolean's."""
    match query:
        case BooleanQuery():
            return 0
        case RealQuery(denominator=denominator):
            return -denominator
        case CellQuery(cells=cells):
            return -cells


def size(query: AnyQuery) -> int:
    """Number of possible integer answers."""
    return 2 if isinstance(query, BooleanQuery) else 1 - 2 * lowest(query)


def histogram(query: PreparedQuery, examples: WeightedExamples) -> NDArray[Any]:
    """Frequency or probability of each integer answer."""
    places = query.answers(examples.columns) - lowest(query.query)
    return np.bincount(places, weights=examples.weights, minlength=size(query.query))


def gathered(query: PreparedQuery, portion: Iterable[WeightedExamples]) -> Floats:
    """Histogram of all examples of a portion."""
    total = np.zeros(size(query.query))
    for some in portion:
        total += histogram(query, some)
    return total


def mean(query: AnyQuery, counts: NDArray[Any]) -> Answer:
    """Expectation of the query under a histogram; for a cell query, of every cell."""
    whole = float(counts.sum())
    match query:
        case BooleanQuery():
            return float(counts[1]) / whole
        case RealQuery(denominator=denominator):
            return float(counts @ np.arange(-denominator, denominator + 1)) / denominator / whole
        case CellQuery(cells=cells):
            return signed(counts, cells) / whole


def signed(counts: NDArray[Any], cells: int) -> Floats:
    """For each cell, its count with a plus less its count with a minus."""
    shares: Floats = (counts[cells + 1 :] - counts[:cells][::-1]).astype(np.float64)
    return shares
