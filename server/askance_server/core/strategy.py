"""What a strategy is: a generator function with a name, a schema for its examples, and parameters.

Name, summary, interactive, rounds, schema and run are enough: such a strategy is planned, run and compared everywhere.
What more it says about itself is used where it is there, and is null where it is not: how its hypothesis labels
examples, what it promises, how far two hypotheses are apart, and whose examples it is shown on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, TypeAlias

from askance_protocol.arrays import Floats, Truths
from askance_protocol.examples import Columns
from askance_protocol.parameters import Parameters
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.schema import Schema

__all__ = ["Answer", "Ask", "Asking", "Features", "Hypothesis", "Learnt", "Parameters", "Strategy", "Truths"]

Answer: TypeAlias = float | Floats
Learnt: TypeAlias = Mapping[str, Any]
"""The JSON value of a hypothesis, or of what is true of a population: both are written alike."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One statistical query and the tolerance within which its answer has to be (KLNRS11, Def. 5.4)."""

    query: BooleanQuery | RealQuery | CellQuery
    tolerance: float


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What was learned: text for a person, and JSON for a program."""

    text: str
    value: Mapping[str, object]
    """JSON values only."""


Asking: TypeAlias = Generator[Sequence[Ask], Sequence[Answer], Hypothesis]


class Features(Enum):
    """Features that a strategy reads from a table whose columns are not its own fields."""

    BITS = "bits"
    """Bits x and a label: each column becomes bits."""
    BITS_AND_OPPOSITES = "bits and their opposites"
    """The same, each bit followed by its opposite: for strategies that cannot ask whether a bit is 0."""
    REALS = "reals"
    """Reals x0, x1, … in [−1, 1], the last of which is always 1, and a label."""
    POINTS = "points"
    """Reals x0, x1, … in [−1, 1], from columns of numbers alone, without a label."""


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
    over: Callable[[Schema], Strategy] | None = None
    """The same strategy over the examples of a study, for one that asks about whatever fields there are.

    Then `schema` is that of its examples where a study names none. What it returns may be put over others again. None:
    it has examples of its own.
    """
    fields: Callable[[Parameters], Sequence[str]] | None = None
    """Fields that it asks about, by their names: of a table the columns that have to be sound. None: all."""
    portions: tuple[int, ...] = ()
    """How the rounds share the users where a study takes all of them; evenly, unless given."""
    predict: Callable[[Learnt, Columns], Truths] | None = None
    """Which examples a hypothesis labels +1; None: it labels none."""
    promise: Callable[[Parameters], float] | None = None
    """The largest error of a hypothesis, but with probability β; None: nothing is promised."""
    error: Callable[[Learnt, Learnt], Fraction | float | None] | None = None
    """How wrong a hypothesis is against the truth, exactly; if it labels, over uniform examples. None: unknown."""
    cost: Callable[[Learnt, Columns], float] | None = None
    """What a hypothesis costs on examples, where wrong labels are not what it is judged by: less is better."""
    examples: str | None = None
    """The kind of made-up users it is shown on (`askance_client.simulation`); None: drawn over its schema."""
    features: Features | None = None
    """What it is given of a table; None: what its schema looks like."""
    small: Parameters | None = None
    """Parameters for a small example, from which a table of all strategies is made; None: four dimensions."""

    def on(self, example: Schema) -> Strategy:
        """The strategy as it runs in a study with these examples."""
        return self if self.over is None else self.over(example)

    def portion(self, number: int) -> Fraction:
        """Share of the users left before round `number` that the round takes."""
        if not self.portions:
            return Fraction(1, self.rounds - number + 1)
        return Fraction(self.portions[number - 1], sum(self.portions[number - 1 :]))
