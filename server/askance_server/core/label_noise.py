"""Strategies over examples whose labels are wrong with a known probability: BB-notes, Thm 8, in the local model.

Theory of operation
-------------------
A label is flipped with probability η < 1/2, whatever the example: y′ in place of y (random classification noise). Then

    E[φ(x, y′)] = (1 − η)·E[φ(x, y)] + η·E[φ(x, −y)],

and the same with −y′, so that

    E[φ(x, y)] = ((1 − η)·E[φ(x, y′)] − η·E[φ(x, −y′)]) / (1 − 2η).

The right side is one real-valued question of whoever has (x, y′): h = (1 − η)φ(x, y′) − ηφ(x, −y′), of which she sends
one bit as of any other. Its answer has to be within τ(1 − 2η), if that of φ is to be within τ: noise costs users by
1/(1 − 2η)², and no more.

- A Boolean φ is stretched to 2h − (1 − 2η), which fills [−1, 1]: then its users are those of the Boolean question, too.
- Of a cell query whose label is its sign alone, h is φ itself. Of any other, φ(x, y′) and φ(x, −y′) are asked apart.
- What does not ask for the label is asked as it is.

η has to be known: an η that is off by δ shifts an answer by as much as 2δ/(1 − 2η). Of an η of which a bound is known
`bounded_noise` makes use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias, cast

import numpy as np

from askance_protocol.canonical import dumps
from askance_protocol.errors import ProtocolError
from askance_protocol.parameters import Parameters
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, read_query
from askance_protocol.queries.language import (
    Affine,
    AnyNumber,
    AnyTest,
    Clamp,
    Expression,
    If,
    Integer,
    Label,
    Not,
    Term,
    Xor,
)
from askance_protocol.queries.query import MAX_DENOMINATOR
from askance_protocol.schema import Schema
from askance_server.core.strategy import (
    Answer,
    Ask,
    Asking,
    Estimate,
    ReportedAnswers,
    Strategy,
    SumsOfCells,
    estimates_of_one,
)

_NO_SUMS: Final[SumsOfCells] = {}

Undone: TypeAlias = tuple[list[Ask], Callable[[Sequence[Answer]], Answer]]
"""What is asked in place of a question, and what its answer is, of theirs."""


@dataclass(frozen=True, slots=True)
class LabelNoise:
    """Labels that are wrong with probability η, in a field of this name."""

    eta: Fraction
    label: str

    def undone(self, ask: Ask) -> Undone:
        """Ask so that the answer is that over right labels, within the same tolerance."""
        flipped = self._flipped(ask)
        if flipped is None:
            return [ask], _only
        query, other = ask.query, flipped.query
        if isinstance(query, CellQuery):
            return self._scaled(ask) if self._is_sign(query) else self._both(ask, flipped)
        joined = self._boolean(query, other) if isinstance(query, BooleanQuery) else self._real(query, other)
        if joined is None:
            return self._both(ask, flipped)
        width = 2 if isinstance(query, BooleanQuery) else 1
        asked = replace(ask, query=joined, tolerance=ask.tolerance * width * float(self._left))
        # Of a Boolean question 2h − (1 − 2η) was asked.
        return [asked], lambda answers: (float(answers[0]) / float(self._left) + (width - 1)) / width

    def apart(self, ask: Ask) -> Undone:
        """The same, with the question itself among what is asked wherever it asks for the label."""
        flipped = self._flipped(ask)
        return ([ask], _only) if flipped is None else self._both(ask, flipped)

    @property
    def _left(self) -> Fraction:
        """1 − 2η: what of a label's bearing is left."""
        return 1 - 2 * self.eta

    def _flipped(self, ask: Ask) -> Ask | None:
        """The question of the opposite label; None where it does not ask for the label."""
        told = ask.query.to_json()
        opposite = _opposite(told, self.label)
        return None if opposite == told else replace(ask, query=read_query(dumps(opposite)))

    def _boolean(self, query: BooleanQuery, other: Any) -> RealQuery | None:
        a, b = self.eta.numerator, self.eta.denominator
        mine, others = (If(test=each.test, then=Integer(of=1), otherwise=Integer(of=0)) for each in (query, other))
        terms = (Term(weight=2 * (b - a), of=mine), Term(weight=-2 * a, of=others))
        return _real(Affine(constant=-(b - 2 * a), terms=terms), b)

    def _real(self, query: RealQuery, other: Any) -> RealQuery | None:
        a, b, one = self.eta.numerator, self.eta.denominator, query.denominator
        mine, others = (Clamp(of=each.numerator, low=-one, high=one) for each in (query, other))
        return _real(Affine(terms=(Term(weight=b - a, of=mine), Term(weight=-a, of=others))), one * b)

    def _scaled(self, ask: Ask) -> Undone:
        left = float(self._left)
        asked = replace(ask, tolerance=ask.tolerance * left, row_lead=ask.row_lead * left)
        return [asked], lambda answers: _over(answers[0], self._left)

    def _both(self, ask: Ask, flipped: Ask) -> Undone:
        """Both questions, so that (1 − η)·τ₁ + η·τ₂ is τ(1 − 2η) with the fewest users: τ₁ goes as (1 − η)^(−1/3)."""
        eta, left = float(self.eta), float(self._left)
        weights = np.array([1 - eta, eta])
        tolerances = weights ** (-1 / 3) * ask.tolerance * left / float((weights ** (2 / 3)).sum())
        asks = [replace(each, tolerance=float(tau)) for each, tau in zip((ask, flipped), tolerances, strict=True)]

        def both(answers: Sequence[Answer]) -> Answer:
            mine, others = (np.asarray(each, np.float64) for each in answers)
            found = (weights[0] * mine - weights[1] * others) / left
            return found if found.ndim else float(found)

        return asks, both

    def _is_sign(self, query: CellQuery) -> bool:
        """Whether the opposite label is the same cell with the opposite sign."""
        return query.negative is not None and not self._asked(query.cell) and self._turns(query.negative)

    def _turns(self, test: AnyTest) -> bool:
        """Whether a test is true of one label and false of the other, whatever else the example is."""
        match test:
            case Label():
                return True
            case Not(of=inner):
                return self._turns(inner)
            case Xor(of=parts):
                labelled = [part for part in parts if self._asked(part)]
                return len(labelled) == 1 and self._turns(labelled[0])
            case _:
                return False

    def _asked(self, node: Expression) -> bool:
        told = node.to_json()
        return _opposite(told, self.label) != told


