"""Points of the cube [−1, 1]^d, for several strategies: affine forms, and which of some centres is the nearest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from askance_protocol.arrays import Floats
from askance_protocol.queries import RealQuery
from askance_protocol.queries.language import (
    Affine,
    And,
    AnyNumber,
    AnyTest,
    Compare,
    Constant,
    FieldValue,
    If,
    Integer,
    Or,
    Term,
)
from askance_protocol.schema import RealField
from askance_server.core.strategy import Parameters
from askance_server.strategies.mean import denominator

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


def closer(to: Centre, than: Centre, relation: Literal["<=", "<"] = "<=") -> AnyTest:
    """Whether |x − to|² ≤ |x − than|², or is below it: affine in x, as the squares of x cancel."""
    weights = {j: 2 * (b - a) for j, (a, b) in enumerate(zip(to, than, strict=True))}
    score = form(weights, sum(a * a for a in to) - sum(b * b for b in than))
    return Compare(left=score, relation=relation, right=Integer(of=0))


def belongs(to: int, centres: Sequence[Centre]) -> AnyTest:
    """Whether this centre is the nearest; of several the first, as `nearest` has it."""
    tests = [closer(centres[to], each, "<" if c < to else "<=") for c, each in enumerate(centres) if c != to]
    return And(of=tuple(tests))


def nearest(centres: Sequence[Centre], first: int = 0) -> AnyNumber:
    """Index of the nearest centre, counted from the first; the lowest index of several equally near."""
    others = centres[first + 1 :]
    if not others:
        return Integer(of=first)
    test = And(of=tuple(closer(centres[first], other) for other in others))
    return If(test=test, then=Integer(of=first), otherwise=nearest(centres, first + 1))


def together(k: int) -> int:
    """Number of questions by which the k sums of a coordinate are asked at once: a power of two."""
    return 1 << (k - 1).bit_length()


def pulls(j: int, centres: Sequence[Centre], one: int) -> list[RealQuery]:
    """x_j with a sign by the nearest centre, for each row of Hadamard's matrix: all users answer about every centre."""
    k, x, minus = len(centres), form({j: 1}), form({j: -1})
    asked = list[RealQuery]()
    for row in range(together(k)):
        negative = [c for c in range(k) if (row & c).bit_count() % 2]
        fewer, turned = (negative, False) if 2 * len(negative) <= k else (sorted({*range(k)} - {*negative}), True)
        test = Or(of=tuple(belongs(c, centres) for c in fewer)) if fewer else Constant(truth=False)
        then, otherwise = (x, minus) if turned else (minus, x)
        asked.append(
            RealQuery(numerator=If(test=test, then=then, otherwise=otherwise) if fewer else otherwise, denominator=one)
        )
    return asked


def signs(k: int) -> Floats:
    """Signs of the k sums in each of these questions: the first columns of Hadamard's matrix."""
    rows = np.arange(together(k))
    return 1.0 - 2.0 * (np.bitwise_count(rows[:, np.newaxis] & rows[:k]) % 2)
