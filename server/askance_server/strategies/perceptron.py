"""The perceptron by statistical queries, SuLQ's (KLNRS11, §1.1.1): a round steps towards the mislabelled points."""

from __future__ import annotations

from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.arrays import Truths
from askance_protocol.concepts import SeparatorConcept
from askance_protocol.examples import Columns
from askance_protocol.queries import RealQuery
from askance_protocol.queries.language import AnyTest, Compare, Constant, If, Integer, Label, Xor
from askance_protocol.schema import LabelField, Schema
from askance_server.core.strategy import (
    Ask,
    Asking,
    Features,
    Hypothesis,
    Learnt,
    Parameters,
    Strategy,
)
from askance_server.strategies.mean import denominator
from askance_server.strategies.shared.points import cube, form

ROUNDS: Final = 4
UNIT: Final = 1000  # weights are whole numbers, so that queries can carry them


def schema(parameters: Parameters) -> Schema:
    """A point of the cube, and the side of a plane through 0 that it is on."""
    read.only(parameters, "d", "denominator", "tolerance")
    read.decimal(parameters, "tolerance", below=1, default="0.05")
    return Schema(fields=(*cube(parameters, read.whole(parameters, "d", 1, 128)), LabelField(name="y")))


def mistaken(w: list[int]) -> AnyTest:
    """Whether y·(w·x) ≤ 0. Once there is an answer, w·x = 0 counts as −1."""
    positive = Compare(left=form(dict(enumerate(w))), relation=">", right=Integer(of=0))
    return Xor(of=(Label(sign=1), positive)) if any(w) else Constant(truth=True)


def step(j: int, wrong: AnyTest, one: int) -> RealQuery:
    """y·x_j if w mislabels the point, else 0."""
    signed = If(test=Label(sign=1), then=form({j: 1}), otherwise=form({j: -1}))
    return RealQuery(numerator=If(test=wrong, then=signed, otherwise=Integer(of=0)), denominator=one)


def run(parameters: Parameters) -> Asking:
    """Repeat w ← w + E[y·x; y·(w·x) ≤ 0], in the coordinates that τ tells from 0, for some rounds or to no mistake.

    Then, if w* of length 1 has the margin γ ≤ y·(w*·x), a share p is mistaken with γ·p ≤ w*·E[y·x; …] ≤ 2τ·√d.
    """
    d, one = read.whole(parameters, "d", 1, 128), denominator(parameters)
    w, tau = [0] * d, float(read.decimal(parameters, "tolerance", below=1, default="0.05"))
    for _ in range(ROUNDS):
        means = np.array((yield [Ask(step(j, mistaken(w), one), tau) for j in range(d)]))
        told = np.where(np.abs(means) > tau, means, 0)
        if not told.any():
            break
        w = [weight + round(UNIT * mean) for weight, mean in zip(w, told.tolist(), strict=True)]
    text = " ".join(f"{weight:+d} x{j}" for j, weight in enumerate(w))
    return Hypothesis(f"y = +1 where {text} > 0", {"weights": w})


def predict(value: Learnt, columns: Columns) -> Truths:
    """Side of the plane for each point; on the plane itself −1, while a separator says +1."""
    return ~SeparatorConcept(tuple(-weight for weight in value["weights"]), "0").positive(columns.arrays)


PERCEPTRON: Final = Strategy(
    name="perceptron",
    summary="A plane through 0",
    interactive=True,
    rounds=ROUNDS,
    schema=schema,
    run=run,
    longest="ones",
    predict=predict,
    examples="separator",
    features=Features.REALS,
)
