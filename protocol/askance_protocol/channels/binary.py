"""Binary randomized response, for a bit and for a value in [−1, 1] (KLNRS11, p. 4; Warner 1965).

The truth is told by k of the 2⁶⁴ words, k = ⌊2⁶⁴ · s / (1 + s)⌋ for the rational s = L/2¹²⁸ ≤ e^ε, so that
k / (2⁶⁴ − k) ≤ s. An input is a step u = 0 .. steps and stands for the value v = 2u/steps − 1; outcome 1 is
chosen by the first t(u) words, t growing evenly from 2⁶⁴ − k at v = −1 to k at v = 1. Then
E[2w − 1] = v · (2k − 2⁶⁴)/2⁶⁴, whatever v is: one bit estimates a mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
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
    is_linear,
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
from askance_protocol.hadamard import HadamardRows, rows_for
from askance_protocol.queries import BooleanQuery, CellQuery, Query, RealQuery
from askance_protocol.randomness import LEAD_BITS, Leads, Positions, Words
from askance_protocol.remembering import Remembered
from askance_protocol.schema import Schema

MAX_STEPS: Final = (1 << 19) - 1
MOST_MICRO_EPSILON: Final = 23_567_004
"""The largest ε that binary response is built for. Whatever has more outcomes reaches no further."""
_SHIFT: Final = 64 - LEAD_BITS
_FEW: Final = 2
"""Steps of a channel for a bit, or for a cell that is pooled to one."""


@dataclass(frozen=True, slots=True)
class BinaryResponse(Channel):
    """Binary response on inputs 0 .. steps: one step for a bit, two if it may also be "neither", more for a value."""

    kind: ClassVar[str] = "binary"
    micro_epsilon: int
    steps: int = 1
    keep: int = field(init=False, compare=False)
    """k: the number of the 2⁶⁴ words that tell the truth."""
    few: tuple[int, ...] = field(init=False, compare=False, repr=False)
    """5 · 2⁶⁴ + t(u) − 1 for each input u, if there are few: what `choose` takes a word from."""

    def __post_init__(self) -> None:
        odds = exp_lower(whole_epsilon(self.micro_epsilon))
        whole_number(self.steps, "steps", 1, MAX_STEPS)
        check_size(self.inputs, self.outcomes)
        keep = WORD * odds // ((1 << SCALE_BITS) + odds)
        if WORD - keep < MIN_WEIGHT:
            raise too_large(self.micro_epsilon)
        object.__setattr__(self, "keep", keep)
        few = range(self.inputs if self.steps <= _FEW else 0)
        object.__setattr__(self, "few", tuple((5 << 64) + self.threshold(given) - 1 for given in few))

    @property
    def inputs(self) -> int:
        """The number of steps, and one for the start."""
        return self.steps + 1

    @property
    def outcomes(self) -> int:
        """Two: zero and one."""
        return 2

    @property
    def certified_micro_epsilon(self) -> int:
        """Certified from the two extreme inputs: every other threshold lies between theirs."""
        return certified_micro_epsilon([(WORD - self.keep, self.keep)])

    @property
    def scale(self) -> Fraction:
        """C = 2⁶⁴ / (2k − 2⁶⁴), close to (e^ε + 1)/(e^ε − 1): what a mean report is multiplied by."""
        return Fraction(WORD, 2 * self.keep - WORD)

    def threshold(self, given: int) -> int:
        """t(u): the number of words that choose outcome 1."""
        return WORD - self.keep + (2 * self.keep - WORD) * given // self.steps

    def step_of(self, value: float) -> int:
        """The input nearest to a real value; beyond [−1, 1] it is the end, and NaN is the middle.

        Evaluation is total, so that no value is given away by a refusal.
        """
        clamped = 0.0 if math.isnan(value) else min(max(value, -1.0), 1.0)
        return math.floor((Fraction(clamped) + 1) * self.steps / 2 + Fraction(1, 2))

    def scores(self, target: Floats) -> Floats:
        """One value for each outcome, ±C around the middle: the mean report is linear in the input."""
        if not is_linear(target):
            return Channel.scores(self, target)
        middle, half = (target[-1] + target[0]) / 2, (target[-1] - target[0]) / 2
        return middle + half * np.array([-1.0, 1.0]) * float(self.scale)

    def proportions(self, target: Floats) -> tuple[float, float] | None:
        """How often the two extreme inputs are reported as the upper one: 1 − k/2⁶⁴ and k/2⁶⁴."""
        if not is_linear(target):
            return None
        keep = self.keep / 2.0**64
        return 1 - keep, keep

    def segments(self, given: int) -> Iterator[tuple[int, int]]:
        """Outcome 1 first, then outcome 0."""
        yield self.threshold(given), 1
        yield WORD, 0

    def choose(self, given: Whole, word: int) -> int:
        """One comparison with a threshold that is looked up: as a product, it would take longer for a larger input.

        Where inputs are few: 5 · 2⁶⁴ + t − 1 − word is at least 5 · 2⁶⁴ where word < t, and less where not, and has the
        same number of digits whatever word and t are. A comparison of Python's integers would end at the first digit
        that differs.
        """
        if self.few:
            return (self.few[self.check_input(given)] - word) >> 64 & 1
        return int(np.uint64(word) < _thresholds(self)[self.wide_input(given)])

    def decide(self, given: Inputs, words: Words) -> Outcomes:
        """Outcome 1 where the word is below the input's threshold."""
        return (words < _thresholds(self)[given]).view(np.uint8)

    def settle(self, given: Inputs, leads: Leads) -> tuple[Outcomes, Positions]:
        """Compare leads with the leads of the thresholds. Equal leads are ties."""
        cuts = (_thresholds(self) >> np.uint64(_SHIFT)).astype(np.uint16)
        if self.steps > _FEW:
            mine = cuts[given]
            return (leads < mine).view(np.uint8), np.flatnonzero(leads == mine)
        # Few inputs: compare with each threshold in turn, which is quicker than looking one up for each user.
        below = leads < cuts[0]
        tied = leads == cuts[0]
        for step in range(1, self.steps + 1):
            below |= (leads < cuts[step]) & (given >= step)
            tied |= leads == cuts[step]
        return below.view(np.uint8), np.flatnonzero(tied)


