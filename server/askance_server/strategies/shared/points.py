"""Points of the cube [−1, 1]^d, for several strategies: planes, a grid, the nearest of some centres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from askance_protocol.arrays import Floats
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import Affine, And, AnyNumber, AnyTest, Compare, FieldValue, If, Integer, Term
from askance_protocol.schema import RealField
from askance_server.core.strategy import Parameters
from askance_server.strategies.mean import denominator

GRID: Final = 4
"""Cells along each side of the cube."""
Centre = Sequence[int]
"""In numerators, as all that is asked of a point."""


def cube(parameters: Parameters, d: int) -> tuple[RealField, ...]:
    """Reals x0, x1, … in [−1, 1]."""
    one = denominator(parameters)
    return tuple(RealField(name=f"x{j}", low=-1, high=1, denominator=one) for j in range(d))


def form(weights: Mapping[int, int], constant: int = 0) -> AnyNumber:
    """Sum constant + Σ weight_j · x_j over the named coordinates."""
    terms = tuple(Term(weight=weight, of=FieldValue(field=f"x{j}")) for j, weight in weights.items())
    return Affine(constant=constant, terms=terms)


def closer(to: Centre, than: Centre) -> AnyTest:
    """Whether |x − to|² ≤ |x − than|²: affine in x, as the squares of x cancel."""
    weights = {j: 2 * (b - a) for j, (a, b) in enumerate(zip(to, than, strict=True))}
    score = form(weights, sum(a * a for a in to) - sum(b * b for b in than))
    return Compare(left=score, relation="<=", right=Integer(of=0))


def nearest(centres: Sequence[Centre], first: int = 0) -> AnyNumber:
    """Index of the nearest centre, counted from the first; the lowest index of several equally near."""
    others = centres[first + 1 :]
    if not others:
        return Integer(of=first)
    test = And(of=tuple(closer(centres[first], other) for other in others))
    return If(test=test, then=Integer(of=first), otherwise=nearest(centres, first + 1))


def grid(d: int, one: int) -> CellQuery:
    """Cell of a grid: Σ GRID^j · (number of cuts that x_j has passed)."""
    cuts = [2 * one * cut // GRID - one for cut in range(1, GRID)]
    passed = [(j, Compare(left=form({j: 1}), relation=">=", right=Integer(of=cut))) for j in range(d) for cut in cuts]
    one_each = [(GRID**j, If(test=test, then=Integer(of=1), otherwise=Integer(of=0))) for j, test in passed]
    terms = tuple(Term(weight=weight, of=of) for weight, of in one_each)
    return CellQuery(cells=GRID**d, cell=Affine(terms=terms))


def start(shares: Floats, k: int, d: int) -> Floats:
    """Middles of grid cells: the fullest, then k − 1 times a full one far from those chosen before."""
    cells = np.arange(len(shares))[:, np.newaxis] // GRID ** np.arange(d) % GRID
    middles = (2 * cells + 1) / GRID - 1
    chosen = [int(shares.argmax())]
    while len(chosen) < k:
        away = ((middles[:, np.newaxis] - middles[chosen]) ** 2).sum(axis=2).min(axis=1)
        chosen.append(int((shares * away).argmax()))
    return middles[chosen]
