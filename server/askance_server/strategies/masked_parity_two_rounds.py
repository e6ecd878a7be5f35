"""A_MP with a pooled first round, in its simplest form: each user answers for all of r at once, with one bit.

docs/theory.md#one-pooled-round: at d = 64 and ε = 1 some 7·10⁵ users where fresh portions need 4.6·10⁹.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import FieldValue, If, Integer
from askance_server.core.strategy import Answer, Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.strategies.masked_parity import (
    MINUS,
    SHOWN,
    dimension,
    error,
    predict,
    promise,
    schema,
    second,
)
from askance_server.strategies.shared.portions import by_need


def cells(d: int) -> CellQuery:
    """All d queries of step 1 as cells of one partition. docs/theory.md: E[ŝ_j] = (−1)^{r_j}/(2d)."""
    return CellQuery(cells=d, cell=If(test=SHOWN, then=FieldValue(field="i"), otherwise=Integer(of=-1)), negative=MINUS)


def signs(shares: Answer) -> str:
    """r̂_j = 1 where the signed share of cell j is negative."""
    return "".join("1" if share < 0 else "0" for share in np.atleast_1d(shares))


def portions(parameters: Parameters) -> tuple[int, ...]:
    """By need: a share that is signed, within 1/(2d + 1), takes four times the users of one that is not."""
    d = dimension(parameters)
    return by_need(4 * ((2 * d + 1) / 5) ** 2, d)


def run(parameters: Parameters) -> Asking:
    """A_MP whose first round asks all users about all j at once: one bit under a public Hadamard row."""
    d = dimension(parameters)
    # Any tolerance below the mean's 1/(2d) tells its sign.
    [shares] = yield [Ask(cells(d), 1 / (2 * d + 1))]
    r = signs(shares)
    [answer] = yield [Ask(second(r), 1 / 5)]
    a = 1 if answer > 1 / 4 else 0
    return Hypothesis(f"c_(r,a) with r = {r}, a = {a}", {"r": r, "a": a})


MASKED_PARITY_TWO_ROUNDS: Final = Strategy(
    name="masked-parity-two-rounds",
    summary="A_MP, all of r from one bit a user, then its mask bit",
    interactive=True,
    rounds=2,
    schema=schema,
    run=run,
    longest="ones",
    predict=predict,
    promise=promise,
    error=error,
    examples="masked-parity",
    portions=(19, 1),
    portions_for=portions,
)
