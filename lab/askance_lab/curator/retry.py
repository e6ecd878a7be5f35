"""A* by retrying: A until it does not say ⊥, on the same examples. KLNRS08, §3.2, Thm 3.8.

Two versions, both with exact distributions:

`learn` is the text's: K runs at most. Repaired (trap 6): Pr[bad | past step 1] is 2β' by the text's own lemma, so
β' = β/3 and K = ⌈log₂(1/β')⌉, a whole number of runs. The text has each run spend ε/K. But a run that says ⊥ shows only
that, which changes by 1+p; and an output's chance is Pr[A = h]·(1 + q + … + q^{K−1}), q = Pr[A = ⊥], where the sum
changes by less than 1/(1−p). So A* spends max{K·ln(1+p), ln((1+p)/(1−p)²)} (trap 8), and p may be several times ε/4K.

`insist` is ours: do not count the runs. Before each try it falls silent with probability s, the rest of step 1, and
tries again as long as what it kept is contradictory. Let a be Pr[what is kept has a solution] and a_h Pr[A's h]. Then

    Pr[h] = (1−s)·a_h / (s + (1−s)·a),     Pr[⊥] = s / (s + (1−s)·a),

and a changes by 1/(1−p) at most, a_h by (1+p)/(1−p). So it spends ln((1+p)/(1−p)²) whatever s is: failing with
probability 1/1000 costs no more ε than failing with ½, and the examples needed lose their factor log(1/β). It is the
limit of many short runs: there, K·ln(1+p) was what all the runs that stop at step 1's coin might have shown.

What is private is the output. How long it takes depends on the data, here as in the text's A*: up to 1/s tries are
expected on contradictory examples, and one on those that some parity labels.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, NamedTuple

from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below, bernoulli
from askance_lab.curator.parity import attempt, attempt_distribution, grown, rounded_down
from askance_lab.curator.parity import inclusion as inclusion_of_one
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory import parity
from askance_protocol import checks

SILENCE: Final = Fraction(1, 64)
"""How often `insist` says ⊥ to examples that some parity labels: it costs no ε, only time on those that none does."""
_NEVER: Final = Fraction(0)
_MOST_RUNS: Final = 1000


class Insistence(NamedTuple):
    """How `insist` is to be run: with which s, on how many examples."""

    silence: Fraction
    examples: int


def learn(sample: BitSample, *, epsilon: Fraction, runs: int, draw: Below, stated: bool = False) -> int | None:
    """A*(z, ε) of KLNRS08: r with bit i = r_i, or None. `bounds.parity.parity_retry_sharp` says how many runs."""
    p = inclusion(epsilon, runs, stated=stated)
    # KLNRS08 §3.2, A*, step 2.
    for _ in range(runs):
        h = attempt(sample, p, draw)
        if h is not None:
            return h
    # Step 3.
    return None


def insist(sample: BitSample, *, epsilon: Fraction, draw: Below, silence: Fraction = SILENCE) -> int | None:
    """The same without a limit on the runs, falling silent before each with probability s = `silence`."""
    p = inclusion(epsilon, 1)
    checks.open_unit("silence", float(silence))
    while not bernoulli(silence, draw):
        h = attempt(sample, p, draw, silence=_NEVER)
        if h is not None:
            return h
    return None


def inclusion(epsilon: Fraction, runs: int, *, stated: bool = False) -> Fraction:
    """The largest p that ε allows (trap 8), rounded down; or ε/4K as stated. That of one run is also `insist`'s."""
    checks.between("runs", checks.count("runs", runs), 1, _MOST_RUNS)
    if stated:
        # A*, step 1: ε' = ε/log(1/β'), and A(z, ε') keeps with ε'/4.
        return inclusion_of_one(checked(epsilon).epsilon / runs, stated=True)
    estimate = parity.parity_retry_inclusion(epsilon=float(checked(epsilon).epsilon), runs=runs)
    limit = grown(epsilon)
    return rounded_down(
        estimate,
        lambda p: p < 1 and 1 + p <= limit * (1 - p) ** 2 and (1 + p) ** runs <= limit,
    )


def paid(epsilon: Fraction) -> Paid:
    """ε, of either, at any number of runs and any silence."""
    return checked(epsilon)


def exact_loss(p: Fraction, runs: int) -> float:
    """What `learn` spends at most at p; what `insist` does is that of one run."""
    return parity.parity_retry_loss(inclusion=float(p), runs=runs)


def examples_insist(*, dimension: int, epsilon: float, error: float, failure: float) -> Insistence:
    """How many examples `insist` needs: s + 2^d(1−pα)^n ≤ β, with s = β/16 at most.

    Pr[bad output | not silent] ≤ 2^d(1−pα)^n as for A (`bounds.parity`): consistent examples take one try.
    """
    silence = min(SILENCE, Fraction(1, math.ceil(16 / checks.open_unit("failure", failure))))
    examples = parity.examples_parity_sharp(
        dimension=dimension,
        inclusion=parity.parity_retry_inclusion(epsilon=epsilon, runs=1),
        error=error,
        failure=failure - float(silence),
    )
    return Insistence(silence, examples)


# --- Exact distributions ------------------------------------------------------------------------------------------


def retry_distribution(sample: BitSample, *, epsilon: Fraction, runs: int, stated: bool = False) -> Distribution:
    """Of `learn`: Pr[h] = Pr[A = h]·(1 + q + … + q^{K−1}), Pr[⊥] = q^K."""
    once = attempt_distribution(sample, inclusion(epsilon, runs, stated=stated))
    return repeated(once, runs)


def repeated(once: Distribution, runs: int) -> Distribution:
    """What comes out of so many runs at most of anything that says None for ⊥."""
    silent = once.get(None, 0.0)
    tries = sum(silent**k for k in range(runs))
    return {h: silent**runs if h is None else tries * chance for h, chance in once.items()}


def insist_distribution(sample: BitSample, *, epsilon: Fraction, silence: Fraction = SILENCE) -> Distribution:
    """Of `insist`; see the module."""
    p = inclusion(epsilon, 1)
    once = attempt_distribution(sample, p, silence=_NEVER)
    s = checks.open_unit("silence", float(silence))
    stops = s + (1 - s) * (1 - once[None])
    spoken = {h: (1 - s) * chance / stops for h, chance in once.items() if h is not None}
    return {**spoken, None: s / stops}
