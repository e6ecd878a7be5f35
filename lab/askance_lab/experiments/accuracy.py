"""The accuracy that a number of users can meet: the plan, read the other way.

What a strategy calls its accuracy is the first of `PARAMETERS` that its schema reads. The least value is looked for, on
a grid of decimals with so many digits, for which the plan's `enrol` is no more than the users: by bisection, as a plan
needs the fewer users the less it has to be right. Of a strategy that has no such parameter, parity say, it is the
probability of failing that more users make less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from askance_lab.experiments.planned_users import plan_enrolment
from askance_protocol.errors import AskanceError
from askance_protocol.parameters import Parameters
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.schema import Schema
from askance_server.core import planning
from askance_server.core.strategy import Strategy

PARAMETERS: Final = ("alpha", "tolerance", "share", "width")
"""Names of parameters that say how wrong a result may be."""
FAILURE: Final = "beta"
_DECADES: Final = 6


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The least value of a parameter at which so many users suffice."""

    parameter: str
    value: str
    """A decimal, as a parameter has it."""
    enrol: int
    """Users that suffice at this value."""
    met: bool
    """Whether there are as many. If not, no value can be met, and this is the one that takes the fewest."""


def accuracy_parameter(strategy: Strategy, own: Parameters) -> str:
    """The parameter of a strategy that says how wrong its result may be; else the probability of failing."""
    return next((name for name in PARAMETERS if name in own or _reads(strategy, own, name)), FAILURE)


def _reads(strategy: Strategy, own: Parameters, name: str) -> bool:
    try:
        strategy.schema({**own, name: "0.5"})
    except AskanceError:
        return False
    return True


def accuracy_with(
    strategy: Strategy,
    parameters: Parameters,
    users: int,
    kind: str | None = None,
    example: Schema | None = None,
    *,
    digits: int = 3,
    above: str = "0",
    tell: Tell = tell_nobody,
) -> Accuracy | None:
    """The best accuracy that so many users can meet, above a value that they cannot; None: nothing can be planned."""
    runs = strategy if example is None else strategy.on(example)
    name = accuracy_parameter(runs, planning.strategy_parameters(parameters))

    def enrol(value: str) -> int | None:
        tell("trying an accuracy", 0, 0)
        try:
            return plan_enrolment(strategy.name, {**parameters, name: value}, kind, example)
        except AskanceError:
            # What cannot be asked, or not so sharply.
            return None

    return _least(name, users, enrol, digits, float(above))


def _least(name: str, users: int, enrol: Callable[[str], int | None], digits: int, above: float) -> Accuracy | None:
    decade = 9 * 10 ** (digits - 1)
    at, last = partial(_decimal, digits=digits), _DECADES * decade - 1
    # Some strategies refuse to be nearly always wrong.
    ends = (last - decade * part // 9 for part in (0, 1, 4, 7))
    found = next(((end, needed) for end in ends if (needed := enrol(at(end))) is not None), None)
    if found is None:
        return None
    high, least = found
    low = next((number for number in range(high) if float(at(number)) > above), high) - 1 if above else -1
    while least <= users and high - low > 1:
        middle = (low + high) // 2
        needed = enrol(at(middle))
        if needed is None or needed > users:
            low = middle
        else:
            high, least = middle, needed
    return Accuracy(name, at(high), least, least <= users)


def _decimal(number: int, digits: int) -> str:
    """Decimal of this number on the grid: 0.00000100, 0.00000101, … 0.999 for three digits."""
    decade, mantissa = divmod(number, 9 * 10 ** (digits - 1))
    zeros = "0" * (_DECADES - 1 - decade)
    return f"0.{zeros}{mantissa + 10 ** (digits - 1)}".rstrip("0")
