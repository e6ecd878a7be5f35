"""The protocol's version in requests and responses: a header that names it. Without it, this version is meant."""

from __future__ import annotations

from typing import Final

from askance_protocol.rounds.spec import VERSION as PROTOCOL_VERSION

HEADER: Final = b"askance-protocol"
VERSION: Final = str(PROTOCOL_VERSION).encode()


def version_problem(asked: bytes) -> str:
    """The detail of a version mismatch: it names both versions."""
    spoken = asked.decode("ascii", "replace")[:16] if asked.isalnum() else "something else"
    return f"this server speaks Askance-Protocol {VERSION.decode()}, the request {spoken}"
