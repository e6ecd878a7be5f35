"""The POINT_d sanitizer: number of entries at each of 2^d points, for any d. BNS13, §4.2, Thm 3.

The extended abstract omits it (docs/theory.md#constructions): ⌊2/α⌋ rounds of the choosing mechanism, each
followed by a noisy count of the point that it found, which is then deleted. Points that are not found are estimated 0.

Accuracy, re-derived: while some point has αm entries, the point found has αm/2 at least (α/2-good, but for β' = αβ/4 a
round). Were one left after ⌊2/α⌋ > 2/α − 1 rounds, they would be more than (2/α − 1)·αm/2 + αm > m together.

Privacy, re-derived. A round's choosing mechanism is (ε',δ')-private, its noisy count ε'-private. The construction has
ε' = ε/√(32 ln(5/δ)/α), by advanced composition of 4/α mechanisms. Less is spent: a point is counted once at most, so an
entry is in one count at most, and replacing it changes all the counts together by 2, whatever the rounds chose. The
counts cost 2ε', the ⌊2/α⌋ choices what basic or advanced composition says, whichever is less. `tight=True` takes the
largest ε' that this allows: α = .1, ε = 1, δ = 1e−6 has 20 rounds, and ε' = ε/22 instead of ε/70.

A deleted entry becomes a null element, which no solution scores: m stays what it was. Were m to shrink with the data,
the choosing mechanism's threshold αm/2 would depend on them, and whether its bound on m is met, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

from askance_lab.curator import choosing, geometric
from askance_lab.curator.concepts import COUNTS, POINT
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.mechanism import Mechanism, exactly
from askance_lab.curator.privacy import Paid, advanced, checked
from askance_lab.curator.sanitizer_error import Multiset, multiset, nearest_point_database, point_deviation
from askance_lab.theory.sanitizers import examples_choosing, point_rounds
from askance_lab.theory.targets import Targets
from askance_protocol import checks

FoundPoints: TypeAlias = tuple[tuple[int, int], ...]
"""Points in the order in which they were found, each with its noisy count."""


class SanitizerRounds(NamedTuple):
    """Number of rounds, and the parameters of each round's mechanisms: α' and β' are the choosing mechanism's."""

    rounds: int
    epsilon: Fraction
    delta: Fraction
    error: Fraction
    failure: Fraction


def rounds_for(
    *, epsilon: Fraction, delta: Fraction, error: Fraction, failure: Fraction, tight: bool = False
) -> SanitizerRounds:
    """Rounds of the construction, from the targets of the whole sanitizer: (ε,δ) and (α,β)."""
    checked(epsilon, delta)
    stated = point_rounds(epsilon=float(epsilon), delta=float(delta), error=float(error), failure=float(failure))
    share = _tight_share(stated.rounds, epsilon, delta / 5) if tight else Fraction(stated.epsilon)
    return SanitizerRounds(stated.rounds, share, error * delta / 5, error / 2, error * failure / 4)


def paid(*, epsilon: Fraction, delta: Fraction, error: Fraction, failure: Fraction, tight: bool = False) -> Paid:
    """Price actually spent of (ε,δ): ⌊2/α⌋ choices, and counts that share one sensitivity of 2."""
    each = rounds_for(epsilon=epsilon, delta=delta, error=error, failure=failure, tight=tight)
    spent, slack = _spent(each.rounds, each.epsilon, delta / 5)
    return Paid(spent, each.rounds * each.delta + slack)


def examples_needed(
    *, epsilon: Fraction, delta: Fraction, error: Fraction, failure: Fraction, tight: bool = False
) -> int:
    """Number m of entries below which `sanitize` refuses: the choosing mechanism's. Counts need less."""
    each = rounds_for(epsilon=epsilon, delta=delta, error=error, failure=failure, tight=tight)
    return examples_choosing(
        growth=1,
        epsilon=float(each.epsilon),
        delta=float(each.delta),
        error=float(each.error),
        failure=float(each.failure),
    )


def _spent(rounds: int, each: Fraction, slack: Fraction) -> tuple[Fraction, Fraction]:
    """Total ε, and the δ that advanced composition adds, or 0 for basic."""
    basic = rounds * each + 2 * each
    if each >= 1:
        return basic, Fraction(0)  # e^{ε'} − 1 > 1: the other is more
    spread, _ = advanced(Paid(each), rounds, slack)
    rounded_up = Fraction(spread) * (1 + Fraction(1, 1 << 40))
    return min((basic, Fraction(0)), (rounded_up + 2 * each, slack))


