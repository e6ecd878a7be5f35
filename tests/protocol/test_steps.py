"""The clock tells nothing: from example to report, the same steps for every example, every input and every outcome.

A server sees when a user asked for her account and when her report came. On version 0.1 it told all-zero examples from
random ones by 50 reports of one micro-ε each: a sum over the bits that are set, a walk that ended at the outcome. Here
every node of the language and every kind of channel is held to it, found by their own lists: a new one without a case
fails. `steps` says what is counted and what is timed. The controls are the code of version 0.1.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, Final, get_args

import numpy as np
import pytest

from askance_protocol import hadamard
from askance_protocol.arrays import Whole
from askance_protocol.budget import MICRO
from askance_protocol.channels import CHANNELS, BinaryResponse, Channel, KaryResponse, TabulatedChannel
from askance_protocol.channels.ratio import WORD
from askance_protocol.examples import Example
from askance_protocol.hashing import Buckets
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, measure, prepare
from askance_protocol.queries.language import (
    MAX_ENTRIES,
    Affine,
    And,
    AnyNumber,
    AnyTest,
    BaseNumber,
    BaseTest,
    Bit,
    Clamp,
    Compare,
    Constant,
    Dot,
    Expression,
    FieldValue,
    If,
    Integer,
    Is,
    Label,
    Lookup,
    Not,
    Or,
    Parity,
    Slice,
    Term,
    Xor,
)
from askance_protocol.queries.query import MAX_NODES, Query
from askance_protocol.randomness import Draw
from askance_protocol.reports import encode_report
from askance_protocol.rounds import Part, PreparedRound
from askance_protocol.schema import BitsField, CategoryField, IntegerField, LabelField, RealField, Schema
from tests.protocol.generators import AnyQuery, all_nodes
from tests.protocol.generators import extremes as ends
from tests.protocol.steps import Call, same_time, ways
from tests.protocol.studies import SCHEMA, prepared
from tests.protocol.test_channel_contract import answered, spec_of

TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"

WIDE: Final = 4096
PEOPLE: Final = Schema(
    fields=(
        BitsField(name="x", width=WIDE),
        BitsField(name="b", width=1),
        CategoryField(name="c", values=tuple(f"value {index}" for index in range(100))),
        IntegerField(name="n", low=-(1 << 40), high=1 << 40),
        RealField(name="r", low=-(1 << 20), high=1 << 20, denominator=1 << 20),
        LabelField(name="y"),
        IntegerField(name="g", low=-(1 << 40), high=1 << 40, gap=True),
        CategoryField(name="k", values=("a", "b"), gap=True),
        RealField(name="h", low=-1, high=1, denominator=1, gap=True),
    )
)


def people() -> Iterator[Example]:
    """The extremes of each field, alone and together, and what lies between."""
    middle = {
        "x": random.Random(1).getrandbits(WIDE),
        "b": 0,
        "c": 50,
        "n": 0,
        "r": 1000,
        "y": 1,
        "g": 0,
        "k": 1,
        "h": 0,
    }
    yield Example(PEOPLE, tuple(middle.values()))
    yield from ends(PEOPLE)
    changes: dict[str, tuple[int, ...]] = {
        "x": (0, 1, 1 << WIDE - 1, (1 << WIDE) - 1),
        "n": (-(1 << 40), -1, 5, 1 << 40),
        "r": (-(1 << 40), 1 << 40),
        "c": (0, 99),
        "b": (1,),
        "y": (-1,),
        "g": (-(1 << 40), 1 << 40, (1 << 40) + 1),
        "k": (0, 2),
        "h": (-1, 1, 2),
    }
    for name, values in changes.items():
        for value in values:
            yield Example(PEOPLE, tuple((middle | {name: value}).values()))


EXAMPLES: Final = list(people())
"""The first is the one that every case begins with."""

# ------------------------------------------------------------------------------------------- nodes of the language

BIT, N, R, C, Y = Bit(field="x", index=0), *(FieldValue(field=name) for name in ("n", "r", "c", "y"))
G, K, H = (FieldValue(field=name, gap=gap) for name, gap in (("g", -(1 << 50)), ("k", 2), ("h", 0)))
WEIGHTS: Final = tuple(random.Random(2).randint(-99, 99) for _ in range(WIDE))
BITS: Final = tuple(Bit(field="x", index=index) for index in range(0, WIDE, 17))[:200]
RELATIONS: Final = ("<", "<=", "=", "!=", ">=", ">")

NODES: Final[Mapping[str, Expression]] = {
    "constant": Constant(truth=True),
    "bit": Xor(of=(BIT, Bit(field="x", index=WIDE - 1), Bit(field="b", index=0))),
    "parity": Parity(field="x", mask="f" * (WIDE // 4)),
    "is": Xor(of=(Is(field="c", category="value 0"), Is(field="c", category="value 99"))),
    "label": Label(sign=-1),
    "not": Not(of=Label(sign=1)),
    "and": And(of=BITS),
    "or": Or(of=BITS),
    "xor": Xor(of=BITS),
    "compare": Xor(of=tuple(Compare(left=N, relation=relation, right=R) for relation in RELATIONS)),
    "integer": Integer(of=(1 << 53) - 1),
    "field": Affine(terms=tuple(Term(weight=1, of=number) for number in (N, R, C, Y, G, K, H))),
    "slice": Affine(terms=(*(Term(weight=1, of=Slice(field="x", first=at, width=48)) for at in (0, 60, WIDE - 48)),)),
    "dot": Dot(field="x", weights=WEIGHTS),
    "affine": Affine(constant=-7, terms=tuple(Term(weight=weight, of=N) for weight in (-99, -1, 0, 1, 31, 99))),
    "lookup": Lookup(index=N, table=tuple(range(50)), default=1 << 50),
    "if": If(test=BIT, then=N, otherwise=Integer(of=1)),
    "clamp": Xor(of=tuple(Compare(left=Clamp(of=N, low=low, high=low + 9), relation="<", right=R) for low in (-9, 3))),
}
"""For each operation a node that has it, over fields of which its steps might depend."""


def operations() -> dict[str, type[Expression]]:
    """Every operation, as the language itself lists them."""
    nodes = [node for union in (AnyTest, AnyNumber) for node in get_args(get_args(union)[0])]
    return {node.model_fields["op"].default: node for node in nodes}


def test_no_operation_is_without_a_case() -> None:
    assert operations().keys() == NODES.keys()
    for op, node in NODES.items():
        assert operations()[op] in {type(part) for part in all_nodes(asked(node))}


def asked(node: Expression) -> BooleanQuery:
    """A query that holds a node as often as it may: what one of them gives away, hundreds give away sooner."""
    test: Any = node if isinstance(node, BaseTest) else Compare(left=node, relation="<", right=Integer(of=0))  # type: ignore[arg-type]
    cost = measure(BooleanQuery(test=test))
    often = min((MAX_NODES - 1) // cost.nodes, MAX_ENTRIES // max(cost.entries, 1))
    return BooleanQuery(test=Xor(of=(test,) * often))


def answers(query: AnyQuery, examples: Sequence[Example] = EXAMPLES) -> list[Call]:
    """Answer a query, once for each example."""
    return [partial(prepare(query, examples[0].schema).value, example) for example in examples]


def test_an_answer_is_as_wide_for_every_example() -> None:
    for query in QUERIES.values():
        assert {type(call()) for call in answers(query)} == {np.int64}


def widths(query: AnyQuery, examples: Sequence[Example]) -> set[str]:
    """Nodes that hold a value whose size depends on the example: what a step of the interpreter does not show."""
    found: set[str] = set()
    for node in all_nodes(query):
        right = np.int64 if isinstance(node, BaseNumber) else bool
        if isinstance(node, BaseNumber | BaseTest):
            found |= {type(node).__name__ for example in examples if type(node.value(example)) is not right}
    return found


each_node = pytest.mark.parametrize("node", NODES.values(), ids=NODES)


@each_node
def test_a_node_takes_the_same_steps_for_every_example(node: Expression) -> None:
    query = asked(node)

    assert ways(answers(query)) == 1
    assert widths(query, EXAMPLES) == set()


@each_node
def test_a_node_takes_the_same_time_for_every_example(node: Expression) -> None:
    assert same_time(answers(asked(node)))


def test_250_products_over_one_bit_take_the_same_time() -> None:
    """The query that amplified what little a set bit took longer."""
    bits = tuple(Term(weight=1, of=Dot(field="b", weights=(1,))) for _ in range(250))
    unlike = [next(example for example in EXAMPLES if example["b"] == bit) for bit in (0, 1)]

    assert same_time(answers(RealQuery(numerator=Affine(terms=bits), denominator=250), unlike))


QUERIES: Final[Mapping[str, AnyQuery]] = {
    "boolean": BooleanQuery(test=And(of=(BIT, Label(sign=1)))),
    "real": RealQuery(numerator=N, denominator=1000),
    "cell": CellQuery(cells=1 << 16, cell=N, negative=Label(sign=-1)),
}


def test_no_kind_of_query_is_without_a_case() -> None:
    assert QUERIES.keys() == {kind.model_fields["kind"].default for kind in get_args(get_args(Query)[0])}


@pytest.mark.parametrize("query", [*QUERIES.values(), CellQuery(cells=6, cell=N)], ids=[*QUERIES, "unsigned"])
def test_a_query_takes_the_same_steps_and_time_for_every_example(query: AnyQuery) -> None:
    """In range and beyond it, in a cell and in none, of either sign."""
    assert ways(answers(query)) == 1
    assert same_time(answers(query))


# ------------------------------------------------------------------------------------------------------ controls


class SummedDot(Dot):
    """Version 0.1: the weights of the bits that are set."""

    def value(self, example: Example) -> Any:
        return sum(weight for index, weight in enumerate(self.weights) if example[self.field] >> index & 1)


class ShiftedBit(Bit):
    """Version 0.1: an integer is shifted that is as long as its highest set bit."""

    def value(self, example: Example) -> bool:
        return bool(example[self.field] >> self.index & 1)


class LoopedParity(Parity):
    """Clears one set bit after the other."""

    def value(self, example: Example) -> bool:
        left, odd = example[self.field] & int(self.mask, 16), False
        while left:
            left, odd = left & left - 1, not odd
        return odd


class EarlyAnd(And):
    """Stops at the first test that fails."""

    def value(self, example: Example) -> bool:
        return all(test.value(example) for test in self.of)


class EarlyOr(Or):
    """Stops at the first test that holds."""

    def value(self, example: Example) -> bool:
        return any(test.value(example) for test in self.of)


class MissingLookup(Lookup):
    """Version 0.1: an index beyond the table is not looked up."""

    def value(self, example: Example) -> Any:
        index = self.index.value(example)
        return self.table[index] if 0 <= index < len(self.table) else self.default


class LazyIf(If):
    """Evaluates only the number that it needs."""

    def value(self, example: Example) -> Any:
        return self.then.value(example) if self.test.value(example) else self.otherwise.value(example)


class BranchingCell(CellQuery):
    """Version 0.1: no sign, and no product, for an example in no cell."""

    def value(self, example: Example) -> np.int64:
        cell = self.cell.value(example)
        sign = -1 if self.negative is not None and self.negative.value(example) else 1
        return sign * (cell + 1) if 0 <= cell < self.cells else np.int64(0)


class GrowingField(FieldValue):
    """Version 0.1: an integer that is as long as its value is large. The interpreter's steps do not show it."""

    def value(self, example: Example) -> Any:
        return example[self.field]


