"""Decision trees as `decision-tree` grows them, with error at most α: checked on fresh users, and grown again if not.

Nothing is known of how well a greedy tree does. But how often a tree is wrong can be asked of users who did not help to
grow it, and so this one promises what `decision-tree` cannot: where it says that it is checked, its error is at most α.
Attempts grow trees at tolerances from 1/8 on; the last is α/32, half of what an even share of α would be for each leaf
of the deepest tree. Labels that no such tree tells end unchecked, and the hypothesis says so (`shared.checked`).
"""

from __future__ import annotations

from typing import Final

from askance_protocol import parameters as read
from askance_protocol.schema import Schema
from askance_server.core.strategy import Asking, Features, Parameters, Strategy
from askance_server.strategies.decision_tree import ROUNDS, error, grown, levels, positive, predict
from askance_server.strategies.shared import bits
from askance_server.strategies.shared.bits import width
from askance_server.strategies.shared.checked import Attempt, Proposal, checked, portions, tolerances
from askance_server.strategies.shared.trees import describe_tree

ATTEMPTS: Final = 6
SHARPER: Final = 0.25
"""Doubt in an answer, in tolerances: about a standard deviation. What is checked may be wrong."""


def schema(parameters: Parameters) -> Schema:
    """An x of d bits and a label."""
    read.only(parameters, "d", "depth", "alpha")
    promise(parameters)
    found = bits.schema(parameters)
    levels(parameters)
    return found


def promise(parameters: Parameters) -> float:
    """Error at most α, where it is checked."""
    return float(read.decimal(parameters, "alpha", below=1, default="0.1"))


def ladder(parameters: Parameters) -> tuple[float, ...]:
    """Tolerances of the attempts."""
    queries = levels(parameters) * width(parameters) + 1
    return tolerances(promise(parameters) / 2 ** (ROUNDS + 1), 2, ATTEMPTS, queries)


def run(parameters: Parameters) -> Asking:
    """Grow a tree, check it, and ask more users until it has error at most α."""
    steps = ladder(parameters)
    attempts = (_attempt(parameters, tolerance) for tolerance in steps)
    return (yield from checked(promise(parameters), attempts, len(steps)))


def _attempt(parameters: Parameters, tolerance: float) -> Attempt:
    grew = yield from grown(width(parameters), levels(parameters), tolerance, tolerance * SHARPER)
    text, tree = describe_tree(*grew)
    return [Proposal(text, {"tree": tree}, positive(parameters, {"tree": tree}))]


def portions_for(parameters: Parameters) -> tuple[int, ...]:
    """A round for each level and one that checks the tree, an attempt."""
    return portions(len(ladder(parameters)), (2, *(1,) * (levels(parameters) - 1), 1))


DECISION_TREE_CHECKED: Final = Strategy(
    name="decision-tree-checked",
    summary="A tree of tests of bits, checked on fresh users, who are as few as will do",
    interactive=True,
    rounds=(ROUNDS + 1) * ATTEMPTS,
    schema=schema,
    run=run,
    portions_for=portions_for,
    predict=predict,
    promise=promise,
    checks=True,
    error=error,
    examples="decision-list",
    features=Features.BITS,
    small={"d": 4, "alpha": "0.2"},
)
