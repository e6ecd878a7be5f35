"""A channel given by its table: any finite local randomizer, checked and certified before it is used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from askance_protocol.arrays import Floats, Whole
from askance_protocol.channels.channel import (
    EVEN,
    BaseChannelSpec,
    Channel,
    ChannelKind,
    Inputs,
    Outcomes,
    check_size,
    extremes,
)
from askance_protocol.channels.ratio import WORD, certified_micro_epsilon
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import Query
from askance_protocol.randomness import Words
from askance_protocol.remembering import Remembered
from askance_protocol.schema import Schema

Words64: TypeAlias = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,19})\z")]
"""A number of 64-bit words, as decimal text."""


@dataclass(frozen=True, slots=True)
class TabulatedChannel(Channel):
    """A channel given by rows of positive integer weights, each summing to 2⁶⁴."""

    kind: ClassVar[str] = "table"
    rows: tuple[tuple[int, ...], ...]
    _certified: int = field(init=False, compare=False, repr=False)
    _cuts: NDArray[np.uint64] = field(init=False, compare=False, repr=False)
    """For each input, the first word beyond each outcome but the last."""

    def __post_init__(self) -> None:
        if len(self.rows) < 2 or len(self.rows[0]) < 2:
            raise ProtocolError("needs two inputs and two outcomes at least", where="weights")
        check_size(len(self.rows), len(self.rows[0]))
        for given, row in enumerate(self.rows):
            _check_row(row, len(self.rows[0]), f"weights[{given}]")
        object.__setattr__(self, "_certified", certified_micro_epsilon(extremes(zip(*self.rows, strict=True))))
        object.__setattr__(self, "_cuts", np.array(self.rows, np.uint64).cumsum(axis=1)[:, :-1])

    @property
    def inputs(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def outcomes(self) -> int:
        """The number of columns."""
        return len(self.rows[0])

    @property
    def certified_micro_epsilon(self) -> int:
        """Certified from the smallest and the largest weight of every column."""
        return self._certified

    def segments(self, given: int) -> Iterator[tuple[int, int]]:
        """One segment for each outcome, in their order."""
        return zip(accumulate(self.rows[given]), range(self.outcomes), strict=True)

    def choose(self, given: Whole, word: int) -> int:
        """Compare the word with every cut-point of its input. Those of all inputs are at hand, whichever is asked."""
        return int(np.count_nonzero(self._cuts[self.wide_input(given)] <= np.uint64(word)))

    def decide(self, given: Inputs, words: Words) -> Outcomes:
        """Search the cut-points of each input."""
        outcomes = np.empty(len(given), self.outcome_type)
        for one in np.unique(given):
            mine = np.flatnonzero(given == one)
            outcomes[mine] = np.searchsorted(self._cuts[one], words[mine], side="right")
        return outcomes

    def scores(self, target: Floats) -> Floats:
        """The shortest solution; or one of two values, where that has more and there is such a one.

        Where reports are sets of cells, and each is in as many of them, so is the score for the share of a cell: it
        tells sets that have the cell from the others. The mean of two values has an exact interval.
        """
        shortest = Channel.scores(self, target)
        if _is_two_valued(shortest):
            return shortest
        cell, rest = int(np.argmax(target)), np.delete(target, np.argmax(target))
        if not rest.size or np.ptp(rest) or target[cell] <= rest[0]:
            return shortest
        weights = np.array(self.rows, np.float64) / WORD
        mine = weights[cell]
        named = mine > (mine.min() + mine.max()) / 2
        others = np.delete(weights[:, named].sum(axis=1), cell)
        least = float(others.mean())
        lead = float(mine[named].sum()) - least
        # Without a lead the sets are as likely from any cell, and what is asked shows in other outcomes alone.
        if lead < EVEN or np.ptp(others) > EVEN * lead:
            return shortest
        return rest[0] + (target[cell] - rest[0]) * (named - least) / lead

    def proportions(self, target: Floats) -> tuple[float, float] | None:
        """Where the score of a table takes two values, it is unbiased only if they are this likely."""
        score = self.scores(target)
        least, spread = float(score.min()), float(np.ptp(score))
        if not spread or not _is_two_valued(score):
            return None
        return (float(target.min()) - least) / spread, (float(target.max()) - least) / spread


def _is_two_valued(score: Floats) -> bool:
    """Whether a score takes two values, up to what solving for it has rounded."""
    least, spread = score.min(), np.ptp(score)
    return not ((score - least > EVEN * spread) & (score - least < (1 - EVEN) * spread)).any()


def _check_row(row: Sequence[object], length: int, where: str) -> None:
    if len(row) != length:
        raise ProtocolError(f"has {len(row)} weights, the first row {length}", where=where)
    total = 0
    for outcome, weight in enumerate(row):
        if type(weight) is not int or weight < 0:
            raise ProtocolError("is not a non-negative integer", where=f"{where}[{outcome}]")
        if weight == 0:
            raise ProtocolError(
                "is zero: this outcome would rule this input out",
                where=f"{where}[{outcome}]",
                remedy="give every outcome some weight under every input, or drop the outcome",
            )
        total += weight
    if total != WORD:
        raise ProtocolError(f"sums to {total}, not to 2^64 = {WORD}", where=where)


class TableSpec(BaseChannelSpec):
    """Any channel, by its weights: decimal text, since they go beyond 2⁵³."""

    kind: Literal["table"] = "table"
    answers = "a query that has an answer for each row"
    weights: Annotated[tuple[tuple[Words64, ...], ...], Field(min_length=2)]

    def build(self, query: Query, schema: Schema) -> TabulatedChannel:
        """The table itself. It needs one row for each answer of the query."""
        channel, inputs = _tabulated(self.weights), query.inputs(schema)
        if channel.inputs != inputs:
            raise ProtocolError(
                f"has {channel.inputs} rows, the query {inputs} answers",
                where="channel.weights",
                remedy="give one row for each answer",
            )
        return channel

    def outcomes(self, query: Query, schema: Schema) -> int:  # noqa: ARG002 - the table says it
        """The number of columns."""
        return len(self.weights[0])

    def work(self, query: Query) -> int:  # noqa: ARG002 - the table says it
        """One for each weight."""
        return sum(map(len, self.weights))


_WEIGHT_BYTES: Final = 128
"""Of a weight as it is written, as an integer, and as the end of its words; all of them are kept."""


def _tabulated_of(weights: tuple[tuple[str, ...], ...]) -> TabulatedChannel:
    return TabulatedChannel(tuple(tuple(map(int, row)) for row in weights))


_tabulated: Final = Remembered(
    _tabulated_of, lambda channel: _WEIGHT_BYTES * channel.inputs * channel.outcomes, most=32 << 20
)


CHANNEL = ChannelKind("table", "any finite channel, by its weights", TableSpec)
