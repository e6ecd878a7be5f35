"""A_dist: the best solution, if it leads by a wide margin. BNS13, §2.4, Prop. 2; (ε,δ)-private.

gap = q(f₁) − q(f₂) gets noise, and f₁ is output where that reaches a threshold t. Scores are whole numbers, so the gap
is one, and the noise is the discrete Laplace distribution: x = e^{−rate}, Pr[noise ≥ k] = x^k/(1+x) for k ≥ 0.

Privacy, derived. Write p(g) for the chance that f₁ is output at gap g. Between neighbours a score changes by at most 1.

* Same best solution on both: the gaps differ by at most 2, so p and 1 − p change by at most e^{2·rate}.
* Different best solutions f and g: q(S,f) − q(S,g) and q(S',g) − q(S',f) add up to at most 2, hence so do the gaps, and
  f comes out on S with at most p(2), on S' never. (2, 0) does occur: nothing smaller than δ = p(2) will do.
* gap = 0 gives ⊥ (step 4). Against gap' ≤ 2 it is p(2) again, and ⊥ itself: 1 − e^ε(1 − p(2)) ≤ p(2).

So A_dist is exactly (2·rate, p(2))-private. The tight form here takes rate = ε/2 and the smallest t with p(2) =
Pr[noise ≥ t − 2] ≤ δ. The text's Lap(4/ε) and t = (4/ε)ln(1/δ) + 2 spend only ε/2, and of δ, in whole numbers, no more
than δ/(1 + e^{−ε/4}): trap 18. `stated=True` gives that. The gap of Prop. 2(ii) is too small above ε = 2.77;
`gap_needed` says which gap suffices.

No float takes part: x is transcendental and δ rational, so x^k = δ(1+x) never holds, and enough digits always decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final, Generic, NamedTuple, TypeVar

from askance_lab.curator.draws import Below, discrete_laplace
from askance_lab.curator.geometric import at_least
from askance_lab.curator.privacy import Paid, checked
from askance_protocol import checks

Solution = TypeVar("Solution")

_FIRST_DIGITS: Final = 40


class Ahead(NamedTuple, Generic[Solution]):
    """The best solution and its lead: None if it has no rival."""

    best: Solution | None
    gap: int | None


def ahead(scores: Mapping[Solution, int], *, others: bool) -> Ahead[Solution]:
    """The best solution and its lead: steps 1 and 2, without noise. `others`: unlisted solutions exist, scoring 0.

    f₂ may be one of those (trap 13), so the lead is over 0 at least, and where nothing scores above 0 there is none.
    A mapping without others lists all solutions, and is public but for its values: with one solution only, there is
    nothing to find out, and that is output whatever the data.
    """
    checks.require(bool(scores) or others, "are none", where="solutions", remedy="give at least one solution")
    if not scores:
        return Ahead(None, 0)
    best = max(scores, key=scores.__getitem__)
    rivals = [score for solution, score in scores.items() if solution != best]
    if others:
        rivals.append(0)
    return Ahead(best, max(0, scores[best] - max(rivals)) if rivals else None)


def choose(gap: int | None, *, epsilon: Fraction, delta: Fraction, draw: Below, stated: bool = False) -> bool:
    """Decide whether to output f₁, by steps 2 to 4; False means ⊥."""
    least = threshold(epsilon, delta, stated=stated)
    if gap is None:
        return True  # no rival: F has one solution
    # step 2: gap* = gap + noise. It is drawn whatever the gap, so that the time tells nothing of it
    noisy = gap + discrete_laplace(1 / _rate(epsilon, stated=stated), draw)
    # steps 3 and 4
    return noisy >= least and gap > 0


def found_chance(gap: int | None, *, epsilon: Fraction, delta: Fraction, stated: bool = False) -> float:
    """Exact probability that f₁ is output."""
    least = threshold(epsilon, delta, stated=stated)
    if gap is None:
        return 1.0
    return at_least(least - gap, rate=_rate(epsilon, stated=stated)) if gap > 0 else 0.0


@lru_cache(maxsize=1 << 12)
def threshold(epsilon: Fraction, delta: Fraction, *, stated: bool = False) -> int:
    """Smallest gap* at which f₁ is output: ⌈(4/ε)ln(1/δ) + 2⌉ as stated; tight, 2 + k where Pr[noise ≥ k] ≤ δ."""
    checked(epsilon, delta)
    return 2 + _least(_rate(epsilon, stated=stated), delta, symmetric=not stated)


@lru_cache(maxsize=1 << 12)
def gap_needed(*, epsilon: Fraction, delta: Fraction, failure: Fraction, stated: bool = False) -> int:
    """Smallest gap at which f₁ is output with probability 1 − β: t − 1 + j, Pr[noise ≥ j] ≤ β. Cf. Prop. 2(ii)."""
    checks.open_unit("failure", float(failure))
    margin = _least(_rate(epsilon, stated=stated), failure, symmetric=True)
    return threshold(epsilon, delta, stated=stated) - 1 + margin


def paid(*, epsilon: Fraction, delta: Fraction, stated: bool = False) -> Paid:
    """Price (ε,δ); as stated (ε/2, δ/(1 + e^{−ε/4})), where e^{−ε/4} ≥ 1 − ε/4 (trap 18: δ/2 for continuous noise)."""
    whole = checked(epsilon, delta)
    if not stated:
        return whole
    return Paid(epsilon / 2, delta / (1 + max(Fraction(0), 1 - epsilon / 4)))


def _rate(epsilon: Fraction, *, stated: bool) -> Fraction:
    """1 over the noise's scale: 2/ε; as stated 4/ε."""
    return checked(epsilon).epsilon / (4 if stated else 2)


def _least(rate: Fraction, chance: Fraction, *, symmetric: bool) -> int:
    """Smallest k ≥ 0 with x^k ≤ chance·(1+x), which is Pr[noise ≥ k] ≤ chance; not symmetric: with x^k ≤ chance."""
    bound = chance * (1 + _decay(rate, _FIRST_DIGITS)[0]) if symmetric else chance
    k = max(0, int(-_log(bound) / rate))  # at most one off, but for rounding; exact comparisons settle it
    while not _reached(k, rate, chance, symmetric=symmetric):
        k += 1
    while k > 0 and _reached(k - 1, rate, chance, symmetric=symmetric):
        k -= 1
    return k


def _reached(k: int, rate: Fraction, chance: Fraction, *, symmetric: bool) -> bool:
    """Whether x^k ≤ chance·(1+x), or ≤ chance: computed with more and more digits until it is decided."""
    digits = _FIRST_DIGITS
    while True:
        (low, high), (lowest, highest) = _decay(k * rate, digits), _decay(rate, digits)
        if not symmetric:
            lowest = highest = Fraction(0)
        if high <= chance * (1 + lowest):
            return True
        if low > chance * (1 + highest):
            return False
        digits *= 2


def _decay(exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Bounds on e^{−exponent}. Decimal's exp is correctly rounded, and so is the exponent."""
    context = Context(prec=digits, Emin=-(10**15), Emax=10**15)
    quotient = context.divide(Decimal(-exponent.numerator), Decimal(exponent.denominator))
    value = Fraction(context.exp(quotient))
    slack = 2 * value * (exponent + 1) / 10 ** (digits - 2)
    return value - slack, value + slack


def _log(chance: Fraction) -> Fraction:
    """Approximate ln(chance), at any size."""
    context = Context(prec=_FIRST_DIGITS, Emin=-(10**15), Emax=10**15)
    return Fraction(context.ln(context.divide(Decimal(chance.numerator), Decimal(chance.denominator))))
