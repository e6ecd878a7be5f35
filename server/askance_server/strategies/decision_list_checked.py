"""Decision lists as `decision-list` learns them, but coarsely at first, and checked on fresh users.

`decision-list` takes a test for a rule where it is wrong on about α/(2d) of the users, because d rules may add up. On
most populations they do not. So attempts learn at tolerances from 1/8 on, with four times the users each time or more;
the last one's is that of `decision-list`, with what it promises (`shared.checked`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from askance_server.core.strategy import Asking, Features, Parameters, Strategy
from askance_server.strategies.decision_list import ROUNDS, error, grown, predict, promise, schema
from askance_server.strategies.shared.bits import width
from askance_server.strategies.shared.checked import Attempt, Proposal, checked, portions, tolerances
from askance_server.strategies.shared.lists import described, in_runs, positive

ATTEMPTS: Final = 6
SHARPER: Final = 0.2
"""Threshold of an attempt but the last, in tolerances: about two standard deviations."""


def ladder(parameters: Parameters) -> tuple[float, ...]:
    """Tolerances of the attempts: the last is that of `decision-list`."""
    d = width(parameters)
    return tolerances(promise(parameters) / (2 * d + 5), 2, ATTEMPTS, ROUNDS * d + 1)


def run(parameters: Parameters) -> Asking:
    """Learn a list, check it, and ask more users until it has error at most α."""
    steps = ladder(parameters)
    attempts = _attempts(width(parameters), steps)
    return (yield from checked(promise(parameters), attempts, len(steps)))


def _attempts(d: int, steps: Sequence[float]) -> Iterator[Attempt]:
    for tolerance in steps:
        # The theorem's threshold is the least that keeps every rule. What is checked may miss one.
        yield _attempt(d, tolerance * ((2 * d + 5) / (2 * d + 4) if tolerance == steps[-1] else SHARPER), tolerance)


def _attempt(d: int, threshold: float, tolerance: float) -> Attempt:
    rules, otherwise = yield from grown(d, threshold, tolerance)
    rules = in_runs(rules)
    return [Proposal(*described(rules, otherwise), positive(d, rules, otherwise))]


def portions_for(parameters: Parameters) -> tuple[int, ...]:
    """The rounds of a list and one that checks it, an attempt."""
    return portions(len(ladder(parameters)), (2, *(1,) * (ROUNDS - 1), 1))


DECISION_LIST_CHECKED: Final = Strategy(
    name="decision-list-checked",
    summary="A list of tests of one bit, checked on fresh users, who are as few as will do",
    interactive=True,
    rounds=(ROUNDS + 1) * ATTEMPTS,
    schema=schema,
    run=run,
    portions_for=portions_for,
    predict=predict,
    promise=promise,
    checks=True,
    error=error,
    examples="decision-list",
    features=Features.BITS,
    small={"d": 4, "alpha": "0.2"},
)
