"""Reading the parameters of a population: whole numbers, decimals as text, bit strings. Errors name the parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from askance_protocol.errors import ProtocolError

Parameters: TypeAlias = Mapping[str, int | bool | str]
"""As a study carries them: no floats, because its canonical form has none."""

_DECIMAL: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


def refused(name: str, what: str, remedy: str) -> ProtocolError:
    """An error at one parameter."""
    return ProtocolError(what, where=f"parameters.{name}", remedy=remedy)


def only(parameters: Parameters, *known: str) -> None:
    """Refuse parameters of other names: a misspelt one must not pass for a default."""
    for name in parameters:
        if name not in known:
            raise refused(name, "is not a parameter here", f"use {', '.join(known)}")


def whole(parameters: Parameters, name: str, least: int, most: int, default: int | None = None) -> int:
    """A whole number from `least` to `most`."""
    value = parameters.get(name, default)
    if type(value) is not int or not least <= value <= most:
        what = "is missing" if value is None else "is not such a number"
        raise refused(name, what, f"give a whole number from {least} to {most}")
    return value


def decimal(parameters: Parameters, name: str, default: str, *, least: str, most: str) -> Fraction:
    """A decimal from `least` to `most`, as text or as a whole number."""
    given = parameters.get(name, default)
    text = str(given) if type(given) is int else given
    value = Fraction(text) if isinstance(text, str) and _DECIMAL.fullmatch(text) else None
    if value is None or not Fraction(least) <= value <= Fraction(most):
        raise refused(name, "is not such a number", f'give a decimal from {least} to {most}, as text: "{default}"')
    return value


def bits(parameters: Parameters, name: str, width: int) -> str | None:
    """A bit string, x_0 first, if one is given."""
    value = parameters.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) != width or value.strip("01"):
        raise refused(name, "is not a bit string of the example's width", f'give a text of {width} times "0" or "1"')
    return value


def word(parameters: Parameters, name: str, *known: str) -> str:
    """One of some words; the first where none is given."""
    value = parameters.get(name, known[0])
    if not isinstance(value, str) or value not in known:
        raise refused(name, "is not one of the words known here", f"give {' or '.join(known)}")
    return value
