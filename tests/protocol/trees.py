"""Random query trees as JSON, and what docs/protocol.md says of each: cost, range, whether it is refused.

Written from the page alone, over dicts: nothing here shares code with the language. Trees are drawn from Python's own
generator, a hundred times faster than a search that can shrink: what fails is named by its seed.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

Node = dict[str, Any]

SAFE: Final = 2**53 - 1
NODES, LEVELS, ENTRIES = 256, 16, 8192
"""The limits of docs/protocol.md."""


class UnfitError(Exception):
    """The page says that this is refused."""


# --------------------------------------------------------------------------------------------------------- schemas


def schema(source: random.Random) -> Node:
    """One to six fields, at most one a label, in any order."""
    kinds = source.choices(["bits", "bits", "category", "integer", "real"], k=source.randint(1, 5))
    if source.random() < 0.6:
        kinds.insert(source.randint(0, len(kinds)), "label")
    return {"fields": [_field(source, f"f{place}", kind) for place, kind in enumerate(kinds)]}


def _field(source: random.Random, name: str, kind: str) -> Node:
    shape: Node
    match kind:
        case "bits":
            width = source.choice([*range(1, 9), 12, 31, 52, 63, 64, 65, 128, 129, 200])
            shape = {"width": 4096 if source.random() < 0.01 else width}
        case "category":
            shape = {"values": source.sample(["a", "b", "yes", "né", "\U0001f600", "x y", "'", "-1", "∅"], k=4)}
        case "integer":
            top = source.choice([1, 9, 1000, 2**40])
            shape = {"low": source.choice([-top, 0, top - 1]), "high": top}
        case "real":
            shape = {"low": source.choice([-1, 0, -100]), "high": source.choice([1, 100, 2**20])}
            shape["denominator"] = source.choice([1, 2, 10, 128, 2**20])
        case _:
            shape = {}
    gap = {"gap": True} if kind in {"category", "integer", "real"} and source.random() < 0.3 else {}
    return {"name": name, "kind": kind, **shape, **gap}


def user(source: random.Random, fields: list[Node], end: int = 0) -> tuple[int, ...]:
    """The integers that one example holds, gaps among them; all at the least for end −1, all at the most for end 1."""
    held = list[int]()
    for one in fields:
        low, high = ends(one)
        held.append({-1: low, 1: high}.get(end, source.randint(low, high)))
        if end == 0 and "gap" in one and source.random() < 0.3:
            held[-1] = high + 1
        if one["kind"] == "label" and held[-1] == 0:
            held[-1] = 1
    return tuple(held)


def ends(one: Node) -> tuple[int, int]:
    """The least and the largest integer that a field holds."""
    match one["kind"]:
        case "bits":
            return 0, 2 ** one["width"] - 1
        case "category":
            return 0, len(one["values"]) - 1
        case "real":
            return one["low"] * one["denominator"], one["high"] * one["denominator"]
        case "integer":
            return one["low"], one["high"]
    return -1, 1


# ----------------------------------------------------------------------------------------------------------- trees


@dataclass
class Gardener:
    """Grows trees over one schema, of about so many nodes. Some come out over a limit, or leave the safe integers."""

    source: random.Random
    fields: list[Node]
    left: int = 0
    by_kind: dict[str, list[Node]] = field(default_factory=dict[str, list[Node]])

    def __post_init__(self) -> None:
        for one in self.fields:
            self.by_kind.setdefault(one["kind"], []).append(one)

    def query(self) -> Node:
        """A boolean, real or cell query."""
        pick = self.source
        self.left = pick.choice([1, 5, 10, 20, 30, 40, 60, 80, 250 if pick.random() < 0.2 else 30])
        depth = pick.choice([1, 2, 3, 4, 4, 5, 6, 8, 12, 16, 17 if pick.random() < 0.3 else 4])
        kind = pick.choice(["boolean", "real", "cell"])
        if kind == "boolean":
            return {"kind": kind, "test": self._padded(self.test(depth))}
        if kind == "real":
            if pick.random() < 0.02:
                depth = min(depth, 3)
                return {"kind": kind, "numerator": self._long(self.number(depth)), "denominator": 7}
            return {"kind": kind, "numerator": self.number(depth), "denominator": pick.choice([1, 2, 10, 1000, 2**17])}
        signed = {"negative": self.test(min(depth, 3))} if pick.random() < 0.5 else {}
        return {"kind": kind, "cells": pick.choice([1, 2, 8, 100, 2**16]), "cell": self.number(depth), **signed}

    def _padded(self, test: Node) -> Node:
        """The test; some with as many nodes as there may be, or one more."""
        wanted = NODES + self.source.randint(0, 1) - sum(key == "op" for _, key in _places(test)) - 1
        if self.source.random() > 0.05 or not 0 < wanted < 255:
            return test
        return {"op": "xor", "of": [test, *[{"op": "constant", "truth": False}] * wanted]}

    def _long(self, index: Node) -> Node:
        """A lookup of the number; with as many entries as there may be, or one more."""
        own = sum(type(holder) is list and type(holder[key]) is int for holder, key in _places(index))
        own += sum(key == "weight" for _, key in _places(index))
        own += sum(-(-len(holder[key]) // 16) for holder, key in _places(index) if key == "mask")
        length = ENTRIES - own + (self.source.randint(0, 1) if own else 0)
        return {"op": "lookup", "index": index, "table": [1] * length, "default": 0}

    def _grow(self, depth: int, leaves: list[str], inner: list[str]) -> Node:
        self.left -= 1
        known = [op for op in leaves if op in {"constant", "integer"} or self._has(op)]
        # A tall tree goes down to its last level; where no nodes are left, only leaves.
        names = known if depth <= 1 or self.left <= 0 else inner if depth > 4 else known + 2 * inner
        op = self.source.choice(names)
        make: Callable[[int], Node] = getattr(self, f"_{op}")
        return {"op": op, **make(depth - 1)}

    def _has(self, op: str) -> bool:
        wanted = {"is": "category", "label": "label"}.get(op, "bits")
        return bool(self.by_kind.keys() - {"bits"}) if op == "field" else wanted in self.by_kind

    def test(self, depth: int) -> Node:
        """A tree that is true or false."""
        return self._grow(depth, ["constant", "bit", "parity", "is", "label"], ["not", "and", "or", "xor", "compare"])

    def number(self, depth: int) -> Node:
        """A tree that is an integer."""
        return self._grow(depth, ["integer", "field", "slice", "dot"], ["affine", "affine", "lookup", "if", "clamp"])

    def _any(self, kind: str) -> Node:
        return self.source.choice(self.by_kind[kind])

    def _whole(self) -> int:
        pick = self.source
        top = pick.choice([1, 9, 9, 9, 1000, 1000, 2**31, SAFE if pick.random() < 0.3 else 9])
        return pick.choice([pick.randint(-top, top), top, -top, 0])

    def _below(self, depth: int) -> Iterator[int]:
        """How deep each of some parts may be: in a tall tree all but one are leaves."""
        count = self.source.choice([1, 2, 2, 3, 40 if depth < 3 and self.source.random() < 0.05 else 2])
        tall = self.source.randrange(count)
        return iter([depth if depth <= 3 or place == tall else 1 for place in range(count)])

    def _constant(self, depth: int) -> Node:
        return {"truth": self.source.random() < 0.5}

    def _bit(self, depth: int) -> Node:
        bits = self._any("bits")
        return {"field": bits["name"], "index": self.source.randrange(bits["width"])}

    def _parity(self, depth: int) -> Node:
        bits = self._any("bits")
        full = 2 ** bits["width"] - 1
        return {"field": bits["name"], "mask": f"{self.source.choice([self.source.randint(0, full), full, 0]):x}"}

    def _is(self, depth: int) -> Node:
        category = self._any("category")
        return {"field": category["name"], "category": self.source.choice(category["values"])}

    def _label(self, depth: int) -> Node:
        return {"sign": self.source.choice([1, -1])}

    def _not(self, depth: int) -> Node:
        return {"of": self.test(depth)}

    def _and(self, depth: int) -> Node:
        return {"of": [self.test(each) for each in self._below(depth)]}

    _or = _xor = _and

    def _compare(self, depth: int) -> Node:
        deep = [depth, 1 if depth > 3 else depth]
        self.source.shuffle(deep)
        relation = self.source.choice(["<", "<=", "=", "!=", ">=", ">"])
        return {"left": self.number(deep[0]), "relation": relation, "right": self.number(deep[1])}

    def _integer(self, depth: int) -> Node:
        return {"of": self._whole()}

    def _field(self, depth: int) -> Node:
        others = [one for one in self.fields if one["kind"] != "bits"]
        chosen = self.source.choice(others)
        told = ("gap" in chosen) is not (self.source.random() < 0.01)
        return {"field": chosen["name"], **({"gap": self._whole()} if told else {})}

    def _slice(self, depth: int) -> Node:
        bits = self._any("bits")
        width = self.source.randint(1, min(52, bits["width"]))
        return {"field": bits["name"], "first": self.source.randint(0, bits["width"] - width), "width": width}

    def _dot(self, depth: int) -> Node:
        bits = self._any("bits")
        top = self.source.choice([1, 9, 1000, SAFE // bits["width"]])
        return {"field": bits["name"], "weights": [self.source.randint(-top, top) for _ in range(bits["width"])]}

    def _affine(self, depth: int) -> Node:
        terms = [{"weight": self._weight(), "of": self.number(each)} for each in self._below(depth)]
        return {"constant": self._whole(), "terms": terms}

    def _weight(self) -> int:
        return self._whole() if self.source.random() < 0.1 else self.source.randint(-3, 3)

    def _lookup(self, depth: int) -> Node:
        length = 5000 if self.source.random() < 0.01 else self.source.randint(1, 12)
        table = [self._whole() for _ in range(length)]
        return {"index": self.number(depth), "table": table, "default": self._whole()}

    def _if(self, depth: int) -> Node:
        deep = [1 if depth > 3 else depth] * 2 + [depth]
        self.source.shuffle(deep)
        return {"test": self.test(deep[0]), "then": self.number(deep[1]), "otherwise": self.number(deep[2])}

    def _clamp(self, depth: int) -> Node:
        low, high = sorted((self._whole(), self._whole()))
        return {"of": self.number(depth), "low": low, "high": high}


# ----------------------------------------------------------------------------------------------- what the page says


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of a node before it is evaluated."""

    nodes: int = 1
    levels: int = 1
    entries: int = 0
    low: int = 0
    high: int = 1

    def over(self, *below: Reading, entries: int = 0, span: tuple[int, int] = (0, 1)) -> Reading:
        """A node over these, with so many entries of its own and this range."""
        low, high = span
        if max(-low, high) > SAFE:
            raise UnfitError("unsafe")
        return Reading(
            1 + sum(each.nodes for each in below),
            1 + max((each.levels for each in below), default=0),
            entries + sum(each.entries for each in below),
            low,
            high,
        )


