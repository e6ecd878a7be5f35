"""From tallies to estimates: unbiased, with a standard error, and with an interval that holds.

Theory of operation
-------------------
An estimate is the mean of a *score* f(w) over the reports that came, where f undoes the channel: for every input
u, Σ_w Pr[w|u] · f(w) = g(u). So the mean is unbiased for E[g] whatever the population is, and users who drop out
at random change nothing but its precision: it is divided by what was received. Each channel knows its own scores;
nothing here asks which channel it is, only whether a score takes two values.

The interval depends on nothing but what is certain: the channel's table, and the tally.

- Where f takes two values, as for every binary, Hadamard and k-ary part and for buckets without signs, the count of one
  of them is binomial: reports of users drawn from the population are independent, and the public coin is independent of
  the data. The interval is Clopper and Pearson's (1934), which covers for every n and every mean. So it is for a *sum
  of cells*: by k-ary response one of the cells S is named with probability |S|·q + (p − q)·[the user's own is in S].
- Where f takes more values, the reports' law is a mixture of the channel's rows, and the interval is where a mean of
  such a law may lie (`mixtures`): within a few per cent of the normal interval for a thousand reports, and the one of
  the worst population for a few.

Neither is ever wrong on one side with more than about half of what may go wrong: who asks for one end alone may.

An unbiased estimate of a share may lie so far below 0 that no share is in its interval, and what is left of it, "0 to
0", would read as certainty. So the interval is that of the nearest mean that there may be. It holds all of the other
one that is possible: its ends move with the mean.

An interval is for one estimate. To read m of them at once, ask for `confidence` 1 − β/m.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from askance_protocol import hadamard
from askance_protocol.arrays import Floats, Integers
from askance_protocol.channels import Channel
from askance_protocol.channels.channel import EVEN, matrix
from askance_protocol.errors import ProtocolError
from askance_protocol.hashing import Buckets
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.rounds import PreparedPart
from askance_protocol.tally import Tally
from askance_server.core import binomial, hashed_cells, mixtures
from askance_server.core.hashed_cells import CellLaw

Sums: TypeAlias = Sequence[Sequence[int]]
"""Sets of cells: of each, the sum of their shares is wanted."""
Ends: TypeAlias = tuple[float, float] | tuple[Floats, Floats]
"""The least and the greatest value, of all or of each."""

PartKind: TypeAlias = tuple[int, int | None]

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
    received: int | Integers
    """Number of reports, of all of them or of each."""


def estimate(
    part: PreparedPart, tally: Tally, confidence: float = 0.95, sums: Sums = (), most: int | None = None
) -> Estimates:
    """Estimate what the part asks: a frequency, a mean, or the signed share of every cell; or these sums of cells.

    `most`: of the first so many cells only, for one who shows no more.
    """
    if not 0 < confidence < 1:
        raise ProtocolError(f"{confidence} is not between 0 and 1", where="confidence")
    return _scores(part, [tally], sums).first(most).estimates(confidence)


def estimate_each(
    part: PreparedPart, tallies: Sequence[Tally], confidence: float = 0.95, sums: Sums = ()
) -> list[Estimates]:
    """Estimate from each of several tallies of as many reports: all intervals at once, which takes less time."""
    joined = _scores(part, tallies, sums).estimates(confidence)
    columns = (joined.values, joined.standard_errors, joined.low, joined.high)
    split = zip(*(np.split(column, len(tallies)) for column in columns), strict=True)
    return [Estimates(values, errors, low, high, confidence, joined.received) for values, errors, low, high in split]


def kind_of(part: PreparedPart) -> PartKind:
    """Equal for parts of a round whose reports are scored alike: they share a channel, and their questions' numbers."""
    query = part.query.query
    return id(part.channel if not isinstance(query, CellQuery) else part), getattr(query, "denominator", None)


def estimate_parts(parts: Sequence[PreparedPart], tallies: Sequence[Tally], confidence: float) -> list[Estimates]:
    """Estimate each of these parts: of those that have one number, all intervals of one channel in one go.

    A round may have thousands of parts, and a thousand intervals in one go take as long as a few, one by one.
    """
    alike, found = dict[PartKind, list[int]](), dict[int, Estimates]()
    for place, part in enumerate(parts):
        if isinstance(part.query.query, CellQuery):
            found[place] = estimate(part, tallies[place], confidence)
        else:
            alike.setdefault(kind_of(part), []).append(place)
    for places in alike.values():
        one, counted = parts[places[0]], [tallies[place] for place in places]
        received = np.array([tally.received for tally in counted], np.int64)
        scores = _scored(wanted_of(one), one.channel, counted)
        if isinstance(scores, _TwoValued) and (received != received[0]).any():
            found |= zip(places, _apart(replace(scores, received=received).estimates(confidence)), strict=True)
        else:
            found |= {place: estimate(parts[place], tallies[place], confidence) for place in places}
    return [found[place] for place in range(len(parts))]


