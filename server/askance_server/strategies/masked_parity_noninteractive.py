"""MASKED-PARITY in one round, with about 2^d users: the cost of doing without a second round (KLNRS11, Thm 5.16)."""

from __future__ import annotations

from typing import Final

import numpy as np

from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import And, AnyTest, Bit, FieldValue, If, Integer, Not, Or, Xor
from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.strategies.masked_parity import MINUS, SHOWN, dimension, error, predict, promise, schema
from askance_server.strategies.masked_parity_two_rounds import signs


def bent(d: int) -> AnyTest:
    """Bent function B(x) = x_0·x_1 ⊕ x_2·x_3 ⊕ …: E[(−1)^{B(x) + r⊙x}] = (−1)^{B(r)}·2^{−d/2} for every r."""
    pairs = [And(of=(Bit(field="x", index=k), Bit(field="x", index=k + 1))) for k in range(0, d, 2)]
    return Xor(of=tuple(pairs)) if len(pairs) > 1 else pairs[0]


def both_halves(d: int) -> CellQuery:
    """Cell i where b = 1; where b = 0 cell d, signed by y·(−1)^{B(x)}, whose mean reveals a.

    Every user serves both halves: her own b says which.
    """
    masked = And(of=(Not(of=SHOWN), Xor(of=(MINUS, bent(d)))))
    return CellQuery(
        cells=d + 1,
        cell=If(test=SHOWN, then=FieldValue(field="i"), otherwise=Integer(of=d)),
        negative=Or(of=(And(of=(SHOWN, MINUS)), masked)),
    )


def dual(r: str) -> int:
    """B(r), the dual of the bent function at r."""
    return sum(r[k] == r[k + 1] == "1" for k in range(0, len(r), 2)) % 2


def run(parameters: Parameters) -> Asking:
    """Ask one query for all r: E[y·(−1)^{B(x)}; b = 0] = (−1)^{a + B(r)}·2^{−d/2−1}, as r̂ is not known yet."""
    d = dimension(parameters)
    [shares] = yield [Ask(both_halves(d), 1 / (max(2 * d, 2 ** (d // 2 + 1)) + 1))]
    halves = np.atleast_1d(shares)
    r = signs(halves[:d])
    a = dual(r) ^ int(halves[d] < 0)
    return Hypothesis(f"c_(r,a) with r = {r}, a = {a}", {"r": r, "a": a})


MASKED_PARITY_NONINTERACTIVE: Final = Strategy(
    name="masked-parity-noninteractive",
    summary="r and its mask bit from one round, at the price of 2^d users",
    interactive=False,
    rounds=1,
    schema=schema,
    run=run,
    predict=predict,
    promise=promise,
    error=error,
    examples="masked-parity",
)
