"""Heavy hitters from one round, by hashing: what `heavy_hitters` finds in rounds, asked at once.

Theory of operation
-------------------
The string is cut into chunks of a few bits. A user of chunk c tells in which of the cells (hash of her whole string,
chunk c) she is. A string with share θ or more has a bucket, in which its chunk stands out in each of these queries; put
together they are the string. Its hash has to be that bucket's, or it is none (Bassily and Smith 2015, Proc. STOC, §3,
find heavy hitters by hashing to channels).

The hash of a string is a few parities of its bits, linear and public: strings that were chosen to collide do, and the
lighter of two in a bucket is not found. Those that were not chosen meet with probability 2^−HASH a pair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import numpy as np

from askance_protocol.arrays import Floats
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import Affine, If, Integer, Parity, Slice, Term
from askance_server.core.strategy import Ask, Asking
from askance_server.strategies.shared.heavy_strings import Heavy, heavy_hitters, hypothesis

HASH: Final = 9
WHOLE: Final = 13
"""Strings of so few bits are cells as they are, without a hash."""
MOST_CELLS: Final = 1 << 17
"""Cells of all queries together: their tallies have to fit into one entry of the bulletin."""


def masks(width: int) -> list[int]:
    """The parities that are the hash: the same for everybody, for this width; none where there is no need of any."""
    parities = range(HASH if width > WHOLE else 0)
    digests = (hashlib.shake_256(f"askance heavy hitters v1 {width} {at}".encode()) for at in parities)
    return [int.from_bytes(each.digest(-(-width // 8))) & ((1 << width) - 1) for each in digests]


def bucket(string: int, width: int) -> int:
    """The hash of a string."""
    return sum((string & mask).bit_count() % 2 << at for at, mask in enumerate(masks(width)))


def chunks(width: int) -> list[range]:
    """The bits of each chunk: as many as there is room for, since each chunk costs users of its own."""
    if width <= WHOLE:
        return [range(width)]
    size = max(size for size in range(1, 8) if size == 1 or -(-width // size) << (HASH + size) <= MOST_CELLS)
    return [range(first, min(first + size, width)) for first in range(0, width, size)]


def hashed(field: str, width: int, chunk: range) -> CellQuery:
    """The bucket of the string, and the bits of a chunk below it."""
    size, after = len(chunk), Slice(field=field, first=chunk.start, width=len(chunk))
    parities = [
        If(test=Parity(field=field, mask=f"{mask:x}"), then=Integer(of=1 << (size + at)), otherwise=Integer(of=0))
        for at, mask in enumerate(masks(width))
    ]
    terms = tuple(Term(weight=1, of=number) for number in (*parities, after))
    return CellQuery(cells=1 << (len(parities) + size), cell=Affine(terms=terms) if parities else after)


def asking(heavy: Heavy) -> Asking:
    """All chunks at once."""
    width, pieces = heavy.field.width, chunks(heavy.field.width)
    answers = yield [Ask(hashed(heavy.field.name, width, piece), float(heavy.tolerance)) for piece in pieces]
    if width <= WHOLE:
        shares = {string: float(share) for string, share in enumerate(np.atleast_1d(answers[0]))}
    else:
        shares = together(pieces, [np.reshape(answer, (1 << HASH, -1)) for answer in answers], width)
    likeliest = sorted(shares, key=lambda string: -shares[string])[: heavy.most]
    found = [string for string in likeliest if shares[string] >= 3 * float(heavy.tolerance)]
    return hypothesis(heavy, [heavy.field.show(each) for each in found], [shares[each] for each in found], ())


def together(pieces: Sequence[range], tables: Sequence[Floats], width: int) -> dict[int, float]:
    """The string of each bucket, from the chunk that stands out in each query, and the least of its chunks' shares.

    Who has the string is in all of these cells. A string whose hash is another bucket was put together of several.
    """
    shares = np.min([table.max(axis=1) for table in tables], axis=0).tolist()
    likeliest = [table.argmax(axis=1).tolist() for table in tables]
    strings = (
        sum(part << piece.start for part, piece in zip(parts, pieces, strict=True))
        for parts in zip(*likeliest, strict=True)
    )
    every = enumerate(zip(strings, shares, strict=True))
    return {string: share for at, (string, share) in every if bucket(string, width) == at}


HEAVY_HITTERS_AT_ONCE: Final = heavy_hitters(
    "heavy-hitters-at-once", "The strings that many users have, by hashing, from one round", asking, rounds=1
)
