"""Questions that are alike are answered together as they are one by one: every node, every width, every part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest

from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.language import (
    Affine,
    And,
    Bit,
    Compare,
    FieldValue,
    If,
    Integer,
    Label,
    Lookup,
    Not,
    Parity,
    Slice,
    Term,
    Xor,
)
from askance_protocol.queries.together import AnyQuery, alike, dealt_to
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import BinarySpec, Dealt, KarySpec, Part, PreparedRound, open_round
from askance_protocol.schema import BitsField, IntegerField, LabelField, Schema
from askance_protocol.tally import tally_in_turn, tally_round
from tests.protocol.studies import MASKED_BIT, PARTS, part, prepared, round_of, study
from tests.protocol.test_rounds import population

WIDTH: Final = 130
PEOPLE: Final = Schema(
    fields=(
        BitsField(name="x", width=WIDTH),
        BitsField(name="b", width=3),
        IntegerField(name="n", low=-5, high=70),
        LabelField(name="y"),
    )
)
N: Final = FieldValue(field="n")


def people(count: int, seed: int = 1) -> Columns:
    rng = np.random.default_rng(seed)
    bits = {"x": rng.integers(0, 2, (count, WIDTH)), "b": rng.integers(0, 2, (count, 3))}
    return Columns.of(PEOPLE, {**bits, "n": rng.integers(-5, 71, count), "y": rng.choice([-1, 1], count)})


def shifted(first: int) -> Affine:
    return Affine(constant=1, terms=(Term(weight=3, of=N), Term(weight=1, of=Slice(field="x", first=first, width=7))))


INDEXES: Final = (0, 5, 63, 64, 123)
ALIKE: Final[dict[str, list[AnyQuery]]] = {
    "a bit": [BooleanQuery(test=And(of=(Not(of=Bit(field="x", index=j)), Label(sign=1)))) for j in INDEXES],
    "a bit of one word": [BooleanQuery(test=Bit(field="b", index=j)) for j in (0, 1, 2)],
    "an integer": [BooleanQuery(test=Compare(left=N, relation="<=", right=Integer(of=j))) for j in (-5, 0, 64, 70)],
    "a mask": [BooleanQuery(test=Xor(of=(Label(sign=-1), Parity(field="x", mask=m)))) for m in ("1", "f" * 32, "0")],
    "a slice": [RealQuery(numerator=shifted(first), denominator=500) for first in INDEXES],
    "several constants": [
        CellQuery(
            cells=9,
            cell=If(test=Bit(field="x", index=j), then=N, otherwise=Lookup(index=Integer(of=j - 60), table=(1, 2, 9))),
            negative=Bit(field="b", index=j % 3),
        )
        for j in INDEXES
    ],
    "nothing": [BooleanQuery(test=Label(sign=1))] * 3,
}


def one_by_one(queries: Sequence[AnyQuery], columns: Columns, dealt: np.ndarray) -> list[int]:
    """The definition: each user answers the query that she was dealt."""
    answers = [query.answers(columns) for query in queries]
    return [int(answers[number][row]) for row, number in enumerate(dealt.tolist())]


@pytest.mark.parametrize("count", [0, 1, 700])
@pytest.mark.parametrize("queries", ALIKE.values(), ids=ALIKE)
def test_together_as_one_by_one(queries: list[AnyQuery], count: int) -> None:
    columns, dealt = people(count), np.random.default_rng(2).integers(0, len(queries), count).astype(np.uint16)
    together = alike(queries)

    assert together is not None
    assert together.answers(dealt_to(columns, dealt)).tolist() == one_by_one(queries, columns, dealt)


def test_a_constant_of_another_query_is_seen() -> None:
    """The control: who is dealt the next query answers something else."""
    for name in ALIKE.keys() - {"nothing"}:
        queries, columns = ALIKE[name], people(700)
        dealt = np.zeros(700, np.uint16)
        together = alike(queries)
        assert together is not None
        assert together.answers(dealt_to(columns, dealt + np.uint16(1))).tolist() != one_by_one(queries, columns, dealt)


UNLIKE: Final[dict[str, list[AnyQuery]]] = {
    "another kind": [BooleanQuery(test=Label(sign=1)), RealQuery(numerator=N, denominator=100)],
    "another node": [BooleanQuery(test=Label(sign=1)), BooleanQuery(test=Bit(field="b", index=0))],
    "another field": [BooleanQuery(test=Bit(field="x", index=0)), BooleanQuery(test=Bit(field="b", index=0))],
    "another sign": [BooleanQuery(test=Label(sign=1)), BooleanQuery(test=Label(sign=-1))],
    "another width": [RealQuery(numerator=Slice(field="x", first=0, width=w), denominator=9) for w in (1, 2)],
    "another denominator": [RealQuery(numerator=N, denominator=d) for d in (9, 10)],
    "more tests": [BooleanQuery(test=And(of=(Label(sign=1),) * n)) for n in (1, 2)],
    "a test more": [CellQuery(cells=9, cell=N), CellQuery(cells=9, cell=N, negative=Label(sign=1))],
    "another weight": [RealQuery(numerator=Affine(terms=(Term(weight=w, of=N),)), denominator=9) for w in (1, 2)],
}


@pytest.mark.parametrize("queries", UNLIKE.values(), ids=UNLIKE)
def test_what_differs_in_more_is_not_alike(queries: list[AnyQuery]) -> None:
    assert alike(queries) is None
    assert alike(queries[::-1]) is None
    assert alike(queries[:1] * 2) is not None


# ------------------------------------------------------------------------------------------------- reports of a round

BINARY, OTHER = BinarySpec(micro_epsilon=1_000_000), BinarySpec(micro_epsilon=999_999)


def of_bits(*channels: Any, shares: Sequence[int] = ()) -> list[Part]:
    given = zip(channels, shares or [1] * len(channels), strict=True)
    return [
        part(BooleanQuery(test=And(of=(Bit(field="x", index=j % 8), Label(sign=1)))), channel, share=share)
        for j, (channel, share) in enumerate(given)
    ]


CELLS: Final = [
    part(CellQuery(cells=9, cell=Slice(field="x", first=j, width=3)), KarySpec(micro_epsilon=1_000_000)) for j in (0, 2)
]
POOLED: Final = [part(CellQuery(cells=9, cell=Slice(field="x", first=j, width=3))) for j in (0, 2, 4)]
ROUNDS: Final[dict[str, PreparedRound]] = {
    "all alike": prepared(*of_bits(*[BINARY] * 5)),
    "alike, of other shares": prepared(*of_bits(*[BINARY] * 3, shares=(5, 1, 300))),
    "another channel between": prepared(*of_bits(BINARY, BINARY, OTHER, BINARY)),
    "cells, pooled cells and a bit": prepared(*CELLS, *POOLED, part(MASKED_BIT), *POOLED),
    "of all kinds": prepared(*PARTS.values()),
    "one": prepared(part(MASKED_BIT)),
    "one pooled": prepared(POOLED[0]),
}
each_round = pytest.mark.parametrize("round_", ROUNDS.values(), ids=ROUNDS)


def part_by_part(round_: PreparedRound, asked: Dealt, columns: Columns, among: np.ndarray) -> list[int]:
    """The definition, as version 0.1 had it: users of one part after the other, each answering her own question."""
    source, outcomes = SimulatedRandom(4), np.zeros(len(columns), np.int64)
    for number, one in enumerate(round_.parts):
        mine = among[asked.parts[among] == number]
        if len(mine):
            inputs = one.encode_all(one.query.answers(columns.take(mine)), asked.rows[mine])
            outcomes[mine] = one.channel.sample(inputs, source).outcomes
    return outcomes[among].tolist()


@each_round
@pytest.mark.parametrize("count", [0, 1, 3, 20, 3000])
def test_a_round_is_answered_as_it_is_part_by_part(round_: PreparedRound, count: int) -> None:
    columns, asked = population(count), round_.questions(range(count))

    for among in (None, np.flatnonzero(np.arange(count) % 7 != 3)):
        chosen = np.arange(count) if among is None else among
        drawn = round_.respond_in_turn(asked, columns, SimulatedRandom(4), among)
        order = np.argsort(drawn.places)

        assert drawn.places[order].tolist() == chosen.tolist()
        assert drawn.outcomes[order].tolist() == part_by_part(round_, asked, columns, chosen)
        assert drawn.rows[order].tolist() == asked.rows[chosen].tolist()
        counted = [tally.to_rows() for tally in tally_in_turn(round_, drawn)]
        singly = tally_round(round_, chosen, drawn.outcomes[order])
        assert counted == [tally.to_rows() for tally in singly]


def test_parts_are_cut_where_they_are_not_alike() -> None:
    cut = {name: [(run.start, run.stop) for run in round_._runs] for name, round_ in ROUNDS.items()}

    assert cut["all alike"] == [(0, 5)]
    assert cut["another channel between"] == [(0, 2), (2, 3), (3, 4)]
    assert cut["cells, pooled cells and a bit"] == [(0, 2), (2, 5), (5, 6), (6, 9)]


def test_control_who_is_dealt_another_part_is_seen() -> None:
    round_, columns = ROUNDS["all alike"], population(3000)
    asked = round_.questions(range(3000))
    drawn = round_.respond_in_turn(Dealt(np.roll(asked.parts, 1), asked.rows), columns, SimulatedRandom(4))

    right = part_by_part(round_, asked, columns, np.arange(3000))
    assert drawn.outcomes[np.argsort(drawn.places)].tolist() != right


def test_an_unsound_part_is_alone_and_others_go_on() -> None:
    sound = of_bits(*[BINARY] * 4)
    unsound = part(sound[2].query, charge=999_999)
    round_ = open_round(study(), round_of(sound[0], sound[1], unsound, sound[3]))
    columns, asked = population(500), round_.questions(range(500))
    others = np.flatnonzero(asked.parts != 2)

    assert [(run.start, run.stop) for run in round_._runs] == [(0, 2), (2, 3), (3, 4)]
    assert len(round_.respond_in_turn(asked, columns, SimulatedRandom(1), others).outcomes) == len(others)
    with pytest.raises(ProtocolError, match=r"^parts\[2\]"):
        round_.respond_in_turn(asked, columns, SimulatedRandom(1))