def _thresholds_of(channel: BinaryResponse) -> NDArray[np.uint64]:
    """t(u) of every input. (e·n + r)·u div n = e·u + r·u div n: no product leaves 64 bits."""
    each, rest = divmod(2 * channel.keep - WORD, channel.steps)
    steps = np.arange(channel.inputs, dtype=np.uint64)
    return (
        np.uint64(WORD - channel.keep) + np.uint64(each) * steps + np.uint64(rest) * steps // np.uint64(channel.steps)
    )


_thresholds: Final = Remembered(_thresholds_of, lambda thresholds: thresholds.nbytes, most=8 << 20)


class BinarySpec(EpsilonSpec):
    """Binary response: for a boolean, a real, or by Hadamard rows a cell query."""

    kind: Literal["binary"] = "binary"

    def build(self, query: Query, schema: Schema) -> BinaryResponse:  # noqa: ARG002 - the query says how many steps
        """One step for a bit, 2D for a numerator over D, two for a pooled cell."""
        match query:
            case BooleanQuery():
                steps = 1
            case RealQuery(denominator=denominator):
                steps = 2 * denominator
            case CellQuery():
                steps = 2
        return _response(micro_epsilon=self.micro_epsilon, steps=steps)

    def outcomes(self, query: Query, schema: Schema) -> int:  # noqa: ARG002 - one bit answers them all
        """Two, whatever is asked."""
        return 2

    def pooling(self, query: Query, schema: Schema) -> HadamardRows | None:  # noqa: ARG002 - every partition is pooled alike
        """A cell becomes the bit that its row of the Hadamard matrix has in its column."""
        return HadamardRows(rows_for(query.cells)) if isinstance(query, CellQuery) else None


_response = lru_cache(maxsize=256)(BinaryResponse)

CHANNEL = ChannelKind("binary", "one bit, kept with probability e^ε/(1+e^ε)", BinarySpec, build=BinaryResponse)
