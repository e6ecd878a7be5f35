"""PARITY over uniform examples, by the agreement of every parity with the labels: 2^d of them, as there must be.

KLNRS11, §5.2: no learner does with 2^(d/3) queries of tolerance 2^(−d/3), so that every local learner needs a number of
users exponential in d. This one asks about all 2^d parities, each of a portion of the users, and does not pretend
otherwise: a user tells by one bit whether her label is that of her public row, which is one of the parities. Only the
row that leads is sought, so there are users until the right one does, and not until each is known.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.arrays import Floats, Truths
from askance_protocol.concepts import ParityConcept
from askance_protocol.examples import Columns
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import AnyTest, Label, Not, Parity, Slice
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
"""2^12 parities: as many queries as one study asks (`MAX_QUERIES`)."""


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


def cells(d: int) -> CellQuery:
    """A cell for each x, in which an example counts ±1 as its label says."""
    return CellQuery(cells=2**d, cell=Slice(field="x", first=0, width=d), negative=Label(sign=-1))


def run(parameters: Parameters) -> Asking:
    """Choose the parity that agrees best with the labels."""
    d = dimension(parameters)
    # Row s of the Hadamard matrix is the parity (−1)^(s⊙x) of the cells, and the sum of 2^d cells is as wrong as they
    # all are: any tolerance below 2^−(d+1) tells 1 from 0.
    [answer] = yield [Ask(cells(d), 2 / 5 / 2**d, channel="binary", row_lead=1)]
    r = f"{int(np.argmax(correlations(np.asarray(answer)))):0{d}b}"[::-1]
    return Hypothesis(f"y = (-1)^(r.x) with r = {r}", {"r": r})


def correlations(shares: Floats) -> Floats:
    """Σ_x (−1)^(s⊙x)·share_x for each s, which over uniform x is 1 if s = r and 0 for every other s."""
    for _ in range(len(shares).bit_length() - 1):
        pairs = shares.reshape(-1, 2)
        shares = np.concatenate([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]])
    return shares


def predict(value: Learnt, columns: Columns) -> Truths:
    """Labels of the parity."""
    return ParityConcept(value["r"]).positive(columns.arrays)


def positive(_: Parameters, value: Learnt) -> AnyTest:
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
    summary="The parity of some bits, among all 2^d",
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
