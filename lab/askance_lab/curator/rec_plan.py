"""Budgets of Rec, the price it pays, and a sufficient promise: all public. BNS13, §3.3.

Theory of operation
-------------------
A level of Rec shares the promise r and the solutions it may still return, (1−α)r, among three mechanisms:

    r ···(gap of A_dist)··· μ+Λ ···(Λ)··· μ ···(Λ)··· μ−Λ ···(loss of step 11)··· (1−α)r

Λ is what the recursive call may lose of its score q. The text puts μ in the middle, and gives each mechanism one ε.
With one level above the base case, A_dist needs c₁/ε₁ = (2/ε₁)ln(1/4β'δ), step 11 needs c₂/ε₂ = (2/ε₂)ln(|H|/β'), and
twice Λ is c₃/ε₃ = (4/ε₃)ln(log T/β'). Σ c_i/ε_i with Σ ε_i = ε is least where ε_i is in proportion to √c_i: `tuned`
does that, and puts μ where the parts meet. Each is its mechanism's ε all the same, and basic composition adds them up.

`failure` bounds what can go wrong with the plan's real mechanisms, noise in whole numbers. No constant is hidden in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from askance_lab.curator import distance
from askance_lab.curator.privacy import Paid, checked
from askance_lab.curator.search import least
from askance_lab.theory.approximate import rec_depth
from askance_protocol import checks

QUARTER: Final = Fraction(1, 4)
HALF: Final = Fraction(1, 2)
WIDTH: Final = 8
"""A cell of the text's, in K."""
POINTS: Final = 16
"""The text's points in a cell, K/2 apart."""
_WIDEST: Final = 1 << 10
_PARTS: Final = 1 << 20
"""ε is shared out in this many parts."""


@dataclass(frozen=True, slots=True)
class RecPlan:
    """All public parameters: what every mechanism may spend, and how Rec looks for the plateau."""

    error: Fraction
    base: Fraction
    """ε of the base case."""
    distance: Paid
    """(ε,δ) of each A_dist."""
    last: Fraction
    """ε of step 11."""
    base_case: int = 32
    """Largest T that step 1 takes."""
    spread: int = 0
    """Width of a cell, in K, with one partition at a random shift; 0 for the text's two partitions."""
    middle: Fraction = HALF
    """λ: μ is (1 − λα)r."""
    inner: Fraction = QUARTER
    """α of the recursive calls (trap 15)."""
    stated: bool = False
    """A_dist as written, rather than tight (trap 18)."""

    def __post_init__(self) -> None:
        checks.count("base_case", self.base_case, least=2)
        for epsilon in (self.base, self.distance.epsilon, self.last):
            checked(epsilon)
        checked(self.distance.epsilon, self.distance.delta)
        for name in ("error", "middle", "inner"):
            checks.open_unit(name, float(getattr(self, name)))
        power = self.spread == 0 or (self.spread >= WIDTH and self.spread & (self.spread - 1) == 0)
        remedy = f"give a power of 2, {WIDTH} at least, or 0"
        checks.require(power, "is no width of a cell", where="spread", remedy=remedy)

    @property
    def partitions(self) -> int:
        """Number of times that a level runs A_dist."""
        return 1 if self.spread else 2

    @property
    def points(self) -> int:
        """Largest |H|: 32, both sets (trap 11), or the multiples of K in a cell and the next."""
        return self.spread + 1 if self.spread else 2 * POINTS

    def middle_of(self, promise: int) -> int:
        """Middle μ of step 4, in whole numbers."""
        return math.ceil((1 - self.middle * self.error) * promise)

    def inner_promise(self, promise: int) -> int:
        """Promise of the recursive call (step 5): R = αr/2, rounded down."""
        return math.floor(self.error * promise / 2)

    def inside(self) -> RecPlan:
        """Plan of the recursive call: a constant in place of α (trap 15)."""
        return replace(self, error=self.inner)


def equal(epsilon: Fraction, delta: Fraction, error: Fraction, *, base_case: int = 32, stated: bool = False) -> RecPlan:
    """The text's plan: every mechanism with the same ε and δ."""
    return RecPlan(error, epsilon, Paid(epsilon, delta), epsilon, base_case, stated=stated)


def paid(top: int, plan: RecPlan) -> Paid:
    """Price by basic composition, trap 14: (3N+1)ε and 2Nδ if all are alike. Less than Lemma 2 has."""
    stable = distance.paid(epsilon=plan.distance.epsilon, delta=plan.distance.delta, stated=plan.stated)
    level = stable.times(plan.partitions) + Paid(plan.last)
    return level.times(rec_depth(top=top, base_case=plan.base_case)) + Paid(plan.base)


