"""A trusted curator: sees all examples, and answers each query from a separate chunk with added noise (SuLQ).

BB-notes, Thm 7 = N21, Thm 1, as repaired (trap 9): the chunks are disjoint, so noise of scale 1/(ε|S_i|) on the mean of
chunk S_i is ε-private for everybody; the texts' M/(ε|S_i|) is M times too much for nothing.

The noise is added to whole numbers, as N21, §2 does, and not to floats: integer k with probability in proportion to
e^{−ε|k|/Δ}, where Δ is how much the total changes, at most, when one user is replaced. It is drawn exactly
(`curator.draws`), so that no rounding leaks what a float's last bits would (compare `float_laplace`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from askance_lab.curator.draws import Below, below, discrete_laplace
from askance_lab.evaluation.weighted import signed
from askance_lab.oracles.shared.oracle import Oracle, Spent
from askance_lab.oracles.shared.portions import Portioned, evenly
from askance_lab.oracles.shared.setting import OracleKind, OracleSetting
from askance_protocol.arrays import Floats
from askance_protocol.budget import MICRO, whole_micro
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.randomness import SimulatedRandom
from askance_server.core.strategy import Answer, Ask


@dataclass(slots=True)
class Curator(Portioned):
    """Exact totals of a separate chunk for each query, with two-sided geometric noise."""

    micro_epsilon: int = MICRO
    seed: int = 1
    _below: Below = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole_micro(self.micro_epsilon, least=1)
        self._below = below(SimulatedRandom(self.seed, stream=1))

    def estimate(self, ask: Ask, size: int) -> Answer:
        """Noisy total divided by the chunk's size, which is public."""
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
        """ε of one chunk: no user is in two."""
        return Spent(self.crowd.asked, self.micro_epsilon if self.crowd.asked else 0)


def _curator(setting: OracleSetting) -> Oracle:
    return Curator(setting.people, evenly(setting.planned), micro_epsilon=setting.micro_epsilon, seed=setting.seed)


ORACLE: Final = OracleKind("curator", "noisy totals by a trusted curator, who sees all examples", _curator)
