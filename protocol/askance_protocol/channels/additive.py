"""Noise added to an integer and clamped: what `geometric` and `laplace` have in common.

Theory of operation
-------------------
An input u = 0 .. range is a point of a grid, and the outcome is u plus integer noise, clamped to the outcomes.
Clamping is post-processing; conditioning on the range instead is *not* private at this ε.

Only the tails are stored: tail(δ) is the number of words whose noise is ≤ −δ, for δ = 1, 2, …, and as many have
noise ≥ δ. The cut-points of noise and the weights of every row are differences of these integers, so rows sum to
2⁶⁴ and the noise is symmetric without any correction.

With the step ε/range the weights fall by at most e^(ε/range) per step. Tails are rounded down, which moves a
ratio by less than 2⁻²⁸ as no weight is below 2³⁰; so the tables are built for an ε that is 4·10⁻⁹ smaller, and
the certificate, which looks at the integers only, then holds for the ε that was asked.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Floats, Whole
from askance_protocol.channels.channel import (
    Channel,
    EpsilonSpec,
    Inputs,
    Outcomes,
    check_size,
    is_linear,
    whole_number,
)
from askance_protocol.channels.ratio import (
    MIN_WEIGHT,
    WORD,
    certified_micro_epsilon,
    too_large,
    whole_epsilon,
)
from askance_protocol.queries import Query, RealQuery
from askance_protocol.queries.nodes import clamp
from askance_protocol.randomness import LEAD_BITS, Leads, Positions, Words
from askance_protocol.schema import Schema

MAX_RANGE: Final = 1023
_SHIFT: Final = 64 - LEAD_BITS
NANO: Final = 1_000_000_000
SLACK_NANO: Final = 4
WEIGHT_WORK: Final = 16
"""Microseconds that one weight takes: a series of 2¹²⁸ · e^x, and its part of the certificate."""
_TIE: Final = np.iinfo(np.int16).max


@dataclass(frozen=True, slots=True)
class AdditiveNoise(Channel):
    """Clamped integer noise on inputs 0 .. range; outcomes reach `pad` further on both sides."""

    padding: ClassVar[int]
    """Ranges of outcomes beyond the inputs, on each side."""
    micro_epsilon: int
    range: int
    tails: tuple[int, ...] = field(init=False, compare=False, repr=False)
    """tail(1), tail(2), … tail(range + pad)."""
    _certified: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        whole_epsilon(self.micro_epsilon)
        whole_number(self.range, "range", 1, MAX_RANGE)
        check_size(self.inputs, self.outcomes)
        object.__setattr__(self, "tails", tuple(self.tail(step) for step in range(1, self.reach + 1)))
        pairs = list(self._extremes())
        if min(pairs)[0] < MIN_WEIGHT:
            raise too_large(self.micro_epsilon)
        object.__setattr__(self, "_certified", certified_micro_epsilon(pairs))

    @property
    def pad(self) -> int:
        """The number of outcomes beyond the inputs, on each side."""
        return self.padding * self.range

    @abstractmethod
    def tail(self, step: int) -> int:
        """The number of words whose noise is −step or less."""

    @property
    def reach(self) -> int:
        """The largest noise that is told apart."""
        return self.range + self.pad

    @property
    def inputs(self) -> int:
        """The number of points of the grid."""
        return self.range + 1

    @property
    def outcomes(self) -> int:
        """The number of points of the padded grid."""
        return self.inputs + 2 * self.pad

    @property
    def certified_micro_epsilon(self) -> int:
        """Certified from the smallest and the largest weight of every outcome."""
        return self._certified

    def scores(self, target: Floats) -> Floats:
        """The outcome on the target's own scale, with one number for all that was clamped at each end."""
        if not is_linear(target):
            return Channel.scores(self, target)
        return target[0] + (target[-1] - target[0]) / self.range * _unclamped(self)

    def segments(self, given: int) -> Iterator[tuple[int, int]]:
        """One segment for each outcome, in their order."""
        for outcome in range(self.outcomes - 1):
            yield self._at_most(outcome - self.pad - given), outcome
        yield WORD, self.outcomes - 1

    def choose(self, given: Whole, word: int) -> int:
        """Compare the word with every cut-point of the noise, add the noise to the input, and clamp."""
        noise = np.int64(np.count_nonzero(_noise_cuts(self) <= np.uint64(word))) - self.reach
        return int(clamp(self.wide_input(given) + noise + self.pad, 0, self.outcomes - 1))

    def decide(self, given: Inputs, words: Words) -> Outcomes:
        """Find the noise of each word, add it to the input, and clamp."""
        return self._clamped(given, np.searchsorted(_noise_cuts(self), words, side="right") - self.reach)

    def settle(self, given: Inputs, leads: Leads) -> tuple[Outcomes, Positions]:
        """Look up the noise of each lead; leads that do not decide it are ties."""
        noise = _guide(self)[leads]
        return self._clamped(given, noise), np.flatnonzero(noise == _TIE)

    def _clamped(self, given: Inputs, noise: NDArray[np.signedinteger]) -> Outcomes:
        sums = given.astype(np.int32) + noise + self.pad
        return sums.clip(0, self.outcomes - 1).astype(self.outcome_type)

    def _at_most(self, noise: int) -> int:
        """The number of words whose noise is `noise` or less."""
        return self.tails[-noise - 1] if noise < 0 else WORD - self.tails[noise]

    def _extremes(self) -> Iterator[tuple[int, int]]:
        """The smallest and the largest weight of each outcome, over all inputs.

        Under input u an inner outcome w has the noise w − pad − u, so its weights are a window of those of all noise,
        one further on for each outcome: all windows take as many steps as one table has edges, and not its area.
        """
        below = [self._at_most(noise) for noise in range(-self.reach, self.reach)]
        exactly = [high - low for low, high in pairwise(below)]
        lowest, highest = below[: self.inputs], below[self.reach + self.pad - 1 :]
        yield min(lowest), max(lowest)
        yield from window_extremes(exactly, self.inputs)
        yield WORD - max(highest), WORD - min(highest)


