"""From tallies to estimates: unbiased, with a standard error, and with an interval that holds.

Theory of operation
-------------------
An estimate is the mean of a *score* f(w) over the reports that came, where f undoes the channel: for every input
u, Σ_w Pr[w|u] · f(w) = g(u). So the mean is unbiased for E[g] whatever the population is, and users who drop out
at random change nothing but its precision: it is divided by what was received. Each channel knows its own scores;
nothing here asks which channel it is, only whether a score takes two values.

The interval depends on nothing but what is certain.

- Where f takes two values, as for every binary, Hadamard and k-ary part and for buckets without signs, the count of one
  of them is binomial: reports of users drawn from the population are independent, and the public coin is independent of
  the data. The interval is Clopper and Pearson's (1934), which covers for every n and every mean. So it is for a *sum
  of cells*: by k-ary response one of the cells S is named with probability |S|·q + (p − q)·[the user's own is in S].
- Where f takes more values, the interval is the intersection of two that each hold with half the failure:
  Hoeffding's (1963, Thm 1, in its form with the relative entropy), which is narrow for means near the ends, and
  the empirical Bernstein bound of Maurer and Pontil (2009, Thm 4), which is narrow for small variances.

An unbiased estimate of a share may lie so far below 0 that no share is in its interval, and what is left of it, "0 to
0", would read as certainty. So the interval is that of the nearest mean that there may be. It holds all of the other
one that is possible: its ends move with the mean.

An interval is for one estimate. To read m of them at once, ask for `confidence` 1 − β/m.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from askance_protocol import hadamard
from askance_protocol.arrays import Floats, Integers
from askance_protocol.channels import Channel
from askance_protocol.channels.channel import EVEN
from askance_protocol.errors import ProtocolError
from askance_protocol.hashing import Buckets
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.rounds import PreparedPart
from askance_protocol.tally import Tally
from askance_server.core import binomial, hashed_cells

Sums: TypeAlias = Sequence[Sequence[int]]
"""Sets of cells: of each, the sum of their shares is wanted."""
Ends: TypeAlias = tuple[float, float] | tuple[Floats, Floats]
"""The least and the greatest value, of all or of each."""

POOLED: Final = np.array([-1.0, 0.0, 1.0])
"""What the inputs of a pooled part stand for: the report's bit differs from the cell's, says nothing of it, agrees."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """One estimate for a query, or one for each cell: value, standard error, and an interval with this confidence."""

    values: Floats
    standard_errors: Floats
    low: Floats
    high: Floats
    confidence: float
    received: int


def estimate(part: PreparedPart, tally: Tally, confidence: float = 0.95, sums: Sums = ()) -> Estimates:
    """Estimate what the part asks: a frequency, a mean, or the signed share of every cell; or these sums of cells."""
    if not 0 < confidence < 1:
        raise ProtocolError(f"{confidence} is not between 0 and 1", where="confidence")
    return _scores(part, tally, sums).estimates(confidence)


def estimated(part: PreparedPart, tally: Tally) -> Floats:
    """Estimate's values alone: intervals take a hundred times as long."""
    return _scores(part, tally, ()).means()


def unanswered(part: PreparedPart, confidence: float, sums: Sums = ()) -> Estimates:
    """What is known of a part that nobody has reported on: that each value is between the ends of what it can be."""
    query = part.query.query
    if isinstance(query, CellQuery) and part.pooled and not sums:
        low = np.full(query.cells, 0.0 if query.negative is None else -1.0)
        high = np.ones(query.cells)
    else:
        wanted = wanted_of(part, sums)
        low, high = wanted.min(axis=1), wanted.max(axis=1)
    return Estimates((low + high) / 2, (high - low) / 2, low, high, confidence, 0)


def wanted_of(part: PreparedPart, sums: Sums = ()) -> Floats:
    """What a part estimates: g(u) for each input u, a row for each answer, or for each of these sums of cells."""
    if not sums:
        return targets(part.query.query, part.channel.inputs)
    query = part.query.query
    if not isinstance(query, CellQuery) or query.negative is not None or part.pooled:
        raise ProtocolError("are of a query whose channel names cells", where="sums", remedy="ask it by k-ary response")
    wanted = np.zeros((len(sums), query.cells))
    for row, cells in zip(wanted, sums, strict=True):
        if not cells or len(set(cells)) != len(cells) or not 0 <= min(cells) <= max(cells) < query.cells:
            raise ProtocolError("is not a set of the query's cells", where="sums", remedy=f"name some of {query.cells}")
        row[list(cells)] = 1
    return wanted


