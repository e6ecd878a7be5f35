"""Digests of rows, of which seals are sums.

A sum knows no order, and a row more costs one digest, however many there are. Nothing here is secret: a digest tells a
row from another one, and keeps nobody out who knows how it is made.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from askance_protocol.arrays import Integers

Stored: TypeAlias = int | float | str | bytes | memoryview | None
Row: TypeAlias = tuple[Stored, ...]

MODULUS: Final = 1 << 64
"""What sums of rows are taken by."""


def digest(table: str, row: Row) -> int:
    """Digest of a row: BLAKE2b of its values, each with its type and length, under the name of its table."""
    hashed = hashlib.blake2b(digest_size=32, person=table.encode())
    for value in row:
        match value:
            case int():
                hashed.update(b"i%d;" % value)
            case str():
                text = value.encode()
                hashed.update(b"s%d;%b" % (len(text), text))
            case bytes() | memoryview():
                hashed.update(b"b%d;" % len(value))
                hashed.update(value)
            case None:
                hashed.update(b"n;")
            case float():
                hashed.update(b"f%b;" % value.hex().encode())
    return int.from_bytes(hashed.digest(), "little")


@dataclass(frozen=True, slots=True)
class RowSum:
    """The number of some rows of a table, and the sum of their digests modulo 2⁶⁴."""

    rows: int = 0
    sum: int = 0

    @classmethod
    def of(cls, table: str, *rows: Row) -> RowSum:
        """That of rows with anything in them."""
        return cls(len(rows), sum(digest(table, row) for row in rows) % MODULUS)

    @classmethod
    def of_columns(cls, table: str, first: Integers, *others: Integers | int) -> RowSum:
        """That of rows of integers, given as columns: the digest is AES-128 over two columns a block, chained."""
        encryptor = _encryptor(table)
        blocks = np.zeros((len(first), 2), "<i8")
        for number, column in enumerate((first, *others)):
            blocks[:, number % 2] ^= column
            if number % 2 or number == len(others):
                blocks = np.frombuffer(bytearray(encryptor.update(blocks.tobytes())), "<i8").reshape(-1, 2)
        return cls(len(first), int(blocks[:, 0].view("<u8").sum(dtype=np.uint64)))

    @property
    def signed(self) -> int:
        """The same sum as a number of 64 bits with a sign, as a database has them."""
        return self.sum - MODULUS if self.sum >= MODULUS // 2 else self.sum

    def __add__(self, other: RowSum) -> RowSum:
        return RowSum(self.rows + other.rows, (self.sum + other.sum) % MODULUS)

    def __sub__(self, other: RowSum) -> RowSum:
        return RowSum(self.rows - other.rows, (self.sum - other.sum) % MODULUS)


_MINE = threading.local()
"""What each thread encrypts with: to make it takes longer than to use it for one row."""


def _encryptor(table: str) -> CipherContext:
    """AES-128 of single blocks, under a key that is the table's name."""
    known: dict[str, CipherContext] = _MINE.__dict__
    if table not in known:
        key = hashlib.sha256(b"askance seal v1 " + table.encode()).digest()[:16]
        known[table] = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - chained, as CBC-MAC does
    return known[table]
