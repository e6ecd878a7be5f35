"""What every randomizer is: a finite channel of integers; and what a file of this package says about its channel.

A channel is a table. For each input u it holds a row of positive integer weights that sum to 2⁶⁴, one for each
outcome w, and Pr[R(u) = w] is weight / 2⁶⁴ exactly: the channel is transparent (KLNRS11, Def. 5.13) to the last
bit. A report is the index of an outcome. One uniform 64-bit word chooses it: a channel cuts the 2⁶⁴ words into
consecutive segments, and the outcome is that of the segment the word falls into.

A channel is whole in its own file: the `Channel`, how it is published (a `BaseChannelSpec`: which queries it answers,
and what it is for each), the scores that undo it, and at the end `CHANNEL`, a `ChannelKind` by which the package finds
it. Nothing else lists channels.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Floats, Whole
from askance_protocol.channels.ratio import WORD, meant_as_micro
from askance_protocol.errors import ProtocolError
from askance_protocol.hadamard import Answers, PublicRows
from askance_protocol.queries import Query
from askance_protocol.randomness import Leads, Positions, RandomSource, Words
from askance_protocol.remembering import Remembered
from askance_protocol.schema import Schema
from askance_protocol.values import MicroEpsilon, Value

MAX_CELLS: Final = 1 << 20
"""Inputs × outcomes of a table: enough for 1,024 answers, small enough to print and to check."""

EVEN: Final = 1e-9
"""Scores that differ by less than this part of their spread are the same: they were solved for in floats."""

_CHUNK: Final = 1 << 19
"""Users sampled at a time: what they need fits a core's cache, and a call takes little beside them (measured)."""

