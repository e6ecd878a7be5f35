"""What a curator is given: labelled whole numbers, labelled bits. Checked once, then believed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_protocol import checks
from askance_protocol.errors import ProtocolError

PackedBits: TypeAlias = NDArray[np.uint64]
Truths: TypeAlias = NDArray[np.bool]


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """S = (x_i, y_i), x_i in X_d = {0, …, 2^d − 1}, y_i whether the concept holds. BNS13, §3. Entries may repeat."""

    d: int
    points: tuple[int, ...]
    labels: tuple[bool, ...]

    @classmethod
    def of(cls, d: int, points: Iterable[int], labels: Iterable[Any]) -> LabelledSample:
        """Checked; labels are 0 and 1."""
        xs, ys = in_domain(d, points), tuple(labels)
        if len(xs) != len(ys):
            raise ProtocolError("are not as many as the points", where="labels", remedy="give each point its label")
        if any(y not in (0, 1) for y in ys):
            raise ProtocolError("are not all 0 or 1", where="labels", remedy="write 1 where the concept holds")
        return cls(d, xs, tuple(map(bool, ys)))

    def __len__(self) -> int:
        return len(self.points)


def in_domain(d: int, points: Iterable[int]) -> tuple[int, ...]:
    """Points of X_d, at least one. The error does not say which is wrong: they are private."""
    checks.count("d", d)
    try:
        xs = tuple(map(index, points))
    except TypeError:
        raise ProtocolError(
            "has entries that are no whole numbers", where="database", remedy="give whole numbers"
        ) from None
    checks.require(bool(xs), "is empty", where="database", remedy="give at least one entry")
    inside = 0 <= min(xs) <= max(xs) < 1 << d
    checks.require(inside, f"has entries that are not in 0 .. 2^{d} − 1", where="database", remedy="choose d to fit")
    return xs


@dataclass(frozen=True, slots=True, eq=False)
class BitSample:
    """Labelled bit vectors: a row an example, bit j at word j // 64, place j % 64; label 1 where r·x is odd."""

    d: int
    words: PackedBits
    labels: Truths

    @classmethod
    def of(cls, bits: Any, labels: Any) -> BitSample:
        """From a 0/1 matrix, a row an example, and 0/1 labels."""
        x, y = np.asarray(bits), np.asarray(labels)
        remedy = "give a matrix of 0 and 1, a row an example, and a label of 0 or 1 to each"
        fits = x.ndim == 2 and x.size > 0 and y.shape == x.shape[:1]
        checks.require(fits, "is empty or has no shape of labelled bits", where="database", remedy=remedy)
        binary = bool(((x == 0) | (x == 1)).all() and ((y == 0) | (y == 1)).all())
        checks.require(binary, "has entries that are neither 0 nor 1", where="database", remedy=remedy)
        return cls(x.shape[1], packed(x.astype(np.uint8)), y.astype(np.bool))

    @classmethod
    def from_rows(cls, d: int, rows: Sequence[tuple[Sequence[int], int]]) -> BitSample:
        """From (bits, label) pairs, as the checker of distributions hands them over."""
        checks.require(bool(rows), "is empty", where="database", remedy="give at least one entry")
        checks.require(
            all(len(bits) == d for bits, _ in rows),
            f"has entries without {d} bits",
            where="database",
            remedy="choose d to fit",
        )
        return cls.of(np.array([list(bits) for bits, _ in rows]), np.array([label for _, label in rows]))

    def __len__(self) -> int:
        return len(self.labels)


def packed(bits: NDArray[np.uint8]) -> PackedBits:
    """Rows of bits as rows of words, the first bit lowest."""
    rows, d = bits.shape
    width = -(-d // 64)
    padded = np.zeros((rows, 64 * width), np.uint8)
    padded[:, :d] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def unpacked(words: PackedBits, d: int) -> NDArray[np.uint8]:
    """And back."""
    as_bytes = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return np.unpackbits(as_bytes, axis=1, bitorder="little")[:, :d]