def _scores(part: PreparedPart, tally: Tally, sums: Sums) -> _TwoValued | _Several | _Apart:
    if tally.counts.shape != (part.rows, part.channel.outcomes):
        raise ProtocolError("has not the rows and outcomes of its part", where="tally")
    if not tally.received:
        raise ProtocolError("nobody has reported", where="tally", remedy="wait for reports, or lower the target")
    query = part.query.query
    if isinstance(query, CellQuery) and part.pooled and not sums:
        if isinstance(part.pooling, Buckets):
            return _hashed(query, part.pooling, part.channel, tally)
        return _pooled(query, part.channel, tally)
    return _scored(wanted_of(part, sums), part.channel, tally)


def _pooled(query: CellQuery, channel: Channel, tally: Tally) -> _TwoValued:
    """Scores of every cell at once. In cell j a report agrees where it equals H[row, j]: a binomial count of n."""
    signed = hadamard.transform(tally.counts[:, 1] - tally.counts[:, 0])[: query.cells]
    agreeing = (tally.received + signed) // 2
    lowest = 0.0 if query.negative is None else -1.0
    differs, agrees = channel.scores(POOLED).tolist()
    return _TwoValued(agreeing, tally.received, (differs, agrees), (lowest, 1.0))


def _hashed(query: CellQuery, buckets: Buckets, channel: Channel, tally: Tally) -> _TwoValued | _Apart:
    """Scores of every cell at once: how many reports named its bucket, and with signs how many that of its opposite."""
    counts, values = hashed_cells.counts(buckets, query.cells, tally), hashed_cells.law(buckets, channel).values
    if not buckets.signed:
        return _TwoValued(counts[1], tally.received, (float(values[0]), float(values[1])), (0.0, 1.0))
    return _Apart(values, counts, (-1.0, 1.0))


def _scored(wanted: Floats, channel: Channel, tally: Tally) -> _TwoValued | _Several:
    """Scores of each row of targets g(u)."""
    counts = tally.counts[0]
    scored = np.array([channel.scores(target) for target in wanted])
    domains = wanted.min(axis=1), wanted.max(axis=1)
    least, most = scored.min(axis=1), scored.max(axis=1)
    # A score that is solved from a table takes its two values up to the rounding of the solution.
    rounding = EVEN * (most - least)[:, np.newaxis]
    upper = np.abs(scored - most[:, np.newaxis]) <= rounding
    if (upper | (np.abs(scored - least[:, np.newaxis]) <= rounding)).all():
        return _TwoValued(upper @ counts, tally.received, (least, most), domains)
    return _Several(scored, counts, domains)


@dataclass(frozen=True, slots=True, eq=False)
class _TwoValued:
    """Scores that are values[1] in `ones` of the reports and values[0] in the others, with the ends of their means."""

    ones: Integers
    received: int
    values: Ends
    domain: Ends

    def means(self) -> Floats:
        base, step = self.values[0], self.values[1] - self.values[0]
        return base + step * (self.ones / self.received)

    def estimates(self, confidence: float) -> Estimates:
        base, step, received = self.values[0], self.values[1] - self.values[0], self.received
        share = self.ones / received
        least, most = self._possible()
        (low, _), (_, high) = clopper_pearson(
            np.stack([np.minimum(self.ones, most), np.maximum(self.ones, least)]), received, confidence
        )
        spread = np.sqrt(share * (1 - share) / max(received - 1, 1)) if received > 1 else np.full(len(self.ones), 0.5)
        return Estimates(
            self.means(),
            step * spread,
            np.clip(base + step * low, *self.domain),
            np.clip(base + step * high, *self.domain),
            confidence,
            received,
        )

    def _possible(self) -> tuple[Integers, Integers]:
        """The counts that come nearest to the least and to the greatest mean that there may be."""
        step = np.where(self.values[1] > self.values[0], self.values[1] - self.values[0], np.inf)
        least, most = (np.clip((end - self.values[0]) / step, 0, 1) * self.received for end in self.domain)
        return np.ceil(least).astype(np.int64), np.floor(most).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Several:
    """Scores of more values: a row for each thing that is estimated, with the ends of their means."""

    scored: Floats
    counts: Integers
    domains: tuple[Floats, Floats]

    def means(self) -> Floats:
        received = int(self.counts.sum())
        return np.array([float(score @ self.counts) / received for score in self.scored])

    def estimates(self, confidence: float) -> Estimates:
        received = int(self.counts.sum())
        rows = zip(self.scored, self.means().tolist(), *self.domains, strict=True)
        several = [self._one(score, value, (least, most), confidence) for score, value, least, most in rows]
        error, low, high = (np.array(column) for column in zip(*several, strict=True))
        return Estimates(self.means(), error, low, high, confidence, received)

    def _one(
        self, score: Floats, value: float, domain: tuple[float, float], confidence: float
    ) -> tuple[float, float, float]:
        received = int(self.counts.sum())
        variance = float((score - value) ** 2 @ self.counts) / max(received - 1, 1)
        # One report shows no spread at all: then the largest possible one stands in.
        error = math.sqrt(variance / received) if received > 1 else float(np.ptp(score)) / 2
        possible = min(max(value, domain[0]), domain[1])
        low, high = bounded_interval(possible, variance, received, (float(score.min()), float(score.max())), confidence)
        return error, max(low, domain[0]), min(high, domain[1])


