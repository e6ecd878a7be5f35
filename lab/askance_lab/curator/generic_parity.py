"""The generic learner for PARITY: all 2^d parities scored at once, by a Walsh–Hadamard transform.

With y the label as a bit, Σ_i (−1)^{y_i}(−1)^{r·x_i} is what parity r labels right less what it labels wrong; over all
r it is the Walsh transform of the histogram of x, signed by the label. KLNRS11, Thm 3.4 does not promise an efficient
learner, and this one takes d·2^d steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from askance_lab.curator import generic
from askance_lab.curator.concepts import A_PARITY, PARITY
from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.generic import Mistakes, ScoreTable, butterflies, signed_histogram
from askance_lab.curator.mechanism import Mechanism
from askance_protocol import checks

_MOST_BITS: Final = 26
"""2^26 scores of 4 bytes, twice: half a gigabyte."""


@dataclass(frozen=True, slots=True)
class Parities:
    """All 2^d parities: r as a number, bit i = r_i. A class for `generic.learn`."""

    d: int

    def __post_init__(self) -> None:
        affordable(self.d)

    def __len__(self) -> int:
        return 1 << self.d

    def mistakes(self, database: BitSample) -> Mistakes:
        """Count (n − transform)/2 mistakes for each r."""
        table = signed_histogram(database, self.d)
        transform(table)
        np.subtract(np.int32(len(database)), table, out=table)
        table >>= 1
        return table

    def hypothesis(self, index: int) -> int:
        """The parity r, equal to its number."""
        return index


def affordable(bits: int) -> None:
    """Refuse more bits than the memory for 2^bits scores allows."""
    checks.count("d", bits)
    remedy = f"all 2^d are scored: give at most {_MOST_BITS} bits, or use the efficient learner of PARITY"
    checks.require(bits <= _MOST_BITS, "has too many parities to score", where="d", remedy=remedy)


def learn(sample: BitSample, *, epsilon: Fraction, draw: Below) -> int:
    """Learn a parity: r as a number."""
    return generic.learn(Parities(sample.d), sample, epsilon=epsilon, draw=draw)


def parity_distribution(sample: BitSample, *, epsilon: Fraction) -> Distribution[int]:
    """Exact distribution of the learned parity."""
    return generic.generic_distribution(Parities(sample.d), sample, epsilon=epsilon)


def transform(table: ScoreTable) -> None:
    """Apply the Walsh–Hadamard transform of 2^d numbers, in place: entry r becomes Σ_x (−1)^{r·x}·entry x."""
    butterflies(table, _sum_and_difference)


def _sum_and_difference(low: ScoreTable, high: ScoreTable) -> None:
    low += high
    # low + high − 2·high: no second table. Entries stay below 2^21 (`generic` takes fewer than 2^20 examples).
    high *= -2
    high += low


MECHANISM: Final = Mechanism(
    name="generic-parity",
    summary="PARITY, all 2^d parities scored by a Walsh-Hadamard transform",
    by="KLNRS11 Thm 3.4",
    concepts=PARITY,
    answers=A_PARITY,
    run=lambda sample, targets, draw: learn(sample, epsilon=targets.epsilon, draw=draw),
    needed=generic.needed(lambda d: 2**d),
    agnostic=generic.needed_agnostic(lambda d: 2**d),
    place=10,
)