class AdditiveSpec(EpsilonSpec):
    """Additive noise on the numerator of a real query: a denominator of D has a range of 2D steps."""

    answers = "a real query"
    noise: ClassVar[type[AdditiveNoise]]

    def build(self, query: Query, schema: Schema) -> AdditiveNoise:  # noqa: ARG002 - the denominator says the range
        """A range of 2D steps for a numerator over D."""
        if not isinstance(query, RealQuery):
            raise self.refuse(query)
        return _built(self.noise, self.micro_epsilon, 2 * query.denominator)

    def outcomes(self, query: Query, schema: Schema) -> int:  # noqa: ARG002 - the denominator says the range
        """One for each numerator, and for each step of the ranges beyond."""
        if not isinstance(query, RealQuery):
            raise self.refuse(query)
        return 2 * query.denominator * (1 + 2 * self.noise.padding) + 1

    def work(self, query: Query) -> int:
        """The weight of each outcome is a quotient of large integers."""
        steps = 2 * (1 + 2 * self.noise.padding)
        return WEIGHT_WORK * steps * query.denominator if isinstance(query, RealQuery) else 1


@lru_cache(maxsize=128)
def _built(noise: type[AdditiveNoise], micro_epsilon: int, range_: int) -> AdditiveNoise:
    # Kept: certifying a large table takes a moment, and a round is prepared more often than its channels change.
    return noise(micro_epsilon=micro_epsilon, range=range_)


def window_extremes(values: Sequence[int], width: int) -> Iterator[tuple[int, int]]:
    """The smallest and the largest value of each window of this width, in steps that do not depend on the width."""
    # The positions, in each window, of what is smaller (larger) than all that follow: the first is the extreme.
    small, large = deque[int](), deque[int]()
    for position, value in enumerate(values):
        while small and values[small[-1]] >= value:
            small.pop()
        while large and values[large[-1]] <= value:
            large.pop()
        small.append(position)
        large.append(position)
        begin = position - width + 1
        if begin >= 0:
            for kept in (small, large):
                if kept[0] < begin:
                    kept.popleft()
            yield values[small[0]], values[large[0]]


@lru_cache(maxsize=32)
def _noise_cuts(channel: AdditiveNoise) -> NDArray[np.uint64]:
    """The first word beyond each noise −reach .. reach − 1."""
    falling = channel.tails[::-1]
    return np.array([*falling, *(WORD - tail for tail in channel.tails)], np.uint64)


@lru_cache(maxsize=32)
def _guide(channel: AdditiveNoise) -> NDArray[np.int16]:
    """For each lead, the noise that all its words choose, or a mark where they differ."""
    guide = np.full(1 << LEAD_BITS, _TIE, np.int16)
    begin = 0
    for noise, end in enumerate([*map(int, _noise_cuts(channel)), WORD], start=-channel.reach):
        guide[-(-begin >> _SHIFT) : end >> _SHIFT] = noise
        begin = end
    return guide


@lru_cache(maxsize=64)
def _unclamped(channel: AdditiveNoise) -> Floats:
    """The outcome in steps, but at the ends the mean of all that was clamped there.

    The tails of this noise are geometric: how far beyond the end a sum would have gone does not depend on the
    input, so one number for each end undoes the clamping for all inputs. The table itself says which number.
    """
    row = np.array([float(weight) for weight in channel.weights(0)]) / 2.0**64
    inner = np.arange(channel.outcomes, dtype=np.float64) - channel.pad
    # Unbiased under input 0, with the ends at −e and range + e: the rest follows from the symmetry of the table.
    beyond = (row[1:-1] @ inner[1:-1] + row[-1] * channel.range) / (row[0] - row[-1])
    inner[0], inner[-1] = -beyond, channel.range + beyond
    return inner
