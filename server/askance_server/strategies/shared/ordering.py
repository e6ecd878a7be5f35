"""Variables in order of how rarely they are 0 in a positive example, by all that was answered so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

import numpy as np

from askance_protocol.arrays import Floats
from askance_protocol.queries.language import Compare, Dot, Integer
from askance_server.core.strategy import LEVEL, Answer, estimates_in
from askance_server.strategies.shared.checked import Proposal

DEVIATIONS: Final = (2.5, 1.5, 2.0, 3.3, 4.4)
"""How far above 0 a variable's answer may be, for each candidate: the last is about as far as a tolerance."""
_EACH: Final = 8
"""Variables for which there is another candidate: its check costs about as much as asking for half of them."""
_PLANNED: Final = 4.0
"""Standard deviations in a tolerance, about, as the planner meets it."""


@dataclass(slots=True)
class Seen:
    """What is known of the variables so far."""

    left: list[int]
    """Variables that may be the target's."""
    sums: Floats
    """Of the answers, each times the inverse of its variance."""
    attempts: int
    """Number of times that they may be asked about: the level of intervals is shared by these."""
    weight: float = 0
    last: bool = field(default=False)
    """Whether the theorem holds for what is left."""

    def take(self, answers: Sequence[Answer], tolerance: float, alpha: float) -> None:
        """Take in how many fit each of the variables that were left: all but those with x_i = 0 and y = +1."""
        found = 1 - np.array(answers, np.float64)
        sure = estimates_in(answers, 1 - (1 - LEVEL) / (self.attempts * len(self.left)))
        # An oracle that is wrong by exactly τ may be a rounding error beyond it.
        deviation, above = tolerance / _PLANNED, found > tolerance * (1 + 1e-9)
        if sure:
            reach = max(min(1.0, 1 - rest) - each.low for each, rest in zip(sure, found.tolist(), strict=True))
            deviation = reach / NormalDist().inv_cdf((1 + sure[0].level) / 2)
            above &= np.array([each.high < 1 for each in sure])
        self.sums[self.left] += found / deviation**2
        self.weight += 1 / deviation**2
        self.left = [i for i, out in zip(self.left, above.tolist(), strict=True) if not out]
        self.last = 2 * tolerance * len(self.left) <= alpha * (1 + 1e-9)

    def prefixes(self) -> list[list[int]]:
        """Variables that hardly ever stand out, taken more or less strictly: always as many prefixes of the order."""
        means, unit = self.sums / self.weight, self.weight**-0.5
        order = sorted(self.left, key=lambda i: float(means[i]))
        some = DEVIATIONS[: max(2, len(means) // _EACH)]
        sizes = list(dict.fromkeys(sum(means[i] <= far * unit for i in order) for far in some))
        # The next longer ones are as good as any, then the next shorter ones.
        others = sorted(
            set(range(len(order) + 1)) - set(sizes), key=lambda size: (size < sizes[0], abs(size - sizes[0]))
        )
        return [sorted(order[:size]) for size in (sizes + others)[: len(some)]]


def conjunction_of(variables: Sequence[int], d: int) -> Proposal:
    """The conjunction of these variables."""
    kept = frozenset(variables)
    ones = Dot(field="x", weights=tuple(int(i in kept) for i in range(d)))
    text = " ∧ ".join(f"x_{i}" for i in variables) or "true"
    test = Compare(left=ones, relation="=", right=Integer(of=len(variables)))
    return Proposal(text, {"variables": list(variables)}, test)