Inputs = NDArray[np.integer[Any]]
Outcomes = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Outcomes of many users, and whether they were drawn from a seeded source."""

    outcomes: Outcomes
    simulated: bool


class Channel(ABC):
    """An ε-local randomizer (KLNRS11, Def. 5.1) on inputs 0 .. inputs − 1, given by its table."""

    kind: ClassVar[str]

    def __new__(cls, *given: object, **_named: object) -> Self:
        """Refuse a first argument that looks like a whole ε: `BinaryResponse(1)` would be ε = 0.000001."""
        if given and type(given[0]) is int:
            meant_as_micro(given[0])
        return super().__new__(cls)

    @property
    @abstractmethod
    def inputs(self) -> int:
        """The number of inputs."""

    @property
    @abstractmethod
    def outcomes(self) -> int:
        """The number of outcomes."""

    @property
    @abstractmethod
    def certified_micro_epsilon(self) -> int:
        """The least ε, in micro-ε, for which the integer inequality holds for all inputs and outcomes."""

    @abstractmethod
    def segments(self, given: int) -> Iterator[tuple[int, int]]:
        """How input `given` cuts the words: (first word beyond the segment, its outcome), in order, up to 2⁶⁴."""

    @abstractmethod
    def decide(self, given: Inputs, words: Words) -> Outcomes:
        """The outcome that each word chooses under each input."""

    def settle(self, given: Inputs, leads: Leads) -> tuple[Outcomes, Positions]:  # noqa: ARG002 - a channel that knows a shortcut needs it
        """The outcomes as far as leads decide them, and the positions that need their whole word.

        Where a channel knows no shortcut, every word is needed.
        """
        return np.zeros(len(leads), self.outcome_type), np.arange(len(leads), dtype=np.intp)

    @property
    def outcome_type(self) -> type[np.uint8 | np.uint16 | np.uint32]:
        """The narrowest array type that holds an outcome."""
        return np.uint8 if self.outcomes <= 1 << 8 else np.uint16 if self.outcomes <= 1 << 16 else np.uint32

    def weights(self, given: Whole) -> tuple[int, ...]:
        """The row of input `given`: the number of words that choose each outcome."""
        row = [0] * self.outcomes
        begin = 0
        for end, outcome in self.segments(self.check_input(given)):
            row[outcome] += end - begin
            begin = end
        return tuple(row)

    def table(self) -> tuple[tuple[int, ...], ...]:
        """All rows, in the order of inputs."""
        return tuple(self.weights(given) for given in range(self.inputs))

    def probability(self, outcome: int, given: Whole) -> Fraction:
        """Pr[R(given) = outcome], exactly."""
        return Fraction(self.weights(given)[self.check_outcome(outcome)], WORD)

    def choose(self, given: Whole, word: int) -> int:
        """The outcome that one word chooses: the definition that every faster way must equal.

        All segments are walked, and the outcome is picked at the one that holds the word. A walk that ended there
        would take as long as the noise is large: then an outcome and its time together give the input away.
        """
        chosen = begin = 0
        for end, outcome in self.segments(self.check_input(given)):
            chosen = (chosen, outcome)[(begin <= word) & (word < end)]
            begin = end
        return chosen

    def randomize(self, given: Whole, source: RandomSource) -> int:
        """One user's report: one word and the same steps, whatever the input and the outcome."""
        return self.choose(given, source.word())

    def sample(self, given: Inputs, source: RandomSource) -> Sample:
        """One report for each of many users, the same that `randomize` gives on the same stream."""
        self._check_inputs(given)
        outcomes = np.empty(len(given), self.outcome_type)
        for begin in range(0, len(given), _CHUNK):
            part = given[begin : begin + _CHUNK]
            draw = source.draw(len(part))
            settled, ties = self.settle(part, draw.leads)
            if len(ties):
                settled[ties] = self.decide(part[ties], draw.words(ties))
            outcomes[begin : begin + _CHUNK] = settled
        return Sample(outcomes, source.simulated)

    def scores(self, target: Floats) -> Floats:
        """The score f of each outcome with Σ_w Pr[w|u] · f(w) = target(u) for every input u.

        Where a channel knows no formula: the shortest solution by least squares over its table. Refused where the
        table does not determine what is asked.
        """
        table = matrix(self)
        solution: Floats = np.linalg.lstsq(table, target, rcond=None)[0].astype(np.float64)
        if not np.allclose(table @ solution, target, rtol=0, atol=1e-9 * max(1.0, float(np.abs(solution).max()))):
            raise ProtocolError(
                "does not determine what is asked",
                where="channel",
                remedy="use a table whose rows are linearly independent",
            )
        return solution

    def proportions(self, target: Floats) -> tuple[float, float] | None:  # noqa: ARG002 - a channel that has them needs it
        """Where the score takes two values: how likely the larger one is under the least and the greatest target.

        Sample sizes are then exact binomial tails. None: they come from Bernstein's inequality, which needs the
        table only.
        """
        return None

    def check_input(self, given: Whole) -> int:
        """`given`, if it is one of the inputs."""
        _refuse_beyond(given, self.inputs, "input")
        return int(given)

    def wide_input(self, given: Whole) -> np.int64:
        """`given` in 64 bits, if it is one of the inputs: to choose with, in the same time for each."""
        _refuse_beyond(given, self.inputs, "input")
        return np.int64(given)

    def check_outcome(self, outcome: int) -> int:
        """`outcome`, if it is one of the outcomes."""
        _refuse_beyond(outcome, self.outcomes, "outcome")
        return int(outcome)

    def _check_inputs(self, given: Inputs) -> None:
        if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
            raise ProtocolError("are not a one-dimensional array of integers", where="inputs")
        if len(given) and not 0 <= int(given.min()) <= int(given.max()) < self.inputs:
            raise ProtocolError(
                f"are not all in 0 .. {self.inputs - 1}", where="inputs", remedy="encode values as input indexes"
            )


class Pooling(Protocol):
    """How a public row turns one of many cells into an input of a channel of few."""

    @property
    def rows(self) -> int:
        """One more than the largest row that is dealt: a power of two."""
        ...

    @property
    def first(self) -> int:
        """The least row that is dealt: 0, or 1 where row 0 would tell nothing."""
        ...

    def encode(self, answer: Whole, row: int) -> Whole:
        """The input for one answer, by the same steps for each."""
        ...

    def encode_all(self, answers: Answers, public_rows: PublicRows) -> NDArray[np.integer[Any]]:
        """The inputs for many answers."""
        ...


