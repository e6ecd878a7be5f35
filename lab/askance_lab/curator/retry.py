"""A* by retrying: A until it does not return ⊥, on the same examples. KLNRS08, §3.2, Thm 3.8.

There are K runs at most. Repaired (trap 6): Pr[bad | past step 1] is 2β' by the text's own lemma, so β' = β/3 and
K = ⌈log₂(1/β')⌉, a whole number of runs. The text has each run spend ε/K. But a run that says ⊥ shows only that, which
changes by 1+p; and an output's chance is Pr[A = h]·(1 + q + … + q^{K−1}), q = Pr[A = ⊥], where the sum changes by less
than 1/(1−p). So A* spends max{K·ln(1+p), ln((1+p)/(1−p)²)} (trap 8), and p may be several times ε/4K.

What is private is the output. How long it takes depends on the data. `insist` retries without a limit, for less.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from askance_lab.curator.concepts import A_PARITY, PARITY
from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import Distribution, Output
from askance_lab.curator.draws import Below
from askance_lab.curator.mechanism import Mechanism, roughly
from askance_lab.curator.parity import attempt, attempt_distribution, grown, rounded_down
from askance_lab.curator.parity import inclusion as inclusion_of_one
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory import parity
from askance_lab.theory.targets import Targets
from askance_protocol import checks

_MOST_RUNS: Final = 1000


def learn(sample: BitSample, *, epsilon: Fraction, runs: int, draw: Below, stated: bool = False) -> int | None:
    """Run A*(z, ε) of KLNRS08: r with bit i = r_i, or None. `theory.parity.parity_retry_sharp` gives the runs."""
    p = inclusion(epsilon, runs, stated=stated)
    # KLNRS08 §3.2, A*, step 2.
    for _ in range(runs):
        h = attempt(sample, p, draw)
        if h is not None:
            return h
    # Step 3.
    return None


def inclusion(epsilon: Fraction, runs: int, *, stated: bool = False) -> Fraction:
    """Largest p that ε allows (trap 8), rounded down; or ε/4K as stated. `insist` uses that of one run."""
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
    """Price: ε, for any number of runs."""
    return checked(epsilon)


def exact_loss(p: Fraction, runs: int) -> float:
    """Largest privacy loss of `learn` at p; `insist` spends that of one run."""
    return parity.parity_retry_loss(inclusion=float(p), runs=runs)


# --- Exact distributions ------------------------------------------------------------------------------------------


def retry_distribution(
    sample: BitSample, *, epsilon: Fraction, runs: int, stated: bool = False
) -> Distribution[int | None]:
    """Exact distribution of `learn`: Pr[h] = Pr[A = h]·(1 + q + … + q^{K−1}), Pr[⊥] = q^K."""
    once = attempt_distribution(sample, inclusion(epsilon, runs, stated=stated))
    return repeated(once, runs)


def repeated(once: Distribution[Output | None], runs: int) -> Distribution[Output | None]:
    """Distribution of at most this many runs of anything that returns None for ⊥."""
    silent = once.get(None, 0.0)
    tries = sum(silent**k for k in range(runs))
    return {h: silent**runs if h is None else tries * chance for h, chance in once.items()}


def _runs(d: int, targets: Targets) -> parity.Retries:
    return parity.parity_retry_sharp(dimension=d, **roughly(targets))


def _retried(sample: BitSample, targets: Targets, draw: Below) -> int | None:
    return learn(sample, epsilon=targets.epsilon, runs=_runs(sample.d, targets).runs, draw=draw)


MECHANISM: Final = Mechanism(
    name="parity-retry",
    summary="PARITY, retried a fixed number of times",
    by="KLNRS08 Thm 3.8",
    concepts=PARITY,
    answers=A_PARITY,
    run=_retried,
    needed=lambda d, targets: _runs(d, targets).examples,
    place=21,
)
