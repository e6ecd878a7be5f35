"""An interval for the mean of a score of more than two values, when who answers is unknown and the channel is known.

Theory of operation
-------------------
A report is drawn from one of the channel's rows W_u, each for an unknown share π_u of the population. So its law is a
mixture Σ π_u W_u, the score's mean is θ = Σ π_u g(u), and n reports are n independent draws. An end of the interval is
the θ at which a mean as far out as the one that was seen has just the probability α/2, as Clopper and Pearson have it
for two values. Three things stand between this sentence and a number.

*Which of all populations of mean θ.* How far a mean strays is, first of all, a question of its variance, and by its
variance a population of mean θ lies between two: the *least* spread, and the *most*. Σ π_u E_u f² is linear in π, so
these are the lower and the upper hull of the points (g(u), E_u f²), each a mixture of two inputs; for added noise the
most is all at both ends. On the line between the two laws the variance takes every value that it can have, and noise
is most of it: at ε = 1 the two differ by a fifth. So one number is left of the whole population, its place on the line.

*Where on the line.* Where the reports put it: they show v = mean (f − θ)², whose expectation is the variance. A small
sample may miss what is rare, so what is taken is the larger

    v + ½z·SE(v) + ln(2/α)·max (f − θ)²/n,   z = Φ⁻¹(1 − α/2):

half of the standard errors that the interval itself has, and the "rule of three": what has not been seen in n reports
may have a probability up to ln(2/α)/n. With few reports this is beyond the end of the line, and the population is the
worst there is; with many it is the variance that was seen. What is added is of the order 1/√n of the variance.

*How likely.* By the saddlepoint (see `saddlepoint`), with the largest gap between neighbouring scores for h. But as
long as all reports are at two scores that lie further apart, at both ends say, sums move by the distance of these: with
the probability of that, it is the span.

What is proved and what is measured. The hulls are exact. That the mean's tail grows along the line, that the margin
is enough, and that the saddlepoint is near enough are not proved: they are enumerated and simulated. For three values
every tally of up to 40 reports is enumerated over a grid of populations and ε from .5 to 12: no population is covered
with less than 95 %, none missed on one side with more than 3 % (`tests/server/core/test_mixtures.py`); for more values
`benchmarks/coverage.py` draws. For two values the same method would be Clopper and Pearson's, which needs no measuring.

Ends are nested over confidences (from one half on, as tested), as margin and quantile grow with them, and depend on scores
and tallies only: not on the outcomes' order, and on nothing drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np

from askance_protocol.arrays import Floats, Integers
from askance_protocol.channels.channel import EVEN
from askance_server.core import saddlepoint

_PIECE: Final = 1 << 20
"""Probabilities held at a time."""
_STEPS: Final = 100
"""Of the search for an end at the most: it takes about eight."""
_HALVED: Final = 4
"""Every fourth step halves what is left, however the others go."""
_LIKELY: Final = 32
"""Scores, the likeliest, among which two are looked for that all reports may be at."""
_NEAR: Final = 1e-9
"""Of a standard error: as near as an end is found."""
_NONE: Final = 1e-300


@dataclass(frozen=True, slots=True, eq=False)
class Hull:
    """The populations of each mean whose scores have the least, or the most, second moment: a row for each score."""

    means: Floats
    """g(u) at the corners, ascending; the last is repeated where others have more."""
    squares: Floats
    """E_u f² at the corners."""
    laws: Floats
    """At each corner the probability of each score."""

    def at(self, mean: Floats) -> tuple[Floats, Floats]:
        """Law and second moment at these means."""
        rows = np.arange(len(mean))
        corners = [
            np.broadcast_to(each, (len(mean), *each.shape[1:])) for each in (self.means, self.squares, self.laws)
        ]
        left = np.clip((self.means <= mean[:, np.newaxis]).sum(axis=1) - 1, 0, self.means.shape[1] - 2)
        (begin, end), (low, high), (first, second) = ((each[rows, left], each[rows, left + 1]) for each in corners)
        share = np.clip((mean - begin) / np.where(end > begin, end - begin, 1.0), 0, 1)
        across = share[:, np.newaxis]
        return (1 - across) * first + across * second, (1 - share) * low + share * high


@dataclass(frozen=True, slots=True, eq=False)
class Mixtures:
    """The laws that scores may have, a row for each score; one row stands for all where they are alike."""

    scores: Floats
    """The distinct values of each score, ascending; the last is repeated where others have more."""
    places: Integers
    """Which of these each outcome has."""
    least: Hull
    most: Hull
    gaps: Floats
    """The largest between neighbouring scores."""

    @property
    def domain(self) -> tuple[Floats, Floats]:
        """The least and the greatest mean that there may be."""
        return self.least.means[:, 0], self.least.means[:, -1]

    def rows(self, which: slice | Integers) -> Mixtures:
        """Some of the rows; one for all stays one for all."""
        if len(self.scores) == 1:
            return self
        least, most = (
            Hull(hull.means[which], hull.squares[which], hull.laws[which]) for hull in (self.least, self.most)
        )
        return Mixtures(self.scores[which], self.places[which], least, most, self.gaps[which])

    def repeated(self, times: int) -> Mixtures:
        """All rows so many times."""
        return self.rows(np.tile(np.arange(len(self.scores)), times)) if times > 1 else self

    def merged(self, counts: Integers) -> Integers:
        """Counts of outcomes, a row for each score, as counts of their values."""
        found = np.zeros((len(counts), self.scores.shape[1]), np.int64)
        np.add.at(found, (np.arange(len(counts))[:, np.newaxis], self.places), counts)
        return found


def mixtures(table: Floats, scored: Floats, wanted: Floats) -> Mixtures:
    """What each score may do under a channel: its table, f(w) for each outcome, g(u) for each input."""
    squares = table @ (scored**2).T
    rows = [
        _of_one(table, score, target, square) for score, target, square in zip(scored, wanted, squares.T, strict=True)
    ]
    scores = _stacked([row.scores for row in rows])
    least, most = (_hull([row.hulls[at] for row in rows], scores.shape[1]) for at in (0, 1))
    gaps = np.diff(scores, axis=1).max(axis=1)
    return Mixtures(scores, np.stack([row.places for row in rows]), least, most, gaps)


class _Corners(NamedTuple):
    means: Floats
    squares: Floats
    laws: Floats


class _OfOne(NamedTuple):
    scores: Floats
    places: Integers
    hulls: tuple[_Corners, _Corners]


def _of_one(table: Floats, score: Floats, target: Floats, square: Floats) -> _OfOne:
    """Distinct values of one score, where each outcome's is among them, and the corners of both hulls."""
    order = np.argsort(score, kind="stable")
    new = np.diff(score[order], prepend=-np.inf) > EVEN * np.ptp(score)
    places = np.empty(len(score), np.int64)
    places[order] = np.cumsum(new) - 1
    corners = [_corners(target, sign * square) for sign in (-1, 1)]
    laws = [np.add.reduceat(table[some][:, order], np.flatnonzero(new), axis=1) for some in corners]
    least, most = (_Corners(target[some], square[some], law) for some, law in zip(corners, laws, strict=True))
    return _OfOne(score[order][new], places, (least, most))


