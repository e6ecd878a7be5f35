"""A trusted curator: she sees all examples, and answers each query from a chunk of her own with noise (SuLQ).

BB-notes, Thm 7 = N21, Thm 1, as repaired (trap 9): the chunks are disjoint, so noise of scale 1/(ε|S_i|) on the mean of
chunk S_i is ε-private for everybody; the texts' M/(ε|S_i|) is M times too much for nothing.

The noise is added to whole numbers, as N21, §2 does, and not to floats: integer k with probability in proportion to
e^{−ε|k|/Δ}, where Δ is how much the total changes, at most, when one user is replaced. It is drawn in exact rational
arithmetic by Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020), Algorithm 2, so
that no rounding leaks what a float's last bits would (compare `float_laplace`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from askance_lab.oracles.oracle import Spent
from askance_lab.oracles.portions import Portioned
from askance_lab.oracles.weighted import Floats, signed
from askance_protocol.budget import MICRO, whole_micro
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.randomness import RandomSource, SimulatedRandom
from askance_server.strategies import Answer, Ask

Below: TypeAlias = Callable[[int], int]
"""A uniform whole number below another."""


@dataclass(slots=True)
class Curator(Portioned):
    """Exact totals of a chunk for each query, and two-sided geometric noise on them."""

    micro_epsilon: int = MICRO
    seed: int = 1
    _below: Below = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole_micro(self.micro_epsilon, least=1)
        self._below = below(SimulatedRandom(self.seed, stream=1))

    def estimate(self, ask: Ask, size: int) -> Answer:
        """The noisy total, over the chunk's size, which is public."""
        counts = self.counts(ask, size)
        match ask.query:
            case BooleanQuery():
                # One user replaced: the count changes by 1 at most.
                return (float(counts[1]) + self._noise(1)) / size
            case RealQuery(denominator=denominator):
                total = float(counts @ np.arange(-denominator, denominator + 1))
                return (total + self._noise(2 * denominator)) / denominator / size
            case CellQuery(cells=cells):
                # One user replaced: two cells change by 1, or one of them by 2. In the sum of absolutes it is 2.
                noise: Floats = np.array([self._noise(2) for _ in range(cells)], np.float64)
                return (signed(counts, cells) + noise) / size

    def _noise(self, sensitivity: int) -> int:
        return discrete_laplace(Fraction(sensitivity * MICRO, self.micro_epsilon), self._below)

    @property
    def spent(self) -> Spent:
        """Everybody was in one chunk at most."""
        return Spent(self.crowd.asked, self.micro_epsilon if self.crowd.asked else 0)


def discrete_laplace(scale: Fraction, draw: Below) -> int:
    """An integer k with probability in proportion to e^{−|k|/scale}: exactly that. CKS 2020, Algorithm 2."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = draw(t)
        if not _bernoulli_exp(Fraction(u, t), draw):
            continue
        v = 0
        while _bernoulli_exp(Fraction(1), draw):
            v += 1
        magnitude = (u + t * v) // s
        negative = draw(2) == 1
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def _bernoulli_exp(gamma: Fraction, draw: Below) -> bool:
    """True with probability e^{−γ}, 0 ≤ γ ≤ 1. CKS 2020, Algorithm 1: the first K with a failure is odd."""
    k = 1
    while draw(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1


def below(source: RandomSource) -> Below:
    """Uniform whole numbers from 64-bit words, without a remainder's bias."""
    words: list[int] = []

    def word() -> int:
        if not words:
            draw = source.draw(1 << 12)
            words.extend(draw.words(np.arange(1 << 12, dtype=np.intp)).tolist())
        return words.pop()

    def draw(count: int) -> int:
        bits = (count - 1).bit_length()
        while True:
            value = 0
            for _ in range(-(-bits // 64)):
                value = value << 64 | word()
            value &= (1 << bits) - 1
            if value < count:
                return value

    return draw
