"""The questions of a poll about one field: a real value, cells, or both; and the numbers that their answers are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.queries import RealQuery
from askance_protocol.queries.language import Affine, FieldValue, Lookup, Term
from askance_protocol.queries.telemetry import MAX_HISTOGRAM, compile_question
from askance_protocol.schema import CategoryField, IntegerField, Schema
from askance_server.core.strategy import LEVEL, Answer, Ask, Estimate, Estimating

MOST_OF_SCALE: Final = 1000
"""Numbers of a scale."""
_TOLERANCE: Final = 0.1
"""How exact an answer should be where a plan is asked for as many users as are needed."""
Field = CategoryField | IntegerField


@dataclass(frozen=True, slots=True)
class Signed:
    """A real-valued question, and how the ends −1 and +1 of its mean are told."""

    query: RealQuery
    names: tuple[tuple[str, float, float], ...]
    """Each number that is told of it: its name, and what it is at −1 and at +1."""

    def told(self, mean: Estimate) -> list[Estimate]:
        """The numbers, from the estimate of the mean."""
        return [_mapped(mean, name, at_low, at_high) for name, at_low, at_high in self.names]


def _mapped(mean: Estimate, name: str, at_low: float, at_high: float) -> Estimate:
    middle, half = (at_low + at_high) / 2, (at_high - at_low) / 2
    low, high = sorted((middle + half * mean.low, middle + half * mean.high))
    return Estimate(name, middle + half * mean.estimate, low, high, mean.level, mean.reports)


def field_of(example: Schema) -> Field:
    """The one field that an answer is."""
    [field, *others] = example.fields
    if others or not isinstance(field, CategoryField | IntegerField):
        raise read.refused("example", "is not one category or one whole number", "ask one question at a time")
    if isinstance(field, IntegerField) and not 1 <= field.high - field.low < MOST_OF_SCALE:
        raise read.refused("example", f"has not 2 to {MOST_OF_SCALE} numbers", "ask a shorter scale")
    return field


def signed_of(field: Field) -> Signed | None:
    """The real-valued question about a field; None for more than two choices."""
    if isinstance(field, CategoryField):
        if len(field.values) > 2:
            return None
        first, second = (_choice(field, value) for value in field.values)
        return Signed(_looked_up(field, (1, -1), 0, 1), ((first, 0.0, 1.0), (second, 1.0, 0.0)))
    table = tuple(2 * number - field.low - field.high for number in range(field.low, field.high + 1))
    query = _looked_up(field, table, field.low, field.high - field.low)
    return Signed(query, ((f"mean({field.name})", float(field.low), float(field.high)),))


def _choice(field: CategoryField, value: str) -> str:
    quoted = value.replace("'", "''")
    return f"share({field.name} = '{quoted}')"


def _looked_up(field: Field, table: tuple[int, ...], first: int, denominator: int) -> RealQuery:
    """What a table says of the number that a field holds; 0 for a gap, which lies behind it."""
    beyond = first + len(table)
    value = FieldValue(field=field.name, gap=beyond) if field.gap else FieldValue(field=field.name)
    index = Affine(constant=-first, terms=(Term(weight=1, of=value),))
    return RealQuery(numerator=Lookup(index=index, table=table, default=0), denominator=denominator)


def cells_of(field: Field, example: Schema) -> tuple[Ask, Sequence[str]] | None:
    """The question for the share of each value, and their names; None where there are two, or too many of them."""
    if isinstance(field, CategoryField) and len(field.values) == 2:
        return None
    if isinstance(field, IntegerField) and field.high - field.low >= MAX_HISTOGRAM:
        return None
    question = compile_question(f"histogram({field.name})", example)
    return Ask(question.queries[0], _TOLERANCE, "best", 1), question.names


def asks_of(example: Schema) -> list[Ask]:
    """What is asked: a real value, or cells, or each of half of the users."""
    field = field_of(example)
    signed, cells = signed_of(field), cells_of(field, example)
    return [
        *([] if signed is None else [Ask(signed.query, _TOLERANCE, "binary", 1)]),
        *([] if cells is None else [cells[0]]),
    ]


def estimates_of(example: Schema, estimating: Estimating) -> list[Estimate]:
    """The numbers that are told, each with its interval; those of all cells hold together."""
    field = field_of(example)
    signed, cells = signed_of(field), cells_of(field, example)
    known = estimating(LEVEL)
    if not known:
        # Nothing has been answered yet.
        return []
    told = [] if signed is None else signed.told(known[0])
    if cells is not None:
        shares = estimating(1 - (1 - LEVEL) / len(cells[1]))[-len(cells[1]) :]
        told += [replace(each, name=name, level=LEVEL) for name, each in zip(cells[1], shares, strict=True)]
    return told


def values_of(example: Schema, answers: Sequence[Answer]) -> Iterator[tuple[str, float]]:
    """The same numbers by name, from answers that need not be made of reports."""
    field = field_of(example)
    signed, cells = signed_of(field), cells_of(field, example)
    if signed is not None:
        mean = min(max(float(answers[0]), -1.0), 1.0)
        for name, at_low, at_high in signed.names:
            yield name, (at_low + at_high) / 2 + (at_high - at_low) / 2 * mean
    if cells is not None:
        yield from zip(cells[1], np.asarray(answers[-1], np.float64).clip(0, 1).tolist(), strict=True)
