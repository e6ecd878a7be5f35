"""Monotone conjunctions as BB-notes, Thm 5, learns them, but coarsely at first, and checked on fresh users.

Theory of operation
-------------------
The theorem asks how often x_i = 0 in a positive example, to within τ = α/(2d), and keeps the variables for which that
is at most τ: the target's, for which it is 0, and others that cost α/d each at most. Where the others stand out, far
fewer users tell them. So attempts ask the same at tolerances from 1/8 on (`shared.checked`), with twice the users each
time.

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
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import Not
from askance_protocol.schema import Schema
from askance_server.core.strategy import Ask, Asking, Features, Parameters, Strategy
from askance_server.strategies import conjunction
from askance_server.strategies.conjunction import error, phi, predict, promise
from askance_server.strategies.shared.checked import Attempt, checked, portions, tolerances
from askance_server.strategies.shared.ordering import DEVIATIONS, Seen, conjunction_of

ATTEMPTS: Final = 16
MOST: Final = 1024
"""Bits that are asked about one by one, in three attempts at least."""
_CHECK: Final = 6
"""Portion of a check, where asking has as many as there are variables."""


def schema(parameters: Parameters) -> Schema:
    """An x of d bits, and whether the conjunction holds of it."""
    found = conjunction.schema(parameters)
    _size(parameters)
    return found


def fits(i: int) -> BooleanQuery:
    """1 − φ_i(x, y), φ_i of BB-notes, Thm 5: is x_i = 1, or y = −1? So it is for all, if x_i is one of the target's."""
    return BooleanQuery(test=Not(of=phi(i).test))


def ladder(parameters: Parameters) -> tuple[float, ...]:
    """Tolerances of the attempts: the last is the theorem's."""
    d, alpha = _size(parameters)
    return tolerances(alpha / (2 * d), math.sqrt(2), ATTEMPTS, d + len(DEVIATIONS))


def run(parameters: Parameters) -> Asking:
    """Order the variables, check prefixes, and ask more users until one has error at most α."""
    d, alpha = _size(parameters)
    steps = ladder(parameters)
    return (yield from checked(alpha, _attempts(d, alpha, steps), len(steps)))


def _attempts(d: int, alpha: float, steps: Sequence[float]) -> Iterator[Attempt]:
    seen = Seen(list(range(d)), np.zeros(d), len(steps))
    for tolerance in steps:
        if not seen.last:
            yield _attempt(seen, d, tolerance, alpha)


def _attempt(seen: Seen, d: int, tolerance: float, alpha: float) -> Attempt:
    if seen.left:
        seen.take((yield [Ask(fits(i), tolerance) for i in seen.left]), tolerance, alpha)
    return [conjunction_of(each, d) for each in ([seen.left] if seen.last else seen.prefixes())]


def _size(parameters: Parameters) -> tuple[int, float]:
    return read.whole(parameters, "d", 1, MOST), promise(parameters)


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
    longest="ones",
    portions_for=portions_for,
    predict=predict,
    promise=promise,
    checks=True,
    error=error,
    examples="conjunction",
    features=Features.BITS_AND_OPPOSITES,
    small={"d": 4, "alpha": "0.2"},
)
