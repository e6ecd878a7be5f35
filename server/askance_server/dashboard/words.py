"""Numbers, digests and states as people read them: one way for all pages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from askance_protocol.budget import to_text
from askance_protocol.text import printable

_RAISED: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
WIDEST: Final = 0.5
"""An estimate is told as a number where its interval is narrower than this part of the range, else by its interval."""


def whole(number: int) -> str:
    """A number with its thousands apart."""
    return f"{number:,}"


def large(number: int) -> str:
    """A large number to two digits, with its power of ten."""
    digits, power = f"{number:.1e}".split("e+")
    return f"{digits} × 10{str(int(power)).translate(_RAISED)}"


def digest(value: str) -> str:
    """Enough of a digest to compare two at a glance."""
    return f"{value[:4]} {value[4:8]} … {value[-4:]}"


def outward(low: float, high: float, *, share: bool) -> tuple[str, str]:
    """The ends of an interval, rounded outward to what its width tells: shares in per cent."""
    scale, sign = (100, " %") if share else (1, "")
    digits = _digits((high - low) * scale)
    step = 10.0**-digits
    # What differs from a round number in the last bits of a float is that number.
    down = math.floor(low * scale / step + 1e-9) * step
    up = math.ceil(high * scale / step - 1e-9) * step
    return f"{down + 0.0:.{digits}f}{sign}", f"{up + 0.0:.{digits}f}{sign}"


def number(value: float, low: float, high: float, *, share: bool) -> str:
    """An estimate, to as many digits as its interval has."""
    scale, sign = (100, " %") if share else (1, "")
    return f"{value * scale + 0.0:.{_digits((high - low) * scale)}f}{sign}"


def value(told: str, *, share: bool) -> float:
    """The number that was told so: what a chart draws, so that it says no other one than its table."""
    return float(told.removesuffix(" %")) / (100 if share else 1)


def _digits(width: float) -> int:
    """Digits behind the point of a number that is known to this width."""
    return 6 if width <= 0 else min(6, max(0, 1 - math.floor(math.log10(width) + 1e-9)) if width < 5 else 0)


FILTERS: Final[Mapping[str, Callable[..., str]]] = MappingProxyType(
    {"whole": whole, "epsilon": to_text, "large": large, "digest": digest, "printable": printable}
)
"""What templates call them."""
