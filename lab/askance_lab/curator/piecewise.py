"""The generic learner for classes whose scores are piecewise constant, at any d: no table of 2^d.

BNS13, §3.1, §3.2: point functions c_j(x) = 1 iff x = j, and thresholds c_j(x) = 1 iff x < j, 0 ≤ j ≤ 2^d. Their
mistakes change only at the examples. So the class falls into at most 2n + 1 runs of solutions that score alike; one run
may hold 2^1024 of them, which the exponential mechanism takes as so many at once. How many mistakes is drawn exactly,
and then which solution with so many, uniformly.

This is KLNRS11, Thm 3.4 on these classes. Its n grows with ln|H| = d·ln 2: what BNS13 does without, for δ > 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.exponential import choose, probabilities
from askance_lab.curator.generic import public_size
from askance_lab.curator.privacy import Paid, checked
from askance_protocol import checks


class ScoreRun(NamedTuple):
    """Solutions start .. end − 1, all with the same number of mistakes."""

    start: int
    end: int
    mistakes: int

    @property
    def solutions(self) -> int:
        """Number of solutions in the run."""
        return self.end - self.start


Runs: TypeAlias = list[ScoreRun]


def balance(sample: LabelledSample) -> Counter[int]:
    """For each observed point, its number of 1s less that of its 0s."""
    better: Counter[int] = Counter()
    for x, label in zip(sample.points, sample.labels, strict=True):
        better[x] += 1 if label else -1
    return better


def learn(runs_of: Callable[[LabelledSample], Runs], sample: LabelledSample, *, epsilon: Fraction, draw: Below) -> int:
    """Draw solution j with probability in proportion to e^{−ε·mistakes(j)/2}. KLNRS11, Thm 3.4."""
    examples = public_size(sample)
    runs = runs_of(sample)
    # As many levels as there can be mistakes, whatever the examples are: n is public.
    counts = [0] * (examples + 1)
    for run in runs:
        counts[run.mistakes] += run.solutions
    found = choose([-k for k in range(examples + 1)], epsilon=epsilon, draw=draw, multiplicities=counts)
    return _ranked(runs, found, draw(counts[found]))


def _ranked(runs: Runs, wanted: int, rank: int) -> int:
    """The rank-th of the solutions with this number of mistakes."""
    for run in runs:
        if run.mistakes == wanted:
            if rank < run.solutions:
                return run.start + rank
            rank -= run.solutions
    raise AssertionError("a rank is below the count it was drawn from")


def paid(epsilon: Fraction) -> Paid:
    """Price: ε, on any database."""
    return checked(epsilon)


def run_chances(runs: Runs, *, epsilon: Fraction) -> list[float]:
    """Probability of each run, at any d."""
    scores = [-run.mistakes for run in runs]
    return probabilities(scores, epsilon=epsilon, multiplicities=[run.solutions for run in runs])


def solution_distribution(runs: Runs, *, epsilon: Fraction) -> Distribution[int]:
    """Exact distribution of the learned solution: for small d."""
    remedy = "there is a probability for each solution: give d up to 20"
    checks.require(runs[-1].end <= (1 << 20) + 1, "has too many solutions to list", where="d", remedy=remedy)
    return dict(_listed(runs, run_chances(runs, epsilon=epsilon)))


def _listed(runs: Runs, chances: list[float]) -> Iterator[tuple[int, float]]:
    for run, chance in zip(runs, chances, strict=True):
        for j in range(run.start, run.end):
            yield j, chance / run.solutions
