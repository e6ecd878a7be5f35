"""POINT and INTERVAL by statistical queries, so that they can be learned in the local model (KLNRS11, Thm 5.7).

No text spells these learners out. POINT takes d nonadaptive queries. INTERVAL takes d adaptive ones, a bisection; or
all dyadic intervals at once, a cell query for each of the d lengths: KLNRS11's LNI = NASQ says that this suffices.
"""

from __future__ import annotations

from math import log
from typing import Final

import numpy as np

from askance_lab.theory.masked_parity import shrinkage
from askance_protocol import checks
from askance_protocol import parameters as read
from askance_protocol.queries import CellQuery, RealQuery
from askance_protocol.queries.language import (
    And,
    AnyTest,
    Bit,
    Compare,
    If,
    Integer,
    Label,
    Not,
    Slice,
)
from askance_protocol.schema import BitsField, LabelField, Schema
from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters, Strategy

_POSITIVE: Final = Label(sign=1)
_DEEPEST: Final = 16
"""2^16 cells are as many as one query has."""


def schema(parameters: Parameters) -> Schema:
    """An x of d bits, and its label."""
    read.only(parameters, "d", "alpha")
    return Schema(fields=(BitsField(name="x", width=_dimension(parameters)), LabelField(name="y")))


def _dimension(parameters: Parameters) -> int:
    return read.whole(parameters, "d", 1, 40)


def _alpha(parameters: Parameters) -> float:
    return float(read.decimal(parameters, "alpha", below=1, default="0.1"))


def _signed(plus: AnyTest, minus: AnyTest) -> RealQuery:
    """Ask for +1 where one test holds, −1 where another does, else 0."""
    otherwise = If(test=minus, then=Integer(of=-1), otherwise=Integer(of=0))
    return RealQuery(numerator=If(test=plus, then=Integer(of=1), otherwise=otherwise), denominator=1)


# ------------------------------------------------------------------------------------------------------------- POINT


def of_bit(i: int) -> RealQuery:
    """Ask positive examples, which are all alike, for their bit i."""
    one = Bit(field="x", index=i)
    return _signed(And(of=(_POSITIVE, one)), And(of=(_POSITIVE, Not(of=one))))


def run_point(parameters: Parameters) -> Asking:
    """Learn a point: the sign of each mean is a bit of it, if it has mass α; if it has not, any point will do."""
    answers = yield [Ask(of_bit(i), _alpha(parameters)) for i in range(_dimension(parameters))]
    point = sum(int(float(answer) > 0) << i for i, answer in enumerate(answers))
    return Hypothesis(f"x = {point}", {"point": point})


# ---------------------------------------------------------------------------------------------------------- INTERVAL


def beside(d: int, t: int) -> RealQuery:
    """Ask for +1 for a positive example at t or above, −1 for a negative one below: its mean is ± the error of c_t."""
    above = Compare(left=Slice(field="x", first=0, width=d), relation=">=", right=Integer(of=t))
    return _signed(And(of=(above, _POSITIVE)), And(of=(Not(of=above), Not(of=_POSITIVE))))


def run_bisection(parameters: Parameters) -> Asking:
    """Learn a threshold by halving [0, 2^d] d + 1 times.

    The sign says on which side the threshold is. In between c_t is good anyway.
    """
    d, alpha = _dimension(parameters), _alpha(parameters)
    low, high = 0, 2**d
    while low < high:
        middle = (low + high) // 2
        [answer] = yield [Ask(beside(d, middle), alpha)]
        # A mean near 0 says that c_middle hardly errs: and then so does whatever the search ends on.
        low, high = (middle + 1, high) if float(answer) > alpha / 2 else (low, middle)
    return Hypothesis(f"x < {low}", {"threshold": low})


def of_length(d: int, length: int) -> CellQuery:
    """Ask in which interval of 2^length numbers x lies; negative examples count −1."""
    return CellQuery(
        cells=max(2 ** (d - length), 1),
        cell=Slice(field="x", first=length, width=d - length),
        negative=Not(of=_POSITIVE),
    )


def run_dyadic(parameters: Parameters) -> Asking:
    """Learn a threshold at once, from sums over dyadic intervals.

    The mean of y below t is a sum over d of them at most; c_t errs least where it is largest.
    """
    d = read.whole(parameters, "d", 1, _DEEPEST)
    answers = yield [Ask(of_length(d, length), _alpha(parameters) / d) for length in range(d)]
    size = int(2**d)
    below = np.zeros(size + 1)
    t = np.arange(size)
    for length, answer in enumerate(answers):
        cells = np.asarray(answer)
        # The interval that ends where bit `length` of t is cleared.
        ends_here = (t >> length & 1) == 1
        below[:-1][ends_here] += cells[(t[ends_here] >> length) - 1]
    below[-1] = float(np.asarray(answers[d - 1]).sum())
    threshold = int(np.argmax(below))
    return Hypothesis(f"x < {threshold}", {"threshold": threshold})


def users_dyadic(d: int, epsilon: float, error: float, failure: float) -> int:
    """Count users until all of `run_dyadic`'s cells are within α/2d, so that every sum of d of them is within α/2.

    A length takes m users. A cell's estimate is the mean of m reports ±C, C = (e^ε+1)/(e^ε−1), so by Hoeffding it fails
    with 2e^{−m(α/2d)²/2C²}; there are fewer than 2^{d+1} cells: n = d·m = (8C²d³/α²)·ln(2^{d+2}/β).
    """
    cells = (d + 2) * log(2) - log(checks.open_unit("failure", failure))
    return checks.whole(8 * shrinkage(epsilon=epsilon) ** 2 * d**3 / checks.open_unit("error", error) ** 2 * cells)


POINT: Final = Strategy("point-bits", "A point, bit by bit", False, 1, schema, run_point)
DYADIC: Final = Strategy("interval-dyadic", "A threshold from all dyadic intervals", False, 1, schema, run_dyadic)


def bisection(d: int) -> Strategy:
    """Make the strategy of bisection: 2^d + 1 thresholds take d + 1 rounds at most, which share the users evenly."""
    return Strategy("interval-bisection", "A threshold by bisection", True, d + 1, schema, run_bisection)
