"""What a strategy is: a generator function with a name, a schema for its examples, and parameters."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_protocol.parameters import Parameters
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.schema import Schema

__all__ = ["Answer", "Ask", "Asking", "Hypothesis", "Parameters", "Strategy"]

Answer: TypeAlias = float | NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ask:
    """One statistical query and the tolerance within which its answer has to be (KLNRS11, Def. 5.4)."""

    query: BooleanQuery | RealQuery | CellQuery
    tolerance: float


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What was learned: for a person to read, and for a program to use."""

    text: str
    value: Mapping[str, object]
    """JSON values only."""


Asking: TypeAlias = Generator[Sequence[Ask], Sequence[Answer], Hypothesis]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A learner that runs as an aggregator."""

    name: str
    summary: str
    interactive: bool
    rounds: int
    """The most rounds that it asks: what is planned for, and what a study is stopped at."""
    schema: Callable[[Parameters], Schema]
    """The examples it learns from. Refuses parameters that it cannot use, naming them.

    The names epsilon, beta, users and deadline_seconds are the planner's: a strategy never sees them.
    """
    run: Callable[[Parameters], Asking]
    portions: tuple[int, ...] = ()
    """How the rounds share the users where a study takes all of them; evenly, unless it is said."""

    def portion(self, number: int) -> Fraction:
        """Of the users who are left before round `number`, how many are its own."""
        portions = self.portions or (1,) * self.rounds
        return Fraction(portions[number - 1], sum(portions[number - 1 :]))
