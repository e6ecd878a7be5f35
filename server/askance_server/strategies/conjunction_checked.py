"""Monotone conjunctions as BB-notes, Thm 5, learns them, but coarsely at first, and checked on fresh users.

Theory of operation
-------------------
The theorem asks how often x_i = 0 in a positive example, to within τ = α/(2d), and keeps the variables for which that is
at most τ: the target's, for which it is 0, and others that cost α/d each at most. Where the others stand out, far fewer
users tell them. So attempts ask the same at tolerances from 1/8 on (`shared.checked`), with twice the users each time.

- *Candidates.* All answers so far are averaged, and the variables ordered. A candidate is a prefix of that order: those
  that are not more than so many standard deviations above 0.
- *Out.* A variable with an answer above its tolerance is 0 in some positive example, so it is none of the target's, and
  is not asked about again.
- *The end.* With m variables left, BB-notes, Thm 5, holds at τ = α/(2m): its conjunction has error at most α. With
  m = d that is the theorem's own tolerance. So no population labelled by a conjunction takes more than the attempts up
  to there, which add up to about twice the last of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.arrays import Floats
from askance_protocol.queries.language import Compare, Dot, Integer
from askance_server.core.strategy import LEVEL, Answer, Ask, Asking, Features, Parameters, Strategy, estimates_in
from askance_server.strategies.conjunction import error, phi, predict, promise, schema
from askance_server.strategies.shared.checked import Attempt, Candidate, checked, portions, tolerances

ATTEMPTS: Final = 16
DEVIATIONS: Final = (2.5, 1.5, 2.0, 3.3, 4.4)
"""How far above 0 a variable's answer may be, for each candidate: the last is about as far as a tolerance."""
_EACH: Final = 8
"""Variables for which there is another candidate: its check costs about as much as asking for half of them."""


@dataclass(slots=True)
class Seen:
    """What is known of the variables so far."""

    left: list[int]
    """Variables that may be the target's."""
    sums: Floats
    """Of the answers, each times the inverse of its variance."""
    weight: float = 0
    last: bool = field(default=False)
    """Whether the theorem holds for what is left."""

    def take(self, answers: Sequence[Answer], tolerance: float, alpha: float) -> None:
        """Take in the answers about the variables that were left."""
        found = np.array(answers, np.float64)
        sure = estimates_in(answers, 1 - (1 - LEVEL) / (ATTEMPTS * len(self.left)))
        deviation, above = tolerance / _PLANNED, found > tolerance
        if sure:
            reach = max(each.high - max(0.0, answer) for each, answer in zip(sure, found.tolist(), strict=True))
            deviation = reach / NormalDist().inv_cdf((1 + sure[0].level) / 2)
            above &= np.array([each.low > 0 for each in sure])
        self.sums[self.left] += found / deviation**2
        self.weight += 1 / deviation**2
        self.left = [i for i, out in zip(self.left, above.tolist(), strict=True) if not out]
        self.last = 2 * tolerance * len(self.left) <= alpha * (1 + 1e-9)

    def prefixes(self) -> list[list[int]]:
        """Variables that hardly ever stand out, taken more or less strictly."""
        means, unit = self.sums / self.weight, self.weight**-0.5
        some = DEVIATIONS[: max(2, len(means) // _EACH)]
        every = [[i for i in self.left if means[i] <= far * unit] for far in some]
        return [each for number, each in enumerate(every) if each not in every[:number]]


def ladder(parameters: Parameters) -> tuple[float, ...]:
    """Tolerances of the attempts: the last is the theorem's."""
    d, alpha = _size(parameters)
    return tolerances(alpha / (2 * d), math.sqrt(2), ATTEMPTS)


def run(parameters: Parameters) -> Asking:
    """Order the variables, check prefixes, and ask more users until one has error at most α."""
    d, alpha = _size(parameters)
    steps = ladder(parameters)
    return (yield from checked(alpha, _attempts(d, alpha, steps), len(steps)))


def _attempts(d: int, alpha: float, steps: Sequence[float]) -> Iterator[Attempt]:
    seen = Seen(list(range(d)), np.zeros(d))
    for tolerance in steps:
        if not seen.last:
            yield _attempt(seen, d, tolerance, alpha)


def _attempt(seen: Seen, d: int, tolerance: float, alpha: float) -> Attempt:
    if seen.left:
        seen.take((yield [Ask(phi(i), tolerance) for i in seen.left]), tolerance, alpha)
    return [_candidate(each, d) for each in ([seen.left] if seen.last else seen.prefixes())]


def _candidate(variables: Sequence[int], d: int) -> Candidate:
    kept = frozenset(variables)
    ones = Dot(field="x", weights=tuple(int(i in kept) for i in range(d)))
    text = " ∧ ".join(f"x_{i}" for i in variables) or "true"
    test = Compare(left=ones, relation="=", right=Integer(of=len(variables)))
    return Candidate(text, {"variables": list(variables)}, test)


def _size(parameters: Parameters) -> tuple[int, float]:
    [x, _] = schema(parameters).fields
    return x.width, float(read.decimal(parameters, "alpha", below=1, default="0.1"))


def portions_for(parameters: Parameters) -> tuple[int, ...]:
    """Two rounds an attempt."""
    return portions(len(ladder(parameters)), (_size(parameters)[0], _CHECK))


CONJUNCTION_CHECKED: Final = Strategy(
    name="conjunction-checked",
    summary="A monotone conjunction of bits, checked on fresh users, who are as few as will do",
    interactive=True,
    rounds=2 * ATTEMPTS,
    schema=schema,
    run=run,
    portions_for=portions_for,
    predict=predict,
    promise=promise,
    error=error,
    examples="conjunction",
    features=Features.BITS_AND_OPPOSITES,
    small={"d": 4, "alpha": "0.2"},
)
