"""The accuracy that a number of users can meet: the plan, read the other way.

What a strategy calls its accuracy is the first of `PARAMETERS` that its schema reads. The least value is looked for, on
a grid of decimals with so many digits, for which the plan's `enrol` is no more than the users: by bisection, as a plan
needs the fewer users the less it has to be right. Of a strategy that has no such parameter, parity say, it is the
probability of failing that more users make less.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
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
class MetAccuracy:
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
    beyond: UnmetValue | None = None,
    tell: Tell = tell_nobody,
) -> MetAccuracy | None:
    """The best accuracy that so many users can meet; None: nothing can be planned.

    `beyond` is a value that they cannot meet: no better one is tried, and those near where it should be come first.
    """
    runs = strategy if example is None else strategy.on(example)
    name = accuracy_parameter(runs, planning.strategy_parameters(parameters))

    def enrol(value: str) -> int | None:
        tell("trying an accuracy", 0, 0)
        try:
            return plan_enrolment(strategy.name, {**parameters, name: value}, kind, example)
        except AskanceError:
            # What cannot be asked, or not so sharply.
            return None

    return _Grid(name, users, enrol, digits).least(beyond)


@dataclass(frozen=True, slots=True)
class UnmetValue:
    """A value of a parameter, and the users that it takes."""

    value: float
    enrol: int


@dataclass(slots=True)
class _Grid:
    """Decimals with so many digits, and what each takes."""

    name: str
    users: int
    enrol: Callable[[str], int | None]
    digits: int
    _known: dict[int, int | None] = field(default_factory=dict[int, int | None])

    def least(self, beyond: UnmetValue | None) -> MetAccuracy | None:
        """The least value for which there are enough users."""
        low, last = -1, _DECADES * 9 * 10 ** (self.digits - 1) - 1
        if beyond is not None:
            low = self._above(beyond.value, last) - 1
            # Users go as 1/α², so the value is near where as many would do; on each side a step finds it.
            near = self._above(min(0.99, beyond.value * math.sqrt(beyond.enrol / self.users)), last)
            for number in sorted({max(low, near - 2), near, min(last, near + 2)} - {low}):
                if self._enough(number):
                    return self._between(low, number)
                low = number
        # Some strategies refuse to be nearly always wrong.
        ends = (last - 10 ** (self.digits - 1) * part for part in (0, 1, 4, 7))
        high = next((end for end in ends if end > low and self._needed(end) is not None), None)
        return None if high is None else self._between(low, high)

    def _between(self, low: int, high: int) -> MetAccuracy:
        """The least of them, where `low` takes too many."""
        while self._enough(high) and high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._enough(middle) else (middle, high)
        return MetAccuracy(self.name, _decimal(high, self.digits), self._needed(high) or 0, self._enough(high))

    def _enough(self, number: int) -> bool:
        needed = self._needed(number)
        return needed is not None and needed <= self.users

    def _needed(self, number: int) -> int | None:
        if number not in self._known:
            self._known[number] = self.enrol(_decimal(number, self.digits))
        return self._known[number]

    def _above(self, value: float, last: int) -> int:
        """The first of the grid that is larger."""
        return bisect_right(range(last), value, key=lambda number: float(_decimal(number, self.digits)))


def _decimal(number: int, digits: int) -> str:
    """Decimal of this number on the grid: 0.00000100, 0.00000101, … 0.999 for three digits."""
    decade, mantissa = divmod(number, 9 * 10 ** (digits - 1))
    zeros = "0" * (_DECADES - 1 - decade)
    return f"0.{zeros}{mantissa + 10 ** (digits - 1)}".rstrip("0")
