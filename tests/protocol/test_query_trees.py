"""100,000 random query trees: one meaning in each evaluator, the range that was told, refused where the page says so.

A tree is JSON that is drawn with what docs/protocol.md says of it (`trees`). It is read, prepared, evaluated for one
example and for columns of many, and by the recursion of `test_queries.meaning`. Each fifth is spoilt in one place: then
it is refused, or it is a tree like all others. `ASKANCE_TORTURE=1` looks at 100,000; each day sees one in a hundred.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns, Example
from askance_protocol.queries import language, prepare, query, read_query
from askance_protocol.queries.language import BaseNumber
from askance_protocol.queries.wording import SHOWN, fields_of, words
from askance_protocol.rounds import LaplaceSpec, Part, prepare_round
from askance_protocol.rounds.prepared import MAX_WORK, check_work, work_of
from askance_protocol.schema import Schema
from tests.harness.figures import Figures
from tests.protocol import trees
from tests.protocol.generators import OPERATIONS, all_nodes
from tests.protocol.studies import round_of, study, wrong
from tests.protocol.test_queries import answer_of, span

TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"
BATCHES: Final = 5000 if TORTURE else 50
"""Schemas; twenty trees over each."""
PER_BATCH: Final = 20
LONGEST: Final = 1 << 18
"""Characters of a query."""
SPOILT: Final = 5
"""Each fifth."""
USERS: Final = 4


class Grove:
    """Looks at trees, and counts what became of them."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.operations = set[str]()

    def batch(self, number: int) -> None:
        """All trees over one schema. What fails is named by the number, from which all of it follows."""
        source = random.Random(number)
        shape = trees.schema(source)
        schema = Schema.model_validate_json(json.dumps(shape))
        held = [trees.user(source, shape["fields"], end) for end in (-1, 1, *[0] * USERS)]
        users = [Example(schema, values) for values in held]
        columns = Columns.of_examples(schema, users)
        gardener = trees.Gardener(source, shape["fields"])
        for place in range(PER_BATCH):
            tree = gardener.query()
            if place % SPOILT == 0:
                tree = trees.spoilt(tree, source)
            self.counts["trees"] += 1
            try:
                self.tree(tree, schema, shape, users, columns, spoilt=place % SPOILT == 0)
            except Exception as error:
                raise AssertionError(f"batch {number}, tree {place}: {json.dumps(tree)[:2000]}") from error

    def tree(
        self,
        tree: trees.Node,
        schema: Schema,
        shape: trees.Node,
        users: list[Example],
        columns: Columns,
        *,
        spoilt: bool,
    ) -> None:
        """One tree: read, prepared, evaluated, printed, told; or refused."""
        text = json.dumps(tree)
        try:
            found = read_query(text)
        except ProtocolError:
            # Only the form is looked at here, and what was not spoilt has it; but it may be too long.
            assert spoilt or len(text) > LONGEST
            self.counts["form refused"] += 1
            return
        written = found.to_json()
        assert read_query(found.to_bytes()) == found
        assert read_query(found.to_bytes()).to_bytes() == found.to_bytes()
        # Printed is what was read, with members that were left out.
        assert spoilt or _within(tree, written)
        self.operations |= {wrong(node).op for node in all_nodes(found)}
        try:
            roots = trees.reading(written, shape)
        except trees.UnfitError:
            assert _is_refused(found, schema), "accepted"
            self.counts["refused"] += 1
            return
        prepared = prepare(found, schema)
        cost = prepared.cost
        assert cost.nodes == sum(each.nodes for each in roots) <= trees.NODES
        assert cost.depth == max(each.levels for each in roots) <= trees.LEVELS
        assert cost.entries == sum(each.entries for each in roots) <= trees.ENTRIES
        self._ranges(found, roots, schema, columns)
        self._answers(prepared, written, shape, users, columns)
        self._words(found, schema, cost.nodes)
        self._work(found, cost.nodes + cost.entries)
        self.counts["accepted"] += 1
        self.counts["nodes"] += cost.nodes

    def _ranges(self, found: Any, roots: tuple[trees.Reading, ...], schema: Schema, columns: Columns) -> None:
        for root, told in zip(found.roots(), roots, strict=True):
            if isinstance(root, BaseNumber):
                assert root.bounds(schema) == (told.low, told.high)
        for node in all_nodes(found):
            if isinstance(node, BaseNumber):
                low, high = node.bounds(schema)
                values = node.column(columns)
                assert values.dtype == np.int64
                assert low <= values.min() <= values.max() <= high

    def _answers(
        self, prepared: Any, written: trees.Node, shape: trees.Node, users: list[Example], columns: Columns
    ) -> None:
        expected = [answer_of(written, shape, user.record()) for user in users]
        assert [prepared.answer(user) for user in users] == expected
        assert prepared.answers(columns).tolist() == expected
        assert prepared.answers(columns).dtype == np.int64
        assert all(answer in span(prepared.query) for answer in expected)
        self.counts["answers"] += len(expected)

    def _words(self, found: Any, schema: Schema, nodes: int) -> None:
        said = words(found, schema)
        assert said.isprintable()
        assert all(name in said for name in fields_of(found, schema))
        # Lists are cut, so the words grow with the nodes and not with the tables.
        assert len(said) <= nodes * (SHOWN * 24 + 200) + 200

    def _work(self, found: Any, own: int) -> None:
        part = Part(query=found, channel=LaplaceSpec(micro_epsilon=1_000_000), charge=1_000_000, share=1)
        assert work_of(part) == own + (96 * found.denominator if found.kind == "real" else 1)
        self.counts["over the work limit by Laplace noise"] += work_of(part) > MAX_WORK


