"""Parameters as a study carries them, and how both sides read them. An error names the parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from askance_protocol.errors import ProtocolError

Parameters: TypeAlias = Mapping[str, int | bool | str]
"""Whole numbers, truths and texts: no floats, because a study's canonical form has none."""


_DECIMAL: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


def refused(name: str, what: str, remedy: str) -> ProtocolError:
    """An error at one parameter."""
    return ProtocolError(what, where=f"parameters.{name}", remedy=remedy)


def only(parameters: Parameters, *known: str) -> None:
    """Refuse parameters of other names: a misspelt one must not pass for a default."""
    for name in parameters:
        if name not in known:
            raise refused(name, "is not a parameter here", f"use {', '.join(known) or 'none'}")


def whole(parameters: Parameters, name: str, least: int, most: int, default: int | None = None) -> int:
    """A whole number from `least` to `most`."""
    value = parameters.get(name, default)
    if type(value) is not int or not least <= value <= most:
        what = "is missing" if value is None else "is not such a number"
        raise refused(name, what, f"give a whole number from {least} to {most}")
    return value


def decimal(parameters: Parameters, name: str, below: int, default: str) -> Fraction:
    """A decimal above 0 and below `below`, written as text because a study's canonical form has no floats."""
    text = parameters.get(name, default)
    value = Fraction(text) if isinstance(text, str) and _DECIMAL.fullmatch(text) else Fraction(0)
    if not 0 < value < below:
        raise refused(name, "is not such a number", f'give a decimal above 0 and below {below}, as text: "{default}"')
    return value
