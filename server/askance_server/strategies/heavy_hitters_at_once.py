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
from typing import Final

import numpy as np

from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import Affine, If, Integer, Parity, Slice, Term
from askance_server.core.strategy import Ask, Asking
from askance_server.strategies.shared.heavy_strings import Heavy, heavy_hitters, hypothesis

HASH: Final = 9
MOST_CELLS: Final = 1 << 17
"""Cells of all queries together: their tallies have to fit into one entry of the bulletin."""


def masks(width: int) -> list[int]:
    """The parities that are the hash: the same for everybody, for this width."""
    digests = (hashlib.shake_256(f"askance heavy hitters v1 {width} {at}".encode()) for at in range(HASH))
    return [int.from_bytes(each.digest(-(-width // 8))) & ((1 << width) - 1) for each in digests]


def bucket(string: int, width: int) -> int:
    """The hash of a string."""
    return sum((string & mask).bit_count() % 2 << at for at, mask in enumerate(masks(width)))


def chunks(width: int) -> list[range]:
    """The bits of each chunk: as many as there is room for, since each chunk costs users of its own."""
    size = max(size for size in range(1, 8) if size == 1 or -(-width // size) << (HASH + size) <= MOST_CELLS)
    return [range(first, min(first + size, width)) for first in range(0, width, size)]


def hashed(field: str, width: int, chunk: range) -> CellQuery:
    """The bucket of the string, and the bits of a chunk below it."""
    size = len(chunk)
    parities = (
        If(test=Parity(field=field, mask=f"{mask:x}"), then=Integer(of=1 << (size + at)), otherwise=Integer(of=0))
        for at, mask in enumerate(masks(width))
    )
    after = Slice(field=field, first=chunk.start, width=size)
    return CellQuery(
        cells=1 << (HASH + size), cell=Affine(terms=tuple(Term(weight=1, of=x) for x in (*parities, after)))
    )


def asking(heavy: Heavy) -> Asking:
    """All chunks at once."""
    width = heavy.field.width
    pieces = chunks(width)
    answers = yield [Ask(hashed(heavy.field.name, width, piece), float(heavy.tolerance)) for piece in pieces]
    tables = [np.reshape(answer, (1 << HASH, -1)) for answer in answers]
    # The least of its chunks' shares: who has the string is in all of these cells.
    least = np.min([table.max(axis=1) for table in tables], axis=0)
    found = dict[str, float]()
    for at in np.argsort(-least, kind="stable")[: heavy.most].tolist():
        string = sum(int(table[at].argmax()) << piece.start for table, piece in zip(tables, pieces, strict=True))
        if least[at] >= 3 * float(heavy.tolerance) and bucket(string, width) == at:
            found[heavy.field.show(string)] = float(np.mean([table[at].max() for table in tables]))
    return hypothesis(heavy, list(found), list(found.values()), ())


HEAVY_HITTERS_AT_ONCE: Final = heavy_hitters(
    "heavy-hitters-at-once", "The strings that many users have, by hashing, from one round", asking, rounds=1
)
