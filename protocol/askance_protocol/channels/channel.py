"""What every randomizer is: a finite channel of integers.

A channel is a table. For each input u it holds a row of positive integer weights that sum to 2⁶⁴, one for each
outcome w, and Pr[R(u) = w] is weight / 2⁶⁴ exactly: the channel is transparent (KLNRS11, Def. 5.13) to the last
bit. A report is the index of an outcome. One uniform 64-bit word chooses it: a channel cuts the 2⁶⁴ words into
consecutive segments, and the outcome is that of the segment the word falls into.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.channels.ratio import WORD
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import Leads, Positions, RandomSource, Words

MAX_CELLS: Final = 1 << 20
"""Inputs × outcomes of a table: enough for 1,024 answers, small enough to print and to check."""

_CHUNK: Final = 1 << 18
"""Users sampled at a time: what they need fits a core's cache."""

Inputs = NDArray[np.integer[Any]]
Outcomes = NDArray[np.unsignedinteger[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Outcomes of many users, and whether whoever knows a seed could have known them."""

    outcomes: Outcomes
    simulated: bool


class Channel(ABC):
    """An ε-local randomizer (KLNRS11, Def. 5.1) on inputs 0 .. inputs − 1, given by its table."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def inputs(self) -> int:
        """How many inputs there are."""

    @property
    @abstractmethod
    def outcomes(self) -> int:
        """How many outcomes there are."""

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

    def weights(self, given: int) -> tuple[int, ...]:
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

    def probability(self, outcome: int, given: int) -> Fraction:
        """Pr[R(given) = outcome], exactly."""
        return Fraction(self.weights(given)[self.check_outcome(outcome)], WORD)

    def choose(self, given: int, word: int) -> int:
        """The outcome that one word chooses: the definition that every faster way must equal."""
        return next(outcome for end, outcome in self.segments(self.check_input(given)) if word < end)

    def randomize(self, given: int, source: RandomSource) -> int:
        """One user's report: one word, whatever the input."""
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

    def check_input(self, given: int) -> int:
        """`given`, if it is one of the inputs."""
        return _index(given, self.inputs, "input")

    def check_outcome(self, outcome: int) -> int:
        """`outcome`, if it is one of the outcomes."""
        return _index(outcome, self.outcomes, "outcome")

    def _check_inputs(self, given: Inputs) -> None:
        if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer):
            raise ProtocolError("are not a one-dimensional array of integers", where="inputs")
        if len(given) and not 0 <= int(given.min()) <= int(given.max()) < self.inputs:
            raise ProtocolError(
                f"are not all in 0 .. {self.inputs - 1}", where="inputs", remedy="encode values as input indexes"
            )


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
        raise ProtocolError(f"{value!r} is not a whole number from {least} to {most}", where=where)
    return value


def _index(value: int, count: int, where: str) -> int:
    if isinstance(value, bool) or not 0 <= value < count:
        raise ProtocolError(f"is not in 0 .. {count - 1}", where=where)
    return int(value)
