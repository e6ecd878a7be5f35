"""Where random words come from: the operating system for a user, a seeded stream for a simulation.

Theory of operation
-------------------
One report is decided by one uniform 64-bit word. A channel compares that word with cut-points, and its top 16
bits, the *lead*, almost always settle the comparison. So bulk sampling draws the leads of many words and asks
for whole words only where a lead ties with a cut-point: the outcome is exactly that of the whole word, at a
quarter of the randomness.

The seeded stream is addressed by position: word i is (lead i, tail i), both fixed by the key and i. Which words
are completed, in what order and in what chunks therefore changes nothing, and scalar and bulk sampling read the
same words.

A user's own client draws whole words from the operating system, one per report whatever her input: a lazy draw
would take longer on a tie, and how often it ties depends on the input.

Real noise in bulk is drawn by whoever speaks for many users. To read all of it from the operating system takes longer
than to compare floats, so a call reads a key of 16 bytes there, and takes the keystream of AES-128 in counter mode
under it, from its beginning. The key is a local variable of that call: no object, cache or generator holds anything
between two calls. So there is nothing that a fork could copy, that a seed could set, or that would have to be made anew
after a time. Each call rests on the operating system, as a small one does, and on AES (docs/security.md, "What the
noise rests on").
"""

from __future__ import annotations

import hashlib
import os
from typing import Final, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from askance_protocol.errors import ProtocolError

LEAD_BITS: Final = 16
_TAIL_BITS: Final = 64 - LEAD_BITS
_TAIL_MASK: Final = np.uint64((1 << _TAIL_BITS) - 1)
_ZEROS: Final = bytes(1 << 20)
_KEY_BYTES: Final = 16
_READ_AT_ONCE: Final = 2500
"""Bytes up to which it is faster to read them from the operating system than to set up a cipher (measured)."""
_DENSE: Final = 4
"""A word that is drawn alone costs as much as about so many in a row."""

Leads = NDArray[np.uint16]
Words = NDArray[np.uint64]
Positions = NDArray[np.intp]


class Draw(Protocol):
    """A run of random words: their leads are known, and the rest is drawn on demand."""

    @property
    def leads(self) -> Leads:
        """The top 16 bits of each word."""
        ...

    def words(self, positions: Positions) -> Words:
        """The whole words at these positions; ask once for each."""
        ...


class RandomSource(Protocol):
    """A stream of uniform 64-bit words."""

    @property
    def simulated(self) -> bool:
        """Whether a seed is enough to draw the same words again."""
        ...

    def word(self) -> int:
        """The next word."""
        ...

    def draw(self, count: int) -> Draw:
        """The next `count` words, lazily."""
        ...


class OsRandom:
    """The operating system's generator: what a real client uses. It takes no seed and cannot be replayed."""

    @property
    def simulated(self) -> bool:
        """Always false: these words cannot be drawn again."""
        return False

    def word(self) -> int:
        """A fresh word from the operating system."""
        return int.from_bytes(os.urandom(8), "big")

    def draw(self, count: int) -> Draw:
        """Fresh words: many of them from a key that the operating system gives for this call."""
        return _OsDraw(_fresh(2 * count).view("<u2"))


class _OsDraw:
    def __init__(self, leads: Leads) -> None:
        self.leads: Leads = leads

    def words(self, positions: Positions) -> Words:
        return _join(self.leads[positions], _fresh(8 * len(positions)).view("<u8") & _TAIL_MASK)


def _fresh(count: int) -> NDArray[np.uint8]:
    """Bytes that no call has had before, and none will have. The key lives in this call alone."""
    if count <= _READ_AT_ONCE:
        return np.frombuffer(os.urandom(count), np.uint8)
    return keystream(os.urandom(_KEY_BYTES), 0, count)


class SimulatedRandom:
    """A seeded AES-128-CTR stream. For simulations only: the seed is enough to remove all the noise."""

    def __init__(self, seed: int, *, stream: int = 0) -> None:
        for name, value in (("seed", seed), ("stream", stream)):
            if type(value) is not int or not 0 <= value < 1 << 128:
                raise ProtocolError("is not an integer in 0 .. 2^128 - 1", where=name, remedy="give a non-negative int")
        label = b"askance simulation v1" + seed.to_bytes(16, "big") + stream.to_bytes(16, "big")
        keys = hashlib.sha256(label).digest()
        self._lead_key, self._tail_key = keys[:16], keys[16:]
        self._position = 0

    @property
    def simulated(self) -> bool:
        """Always true: reports drawn from here are marked as simulated."""
        return True

    def word(self) -> int:
        """The next word of the stream."""
        return int(self.draw(1).words(np.zeros(1, np.intp))[0])

    def draw(self, count: int) -> Draw:
        """The next `count` words of the stream."""
        start = self._position
        self._position += count
        return _SimulatedDraw(keystream(self._lead_key, 2 * start, 2 * count).view("<u2"), self._tail_key, start)


class _SimulatedDraw:
    def __init__(self, leads: Leads, tail_key: bytes, start: int) -> None:
        self.leads: Leads = leads
        self._tail_key = tail_key
        self._start = start

    def words(self, positions: Positions) -> Words:
        tails = words_at(self._tail_key, positions.astype(np.uint64) + np.uint64(self._start))
        return _join(self.leads[positions], tails & _TAIL_MASK)


def _join(leads: Leads, tails: Words) -> Words:
    return leads.astype(np.uint64) << np.uint64(_TAIL_BITS) | tails


def keystream(key: bytes, start: int, count: int) -> NDArray[np.uint8]:
    """Bytes `start` .. `start + count` of the AES-CTR keystream of `key`, whose counter begins at zero."""
    first, skip = divmod(start, 16)
    encryptor = Cipher(algorithms.AES(key), modes.CTR(first.to_bytes(16, "big"))).encryptor()
    out = np.empty(skip + count + 15, np.uint8)
    room = out.data
    for begin in range(0, skip + count, len(_ZEROS)):
        end = min(begin + len(_ZEROS), skip + count)
        encryptor.update_into(memoryview(_ZEROS)[: end - begin], room[begin : end + 15])
    return out[skip : skip + count]


def words_at(key: bytes, positions: Words) -> Words:
    """The little-endian words at these positions of the same keystream, in any order."""
    count = len(positions)
    first, last = (int(positions.min()), int(positions.max())) if count else (0, 0)
    if last - first <= _DENSE * count:
        run = keystream(key, 8 * first, 8 * (last - first + 1)).view("<u8")
        return run[(positions - np.uint64(first)).view(np.int64)]
    blocks = np.zeros((count, 2), ">u8")
    blocks[:, 1] = positions >> np.uint64(1)
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - single blocks of a counter: this is CTR at chosen places
    pairs = np.empty(16 * count + 15, np.uint8)
    encryptor.update_into(blocks.data.cast("B"), pairs.data)
    odd = (positions & np.uint64(1)).view(np.int64)
    return pairs[: 16 * count].view("<u8")[np.arange(0, 2 * count, 2) + odd]
