"""PARITY over uniform examples, by one query for each parity: 2^d of them, as statistical queries must.

KLNRS11, §5.2: no learner does with 2^(d/3) queries of tolerance 2^(−d/3), so that every local learner needs a number of
users exponential in d. This one asks 2^d queries, each of a portion of the users, and does not pretend otherwise.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.arrays import Truths
from askance_protocol.concepts import ParityConcept
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import AnyTest, Label, Not, Parity, Xor
from askance_protocol.schema import MAX_WIDTH, BitsField, LabelField, Schema
from askance_server.core.strategy import (
    Ask,
    Asking,
    Features,
    Hypothesis,
    Learnt,
    Parameters,
    Strategy,
)

MOST: Final = 12
"""2^12 queries are as many as one study asks (`MAX_QUERIES`, `MAX_PARTS`)."""


def dimension(parameters: Parameters) -> int:
    """Number of bits of x."""
    d = read.whole(parameters, "d", 1, MAX_WIDTH)
    if d > MOST:
        what = f"would take 2^{d} queries here, and takes more than 2^(d/3) of any learner (KLNRS11, 5.2)"
        raise read.refused("d", what, f"give a whole number from 1 to {MOST}")
    return d


def schema(parameters: Parameters) -> Schema:
    """An x of d bits and the parity of those that count: y = (−1)^(r⊙x). KLNRS11, §4."""
    read.only(parameters, "d")
    return Schema(fields=(BitsField(name="x", width=dimension(parameters)), LabelField(name="y")))


def differs(s: int) -> BooleanQuery:
    """Whether y ≠ (−1)^(s⊙x): its mean over uniform x is 0 if r = s and ½ for every other s."""
    return BooleanQuery(test=Xor(of=(Label(sign=-1), Parity(field="x", mask=f"{s:x}"))))


def run(parameters: Parameters) -> Asking:
    """Choose the parity whose labels differ least."""
    d = dimension(parameters)
    # Any tolerance below ¼ tells 0 from ½.
    answers = yield [Ask(differs(s), 1 / 5) for s in range(2**d)]
    r = f"{int(np.argmin(np.array(answers))):0{d}b}"[::-1]
    return Hypothesis(f"y = (-1)^(r.x) with r = {r}", {"r": r})


def predict(value: Learnt, columns: Columns) -> Truths:
    """Labels of the parity."""
    return ParityConcept(value["r"]).positive(columns.arrays)


def positive(value: Learnt) -> AnyTest:
    """Whether an even number of the bits of r are 1: then (−1)^(r⊙x) is +1."""
    # r is written with x_0 first, a mask with x_0 last.
    return Not(of=Parity(field="x", mask=f"{int(value['r'][::-1], 2):x}"))


def error(learned: Learnt, truth: Learnt) -> Fraction:
    """0 if the parities are the same, else ½."""
    return Fraction(int(learned["r"] != truth["r"]), 2)


def promise(_: Parameters) -> float:
    """Exactly the right parity."""
    return 0.0


PARITY: Final = Strategy(
    name="parity",
    summary="The parity of some bits, by 2^d queries",
    interactive=False,
    rounds=1,
    schema=schema,
    run=run,
    predict=predict,
    positive=positive,
    promise=promise,
    error=error,
    examples="parity",
    features=Features.BITS,
)
