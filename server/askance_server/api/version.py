"""The protocol's version on the wire: a header that says which one is spoken. Without it, this one is meant."""

from __future__ import annotations

from typing import Final

from askance_protocol.rounds.spec import VERSION as PROTOCOL_VERSION

HEADER: Final = b"askance-protocol"
VERSION: Final = str(PROTOCOL_VERSION).encode()


def version_problem(asked: bytes) -> str:
    """What is said to somebody who speaks another version: both are named."""
    spoken = asked.decode("ascii", "replace")[:16] if asked.isalnum() else "something else"
    return f"this server speaks Askance-Protocol {VERSION.decode()}, the request {spoken}"
