"""The body of an answer, as it comes over the wire: bounded in size, and never unpacked.

A packed answer may be a thousand times as long as what was sent, and one that is packed twice a million times. So she
asks for answers as they are (`Accept-Encoding: identity`), which every server and proxy can give (RFC 9110, 12.5.3),
and takes no other: what a server wants her to hold, it has to send.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Final, cast

import httpx

from askance_client.refusals import Reason, Refusal

AS_IT_IS: Final = "identity"


async def read_body(response: httpx.Response, most: int) -> bytes | Refusal:
    """Read a body of `most` bytes at most; refuse one that is longer, or says that it will be, or is packed."""
    packed, declared = ",".join(response.headers.get_list("content-encoding")), response.headers.get("content-length")
    if (refused := refused_head(packed, declared or "", most)) is not None:
        return refused
    # In one buffer: as a list, an answer in pieces of a byte would take forty times its length.
    body = bytearray()
    # The stream itself: `aiter_bytes` unpacks.
    async for piece in cast("AsyncIterable[bytes]", response.stream):
        if len(body) + len(piece) > most:
            return too_long(most)
        body += piece
    return bytes(body)


def refused_head(codings: str, declared: str, most: int) -> Refusal | None:
    """Why a body is refused by what its head says of its coding and its length; None if it is not."""
    if codings and {coding.strip().lower() for coding in codings.split(",")} - {AS_IT_IS, ""}:
        return _refused(f"the answer is packed ({codings[:100]}), and was asked for as it is")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > most:
        return _refused(f"the answer is {declared[:20]} bytes long, {most} are the most")
    return None


def too_long(most: int) -> Refusal:
    """The refusal of a body that has come, and is longer than it may be."""
    return _refused(f"the answer is longer than {most} bytes")


def _refused(what: str) -> Refusal:
    return Refusal(Reason.UNREADABLE, what, passing=True)
