"""Headers of a request, each once, and the one that names the protocol's version; without it, this version is meant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from starlette.types import Scope

from askance_protocol.rounds.spec import VERSION as PROTOCOL_VERSION
from askance_server.problems import ProblemError

HEADER: Final = b"askance-protocol"
LENGTH: Final = b"content-length"
VERSION: Final = str(PROTOCOL_VERSION).encode()
ONCE: Final = frozenset({b"authorization", b"content-type", LENGTH, b"expect", b"host", HEADER})
"""Headers of which two would mean two things: one reader may take the first, another the last (RFC 9110, 5.3)."""


def headers_of(scope: Scope) -> dict[bytes, bytes]:
    """The headers of a request that speaks this version, and says nothing twice that can be said once."""
    given: list[tuple[bytes, bytes]] = scope["headers"]
    headers = dict(given)
    if len(headers) < len(given) and (twice := said_twice(given)):
        raise ProblemError("malformed-request", twice)
    if headers.get(HEADER, VERSION) != VERSION:
        raise ProblemError("version-mismatch", version_problem(headers[HEADER]))
    if (length := headers.get(LENGTH)) is not None:
        headers[LENGTH] = _digits(length)
    return headers


def length_of(headers: Mapping[bytes, bytes]) -> int | None:
    """Length that a request announces, of headers from `headers_of`; None where it announces none."""
    length = headers.get(LENGTH)
    return None if length is None else int(length)


def _digits(length: bytes) -> bytes:
    """A length without the white space that may stand around it (RFC 9110, 5.5): every path reads the same number."""
    digits = length.strip(b" \t")
    if not digits.isdigit():
        raise ProblemError("malformed-request", "the header content-length is not a number")
    # Python reads no number of thousands of digits. One of twenty is over every limit.
    return digits.lstrip(b"0")[:20] or b"0"


def said_twice(headers: list[tuple[bytes, bytes]]) -> str:
    """Which header stands twice that must not; nothing if none does."""
    counts = Counter(name for name, _ in headers)
    return next((f"there are {counts[name]} headers {name.decode()}" for name in sorted(ONCE) if counts[name] > 1), "")


def version_problem(asked: bytes) -> str:
    """The detail of a version mismatch: it names both versions."""
    spoken = asked.decode("ascii", "replace")[:16] if asked.isalnum() else "something else"
    return f"this server speaks Askance-Protocol {VERSION.decode()}, the request {spoken}"
