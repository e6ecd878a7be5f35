"""The databases of a curator: labelled whole numbers, labelled bits. Checked once, then trusted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from askance_protocol import checks
from askance_protocol.arrays import Truths
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.schema import BitsField

PackedBits: TypeAlias = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """Labelled whole numbers: x_i in X_d = {0, …, 2^d − 1}, y_i whether the concept holds. BNS13, §3."""

    d: int
    points: tuple[int, ...]
    labels: tuple[bool, ...]

    @classmethod
    def of(cls, d: int, points: Iterable[int], labels: Iterable[bool | int]) -> LabelledSample:
        """Check points and labels; labels are 0 and 1."""
        xs, ys = in_domain(d, points), tuple(labels)
        if len(xs) != len(ys):
            raise ProtocolError("are not as many as the points", where="labels", remedy="give each point its label")
        if any(y not in (0, 1) for y in ys):
            raise ProtocolError("are not all 0 or 1", where="labels", remedy="write 1 where the concept holds")
        return cls(d, xs, tuple(map(bool, ys)))

    @classmethod
    def of_columns(cls, columns: Columns) -> LabelledSample:
        """Read the columns x, bits as whole numbers, and y."""
        raw = _rows_of_words(columns).astype("<u8", copy=False)
        points = tuple(int.from_bytes(row.tobytes(), "little") for row in raw)
        return cls(_width(columns), points, tuple((columns["y"] == 1).tolist()))

    def pairs(self) -> tuple[tuple[int, bool], ...]:
        """The examples, each with its label."""
        return tuple(zip(self.points, self.labels, strict=True))

    def __len__(self) -> int:
        return len(self.points)


def in_domain(d: int, points: Iterable[int]) -> tuple[int, ...]:
    """Check that there is a point and all are in X_d. The error does not say which is wrong: they are private."""
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
    def of(cls, bits: ArrayLike, labels: ArrayLike) -> BitSample:
        """Check and pack a 0/1 matrix, a row an example, and 0/1 labels."""
        x, y = np.asarray(bits), np.asarray(labels)
        remedy = "give a matrix of 0 and 1, a row an example, and a label of 0 or 1 to each"
        fits = x.ndim == 2 and x.size > 0 and y.shape == x.shape[:1]
        checks.require(fits, "is empty or has no shape of labelled bits", where="database", remedy=remedy)
        binary = bool(((x == 0) | (x == 1)).all() and ((y == 0) | (y == 1)).all())
        checks.require(binary, "has entries that are neither 0 nor 1", where="database", remedy=remedy)
        return cls(x.shape[1], packed(x.astype(np.uint8)), y.astype(np.bool))

    @classmethod
    def from_rows(cls, d: int, rows: Sequence[tuple[Sequence[int], int]]) -> BitSample:
        """Check and pack (bits, label) pairs, as the checker of distributions hands them over."""
        checks.require(bool(rows), "is empty", where="database", remedy="give at least one entry")
        checks.require(
            all(len(bits) == d for bits, _ in rows),
            f"has entries without {d} bits",
            where="database",
            remedy="choose d to fit",
        )
        return cls.of(np.array([list(bits) for bits, _ in rows]), np.array([label for _, label in rows]))

    @classmethod
    def of_odd(cls, columns: Columns) -> BitSample:
        """Read the columns x and y for PARITY: a label is an exponent of −1, so 1 where y = −1."""
        return cls(_width(columns), _rows_of_words(columns), columns["y"] != 1)

    @classmethod
    def of_positive(cls, columns: Columns) -> BitSample:
        """Read the columns x and y with labels that are 1 where the concept holds, y = +1."""
        return cls(_width(columns), _rows_of_words(columns), columns["y"] == 1)

    def __len__(self) -> int:
        return len(self.labels)


def masked_examples(columns: Columns) -> BitSample:
    """Read the columns x, i, b and y of MASKED-PARITY as examples of PARITY in d + 1 bits."""
    return masked(_width(columns), _rows_of_words(columns), columns["i"], columns["b"][0], columns["y"] != 1)


def masked(d: int, words: ArrayLike, i: ArrayLike, b: ArrayLike, odd: ArrayLike) -> BitSample:
    """Turn examples (x, i, b) into examples of PARITY in d + 1 bits: (x, 1) where b = 0, e_i where b = 1.

    KLNRS11, §5.3. With the mask bit a as r_d, the exponent r·x + a of an example with b = 0 is (r,a)·(x,1), and r_i of
    one with b = 1 is (r,a)·e_i: a public map of the examples, one by one. `words` are x, a row an example, as in
    `BitSample`; `odd` is where the label is −1: the exponent is odd. Any d.
    """
    x, which, shown = np.asarray(words, np.uint64), np.asarray(i), np.asarray(b)
    labels = np.asarray(odd)
    remedy = "give each example its x, i, b and label: words of d bits, i from 0 to d − 1, b and label 0 or 1"
    shape = (x.shape[:1], which.shape, shown.shape, labels.shape)
    fits = x.ndim == 2 and x.size > 0 and x.shape[1] == -(-d // 64) and len(set(shape)) == 1
    checks.require(fits, "is empty or has no shape of masked examples", where="database", remedy=remedy)
    whole = bool(np.isin(which, np.arange(d)).all() and np.isin(shown, (0, 1)).all() and np.isin(labels, (0, 1)).all())
    checks.require(whole, "has entries outside their ranges", where="database", remedy=remedy)
    bits = np.concatenate([unpacked(x, d), np.ones((len(x), 1), np.uint8)], axis=1)
    unit = np.arange(d + 1) == which[:, None]
    return BitSample(d + 1, packed(np.where(shown[:, None] == 1, unit, bits).astype(np.uint8)), labels.astype(np.bool))


def _width(columns: Columns) -> int:
    field = columns.schema.fields[columns.schema.position["x"]]
    if isinstance(field, BitsField):
        return field.width
    raise ProtocolError("are no bits", where="column x", remedy="give examples whose x is a vector of bits")


def _rows_of_words(columns: Columns) -> PackedBits:
    """The bits of x, a row an example."""
    return np.ascontiguousarray(columns["x"].view(np.uint64).T)


def packed(bits: NDArray[np.uint8]) -> PackedBits:
    """Pack rows of bits into rows of 64-bit words, the first bit lowest."""
    rows, d = bits.shape
    width = -(-d // 64)
    padded = np.zeros((rows, 64 * width), np.uint8)
    padded[:, :d] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def unpacked(words: PackedBits, d: int) -> NDArray[np.uint8]:
    """Unpack rows of words into rows of d bits."""
    as_bytes = np.ascontiguousarray(words, "<u8").view(np.uint8)
    return np.unpackbits(as_bytes, axis=1, bitorder="little")[:, :d]
