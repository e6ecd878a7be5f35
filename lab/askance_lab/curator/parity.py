"""The private PARITY learner A. KLNRS11, §4, Lemmas 4.1–4.3; KLNRS08, §3.2, Lemmas 3.1–3.2.

With probability ½ it says ⊥; else it keeps each example with probability p and says a uniform r that agrees with all it
kept, ⊥ where there is none. Repaired and derived (trap 8):

*Privacy.* Let x = Pr[A = h | example i not kept]. Keeping i either excludes h or at most doubles its probability, so
Pr[A = h] lies between (1−p)x and (1+p)x. Pr[⊥] lies between u and u + p(1−u), u ≥ ½: a factor of 1+p at most. So the
loss is exactly ln((1+p)/(1−p)), whatever ε is; ε ≤ ½ is an artefact. The texts' p = ε/4 keeps to ε up to 3.830, and
beyond it is refused. p = tanh(ε/2) is the most that ε allows: here it is rounded down to a fraction, and that fraction
is checked against e^ε in exact arithmetic, so what is claimed holds to the last digit.

*Utility* needs enough examples (`bounds.parity.examples_parity_sharp`), privacy does not: any number of them may be
given, and too few mean that a wrong r is among the solutions.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from typing import Final

import numpy as np

from askance_lab.curator.affine import solve_sample
from askance_lab.curator.concepts import A_PARITY, PARITY
from askance_lab.curator.databases import BitSample, unpacked
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below, bernoulli
from askance_lab.curator.mechanism import Mechanism, roughly
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory import parity
from askance_lab.theory.targets import Targets
from askance_protocol import checks
from askance_protocol.arrays import Truths

HALF: Final = Fraction(1, 2)
LARGEST_ENUMERATED: Final = 10
"""Exact distributions go up to this d: there are 2^d hypotheses, and sets of them."""
_LANE: Final = 32
_COINS: Final = 128


def learn(sample: BitSample, *, epsilon: Fraction, draw: Below, stated: bool = False) -> int | None:
    """Run A(z, ε): r as an int with bit i = r_i, or None for ⊥. With the texts' p = ε/4 where `stated`."""
    return attempt(sample, inclusion(epsilon, stated=stated), draw)


def attempt(sample: BitSample, p: Fraction, draw: Below, *, silence: Fraction = HALF) -> int | None:
    """Run A with p given: it spends ln((1+p)/(1−p)) where `silence` is ½, as the texts have it."""
    # KLNRS11 §4, A, step 1. It has to come first, and on every database: without it, ⊥ may be impossible on one and
    # possible on its neighbour.
    if bernoulli(silence, draw):
        return None
    # Step 2.
    kept = coins(len(sample), p, draw)
    # Step 3.
    solutions = solve_sample(sample, kept)
    # Step 4.
    return None if solutions is None else solutions.sample(draw)


def inclusion(epsilon: Fraction, *, stated: bool = False) -> Fraction:
    """Probability p of step 2: tanh(ε/2), rounded down; or ε/4 as stated, refused if not ε-private (trap 8)."""
    given = float(checked(epsilon).epsilon)
    if stated:
        parity.parity_inclusion_stated(epsilon=given)  # refuses in words
        remedy = "use p = tanh(ε/2)"
        checks.require(
            _private(epsilon / 4, epsilon), "is beyond where p = ε/4 is ε-private", where="epsilon", remedy=remedy
        )
        return epsilon / 4
    return rounded_down(parity.parity_inclusion_exact(epsilon=given), lambda p: _private(p, epsilon))


def paid(epsilon: Fraction) -> Paid:
    """Price: ε. At p = tanh(ε/2) all is spent, up to rounding; at p = ε/4 less (`exact_loss`)."""
    return checked(epsilon)


def exact_loss(p: Fraction) -> float:
    """Exact ε that A spends at p: ln((1+p)/(1−p)). KLNRS11, Lemma 4.2 bounds it by ε (trap 8)."""
    return parity.parity_loss(inclusion=float(p))


def rounded_down(estimate: float, allowed: Callable[[Fraction], bool]) -> Fraction:
    """Largest fraction near and below `estimate` that is provably allowed; allowed is all below some number."""
    candidates = (Fraction(estimate) * (1 - Fraction(1 << step, 1 << 44)) for step in range(44))
    return next(p for p in candidates if allowed(p))


