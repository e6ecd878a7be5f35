"""`--set NAME=VALUE`: any parameter of a strategy, on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from askance_protocol.errors import UsageError


def parse_set(pairs: Sequence[str]) -> dict[str, int | bool | str]:
    """Read NAME=VALUE pairs; a value is a whole number, `true` or `false`, or text."""
    words: dict[str, bool] = {"true": True, "false": False}
    parameters: dict[str, int | bool | str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"{pair!r} is not NAME=VALUE", where="--set", remedy="write it as --set cells=4")
        digits = value.removeprefix("-")
        parameters[name] = int(value) if digits.isascii() and digits.isdigit() else words.get(value, value)
    return parameters
