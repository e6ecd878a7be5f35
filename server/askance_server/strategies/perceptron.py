"""The perceptron by statistical queries, SuLQ's (KLNRS11, §1.1.1): a round steps towards the mislabelled points."""

from __future__ import annotations

from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.arrays import Truths
from askance_protocol.concepts import SeparatorConcept
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery
from askance_protocol.schema import LabelField, Schema
from askance_server.core.strategy import Ask, Asking, Features, Hypothesis, Learnt, Parameters, Strategy
from askance_server.strategies.mean import denominator
from askance_server.strategies.shared.planes import (
    PlaneSteps,
    fewest,
    mistaken,
    pieces_of,
    product,
    pull,
    unmixing,
    whole,
)
from askance_server.strategies.shared.points import cube

ROUNDS: Final = 4
MOST_ROUNDS: Final = 16
FEW: Final = 8
"""Dimensions of which all products are asked for: beyond, they are too many questions."""
ROUGH: Final = 4
"""How columns go together is asked within so many tolerances: of few users."""


def schema(parameters: Parameters) -> Schema:
    """A point of the cube, and the side of a plane through 0 that it is on."""
    read.only(parameters, "d", "denominator", "tolerance", "rounds")
    read.decimal(parameters, "tolerance", below=1, default="0.05")
    portions(parameters)
    return Schema(fields=(*cube(parameters, read.whole(parameters, "d", 1, 128)), LabelField(name="y")))


def portions(parameters: Parameters) -> tuple[int, ...]:
    """Users of each round in proportion to what its questions need: a quarter for one that is asked within 2τ."""
    d, rounds = read.whole(parameters, "d", 1, 128), read.whole(parameters, "rounds", 1, MOST_ROUNDS, default=ROUNDS)
    start = 4 * d + (d * (d + 1) * 2 // ROUGH**2 if d <= FEW else 0)
    return (start,) if rounds == 1 else (start, *[4 + d] * (rounds - 2), 4)


def run(parameters: Parameters) -> Asking:
    """Ask for the start, then step for some rounds or to no mistake; the plane with the fewest is learned."""
    d, one, rounds = read.whole(parameters, "d", 1, 128), denominator(parameters), len(portions(parameters))
    tau = float(read.decimal(parameters, "tolerance", below=1, default="0.05"))
    wide, rough = (max(tau, min(times * tau, 0.5)) for times in (2, ROUGH))
    pieces = pieces_of(one, rough) if d <= FEW else 0
    pairs = [(j, k) for j in range(d) for k in range(j + 1)] if pieces else []
    answers = yield [
        *(Ask(pull(j, mistaken([]), one), tau) for j in range(d)),
        *(Ask(product(j, k, one, pieces), rough) for j, k in pairs),
    ]
    pulled, moments = np.array(answers[:d], np.float64), np.array(answers[d:], np.float64)
    if (np.abs(pulled) <= tau).all():
        return told([0] * d)
    back, apart = (unmixing(moments, d, rough), True) if pairs else (np.eye(d), False)
    steps, tried = PlaneSteps.along(pulled, back, wide), list[tuple[list[int], float]]()
    for left in reversed(range(rounds - 1)):
        w = whole(back @ steps.u)
        share, *pulls = yield [
            Ask(BooleanQuery(test=mistaken(w)), tau),
            *(Ask(pull(j, mistaken(w), one), wide) for j in range(d) if left),
        ]
        tried.append((w, float(np.asarray(share))))
        if not left or steps.step(back.T @ np.array(pulls, np.float64)):
            continue
        if not apart or tried[-1][1] <= tau:
            break
        # No step is told from none, but mistakes are there for sure: the columns were not taken apart as they are.
        back, apart = np.eye(d), False
        steps = PlaneSteps.along(pulled, back, wide)
    return told(fewest(tried, tau) if tried else whole(back @ steps.u))


def told(w: list[int]) -> Hypothesis:
    """The plane, for a person and for a program."""
    return Hypothesis(f"y = +1 where {' '.join(f'{weight:+d} x{j}' for j, weight in enumerate(w))} > 0", {"weights": w})


def predict(value: Learnt, columns: Columns) -> Truths:
    """Side of the plane for each point; on the plane itself −1, while a separator says +1."""
    return ~SeparatorConcept(tuple(-weight for weight in value["weights"]), "0").positive(columns.arrays)


PERCEPTRON: Final = Strategy(
    name="perceptron",
    summary="A plane through 0",
    interactive=True,
    rounds=MOST_ROUNDS,
    schema=schema,
    run=run,
    portions_for=portions,
    predict=predict,
    examples="separator",
    features=Features.REALS,
)
