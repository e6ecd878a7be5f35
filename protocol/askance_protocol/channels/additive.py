"""Noise added to an integer and clamped: the two-sided geometric (N21, §2) and the discretised Laplace.

Theory of operation
-------------------
An input u = 0 .. range is a point of a grid, and the outcome is u plus integer noise, clamped to the outcomes.
Clamping is post-processing; conditioning on the range instead is *not* private at this ε (THEORY, "Smaller").

Only the tails are stored: tail(δ) is the number of words whose noise is ≤ −δ, for δ = 1, 2, …, and as many have
noise ≥ δ. The cut-points of noise and the weights of every row are differences of these integers, so rows sum to
2⁶⁴ and the noise is symmetric without any correction.

With the step ε/range the weights fall by at most e^(ε/range) per step. Tails are rounded down, which moves a
ratio by less than 2⁻²⁸ as no weight is below 2³⁰; so the tables are built for an ε that is 4·10⁻⁹ smaller, and
the certificate, which looks at the integers only, then holds for the ε that was asked.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.channels.channel import Channel, Inputs, Outcomes, check_size, extremes, whole_number
from askance_protocol.channels.ratio import (
    MIN_WEIGHT,
    SCALE_BITS,
    WORD,
    certified_micro_epsilon,
    exp_scaled,
    too_large,
    whole_epsilon,
)
from askance_protocol.randomness import LEAD_BITS, Leads, Positions, Words

MAX_RANGE: Final = 1023
_SHIFT: Final = 64 - LEAD_BITS
_NANO: Final = 1_000_000_000
_SLACK_NANO: Final = 4
_TIE: Final = np.iinfo(np.int16).max


@dataclass(frozen=True, slots=True)
class AdditiveNoise(Channel):
    """Inputs 0 .. range; outcomes reach `pad` further on both sides."""

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
        columns = list(self._columns())
        if min(map(min, columns)) < MIN_WEIGHT:
            raise too_large(self.micro_epsilon)
        object.__setattr__(self, "_certified", certified_micro_epsilon(extremes(iter(columns))))

    @property
    @abstractmethod
    def pad(self) -> int:
        """How far outcomes reach beyond the inputs."""

    @abstractmethod
    def tail(self, step: int) -> int:
        """The number of words whose noise is −step or less."""

    @property
    def reach(self) -> int:
        """The largest noise that is told apart."""
        return self.range + self.pad

    @property
    def inputs(self) -> int:
        """One for each point of the grid."""
        return self.range + 1

    @property
    def outcomes(self) -> int:
        """The grid and what it is padded with."""
        return self.inputs + 2 * self.pad

    @property
    def certified_micro_epsilon(self) -> int:
        """From the smallest and largest weight of every outcome."""
        return self._certified

    def segments(self, given: int) -> Iterator[tuple[int, int]]:
        """The outcomes in their order."""
        for outcome in range(self.outcomes - 1):
            yield self._at_most(outcome - self.pad - given), outcome
        yield WORD, self.outcomes - 1

    def decide(self, given: Inputs, words: Words) -> Outcomes:
        """Find the noise of each word, add it, clamp."""
        return self._clamped(given, np.searchsorted(_noise_cuts(self), words, side="right") - self.reach)

    def settle(self, given: Inputs, leads: Leads) -> tuple[Outcomes, Positions]:
        """Look up the noise of each lead."""
        noise = _guide(self)[leads]
        return self._clamped(given, noise), np.flatnonzero(noise == _TIE)

    def _clamped(self, given: Inputs, noise: NDArray[np.signedinteger]) -> Outcomes:
        sums = given.astype(np.int32) + noise + self.pad
        return sums.clip(0, self.outcomes - 1).astype(self.outcome_type)

    def _at_most(self, noise: int) -> int:
        """The number of words whose noise is `noise` or less."""
        return self.tails[-noise - 1] if noise < 0 else WORD - self.tails[noise]

    def _columns(self) -> Iterator[list[int]]:
        """For each outcome, its weights under all inputs."""
        below = [self._at_most(noise) for noise in range(-self.reach, self.reach)]
        exactly = [high - low for low, high in pairwise(below)]
        yield below[self.pad : self.pad + self.inputs]
        for outcome in range(1, self.outcomes - 1):
            # Under input u the noise is outcome − pad − u; `exactly` begins at noise −reach + 1.
            last = outcome - self.pad + self.reach - 1
            yield exactly[last - self.range : last + 1]
        yield [WORD - words for words in below[self.reach + self.pad - 1 :]]


@dataclass(frozen=True, slots=True)
class TwoSidedGeometric(AdditiveNoise):
    """N21, §2: Pr[noise = k] = α^(−|k|) · (α − 1)/(α + 1), α^range = e^ε, clamped to the range itself."""

    kind: ClassVar[str] = "geometric"

    @property
    def pad(self) -> int:
        """Outcomes are the inputs."""
        return 0

    def tail(self, step: int) -> int:
        """2⁶⁴ · α^(1−step)/(α + 1) = 2⁶⁴ / (α^step + α^(step−1))."""
        return (WORD << SCALE_BITS) // (self._power(step) + self._power(step - 1))

    def _power(self, step: int) -> int:
        return exp_scaled((self.micro_epsilon * 1000 - _SLACK_NANO) * step, _NANO * self.range)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(AdditiveNoise):
    """KLNRS11, §5.1.1: R(u) = g(u) + Lap(2b/ε), rounded to the grid and clamped one whole range beyond it.

    The grid has `range` steps from −b to b, so noise of scale 2b/ε is noise of scale range/ε in steps. Rounding
    and clamping are post-processing: the ε is that of the paper.
    """

    kind: ClassVar[str] = "laplace"

    @property
    def pad(self) -> int:
        """One range on each side."""
        return self.range

    def tail(self, step: int) -> int:
        """2⁶⁴ · Pr[Lap(range/ε) ≤ −(step − ½)] = 2⁶³ · e^(−(step − ½)·ε/range)."""
        exponent = (self.micro_epsilon * 1000 - _SLACK_NANO) * (2 * step - 1)
        return (WORD << SCALE_BITS - 1) // exp_scaled(exponent, 2 * _NANO * self.range)


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