def look(batches: int) -> Grove:
    """Look at so many batches of trees."""
    grove = Grove()
    for number in range(batches):
        grove.batch(number)
    return grove


def _is_refused(found: Any, schema: Schema) -> bool:
    try:
        prepare(found, schema)
    except ProtocolError:
        return True
    return False


def _within(given: Any, printed: Any) -> bool:
    """Whether all that was given is printed alike."""
    if isinstance(given, dict):
        return isinstance(printed, dict) and all(_within(given[name], printed.get(name)) for name in given)
    if isinstance(given, list):
        return len(given) == len(printed) and all(map(_within, given, printed))
    return bool(given == printed)


def test_random_trees_mean_the_same_wherever_they_are_evaluated(figures: Figures) -> None:
    grove = look(BATCHES)

    figures("random query trees", **{name.replace(" ", "_"): count for name, count in sorted(grove.counts.items())})
    assert grove.operations == OPERATIONS
    trees_seen = grove.counts["trees"]
    assert trees_seen == BATCHES * PER_BATCH
    # Both verdicts are often given: neither a limit nor an evaluator is looked at in vain.
    assert grove.counts["accepted"] > 0.5 * trees_seen
    assert grove.counts["refused"] > 0.02 * trees_seen
    assert grove.counts["form refused"] > 0.02 * trees_seen


# ------------------------------------------------------------------------------------------------------- controls


def _lookup_below(self: Any, example: Example) -> np.int64:
    return self.array()[1 + min(max(self.index.value(example), np.int64(0)), np.int64(len(self.table)))]


def _dot_without_the_last(self: Any, columns: Columns) -> Any:
    whole = language.Dot(field=self.field, weights=(*self.weights[:-1], 0))
    return _DOT(whole, columns)


def _clamp_too_narrow(self: Any, schema: Schema) -> tuple[int, int]:
    low, high = _CLAMP(self, schema)
    return low, max(high - 1, low)


def _gap_as_held(self: Any, example: Example) -> np.int64:
    return example.number(self.field)


def _bounds_without_the_gap(self: Any, schema: Schema) -> tuple[int, int]:
    return schema.field(self.field).least, schema.field(self.field).most


