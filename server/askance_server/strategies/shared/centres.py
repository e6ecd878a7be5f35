"""Where the centres of clusters move, and how sure they are: each is the mean of the points that were nearest to one.

Theory of operation
-------------------
In its last round k-means asks for the share D of the points that are nearest to a centre, and for the mean N of their
coordinate, which counts 0 for all other points. Where they are sure enough the centre moves to N/D. So its interval is
that of a quotient, as of a mean over a field with gaps (`survey_answers`): N's fails with two thirds of the
probability, D's with one third, and whenever both hold, so does the quotient's.

N is not asked for itself: it is the sum of the answers to some questions with signs, divided by their number K
(`points.pulls`). The public coin gives each user one of them, all with the same probability, and a report is one of ±C,
C the scale of binary response. So a report with its question's sign has the expectation N whoever reports, and all of
them together are as many throws of one coin: N's interval is that coin's, Wilson's (1927, J. Am. Stat. Assoc. 22) with
the correction of half a throw, which makes it at least as wide as it has to be. An answer that was cut off at ±1 does
not tell how many reports of each kind came: then nothing is said.

What the interval holds is the mean of the points nearest to the centre *of the round before*, which the bulletin has:
users of a round are of no other, so that centre is no part of the chance. Where the best centres lie, if there are
such, no interval says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from askance_protocol.arrays import Floats
from askance_protocol.examples import Columns
from askance_protocol.schema import RealField
from askance_server.core.strategy import LEVEL, Answer, Estimate, Estimating, Learnt
from askance_server.strategies.shared.grids import GridCells
from askance_server.strategies.shared.points import signs, together
from askance_server.strategies.shared.sure import interval_members
from askance_server.strategies.shared.survey_answers import VALUE_FAILS, quotient_interval


def step(answers: Sequence[Answer], cells: GridCells, centres: Floats) -> Floats:
    """Lloyd's step: each centre to the mean of its points, but no farther than a cell from where the grid has it.

    A share of a few users is told with an error as large as itself, and the grid then knows better.
    """
    counts, *totals = answers
    counted = np.asarray(counts, np.float64)[:, np.newaxis]
    k, d = centres.shape
    sums = signs(k).T @ np.array(totals, np.float64).reshape(d, -1).T / together(k)
    means = sums / np.where(counted > 0, counted, np.inf)
    there, width = cells.moved(centres), cells.around(centres) / 2
    return np.where(counted > 0, means.clip(there - width, there + width), there).clip(-1, 1)


def cost(value: Learnt, columns: Columns) -> float:
    """Mean squared distance to the nearest centre."""
    centres = np.array(value["centres"], np.float64)
    scales = [field.denominator for field in columns.schema.fields if isinstance(field, RealField)]
    points = np.stack([columns[f"x{j}"] / scales[j] for j in range(centres.shape[1])], axis=1)
    return float(np.min([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=0).mean())


def centre_estimates(estimating: Estimating, k: int, d: int, first: int, scale: float) -> Sequence[Estimate]:
    """A row for each coordinate of each centre, from the last round; none before there is one that all parts answered.

    `first` is the number of estimates before the rounds of k shares and the questions about sums; `scale` is C.
    """
    rows, values = together(k), estimating(LEVEL)
    each = k + rows * d
    if len(values) <= first or (len(values) - first) % each:
        return ()
    counts = estimating(1 - (1 - LEVEL) * (1 - VALUE_FAILS))[-each : -rows * d]
    asked = [values[len(values) - rows * (d - j) :][:rows] for j in range(d)]
    return [
        coordinate(f"mean(x{j}) nearest to centre {c}", _total(asked[j], signs(k)[:, c].tolist(), scale), counts[c])
        for c in range(k)
        for j in range(d)
    ]


def centre_members(estimating: Estimating, k: int, d: int, scale: float) -> Mapping[str, Any]:
    """Intervals for a hypothesis, coordinate by coordinate, centre by centre, from the answers to the last round."""
    sure = centre_estimates(estimating, k, d, 0, scale)
    return {**interval_members(sure), "reports": [each.reports for each in sure]} if sure else {}


def _total(answers: Sequence[Estimate], signed: Sequence[float], scale: float) -> Estimate:
    """The mean over all points of a coordinate that counts 0 for those nearest to other centres."""
    fails, reports = (1 - LEVEL) * VALUE_FAILS, sum(each.reports for each in answers)
    middle = sum(sign * each.estimate for sign, each in zip(signed, answers, strict=True)) / len(answers)
    low, high = -1.0, 1.0
    if math.isfinite(scale) and all(abs(each.estimate) < 1 for each in answers):
        pluses = (
            each.reports * (1 + sign * each.estimate / scale) / 2 for sign, each in zip(signed, answers, strict=True)
        )
        ends = share_interval(sum(pluses), reports, fails)
        low, high = (min(max(scale * (2 * end - 1), -1.0), 1.0) for end in ends)
    return Estimate("", min(max(middle, low), high), low, high, 1 - fails, reports)


def share_interval(successes: float, throws: int, fails: float) -> tuple[float, float]:
    """Wilson's interval of a coin's probability, with the correction of half a throw at either end."""
    z = NormalDist().inv_cdf(1 - fails / 2)

    def end(count: float, side: int) -> float:
        spread = z * math.sqrt(count * (throws - count) / throws + z * z / 4)
        return (count + z * z / 2 + side * spread) / (throws + z * z)

    low = end(successes - 0.5, -1) if successes > 0.5 else 0.0
    return low, end(successes + 0.5, 1) if successes < throws - 0.5 else 1.0


def coordinate(name: str, total: Estimate, share: Estimate) -> Estimate:
    """Where a centre's coordinate is: a total over a share."""
    low, high = quotient_interval((total.low, total.high), (share.low, share.high))
    middle = total.estimate / share.estimate if share.estimate > 0 else 0.0
    return Estimate(name, min(max(middle, low), high), low, high, LEVEL, total.reports + share.reports)
