"""Lengths of time, as a person writes them."""

from __future__ import annotations

import re
from typing import Final

from askance_protocol.errors import UsageError

_DURATION: Final = re.compile(r"([0-9]{1,9})(s|min|h|d|)", re.ASCII)
_SECONDS: Final = {"": 1, "s": 1, "min": 60, "h": 3600, "d": 86_400}


def seconds_of(text: str, option: str) -> int:
    """Seconds of `90`, `90s`, `30min`, `2h` or `7d`."""
    found = _DURATION.fullmatch(text)
    if found is None or not int(found[1]):
        raise UsageError(f"{text!r} is no length of time", where=option, remedy="write it as 90s, 30min, 2h or 7d")
    return int(found[1]) * _SECONDS[found[2]]
