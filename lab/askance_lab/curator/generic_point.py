"""The generic learner for POINT_d, c_j(x) = 1 where x = j, at any d. KLNRS11, Thm 3.4 on BNS13, §3.1."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from askance_lab.curator import generic
from askance_lab.curator.concepts import A_POINT, POINT
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.mechanism import Mechanism
from askance_lab.curator.piecewise import Runs, ScoreRun, balance, solution_distribution
from askance_lab.curator.piecewise import learn as learn_piecewise


def point_runs(sample: LabelledSample) -> Runs:
    """Runs of points: each observed point, and the gaps between.

    c_j errs on all 1s, but for x = j, and there on the 0s.
    """
    ones = sum(sample.labels)
    better = balance(sample)
    runs: Runs = []
    last = 0
    for x in sorted(better):
        if last < x:
            runs.append(ScoreRun(last, x, ones))
        runs.append(ScoreRun(x, x + 1, ones - better[x]))
        last = x + 1
    if last < 1 << sample.d:
        runs.append(ScoreRun(last, 1 << sample.d, ones))
    return runs


def learn(sample: LabelledSample, *, epsilon: Fraction, draw: Below) -> int:
    """Learn a point: the j of c_j."""
    return learn_piecewise(point_runs, sample, epsilon=epsilon, draw=draw)


def point_distribution(sample: LabelledSample, *, epsilon: Fraction) -> Distribution[int]:
    """Exact distribution of the learned point: for small d."""
    return solution_distribution(point_runs(sample), epsilon=epsilon)


MECHANISM: Final = Mechanism(
    name="generic-point",
    summary="POINT, at any d",
    by="KLNRS11 Thm 3.4",
    concepts=POINT,
    answers=A_POINT,
    run=lambda sample, targets, draw: learn(sample, epsilon=targets.epsilon, draw=draw),
    needed=generic.needed(lambda d: 2**d),
    agnostic=generic.needed_agnostic(lambda d: 2**d),
    place=13,
)
