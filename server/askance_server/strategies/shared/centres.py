"""How sure the centres of clusters are: each coordinate is the mean of the points that were nearest to one centre.

Theory of operation
-------------------
In its last round k-means asks for the share D of the points that are nearest to a centre, and for the mean N of their
coordinate, which counts 0 for all other points. The centre moves to N/D. So its interval is that of a quotient, as of
a mean over a field with gaps (`survey_answers`): N's fails with two thirds of the probability, D's with one third, and
whenever both hold, so does the quotient's.

What the interval holds is the mean of the points nearest to the centre *of the round before*, which the bulletin has:
users of a round are of no other, so that centre is no part of the chance. Where the best centres lie, if there are
such, no interval says.
"""

from __future__ import annotations

from collections.abc import Sequence

from askance_server.core.strategy import LEVEL, Estimate, Estimating
from askance_server.strategies.shared.survey_answers import VALUE_FAILS, quotient_interval


def centre_estimates(estimating: Estimating, k: int, d: int, first: int) -> Sequence[Estimate]:
    """A row for each coordinate of each centre, from the last round; none before there is one that all parts answered.

    `first` is the number of estimates before the rounds of k shares and k·d means each.
    """
    values, shares = (estimating(1 - (1 - LEVEL) * part) for part in (VALUE_FAILS, 1 - VALUE_FAILS))
    if len(values) <= first or (len(values) - first) % (k + k * d):
        return ()
    totals, counts = values[-k * d :], shares[-k * d - k : -k * d]
    return [
        _coordinate(f"mean(x{j}) nearest to centre {c}", totals[c * d + j], counts[c])
        for c in range(k)
        for j in range(d)
    ]


def _coordinate(name: str, total: Estimate, share: Estimate) -> Estimate:
    low, high = quotient_interval((total.low, total.high), (share.low, share.high))
    middle = total.estimate / share.estimate if share.estimate > 0 else 0.0
    return Estimate(name, min(max(middle, low), high), low, high, LEVEL, total.reports + share.reports)
