"""k-ary randomized response: the truth with probability p, every other cell with probability q, p/q ≤ e^ε.

q = ⌈2⁶⁴ / (s + k − 1)⌉ for the rational s = L/2¹²⁸ ≤ e^ε and p = 2⁶⁴ − (k − 1)·q, so that p ≤ s·q. The first
p − q words tell the truth; the other k·q name each cell equally often, whatever the input.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Floats, Whole
from askance_protocol.channels.channel import (
    Channel,
    ChannelKind,
    EpsilonSpec,
    Inputs,
    Outcomes,
    check_size,
    whole_number,
)
from askance_protocol.channels.ratio import (
    MIN_WEIGHT,
    SCALE_BITS,
    WORD,
    certified_micro_epsilon,
    exp_lower,
    too_large,
    whole_epsilon,
)
from askance_protocol.queries import CellQuery, Query
from askance_protocol.randomness import LEAD_BITS, Leads, Positions, Words
from askance_protocol.schema import Schema

MAX_CATEGORIES: Final = 1 << 10
_SHIFT: Final = 64 - LEAD_BITS


@dataclass(frozen=True, slots=True)
class KaryResponse(Channel):
    """k-ary response: k inputs, and the same k outcomes."""

    kind: ClassVar[str] = "kary"
    micro_epsilon: int
    k: int
    lie: int = field(init=False, compare=False)
    """q: the number of words that name one given wrong cell."""

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
        """The number of cells."""
        return self.k

    @property
    def outcomes(self) -> int:
        """The number of cells."""
        return self.k

    @property
    def truth(self) -> int:
        """p: the number of words that name the true cell."""
        return WORD - (self.k - 1) * self.lie

    @property
    def certified_micro_epsilon(self) -> int:
        """Certified from p and q: no other weight occurs."""
        return certified_micro_epsilon([(self.lie, self.truth)])

    def scores(self, target: Floats) -> Floats:
        """One score for each cell that is named: by p of the words if it is the truth, by q if not."""
        spread = self.truth - self.lie
        return target * ((WORD - self.lie) / spread) + (target.sum() - target) * (-self.lie / spread)

    def proportions(self, target: Floats) -> tuple[float, float] | None:
        """For the share of some cells, how often one of them is named where the truth is another, and where not."""
        ends = np.unique(target)
        if len(ends) != 2:
            return None
        wrong = int(np.count_nonzero(target == ends[1])) * self.lie
        return wrong / 2.0**64, (wrong + self.truth - self.lie) / 2.0**64

    def segments(self, given: int) -> Iterator[tuple[int, int]]:
        """The words that tell the truth, then an equal share for each cell."""
        certain = self.truth - self.lie
        if certain:
            yield certain, given
        for cell in range(self.k):
            yield certain + (cell + 1) * self.lie, cell

    def choose(self, given: Whole, word: int) -> int:
        """Compare the word with every cut-point; beyond none of them it tells the truth."""
        dealt = np.int64(np.count_nonzero(_cuts(self) <= np.uint64(word))) - 1
        return int((dealt, self.wide_input(given))[bool(dealt < 0)])

    def decide(self, given: Inputs, words: Words) -> Outcomes:
        """The truth for the first words; the rest are dealt out evenly."""
        certain = np.uint64(self.truth - self.lie)
        dealt = (words - certain) // np.uint64(self.lie)
        return np.where(words < certain, given, dealt).astype(self.outcome_type)

    def settle(self, given: Inputs, leads: Leads) -> tuple[Outcomes, Positions]:
        """Look up what each lead says: the truth, a cell, or not yet known."""
        named = _guide(self)[leads]
        # The truth where no cell is named, without a branch: no processor guesses the noise.
        outcomes = named + (given.astype(np.uint16, copy=False) - named) * (named == self.k)
        return outcomes.astype(self.outcome_type, copy=False), np.flatnonzero(named > self.k)


@lru_cache(maxsize=32)
def _cuts(channel: KaryResponse) -> NDArray[np.uint64]:
    """The first word of each cell's equal share."""
    lie = np.uint64(channel.lie)
    return np.uint64(channel.truth - channel.lie) + lie * np.arange(channel.k, dtype=np.uint64)


@lru_cache(maxsize=32)
def _guide(channel: KaryResponse) -> NDArray[np.uint16]:
    """For each lead: the cell that all its words choose, k for the truth, k + 1 where they differ."""
    guide = np.full(1 << LEAD_BITS, channel.k + 1, np.uint16)
    begin, named = 0, channel.k
    certain = channel.truth - channel.lie
    for end in (certain + cell * channel.lie for cell in range(channel.k + 1)):
        guide[-(-begin >> _SHIFT) : end >> _SHIFT] = named
        begin, named = end, 0 if named == channel.k else named + 1
    return guide


class KarySpec(EpsilonSpec):
    """k-ary response, for a cell query whose cell is never outside the partition."""

    kind: Literal["kary"] = "kary"
    answers = "a cell query"

    def build(self, query: Query, schema: Schema) -> KaryResponse:
        """One input and one outcome for each cell, or for each cell and sign."""
        if not isinstance(query, CellQuery):
            raise self.refuse(query)
        return _response(micro_epsilon=self.micro_epsilon, k=query.inputs(schema))

    def outcomes(self, query: Query, schema: Schema) -> int:
        """As many as there are inputs."""
        if not isinstance(query, CellQuery):
            raise self.refuse(query)
        return query.inputs(schema)


# Built once: a round is prepared more often than its channels change.
_response = lru_cache(maxsize=64)(KaryResponse)

CHANNEL = ChannelKind(
    "kary",
    "one of k categories: the true one more often than any other",
    KarySpec,
    options={"k": (4, "how many categories")},
    build=KaryResponse,
)
