"""Algorithm Rec: a good solution of a concave promise problem on [0, T], T up to 2^1024 and more. BNS13, §3.3, Fig. 1.

Theory of operation
-------------------
Q(S,·) is concave: where two solutions score x, so do all between them. To find a good one is to find how long the
plateau of good ones is, up to a factor of 2, and that is the same problem on [0, log T]: so Rec calls itself once.
Knowing the length, cut [0, T] into cells a few plateaus wide. The plateau's cell is then far ahead of the others:
A_dist finds it, and the exponential mechanism chooses among a few points of it.

Q is whole-valued, and piecewise constant: `Quality` holds its pieces. A call with n pieces takes O(n) steps, at any T.

Repaired, derived (numbers as in docs/theory.md#traps):

* trap 11: step 10's second set starts at c, not at b; K/2 is rounded down, H has each point once, and is within [0, T].
* trap 12: step 3's min{0, ·} is right; step 2's padding by 0 is not: below level 0 scores are negative, and then 0 is a
  second hill. min{0, Q(S,T)} is concave, and has sensitivity 1.
* trap 13: where A_dist says ⊥ its cell is left out of H; where none is left, H is that of the first cell. A partition
  with one cell needs no A_dist, one without cells has no say.
* trap 14: the cut-off of the base case is the caller's, so levels are N, not log*T, and all costs (3N+1)ε, 2Nδ.
* trap 15: the recursive call gets the constant ¼ in place of α, which would make the promise grow as (2/α)^{log*T}.
* Step 4 in whole numbers: μ = ⌈(1−λα)r⌉, R = ⌊αr/2⌋, q(j) = min(L(j) − (μ−R), (μ+R) − L(j+1)). At λ = ½ and even αr it
  is the text's. The last j with L(j) ≥ μ has q(j) ≥ R, at any λ and R; q has sensitivity 1, as L has.

Ours, optional (`RecPlan.spread`): instead of two partitions, and A_dist on each, one partition in cells of 2^c·K,
shifted by a random multiple of K. The scores above μ + Λ fill less than 2K places; at most two of the multiples of K at
which a cell may begin would cut them: so some cell has them all but for 2/2^c. H has the cell's multiples of K, and the
next: of K places in a row one is such, and so the plateau has one in H, whether it reaches out of the cell or not.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product
from operator import index
from typing import NamedTuple

from askance_lab.curator import distance, exponential
from askance_lab.curator.distributions import Distribution, mixture
from askance_lab.curator.draws import Below
from askance_lab.curator.rec_plan import POINTS, WIDTH, RecPlan
from askance_protocol import checks


@dataclass(frozen=True, slots=True)
class Quality:
    """Q(S,·) on [0, top]: value i from start i up to the next start. Whole numbers, of sensitivity 1."""

    top: int
    starts: tuple[int, ...]
    values: tuple[int, ...]

    @classmethod
    def of(cls, values: Sequence[int]) -> Quality:
        """Quality with the score of each solution."""
        return cls.pieces(len(values) - 1, range(len(values)), values)

    @classmethod
    def pieces(cls, top: int, starts: Sequence[int], values: Sequence[int]) -> Quality:
        """Quality with the first solution of each piece, and its score. Checked."""
        remedy = "give each piece its start, from 0 upwards, and its score, a whole number"
        first, scores = tuple(map(index, starts)), _whole(values)
        fits = 0 < len(first) == len(scores) and first[0] == 0 and first[-1] <= top
        fits = fits and all(one < other for one, other in pairwise(first))
        checks.require(fits, "are not the pieces of a function on [0, T]", where="quality", remedy=remedy)
        return cls(top, first, scores)

    def at(self, solution: int) -> int:
        """Q(S, solution)."""
        return self.values[bisect_right(self.starts, solution) - 1]

    def lengths(self) -> Iterator[int]:
        """Number of solutions of each piece."""
        return (after - start for start, after in pairwise((*self.starts, self.top + 1)))


def _whole(values: Sequence[int]) -> tuple[int, ...]:
    try:
        return tuple(map(index, values))
    except TypeError:
        what, remedy = "has scores that are no whole numbers", "scale it, or round it down: its sensitivity must stay 1"
        checks.require(False, what, where="quality", remedy=remedy)
        raise


# --- The algorithm -----------------------------------------------------------------------------------------------


def rec(quality: Quality, promise: int, *, plan: RecPlan, draw: Below) -> int:
    """Find a solution with Q ≥ (1−α)·promise, if Q is concave and reaches the promise. It is private in any case."""
    checks.count("promise", promise, least=0)
    # BNS13, Fig. 1, step 1. The cut-off is not 32, but the caller's (trap 14).
    if quality.top <= plan.base_case:
        return _base(quality, plan, draw)
    # Steps 2 to 6.
    whole = padded(quality)
    k = rec(inside(whole, promise, plan), plan.inner_promise(promise), plan=plan.inside(), draw=draw)
    # Steps 7 to 9.
    shift = draw(_shifts(k, plan, whole.top))
    price = plan.distance
    cells = [
        lead.left
        if distance.choose(lead.gap, epsilon=price.epsilon, delta=price.delta, draw=draw, stated=plan.stated)
        else None
        for lead in leads(whole, k, plan, shift)
    ]
    # Steps 10 and 11.
    points = hits(cells, k, plan, quality.top)
    scores = [quality.at(point) for point in points]
    return points[exponential.choose(scores, epsilon=plan.last, draw=draw)]


def rec_distribution(quality: Quality, promise: int, *, plan: RecPlan) -> Distribution[int]:
    """Exact distribution of the solution found.

    Above the base case only the points of some H can come out, so T may be large.
    """
    if quality.top <= plan.base_case:
        return _base_distribution(quality, plan)
    whole = padded(quality)
    lengths = rec_distribution(inside(whole, promise, plan), plan.inner_promise(promise), plan=plan.inside())
    return mixture(
        (lengths[k] / len(shifts), _given(quality, whole, k, shift, plan))
        for k in range(whole.top.bit_length())
        if k in lengths
        for shifts in [range(_shifts(k, plan, whole.top))]
        for shift in shifts
    )


def _given(quality: Quality, whole: Quality, k: int, shift: int, plan: RecPlan) -> Distribution[int]:
    """Steps 7 to 11, given k and the shift: each A_dist finds its cell or not, with independent noise."""
    cut = leads(whole, k, plan, shift)
    price = plan.distance
    found = [
        distance.found_chance(lead.gap, epsilon=price.epsilon, delta=price.delta, stated=plan.stated) for lead in cut
    ]
    parts: list[tuple[float, Distribution[int]]] = []
    for says in product((True, False), repeat=len(cut)):
        chance = math.prod(each if said else 1 - each for each, said in zip(found, says, strict=True))
        points = hits([lead.left if said else None for lead, said in zip(cut, says, strict=True)], k, plan, quality.top)
        scores = [quality.at(point) for point in points]
        parts.append((chance, dict(zip(points, exponential.probabilities(scores, epsilon=plan.last), strict=True))))
    return mixture(parts)


def _base(quality: Quality, plan: RecPlan, draw: Below) -> int:
    """Step 1: the exponential mechanism over [0, T]. All solutions with the same score are one level."""
    many = _solutions(quality)
    scores = sorted(many)
    counts = [many[score] for score in scores]
    score = scores[exponential.choose(scores, epsilon=plan.base, draw=draw, multiplicities=counts)]
    place = draw(many[score])
    for start, value, length in zip(quality.starts, quality.values, quality.lengths(), strict=True):
        if value == score:
            if place < length:
                return start + place
            place -= length
    raise AssertionError("pieces add up to the solutions of their score")


def _base_distribution(quality: Quality, plan: RecPlan) -> Distribution[int]:
    scores = [quality.at(solution) for solution in range(quality.top + 1)]
    return dict(enumerate(exponential.probabilities(scores, epsilon=plan.base)))


def _solutions(quality: Quality) -> Counter[int]:
    many: Counter[int] = Counter()
    for value, length in zip(quality.values, quality.lengths(), strict=True):
        many[value] += length
    return many


# --- Steps 2 to 6: how long is the plateau? -----------------------------------------------------------------------


def padded(quality: Quality) -> Quality:
    """Extend Q (step 2) up to T', the next power of 2, with min{0, Q(S,T)} instead of 0: trap 12."""
    top = 1 << (quality.top - 1).bit_length()
    if top == quality.top:
        return quality
    filling = min(0, quality.values[-1])
    return Quality(top, (*quality.starts, quality.top + 1), (*quality.values, filling))


