"""Reading the parameters of a population: whole numbers, decimals as text, bit strings. Errors name the parameter."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from askance_protocol.parameters import Parameters, only, refused, whole

__all__ = ["Parameters", "bits", "decimal", "only", "refused", "whole", "word"]

_DECIMAL: Final = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


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
