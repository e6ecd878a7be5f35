"""Decision trees over bits, one of SuLQ's uses, grown as CART does (Breiman et al. 1984): greedily, without a bound."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.arrays import Truths
from askance_protocol.examples import Columns
from askance_protocol.queries.language import AnyTest, Compare, Integer
from askance_protocol.schema import Schema
from askance_server.core.strategy import Answer, Ask, Asking, Features, Hypothesis, Learnt, Parameters, Strategy
from askance_server.strategies.decision_list import concept
from askance_server.strategies.shared import bits
from askance_server.strategies.shared.bits import disagreement, joint, width
from askance_server.strategies.shared.trees import NodeNumbers, describe_tree, label_of, labels, reached, tested_bits

ROUNDS: Final = 4


def schema(parameters: Parameters) -> Schema:
    """An x of d bits and a label."""
    read.only(parameters, "d", "depth", "tolerance")
    read.whole(parameters, "depth", 1, ROUNDS, default=ROUNDS)
    read.decimal(parameters, "tolerance", below=1, default="0.02")
    return bits.schema(parameters)


def run(parameters: Parameters) -> Asking:
    """A round for each level, whose leaves are cells of one query for each bit."""
    tau = float(read.decimal(parameters, "tolerance", below=1, default="0.02"))
    text, tree = describe_tree(*(yield from grown(width(parameters), levels(parameters), tau, tau)))
    return Hypothesis(text, {"tree": tree})


def levels(parameters: Parameters) -> int:
    """Levels of the tree, at most."""
    return min(width(parameters), read.whole(parameters, "depth", 1, ROUNDS, default=ROUNDS))


def grown(
    d: int, depth: int, tau: float, doubt: float
) -> Generator[Sequence[Ask], Sequence[Answer], tuple[NodeNumbers, NodeNumbers]]:
    """The bit that each inner node asks for, and the label of each node: from answers that may be off by `doubt`."""
    bit, label, leaves = NodeNumbers(), NodeNumbers({1: -1}), [1]
    while leaves and leaves[0] < 2**depth:
        leaf, others = reached(bit, leaves)
        cells = 4 * len(leaves)
        asks = [Ask(joint(i, leaf, len(leaves), others=others), tau, channel="best") for i in range(d)]
        shares = np.array((yield asks))[:, :cells].reshape(d, -1, 2, 2)
        more, mass = shares[:, :, 1] - shares[:, :, 0], np.maximum(shares.sum(axis=2), 4 * doubt)
        # Gini's impurity 2p(1 − p) is the least where this is the most.
        told = (more**2 / mass).sum(axis=2)
        for k, n in enumerate(leaves):
            asked = {bit[n >> up] for up in range(1, n.bit_length())}
            bit[n] = max(set(range(d)) - asked, key=lambda i: told[i, k])
            for child, surplus in enumerate(more[bit[n], k], 2 * n):
                # Within twice the doubt either label may be the right one: then the parent's stays.
                label[child] = int(np.sign(surplus)) if abs(surplus) > 2 * doubt else label[n]
        # A leaf is split again unless it seems to have one label only.
        leaves = [2 * n + v for k, n in enumerate(leaves) for v in (0, 1) if shares[bit[n], k, :, v].min() > doubt]
    return bit, label


def predict(value: Learnt, columns: Columns) -> Truths:
    """Label of the leaf that each example reaches."""
    return labels(value["tree"], columns) == 1


def positive(_: Parameters, value: Learnt) -> AnyTest:
    """Whether the leaf that is reached says +1."""
    return Compare(left=label_of(value["tree"]), relation=">", right=Integer(of=0))


def error(learned: Learnt, truth: Learnt) -> Fraction | None:
    """Exact error against a decision list over all values of the tested bits, if these are few."""
    bits = {*tested_bits(learned["tree"]), *(rule[0] for rule in truth["rules"])}
    return disagreement(bits, concept(truth), lambda columns: predict(learned, columns))


DECISION_TREE: Final = Strategy(
    name="decision-tree",
    summary="A tree of tests of bits",
    interactive=True,
    rounds=ROUNDS,
    schema=schema,
    run=run,
    portions_for=lambda parameters: (1,) * levels(parameters),
    longest="ones",
    predict=predict,
    positive=positive,
    error=error,
    examples="decision-list",
    features=Features.BITS,
)