def corrected(strategy: Strategy, eta: Fraction, example: Schema) -> Strategy:
    """The same strategy, which learns what it would of right labels from those that are wrong with probability η."""
    if not eta:
        return strategy
    noise = LabelNoise(eta, label_of(example))

    def run(parameters: Parameters) -> Asking:
        asking, answers = strategy.run(parameters), cast("list[Answer]", None)
        while True:
            try:
                # What is no ask is for the guard of strategies to find.
                asks = cast("Sequence[object]", asking.send(answers))
            except StopIteration as learned:
                return learned.value
            undone = [noise.undone(ask) if isinstance(ask, Ask) else ([cast("Ask", ask)], _only) for ask in asks]
            given = yield [each for asked, _ in undone for each in asked]
            numbers = iter(given)
            answers = [answer([next(numbers) for _ in asked]) for asked, answer in undone]
            if isinstance(given, ReportedAnswers):
                answers = ReportedAnswers(answers, partial(_estimates, cast("Sequence[Ask]", asks), undone, given))

    return replace(strategy, run=run)


def _estimates(
    asks: Sequence[Ask], undone: Sequence[Undone], given: ReportedAnswers, level: float, sums: SumsOfCells = _NO_SUMS
) -> Sequence[Estimate]:
    """How sure answers are that were made of others: where there are two, each of these may fail half as often."""
    of = [(ask, asked, answer) for ask, (asked, answer) in zip(asks, undone, strict=True)]
    inner = {
        each.query: sums[ask.query]
        for ask, asked, _ in of
        if isinstance(ask.query, CellQuery) and ask.query in sums
        for each in asked
        if isinstance(each.query, CellQuery)
    }
    found = iter(given.estimates(1 - (1 - level) / max(len(asked) for _, asked, _ in of), inner))
    return [
        _estimate(ask, members, answer, level) if asked != [ask] else replace(members[0], level=level)
        for ask, asked, answer in of
        for members in zip(*(list(islice(found, estimates_of_one(each, inner))) for each in asked), strict=True)
    ]


def _estimate(
    ask: Ask, members: Sequence[Estimate], answer: Callable[[Sequence[Answer]], Answer], level: float
) -> Estimate:
    """The interval of a sum, by its weights: that of the nearest number that the question can have for an answer."""
    unit = np.eye(len(members)).tolist()
    offset = float(cast("float", answer([0.0] * len(members))))
    weights = [float(cast("float", answer(each))) - offset for each in unit]
    pairs = list(zip(weights, members, strict=True))
    value = offset + sum(weight * each.estimate for weight, each in pairs)
    low = offset + sum(min(weight * each.low, weight * each.high) for weight, each in pairs)
    high = offset + sum(max(weight * each.low, weight * each.high) for weight, each in pairs)
    signed = isinstance(ask.query, RealQuery) or (isinstance(ask.query, CellQuery) and ask.query.negative is not None)
    least = -1.0 if signed else 0.0
    nearest = min(max(value, least), 1.0)
    low, high = (min(max(end + nearest - value, least), 1.0) for end in (low, high))
    return Estimate(members[0].name, nearest, low, high, level, sum(each.reports for each in members))


def label_of(example: Schema, parameter: str = "eta") -> str:
    """Name of the label."""
    if example.label is None:
        remedy = "leave it out: these examples have no label"
        raise ProtocolError("says how noisy labels are", where=f"parameters.{parameter}", remedy=remedy)
    return example.label.name


def _opposite(node: Any, label: str) -> Any:
    """A query's JSON about the opposite label."""
    if isinstance(node, list):
        return [_opposite(each, label) for each in cast("list[Any]", node)]
    if not isinstance(node, dict):
        return node
    members = cast("dict[str, Any]", node)
    match members:
        case {"op": "label", "sign": int(sign)}:
            return {**members, "sign": -sign}
        case {"op": "field", "field": name} if name == label:
            return {"op": "affine", "constant": 0, "terms": [{"weight": -1, "of": members}]}
        case _:
            return {name: _opposite(value, label) for name, value in members.items()}


def _real(numerator: AnyNumber, denominator: int) -> RealQuery | None:
    return RealQuery(numerator=numerator, denominator=denominator) if denominator <= MAX_DENOMINATOR else None


def _only(answers: Sequence[Answer]) -> Answer:
    return answers[0]


def _over(answer: Answer, left: Fraction) -> Answer:
    found = np.asarray(answer, np.float64) / float(left)
    return found if found.ndim else float(found)