def levels(whole: Quality) -> list[int]:
    """Compute L(S,j) for 0 ≤ j ≤ log(T') + 1, the best minimum over 2^j solutions in a row; the last is min{0, ·}.

    Step 3.

    The longest run in which a piece is least is found when a lower one comes after it (or the end). So each piece goes
    onto a stack once, and comes off once; what it leaves behind is the left end of runs that include it.
    """
    last = whole.top.bit_length() - 1
    best: list[int | None] = [None] * (last + 2)
    stack: list[tuple[int, int]] = []

    def close(end: int, above: int | None) -> int:
        left = end
        while stack and (above is None or stack[-1][0] >= above):
            value, left = stack.pop()
            j = (end - left).bit_length() - 1
            known = best[j]
            if known is None or value > known:
                best[j] = value
        return left

    for start, value in zip(whole.starts, whole.values, strict=True):
        stack.append((value, close(start, value)))
    close(whole.top + 1, None)
    # A run of 2^j has runs of 2^{j−1} in it. Only T' = 1 has one longer than T'.
    least = min(whole.values)
    maxima = accumulate((least if each is None else each for each in reversed(best)), max)
    found = list(maxima)[:0:-1]
    return [*found, min(0, found[-1])]


def inside(whole: Quality, promise: int, plan: RecPlan) -> Quality:
    """Quality of the recursive call on [0, log T'] (step 4), in whole numbers."""
    middle, spare = plan.middle_of(promise), plan.inner_promise(promise)
    scores = [min(here - (middle - spare), middle + spare - after) for here, after in pairwise(levels(whole))]
    return Quality(len(scores) - 1, tuple(range(len(scores))), tuple(scores))


