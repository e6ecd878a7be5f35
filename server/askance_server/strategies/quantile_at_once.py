"""A quantile from one round, by the differences of halves: what `quantile` finds in rounds, asked at once.

Theory of operation
-------------------
The values are cut in two, each half in two, and so on, L times. Of the piece v that a user is in at one depth, she
tells in which half of it she is: a cell query whose cells are the pieces, signed by the half, so that cell v's signed
share is d(v) = p(left half) − p(right half). This is the wavelet of Haar (Cormode, Kulkarni and Srivastava 2019,
Proc. VLDB 12(10), §4.6, ask it of range queries). Each depth has users of its own, as many as every other.

With p(v) the share of a piece, p(left half) = (p(v) + d(v))/2. So F(m), a sum of left halves, is linear in the d(v) of
the pieces that m is in: with b_1 b_2 … the binary digits of m + 1 (counted from the lowest value) and g_k = 0.b_{k+1}
b_{k+2} …, the factor of the k-th is |b_k − g_k|/2. Errors of at most τ each are S·τ at most in F, S the largest sum of
such factors, about L/3; with τ = α/S a v with F̂(v − 1) < q ≤ F̂(v) is within α of its rank. That is planned for, and is
more than it takes: noise has random signs (`benchmarks/rounds.py` measures it).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from askance_protocol.arrays import Floats
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import Affine, Compare, FieldValue, Integer, Lookup, Term
from askance_server.core.strategy import Ask, Asking
from askance_server.strategies.shared.quantiles import NumberField, Target, hypothesis, quantile

MOST: Final = 4095
"""Values: a table for the pieces and one for the halves have to fit into a query."""


def depths(field: NumberField) -> int:
    """How often the values are halved."""
    return (field.most - field.least).bit_length()


def halves(field: NumberField, depth: int) -> CellQuery:
    """The piece of the 2^depth that the value is in; negative in its upper half."""
    place = Affine(constant=-field.least, terms=(Term(weight=1, of=FieldValue(field=field.name)),))
    values, shift = range(field.most - field.least + 1), depths(field) - depth
    upper = Lookup(index=place, table=tuple(value >> (shift - 1) & 1 for value in values))
    return CellQuery(
        cells=1 << depth,
        cell=Lookup(index=place, table=tuple(value >> shift for value in values)),
        negative=Compare(left=upper, relation="=", right=Integer(of=1)),
    )


def shares_of(differences: Sequence[Floats]) -> Floats:
    """The share of each value, from the differences of the halves, the whole first."""
    shares = np.ones(1)
    for each in differences:
        shares = np.stack([shares + each, shares - each], axis=1).ravel() / 2
    return shares


def worst_sum(field: NumberField) -> float:
    """S: the largest sum of the factors with which the differences stand in the share of the values up to some m."""
    count, ends = depths(field), np.arange(1 << depths(field))
    total = np.zeros(len(ends))
    for shift in range(count):
        rest = ends % (1 << shift) / (1 << shift)
        total += np.abs((ends >> shift & 1) - rest) / 2
    return float(total.max())


def asking(target: Target) -> Asking:
    """All depths at once."""
    field = target.field
    tau = float(target.alpha) / worst_sum(field)
    answers = yield [Ask(halves(field, depth), tau) for depth in range(depths(field))]
    shares = shares_of([np.atleast_1d(answer) for answer in answers])[: field.most - field.least + 1]
    reached = np.flatnonzero(shares.cumsum() >= float(target.q))
    held = field.least + int(reached[0] if len(reached) else len(shares) - 1)
    return hypothesis(target, held)


QUANTILE_AT_ONCE: Final = quantile(
    "quantile-at-once", "A quantile, from one round", asking, rounds=1, most=MOST, gaps=False
)
