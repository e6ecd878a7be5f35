"""What a survey asks, how sharply, and of how many users at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Final

from askance_protocol.queries.telemetry import Measure, TelemetryQuestion
from askance_server.core.strategy import LEVEL, Ask
from askance_server.strategies.shared.survey_groups import Group, shares_of_users

_PLANNED: Final = 0.05
"""With what probability a plan may fail, unless a study says it: a strategy does not know. It changes no answer."""


WIDTH: Final = 0.1
"""How wide intervals should be where nobody says it."""


def asks_of(
    asked: Sequence[TelemetryQuestion], groups: Sequence[Group], width: float | None, *, simultaneous: bool
) -> list[Ask]:
    """What is asked, once each: of as many users for every question, or so that intervals have about this width.

    By default no question does worse than it would alone, of a cohort of its own; what two questions have in common is
    asked of the users of both, and a group of those of all its members. With a width the tolerances are such that all
    intervals come out about as wide, and the users are dealt as these need.

    A plan keeps an estimate within τ but with probability f: τ = z(f)·σ, where σ is the standard error. An interval of
    this width has width/2 = z(g)·σ, where g is the probability with which it may fail. So τ is z(f)/z(g) of its half.
    A mean is asked on [−1, 1], where the same is twice as much; but the two errors of a quotient add up.
    """
    shares = shares_of_users(asked)
    wanted = WIDTH if width is None else width
    reach = {query: wanted / 2 for question in asked for query in question.queries}
    for question in asked:
        if question.measure is Measure.MEAN and len(question.queries) == 1:
            reach[question.queries[0]] = wanted
    planned = _PLANNED / (len(groups) + 1 if len(groups) > 1 else 1)
    own = _z(row_failure(asked, simultaneous=simultaneous))
    return [
        Ask(
            group.query,
            min(min(reach[query] for query in group.members) * _z(planned / sum(group.numbers)) / own, 0.99),
            "kary" if group.sums else "best",
            sum(shares[query] for query in group.members) if width is None else 0,
            group.sums,
        )
        for group in groups
    ]


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


def _z(failure: float) -> float:
    """How many standard errors a normal variable leaves, on one side or the other, with this probability."""
    return NormalDist().inv_cdf(1 - failure / 2)