@dataclass(frozen=True, slots=True, eq=False)
class _Apart:
    """Scores of the same values for each cell, and of each cell how many reports have them."""

    values: Floats
    counts: Integers
    """A row for each value, a column for each cell."""
    domain: tuple[float, float]

    def means(self) -> Floats:
        return self.values @ self.counts / self.counts.sum(axis=0)

    def estimates(self, confidence: float) -> Estimates:
        ends = np.array([self.domain[0]]), np.array([self.domain[1]])
        cells = [_Several(self.values[np.newaxis], each, ends).estimates(confidence) for each in self.counts.T]
        columns = zip(*((one.standard_errors, one.low, one.high) for one in cells), strict=True)
        errors, low, high = (np.concatenate(column) for column in columns)
        return Estimates(self.means(), errors, low, high, confidence, int(self.counts[:, 0].sum()))


def clopper_pearson(ones: Integers, received: int, confidence: float) -> tuple[Floats, Floats]:
    """Clopper and Pearson's interval for a binomial proportion: covers for every proportion."""
    return binomial_bounds(ones, received, (1 - confidence) / 2)


def binomial_bounds(ones: Integers, received: int, failure: float) -> tuple[Floats, Floats]:
    """Bounds below and above a binomial proportion, each wrong with probability ≤ failure (Clopper & Pearson 1934)."""
    # Where none is 1 the lower bound is the end of the line; the upper bound is what the zeros' lower bound leaves.
    # Cells have many counts in common.
    counts, places = np.unique(np.stack([ones, received - ones]), return_inverse=True)
    bounds = np.where(counts == 0, 0.0, binomial.proportion(np.maximum(counts, 1), received, failure))
    low, left = bounds[places].reshape(2, *np.shape(ones))
    return low, 1 - left


def bounded_interval(
    value: float, variance: float, received: int, ends: tuple[float, float], confidence: float
) -> tuple[float, float]:
    """An interval for the mean of independent scores that lie between the ends, from their mean and variance."""
    bottom, width = ends[0], ends[1] - ends[0]
    # Two intervals of two sides: each side fails with a quarter.
    log_failure = math.log(4 / (1 - confidence))
    entropy_low, entropy_high = _entropy_interval((value - bottom) / width, log_failure / received)
    low, high = bottom + width * entropy_low, bottom + width * entropy_high
    if received > 1:
        # Maurer and Pontil 2009, Thm 4, one side: √(2 V ln(2/δ) / n) + 7 ln(2/δ) / (3 (n − 1)) for scores in [0, 1].
        log_two = log_failure + math.log(2)
        reach = math.sqrt(2 * variance * log_two / received) + 7 * width * log_two / (3 * (received - 1))
        low, high = max(low, value - reach), min(high, value + reach)
    return low, high


def _entropy_interval(mean: float, level: float) -> tuple[float, float]:
    """Hoeffding 1963, Thm 1: the p on both sides of `mean` with relative entropy kl(mean ‖ p) = level."""
    mean = min(max(mean, 0.0), 1.0)
    if mean <= 0:
        return 0.0, -math.expm1(-level)
    if mean >= 1:
        return math.exp(-level), 1.0

    def excess(p: float) -> float:
        return mean * math.log(mean / p) + (1 - mean) * math.log((1 - mean) / (1 - p)) - level

    tiny, near_one = sys.float_info.min, math.nextafter(1.0, 0.0)
    low = _root(excess, mean, tiny) if excess(tiny) > 0 else 0.0
    high = _root(excess, mean, near_one) if mean < near_one and excess(near_one) > 0 else 1.0
    return low, high


def _root(excess: Callable[[float], float], inside: float, outside: float) -> float:
    """Root of the entropy's excess, on its outer side: halved until no number lies between.

    By ratios while the ends are far apart: the root may be as small as numbers get.
    """
    while True:
        far = min(inside, outside) < max(inside, outside) / 4
        middle = math.sqrt(inside) * math.sqrt(outside) if far else (inside + outside) / 2
        if middle in (inside, outside):
            return outside
        inside, outside = (inside, middle) if excess(middle) > 0 else (middle, outside)


def targets(query: BooleanQuery | RealQuery | CellQuery, inputs: int) -> Floats:
    """g(u) for each input u: a row for each thing that is estimated."""
    match query:
        case BooleanQuery():
            return np.array([[0.0, 1.0]])
        case RealQuery(denominator=denominator):
            return (np.arange(inputs) / denominator - 1)[np.newaxis]
        case CellQuery(negative=None):
            return np.eye(inputs)
        case CellQuery(cells=cells):
            return np.repeat(np.eye(cells), 2, axis=1) * np.tile([1.0, -1.0], cells)
