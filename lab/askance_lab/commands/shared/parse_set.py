"""`--set NAME=VALUE`: any parameter of a strategy, on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from askance_protocol.errors import ProtocolError


def parse_set(more: Sequence[str]) -> dict[str, int | bool | str]:
    """NAME=VALUE: a whole number, a truth, or text."""
    words: dict[str, bool] = {"true": True, "false": False}
    said: dict[str, int | bool | str] = {}
    for each in more:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise ProtocolError(f"{each!r} is not NAME=VALUE", where="--set", remedy="write --set cells=4")
        digits = value.removeprefix("-")
        said[name] = int(value) if digits.isascii() and digits.isdigit() else words.get(value, value)
    return said
