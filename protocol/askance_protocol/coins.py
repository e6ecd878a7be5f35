"""The public coin: which question a user gets, as a function of a public digest and her number.

A coin is 64 bits: bytes 8u .. 8u + 8 of the AES-128-CTR keystream, read little-endian, whose key is the first
half of SHA-256("askance coin v1" ‖ digest) and whose counter begins at zero. A browser computes the same with
WebCrypto. The data have no part in it, so anybody can check that a user was asked what she had to be asked.

The high half of a coin chooses the part of a round, or the slot of a cohort; the low half chooses the Hadamard
row. Part and row are tossed with the digest of the round, the slot with that of the study: a user keeps her slot
from round to round, so that cohorts of different slots are disjoint (KLNRS11, Thm 5.7: "a previously unused
portion of the database").
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Truths
from askance_protocol.canonical import DIGEST
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import Words, keystream, words_at

MAX_USER: Final = 1 << 48
"""User numbers stay below this."""

MAX_CHOICES: Final = 1 << 20
"""Shares, and slots, in all: with a 32-bit half, a browser's numbers hold the product exactly."""

Users = range | NDArray[np.integer[Any]]


@dataclass(frozen=True, slots=True)
class Coin:
    """The coins of all users under one digest."""

    digest: str
    _key: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not DIGEST.fullmatch(self.digest):
            raise ProtocolError("is not a SHA-256 digest in lower-case hexadecimal", where="digest")
        key = hashlib.sha256(b"askance coin v1" + bytes.fromhex(self.digest)).digest()[:16]
        object.__setattr__(self, "_key", key)

    def toss(self, users: Users) -> Words:
        """One coin for each of these users."""
        if isinstance(users, range):
            if len(users) and (users.step != 1 or users.start < 0 or users.stop > MAX_USER):
                raise ProtocolError(
                    "are not a run of user numbers", where="users", remedy=f"number users from 0 to {MAX_USER - 1}"
                )
            return keystream(self._key, 8 * users.start, 8 * len(users)).view("<u8")
        check_users(users)
        return words_at(self._key, users.astype(np.uint64))


def check_users(users: NDArray[np.integer[Any]]) -> None:
    """Refuse anything but an array of user numbers."""
    if users.ndim != 1 or users.dtype.kind not in "iu":
        raise ProtocolError("are not a one-dimensional array of integers", where="users")
    if len(users) and not 0 <= int(users.min()) <= int(users.max()) < MAX_USER:
        raise ProtocolError("are not user numbers", where="users", remedy=f"number users from 0 to {MAX_USER - 1}")


def choices(coins: Words, count: int) -> NDArray[np.uint32]:
    """One of 0 .. count − 1 from the high half: ⌊high · count / 2³²⌋, which are its top bits for a power of two."""
    if count > 1 and count & (count - 1) == 0:
        return (coins >> np.uint64(65 - count.bit_length())).astype(np.uint32)
    return ((coins >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.uint32)


def chosen(coins: Words, count: int, first: int, number: int) -> Truths:
    """Whether the choice of 0 .. count − 1 is one of `number` from `first` on, without looking up which it is."""
    # ⌊high · count / 2³²⌋ ≥ k where high ≥ ⌈k · 2³² / count⌉: coins are compared as they are.
    begin, end = (-(-(choice << 32) // count) << 32 for choice in (first, first + number))
    above = coins if begin == 0 else coins - np.uint64(begin)
    return coins >= np.uint64(begin) if end >> 64 else above < np.uint64(end - begin)


def rows(coins: Words, last: int | NDArray[np.uint16]) -> NDArray[np.uint16]:
    """One of the rows 0 .. last from the low end, where last + 1 is a power of two (or one such last for each coin)."""
    return coins.astype(np.uint16) & np.asarray(last, np.uint16)


def rows_from_one(coins: Words, last: int | NDArray[np.uint16]) -> NDArray[np.uint16]:
    """One of the rows 1 .. last from the low half: 1 + ⌊low · last / 2³²⌋, each to within 2⁻³²."""
    low = coins & np.uint64((1 << 32) - 1)
    return (low * np.asarray(last, np.uint64) >> np.uint64(32)).astype(np.uint16) + np.uint16(1)
