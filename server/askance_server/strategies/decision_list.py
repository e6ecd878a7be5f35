"""Decision lists over bits, after Rivest (1987), by statistical queries: a test that meets one label only is a rule."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.arrays import Truths
from askance_protocol.concepts import DecisionListConcept
from askance_protocol.examples import Columns
from askance_protocol.queries.language import AnyTest
from askance_protocol.schema import Schema
from askance_server.core.strategy import Answer, Ask, Asking, Features, Hypothesis, Learnt, Parameters, Strategy
from askance_server.strategies.shared import bits, lists
from askance_server.strategies.shared.bits import disagreement, joint, width
from askance_server.strategies.shared.lists import Rule, described, in_runs, undecided

ROUNDS: Final = 4


def schema(parameters: Parameters) -> Schema:
    """An x of d bits and a label."""
    read.only(parameters, "d", "alpha")
    read.decimal(parameters, "alpha", below=1, default="0.1")
    return bits.schema(parameters)


def run(parameters: Parameters) -> Asking:
    """Learn with error at most α if the label changes less than ROUNDS times along the list: one round for each."""
    d = width(parameters)
    alpha = float(read.decimal(parameters, "alpha", below=1, default="0.1"))
    # Each of d rules is wrong on less than twice the threshold, and the end, which has two cells, on less than four.
    rules, otherwise = yield from grown(d, alpha / (2 * d + 4), alpha / (2 * d + 5))
    return Hypothesis(*described(rules, otherwise))


def grown(d: int, threshold: float, tau: float) -> Generator[Sequence[Ask], Sequence[Answer], tuple[list[Rule], int]]:
    """The rules that are wrong on so few as may be, and the label of what is left."""
    rules, labels = list[Rule](), np.zeros(2)
    for number in range(1, ROUNDS + 1):
        leaf = undecided(d, rules)
        asks = [Ask(joint(i, leaf, 1, others=bool(rules)), tau, channel="best") for i in range(d)]
        shares = np.array((yield asks))[:, :4].reshape(d, 2, 2)
        labels = shares.sum(axis=2).mean(axis=0)
        if number == ROUNDS or labels.min() <= 2 * threshold:
            break
        wrong, right = shares.min(axis=1), shares.max(axis=1)
        # Purest first, if the oracle lies as it may. The target's next rule is wrong on nobody who gets to it.
        purity = (right - wrong - 2 * tau) / (np.maximum(right + wrong, 0) + 2 * tau)
        order = [divmod(int(at), 2) for at in np.argsort(-purity, axis=None, kind="stable")]
        new = [(i, v, int(2 * shares[i, :, v].argmax() - 1)) for i, v in order if all(i != j for j, _, _ in rules)]
        rules += [rule for rule in new if wrong[rule[:2]] <= threshold] or new[:1]
    return rules, int(2 * labels.argmax() - 1)


def concept(value: Learnt) -> DecisionListConcept:
    """Concept that a learned list describes."""
    return DecisionListConcept(tuple(lists.rules(value)), value["otherwise"])


def predict(value: Learnt, columns: Columns) -> Truths:
    """Label of the first rule that holds, for each example."""
    return concept(value).positive(columns.arrays)


def positive(parameters: Parameters, value: Learnt) -> AnyTest:
    """Whether the first rule that holds says +1."""
    return lists.positive(width(parameters), in_runs(lists.rules(value)), value["otherwise"])


def error(learned: Learnt, truth: Learnt) -> Fraction | None:
    """Exact error over all values of the bits that either list tests, if these are few."""
    bits = {rule[0] for value in (learned, truth) for rule in value["rules"]}
    return disagreement(bits, concept(truth), lambda columns: predict(learned, columns))


def promise(parameters: Parameters) -> float:
    """Error at most α if the label changes less than ROUNDS times along the list."""
    return float(read.decimal(parameters, "alpha", below=1, default="0.1"))


DECISION_LIST: Final = Strategy(
    name="decision-list",
    summary="A list of tests of one bit",
    interactive=True,
    rounds=ROUNDS,
    # The first has a cell less; the last makes do with what slots the others left.
    portions=(8, 10, 10, 11),
    schema=schema,
    run=run,
    longest="ones",
    predict=predict,
    positive=positive,
    promise=promise,
    error=error,
    examples="decision-list",
    features=Features.BITS,
    small={"d": 4, "alpha": "0.2"},
)
