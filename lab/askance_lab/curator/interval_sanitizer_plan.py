"""Plan of the INTERVAL_d sanitizer: budgets, errors, number of calls, number of entries: all public.

The text gives neither the accounting nor the constants (BNS13, Thm 4); both are derived here. Notation: r = ⌊αm/u⌋ with
u = 32 as in the text, C = `calls`, L(j) = the most entries in a window of 2^j, q(j) = min(L(j)−r, 3r−L(j−1)).

Privacy. Replacing x by x' changes only what calls with x or x' in their interval [a,b] see. Each of their mechanisms
has sensitivity 1 on the entries in [a,b]: the count; q, as L does, a maximum of counts; and the choosing mechanism's
scores, of which an entry raises k = 2, on a database of m entries where those outside of [a,b] are null elements. At
most C calls go past their count (a hard cap), and at most 2 of the others see x or x': where their paths end. That is
C × Rec, C × choosing, (C+2) × count, composed as if all of them saw x or x', since the path may be that long. Pieces
are disjoint, so the histogram's counts change by 2 together, whatever the pieces: it costs ε_H in all, not per call.

Accuracy. Where a count's noise is within 2r, a call that goes on has n ≥ 2r entries, and the first j with L(j) ≥ 2r has
q(j) ≥ r. Rec loses r/2: L(z) ≥ 3r/2, L(z−1) ≤ 5r/2. A cell contains that window; the choosing mechanism loses αm/2u:
the cell found has at least 3r/2 − αm/2u ≥ αm/u − 3/2 entries; only (u+1)/α can be found, if αm ≥ 1.5u(u+1). A cell,
four half windows, has at most 10r entries, a leaf 6r: a cut piece hides no more. All else is the histogram's noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple

from askance_lab.curator import rec_plan
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory.mechanisms import geometric_error
from askance_lab.theory.sanitizers import examples_choosing
from askance_protocol import checks

TEXTS_UNIT: Final = 32
"""The text's αm/32. Any u > 10 does: 10/u of α is for a cut piece, what is left for noise."""
GROWTH: Final = 2
"""An entry is in one cell of each of two partitions."""
_REC_ERROR: Final = Fraction(1, 2)
_COUNTING: Final = Fraction(1, 32)
"""A call's noisy count, in units of ε_c: it needs a hundredth of the entries that the choosing mechanism does."""
_LENGTHS: Final = tuple(Fraction(1, 1 << power) for power in range(5))
"""Rec, in units of ε_c: whichever needs the fewest entries."""
_HISTOGRAM: Final = Fraction(1, 16)
"""The histogram, of ε. Its noise adds up over all pieces, and still is the least of it."""


@dataclass(frozen=True, slots=True)
class SanitizerPlan:
    """Parameters of every mechanism for one domain X_d."""

    d: int
    error: Fraction
    failure: Fraction
    unit: int
    calls: int
    """The number of calls that may go past their noisy count."""
    counting: Fraction
    """ε of a call's noisy count."""
    lengths: rec_plan.RecPlan
    choosing: Paid
    histogram: Fraction
    """ε of all pieces' counts together."""
    slack: Fraction
    """δ that advanced composition takes for itself."""

    def step(self, m: int) -> int:
        """Number of entries r = ⌊αm/u⌋."""
        return math.floor(self.error * m / self.unit)

    @property
    def pieces(self) -> int:
        """Largest number of pieces: a cell and two sides at each call that continues."""
        return 2 * self.calls + 1

    @property
    def choosing_error(self) -> Fraction:
        """Error α/2u of the choosing mechanism; the text's is α/64."""
        return self.error / (2 * self.unit)

    @property
    def choosing_failure(self) -> Fraction:
        """Failure β/4C of the choosing mechanism."""
        return self.failure / (4 * self.calls)


class CallPrice(NamedTuple):
    """A mechanism, the largest number of its calls that see x or x', and the price of each."""

    name: str
    times: int
    each: Paid


def charges(plan: SanitizerPlan) -> tuple[CallPrice, ...]:
    """Prices of all calls that replacing one entry can affect, except the histogram, at any call depth."""
    return (
        CallPrice("noisy count of a call", plan.calls + 2, Paid(plan.counting)),
        CallPrice("Rec: length of a window", plan.calls, rec_plan.paid(plan.d, plan.lengths)),
        CallPrice("choosing mechanism: a cell", plan.calls, plan.choosing),
    )