def _corners(target: Floats, height: Floats) -> list[int]:
    """The inputs at the corners of the upper hull of the points (target, height), from left to right; two at least."""
    kept = list[int]()
    x, y = target.tolist(), height.tolist()
    for each in np.lexsort((-height, target)).tolist():
        if kept and x[each] == x[kept[-1]]:
            continue
        # Andrew's monotone chain (1979): what lies on or below the line to the new point is no corner.
        while len(kept) > 1:
            before, last = kept[-2:]
            if (y[last] - y[before]) * (x[each] - x[before]) > (y[each] - y[before]) * (x[last] - x[before]):
                break
            kept.pop()
        kept.append(each)
    return kept if len(kept) > 1 else kept * 2


def _hull(rows: Sequence[_Corners], values: int) -> Hull:
    laws = [np.pad(row.laws, ((0, 0), (0, values - row.laws.shape[1]))) for row in rows]
    return Hull(_stacked([row.means for row in rows]), _stacked([row.squares for row in rows]), _stacked(laws))


def _stacked(rows: Sequence[Floats]) -> Floats:
    """Arrays of several lengths as one: the last of each is repeated."""
    most = max(map(len, rows))
    return np.stack([np.concatenate([row, np.repeat(row[-1:], most - len(row), axis=0)]) for row in rows])