# --- Steps 7 to 10: where is it? ----------------------------------------------------------------------------------


def _shifts(k: int, plan: RecPlan, top: int) -> int:
    """Number of random shifts to draw from: one if a single cell covers the whole range."""
    return plan.spread if 0 < plan.spread << k <= top else 1


class Lead(NamedTuple):
    """Best cell of a partition, by its left end, and its lead: None if there is no other cell."""

    left: int
    gap: int | None


def leads(whole: Quality, k: int, plan: RecPlan, shift: int) -> list[Lead]:
    """Best cell of each partition that has one (trap 13: B may have none): steps 7 and 8, A_dist's 1 and 2."""
    if plan.spread:
        firsts, width = [-shift << k], plan.spread << k
    else:
        firsts, width = [0, WIDTH // 2 << k], WIDTH << k  # A₁ = [0, 8K − 1], B₁ = [4K, 12K − 1]
    return [_lead(whole, first, width) for first in firsts if first <= whole.top]


def _lead(whole: Quality, first: int, width: int) -> Lead:
    """Best cell and its lead: U(S,I) = max over I; f₂'s is the largest Q outside of that cell."""
    begin = max(0, first)
    if whole.top < first + width:
        return Lead(first, None)
    pieces = bisect_right(whole.starts, begin) - 1
    best = max(whole.values[pieces:])
    where = max(begin, whole.starts[whole.values.index(best, pieces)])
    left = where - (where - first) % width
    before = whole.values[pieces : bisect_left(whole.starts, left)] if left > begin else ()
    after = whole.values[bisect_right(whole.starts, left + width) - 1 :] if left + width <= whole.top else ()
    return Lead(left, best - max((*before, *after)))


def hits(cells: Sequence[int | None], k: int, plan: RecPlan, top: int) -> list[int]:
    """Points H to choose among (step 10): from c, not b (trap 11), and from 0 if A_dist found none (trap 13)."""
    lefts = [left for left in cells if left is not None] or [0]
    if plan.spread:
        points = {left + (i << k) for left in lefts for i in range(plan.spread + 1)}
    else:
        points = {left + (i << k) // 2 for left in lefts for i in range(POINTS)}  # K = 1: rounded down
    return sorted({min(top, max(0, point)) for point in points})
