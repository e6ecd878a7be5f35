"""k-ary randomized response: the truth with probability p, every other cell with probability q, p/q ≤ e^ε.

q = ⌈2⁶⁴ / (s + k − 1)⌉ for the rational s = L/2¹²⁸ ≤ e^ε and p = 2⁶⁴ − (k − 1)·q, so that p ≤ s·q. The first
p − q words tell the truth; the other k·q name each cell equally often, whatever the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.channels.channel import Channel, Inputs, Outcomes, check_size, whole_number
from askance_protocol.channels.ratio import (
    MIN_WEIGHT,
    SCALE_BITS,
    WORD,
    certified_micro_epsilon,
    exp_lower,
    too_large,
    whole_epsilon,
)
from askance_protocol.randomness import LEAD_BITS, Leads, Positions, Words

MAX_CATEGORIES: Final = 1 << 10
_SHIFT: Final = 64 - LEAD_BITS


@dataclass(frozen=True, slots=True)
class KaryResponse(Channel):
    """k inputs, the same k outcomes."""

    kind: ClassVar[str] = "kary"
    micro_epsilon: int
    k: int
    lie: int = field(init=False, compare=False)
    """q: how many words name one given wrong cell."""

    def __post_init__(self) -> None:
        odds = exp_lower(whole_epsilon(self.micro_epsilon))
        whole_number(self.k, "k", 2, MAX_CATEGORIES)
        check_size(self.k, self.k)
        lie = -(-(WORD << SCALE_BITS) // (odds + ((self.k - 1) << SCALE_BITS)))
        if lie < MIN_WEIGHT:
            raise too_large(self.micro_epsilon)
        object.__setattr__(self, "lie", lie)

    @property
    def inputs(self) -> int:
        """One for each cell."""
        return self.k

    @property
    def outcomes(self) -> int:
        """One for each cell."""
        return self.k

    @property
    def truth(self) -> int:
        """p: how many words name the true cell."""
        return WORD - (self.k - 1) * self.lie

    @property
    def certified_micro_epsilon(self) -> int:
        """From p and q: no other weight occurs."""
        return certified_micro_epsilon([(self.lie, self.truth)])

    def segments(self, given: int) -> Iterator[tuple[int, int]]:
        """The words that tell the truth, then an equal share for each cell."""
        certain = self.truth - self.lie
        if certain:
            yield certain, given
        for cell in range(self.k):
            yield certain + (cell + 1) * self.lie, cell

    def decide(self, given: Inputs, words: Words) -> Outcomes:
        """The truth for the first words; the rest are dealt out evenly."""
        certain = np.uint64(self.truth - self.lie)
        dealt = (words - certain) // np.uint64(self.lie)
        return np.where(words < certain, given, dealt).astype(self.outcome_type)

    def settle(self, given: Inputs, leads: Leads) -> tuple[Outcomes, Positions]:
        """Look up what each lead says: the truth, a cell, or not yet known."""
        said = _guide(self)[leads]
        outcomes = np.where(said == self.k, given, said).astype(self.outcome_type)
        return outcomes, np.flatnonzero(said > self.k)


@lru_cache(maxsize=32)
def _guide(channel: KaryResponse) -> NDArray[np.uint16]:
    """For each lead: the cell that all its words choose, k for the truth, k + 1 where they differ."""
    guide = np.full(1 << LEAD_BITS, channel.k + 1, np.uint16)
    begin, said = 0, channel.k
    certain = channel.truth - channel.lie
    for end in (certain + cell * channel.lie for cell in range(channel.k + 1)):
        guide[-(-begin >> _SHIFT) : end >> _SHIFT] = said
        begin, said = end, 0 if said == channel.k else said + 1
    return guide