class SkippedGap(FieldValue):
    """Looks for what a gap counts as only where there is one."""

    def value(self, example: Example) -> Any:
        held = example.number(self.field)
        if held == example.schema.field(self.field).empty:
            return np.int64(self.gap or 0)
        return held


@pytest.mark.parametrize(
    "query",
    [
        asked(SkippedGap(field="g", gap=0)),
        asked(SummedDot(field="x", weights=WEIGHTS)),
        asked(LoopedParity(field="x", mask="ff")),
        asked(EarlyAnd(of=BITS)),
        asked(EarlyOr(of=BITS)),
        asked(MissingLookup(index=N, table=(1, 2))),
        asked(LazyIf(test=BIT, then=N, otherwise=Clamp(of=N, low=0, high=1))),
        BranchingCell(cells=6, cell=N, negative=Label(sign=-1)),
    ],
    ids=lambda query: type(query).__name__ if isinstance(query, CellQuery) else type(query.test.of[0]).__name__,
)
def test_control_steps_that_depend_on_the_example_are_found(query: AnyQuery) -> None:
    assert ways(answers(query)) > 1


NARROWER: Final = Schema(fields=(BitsField(name="x", width=WIDE // 4),))
ONE_FIELD: Final = Schema(fields=(BitsField(name="x", width=WIDE),))
FEW: Final = [Example(ONE_FIELD, (bits,)) for bits in (0, 1, (1 << WIDE) - 1, random.Random(4).getrandbits(WIDE))]


@pytest.mark.parametrize(
    "query",
    [
        RealQuery(numerator=SummedDot(field="x", weights=WEIGHTS), denominator=1),
        BooleanQuery(test=And(of=tuple(ShiftedBit(field="x", index=index) for index in range(200)))),
    ],
    ids=["the weights of set bits", "shifts of integers that are short or long"],
)
def test_control_time_that_depends_on_the_example_is_found(query: AnyQuery) -> None:
    """The second takes the same steps for every example: only the clock sees it."""
    assert not same_time(answers(query, FEW))


def test_control_a_value_that_grows_is_found() -> None:
    assert widths(asked(FieldValue(field="n")), EXAMPLES) == set()
    assert widths(asked(GrowingField(field="n")), EXAMPLES) == {"GrowingField"}


# ------------------------------------------------------------------------------------------------------ channels

LARGE: Final = {"kary": {"k": 1024}, "geometric": {"range": 100}, "laplace": {"range": 100}}
"""By kind: an option of the same name means something else in another kind, which is built with its defaults."""
TABLE: Final = TabulatedChannel(KaryResponse(MICRO, 300).table())


def channels() -> Iterator[Any]:
    """Each kind that the package finds: as a round builds it for each query, and as large as an answer is quick."""
    for kind in CHANNELS.values():
        for name, _, channel in answered(spec_of(kind)):
            yield pytest.param(channel, id=f"{kind.name} for {name}")
        if kind.build is not None:
            options = {name: default for name, (default, _) in kind.options.items()} | LARGE.get(kind.name, {})
            yield pytest.param(kind.build(MICRO, **options), id=f"{kind.name}, large")
    yield pytest.param(BinaryResponse(MICRO, 200_000), id="binary, large")
    yield pytest.param(TABLE, id="table, large")


def choices(channel: Channel) -> list[Call]:
    """Choose an outcome: for inputs and words at both ends and between."""
    inputs = map(np.int64, (0, 1, channel.inputs // 2, channel.inputs - 1))
    words = (0, 1 << 20, WORD // 3, WORD // 2, WORD - WORD // 8, WORD - 1)
    return [partial(channel.choose, given, word) for given in inputs for word in words]


each_channel = pytest.mark.parametrize("channel", list(channels()))


@each_channel
def test_a_channel_takes_the_same_steps_for_every_input_and_outcome(channel: Channel) -> None:
    assert ways(choices(channel)) == 1


@each_channel
def test_a_channel_takes_the_same_time_for_every_input_and_outcome(channel: Channel) -> None:
    assert same_time(choices(channel))


class Plain(KaryResponse):
    """Chooses as a channel does that knows no faster way: it walks all segments."""

    def choose(self, given: Whole, word: int) -> int:
        return Channel.choose(self, given, word)


class Walked(KaryResponse):
    """Version 0.1: ends at the segment that holds the word, so that the truth, which comes first, is quick."""

    def choose(self, given: Whole, word: int) -> int:
        return next(outcome for end, outcome in self.segments(self.check_input(given)) if word < end)


def test_a_channel_that_knows_no_faster_way_takes_the_same_steps_and_time() -> None:
    assert ways(choices(Plain(MICRO, 100))) == 1
    assert same_time(choices(Plain(MICRO, 100)))


def test_control_a_walk_that_ends_at_the_outcome_is_found() -> None:
    assert ways(choices(Walked(MICRO, 100))) > 1
    assert not same_time(choices(Walked(MICRO, 100)))


class Kept(KaryResponse):
    """Keeps what it works out for an input: the second answer with one input is quicker than the first with another."""

    kept: dict[int, tuple[tuple[int, int], ...]] = {}  # noqa: RUF012 - the fault

    def choose(self, given: Whole, word: int) -> int:
        if given not in self.kept:
            self.kept[int(given)] = tuple(self.segments(int(given)))
        return sum(outcome * (word < end) for end, outcome in self.kept[int(given)])


def test_control_what_is_kept_of_an_input_is_found() -> None:
    assert ways(choices(Kept(MICRO, 100))) > 1


# ------------------------------------------------------------------------------- from the example to the report


class OneWord:
    """A source of one word, again and again."""

    simulated = True

    def __init__(self, word: int) -> None:
        self._word = word

    def word(self) -> int:
        return self._word

    def draw(self, count: int) -> Draw:
        raise NotImplementedError


def rounds() -> Iterator[Any]:
    """One round for each kind of channel and query that it answers."""
    for kind in CHANNELS.values():
        for name, query, channel in answered(spec_of(kind)):
            part = Part(query=query, channel=spec_of(kind), charge=channel.certified_micro_epsilon)
            yield pytest.param(prepared(part), id=f"{kind.name} for {name}")


def reports(round_: PreparedRound) -> list[Call]:
    """What a user's device does to answer: for the extreme examples, and words from one end to the other."""
    words = (0, WORD // 3, WORD // 2, WORD - 1)
    return [partial(report, round_, example, word) for example in ends(SCHEMA) for word in words]


def report(round_: PreparedRound, example: Example, word: int) -> bytes:
    """A report of user 7: what `User` does with an example."""
    return encode_report(round_.respond(7, example, OneWord(word)), round_.outcomes)


each_round = pytest.mark.parametrize("round_", list(rounds()))


@each_round
def test_a_report_takes_the_same_steps_and_time_for_every_example_and_outcome(round_: PreparedRound) -> None:
    assert ways(reports(round_)) == 1
    assert same_time(reports(round_))


def test_control_an_encoding_that_stops_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 0.1: an example in no cell was encoded at once."""
    encode: Callable[[Whole, int], Whole] = hadamard.encode
    monkeypatch.setattr(hadamard, "encode", lambda answer, row: 1 if answer == 0 else encode(answer, row))
    [masked] = [each.values[0] for each in rounds() if each.id == "binary for a cell or none"]

    assert isinstance(masked, PreparedRound)
    assert ways(reports(masked)) > 1


def test_control_buckets_that_are_made_in_as_many_steps_as_a_cell_has_bits_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def walked(buckets: Buckets, answer: Whole, row: int) -> Whole:
        cell, bucket = abs(int(answer)), 0
        while cell:
            bucket, cell = bucket ^ cell & row & 1, cell >> 1
        return bucket

    monkeypatch.setattr(Buckets, "encode", walked)
    [hashed] = [each.values[0] for each in rounds() if each.id == "hash for a cell"]

    assert isinstance(hashed, PreparedRound)
    assert ways(reports(hashed)) > 1


# ------------------------------------------------------------------------------------------------------ the attack

TRIALS, MOST_RIGHT = (400, 247) if TORTURE else (40, 34)
"""Guessing blindly, more than so many are right with probability 10⁻⁶ at most: the tail of Bin(n, ½)."""

TIMINGS: Final = 50


def told(query: AnyQuery, schema: Schema, trials: int) -> int:
    """How often 50 timings of each of two known examples and of a secret one say which of the two the secret is."""
    answer = prepare(query, schema).value
    source, right = random.Random(3), 0
    for _ in range(trials):
        secret = source.random() < 0.5
        known = (Example(schema, (0,)), Example(schema, (source.getrandbits(WIDE // 4),)))
        hers = Example(schema, (source.getrandbits(WIDE // 4) if secret else 0,))
        times: list[list[int]] = [[], [], []]
        for _ in range(TIMINGS):
            for taken, example in zip(times, (*known, hers), strict=True):
                begin = time.thread_time_ns()
                answer(example)
                taken.append(time.thread_time_ns() - begin)
        zeros, ones, unknown = map(median, times)
        right += (abs(unknown - ones) < abs(unknown - zeros)) == secret
    return right


def test_fifty_timings_do_not_tell_zeros_from_random_examples() -> None:
    """The attack on version 0.1, at the place where it is strongest: no network, no other process, CPU time."""
    query = RealQuery(numerator=Dot(field="x", weights=WEIGHTS[: WIDE // 4]), denominator=1000)

    assert told(query, NARROWER, TRIALS) <= MOST_RIGHT


def test_control_fifty_timings_tell_them_where_only_set_bits_are_added() -> None:
    query = RealQuery(numerator=SummedDot(field="x", weights=WEIGHTS[: WIDE // 4]), denominator=1000)

    assert told(query, NARROWER, 24) >= 23


ODDS: Final = 6_930_495
"""micro-ε of a k-ary response over 1,024 cells whose truth is as likely as a lie."""


def told_truths(channel: KaryResponse, outcome: int, reports: int) -> int:
    """How often one timing of a choice says whether a report is the truth. The outcome is the same: only time tells."""
    source, first = random.Random(5), channel.truth - channel.lie
    drawn: list[tuple[bool, np.int64, int]] = []
    for _ in range(reports):
        true = (outcome, source.randrange(first))
        lie = (source.randrange(outcome), first + outcome * channel.lie + source.randrange(channel.lie))
        truth = source.random() < 0.5
        given, word = true if truth else lie
        drawn.append((truth, np.int64(given), word))
    times: list[int] = []
    for _, given, word in drawn:
        begin = time.thread_time_ns()
        channel.choose(given, word)
        times.append(time.thread_time_ns() - begin)
    usual = median(times)
    return sum((taken < usual) == truth for taken, (truth, _, _) in zip(times, drawn, strict=True))


def test_one_timing_does_not_tell_the_truth_from_a_lie() -> None:
    assert told_truths(KaryResponse(ODDS, 1024), 1000, 40) <= 34


def test_control_one_timing_tells_the_truth_where_a_walk_ends_at_it() -> None:
    assert told_truths(Walked(ODDS, 1024), 1000, 40) > 34