def tuned(
    top: int, *, epsilon: Fraction, delta: Fraction, error: Fraction, failure: Fraction, base_case: int | None = None
) -> RecPlan:
    """Our plan: (ε,δ) for the whole call, a share for each mechanism, randomly shifted cells if β allows it.

    Without a base case's cut-off it is one level with log T + 1 base options: more levels never won (trap 14).
    """
    whole = checked(epsilon, delta)
    checks.open_unit("failure", float(failure))
    cut = max(2, (top - 1).bit_length()) if base_case is None else base_case
    wide = 1 << math.ceil(math.log2(8 / failure))
    spread = wide if wide <= _WIDEST else 0
    levels, runs = rec_depth(top=top, base_case=cut), 1 if spread else 2
    if not levels:
        return RecPlan(error, epsilon, whole, epsilon, cut, spread)
    need = _needs(_innermost(top, cut), spread, float(delta) / (runs * levels), float(failure) / 4)
    ahead, last, base = map(math.sqrt, need)
    unit = levels * (runs * ahead + last) + base
    stable, final = _part(epsilon, ahead / unit), _part(epsilon, last / unit)
    rest = epsilon - levels * (runs * stable + final)
    gap, loss, twice = (c / float(e) for c, e in zip(need, (stable, final, rest), strict=True))
    middle = Fraction(round(1000 * (gap + twice / 2) / (gap + loss + twice)), 1000)
    return RecPlan(error, rest, Paid(stable, delta / (runs * levels)), final, cut, spread, middle)


def _needs(options: int, spread: int, delta: float, share: float) -> tuple[float, float, float]:
    """Constants c₁, c₂ and c₃ if each mechanism may fail with β' = `share`."""
    points = spread + 1 if spread else 2 * POINTS
    gap = 2 * math.log(1 / (4 * share * delta)) if 4 * share * delta < 1 / math.e else 2.0
    return gap, 2 * math.log(points / share), 4 * math.log((options + 1) / share)


def _part(epsilon: Fraction, share: float) -> Fraction:
    return epsilon * max(1, math.floor(share * _PARTS)) / _PARTS


def _innermost(top: int, base_case: int) -> int:
    """Range T of the base case."""
    while top > base_case:
        top = (top - 1).bit_length()
    return top


def failure(top: int, promise: int, plan: RecPlan) -> float:
    """Bound on Pr[Q < (1−α)r], for every concave Q on [0, T] that reaches the promise r. May be 1."""
    if top <= plan.base_case:
        return min(1.0, _worse(top, math.floor(plan.error * promise) + 1, plan.base))
    next_top, spare = (top - 1).bit_length(), plan.inner_promise(promise)
    if next_top > plan.base_case:
        lost = math.floor(plan.inner * spare)
        return min(1.0, failure(next_top, spare, plan.inside()) + _level(promise, lost, plan))

    def all_of_it(lost: int) -> float:
        return _worse(next_top, lost + 1, plan.base) + _level(promise, lost, plan)

    # Nothing depends on what the base case may lose: so the best for the bound. Any gives one; the search is simple.
    low, high = 0, max(1, spare)
    while high - low > 2:
        third = (high - low) // 3
        if all_of_it(low + third) <= all_of_it(high - third):
            high -= third
        else:
            low += third
    return min(1.0, *(all_of_it(lost) for lost in range(low, high + 1)))


def _level(promise: int, lost: int, plan: RecPlan) -> float:
    """Failure of steps 7 to 11 after the recursive call has lost `lost`: no plateau in a cell, not found, not chosen.

    One of the text's two partitions has the plateau 2K or more away from the ends of its cells.
    """
    middle, least = plan.middle_of(promise), math.ceil((1 - plan.error) * promise)
    price = plan.distance
    ahead = max(0, promise - middle - lost)
    found = distance.found_chance(ahead, epsilon=price.epsilon, delta=price.delta, stated=plan.stated)
    cut = 2 / plan.spread if plan.spread else 0.0
    return cut + 1 - found + _worse(plan.points - 1, middle - lost - least + 1, plan.last)


def _worse(many: int, loss: int, epsilon: Fraction) -> float:
    """Prop. 1(ii): probability that one of `count` solutions is chosen that scores less by at least the loss."""
    return checks.exp(math.log(many) - float(epsilon) * loss / 2)


def promise_needed(top: int, plan: RecPlan, beta: Fraction) -> int:
    """Least promise at which `failure` is at most β; β must exceed that of a random shift, 2/2^c."""
    checks.open_unit("failure", float(beta))
    above = 2 / plan.spread if plan.spread and rec_depth(top=top, base_case=plan.base_case) else 0
    checks.require(beta > above, "is below what the shift costs", where="failure", remedy="use a wider spread, or 0")
    return least(lambda promise: failure(top, promise, plan) <= beta)
