"""A* with unlimited retries: KLNRS08, Thm 3.8, sharpened.

Do not count the runs. Before each try the learner falls silent with probability s, the rest of step 1, and tries again
as long as what it kept is contradictory. Let a be Pr[what is kept has a solution] and a_h Pr[A's h]. Then

    Pr[h] = (1−s)·a_h / (s + (1−s)·a),     Pr[⊥] = s / (s + (1−s)·a),

and a changes by 1/(1−p) at most, a_h by (1+p)/(1−p). So it spends ln((1+p)/(1−p)²) whatever s is: failing with
probability 1/1000 costs no more ε than failing with ½, and the examples needed lose their factor log(1/β). It is the
limit of many short runs (`retry`): there, K·ln(1+p) was what all the runs that stop at step 1's coin might have shown.

What is private is the output. How long it takes depends on the data, here as in the text's A*: up to 1/s tries are
expected on contradictory examples, and one on those that some parity labels.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, NamedTuple

from askance_lab.curator.concepts import A_PARITY, PARITY
from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below, bernoulli
from askance_lab.curator.mechanism import Mechanism, roughly
from askance_lab.curator.parity import attempt, attempt_distribution
from askance_lab.curator.retry import inclusion
from askance_lab.theory import parity
from askance_protocol import checks

SILENCE: Final = Fraction(1, 64)
"""How often it says ⊥ to examples that some parity labels: it costs no ε, only time on those that none does."""
_NEVER: Final = Fraction(0)


class Insistence(NamedTuple):
    """Probability s of falling silent, and the number of examples."""

    silence: Fraction
    examples: int


def learn(sample: BitSample, *, epsilon: Fraction, draw: Below, silence: Fraction = SILENCE) -> int | None:
    """Run A until it does not return ⊥, giving up before each try with probability s = `silence`."""
    p = inclusion(epsilon, 1)
    checks.open_unit("silence", float(silence))
    while not bernoulli(silence, draw):
        h = attempt(sample, p, draw, silence=_NEVER)
        if h is not None:
            return h
    return None


def examples_needed(*, dimension: int, epsilon: float, error: float, failure: float) -> Insistence:
    """Sufficient number of examples: s + 2^d(1−pα)^n ≤ β, with s = β/16 at most.

    Pr[bad output | not silent] ≤ 2^d(1−pα)^n as for A (`theory.parity`): consistent examples take one try.
    """
    silence = min(SILENCE, Fraction(1, math.ceil(16 / checks.open_unit("failure", failure))))
    examples = parity.examples_parity_sharp(
        dimension=dimension,
        inclusion=parity.parity_retry_inclusion(epsilon=epsilon, runs=1),
        error=error,
        failure=failure - float(silence),
    )
    return Insistence(silence, examples)


def insist_distribution(
    sample: BitSample, *, epsilon: Fraction, silence: Fraction = SILENCE
) -> Distribution[int | None]:
    """Exact distribution of the learned parity; see the module."""
    p = inclusion(epsilon, 1)
    once = attempt_distribution(sample, p, silence=_NEVER)
    s = checks.open_unit("silence", float(silence))
    stops = s + (1 - s) * (1 - once[None])
    spoken: dict[int | None, float] = {h: (1 - s) * chance / stops for h, chance in once.items() if h is not None}
    return {**spoken, None: s / stops}


MECHANISM: Final = Mechanism(
    name="parity-insist",
    summary="PARITY, retried until it speaks",
    by="KLNRS08 Thm 3.8, sharpened",
    concepts=PARITY,
    answers=A_PARITY,
    run=lambda sample, targets, draw: learn(sample, epsilon=targets.epsilon, draw=draw),
    needed=lambda d, targets: examples_needed(dimension=d, **roughly(targets)).examples,
    place=22,
)
