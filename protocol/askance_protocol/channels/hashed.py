"""Hashed response: a public row puts the cells into 2^t buckets, and k-ary response names the example's bucket.

With t = 1 that is the bit of a Hadamard row. The larger ε, the more buckets are best: about e^ε + 1 for small shares
(Wang et al. 2017, USENIX Security, §4.4, where each user draws a hash), e^(ε/2) + 1 for shares of any size. `hashing`
says how a row hashes, and what becomes of signs and of an example in no cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from askance_protocol.channels.channel import ChannelKind, EpsilonSpec
from askance_protocol.channels.kary import KaryResponse
from askance_protocol.errors import ProtocolError
from askance_protocol.hashing import MAX_BITS, MAX_COLUMNS, Buckets
from askance_protocol.queries import CellQuery, Query
from askance_protocol.schema import Schema


@dataclass(frozen=True, slots=True)
class HashedResponse(KaryResponse):
    """k-ary response to a bucket."""

    kind: ClassVar[str] = "hash"


class HashSpec(EpsilonSpec):
    """k-ary response to the bucket of a cell, by a public row: for every cell query."""

    kind: Literal["hash"] = "hash"
    answers = "a cell query"
    bits: Annotated[int, Field(ge=1, le=MAX_BITS)]
    """t: a row puts the cells into 2^t buckets."""

    def build(self, query: Query, schema: Schema) -> HashedResponse:
        """One input and one outcome for each bucket, and for an example in no cell if it could not have a sign."""
        return _response(micro_epsilon=self.micro_epsilon, k=self.pooling(query, schema).outcomes)

    def outcomes(self, query: Query, schema: Schema) -> int:
        """As many as there are inputs."""
        return self.pooling(query, schema).outcomes

    def pooling(self, query: Query, schema: Schema) -> Buckets:
        """The buckets of the query's cells."""
        if not isinstance(query, CellQuery):
            raise self.refuse(query)
        inside, signed = query.always_inside(schema), query.negative is not None
        columns = query.cells + (not inside and not signed)
        if columns > MAX_COLUMNS:
            raise ProtocolError(
                f"has {columns} columns, one for examples in no cell", where="channel", remedy="use a binary channel"
            )
        return Buckets(self.bits, columns, signed, None if inside or not signed else 1 << self.bits)


# Built once: a round is prepared more often than its channels change.
_response = lru_cache(maxsize=64)(HashedResponse)

CHANNEL = ChannelKind("hash", "one of 2^t buckets of cells, by a public row", HashSpec)
