"""The random words that made-up users are computed from, addressed by user number.

Word k of user u is word u · each + k of an AES-128-CTR keystream, whose key is the first half of
SHA-256("askance population v1" ‖ seed ‖ kind ‖ 0 ‖ part). There is no state: a user is made of the same words, in
whatever order and company she is asked for. Every part of an example has a key of its own, so that a change in one
(say, noise on the labels) leaves the others as they were.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from askance_protocol.coins import Users
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import Words, keystream, words_at


@dataclass(frozen=True, slots=True)
class Source:
    """The words for one part of every user."""

    seed: int
    kind: str
    part: str
    _key: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.seed) is not int or not 0 <= self.seed < 1 << 128:
            raise ProtocolError("is not an integer in 0 .. 2^128 - 1", where="seed", remedy="give a non-negative int")
        place = f"{self.kind}\0{self.part}".encode()
        key = hashlib.sha256(b"askance population v1" + self.seed.to_bytes(16, "big") + place).digest()[:16]
        object.__setattr__(self, "_key", key)

    def of(self, part: str) -> Source:
        """The words for another part of the same users."""
        return Source(self.seed, self.kind, part)

    def words(self, users: Users, each: int) -> Words:
        """The words of these users, a row a user."""
        if isinstance(users, range):
            return keystream(self._key, 8 * each * users.start, 8 * each * len(users)).view("<u8").reshape(-1, each)
        places = users.astype(np.uint64)[:, None] * np.uint64(each) + np.arange(each, dtype=np.uint64)
        return words_at(self._key, places.reshape(-1)).reshape(-1, each)

    def once(self, count: int) -> list[int]:
        """Words that are drawn once for the whole population: its target."""
        return [int(word) for word in self.words(range(count), 1)[:, 0]]