def composed(parts: Sequence[CallPrice], slack: Fraction) -> Paid:
    """Total price: basic composition, or advanced with each mechanism's own ε, whichever is less.

    The latter is √(2ln(1/δ̃)·Σε²) + Σε(e^ε − 1).

    The latter is `privacy.advanced` where all are alike. Its proof bounds a martingale, so what a mechanism is may
    depend on what the earlier ones said, and where it sees neither x nor x' it adds nothing.
    """
    basic = sum((part.each.times(part.times) for part in parts), Paid(Fraction(0)))
    if any(part.each.epsilon >= 1 for part in parts):
        return basic  # e^ε − 1 > 1: the other is more
    each = [(part.times, float(part.each.epsilon)) for part in parts]
    spread = math.sqrt(2 * math.log(1 / slack) * math.fsum(times * one**2 for times, one in each))
    spread += math.fsum(times * one * math.expm1(one) for times, one in each)
    rounded_up = Fraction(spread) * (1 + Fraction(1, 1 << 40))
    return min((basic, Paid(rounded_up, basic.delta + slack)), key=lambda price: price.epsilon)


def paid(plan: SanitizerPlan) -> Paid:
    """Price actually spent: the calls' mechanisms, composed, and one histogram of sensitivity 2 over the pieces."""
    return composed(charges(plan), plan.slack) + Paid(plan.histogram)


def planned(
    d: int,
    *,
    epsilon: Fraction,
    delta: Fraction,
    error: Fraction,
    failure: Fraction,
    unit: int = TEXTS_UNIT,
    base_case: int | None = None,
) -> SanitizerPlan:
    """Plan that keeps to (ε,δ) and, of a few such, needs the fewest entries.

    Without a base case's cut-off Rec is the exponential mechanism over the d + 1 lengths, which no d in sight beats
    (trap 14); the text's is 32.
    """
    checked(epsilon, delta)
    for name, share in (("error", error), ("failure", failure)):
        checks.open_unit(name, float(share))
    cut = max(2, checks.count("d", d)) if base_case is None else base_case
    whole = SanitizerPlan(
        d=d,
        error=error,
        failure=failure,
        unit=checks.count("unit", unit, least=11),
        calls=math.floor((unit + 1) / error),
        counting=epsilon,
        lengths=rec_plan.equal(epsilon, delta, _REC_ERROR, base_case=cut),
        choosing=Paid(epsilon, delta),
        histogram=_HISTOGRAM * epsilon,
        slack=delta / 2,
    )
    return min((_largest(whole, weight) for weight in _LENGTHS), key=examples_needed)


def _largest(whole: SanitizerPlan, weight: Fraction) -> SanitizerPlan:
    """Of the plans in which Rec has this share of the choosing mechanism's ε, the one that spends all: bisection."""
    best, low, step = None, Fraction(0), whole.choosing.epsilon
    while best is None or step > low / (1 << 20):
        step /= 2
        tried = _shared(whole, low + step, weight)
        if paid(tried).epsilon <= whole.choosing.epsilon:
            best, low = tried, low + step
    return best


def _shared(whole: SanitizerPlan, epsilon: Fraction, weight: Fraction) -> SanitizerPlan:
    """Here ε_c = `epsilon`. Half of δ is advanced composition's, a quarter the choosing mechanism's, one Rec's."""
    single = whole.choosing.delta / (4 * whole.calls)
    lengths = rec_plan.tuned(
        whole.d,
        epsilon=weight * epsilon,
        delta=single,
        error=_REC_ERROR,
        failure=whole.choosing_failure,
        base_case=whole.lengths.base_case,
    )
    return replace(whole, counting=_COUNTING * epsilon, lengths=lengths, choosing=Paid(epsilon, single))


def examples_choosing_needs(plan: SanitizerPlan) -> int:
    """Number m of entries below which the choosing mechanism is not private. BNS13, Lemma 4."""
    return examples_choosing(
        growth=GROWTH,
        epsilon=float(plan.choosing.epsilon),
        delta=float(plan.choosing.delta),
        error=float(plan.choosing_error),
        failure=float(plan.choosing_failure),
    )


def examples_needed(plan: SanitizerPlan) -> int:
    """Number m of entries for all thresholds within α, but for β: β/4 each for choosing, Rec, counts, pieces."""
    quarter = float(plan.failure) / 4 / plan.pieces
    off = geometric_error(epsilon=float(plan.counting), failure=quarter)
    noise = plan.pieces * geometric_error(epsilon=float(plan.histogram) / 2, failure=quarter)
    promise = rec_plan.promise_needed(plan.d, plan.lengths, plan.choosing_failure)
    steps = max(promise, math.ceil(off / 2))
    least = (
        plan.unit * steps / plan.error,
        noise / (plan.error * (1 - Fraction(10, plan.unit))),
        Fraction(3, 2) * plan.unit * (plan.unit + 1) / plan.error,
    )
    return max(examples_choosing_needs(plan), *map(math.ceil, least))
