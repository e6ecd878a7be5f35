"""Affine subspaces over GF(2): all r with r·x_i = y_i, by bit-packed elimination, and uniform draws from them.

Theory of operation
-------------------
A row is a vector x of 64-bit words and a last word that holds its label y. Rows are eliminated a *strip* at a time: one
word, 64 columns. Within a strip only that word of each row is looked at, and a second word records which of the strip's
pivot rows have to be added to the row. Then the rest of all rows is brought up to date at once, by the method of the
four Russians: of each 8 pivot rows the 256 sums are tabulated, and a row takes up the one that it needs. Rows that have
become 0 = 0 are dropped, 0 = 1 is an empty space, and a finished strip is never touched again.

A strip's pivot rows are reduced among each other, so a solution is found strip by strip, from the last to the first:
the bits without a pivot are free, and those with one follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_lab.curator.databases import BitSample, PackedBits, packed
from askance_lab.curator.draws import Below
from askance_protocol.arrays import Truths

Places: TypeAlias = NDArray[np.intp]

_WORD: Final = 64
_GROUP: Final = 8
_SPARE: Final = 64
"""This many random rows more than unknowns almost never leave an unknown free."""
_CACHED: Final = 1 << 15
"""Words that are brought up to date in one go: they and the table should stay near the processor."""
_ONE: Final = np.uint64(1)


class Strip(NamedTuple):
    """Reduced pivot rows that begin in one word, each with a pivot bit that no other of them has."""

    word: int
    pivots: Places
    """The pivot of each row, as a bit of the whole vector."""
    rows: PackedBits
    """Their words from `word` on, the label last."""


@dataclass(frozen=True, slots=True, eq=False)
class SolutionSpace:
    """The solutions of consistent equations: 2^`dimension` vectors of d bits."""

    d: int
    strips: tuple[Strip, ...]

    @property
    def rank(self) -> int:
        """Number of independent equations."""
        return sum(len(strip.pivots) for strip in self.strips)

    @property
    def dimension(self) -> int:
        """Base-2 logarithm of the number of solutions."""
        return self.d - self.rank

    def __contains__(self, r: int) -> bool:
        """Whether r, an int with bit i = r_i, solves all equations."""
        if not 0 <= r < 1 << self.d:
            return False
        words = _words_of(r, self.d)
        return all(not _odd(strip.rows, words[strip.word :]).any() for strip in self.strips)

    def free(self) -> Places:
        """Bits that no equation determines."""
        decided = [strip.pivots for strip in self.strips]
        return np.setdiff1d(np.arange(self.d), np.concatenate(decided) if decided else np.empty(0, np.intp))

    def sample(self, draw: Below) -> int:
        """Draw a uniform solution: the free bits are fair coins, and each choice of them has one solution."""
        return self.solution(draw(1 << self.dimension))

    def solution(self, choice: int) -> int:
        """The solution whose free bits are those of `choice`, 0 .. 2^dimension − 1."""
        bits = np.zeros((1, self.d), np.uint8)
        bits[0, self.free()] = _bits_of(choice, self.dimension)
        words = packed(bits)[0]
        for word, pivots, rows in reversed(self.strips):
            # The pivot bits are still 0, so what is odd now is what each of them has to make even.
            places = (pivots - _WORD * word).astype(np.uint64)
            words[word] |= np.bitwise_or.reduce(_odd(rows, words[word:]).astype(np.uint64) << places)
        return int.from_bytes(words.astype("<u8").tobytes(), "little")


def solve(d: int, words: PackedBits, labels: Truths) -> SolutionSpace | None:
    """Solve r·x_i = y_i for all i: V, or None if there is no such r. Without equations V is all of {0,1}^d."""
    rows = np.concatenate([words, labels.astype(np.uint64)[:, np.newaxis]], axis=1)
    rows = rows[rows.any(axis=1)]
    some = _eliminated(d, rows[: d + _SPARE])
    if some is None or len(rows) <= d + _SPARE:
        return some
    if some.dimension:
        return _eliminated(d, rows)
    # One solution is left. Whether the other examples agree with it needs no elimination.
    only = _words_of(some.solution(0), d)
    return None if _odd(rows[d + _SPARE :], only).any() else some


def solve_sample(sample: BitSample, kept: Truths) -> SolutionSpace | None:
    """Solve for V_S, the solutions of the examples that are kept. KLNRS11 §4, step 3 of A."""
    return solve(sample.d, sample.words[kept], sample.labels[kept])


def _eliminated(d: int, rows: PackedBits) -> SolutionSpace | None:
    strips: list[Strip] = []
    for word in range(-(-d // _WORD)):
        if not len(rows):
            break
        chosen, bits, sums = _pivots(rows[:, 0].copy())
        if len(chosen):
            _add(rows, rows[chosen], sums)
            strips.append(Strip(word, bits + _WORD * word, rows[chosen]))
        # All rows but the pivots' are 0 in this strip, and 0 = 0 says nothing.
        rest = np.ones(len(rows), np.bool)
        rest[chosen] = False
        if len(chosen) < _WORD:
            rest &= rows[:, 1:].any(axis=1)
        rows = rows[rest, 1:]
    return None if rows.any() else SolutionSpace(d, tuple(strips))


def _pivots(column: PackedBits) -> tuple[Places, Places, PackedBits]:
    """Gauss–Jordan on one word of each row: the pivot rows, their pivot bits, and which pivot rows to add to each row.

    The sums are in terms of the rows as they came: bit k stands for the k-th pivot row before anything was added to it.
    """
    sums = np.zeros_like(column)
    chosen: list[int] = []
    bits: list[int] = []
    open_ = np.ones(len(column), np.bool)
    for _ in range(min(_WORD, len(column))):
        row = int(np.argmax((column != 0) & open_))
        value = int(column[row])
        if value == 0 or not open_[row]:
            break
        bit = (value & -value).bit_length() - 1
        hit = (column >> np.uint64(bit)) & _ONE
        hit[row] = 0
        column ^= hit * column[row]
        sums ^= hit * (sums[row] ^ (_ONE << np.uint64(len(chosen))))
        chosen.append(row)
        bits.append(bit)
        open_[row] = False
    return np.array(chosen, np.intp), np.array(bits, np.intp), sums


def _add(rows: PackedBits, pivots: PackedBits, sums: PackedBits) -> None:
    """Add to each row the pivot rows that its sum names, in place: 8 of them at a time, out of a table."""
    step = max(1, _CACHED // rows.shape[1])
    for low in range(0, len(pivots), _GROUP):
        table = _table(pivots[low : low + _GROUP])
        which = ((sums >> np.uint64(low)) & np.uint64(len(table) - 1)).astype(np.intp)
        for begin in range(0, len(rows), step):
            part = rows[begin : begin + step]
            part ^= table[which[begin : begin + step]]


def _table(pivots: PackedBits) -> PackedBits:
    """All sums of up to 8 rows; bit k of the index tells whether row k is in the sum."""
    table = np.zeros((1 << len(pivots), pivots.shape[1]), np.uint64)
    for k, pivot in enumerate(pivots):
        table[1 << k : 2 << k] = table[: 1 << k] ^ pivot
    return table


def _odd(rows: PackedBits, words: PackedBits) -> Truths:
    """Whether r·x + y is odd, for each row of words and label."""
    ones = np.bitwise_count(rows[:, :-1] & words).sum(axis=1, dtype=np.uint64) + rows[:, -1]
    return (ones & _ONE).astype(np.bool)


def _bits_of(value: int, count: int) -> NDArray[np.uint8]:
    as_bytes = np.frombuffer(value.to_bytes(-(-count // 8), "little"), np.uint8)
    return np.unpackbits(as_bytes, bitorder="little")[:count]


def _words_of(r: int, d: int) -> PackedBits:
    return np.frombuffer(r.to_bytes(8 * -(-d // _WORD), "little"), "<u8").astype(np.uint64)
