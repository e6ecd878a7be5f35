"""Labelled bits, which several strategies learn from, and what all of these ask of each bit."""

from __future__ import annotations

from typing import Final

from askance_protocol import parameters as read
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import Affine, AnyNumber, FieldValue, Slice, Term
from askance_protocol.schema import BitsField, LabelField, Schema
from askance_server.core.strategy import Parameters

MOST: Final = 512
"""Bits that each round asks about one by one."""


def width(parameters: Parameters) -> int:
    """d, how many bits x has."""
    return read.whole(parameters, "d", 1, MOST)


def schema(parameters: Parameters) -> Schema:
    """An x of d bits and a label y."""
    return Schema(fields=(BitsField(name="x", width=width(parameters)), LabelField(name="y")))


def joint(i: int, leaf: AnyNumber, leaves: int) -> CellQuery:
    """Who is in which leaf, with which label and which x_i: cell 4·leaf + (y + 1) + x_i. A leaf −1 is none of them."""
    bit = Slice(field="x", first=i, width=1)
    terms = (4, leaf), (1, FieldValue(field="y")), (1, bit)
    cell = Affine(constant=1, terms=tuple(Term(weight=weight, of=of) for weight, of in terms))
    return CellQuery(cells=4 * leaves, cell=cell)
