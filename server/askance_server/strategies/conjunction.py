"""Monotone conjunctions, by d nonadaptive statistical queries: BB-notes, Thm 5."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from askance_protocol import parameters as read
from askance_protocol.arrays import Truths
from askance_protocol.concepts import ConjunctionConcept
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import And, AnyTest, Bit, Constant, Label, Not
from askance_protocol.rounds.spec import MAX_PARTS
from askance_protocol.schema import BitsField, LabelField, Schema
from askance_server.core.strategy import (
    Ask,
    Asking,
    Features,
    Hypothesis,
    Learnt,
    Parameters,
    Strategy,
)


def schema(parameters: Parameters) -> Schema:
    """An x of d bits, and whether the conjunction holds of it."""
    read.only(parameters, "d", "alpha")
    read.decimal(parameters, "alpha", below=1, default="0.1")
    d = read.whole(parameters, "d", 1, MAX_PARTS)
    return Schema(fields=(BitsField(name="x", width=d), LabelField(name="y")))


def phi(i: int) -> BooleanQuery:
    """φ_i(x, y) = 1 where x_i = 0 and y = 1. BB-notes, proof of Thm 5."""
    return BooleanQuery(test=And(of=(Not(of=Bit(field="x", index=i)), Label(sign=1))))


def run(parameters: Parameters) -> Asking:
    """Keep every variable that is hardly ever 0 in a positive example: error at most α."""
    d = read.whole(parameters, "d", 1, MAX_PARTS)
    # BB-notes, Thm 5: "d queries of tolerance τ = ε/(2d)", where ε is the error, here α.
    tau = float(read.decimal(parameters, "alpha", below=1, default="0.1") / (2 * d))
    answers = yield [Ask(phi(i), tau) for i in range(d)]
    # BB-notes, Thm 5: "the conjunction h of all features x_i such that P̂_{φ_i} ≤ ε/(2d)".
    kept = [i for i, answer in enumerate(answers) if float(answer) <= tau]
    return Hypothesis(" ∧ ".join(f"x_{i}" for i in kept) or "true", {"variables": kept})


def predict(value: Learnt, columns: Columns) -> Truths:
    """Truths for the examples: whether all variables of the conjunction are 1."""
    return ConjunctionConcept(tuple(value["variables"])).positive(columns.arrays)


def positive(_: Parameters, value: Learnt) -> AnyTest:
    """Whether all variables of the conjunction are 1; of none, always."""
    kept = tuple(Bit(field="x", index=i) for i in value["variables"])
    return And(of=kept) if kept else Constant(truth=True)


def error(learned: Learnt, truth: Learnt) -> Fraction:
    """Probability that exactly one of the two holds: 2^−|A| + 2^−|B| − 2·2^−|A ∪ B|."""
    mine, right = set(learned["variables"]), set(truth["variables"])
    return Fraction(1, 2 ** len(mine)) + Fraction(1, 2 ** len(right)) - Fraction(2, 2 ** len(mine | right))


def promise(parameters: Parameters) -> float:
    """BB-notes, Thm 5: error at most α."""
    return float(read.decimal(parameters, "alpha", below=1, default="0.1"))


CONJUNCTION: Final = Strategy(
    name="conjunction",
    summary="A monotone conjunction of bits",
    interactive=False,
    rounds=1,
    schema=schema,
    run=run,
    predict=predict,
    positive=positive,
    promise=promise,
    error=error,
    examples="conjunction",
    features=Features.BITS_AND_OPPOSITES,
    small={"d": 4, "alpha": "0.2"},
)