def interval(family: Mixtures, counts: Integers, confidence: float) -> tuple[Floats, Floats]:
    """Intervals for the means of scores, from how often each outcome came, a row for each, all of as many reports.

    A mean that lies where none can be has the interval of the nearest that can.
    """
    if len(family.scores) == 1 and len(counts) > 1:
        # Cells have many counts in common.
        counts, places = np.unique(counts, axis=0, return_inverse=True)
    else:
        places = np.arange(len(counts))
    size = max(1, _PIECE // counts.shape[1] // 2)
    pieces = [slice(begin, begin + size) for begin in range(0, len(counts), size)]
    ends = [_ends(rows, rows.merged(counts[piece]), confidence) for piece in pieces for rows in [family.rows(piece)]]
    low, high = (np.concatenate(each)[places] for each in zip(*ends, strict=True))
    return low, high


def _ends(family: Mixtures, counts: Integers, confidence: float) -> tuple[Floats, Floats]:
    seen = _Seen.of(family, counts, confidence)
    least, most = (np.broadcast_to(end, len(counts)) for end in family.domain)
    return _end(seen, least), _end(seen, most)


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """What the reports show of each score: their mean, as far as it can be, and central moments about their own."""

    family: Mixtures
    received: int
    mean: Floats
    moments: tuple[Floats, Floats, Floats]
    """The second, the third and the fourth."""
    quantile: float
    rare: float
    """Number of reports, of those that came, that what was not seen may have been worth."""

    @classmethod
    def of(cls, family: Mixtures, counts: Integers, confidence: float) -> _Seen:
        """All rows have equally many reports."""
        received = int(counts[0].sum())
        share = counts / received
        mean = (share * family.scores).sum(axis=1)
        away = family.scores - mean[:, np.newaxis]
        second, third, fourth = ((share * away**power).sum(axis=1) for power in (2, 3, 4))
        failure = 1 - confidence
        quantile = -NormalDist().inv_cdf(failure / 2)
        return cls(
            family, received, np.clip(mean, *family.domain), (second, third, fourth), quantile, -math.log(failure / 2)
        )

    def variance(self, mean: Floats) -> Floats:
        """As large as the variance may be, as the reports show it, if this is the mean."""
        second, third, fourth = self.moments
        off = self.mean - mean
        about = second + off**2
        spread = np.maximum(fourth + 4 * off * third + 6 * off**2 * second + off**4 - about**2, 0)
        furthest = np.maximum(self.family.scores[:, -1] - mean, mean - self.family.scores[:, 0]) ** 2
        return about + self.quantile / 2 * np.sqrt(spread / self.received) + self.rare * furthest / self.received

    def law(self, mean: Floats) -> Floats:
        """The law of the scores if this is their mean."""
        (least, low), (most, high) = self.family.least.at(mean), self.family.most.at(mean)
        share = np.clip((self.variance(mean) + mean**2 - low) / np.maximum(high - low, _NONE), 0, 1)[:, np.newaxis]
        return (1 - share) * least + share * most

    def excess(self, mean: Floats) -> Floats:
        """By how much what was seen is too far out if this is the mean: above 0 it is not in the interval."""
        law = self.law(mean)
        spans = _spans(law, self.family.scores, self.family.gaps, self.received)
        return np.abs(saddlepoint.signed_root(law, self.family.scores, self.mean, self.received, spans)) - self.quantile


def _spans(law: Floats, scores: Floats, gaps: Floats, received: int) -> Floats:
    """The step by which sums move: a gap; more, as far as all reports are likely to be at two scores further apart."""
    likeliest = np.argpartition(law, -min(_LIKELY, law.shape[1]), axis=1)[:, -_LIKELY:]
    weight = np.take_along_axis(law, likeliest, axis=1)
    place = np.take_along_axis(np.broadcast_to(scores, law.shape), likeliest, axis=1)
    one, other = np.triu_indices(likeliest.shape[1], 1)
    beyond = np.maximum(np.abs(place[:, one] - place[:, other]) - gaps[:, np.newaxis], 0)
    return gaps + ((weight[:, one] + weight[:, other]) ** received * beyond).max(axis=1)


def _end(seen: _Seen, outermost: Floats) -> Floats:
    """The mean between the one seen and the outermost whose excess is 0; or the outermost, if even that is inside.

    By false position, with the Illinois rule against an end that stays (Dowell and Jarratt 1971).
    """
    inside, outside, found = seen.mean, outermost, outermost.copy()
    under, over = np.full(len(found), -seen.quantile), seen.excess(outermost)
    waiting, last = over > 0, np.zeros(len(found))
    for step in range(1, _STEPS + 1):
        if not waiting.any():
            break
        share = under / np.where(waiting, under - over, -1.0) if step % _HALVED else 0.5
        middle = np.where(waiting, inside + share * (outside - inside), outermost)
        excess = seen.excess(middle)
        beyond = excess > 0
        under = np.where(beyond, np.where(last > 0, under / 2, under), excess)
        over = np.where(beyond, excess, np.where(last < 0, over / 2, over))
        inside, outside, last = np.where(beyond, inside, middle), np.where(beyond, middle, outside), np.sign(excess)
        found = np.where(waiting, middle, found)
        waiting &= (np.abs(excess) > _NEAR) & (np.abs(outside - inside) > _NEAR * np.abs(outside - seen.mean))
    return found