_LEAF: Final = Reading()


def reading(query: Node, shape: Node) -> tuple[Reading, ...]:
    """What the page says of the roots of a query; UnfitError where it says that the query is refused."""
    fields = {one["name"]: one for one in shape["fields"]}
    roots = [query[name] for name in ("test", "numerator", "cell", "negative") if query.get(name) is not None]
    read = tuple(_read(root, fields) for root in roots)
    if sum(each.nodes for each in read) > NODES or max(each.levels for each in read) > LEVELS:
        raise UnfitError("nodes or levels")
    if sum(each.entries for each in read) > ENTRIES:
        raise UnfitError("entries")
    return read


def _demand(holds: object, what: str) -> None:
    if not holds:
        raise UnfitError(what)


def _bits_of(node: Node, fields: dict[str, Node]) -> int:
    _demand(fields.get(node["field"], {}).get("kind") == "bits", "no bits")
    return fields[node["field"]]["width"]


def _read(node: Node, fields: dict[str, Node]) -> Reading:
    if node["op"] in {"constant", "bit", "parity", "is", "label", "not", "and", "or", "xor", "compare"}:
        return _read_test(node, fields)
    return _read_number(node, fields)


def _read_test(node: Node, fields: dict[str, Node]) -> Reading:
    match node["op"]:
        case "bit":
            _demand(node["index"] < _bits_of(node, fields), "no such bit")
        case "parity":
            _demand(int(node["mask"], 16) < 2 ** _bits_of(node, fields), "mask")
            return _LEAF.over(entries=-(-len(node["mask"]) // 16))
        case "is":
            _demand(node["category"] in fields.get(node["field"], {}).get("values", []), "category")
        case "label":
            _demand(any(one["kind"] == "label" for one in fields.values()), "no label")
        case "not":
            return _LEAF.over(_read(node["of"], fields))
        case "and" | "or" | "xor":
            return _LEAF.over(*(_read(each, fields) for each in node["of"]))
        case "compare":
            return _LEAF.over(_read(node["left"], fields), _read(node["right"], fields))
    return _LEAF


def _read_number(node: Node, fields: dict[str, Node]) -> Reading:  # noqa: PLR0911 - a case for each operation
    match node["op"]:
        case "integer":
            return _LEAF.over(span=(node["of"], node["of"]))
        case "field":
            _demand(fields.get(node["field"], {}).get("kind", "bits") != "bits", "no number")
            _demand((node.get("gap") is None) is ("gap" not in fields[node["field"]]), "gap")
            low, high = ends(fields[node["field"]])
            gap = node["gap"] if "gap" in fields[node["field"]] else low
            return _LEAF.over(span=(min(low, gap), max(high, gap)))
        case "slice":
            _demand(node["first"] + node["width"] <= _bits_of(node, fields), "slice")
            return _LEAF.over(span=(0, 2 ** node["width"] - 1))
        case "dot":
            weights = node["weights"]
            _demand(len(weights) == _bits_of(node, fields), "weights")
            span = sum(weight for weight in weights if weight < 0), sum(weight for weight in weights if weight > 0)
            return _LEAF.over(entries=len(weights), span=span)
        case "affine":
            return _read_affine(node, fields)
        case "lookup":
            return _read_lookup(node, fields)
        case "if":
            test, *both = (_read(node[name], fields) for name in ("test", "then", "otherwise"))
            return _LEAF.over(test, *both, span=(min(each.low for each in both), max(each.high for each in both)))
    below, low, high = _read(node["of"], fields), node["low"], node["high"]
    return _LEAF.over(below, span=(min(max(below.low, low), high), max(min(below.high, high), low)))


def _read_affine(node: Node, fields: dict[str, Node]) -> Reading:
    below = [_read(term["of"], fields) for term in node["terms"]]
    sides = [(node["constant"], node["constant"])]
    for term, each in zip(node["terms"], below, strict=True):
        low, high = sorted((term["weight"] * each.low, term["weight"] * each.high))
        sides.append((low, high))
    # In whatever order: all that is below 0, and all above.
    _demand(-sum(min(low, 0) for low, _ in sides) <= SAFE, "sum")
    _demand(sum(max(high, 0) for _, high in sides) <= SAFE, "sum")
    span = sum(low for *_, low, _ in sides), sum(high for *_, high in sides)
    return _LEAF.over(*below, entries=len(below), span=span)


def _read_lookup(node: Node, fields: dict[str, Node]) -> Reading:
    below, table = _read(node["index"], fields), node["table"]
    reached = [entry for place, entry in enumerate(table) if below.low <= place <= below.high]
    if below.low < 0 or below.high >= len(table):
        reached.append(node["default"])
    return _LEAF.over(below, entries=len(table), span=(min(reached), max(reached)))


# --------------------------------------------------------------------------------------------------------- mutants


def spoilt(query: Node, source: random.Random) -> Node:
    """The query with one thing changed: a value, a member too few or too many, a part in another's place."""
    mutant = copy.deepcopy(query)
    places = list(_places(mutant))
    holder, key = source.choice(places)
    other_holder, other_key = source.choice(places)
    match source.randrange(6):
        case 0:
            holder[key] = copy.deepcopy(other_holder[other_key])
        case 1 if isinstance(holder, dict):
            del holder[key]
        case 2 if isinstance(holder, dict):
            holder[source.choice(["of", "op", "field", "weight", "extra"])] = copy.deepcopy(other_holder[other_key])
        case 3 if type(holder[key]) is int:
            holder[key] += source.choice([-1, 1, 64, -(2**53), 2**53, 2**64])
        case _:
            holder[key] = source.choice([*ODD, 0, -1, 1, "f0", "f1", "x", "ff", "not", "affine", True, False, None])
    return mutant


ODD: Final[list[Any]] = [
    *(float("nan"), float("inf"), -float("inf"), 1.0, 0.5, 1e300, 2**53, -(2**53), 2**63, 2**64, 10**400),
    *("", "0" * 2000, "\x00", "\ud800", "1", "__class__", [], [[]], {}, {"op": "not"}, {"op": "integer", "of": 1}),
]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member and entry, by what holds it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in list(items):
        yield value, key
        yield from _places(below)
