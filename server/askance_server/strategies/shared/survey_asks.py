"""What a survey asks, how sharply, and of how many users at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.telemetry import Measure, TelemetryQuestion
from askance_server.core.strategy import LEVEL, Ask

_PLANNED: Final = 0.05
"""With what probability a plan may fail, unless a study says it: a strategy does not know. It changes no answer."""


WIDTH: Final = 0.1
"""How wide intervals should be where nobody says it."""
_UNIT: Final = 6
"""Share of a question in the users, where all have the same."""
_OF_QUOTIENT: Final = (5, 1)
"""Shares of the two queries of a quotient, of value and of whether there is one.

To first order its variance is C²(1/s + m²/(4(1 − s)))/(n·D²), m the mean on [−1, 1], s the first share. The best s is
1/(1 + |m|/2), which nobody knows before; five sixths are within a fifth of the best for every m.
"""


def asks_of(asked: Sequence[TelemetryQuestion], width: float | None, *, simultaneous: bool) -> list[Ask]:
    """What is asked, once each: of as many users for every question, or so that intervals have about this width.

    By default no question does worse than it would alone, of a cohort of its own; what two questions have in common is
    asked of the users of both. With a width the tolerances are such that all intervals come out about as wide, and the
    users are dealt as these need.

    A plan keeps an estimate within τ but with probability f: τ = z(f)·σ, where σ is the standard error. An interval of
    this width has width/2 = z(g)·σ, where g is the probability with which it may fail. So τ is z(f)/z(g) of its half.
    A mean is asked on [−1, 1], where the same is twice as much; but the two errors of a quotient add up.
    """
    shares = Counter[BooleanQuery | RealQuery | CellQuery]()
    if width is None:
        for question in asked:
            shares.update(dict(zip(question.queries, _dealt(question), strict=True)))
    wanted = WIDTH if width is None else width
    reach = {query: wanted / 2 for question in asked for query in question.queries}
    for question in asked:
        if question.measure is Measure.MEAN and len(question.queries) == 1:
            reach[question.queries[0]] = wanted
    planned = _PLANNED / (len(reach) + 1 if len(reach) > 1 else 1)
    own = _z(row_failure(asked, simultaneous=simultaneous))
    return [
        Ask(query, min(half * _z(planned / numbers_of(query)) / own, 0.99), "best", shares[query])
        for query, half in reach.items()
    ]


def _dealt(question: TelemetryQuestion) -> tuple[int, ...]:
    return (_UNIT,) if len(question.queries) == 1 else _OF_QUOTIENT


def gain(micro_epsilon: int, many: int) -> float:
    """How many times as many users it takes if each answers one question at ε, and not `many` at ε/`many`.

    n users give m questions n/m answers each of variance C(ε)², or `many`·n/m answers of variance C(ε/`many`)². That is
    the largest variance of a bit; reports do not share it with what the users differ by.
    """
    whole, part = (1 / math.tanh(share * micro_epsilon / 2e6) for share in (1.0, 1 / many))
    return many * (whole / part) ** 2


def row_failure(asked: Sequence[TelemetryQuestion], *, simultaneous: bool) -> float:
    """With what probability the interval of one number may fail."""
    return (1 - LEVEL) / (sum(len(question.names) for question in asked) if simultaneous else 1)


def numbers_of(query: BooleanQuery | RealQuery | CellQuery) -> int:
    """Number of answers to a query."""
    return query.cells if isinstance(query, CellQuery) else 1


def _z(failure: float) -> float:
    """How many standard errors a normal variable leaves, on one side or the other, with this probability."""
    return NormalDist().inv_cdf(1 - failure / 2)
