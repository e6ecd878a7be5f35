"""The generic learner for monotone conjunctions: all 2^d scored at once, by a superset sum. KLNRS11, Thm 3.4."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from askance_lab.curator import generic
from askance_lab.curator.concepts import A_CONJUNCTION, CONJUNCTION
from askance_lab.curator.databases import BitSample
from askance_lab.curator.draws import Below
from askance_lab.curator.generic import Mistakes, ScoreTable, butterflies, signed_histogram
from askance_lab.curator.mechanism import Mechanism
from askance_protocol import checks


@dataclass(frozen=True, slots=True)
class Conjunctions:
    """All 2^d monotone conjunctions: the variables that must be 1. Label 1 where all of them are."""

    d: int

    def __post_init__(self) -> None:
        small = checks.count("d", self.d) <= 26
        checks.require(small, "is too large", where="d", remedy="all 2^d are scored: give d up to 26")

    def __len__(self) -> int:
        return 1 << self.d

    def mistakes(self, database: BitSample) -> Mistakes:
        """Count mistakes: V errs on all labelled 1 but those x ⊇ V, and on those x ⊇ V labelled 0: a superset sum."""
        table = signed_histogram(database, self.d)
        butterflies(table, _superset)
        table += np.int32(np.count_nonzero(database.labels))
        return table

    def hypothesis(self, index: int) -> tuple[int, ...]:
        """The variables, in order."""
        return tuple(i for i in range(self.d) if index >> i & 1)


def learn(sample: BitSample, *, epsilon: Fraction, draw: Below) -> tuple[int, ...]:
    """Learn a conjunction: the tuple of its variables."""
    return generic.learn(Conjunctions(sample.d), sample, epsilon=epsilon, draw=draw)


def _superset(low: ScoreTable, high: ScoreTable) -> None:
    low += high


MECHANISM: Final = Mechanism(
    name="generic-conjunction",
    summary="monotone conjunctions, all 2^d scored by a superset sum",
    by="KLNRS11 Thm 3.4",
    concepts=CONJUNCTION,
    answers=A_CONJUNCTION,
    run=lambda sample, targets, draw: learn(sample, epsilon=targets.epsilon, draw=draw),
    needed=generic.needed(lambda d: 2**d),
    agnostic=generic.needed_agnostic(lambda d: 2**d),
    place=12,
)
