"""The INTERVAL_d sanitizer: number of entries below each of 2^d thresholds. BNS13, §4.2, Thm 4.

The extended abstract omits it (docs/theory.md#constructions). The domain is cut into pieces, and the count of
each is released as if all of it were at the piece's right end. A call on [a,b] counts its entries with noise: if few,
[a,b] is a piece. Else it looks for the length 2^z of a window that is heavy although windows half as long are not
(Rec), then for such a window (the choosing mechanism, over two partitions in cells of 2·2^z, shifted by 2^z; over
single points where z = 0). The cell is a piece, and what is left and right of it are calls.

Privacy, accuracy, and the entries that it takes: `interval_sanitizer_plan`, which is all that is public, derives them.
Two things differ from the text. After `plan.calls` cells nothing more is looked for, so the price holds whatever the
data; the text's 77/α calls, which count pieces too, are 2(u+1)/α + 1 ≤ 67/α here. And a leaf's count is drawn afresh,
with less noise than the one that made it a leaf: all pieces' counts are one histogram.

⊥ is unspecified: where the choosing mechanism says so, [a,b] is a piece.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_lab.curator import choosing, geometric
from askance_lab.curator.concepts import COUNTS, INTERVAL
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.interval_sanitizer_plan import GROWTH, SanitizerPlan, examples_needed, paid, planned
from askance_lab.curator.mechanism import Mechanism, exactly
from askance_lab.curator.rec import Quality, rec, rec_distribution
from askance_lab.curator.sanitizer_error import (
    Multiset,
    Piece,
    interval_deviation,
    multiset,
    nearest_interval_database,
)
from askance_lab.theory.targets import Targets
from askance_protocol.arrays import Integers

Interval: TypeAlias = tuple[int, int]
Pieces: TypeAlias = tuple[Interval, ...]
WholeNumbers: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class IntervalEstimates:
    """Estimated counts of the pieces of X_d, from left to right, and the number m of all entries."""

    d: int
    m: int
    pieces: tuple[Piece, ...]

    def of(self, threshold: int) -> Fraction:
        """The estimate of Q_c for the concept that holds below this threshold."""
        below = sum(piece.estimate for piece in self.pieces if piece.end < threshold)
        return Fraction(min(max(below, 0), self.m), self.m)

    def database(self) -> dict[int, int]:
        """A database of m entries that is 2α-close where the estimates are α-close. BNS13, §2.3."""
        return nearest_interval_database(self.d, self.pieces, self.m)


@dataclass(frozen=True, slots=True)
class Counted:
    """Distinct points in order, with the number of entries before each, and of all."""

    points: WholeNumbers
    before: Integers

    @classmethod
    def of(cls, d: int, entries: Multiset) -> Counted:
        """Count entries; points are machine words as long as they fit."""
        points = np.array(sorted(entries), np.uint64 if d <= 64 else object)
        counts = np.fromiter(accumulate((entries[point] for point in sorted(entries)), initial=0), np.int64)
        return cls(points, counts)

    def within(self, interval: Interval) -> Counted:
        """Points in [a,b]: all that a call on [a,b] sees."""
        ends: WholeNumbers = np.array(interval, self.points.dtype)  # of their type: a float between would round them
        low = int(self.points.searchsorted(ends[:1])[0])
        high = int(self.points.searchsorted(ends[1:], side="right")[0])
        return Counted(self.points[low:high], self.before[low : high + 1] - self.before[low])

    def histogram(self, pieces: Iterable[Interval]) -> Iterator[tuple[Interval, int]]:
        """Number of entries of each piece."""
        return ((piece, self.within(piece).total) for piece in pieces)

    @property
    def total(self) -> int:
        """Number of all entries."""
        return int(self.before[-1])


def sanitize(database: Multiset | Iterable[int], *, plan: SanitizerPlan, draw: Below) -> IntervalEstimates:
    """Estimates within α for all thresholds at once with probability 1 − β, from `examples_needed(plan)` entries."""
    entries = multiset(plan.d, database)
    m = entries.total()
    # the choosing mechanism is not private below its bound (trap 17): refused here, before anything is looked at
    choosing.refuse_too_few(
        m,
        growth=GROWTH,
        epsilon=float(plan.choosing.epsilon),
        delta=float(plan.choosing.delta),
        error=float(plan.choosing_error),
        failure=float(plan.choosing_failure),
    )
    whole = Counted.of(plan.d, entries)
    # one histogram over disjoint pieces: replacing an entry changes two counts by 1
    pieces = (
        Piece(b, geometric.release(count, epsilon=plan.histogram, sensitivity=2, within=(0, m), draw=draw))
        for (_, b), count in whole.histogram(sorted(partition(whole, m, plan, draw)))
    )
    return IntervalEstimates(plan.d, m, tuple(pieces))


def partition(whole: Counted, m: int, plan: SanitizerPlan, draw: Below) -> Iterator[Interval]:
    """Cut the domain into pieces, disjoint and without a gap. What is pending is public, and so is when to stop."""
    pending, calls = [(0, (1 << plan.d) - 1)], 0
    while pending:
        a, b = pending.pop()
        part = whole.within((a, b))
        cell = None
        # too few are less than αm/8, which is 4r; after so many calls nothing is asked any more
        if calls < plan.calls and geometric.release(part.total, epsilon=plan.counting, draw=draw) >= 4 * plan.step(m):
            calls += 1
            cell = _cell(part, (a, b), m, plan, draw)
        yield cell or (a, b)
        pending += _sides((a, b), cell)


def partition_distribution(whole: Counted, m: int, plan: SanitizerPlan) -> Distribution[Pieces]:
    """The exact distribution of the pieces, in the order in which they are found. For a few points and entries.

    It refuses no m: that is `sanitize`'s part.
    """
    return _pieces(whole, m, plan, [(0, (1 << plan.d) - 1)], 0)


def _pieces(whole: Counted, m: int, plan: SanitizerPlan, pending: list[Interval], calls: int) -> dict[Pieces, float]:
    if not pending:
        return {(): 1.0}
    *others, interval = pending
    part = whole.within(interval)
    goes_on = geometric.at_least(4 * plan.step(m) - part.total, rate=plan.counting) if calls < plan.calls else 0.0
    total: dict[Pieces, float] = defaultdict(float)

    def add(cell: Interval | None, chance: float, calls: int) -> None:
        later = _pieces(whole, m, plan, [*others, *_sides(interval, cell)], calls)
        for pieces, each in later.items():
            total[cell or interval, *pieces] += chance * each

    add(None, 1 - goes_on, calls)
    if goes_on:
        for cell, chance in _cells_found(part, interval, m, plan).items():
            add(cell, goes_on * chance, calls + 1)
    return total


def _cells_found(part: Counted, interval: Interval, m: int, plan: SanitizerPlan) -> dict[Interval | None, float]:
    r, total = plan.step(m), defaultdict[Interval | None, float](float)
    windows = rec_distribution(lengths(part, interval, r), r, plan=plan.lengths)
    for z in range((interval[1] - interval[0]).bit_length() + 1):
        scores = cells(part, interval, z)
        found = choosing.choosing_distribution(scores, m, epsilon=plan.choosing.epsilon, error=plan.choosing_error)
        for cell in (None, *scores):
            total[cell] += windows.get(z, 0.0) * found.get(cell, 0.0)
    return total


def _sides(interval: Interval, cell: Interval | None) -> list[Interval]:
    """Intervals left and right of a cell; none if the whole interval is a piece."""
    (a, b), (c, e) = interval, cell or interval
    return [side for side in ((a, c - 1), (e + 1, b)) if side[0] <= side[1]]


def _cell(part: Counted, interval: Interval, m: int, plan: SanitizerPlan, draw: Below) -> Interval | None:
    """Cell that a call takes out of its interval, or ⊥."""
    r = plan.step(m)
    z = rec(lengths(part, interval, r), r, plan=plan.lengths, draw=draw)
    return choosing.choose(
        cells(part, interval, z),
        m,  # not the entries in [a,b], whose number is private: those outside are null elements
        growth=GROWTH,
        epsilon=plan.choosing.epsilon,
        delta=plan.choosing.delta,
        error=plan.choosing_error,
        failure=plan.choosing_failure,
        draw=draw,
    )


def lengths(part: Counted, interval: Interval, r: int) -> Quality:
    """Score lengths by q(j) = min(L(j) − r, 3r − L(j−1)) of windows of 2^j, until one is the interval; L(−1) = 0.

    The first rises with j, the second falls: q is concave. Both have sensitivity 1.
    """
    heaviest = heaviest_windows(part, interval)
    return Quality.of([min(here - r, 3 * r - shorter) for here, shorter in zip(heaviest, [0, *heaviest], strict=False)])


def heaviest_windows(part: Counted, interval: Interval) -> list[int]:
    """Compute L(j), the most entries in a window of 2^j points in [a,b], for j = 0 .. ⌈log(b−a+1)⌉.

    A window may as well begin at an entry: where it would then stick out at b, the one that ends at b has as many.
    """
    a, b = interval
    last = (b - a).bit_length()
    if part.total == 0:
        return [0] * (last + 1)
    points, found = part.points, [0] * (last + 1)
    gap = int(np.diff(points).min()) if len(points) > 1 else 1 << last
    single = int(np.diff(part.before).max())
    for j in range(last + 1):
        if found[j - 1] == part.total:
            found[j] = part.total
        elif 1 << j <= gap:
            found[j] = single  # no two points are in one window
        else:
            ends = points + np.minimum(b - points, (1 << j) - 1)
            after = points.searchsorted(ends, side="right")
            found[j] = int((part.before[after] - part.before[:-1]).max())
    return found


def cells(part: Counted, interval: Interval, z: int) -> Mapping[Interval, int]:
    """Number of entries of each nonempty cell: single points, or two partitions of width 2·2^z.

    A window of 2^z is inside a cell of one of them. An entry is in one cell of each, so the scores grow by k = 2.
    """
    a, b = interval
    if z == 0:
        return {(point, point): count for point, count in _summed(part.points, part)}
    halves = (part.points - a) >> z
    one, other = _summed(halves >> 1, part), _summed((halves + 1) >> 1, part)
    aligned = {(a + (i << z + 1), min(b, a + (i + 1 << z + 1) - 1)): count for i, count in one}
    shifted = {(max(a, a + (2 * i - 1 << z)), min(b, a + (2 * i + 1 << z) - 1)): count for i, count in other}
    return aligned | shifted


def _summed(keys: WholeNumbers, part: Counted) -> Iterator[Interval]:
    """Sum of the entries of each key; keys are in ascending order."""
    firsts = np.flatnonzero(np.append(np.ones(min(1, len(keys)), np.bool), keys[1:] != keys[:-1]))
    counts = np.diff(part.before[np.append(firsts, len(keys))])
    return zip(keys[firsts].tolist(), counts.tolist(), strict=True)


_UNIT: Final = 12
"""The mechanism's constant in place of the text's 32: it needs fewer entries (docs/sanitizers.md)."""


def _plan(d: int, targets: Targets) -> SanitizerPlan:
    return planned(d, unit=_UNIT, **exactly(targets))


def _thresholds(sample: LabelledSample, targets: Targets, draw: Below) -> Mapping[int, int]:
    """Counts by right ends: a database of as many entries, within 2α on every threshold."""
    return sanitize(sample.points, plan=_plan(sample.d, targets), draw=draw).database()


def _off(found: Mapping[int, int], sample: LabelledSample) -> float:
    return interval_deviation(found, Counter(sample.points).items()) / len(sample)


MECHANISM: Final = Mechanism(
    name="interval-sanitizer",
    summary="how many lie below each threshold, as a database",
    by="BNS13 Thm 4, §2.3",
    concepts=INTERVAL,
    answers=COUNTS,
    run=_thresholds,
    needed=lambda d, targets: examples_needed(_plan(d, targets)),
    paid=lambda targets, d: paid(_plan(d, targets)),
    off=_off,
    alpha=0.2,
    place=41,
)
