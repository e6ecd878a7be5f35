"""The error of a sanitizer's estimates, and the database closest to them. BNS13, §2.3.

From improper to proper: a sanitizer releases estimates, and a learner wants a database of m entries that has them.

The text looks through all databases for one that is α-close to the estimates; S itself is one, so there is one, and it
is 2α-close to S. Here nothing is searched, and no α is needed: the database that is built deviates from the estimates
by as little as any database of m entries does, hence by no more than S. Estimates are whole numbers out of m.

POINT. At deviation t an estimate e allows max(0, e−t) .. e+t entries, a point without an estimate 0..t. A database of m
entries exists iff no range is empty, the lower ends add up to at most m and the upper ends to at least m; all three are
monotone in t. The counts are clipped at 0, and filled up or thinned out within their ranges until they are m.

INTERVAL. Let E(j) be the estimate of |{x < j}|, M(j) the largest of E(0..j), W(j) the smallest of E(j..2^d). M ≥ E ≥ W,
and M and W are monotone. For i ≤ j ≤ k a monotone F with |F−E| ≤ t has E(i)−t ≤ F(i) ≤ F(j) ≤ F(k) ≤ E(k)+t, hence
t ≥ (M(j)−W(j))/2 at every j, and (M+W)/2, rounded down, reaches that, rounded up: the least that whole numbers can
reach. Clipping F to 0..m and setting F(2^d) = m costs only what every database of m entries costs there.

It is post-processing: privacy stays what it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate, repeat
from operator import index
from typing import NamedTuple, TypeAlias

from askance_lab.curator.databases import in_domain
from askance_protocol import checks

Multiset: TypeAlias = Mapping[int, int]
"""The number of times each point is in a database (a multiset: BNS13, §4.1), or is estimated to be."""


class Piece(NamedTuple):
    """Estimated number of entries of an interval, counted at its right end: thresholds beyond it include them."""

    end: int
    estimate: int


def nearest_point_database(d: int, estimates: Multiset, m: int) -> dict[int, int]:
    """Database of m entries with the least any-point deviation from the estimates. BNS13, §2.3."""
    _checked(d, estimates, m)
    others = (1 << d) - len(estimates)
    slack = _least_deviation(list(estimates.values()), others, m)
    counts = {point: max(0, estimate) for point, estimate in estimates.items()}
    surplus = sum(counts.values()) - m
    for point, estimate in estimates.items():
        removed = min(max(0, surplus), counts[point] - max(0, estimate - slack))
        counts[point] -= removed
        surplus -= removed
    missing = max(0, -surplus)
    for point in _unnamed(d, estimates, missing, slack):
        counts[point] = min(missing, slack)
        missing -= counts[point]
    for point, estimate in estimates.items():
        added = min(missing, estimate + slack - counts[point])
        counts[point] += added
        missing -= added
    return {point: count for point, count in counts.items() if count}


def nearest_interval_database(d: int, pieces: Iterable[Piece], m: int) -> dict[int, int]:
    """Database of m entries with the least deviation at any threshold.

    Monotone counts, by the running maximum from the left and minimum from the right.
    """
    gathered: Counter[int] = Counter()
    for end, count in pieces:
        gathered[end] += count
    ends = sorted(_checked(d, gathered, m))
    checks.require(bool(ends), "are none", where="pieces", remedy="give at least one")
    sums = list(accumulate(gathered[end] for end in ends))
    highest = accumulate(sums, max, initial=0)  # E(0) = 0 is an estimate, too
    next(highest)
    lowest = reversed(list(accumulate(reversed(sums), min)))
    below = [min(max((high + low) // 2, 0), m) for high, low in zip(highest, lowest, strict=True)]
    below[-1] = m
    steps = [after - before for before, after in zip([0, *below], below, strict=False)]
    return {end: step for end, step in zip(ends, steps, strict=True) if step}


def point_deviation(one: Multiset, other: Multiset) -> int:
    """Largest difference between two databases, or estimates, at any point: m·max|Q_c − est(c)| over POINT_d."""
    return max((abs(one.get(point, 0) - other.get(point, 0)) for point in {*one, *other}), default=0)


def interval_deviation(database: Multiset, pieces: Iterable[tuple[int, int]]) -> int:
    """Largest difference below any threshold: m·max|Q_c − est(c)| over INTERVAL_d."""
    changes = Counter(database)
    for end, count in pieces:
        changes[end] -= count
    return max(map(abs, accumulate(changes[point] for point in sorted(changes))), default=0)


def multiset(d: int, database: Multiset | Iterable[int]) -> Counter[int]:
    """Count a database of X_d, if it is not counted already; refuse an empty one and negative counts."""
    given = Counter(database)
    points = in_domain(d, given)
    try:
        counts = tuple(map(index, given.values()))
    except TypeError:
        counts = ()  # refused below
    remedy = "count each point's entries in whole numbers, and give at least one"
    checks.require(any(counts) and min(counts) >= 0, "is empty, or wrongly counted", where="database", remedy=remedy)
    return +Counter(dict(zip(points, counts, strict=True)))


def entries(database: Multiset) -> tuple[int, ...]:
    """Entries of the database, one by one, in order."""
    return tuple(point for point in sorted(database) for _ in repeat(None, database[point]))


def _checked(d: int, estimates: Multiset, m: int) -> Multiset:
    checks.count("m", m)
    if estimates:
        in_domain(d, estimates)
    return estimates


def _least_deviation(estimates: list[int], others: int, m: int) -> int:
    """Smallest t at which a database of m entries exists: bisection."""

    def exists(slack: int) -> bool:
        least = sum(max(0, each - slack) for each in estimates)
        most = sum(each + slack for each in estimates) + others * slack
        return all(each + slack >= 0 for each in estimates) and least <= m <= most

    low, high = 0, m + max(map(abs, estimates), default=0)  # at which it does: no lower end is above 0
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if exists(middle) else (middle + 1, high)
    return low


def _unnamed(d: int, estimates: Multiset, missing: int, slack: int) -> Iterable[int]:
    """Points without an estimate: as many as `missing` entries need, each taking `slack`, or all there are."""
    wanted = -(-missing // slack) if slack else 0
    point = 0
    while wanted and point < 1 << d:
        if point not in estimates:
            wanted -= 1
            yield point
        point += 1
