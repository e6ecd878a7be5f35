"""Numbers and digests as people read them: one way for all pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from askance_protocol.budget import to_text

_DIGEST_HEAD: Final = 8
_DIGEST_TAIL: Final = 4


def whole(number: int) -> str:
    """A number with its thousands apart."""
    return f"{number:,}"


def digest(value: str) -> str:
    """Enough of a digest to compare two at a glance."""
    return f"{value[:4]} {value[4:_DIGEST_HEAD]} … {value[-_DIGEST_TAIL:]}"


def clock(seconds: int) -> str:
    """A time of day, in the one zone that all readers share."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


FILTERS: Final[Mapping[str, Callable[..., str]]] = MappingProxyType(
    {"whole": whole, "epsilon": to_text, "digest": digest, "clock": clock}
)
"""What templates call them."""