def grown(epsilon: Fraction) -> Fraction:
    """Lower bound on e^ε, right to 40 digits, or to all that matter if ε is tiny."""
    # Beyond e^64 nothing changes any more: p is 1, as near as makes no difference.
    capped = min(epsilon, Fraction(64))
    series = 1 + capped + capped**2 / 2
    context = Context(prec=50, Emin=-(10**9), Emax=10**9)
    power = context.exp(context.divide(Decimal(capped.numerator), Decimal(capped.denominator)))
    return max(series, Fraction(power) * (1 - Fraction(1, 10**40)))


def _private(p: Fraction, epsilon: Fraction) -> bool:
    """Whether (1+p)/(1−p) ≤ e^ε."""
    return p < 1 and 1 + p <= grown(epsilon) * (1 - p)


def coins(count: int, chance: Fraction, draw: Below) -> Truths:
    """Many coins with exactly this probability: 32 bits each, and an exact coin on a tie with the first 32."""
    whole, rest = divmod(chance * (1 << _LANE), 1)
    lanes = np.concatenate([_lanes(draw) for _ in range(-(-count // _COINS))])[:count]
    shown = lanes < whole
    for tie in np.flatnonzero(lanes == whole):
        shown[tie] = bernoulli(rest, draw)
    return shown


def _lanes(draw: Below) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    return np.frombuffer(draw(1 << _LANE * _COINS).to_bytes(_LANE * _COINS // 8, "little"), "<u4")


# --- The exact distribution ---------------------------------------------------------------------------------------


def parity_distribution(
    sample: BitSample, *, epsilon: Fraction, stated: bool = False, silence: Fraction = HALF
) -> Distribution[int | None]:
    """Exact probability of each r, and of None for ⊥, over all subsets of kept examples.

    Repetitions of an example are as good as one that is kept with probability 1 − (1−p)^m, and sets with the same
    solutions are one: so this takes as many steps as there are affine subspaces, however many examples there are.
    """
    return attempt_distribution(sample, inclusion(epsilon, stated=stated), silence=silence)


def attempt_distribution(sample: BitSample, p: Fraction, *, silence: Fraction = HALF) -> Distribution[int | None]:
    """Exact distribution with p given."""
    checks.between("d", sample.d, 1, LARGEST_ENUMERATED)
    total: dict[int | None, float] = defaultdict(float, {None: float(silence)})
    for space, chance in _spaces(sample, p).items():
        members: list[int | None] = [*_members(space)] or [None]
        for r in members:
            total[r] += float(1 - silence) * chance / len(members)
    return dict(total)


def _spaces(sample: BitSample, p: Fraction) -> dict[int, float]:
    """Probability of each V_S. A set of hypotheses is an int with bit r set for each r in it."""
    chances: dict[int, float] = {(1 << (1 << sample.d)) - 1: 1.0}
    for (x, y), many in Counter(_entries(sample)).items():
        agreeing = sum(1 << r for r in range(1 << sample.d) if (r & x).bit_count() % 2 == y)
        left_out = math.exp(many * math.log1p(-float(p)))
        following: dict[int, float] = defaultdict(float)
        for space, chance in chances.items():
            following[space] += left_out * chance
            following[space & agreeing] += (1 - left_out) * chance
        chances = following
    return chances


def _members(space: int) -> list[int]:
    return [r for r in range(space.bit_length()) if space >> r & 1]


def _entries(sample: BitSample) -> list[tuple[int, int]]:
    bits = unpacked(sample.words, sample.d) @ (1 << np.arange(sample.d))
    return list(zip(bits.tolist(), sample.labels.astype(int).tolist(), strict=True))


def _needed(d: int, targets: Targets) -> int:
    about = roughly(targets)
    p = parity.parity_inclusion_exact(epsilon=about["epsilon"])
    return parity.examples_parity_sharp(dimension=d, inclusion=p, error=about["error"], failure=about["failure"])


MECHANISM: Final = Mechanism(
    name="parity",
    summary="PARITY in polynomial time; ⊥ every other time",
    by="KLNRS11 Lemma 4.1",
    concepts=PARITY,
    answers=A_PARITY,
    run=lambda sample, targets, draw: learn(sample, epsilon=targets.epsilon, draw=draw),
    needed=_needed,
    place=20,
)