def _first_that_fails(self: Any, example: Example) -> bool:
    return self.of[0].value(example)


def _unsafe(self: Any, schema: Schema) -> tuple[int, int]:
    summands = [sorted(term.weight * bound for bound in term.of.bounds(schema)) for term in self.terms]
    return self.constant + sum(low for low, _ in summands), self.constant + sum(high for _, high in summands)


_DOT: Final = language.Dot.column
_CLAMP: Final = language.Clamp.bounds


@pytest.mark.parametrize(
    ("where", "name", "fault"),
    [
        (language.Lookup, "value", _lookup_below),
        (language.Dot, "column", _dot_without_the_last),
        (language.Clamp, "bounds", _clamp_too_narrow),
        (language.FieldValue, "value", _gap_as_held),
        (language.FieldValue, "bounds", _bounds_without_the_gap),
        (language.And, "value", _first_that_fails),
        (language.Affine, "bounds", _unsafe),
        (language.Parity, "entries", lambda self: len(self.mask) // 16),
        (query, "MAX_DEPTH", trees.LEVELS + 1),
        (query, "MAX_NODES", trees.NODES - 1),
        (query, "MAX_ENTRIES", trees.ENTRIES + 1),
        (language.Not, "to_bytes", None),
    ],
)
def test_control_one_fault_in_an_evaluator_or_a_limit_is_found(
    where: Any, name: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault is None:
        # A serialization that forgets what is not the default.
        printed: Callable[[Any], dict[str, Any]] = query.RealQuery.to_json
        monkeypatch.setattr(query.RealQuery, "to_json", lambda self: printed(self) | {"denominator": 1})
    else:
        monkeypatch.setattr(where, name, fault)
    with pytest.raises(AssertionError, match="batch"):
        look(2000)


# ---------------------------------------------------------------------------------------------------- hostile trees

BIT: Final = '{"op":"bit","field":"x","index":0}'
ONE: Final = '{"op":"integer","of":1}'


def _table(entry: str, n: int) -> str:
    table = ",".join([entry] * (n // (len(entry) + 1)))
    return '{"kind":"real","denominator":1,"numerator":{"op":"lookup","index":' + ONE + ',"table":[' + table + "]}}"


def _both(n: int) -> str:
    inner = '{"op":"or","of":[' + ",".join([BIT] * 200) + "]}"
    return '{"kind":"boolean","test":{"op":"and","of":[' + ",".join([inner] * max(n // len(inner), 2)) + "]}}"


def _sums(n: int) -> str:
    term = '{"weight":9007199254740991,"of":' + ONE + "}"
    return '{"op":"affine","terms":[' + ",".join([term] * min(n // len(term), 255)) + "]}"


HOSTILE: Final[dict[str, Callable[[int], str]]] = {
    # Each is a text of about n characters.
    "nested tests": lambda n: '{"kind":"boolean","test":' + '{"op":"not","of":' * (n // 18),
    "nested tests, closed": lambda n: (
        '{"kind":"boolean","test":' + '{"op":"not","of":' * (n // 20) + BIT + "}" * (n // 20)
    ),
    "nested lists": lambda n: "[" * n,
    "nested lists in a member": lambda n: '{"kind":"boolean","test":{"op":"and","of":' + "[" * (n - 100),
    "a wide list": lambda n: '{"kind":"boolean","test":{"op":"and","of":[' + ",".join([BIT] * (n // 36)) + "]}}",
    "wide lists of wide lists": _both,
    "sums of sums": lambda n: '{"kind":"real","denominator":1,"numerator":' + _sums(n) + "}",
    "one large number": lambda n: '{"kind":"real","denominator":1,"numerator":{"op":"integer","of":' + "9" * n + "}}",
    "a large exponent": lambda n: '{"kind":"real","numerator":' + ONE + ',"denominator":1e' + "9" * n + "}",
    "a long fraction": lambda n: '{"kind":"real","numerator":' + ONE + ',"denominator":1.' + "0" * n + "}",
    "NaN in a table": lambda n: _table("NaN", n),
    "infinities in a table": lambda n: _table("-Infinity", n),
    "large numbers in a table": lambda n: _table("9" * 400, n),
    "a long table": lambda n: _table("0", n),
    "a long name": lambda n: '{"kind":"boolean","test":{"op":"bit","field":"' + "x" * n + '","index":0}}',
    "a long mask": lambda n: '{"kind":"boolean","test":{"op":"parity","field":"x","mask":"' + "f" * n + '"}}',
    "a long category": lambda n: '{"kind":"boolean","test":{"op":"is","field":"x","category":"' + "a" * n + '"}} 1',
    "a long operation": lambda n: '{"kind":"boolean","test":{"op":"' + "o" * n + '"}}',
    "members that are not": lambda n: "{" + ",".join(f'"m{place}":0' for place in range(n // 10)) + "}",
    "a member often": lambda n: '{"kind":"boolean",' + '"test":0,' * (n // 9) + '"test":' + BIT + "}",
    "open quotes": lambda n: '{"kind' + '"\\' * (n // 2),
    "escapes": lambda n: '{"kind":"' + "\\u0000" * (n // 6) + '"}',
    "halves of surrogates": lambda n: '{"kind":"' + "\\ud800" * (n // 6) + '"}',
    "white space": lambda n: " " * n,
    "zeros before a number": lambda n: '{"kind":"cell","cells":' + "0" * n + '1,"cell":' + ONE + "}",
}


SCHEMA: Final = Schema.model_validate({"fields": ({"name": "x", "kind": "bits", "width": 64},)})


def refuse(text: str) -> str:
    """What a reader is told of a hostile tree."""
    try:
        prepare(read_query(text), SCHEMA)
    except ProtocolError as error:
        return str(error)
    raise AssertionError("accepted")


LINEAR: Final = 12 * 4
"""Growth in linear time is 12, in quadratic time 144: this is far from either."""


def seconds_of(text: str, work: Callable[[str], object]) -> float:
    """CPU time, the least of three: what the machine does besides is not counted."""
    spent = list[int]()
    for _ in range(3):
        begin = time.thread_time_ns()
        work(text)
        spent.append(time.thread_time_ns() - begin)
    return min(spent) / 1e9


def growth(make: Callable[[int], str], work: Callable[[str], object]) -> float:
    """How many times as long a text of 12 times the length takes; what takes less than a millisecond is no time."""
    short, long = (seconds_of(make(n), work) for n in (20_000, 240_000))
    return max(long, 0.001) / max(short, 0.001)


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_trees_are_refused_in_time_that_grows_with_their_length(make: Callable[[int], str]) -> None:
    for n in (20_000, 240_000):
        # A refusal is cut, however long what it names is.
        assert 0 < len(refuse(make(n))) < 5000
    # More than the limit is refused by its length alone.
    assert "over the limit" in refuse(make(1 << 20).ljust(1 << 20))
    assert growth(make, refuse) < LINEAR


def test_control_a_reader_in_quadratic_time_is_found() -> None:
    def backwards(text: str) -> object:
        return [text[place // 64 :].count("{") for place in range(0, len(text), 64)]

    assert growth(HOSTILE["nested lists"], backwards) > LINEAR


def test_a_round_over_the_work_limit_is_refused_before_it_is_prepared() -> None:
    """The work of many trees is counted, and costs nothing to count: each denominator near the largest, by Laplace."""
    numerator = {"op": "integer", "of": 1}
    heavy = read_query(json.dumps({"kind": "real", "numerator": numerator, "denominator": 500}))
    part = Part(query=heavy, channel=LaplaceSpec(micro_epsilon=1_000_000), charge=1_000_000, share=1)
    most = MAX_WORK // work_of(part)

    check_work(round_of(*[part] * most))
    with pytest.raises(ProtocolError, match="steps to prepare"):
        prepare_round(study(), round_of(*[part] * (most + 1)))