class BaseChannelSpec(Value):
    """A channel as it is published: its kind, its numbers, and which channel it is for a query."""

    answers: ClassVar[str] = "every query"
    """The queries it answers, for people to read."""

    if TYPE_CHECKING:
        # Each form declares its own literal; a field here would come first in all of them.
        kind: Any

    @abstractmethod
    def build(self, query: Query, schema: Schema) -> Channel:
        """The channel that randomizes the answers of this query; refuses a query that it does not answer."""

    def outcomes(self, query: Query, schema: Schema) -> int:
        """The number of outcomes of the channel of this query. All of a round's parts are asked; few are ever built."""
        return self.build(query, schema).outcomes

    def work(self, query: Query) -> int:  # noqa: ARG002 - a channel whose table grows with the query looks at it
        """About how many microseconds it takes to build and to certify the channel, told without building it."""
        return 1

    def pooling(self, query: Query, schema: Schema) -> Pooling | None:  # noqa: ARG002 - a channel that pools looks at them
        """How a public row turns the cell of this query into an input; None: the answer says which input it is."""
        return None

    def refuse(self, query: Query) -> ProtocolError:
        """The error for a query that this channel does not answer."""
        return ProtocolError(
            f"a {self.kind} channel does not answer a {query.kind} query",
            where="channel",
            remedy=f"{self.kind} answers {self.answers}; binary answers every query",
        )


class EpsilonSpec(BaseChannelSpec):
    """A channel that is published by its ε."""

    micro_epsilon: MicroEpsilon


@dataclass(frozen=True, slots=True)
class ChannelKind:
    """One kind of channel: its published form, and how the command line builds one."""

    name: str
    summary: str
    spec: type[BaseChannelSpec]
    options: Mapping[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    """Whole numbers that `build` takes besides the micro-ε, each with its default and its help text."""
    build: Callable[..., Channel] | None = None
    """Called as `build(micro_epsilon=…, **options)`. None: the command line does not offer this kind."""


def is_linear(target: Floats) -> bool:
    """Whether a target grows evenly from the first input to the last, so that its ends say all of it."""
    if len(target) == 2:
        return math.isfinite(target[0]) and math.isfinite(target[1])
    even: Floats = np.linspace(float(target[0]), float(target[-1]), len(target))
    return np.allclose(target, even, rtol=0, atol=1e-12 * float(np.ptp(target)))


def _matrix_of(channel: Channel) -> Floats:
    return np.array([[float(weight) for weight in row] for row in channel.table()]) / 2.0**64


matrix: Final = Remembered(_matrix_of, lambda table: table.nbytes, most=32 << 20)
"""A channel's table in floats: Pr[w|u], a row for each input."""


def extremes(columns: Iterator[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """The smallest and the largest weight of each outcome, over all inputs."""
    return ((min(column), max(column)) for column in columns)


def check_size(inputs: int, outcomes: int) -> None:
    """Refuse a table too large to print and to check."""
    if inputs * outcomes > MAX_CELLS:
        raise ProtocolError(
            f"{inputs} inputs × {outcomes} outcomes are more than {MAX_CELLS} cells",
            where="channel",
            remedy="use fewer, or a Hadamard part: one bit for any number of cells",
        )


def whole_number(value: object, where: str, least: int, most: int) -> int:
    """`value`, if it is an int (not a bool) from `least` to `most`."""
    if type(value) is not int or not least <= value <= most:
        raise ProtocolError(f"is not a whole number from {least} to {most}", where=where)
    return value


def _refuse_beyond(value: Whole, count: int, where: str) -> None:
    if isinstance(value, bool) or not 0 <= value < count:
        raise ProtocolError(f"is not in 0 .. {count - 1}", where=where)
