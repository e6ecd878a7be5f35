"""What a strategy is: a generator function with a name, a schema for its examples, and parameters.

Name, summary, interactive, rounds, schema and run are enough: such a strategy is planned, run and compared everywhere.
What more it says about itself is used where it is there, and is null where it is not: how its hypothesis labels
examples, what it promises, how far two hypotheses are apart, and whose examples it is shown on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any, Final, Literal, Protocol, TypeAlias

from askance_protocol.arrays import Floats, Truths
from askance_protocol.examples import Columns
from askance_protocol.parameters import Parameters
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.language import AnyTest
from askance_protocol.schema import Schema

__all__ = [
    "LEVEL",
    "Answer",
    "Answering",
    "Ask",
    "Asking",
    "Estimate",
    "Estimating",
    "Features",
    "Hypothesis",
    "Learnt",
    "Parameters",
    "ReportedAnswers",
    "Reports",
    "SetsOfCells",
    "Strategy",
    "SumsOfCells",
    "Truths",
    "estimates_in",
    "estimates_of_one",
]

Answer: TypeAlias = float | Floats
SetsOfCells: TypeAlias = tuple[tuple[int, ...], ...]
Learnt: TypeAlias = Mapping[str, Any]
"""The JSON value of a hypothesis, or of what is true of a population: both are written alike."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One statistical query and the tolerance within which its answer has to be (KLNRS11, Def. 5.4)."""

    query: BooleanQuery | RealQuery | CellQuery
    tolerance: float
    channel: Literal["fewest", "best", "kary", "binary"] = "fewest"
    """Fewest: through whichever channel needs the fewest reports at this tolerance, for every population. Best: cells
    through whichever channel has the least variance where their shares are even: for a strategy that takes the users it
    gets. Kary: by k-ary response, so that sums of cells have exact intervals. Binary: by one bit."""
    share: int = 0
    """How the users of the round are dealt to its asks: in proportion to this. 0, of all: as their tolerances need."""
    sums: SetsOfCells = ()
    """Of a cell query by k-ary response, the sets of cells whose sums have to be within the tolerance. None: each cell.

    The answer is the share of each cell, all the same.
    """
    row_lead: float = 0
    """Of a cell query by one bit, where only this is sought: the Hadamard row h with the largest Σ_j H[h, j]·cell_j.

    So much it leads every other row, and there are users until it is the right one that leads, which are fewer than
    for each cell within the tolerance. Oracles of other means keep the tolerance. 0: every cell is sought.
    """


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What was learned: text for a person, and JSON for a program."""

    text: str
    value: Mapping[str, object]
    """JSON values only."""


_NONE: Final[Mapping[CellQuery, Sequence[Sequence[int]]]] = {}
LEVEL: Final = 0.95
"""Confidence of the intervals that are shown, unless another is asked for."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What reports say of one question: a number, and an interval that holds with probability `level` at least."""

    name: str
    """The question as it was asked: `share(plan = 'pro')`."""
    estimate: float
    """Within its interval, and so within what the question can have for an answer."""
    low: float
    high: float
    level: float
    reports: int
    """Number of reports that it is made of."""


SumsOfCells: TypeAlias = Mapping[CellQuery, Sequence[Sequence[int]]]
"""For some queries sets of their cells, of each of which the sum is estimated, and not each cell."""


class Estimating(Protocol):
    """The estimates of some questions with intervals at a level: for m of them at once, ask for 1 − β/m."""

    def __call__(self, level: float, sums: SumsOfCells = ..., /) -> Sequence[Estimate]:
        """Estimate each question, and each cell or sum of cells, in the order of the asks."""
        ...


class ReportedAnswers(list[Answer]):
    """Answers of one round that were made from reports: they know how sure they are."""

    def __init__(self, answers: Iterable[Answer], estimates: Estimating) -> None:
        super().__init__(answers)
        self.estimates = estimates


def estimates_in(answers: Sequence[Answer], level: float = LEVEL, sums: SumsOfCells = _NONE, /) -> Sequence[Estimate]:
    """Estimates behind the answers to one round, cell by cell; none where the answers are not made from reports.

    A strategy whose hypothesis is an estimate says by this how sure it is. What it learns must not depend on it: an
    oracle that answers by other means has no intervals.
    """
    return answers.estimates(level, sums) if isinstance(answers, ReportedAnswers) else ()


