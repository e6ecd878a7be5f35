"""The generic learner for MASKED-PARITY: all 2^{d+1} scores at once, as PARITY in d + 1 bits. KLNRS11, Thm 3.4, §5.3.

`databases.masked` maps the examples, one by one, to examples of a parity (r, a) in d + 1 bits: so one transform scores
all (r, a). The efficient private learner of PARITY learns MASKED-PARITY the same way: a curator has no use for the
second round that local reports need.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from askance_lab.curator import generic, generic_parity
from askance_lab.curator.concepts import A_MASKED_PARITY, MASKED_PARITY
from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.mechanism import Mechanism


def learn(sample: BitSample, *, epsilon: Fraction, draw: Below) -> tuple[int, int]:
    """Learn a masked parity (r, a), on examples that `databases.masked` has mapped."""
    return split(sample.d - 1, generic_parity.learn(sample, epsilon=epsilon, draw=draw))


def masked_parity_distribution(sample: BitSample, *, epsilon: Fraction) -> Distribution[tuple[int, int]]:
    """Exact distribution of the learned masked parity."""
    exact = generic_parity.parity_distribution(sample, epsilon=epsilon)
    return {split(sample.d - 1, found): chance for found, chance in exact.items()}


def split(d: int, found: int) -> tuple[int, int]:
    """Parity r of d bits and mask bit a that a parity in d + 1 bits encodes."""
    return found & (1 << d) - 1, found >> d


MECHANISM: Final = Mechanism(
    name="generic-masked-parity",
    summary="MASKED-PARITY, as PARITY in d + 1 bits",
    by="KLNRS11 Thm 3.4, §5.3",
    concepts=MASKED_PARITY,
    answers=A_MASKED_PARITY,
    run=lambda sample, targets, draw: generic_parity.learn(sample, epsilon=targets.epsilon, draw=draw),
    needed=generic.needed(lambda d: 2 ** (d + 1)),
    agnostic=generic.needed_agnostic(lambda d: 2 ** (d + 1)),
    place=11,
)
