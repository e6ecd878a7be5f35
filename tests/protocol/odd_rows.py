"""Tables in which one row is not like the others: it alone shows what the table costs, or that it is no channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final

WORD: Final = 1 << 64
OUTCOMES: Final = 8
EVEN: Final[tuple[int, ...]] = (WORD // OUTCOMES,) * OUTCOMES
"""A row that says nothing: a table of such rows costs nothing."""
COST: Final = 693_148
"""Micro-ε of every leaky table below: the least above ln 2, as one weight is half or twice that of the other rows."""
LIMIT: Final = 64
"""Rows of the largest table below."""


@dataclass(frozen=True)
class OddRow:
    """A table of even rows, but for one."""

    name: str
    rows: int
    odd: int
    row: tuple[int, ...]
    place: str | None = None
    """Where the table is refused; None: it is a channel, and costs `COST`."""

    @property
    def expected(self) -> int | str:
        """What there is to find."""
        return COST if self.place is None else self.place

    @property
    def table(self) -> tuple[tuple[int, ...], ...]:
        """All rows."""
        return tuple(self.row if given == self.odd else EVEN for given in range(self.rows))

    def to_json(self) -> dict[str, Any]:
        """The same, for a script."""
        return {"rows": self.rows, "odd": self.odd, "row": list(map(str, self.row)), "even": list(map(str, EVEN))}


def _half(outcome: int) -> tuple[int, ...]:
    """An outcome half as likely; four others make up for it, each by an eighth."""
    return _moved(outcome, -(EVEN[0] >> 1))


def _twice(outcome: int) -> tuple[int, ...]:
    """An outcome twice as likely, at the cost of four others, each a quarter less."""
    return _moved(outcome, EVEN[0])


def _moved(outcome: int, words: int) -> tuple[int, ...]:
    row: list[int] = [*EVEN]
    row[outcome] += words
    for step in range(1, 5):
        row[(outcome + step) % OUTCOMES] -= words // 4
    return tuple(row)


_LEAKS: Final = {
    f"outcome {outcome} {name}": make(outcome)
    for outcome in range(OUTCOMES)
    for name, make in (("half as likely", _half), ("twice as likely", _twice))
}


def leaks() -> Iterator[OddRow]:
    """Each row of each size is once the one that leaks; and of one size, by each outcome both ways."""
    turns = cycle(_LEAKS.items())
    for rows in range(3, LIMIT + 1):
        for odd in range(rows):
            name, row = next(turns)
            yield OddRow(f"row {odd} of {rows}: {name}", rows, odd, row)
    for odd in range(5):
        for name, row in _LEAKS.items():
            yield OddRow(f"row {odd} of 5 again: {name}", 5, odd, row)


def faults() -> Iterator[OddRow]:
    """Each row of some sizes is the one that is none, in each way; in each outcome where that matters."""
    most, least = EVEN[0] + 1, EVEN[0] - 1
    for rows in (3, 4, LIMIT):
        for odd in range(rows):
            here = f"weights[{odd}]"
            outcome = odd % OUTCOMES
            ways = {
                "sums to one more": (_with(outcome, most), here),
                "sums to one less": (_with(outcome, least), here),
                "is as much too large as a row is long": (tuple(2 * weight for weight in EVEN), here),
                "goes beyond all words at one place": (_with(outcome, WORD + EVEN[0]), here),
                "has a zero": (_with(outcome, 0, 2 * EVEN[0]), f"{here}[{outcome}]"),
                # The first row says how long the others are.
                "is shorter": ((*EVEN[2:], 2 * EVEN[0]), here if odd else "weights[1]"),
                "is longer": ((*EVEN[1:], EVEN[0] // 2, EVEN[0] // 2), here if odd else "weights[1]"),
            }
            for name, (row, place) in ways.items():
                yield OddRow(f"row {odd} of {rows} {name}", rows, odd, row, place)


def _with(outcome: int, weight: int, following: int = EVEN[0]) -> tuple[int, ...]:
    row: list[int] = [*EVEN]
    row[outcome], row[(outcome + 1) % OUTCOMES] = weight, following
    return tuple(row)
