"""The parameters of a study, a strategy or a population, and how they are read. An error names the parameter."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from askance_protocol.errors import ProtocolError

__all__ = ["Parameters", "bits", "decimal", "only", "refused", "whole", "word"]

Parameters: TypeAlias = Mapping[str, int | bool | str]
"""Whole numbers, truths and texts: no floats, because a study's canonical form has none."""


_DECIMAL: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


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


def decimal(
    parameters: Parameters,
    name: str,
    default: str,
    *,
    below: int | None = None,
    least: str = "0",
    most: str = "1",
) -> Fraction:
    """A decimal above 0 and below `below`, or from `least` to `most`.

    It is written as text, because a study's canonical form has no floats; a range takes whole numbers as they are.
    """
    given = parameters.get(name, default)
    text = str(given) if below is None and type(given) is int else given
    value = Fraction(text) if isinstance(text, str) and _DECIMAL.fullmatch(text) else None
    if below is None:
        fits, wanted = value is not None and Fraction(least) <= value <= Fraction(most), f"from {least} to {most}"
    else:
        fits, wanted = value is not None and 0 < value < below, f"above 0 and below {below}"
    if value is None or not fits:
        raise refused(name, "is not such a number", f'give a decimal {wanted}, as text: "{default}"')
    return value


def bits(parameters: Parameters, name: str, width: int) -> str | None:
    """A bit string, x_0 first, if one is given."""
    value = parameters.get(name)
    if value is None:
        return None
    if type(value) is int:
        # 101 on a command line may be meant either way; a number with a leading zero is text already.
        value = str(value)
    if not isinstance(value, str) or len(value) != width or value.strip("01"):
        raise refused(name, "is not a bit string of the example's width", f'give a text of {width} times "0" or "1"')
    return value


def word(parameters: Parameters, name: str, *known: str) -> str:
    """One of several words; the first if none is given."""
    value = parameters.get(name, known[0])
    if not isinstance(value, str) or value not in known:
        raise refused(name, "is not one of the words known here", f"give {' or '.join(known)}")
    return value
