"""The questions of a poll to the letter, as a bulletin has them, and the numbers that their answers are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from askance_protocol.errors import ProtocolError
from askance_protocol.queries import CellQuery, RealQuery
from askance_protocol.queries.language import Affine, FieldValue, Lookup, Term
from askance_protocol.schema import CategoryField, IntegerField, Schema
from askance_server.core.strategy import Estimate
from askance_server.strategies.shared.poll_questions import asks_of, cells_of, estimates_of, field_of, values_of


def choices(*values: str, gap: bool = True) -> Schema:
    return Schema(fields=(CategoryField(name="answer", values=values, gap=gap or None),))


def scale(low: int, high: int, *, gap: bool = True) -> Schema:
    return Schema(fields=(IntegerField(name="answer", low=low, high=high, gap=gap or None),))


def looked_up(table: Sequence[int], first: int, denominator: int, gap: int | None) -> RealQuery:
    """What a table says of the number that the field holds, from its first one on."""
    value = FieldValue(field="answer") if gap is None else FieldValue(field="answer", gap=gap)
    index = Affine(constant=-first, terms=(Term(weight=1, of=value),))
    return RealQuery(numerator=Lookup(index=index, table=tuple(table), default=0), denominator=denominator)


@pytest.mark.parametrize(
    ("example", "query"),
    [
        (choices("yes", "no"), looked_up((1, -1), 0, 1, 2)),
        (choices("yes", "no", gap=False), looked_up((1, -1), 0, 1, None)),
        (scale(3, 6), looked_up((-3, -1, 1, 3), 3, 3, 7)),
        (scale(-2, 0, gap=False), looked_up((-2, 0, 2), -2, 2, None)),
    ],
)
def test_a_value_is_looked_up_from_minus_one_to_one_and_a_gap_lies_behind(example: Schema, query: RealQuery) -> None:
    assert asks_of(example)[0].query == query


def test_what_is_asked_is_asked_of_as_many_each() -> None:
    asked = {name: asks_of(example) for name, example in {"two": choices("a", "b"), "all": scale(1, 3)}.items()}

    assert [(ask.share, ask.tolerance, ask.channel) for ask in asked["two"]] == [(1, 0.1, "binary")]
    assert [(ask.share, ask.tolerance, ask.channel) for ask in asked["all"]] == [(1, 0.1, "binary"), (1, 0.1, "best")]
    assert [type(ask.query) for ask in asked["all"]] == [RealQuery, CellQuery]
    [cells] = asks_of(choices("a", "b", "c"))
    assert (cells.share, cells.tolerance, cells.channel) == (1, 0.1, "best")


def test_a_scale_has_two_numbers_at_least_and_a_thousand_at_most_and_cells_for_as_many_as_can_be_told() -> None:
    for low, high in ((0, 1), (-3, -2), (1, 1000), (-500, 499)):
        assert isinstance(field_of(scale(low, high)), IntegerField)
    for low, high in ((3, 3), (0, 1000)):
        with pytest.raises(ProtocolError, match="2 to 1000 numbers"):
            field_of(scale(low, high))
    for low in (0, 5):
        found = cells_of(scale(low, low + 63).fields[0], scale(low, low + 63))  # type: ignore[arg-type]
        assert found is not None
        assert len(found[1]) == 65
        assert cells_of(scale(low, low + 64).fields[0], scale(low, low + 64)) is None  # type: ignore[arg-type]


def test_numbers_are_those_of_the_answers_within_what_they_can_be() -> None:
    def told(example: Schema, *answers: float | Sequence[float]) -> Mapping[str, object]:
        given = [each if isinstance(each, float) else np.array(each) for each in answers]
        return {name: pytest.approx(value) for name, value in values_of(example, given)}

    it_is = choices("it's", "no")
    for mean, share in ((0.5, 0.75), (-1.0, 0.0), (1.0, 1.0), (1.7, 1.0), (-1.7, 0.0)):
        assert told(it_is, mean) == {"share(answer = 'it''s')": share, "share(answer = 'no')": 1 - share}
    cells = [0.25, -0.125, 1.5, 0.0]
    for mean, at in ((0.5, 3.5), (0.0, 3.0), (-1.5, 2.0), (1.5, 4.0)):
        assert told(scale(2, 4), mean, cells) == {
            "mean(answer)": at,
            "histogram(answer): 2": 0.25,
            "histogram(answer): 3": 0.0,
            "histogram(answer): 4": 1.0,
            "histogram(answer): missing": 0.0,
        }


def estimate(level: float) -> Estimate:
    return Estimate("?", 0.5, 0.25, 0.75, level, 10)


def test_the_intervals_of_cells_hold_together_with_the_level_that_is_told() -> None:
    """Each of n is made to fail with the n-th part of what all may; the mean of a scale is one number, by itself."""
    levels = list[float]()

    def estimating(level: float, _sums: object = (), /) -> list[Estimate]:
        levels.append(level)
        return [estimate(level)] * number

    three = choices("a", "b", "c")
    for example, number, each in (
        (choices("a", "b"), 1, []),
        (three, 4, [0.9875]),
        (scale(1, 3), 5, [0.9875]),
    ):
        levels.clear()
        found = estimates_of(example, estimating)
        assert levels == pytest.approx([0.95, *each])
        assert {one.level for one in found} == {0.95}
        assert len(found) == max(number, 2)
    assert [found[0].name, found[0].estimate, found[0].low, found[0].high] == ["mean(answer)", 2.5, 2.25, 2.75]
    for example in (choices("a", "b"), three, scale(1, 3)):
        assert estimates_of(example, lambda _level, _sums=(), /: []) == []
