"""The generic learner for INTERVAL_d, c_j(x) = 1 where x < j, at any d. KLNRS11, Thm 3.4 on BNS13, §3.2."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Final

from askance_lab.curator import generic
from askance_lab.curator.concepts import A_THRESHOLD, INTERVAL
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.mechanism import Mechanism
from askance_lab.curator.piecewise import Runs, ScoreRun, balance, solution_distribution
from askance_lab.curator.piecewise import learn as learn_piecewise


def interval_runs(sample: LabelledSample) -> Runs:
    """Runs of thresholds, from one observed point to the next. c_j errs on the 0s below j, and on the 1s from j on."""
    better = balance(sample)
    xs = sorted(better)
    # j = 0 errs on all 1s. At j = x + 1 the label of x turns to 1.
    wrong = accumulate((-better[x] for x in xs), initial=sum(sample.labels))
    borders = [0, *(x + 1 for x in xs), (1 << sample.d) + 1]
    return [ScoreRun(start, end, mistakes) for (start, end), mistakes in zip(pairwise(borders), wrong, strict=True)]


def learn(sample: LabelledSample, *, epsilon: Fraction, draw: Below) -> int:
    """Learn a threshold: the j of c_j, 0 to 2^d."""
    return learn_piecewise(interval_runs, sample, epsilon=epsilon, draw=draw)


def interval_distribution(sample: LabelledSample, *, epsilon: Fraction) -> Distribution[int]:
    """Exact distribution of the learned threshold: for small d."""
    return solution_distribution(interval_runs(sample), epsilon=epsilon)


MECHANISM: Final = Mechanism(
    name="generic-interval",
    summary="INTERVAL, at any d",
    by="KLNRS11 Thm 3.4",
    concepts=INTERVAL,
    answers=A_THRESHOLD,
    run=lambda sample, targets, draw: learn(sample, epsilon=targets.epsilon, draw=draw),
    needed=generic.needed(lambda d: 2**d + 1),
    agnostic=generic.needed_agnostic(lambda d: 2**d + 1),
    place=14,
)