def _apart(joined: Estimates) -> Iterator[Estimates]:
    """Estimates of one number each."""
    received = np.broadcast_to(joined.received, len(joined.values))
    for at, count in enumerate(received.tolist()):
        one = slice(at, at + 1)
        values, errors, low, high = joined.values[one], joined.standard_errors[one], joined.low[one], joined.high[one]
        yield Estimates(values, errors, low, high, joined.confidence, count)


def estimated(part: PreparedPart, tally: Tally) -> Floats:
    """Estimate's values alone: intervals take a hundred times as long."""
    return _scores(part, [tally], ()).means()


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


def _scores(part: PreparedPart, tallies: Sequence[Tally], sums: Sums) -> _TwoValued | _Several | _Apart:
    """Scores of one tally after the other."""
    if any(tally.counts.shape != (part.rows, part.channel.outcomes) for tally in tallies):
        raise ProtocolError("has not the rows and outcomes of its part", where="tally")
    received = {tally.received for tally in tallies}
    if 0 in received:
        raise ProtocolError("nobody has reported", where="tally", remedy="wait for reports, or lower the target")
    if len(received) != 1:
        raise ProtocolError("have not equally many reports", where="tallies")
    query = part.query.query
    if isinstance(query, CellQuery) and part.pooled and not sums:
        if isinstance(part.pooling, Buckets):
            return _hashed(query, part.pooling, part.channel, tallies)
        return _pooled(query, part.channel, tallies)
    return _scored(wanted_of(part, sums), part.channel, tallies)


def _pooled(query: CellQuery, channel: Channel, tallies: Sequence[Tally]) -> _TwoValued:
    """Scores of every cell at once. In cell j a report agrees where it equals H[row, j]: a binomial count of n."""
    received = tallies[0].received
    columns = [hadamard.transform(tally.counts[:, 1] - tally.counts[:, 0])[: query.cells] for tally in tallies]
    agreeing = (received + np.concatenate(columns)) // 2
    lowest = 0.0 if query.negative is None else -1.0
    differs, agrees = channel.scores(POOLED).tolist()
    return _TwoValued(agreeing, received, (differs, agrees), (lowest, 1.0))


def _hashed(query: CellQuery, buckets: Buckets, channel: Channel, tallies: Sequence[Tally]) -> _TwoValued | _Apart:
    """Scores of every cell at once: how many reports named its bucket, and with signs how many that of its opposite."""
    counts = np.concatenate([hashed_cells.counts(buckets, query.cells, tally) for tally in tallies], axis=1)
    law = hashed_cells.law(buckets, channel)
    if not buckets.signed:
        return _TwoValued(counts[1], tallies[0].received, (float(law.values[0]), float(law.values[1])), (0.0, 1.0))
    return _Apart(law, counts)


def _scored(wanted: Floats, channel: Channel, tallies: Sequence[Tally]) -> _TwoValued | _Several:
    """Scores of each row of targets g(u)."""
    counts = np.concatenate([tally.counts for tally in tallies])
    scored = np.array([channel.scores(target) for target in wanted])
    least, most = scored.min(axis=1), scored.max(axis=1)
    # A score that is solved from a table takes its two values up to the rounding of the solution.
    rounding = EVEN * (most - least)[:, np.newaxis]
    upper = np.abs(scored - most[:, np.newaxis]) <= rounding
    if not (upper | (np.abs(scored - least[:, np.newaxis]) <= rounding)).all():
        return _Several(channel, scored, wanted, counts)
    ends = (np.tile(end, len(tallies)) for end in (least, most, wanted.min(axis=1), wanted.max(axis=1)))
    low, high, lowest, highest = ends
    return _TwoValued((counts @ upper.T).ravel(), tallies[0].received, (low, high), (lowest, highest))


