"""What the strategies for quantiles share: the target, the examples, and what is said of a result.

Who has no value is not counted: she answers 0 where the others answer 1 − q or −q, which is a real-valued question with
the mean P(value)·(F(m) − q). So a tolerance counts in users of all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, TypeAlias

from askance_protocol import parameters as read
from askance_protocol.queries import BooleanQuery, RealQuery
from askance_protocol.queries.language import Compare, FieldValue, If, Integer
from askance_protocol.queries.query import MAX_DENOMINATOR
from askance_protocol.schema import IntegerField, RealField, Schema
from askance_protocol.text import counted
from askance_server.core.strategy import (
    LEVEL,
    Answer,
    Answering,
    Ask,
    Asking,
    Estimate,
    Hypothesis,
    Learnt,
    Parameters,
    Strategy,
)
from askance_server.strategies.shared.column import asking_of, column, running, sharing

COARSEST: Final = Fraction(1, 4)
HALVINGS: Final = 8
DEFAULTS: Final = {"q": "0.5", "tolerance": "0.05"}
OWN: Final = "cell"

NumberField: TypeAlias = IntegerField | RealField


@dataclass(frozen=True, slots=True)
class Target:
    """Which quantile of which field, and how far its rank may be from it."""

    field: NumberField
    q: Fraction
    alpha: Fraction

    @classmethod
    def of(cls, field: NumberField, parameters: Parameters) -> Target:
        """As the parameters say."""
        q = read.decimal(parameters, "q", below=1, default=DEFAULTS["q"])
        if q.denominator > MAX_DENOMINATOR:
            raise read.refused("q", "has too many decimals", "give five at most")
        return cls(field, q, read.decimal(parameters, "tolerance", below=1, default=DEFAULTS["tolerance"]))

    def ask(self, m: int, tolerance: Fraction) -> Ask:
        """Is the value at most m?"""
        gap = self.field.empty
        held = FieldValue(field=self.field.name, gap=gap)
        least = Compare(left=held, relation="<=", right=Integer(of=m))
        if gap is None:
            return Ask(BooleanQuery(test=least), float(tolerance))
        q, one = self.q.numerator, self.q.denominator
        there = If(test=least, then=Integer(of=one - q), otherwise=Integer(of=-q))
        none = Compare(left=held, relation="=", right=Integer(of=gap))
        query = RealQuery(numerator=If(test=none, then=Integer(of=0), otherwise=there), denominator=max(q, one - q))
        return Ask(query, float(min(tolerance / self._one, Fraction(99, 100))))

    def above(self, answer: float) -> Fraction:
        """By how much an answer, or an end of its interval, is above q."""
        return Fraction(answer) - self.q if self.field.empty is None else Fraction(answer) * self._one

    @property
    def finest(self) -> Fraction:
        """The smallest tolerance: two thirds of what is promised."""
        return min(2 * self.alpha / 3, COARSEST)

    @property
    def rounds(self) -> int:
        """Bisections until one value is left, and halvings until the tolerance is the smallest."""
        bisections = (self.field.most - self.field.least).bit_length()
        halvings = 0
        while halvings < HALVINGS and COARSEST / (1 << halvings) > self.finest:
            halvings += 1
        return max(1, bisections) + halvings

    @property
    def _one(self) -> Fraction:
        """What 1 stands for in the question of a field with gaps."""
        return max(self.q, 1 - self.q)


@dataclass(frozen=True, slots=True)
class Between:
    """Two values of which one is the quantile's lower limit and one its upper, by the intervals of all answers."""

    low: int
    high: int
    reports: int = 0

    def narrowed(self, m: int, target: Target, found: Sequence[Estimate]) -> Between:
        """What the answer about m adds: the quantile is above m, or at most m, or it may be either."""
        if not found:
            return self
        reports = self.reports + found[0].reports
        if target.above(found[0].high) < 0:
            return Between(max(self.low, m + 1), self.high, reports)
        if target.above(found[0].low) > 0:
            return Between(self.low, min(self.high, m), reports)
        return replace(self, reports=reports)


