"""Labelled bits: the schema that several strategies learn from, and the query that all of them ask of each bit."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.arrays import Truths
from askance_protocol.concepts import Concept
from askance_protocol.examples import Columns
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import Affine, AnyNumber, Clamp, FieldValue, Slice, Term
from askance_protocol.schema import BitsField, LabelField, Schema
from askance_server.core.strategy import Parameters

MOST: Final = 512
"""Bits that each round asks about one by one."""
LISTED: Final = 14
"""Bits of which all values are gone through."""


def width(parameters: Parameters) -> int:
    """d, the number of bits of x."""
    return read.whole(parameters, "d", 1, MOST)


def schema(parameters: Parameters) -> Schema:
    """An x of d bits and a label y."""
    return Schema(fields=(BitsField(name="x", width=width(parameters)), LabelField(name="y")))


def joint(i: int, leaf: AnyNumber, leaves: int, *, others: bool = True) -> CellQuery:
    """Cell 4·leaf + (y + 1) + x_i: leaf, label and x_i of the example. Leaf `leaves` is one last cell, if there is one.

    So every example is in a cell, and any channel can ask for it.
    """
    bit = Slice(field="x", first=i, width=1)
    terms = (4, leaf), (1, FieldValue(field="y")), (1, bit)
    cell = Affine(constant=1, terms=tuple(Term(weight=weight, of=of) for weight, of in terms))
    if not others:
        return CellQuery(cells=4 * leaves, cell=cell)
    return CellQuery(cells=4 * leaves + 1, cell=Clamp(of=cell, low=0, high=4 * leaves))


def disagreement(bits: set[int], truth: Concept, predicted: Callable[[Columns], Truths]) -> Fraction | None:
    """Share of all values of some bits on which two predictions differ; None if there are too many values."""
    if len(bits) > LISTED:
        return None
    x = np.zeros((2 ** len(bits), max(bits, default=0) + 1), np.uint8)
    for place, index in enumerate(sorted(bits)):
        x[:, index] = np.arange(len(x)) >> place & 1
    columns = Columns.of(Schema(fields=(BitsField(name="x", width=x.shape[1]),)), {"x": x})
    wrong = predicted(columns) != truth.positive(columns.arrays)
    return Fraction(int(wrong.sum()), len(x))
