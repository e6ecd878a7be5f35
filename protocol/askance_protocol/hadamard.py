"""The public Hadamard row: one bit answers a whole partition.

H is the Sylvester matrix with a power of two of rows, H[r, j] = (−1)^popcount(r ∧ j). A user whose public row is
r and whose example lies in cell j with sign s reports s · H[r, j] through binary response; in no cell, she
reports a fair coin. H is orthogonal, so the mean over users of report · H[r, j] is the signed share of cell j.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers, Whole

Answers: TypeAlias = NDArray[np.signedinteger[Any]]
PublicRows: TypeAlias = NDArray[np.uint16]

NEITHER = 1
"""Input of a binary response with two steps: 0 stands for −1, 1 for "in no cell", 2 for +1."""


def rows_for(cells: int) -> int:
    """The number of rows of the smallest Sylvester matrix with a column for each cell."""
    return 1 << (cells - 1).bit_length()


def encode(answer: Whole, row: int) -> Whole:
    """The input of binary response for one answer, 0 for none or ±(cell + 1) for a cell; the same steps for each."""
    odd = ((abs(answer) - 1) & row).bit_count() & 1 ^ (answer < 0)
    return NEITHER + (answer != 0) * (1 - 2 * odd)


def encode_all(answers: Answers, public_rows: PublicRows) -> NDArray[np.uint8]:
    """The inputs of binary response for many answers: sign bit, parity of row ∧ cell, and none in the middle."""
    cells = (np.abs(answers) - 1).astype(np.uint16)
    odd = np.bitwise_count(cells & public_rows) & np.uint8(1) ^ (answers < 0).view(np.uint8)
    inputs = (odd ^ np.uint8(1)) << np.uint8(1)
    np.copyto(inputs, NEITHER, where=answers == 0)
    return inputs


@dataclass(frozen=True, slots=True)
class HadamardRows:
    """How a part pools cells by these rows."""

    rows: int

    @property
    def first(self) -> int:
        """The least row that is dealt."""
        return 0

    def encode(self, answer: Whole, row: int) -> Whole:
        """The input for one answer."""
        return encode(answer, row)

    def encode_all(self, answers: Answers, public_rows: PublicRows) -> NDArray[np.integer[Any]]:
        """The inputs for many answers."""
        return encode_all(answers, public_rows)


def transform(column: Integers) -> Integers:
    """H · column, by the fast Walsh–Hadamard transform, in integers."""
    values = column.copy()
    half = 1
    while half < len(values):
        pairs = values.reshape(-1, 2, half)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        half *= 2
    return values