def hypothesis(target: Target, held: int, sure: Between | None = None) -> Hypothesis:
    """The value that a field holds as an integer is the quantile."""
    field, q = target.field, f"{float(target.q):g}"
    how = f"its rank is within {float(target.alpha):g}"
    members: dict[str, object] = {"value": field.show(held), "held": held, "q": q}
    if sure is not None and sure.reports:
        ends = {"low": field.show(min(sure.low, held)), "high": field.show(max(sure.high, held))}
        how = f"{ends['low']} to {ends['high']} at {100 * LEVEL:g} %, {counted(sure.reports, 'report')}"
        members |= {**ends, "level": LEVEL, "reports": sure.reports}
    return Hypothesis(f"the {q} quantile of {field.name} is {field.show(held)} ({how})", members)


def numbers(name: str, example: Schema, most: int, *, gaps: bool = True) -> NumberField:
    """The field of this name, if it has an order and not too many values."""
    field = example.field(name)
    if not isinstance(field, IntegerField | RealField):
        raise read.refused("column", "holds no numbers", "name a field of whole numbers or reals")
    if field.empty is not None and not gaps:
        raise read.refused("column", "has gaps", "ask in rounds: `quantile`")
    if field.most - field.least >= most:
        raise read.refused("column", f"has more than {most:,} values", "declare fewer of them, or coarser ones")
    return field


def longest(parameters: Parameters) -> Answering:
    """Answers that never end a search: q itself while that halves the tolerance, and then 2, which bisects.

    A tolerance is halved only above α, so no run has a smaller one in any round; and 2 keeps the longer half.
    """
    q, alpha = (float(read.decimal(parameters, name, default=default)) for name, default in DEFAULTS.items())

    def answer(asks: Sequence[Ask]) -> Sequence[Answer]:
        [ask] = asks
        if isinstance(ask.query, RealQuery):
            return [0.0 if ask.tolerance * max(q, 1 - q) > alpha else 2.0]
        return [q if ask.tolerance > alpha else 2.0]

    return answer


def error(learned: Learnt, truth: Learnt) -> float:
    """How far the rank of the value is from q: 0 where it is a quantile."""
    shares, held, q = truth["shares"], int(learned["held"]), float(learned["q"])
    below = sum(shares[:held])
    return max(below - q, q - below - shares[held], 0.0)


def promise(parameters: Parameters) -> float:
    """Its rank is within the tolerance."""
    return float(read.decimal(parameters, "tolerance", below=1, default=DEFAULTS["tolerance"]))


def fields(parameters: Parameters) -> Sequence[str]:
    """The field that is asked about."""
    return (str(parameters.get("column", OWN)),)


def quantile(
    name: str,
    summary: str,
    ask: Callable[[Target], Asking],
    *,
    rounds: int,
    most: int,
    gaps: bool = True,
    portions: Callable[[Target], tuple[int, ...]] | None = None,
) -> Strategy:
    """A strategy that asks so for a quantile of at most so many values."""

    def schema(parameters: Parameters) -> Schema:
        read.only(parameters, "cells", "q", "tolerance")
        example = Schema(fields=(IntegerField(name=OWN, low=0, high=read.whole(parameters, "cells", 2, most) - 1),))
        Target.of(numbers(OWN, example, most), parameters)
        return example

    def target(parameters: Parameters) -> Target:
        return Target.of(numbers(OWN, schema(parameters), most), parameters)

    def over(example: Schema) -> Strategy | None:
        [field, *others] = example.fields
        if not others and isinstance(field, IntegerField) and (field.name, field.low, field.gap) == (OWN, 0, None):
            return None

        def target_in(parameters: Parameters) -> Target:
            read.only(parameters, "column", "q", "tolerance")
            return Target.of(numbers(column(parameters, example), example, most, gaps=gaps), parameters)

        return asking_of(strategy, example, ask, portions, target_in)

    strategy = Strategy(
        name=name,
        summary=summary,
        interactive=rounds > 1,
        rounds=rounds,
        schema=schema,
        run=running(ask, target),
        portions_for=sharing(portions, target),
        longest=longest,
        over=over,
        fields=fields,
        promise=promise,
        error=error,
        examples="histogram",
        small={"cells": 8},
    )
    return strategy
