"""What a question or a concept makes of a vector of bits: automata that read it bit by bit.

Theory of operation
-------------------
A parity of 64 bits tells two classes of vectors apart, not 2⁶⁴: whoever reads the bits one after the other has only to
remember whether those so far were odd. So each thing that is read of a vector is an automaton here (`start`, `step`),
and `classes_of_bits` runs all of them at once over bits that are drawn as it goes. Vectors that lead to the same states
are one class: their chances are added up, in integers, and one of them stands for all. That is the joint law of
whatever is read, exactly: of linear functionals over GF(2) it finds 2 to their rank classes, on biased bits the law of
masks that share bits, of a conjunction of 64 bits two classes, of a list of k rules k + 1.

A class has an example of its own, so no expression is evaluated here: those of the protocol are, on the examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from askance_client.simulation.population.law import BitsLaw

MOST_STATES: Final = 1 << 17
"""Classes of one vector."""


class TooManyClassesError(Exception):
    """More classes of one vector are told apart than can be listed."""


class Statistic(Protocol):
    """Something that is read of a vector: vectors with the same last state are the same to it."""

    @property
    def reads(self) -> int:
        """The bits that it looks at, as a mask."""
        ...

    @property
    def start(self) -> Any:
        """The state before the first bit."""
        ...

    def step(self, state: Any, place: int, bit: int) -> Any:
        """The state after one of its bits; bits come in the order of their places."""
        ...


@dataclass(frozen=True, slots=True)
class Taken:
    """The bits themselves."""

    reads: int
    start: int = 0

    def step(self, state: int, place: int, bit: int) -> int:
        """Remember the bit."""
        return state | bit << place


@dataclass(frozen=True, slots=True)
class Weighed:
    """The sum of the weights of those bits that are 1."""

    weights: tuple[int, ...]
    start: int = 0

    @property
    def reads(self) -> int:
        """Bits that weigh something."""
        return sum(1 << place for place, weight in enumerate(self.weights) if weight)

    def step(self, state: int, place: int, bit: int) -> int:
        """Add the weight."""
        return state + bit * self.weights[place]


@dataclass(frozen=True, slots=True)
class OddTerms:
    """Whether an odd number of terms hold, each of which asks some bits to have given values.

    A parity has a term a bit, a conjunction is one term. Terms whose bits stand close together are few at a time.
    """

    terms: tuple[tuple[int, int], ...]
    """A mask, and the values of its bits."""
    start: tuple[int, int] = (0, 0)
    """Whether it is odd so far; and which of the terms that have begun do not hold any more."""
    _at: dict[int, list[tuple[int, int, bool]]] = field(init=False, repr=False, compare=False)
    """By place, the terms that look at it: the number, the value, and whether it is the last bit."""

    def __post_init__(self) -> None:
        at = dict[int, list[tuple[int, int, bool]]]()
        for number, (mask, values) in enumerate(self.terms):
            for place in range(mask.bit_length()):
                if mask >> place & 1:
                    at.setdefault(place, []).append((number, values >> place & 1, mask >> place == 1))
        object.__setattr__(self, "_at", at)

    @property
    def reads(self) -> int:
        """The bits of all terms."""
        return sum(1 << place for place in self._at)

    def step(self, state: tuple[int, int], place: int, bit: int) -> tuple[int, int]:
        """A term counts at its last bit, if it holds; then it is forgotten."""
        odd, failed = state
        for number, value, last in self._at[place]:
            if bit != value:
                failed |= 1 << number
            if last:
                odd ^= ~failed >> number & 1
                failed &= ~(1 << number)
        return odd, failed


@dataclass(frozen=True, slots=True)
class FirstRule:
    """The first of some rules, each a bit and a value, that holds."""

    rules: tuple[tuple[int, int], ...]

    @property
    def reads(self) -> int:
        """The bits of all rules."""
        return sum(1 << place for place in {place for place, _ in self.rules})

    @property
    def start(self) -> int:
        """None so far."""
        return len(self.rules)

    def step(self, state: int, place: int, bit: int) -> int:
        """An earlier rule may hold."""
        holds = (at for at, rule in enumerate(self.rules) if rule == (place, bit))
        return min(state, next(holds, state))


def parity_of(mask: int) -> OddTerms:
    """The parity of the bits of a mask."""
    return OddTerms(tuple((1 << place, 1 << place) for place in range(mask.bit_length()) if mask >> place & 1))


def classes_of_bits(law: BitsLaw, statistics: Sequence[Statistic]) -> tuple[list[int], list[int]]:
    """A vector of each class, and the class's weight. Bits that nothing reads are 0."""
    reads = [each.reads for each in statistics]
    reading = [[mask >> place & 1 for mask in reads] for place in range(law.field.width)]
    found = dict[tuple[Any, ...], tuple[int, int]]()
    for part in law.mixed:
        states = {tuple(each.start for each in statistics): (part.weight, 0)} if part.weight else {}
        for place, mine in enumerate(reading):
            if any(mine):
                chances = law.of - part.ones[place], part.ones[place]
                states = _read(states, list(zip(statistics, mine, strict=True)), place, chances)
        for state, (weight, vector) in states.items():
            before, first = found.get(state, (0, vector))
            found[state] = before + weight, first
    return [vector for _, vector in found.values()], [weight for weight, _ in found.values()]


def _read(
    states: dict[tuple[Any, ...], tuple[int, int]],
    statistics: Sequence[tuple[Statistic, int]],
    place: int,
    chances: tuple[int, int],
) -> dict[tuple[Any, ...], tuple[int, int]]:
    """States after one more bit, which some statistics read: the weight of each, and a vector that leads there."""
    after = dict[tuple[Any, ...], tuple[int, int]]()
    for state, (weight, vector) in states.items():
        for bit, chance in enumerate(chances):
            if chance:
                new = tuple(
                    statistic.step(old, place, bit) if reads else old
                    for (statistic, reads), old in zip(statistics, state, strict=True)
                )
                before, first = after.get(new, (0, vector | bit << place))
                after[new] = before + weight * chance, first
    if len(after) > MOST_STATES:
        raise TooManyClassesError
    return after
