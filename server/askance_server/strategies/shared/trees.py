"""Trees of tests of bits: as a query, and as what was learned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from askance_protocol.arrays import Integers
from askance_protocol.concepts import bit as bit_of
from askance_protocol.examples import Columns
from askance_protocol.queries.language import AnyNumber, Bit, If, Integer
from askance_server.core.strategy import Learnt

NodeNumbers = dict[int, int]
"""By node: the root is 1, and where the bit of node n is v, comes node 2n + v."""


def leaf_of(bit: NodeNumbers, place: NodeNumbers, n: int = 1) -> AnyNumber:
    """Number of the leaf that x reaches; the number of leaves where nothing is asked."""
    if n not in bit:
        return Integer(of=place.get(n, len(place)))
    zero, one = leaf_of(bit, place, 2 * n), leaf_of(bit, place, 2 * n + 1)
    return If(test=Bit(field="x", index=bit[n]), then=one, otherwise=zero)


def reached(bit: NodeNumbers, leaves: list[int]) -> tuple[AnyNumber, bool]:
    """Number of the leaf that x reaches, and whether some reach a node that nothing is asked about."""
    asked = {n: k for k, n in enumerate(leaves)}
    ends = {2 * n + v for n in bit for v in (0, 1)} - bit.keys() or {1}
    return leaf_of(bit, asked), bool(ends - asked.keys())


def describe_tree(bit: NodeNumbers, label: NodeNumbers, n: int = 1) -> tuple[str, Learnt | int]:
    """The tree from n on, to read and as JSON, without tests that change nothing."""
    if n not in bit:
        return f"{label[n]:+d}", label[n]
    zero, one = describe_tree(bit, label, 2 * n), describe_tree(bit, label, 2 * n + 1)
    text = f"(if x_{bit[n]} then {one[0]} else {zero[0]})"
    return one if one == zero else (text, {"bit": bit[n], "one": one[1], "zero": zero[1]})


def tested_bits(node: Learnt | int) -> Iterator[int]:
    """Indexes of the bits that a tree tests."""
    if not isinstance(node, int):
        yield node["bit"]
        yield from tested_bits(node["one"])
        yield from tested_bits(node["zero"])


def label_of(node: Learnt | int) -> AnyNumber:
    """Label of the leaf that x reaches, to ask about."""
    if isinstance(node, int):
        return Integer(of=node)
    return If(test=Bit(field="x", index=node["bit"]), then=label_of(node["one"]), otherwise=label_of(node["zero"]))


def labels(node: Learnt | int, columns: Columns) -> Integers:
    """Label of the leaf that each example reaches."""
    if isinstance(node, int):
        return np.full(len(columns), node)
    return np.where(bit_of(columns["x"], node["bit"]), labels(node["one"], columns), labels(node["zero"], columns))
