"""How many users a study needs, by exact binomial tails.

Theory of operation
-------------------
A binary channel turns a question about a mean into one about a proportion p of reports. N ~ Binomial(n, p) of n
reports say 1, and the plan fails when |N/n - p| > τ. `users_for_proportion` wants the smallest n at which this has
probability at most β for *every* p of an interval. Three things make it exact instead of normal:

*Which p is worst.* As p grows, the set of accepted counts, all k with |k - np| <= nτ, changes only at the breakpoints
p = k/n ± τ; between two of them it is fixed, and its probability, a unimodal function of p, is least at one of the two
ends. So the supremum is a maximum over breakpoints, each taken as a limit from the side where the count k has just
been lost. Just above p = j/n + τ the plan fails on N <= j and on N >= j + m, with m = ⌊2nτ⌋ + 1 for every j; the other
kind is its mirror image p -> 1-p. As a function of j this is a smooth hill with its top near p = 1/2 or at the end of
the interval nearest to it (not *at* 1/2: the two tails are cut at different distances). Up to `ENUMERATED` breakpoints
all are evaluated; beyond, the hill is climbed on ever finer grids.

*The sawtooth in n.* m stays the same while n runs through a tooth of about 1/(2τ) values. Where a tooth ends, the
failure drops; inside it, it mostly *rises*, because the rounded tolerance shrinks against the spread. So more users may
do slightly worse: n may suffice and n+1 may not. The answer is right for exactly n users; `worst_proportion` tells
for any other number. Candidates are therefore the starts of teeth, and points inside a tooth only where counts are so
few (τ large against p(1-p)) that the failure falls there.

*What "smallest" means.* For an interval around 1/2, which every binary channel has, the first start of a tooth that
suffices. Where the worst p is an end of the interval (k-ary response) a finer saw rides on this one, because the
breakpoints shift against the end, and some n within the tooth before, 1/(2τ) users at most, may do. And a lucky number
far below the rest may be passed over: with β above 1/2 and p confined to a hair around 1/2, a lone n = 2 can suffice
where many more do not. That the answer suffices depends on none of this; the tests try every smaller n by brute force.

*Decimals.* τ = 0.15 means 15/100, not the binary number next to it: ⌊2nτ⌋ is computed on the decimal the caller wrote.

Hoeffding's bound (KLNRS11, Thm A.2) is an upper limit for the search, so the answer is never above it; where that limit
passes `LARGEST`, it is the answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from askance_protocol import checks
from askance_protocol.arrays import Floats, Integers
from askance_server.core import binomial, tails

ENUMERATED = 128  # breakpoints that are all evaluated; more are searched
LARGEST = 10**15  # users up to which double precision resolves single reports
_GRID = 65  # points of one refinement of the search for the worst breakpoint
_SCANNED = 24  # teeth that are tried one by one from n = 1; more are bisected
_STEP_COUNTS = 48  # numbers of steps that `users_for_leading_row` tells apart
_SHORT_TOOTH = 12  # a tooth this short is walked through; a longer one is sampled


class WorstProportion(NamedTuple):
    """The proportion at which a plan fails most often, and how often."""

    proportion: float
    failure: float


@dataclass(frozen=True, slots=True)
class _Plan:
    """The tolerance and the interval of proportions, on the decimals the caller wrote."""

    tolerance: Fraction
    lowest: Fraction
    highest: Fraction

    @classmethod
    def of(cls, tolerance: float, lowest: float, highest: float) -> _Plan:
        checks.open_unit("tolerance", tolerance)
        checks.between("lowest", lowest, 0, 1)
        checks.between("highest", highest, lowest, 1)
        return cls(*(Fraction(repr(float(number))) for number in (tolerance, lowest, highest)))

    def mirrored(self) -> _Plan:
        """The same plan, counting the reports that say 0."""
        return _Plan(self.tolerance, 1 - self.highest, 1 - self.lowest)

    def reach(self, users: int) -> int:
        """The m such that just above a lower breakpoint j/n + τ the plan fails on N <= j and on N >= j + m."""
        return math.floor(2 * users * self.tolerance) + 1

    def variance(self) -> float:
        """Largest p(1-p) of the interval."""
        nearest = min(max(self.lowest, Fraction(1, 2)), self.highest)
        return float(nearest * (1 - nearest))

    def tooth(self, reach: int) -> range:
        """All n with this reach: one tooth of the sawtooth."""
        first = math.ceil((reach - 1) / (2 * self.tolerance))
        return range(max(1, first), math.ceil(reach / (2 * self.tolerance)))


def worst_proportion(users: int, tolerance: float, lowest: float = 0.0, highest: float = 1.0) -> WorstProportion:
    """Supremum over p in [lowest, highest] of P(|N/n - p| > tolerance), and where it is approached."""
    remedy = "use Hoeffding's bound, tails.hoeffding_tail"
    checks.require(checks.count("users", users) <= LARGEST, "too many for exact tails", where="users", remedy=remedy)
    return _worst(_Plan.of(tolerance, lowest, highest), users)


def _worst(plan: _Plan, users: int) -> WorstProportion:
    return max(_ends(plan, users), *_tops(plan, users), key=lambda worst: worst.failure)


def _suffices(plan: _Plan, users: int, failure: float) -> bool:
    """Whether the plan fails with at most this probability; the first proportion that is worse ends the search."""
    if _ends(plan, users).failure > failure:
        return False
    return all(top.failure <= failure for top in _tops(plan, users, failure))


def _ends(plan: _Plan, users: int) -> WorstProportion:
    """The worse end of the interval: a value, not a limit."""
    ends = (plan.lowest, plan.highest)
    below = np.array([math.ceil(users * (end - plan.tolerance)) - 1 for end in ends])
    above = np.array([math.floor(users * (end + plan.tolerance)) + 1 for end in ends])
    failures = _failure(users, below, above, np.array([float(end) for end in ends]))
    worse = int(np.argmax(failures))
    return WorstProportion(float(ends[worse]), float(failures[worse]))


def _failure(users: int, below: Integers, above: Integers, p: Floats) -> Floats:
    """P(N <= below) + P(N >= above), N ~ Binomial(n, p)."""
    return binomial.outside(below, above, users, p)


def _tops(plan: _Plan, users: int, enough: float = 1.0) -> Iterator[WorstProportion]:
    """The worst breakpoint of either kind."""
    yield _top(plan, users, enough)
    # On an interval that is its own mirror image the other kind of breakpoint says nothing new.
    if plan.lowest + plan.highest != 1:
        falling = _top(plan.mirrored(), users, enough)
        yield WorstProportion(1 - falling.proportion, falling.failure)


def _top(plan: _Plan, users: int, enough: float) -> WorstProportion:
    """The worst lower breakpoint p = j/n + τ, approached from above, with lowest <= p < highest.

    One that fails with more than `enough` probability is as good: then the hill is climbed no further.
    """
    first = max(0, math.ceil(users * (plan.lowest - plan.tolerance)))
    last = math.ceil(users * (plan.highest - plan.tolerance)) - 1
    reach = plan.reach(users)
    while last - first >= ENUMERATED:
        counts = np.linspace(first, last, _GRID).astype(np.int64)
        failures = _hill(plan, users, reach, counts)
        best = int(np.argmax(failures))
        if failures[best] > enough:
            return WorstProportion(float(counts[best] / users + float(plan.tolerance)), float(failures[best]))
        first, last = int(counts[max(best - 1, 0)]), int(counts[min(best + 1, _GRID - 1)])
    if last < first:
        return WorstProportion(float(plan.lowest), 0.0)
    counts = np.arange(first, last + 1, dtype=np.int64)
    failures = _hill(plan, users, reach, counts)
    best = int(np.argmax(failures))
    return WorstProportion(float(counts[best] / users + float(plan.tolerance)), float(failures[best]))


def _hill(plan: _Plan, users: int, reach: int, counts: Integers) -> Floats:
    return _failure(users, counts, counts + reach, counts / users + float(plan.tolerance))


def users_for_proportion(tolerance: float, failure: float, lowest: float = 0.0, highest: float = 1.0) -> int:
    """Smallest n with P(|N/n - p| > tolerance) <= failure for every p in [lowest, highest], N ~ Binomial(n, p)."""
    plan = _Plan.of(tolerance, lowest, highest)
    limit = tails.users_hoeffding(deviation=tolerance, width=1, failure=failure)
    if limit > LARGEST:
        return limit
    return min(limit, _search(plan, failure, limit))


def _search(plan: _Plan, failure: float, limit: int) -> int:
    """First n that suffices: bracket by the normal approximation, bisect over teeth."""
    last = plan.reach(limit)
    normal = (NormalDist().inv_cdf(failure / 2) / float(plan.tolerance)) ** 2 * plan.variance()
    guess = plan.reach(min(limit, math.ceil(normal)))
    if guess <= _SCANNED:
        found = (_first(plan, failure, reach) for reach in range(1, last + 1))
        return next((users for users in found if users is not None), limit)
    low, high = _bracket(plan, failure, guess, last)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _first(plan, failure, middle) is None else (low, middle)
    return _first(plan, failure, high) or limit


def _bracket(plan: _Plan, failure: float, guess: int, last: int) -> tuple[int, int]:
    """Two teeth near the guess, the first without an n that suffices, the second with one (or the last of all)."""
    step = 1
    if _first(plan, failure, guess) is None:
        low, high = guess, min(last, guess + step)
        while high < last and _first(plan, failure, high) is None:
            step *= 2
            low, high = high, min(last, high + step)
        return low, high
    low, high = max(0, guess - step), guess
    while low > 0 and _first(plan, failure, low) is not None:
        step *= 2
        low, high = max(0, low - step), low
    return low, high


def _first(plan: _Plan, failure: float, reach: int) -> int | None:
    """First n of one tooth that suffices, if any."""
    tooth = plan.tooth(reach)
    if len(tooth) <= _SHORT_TOOTH:
        return next((users for users in tooth if _suffices(plan, users, failure)), None)
    if _suffices(plan, tooth[0], failure):
        return tooth[0]
    # e^{-τ/p(1-p)} is by how much the far tail is rarer at the start of a tooth: near 1, the failure only rises in it.
    if float(plan.tolerance) < plan.variance() / 4:
        return None
    return _inside(plan, failure, tooth)


def _inside(plan: _Plan, failure: float, tooth: range) -> int | None:
    low = tooth[0]
    for high in tooth[:: max(1, len(tooth) // 8)][1:]:
        if _suffices(plan, high, failure):
            break
        low = high
    else:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _suffices(plan, middle, failure) else (middle, high)
    return high


# --- The channels ------------------------------------------------------------------------------------------------


def users_binary(keep: float, tolerance: float, failure: float) -> int:
    """Users of randomized response until the mean of a ±1 value is known within tolerance.

    A report says +1 with probability (1 + (2·keep-1)·mean)/2: the mean's tolerance shrinks by (2·keep-1)/2.
    """
    checks.keep_probability("keep", keep)
    checks.between("tolerance", checks.positive("tolerance", tolerance), 0, 2)
    return users_for_proportion(tolerance * (2 * keep - 1) / 2, failure, 1 - keep, keep)


def users_bit(keep: float, tolerance: float, failure: float) -> int:
    """Users of randomized response until the frequency of a {0,1} value is known within tolerance.

    A report says 1 with probability (1-keep) + (2·keep-1)·frequency.
    """
    return users_kary(checks.keep_probability("keep", keep), 1 - keep, tolerance, failure)


def users_kary(p: float, q: float, tolerance: float, failure: float) -> int:
    """Users of k-ary response until one cell's frequency π is known within tolerance: a report says it with q+(p-q)π.

    For all k cells at once give failure/k.
    """
    checks.open_unit("p", p)
    checks.open_unit("q", q)
    remedy = "k-ary response names the true cell more often than another"
    checks.require(q < p, f"must be above q = {q}", where="p", remedy=remedy)
    checks.open_unit("tolerance", tolerance)
    return users_for_proportion(tolerance * (p - q), failure, q, p)


def users_two_valued(low: float, high: float, span: float, tolerance: float, failure: float) -> int:
    """Users until the mean of a value is known within tolerance, from reports that take two values.

    The value ranges over an interval of length `span`; the larger report is sent with probability `low` at its least
    end, `high` at its greatest, and evenly between.
    """
    checks.open_unit("high", high)
    checks.open_unit("low", low)
    checks.require(low < high, f"must be above low = {low}", where="high", remedy="exchange the two reports")
    checks.between("tolerance", checks.positive("tolerance", tolerance), 0, span)
    return users_for_proportion(tolerance * (high - low) / span, failure, low, high)


def users_hadamard(keep: float, cells: int, tolerance: float, failure: float) -> int:
    """Users of one pooled Hadamard round until all cells are known within tolerance at once (union bound).

    For each cell, whether a report agrees with the cell's column is a bit of mean (1 + s/C)/2 with
    1/C = 2·keep-1, s the cell's ±1-weighted mass, the same reports serving every cell. Rows must be drawn uniformly.
    """
    return users_binary(keep, tolerance, checks.open_unit("failure", failure) / checks.count("cells", cells))


def users_for_sign(mean: float, failure: float) -> int:
    """Smallest odd n at which the majority of ±1 reports of mean ±`mean` has the wrong sign with at most `failure`.

    With odd n there are no ties, and P(N <= (n-1)/2) falls with every two more reports, so bisection is exact.
    """
    checks.open_unit("mean", mean)
    checks.open_unit("failure", failure)
    limit = checks.whole(2 * math.log(1 / failure) / mean**2)  # one-sided Hoeffding, KLNRS11, Thm A.2
    low, high = -1, limit // 2 + 1
    if limit > LARGEST:
        return 2 * (limit // 2) + 1
    while high - low > 1:
        middle = (low + high) // 2
        wrong = float(binomial.at_most(middle, 2 * middle + 1, (1 + mean) / 2))
        low, high = (low, middle) if wrong <= failure else (middle, high)
    return 2 * high + 1


@lru_cache(maxsize=64)
def users_for_leading_row(kept: float, rows: int, lead: float, failure: float) -> int:
    """Smallest n at which the right one of so many Hadamard rows leads all others, but with `failure`.

    Each user has a public row, and reports ±1 with `kept` = 1/C of its mean. The number of +1 less that of −1 of two
    rows differ by a sum of steps: with probability 2/rows a user of one of the two adds ±1, and +1 with probability
    1/2 + lead·kept/4, whatever both means are. Given M such steps, the right row does not lead with the probability
    that half of them or fewer are +1: a binomial tail, averaged over M ~ Binomial(n, 2/rows). The union bound adds
    these up over the other rows. Of four rows or more every user makes it smaller: half of the users add nothing, so
    the sum's law, tilted to be even, has its top at 0, and Pr[1]/Pr[0] < Pr[step +1]/Pr[step −1]. Of two it is taken
    with one user more, who may make it a tie. So bisection finds the end.
    """
    checks.between("lead", checks.positive("lead", lead), 0, 2)
    each = checks.open_unit("failure", failure) / max(1, rows - 1)
    ahead = 0.5 + lead * checks.open_unit("kept", kept) / 4
    # Markov's inequality for e^{−λ·sum}, at the λ where it is least.
    most = math.log(1 / each) / -math.log1p(-(2 / rows) * (1 - 2 * math.sqrt(ahead * (1 - ahead))))
    low, high = 0, checks.whole(most)
    if high > LARGEST:
        return high
    while high - low > max(1, high >> 12):
        middle = (low + high) // 2
        low, high = (low, middle) if _not_ahead(middle, 2 / rows, ahead, each / 1000) <= each else (middle, high)
    return high


def _not_ahead(users: int, moves: float, ahead: float, negligible: float) -> float:
    """Upper bound of the probability that a sum of ±1 steps is not above 0; it is exact where there are few steps."""
    if moves >= 1:
        return max(float(binomial.at_most(some // 2, some, ahead)) for some in (users, users + 1))
    first, last = (binomial.quantile(level, users, moves) for level in (negligible, 1 - max(negligible, 2.0**-50)))
    width = -(-(last + 1 - first) // _STEP_COUNTS)
    starts = np.arange(first, last + 1, width)
    chances = np.diff(np.concatenate([[0.0], binomial.at_most(starts[1:] - 1, users, moves), [1.0]]))
    # More steps of the same parity are better, and an even number is worse than the odd one before it.
    worst = [
        max(float(binomial.at_most(steps // 2, steps, ahead)) for steps in range(begin, begin + min(width, 2)))
        for begin in starts.tolist()
    ]
    below = float(binomial.at_most(first - 1, users, moves)) if first else 0.0
    return below + float(chances @ worst)


def users_bounded(variance: float, spread: float, tolerance: float, failure: float) -> int:
    """Users until the average of any bounded reports is within tolerance of its mean, by Bernstein's inequality.

    2exp(-nτ²/(2(v + Mτ/3))) <= β for reports of variance at most v within M = `spread` of their mean (Boucheron,
    Lugosi, Massart, Concentration Inequalities, 2013, Cor. 2.11, once for each side). For the multi-valued channels:
    two-sided geometric and discretised Laplace are finite tables, so M is finite; for real Lap(λ) use
    tails.laplace_sum_tail_repaired.
    """
    checks.positive("variance", variance)
    checks.positive("spread", spread)
    checks.positive("tolerance", tolerance)
    checks.open_unit("failure", failure)
    return checks.whole(2 * (variance + spread * tolerance / 3) / tolerance**2 * math.log(2 / failure))