def estimates_of_one(ask: Ask, sums: SumsOfCells) -> int:
    """The number of estimates that one ask has among those of its round."""
    return (len(sums.get(ask.query, ())) or ask.query.cells) if isinstance(ask.query, CellQuery) else 1


class Reports(Protocol):
    """What one report can tell: all that a strategy may know of ε, whose questions depend on it."""

    @property
    def micro_epsilon(self) -> int:
        """What a report costs."""
        ...

    def apart(self, cells: int, share: float) -> float:
        """Variance of this share of one of so many cells, times the reports, by the channel "best" for them."""
        ...

    def together(self, cells: int, some: int, share: float) -> float:
        """Variance of this share of some of the cells in all, times the reports, by the channel "kary"."""
        ...


Asking: TypeAlias = Generator[Sequence[Ask], Sequence[Answer], Hypothesis]
Answering: TypeAlias = Callable[[Sequence[Ask]], Sequence[Answer]]
"""Answers to the asks of one round."""


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
    over: Callable[[Schema], Strategy | None] | None = None
    """The same strategy over the examples of a study, for one that asks about whatever fields there are.

    Then `schema` is that of its examples where a study names none. What it returns may be put over others again; it
    returns None for examples that it is about as it stands. None: it has examples of its own.
    """
    at: Callable[[Reports], Strategy] | None = None
    """The same strategy as it asks where reports tell so much; None: what it asks does not depend on ε.

    Its schema, fields and hypothesis stay the same: who answers by other means than reports never calls this.
    """
    fields: Callable[[Parameters], Sequence[str]] | None = None
    """Fields that it asks about, by their names: of a table the columns that have to be sound. None: all."""
    portions: tuple[int, ...] = ()
    """How the rounds share the users where a study takes all of them; evenly, unless given."""
    portions_for: Callable[[Parameters], tuple[int, ...]] | None = None
    """The portions of the rounds that these parameters take, where they are known and fewer than `rounds`."""
    predict: Callable[[Learnt, Columns], Truths] | None = None
    """Which examples a hypothesis labels +1; None: it labels none."""
    positive: Callable[[Parameters, Learnt], AnyTest] | None = None
    """The same as a question: whether a hypothesis labels an example +1. None: it cannot be asked (`bounded_noise`)."""
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
    estimates: Callable[[Parameters, Estimating], Sequence[Estimate]] | None = None
    """What a study's result says of its questions, where that is not just the estimate of each, by the query's name.

    It is given the estimates of all rounds that were answered, in the order of the asks, at any level.
    """
    longest: Literal["ones"] | Callable[[Parameters], Answering] | None = None
    """Answers after which it asks the most: whatever else it is answered, none of its rounds takes more users than the
    same round takes after these. "ones": 1, to whatever is asked. None: it does not say, and is tried out."""
    checks: bool = False
    """Its hypothesis says, as "checked", that the promise is kept. Where users are too few for that, it says so."""
    former: Strategy | None = None
    """The form that it had before, if it asked otherwise: studies whose first round is that one's go on with it."""
    small: Parameters | None = None
    """Parameters for a small example, from which a table of all strategies is made; None: four dimensions."""

    def on(self, example: Schema, reports: Reports | None = None) -> Strategy:
        """The strategy as it runs in a study with these examples: its own under other names, or what it takes over."""
        if self.at is not None and reports is not None:
            return self.at(reports).on(example)
        if self.over is not None:
            return self.over(example) or self
        # It makes a strategy, so it knows this class.
        from askance_server.core.renaming import renamed  # noqa: PLC0415

        return renamed(self, example)

    def planned(self, parameters: Parameters) -> Strategy:
        """The same strategy, with as many rounds as these parameters take."""
        if self.portions_for is None:
            return self
        portions = self.portions_for(parameters)
        return replace(self, rounds=len(portions), portions=portions, portions_for=None)

    def portion(self, number: int) -> Fraction:
        """Share of the users left before round `number` that the round takes."""
        if not self.portions:
            return Fraction(1, self.rounds - number + 1)
        return Fraction(self.portions[number - 1], sum(self.portions[number - 1 :]))