def _tight_share(rounds: int, epsilon: Fraction, slack: Fraction) -> Fraction:
    """Largest ε' that keeps to ε, up to 2^-40 of it: bisection from a safe value."""
    low, step = epsilon / (rounds + 2), epsilon
    for _ in range(40):
        step /= 2
        if _spent(rounds, low + step, slack)[0] <= epsilon:
            low += step
    return low


@dataclass(frozen=True, slots=True)
class PointEstimates:
    """Estimated counts of at most ⌊2/α⌋ points among m entries of X_d, and 0 elsewhere."""

    d: int
    m: int
    counts: Mapping[int, int]

    def of(self, point: int) -> Fraction:
        """Estimate of Q_c for the concept that holds at this point only."""
        return Fraction(self.counts.get(point, 0), self.m)

    def database(self) -> dict[int, int]:
        """A database of m entries that is 2α-close where the estimates are α-close. BNS13, §2.3."""
        return nearest_point_database(self.d, self.counts, self.m)


def sanitize(
    d: int,
    database: Multiset | Iterable[int],
    *,
    epsilon: Fraction,
    delta: Fraction,
    error: Fraction,
    failure: Fraction,
    draw: Below,
    tight: bool = False,
) -> PointEstimates:
    """Release estimates within α for all points at once, with probability 1 − β. BNS13, Thm 3.

    The database may be counted already.
    """
    each = rounds_for(epsilon=epsilon, delta=delta, error=error, failure=failure, tight=tight)
    left = multiset(d, database)
    m = left.total()
    found: dict[int, int] = {}
    for _ in range(each.rounds):
        point = _choose(left, m, each, draw)
        if point is None:
            break  # ⊥: no point is left that counts. That is in the output anyway
        # a noisy count, clamped to where it lies anyway; then the point's entries become null elements: m stays
        found[point] = geometric.release(left.pop(point), epsilon=each.epsilon, draw=draw, within=(0, m))
    return PointEstimates(d, m, found)


def _choose(left: Multiset, m: int, each: SanitizerRounds, draw: Below) -> int | None:
    """Choose a point of positive score, or ⊥; an entry raises the score of one point, so k = 1."""
    return choosing.choose(
        left, m, growth=1, epsilon=each.epsilon, delta=each.delta, error=each.error, failure=each.failure, draw=draw
    )


def sanitize_distribution(
    counts: Multiset, m: int, *, rounds: int, epsilon: Fraction, error: Fraction
) -> Distribution[FoundPoints]:
    """Exact distribution of the points found, in order, as ((point, count), …). For few points and entries.

    `counts` are of the entries that are no null elements. It refuses no m: that is `sanitize`'s part.
    """
    checks.require(sum(counts.values()) <= m, "has more than m entries", where="database", remedy="count them again")
    return _found(counts, m, rounds, epsilon, error)


def _found(counts: Multiset, m: int, rounds: int, epsilon: Fraction, error: Fraction) -> dict[FoundPoints, float]:
    if rounds == 0:
        return {(): 1.0}
    chosen = choosing.choosing_distribution(counts, m, epsilon=epsilon, error=error)
    total: dict[FoundPoints, float] = {(): chosen[None]}
    for point, count in counts.items():
        if not chosen.get(point):
            continue
        rest = {other: each for other, each in counts.items() if other != point}
        later = _found(rest, m, rounds - 1, epsilon, error)
        for noisy, chance in geometric.clamped_distribution(count, epsilon=epsilon, within=(0, m)).items():
            for tail, there in later.items():
                total[((point, noisy), *tail)] = chosen[point] * chance * there
    return total


def _point_counts(sample: LabelledSample, targets: Targets, draw: Below) -> Mapping[int, int]:
    return sanitize(sample.d, sample.points, draw=draw, tight=True, **exactly(targets)).counts


MECHANISM: Final = Mechanism(
    name="point-sanitizer",
    summary="how often each point occurs",
    by="BNS13 Thm 3",
    concepts=POINT,
    answers=COUNTS,
    run=_point_counts,
    needed=lambda _, targets: examples_needed(tight=True, **exactly(targets)),
    paid=lambda targets, _: paid(tight=True, **exactly(targets)),
    off=lambda found, sample: point_deviation(Counter(sample.points), found) / len(sample),
    place=40,
)
