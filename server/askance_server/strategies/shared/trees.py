"""Trees of tests of bits: as a query, and as what was learned."""

from __future__ import annotations

from askance_protocol.queries.language import AnyNumber, Bit, If, Integer

NodeNumbers = dict[int, int]
"""By node: the root is 1, and where the bit of node n is v, comes node 2n + v."""


def leaf_of(bit: NodeNumbers, place: NodeNumbers, n: int = 1) -> AnyNumber:
    """Number of the leaf that x reaches; −1 where nothing is asked."""
    if n not in bit:
        return Integer(of=place.get(n, -1))
    zero, one = leaf_of(bit, place, 2 * n), leaf_of(bit, place, 2 * n + 1)
    return If(test=Bit(field="x", index=bit[n]), then=one, otherwise=zero)


def describe_tree(bit: NodeNumbers, label: NodeNumbers, n: int = 1) -> tuple[str, object]:
    """The tree from n on, to read and as JSON, without tests that change nothing."""
    if n not in bit:
        return f"{label[n]:+d}", label[n]
    zero, one = describe_tree(bit, label, 2 * n), describe_tree(bit, label, 2 * n + 1)
    text = f"(if x_{bit[n]} then {one[0]} else {zero[0]})"
    return one if one == zero else (text, {"bit": bit[n], "one": one[1], "zero": zero[1]})