@dataclass(frozen=True, slots=True, eq=False)
class _TwoValued:
    """Scores that are values[1] in `ones` of the reports and values[0] in the others, with the ends of their means."""

    ones: Integers
    received: int | Integers
    values: Ends
    domain: Ends

    def first(self, most: int | None) -> _TwoValued:
        """The first scores of one tally."""
        return _TwoValued(self.ones[:most], self.received, _first(self.values, most), _first(self.domain, most))

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
        spread = np.where(received > 1, np.sqrt(share * (1 - share) / np.maximum(received - 1, 1)), 0.5)
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
    """Scores of more values: a row for each thing that is estimated, with what is wanted of each input.

    And counts of outcomes: a row for each tally.
    """

    channel: Channel
    scored: Floats
    wanted: Floats
    counts: Integers

    @property
    def received(self) -> int:
        return int(self.counts[0].sum())

    def first(self, most: int | None) -> _Several:
        """The first scores of one tally."""
        return _Several(self.channel, self.scored[:most], self.wanted[:most], self.counts)

    def means(self) -> Floats:
        """Of each tally in turn, of each score."""
        return np.array([float(score @ counts) / self.received for counts in self.counts for score in self.scored])

    def estimates(self, confidence: float) -> Estimates:
        received, means = self.received, self.means()
        laws = mixtures.mixtures(matrix(self.channel), self.scored, self.wanted).repeated(len(self.counts))
        low, high = mixtures.interval(laws, np.repeat(self.counts, len(self.scored), axis=0), confidence)
        return Estimates(means, self._errors(means), low, high, confidence, received)

    def _errors(self, means: Floats) -> Floats:
        scored, received = np.tile(self.scored, (len(self.counts), 1)), self.received
        # One report shows no spread at all: then the largest possible one stands in.
        if received == 1:
            return np.ptp(scored, axis=1) / 2
        away = (scored - means[:, np.newaxis]) ** 2
        variance = (away * np.repeat(self.counts, len(self.scored), axis=0)).sum(axis=1) / (received - 1)
        return np.sqrt(variance / received)


@dataclass(frozen=True, slots=True, eq=False)
class _Apart:
    """Scores whose law is the same for each cell, and of each cell how many reports have each value."""

    law: CellLaw
    counts: Integers
    """A row for each value, a column for each cell of each tally."""

    @property
    def received(self) -> int:
        return int(self.counts[:, 0].sum())

    def first(self, most: int | None) -> _Apart:
        """The first cells of one tally."""
        return _Apart(self.law, self.counts[:, :most])

    def means(self) -> Floats:
        return self.law.values @ self.counts / self.received

    def estimates(self, confidence: float) -> Estimates:
        means, values = self.means(), self.law.values
        laws = mixtures.mixtures(self.law.table, values[np.newaxis], self.law.wanted[np.newaxis])
        low, high = mixtures.interval(laws, np.ascontiguousarray(self.counts.T), confidence)
        away = ((values[:, np.newaxis] - means) ** 2 * self.counts).sum(axis=0)
        # One report shows no spread at all: then the largest possible one stands in.
        spread = np.sqrt(away / (self.received - 1) / self.received) if self.received > 1 else np.ptp(values) / 2
        return Estimates(means, np.broadcast_to(spread, means.shape), low, high, confidence, self.received)


def _first(ends: Ends, most: int | None) -> Ends:
    low, high = ends
    return (low[:most], high[:most]) if isinstance(low, np.ndarray) and isinstance(high, np.ndarray) else ends


def clopper_pearson(ones: Integers, received: int | Integers, confidence: float) -> tuple[Floats, Floats]:
    """Clopper and Pearson's interval for a binomial proportion: covers for every proportion."""
    return binomial_bounds(ones, received, (1 - confidence) / 2)


def binomial_bounds(ones: Integers, received: int | Integers, failure: float) -> tuple[Floats, Floats]:
    """Bounds below and above a binomial proportion, each wrong with probability ≤ failure (Clopper & Pearson 1934)."""
    # Where none is 1 the lower bound is the end of the line; the upper bound is what the zeros' lower bound leaves.
    # Cells have many counts in common.
    both = np.stack([ones, received - ones])
    if isinstance(received, int):
        counts, places = np.unique(both, return_inverse=True)
        trials: int | Integers = received
    else:
        pairs = np.stack([both.ravel(), np.broadcast_to(received, both.shape).ravel()])
        (counts, trials), places = np.unique(pairs, axis=1, return_inverse=True)
    bounds = np.where(counts == 0, 0.0, binomial.proportion(np.maximum(counts, 1), trials, failure))
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
