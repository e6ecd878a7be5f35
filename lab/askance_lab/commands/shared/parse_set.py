"""`--set NAME=VALUE`: any parameter of a strategy, on the command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from askance_protocol.errors import UsageError
from askance_protocol.text import quoted

_WHOLE: Final = re.compile(r"-?(0|[1-9][0-9]{0,18})", re.ASCII)


def parse_set(pairs: Sequence[str]) -> dict[str, int | bool | str]:
    """Read NAME=VALUE pairs; a value is a whole number, `true`, `false` or text, such as bits with a zero in front."""
    words: dict[str, bool] = {"true": True, "false": False}
    parameters: dict[str, int | bool | str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{quoted(pair)} is not NAME=VALUE", where="--set", remedy="write it as --set cells=4")
        parameters[name] = int(value) if _WHOLE.fullmatch(value) else words.get(value, value)
    return parameters
