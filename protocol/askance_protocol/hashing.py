"""The public row as a hash: it puts the cells of a partition into a few buckets, and a report names one.

Theory of operation
-------------------
Rows and cells are polynomials over GF(2), of which whole numbers are the coefficients, and 2^b rows are a field: they
are multiplied modulo an irreducible polynomial of degree b. Row r puts cell j into the bucket of t bits

    bit i = popcount(j ∧ (r·xⁱ)) mod 2,   i = 0 .. t − 1,   t ≤ b.

With t = 1 that is column j of the Hadamard row r (`hadamard`), as a bit. Whichever bits of the buckets of two cells are
added up, the sums differ by popcount(δ ∧ (r·p)) mod 2 for δ = j ⊕ j' and a polynomial p ≠ 0 of degree below b. To
multiply by p is invertible, so over all rows each of the 2^t differences of two buckets is equally likely.

Row 0 puts all cells into bucket 0. Where each example is in some cell it says nothing, and is left out: two cells are
then in the same bucket with chance (2^(b−t) − 1)/(2^b − 1), a little below 2^−t. An example in no cell is in one cell
more, for which nobody asks.

A *signed* cell turns bit 0 where its sign is −1. Every row says something then, row 0 too; as the difference of two
cells is as likely to be any, what other cells do to the estimate of a cell cancels. An example in no cell has an
outcome of its own, the last.

The bucket is reported by k-ary response.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Whole
from askance_protocol.hadamard import Answers, PublicRows, rows_for

MAX_BITS: Final = 9
"""The bits of a bucket: with "in no cell", k-ary response has one outcome more."""
MAX_COLUMNS: Final = 1 << 16
POLYNOMIALS: Final = (
    *(0b10, 0b11, 0b111, 0b1011, 0b10011, 0b100101, 0b1000011, 0b10000011, 0b100011011),
    *(0x203, 0x409, 0x805, 0x1009, 0x201B, 0x4021, 0x8003, 0x1002B),
)
"""By degree, the least irreducible polynomial over GF(2) other than x."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """The buckets of a query's cells."""

    bits: int
    columns: int
    """Cells, and one more if an unsigned example may be in none."""
    signed: bool
    elsewhere: int | None = None
    """The outcome of a signed example that is in no cell; None: each is in one, or is unsigned."""

    @property
    def rows(self) -> int:
        """A power of two that has a row for each column, and for each bit."""
        return rows_for(max(self.columns, 1 << self.bits))

    @property
    def first(self) -> int:
        """The least row that is dealt."""
        return 0 if self.signed else 1

    @property
    def outcomes(self) -> int:
        """The buckets, and what is in no cell."""
        return (1 << self.bits) + (self.elsewhere is not None)

    def encode(self, answer: Whole, row: int) -> Whole:
        """The bucket of one answer, 0 for none or ±(cell + 1) for a cell; the same steps for each."""
        none = answer == 0
        cell = abs(answer) - 1 + none * self.columns
        bucket: Whole = 0
        for bit, multiple in enumerate(self.multiples(row)):
            bucket |= (int((cell & multiple).bit_count()) & 1) << bit
        bucket = bucket ^ int(answer < 0)
        return bucket if self.elsewhere is None else bucket + none * (self.elsewhere - bucket)

    def encode_all(self, answers: Answers, public_rows: PublicRows) -> NDArray[np.integer[Any]]:
        """The buckets of many answers."""
        cells = np.where(answers == 0, self.columns - 1, np.abs(answers) - 1).astype(np.uint32)
        buckets = (answers < 0).astype(np.uint16)
        for bit, multiples in enumerate(self.multiples(public_rows.astype(np.uint32))):
            buckets ^= (np.bitwise_count(cells & multiples) & np.uint8(1)).astype(np.uint16) << np.uint16(bit)
        if self.elsewhere is not None:
            np.copyto(buckets, self.elsewhere, where=answers == 0)
        return buckets

    def multiples(self, rows: Any) -> Iterator[Any]:
        """r·xⁱ for each bit of the bucket, of one row or of an array of them."""
        degree = self.rows.bit_length() - 1
        for _ in range(self.bits):
            yield rows
            doubled = rows << 1
            rows = doubled ^ (doubled >> degree) * POLYNOMIALS[degree]
