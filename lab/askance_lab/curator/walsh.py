"""The generic learner for PARITY and for MASKED-PARITY: all 2^d scores at once, by a Walsh–Hadamard transform.

With y the label as a bit, Σ_i (−1)^{y_i}(−1)^{r·x_i} is what parity r labels right less what it labels wrong; over all
r it is the Walsh transform of the histogram of x, signed by the label. KLNRS11, Thm 3.4 does not promise an efficient
learner, and this one takes d·2^d steps.

MASKED-PARITY (KLNRS11, §5.3) is PARITY in d + 1 bits under a public map of the examples, one by one: with the mask bit
a as r_d, the exponent r·x + a of an example with b = 0 is (r,a)·(x,1), and r_i of one with b = 1 is (r,a)·e_i. So one
transform scores all (r,a). And the efficient private learner of PARITY learns MASKED-PARITY as well: a curator has no
use for the second round that local reports need.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np

from askance_lab.curator.databases import BitSample, packed, unpacked
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.generic import Mistakes, ScoreTable, butterflies, generic_distribution, learn, signed_histogram
from askance_lab.curator.privacy import Paid, checked
from askance_protocol import checks

_MOST_BITS: Final = 26
"""2^26 scores of 4 bytes, twice: half a gigabyte."""


@dataclass(frozen=True, slots=True)
class Parities:
    """All 2^d parities: r as a number, bit i = r_i. A class for `generic.learn`."""

    d: int

    def __post_init__(self) -> None:
        _affordable(self.d)

    def __len__(self) -> int:
        return 1 << self.d

    def mistakes(self, database: BitSample) -> Mistakes:
        """(n − transform)/2 for each r."""
        table = signed_histogram(database, self.d)
        transform(table)
        np.subtract(np.int32(len(database)), table, out=table)
        table >>= 1
        return table

    def hypothesis(self, index: int) -> int:
        """It is its number."""
        return index


@dataclass(frozen=True, slots=True)
class MaskedParities:
    """All 2^{d+1} masked parities (r, a), on examples that `masked` has mapped."""

    d: int

    def __post_init__(self) -> None:
        checks.count("d", self.d)
        _affordable(self.d + 1)

    def __len__(self) -> int:
        return 2 << self.d

    def mistakes(self, database: BitSample) -> Mistakes:
        """Those of the parity in d + 1 bits."""
        return Parities(self.d + 1).mistakes(database)

    def hypothesis(self, index: int) -> tuple[int, int]:
        """The parity r and the mask bit a."""
        return index & (1 << self.d) - 1, index >> self.d


def masked(d: int, words: Any, i: Any, b: Any, odd: Any) -> BitSample:
    """Examples (x, i, b) as examples of PARITY in d + 1 bits: (x, 1) where b = 0, e_i where b = 1.

    `words` are x, a row an example, as in `BitSample`; `odd` is where the label is −1: the exponent is odd. Any d.
    """
    x, which, shown = np.asarray(words, np.uint64), np.asarray(i), np.asarray(b)
    labels = np.asarray(odd)
    remedy = "give each example its x, i, b and label: words of d bits, i from 0 to d − 1, b and label 0 or 1"
    shape = (x.shape[:1], which.shape, shown.shape, labels.shape)
    fits = x.ndim == 2 and x.size > 0 and x.shape[1] == -(-d // 64) and len(set(shape)) == 1
    checks.require(fits, "is empty or has no shape of masked examples", where="database", remedy=remedy)
    whole = bool(np.isin(which, np.arange(d)).all() and np.isin(shown, (0, 1)).all() and np.isin(labels, (0, 1)).all())
    checks.require(whole, "has entries outside their ranges", where="database", remedy=remedy)
    bits = np.concatenate([unpacked(x, d), np.ones((len(x), 1), np.uint8)], axis=1)
    unit = np.arange(d + 1) == which[:, None]
    return BitSample(d + 1, packed(np.where(shown[:, None] == 1, unit, bits).astype(np.uint8)), labels.astype(np.bool))


def parity(sample: BitSample, *, epsilon: Fraction, draw: Below) -> int:
    """The generic learner of PARITY: r as a number."""
    return learn(Parities(sample.d), sample, epsilon=epsilon, draw=draw)


def parity_distribution(sample: BitSample, *, epsilon: Fraction) -> Distribution:
    """Its exact output distribution."""
    return generic_distribution(Parities(sample.d), sample, epsilon=epsilon)


def masked_parity(sample: BitSample, *, epsilon: Fraction, draw: Below) -> tuple[int, int]:
    """The generic learner of MASKED-PARITY, on examples that `masked` has mapped: (r, a)."""
    return learn(MaskedParities(sample.d - 1), sample, epsilon=epsilon, draw=draw)


def masked_parity_distribution(sample: BitSample, *, epsilon: Fraction) -> Distribution:
    """Its exact output distribution."""
    return generic_distribution(MaskedParities(sample.d - 1), sample, epsilon=epsilon)


def paid(epsilon: Fraction) -> Paid:
    """ε, on any database: the map of masked examples goes one by one."""
    return checked(epsilon)


def transform(table: ScoreTable) -> None:
    """The Walsh–Hadamard transform of 2^d numbers, in place: entry r becomes Σ_x (−1)^{r·x}·entry x."""
    butterflies(table, _sum_and_difference)


def _sum_and_difference(low: ScoreTable, high: ScoreTable) -> None:
    low += high
    # low + high − 2·high: no second table. Entries stay below 2^21 (`generic` takes fewer than 2^20 examples).
    high *= -2
    high += low


def _affordable(bits: int) -> None:
    checks.count("d", bits)
    remedy = f"all 2^d are scored: give at most {_MOST_BITS} bits, or use the efficient learner of PARITY"
    checks.require(bits <= _MOST_BITS, "has too many parities to score", where="d", remedy=remedy)
