"""How far users who lie can shift an estimate: a bound from the channel's published table alone.

Theory of operation
-------------------
An estimate is the mean of a score over the reports (see `estimators`). An honest user's score has the mean g(u), which
lies in the domain of what is estimated; a liar sends the outcome of her choice, and its score is what counts. So one
report in n that is a lie moves the expected estimate by at most

    max(max f − min g, max g − min f) / n,

and a share of φ lies by φ times that: at most φ(C + 1), C = max |f| the channel's scale, as |g| ≤ 1. The tighter the
ε, the larger is C, and the more one lie weighs: nobody, the server included, can tell it from a report that was drawn
(Cheu, Smith and Ullman, 2021, show that every local protocol pays such a price). What bounds it is that outcomes are
few and their scores are finite: noise is clamped before it is reported.

The share is one of the *reports*. Whoever lies answers every round, so where many of the honest do not answer, a share
of the users is a larger share of the reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from askance_protocol.arrays import Floats
from askance_protocol.hashing import Buckets
from askance_protocol.queries import CellQuery
from askance_protocol.rounds import PreparedPart
from askance_server.core.estimators import POOLED, targets
from askance_server.core.hashed_cells import law

SHARES: Final = (0.01, 0.05)
"""The shares of liars that an operator is shown."""


@dataclass(frozen=True, slots=True)
class Shift:
    """How far this share of liars among the reports could shift an estimate, beyond its interval."""

    share: float
    shift: float


def shifts(part: PreparedPart) -> list[Shift]:
    """The shift for each share that an operator is shown; the largest, where a part has several estimates."""
    weight = weight_of_a_lie(part)
    return [Shift(share, share * weight) for share in SHARES]


def weight_of_a_lie(part: PreparedPart) -> float:
    """How far the expected estimate moves, times the number of reports, if one report is the worst one instead."""
    return max(
        max(float(score.max()) - lowest, highest - float(score.min()))
        for score, lowest, highest in _scores_and_domains(part)
    )


def scale(part: PreparedPart) -> float:
    """C: the largest score of an outcome. For binary response on [−1, 1] it is (e^ε + 1)/(e^ε − 1)."""
    return max(float(np.abs(score).max()) for score, _, _ in _scores_and_domains(part))


def _scores_and_domains(part: PreparedPart) -> list[tuple[Floats, float, float]]:
    """The score of each outcome, the least and the greatest truth: for each estimate that has others than the last."""
    query = part.query.query
    if isinstance(query, CellQuery) and part.pooled:
        # All cells alike: her row is public, so she knows which report agrees with the cell that she favours.
        if isinstance(part.pooling, Buckets):
            return [(law(part.pooling, part.channel).values, 0.0 if query.negative is None else -1.0, 1.0)]
        return [(part.channel.scores(POOLED), 0.0 if query.negative is None else -1.0, 1.0)]
    wanted = targets(query, part.channel.inputs)
    return [(part.channel.scores(target), float(target.min()), float(target.max())) for target in wanted]
