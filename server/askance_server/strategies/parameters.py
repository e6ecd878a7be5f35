"""Reading the parameters of a study: whole numbers, and decimals written as text. Errors name the parameter."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from askance_protocol.parameters import Parameters, only, refused, whole

__all__ = ["Parameters", "decimal", "only", "refused", "whole"]

_DECIMAL: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


def decimal(parameters: Parameters, name: str, below: int, default: str) -> Fraction:
    """A decimal above 0 and below `below`, written as text because a study's canonical form has no floats."""
    text = parameters.get(name, default)
    value = Fraction(text) if isinstance(text, str) and _DECIMAL.fullmatch(text) else Fraction(0)
    if not 0 < value < below:
        raise refused(name, "is not such a number", f'give a decimal above 0 and below {below}, as text: "{default}"')
    return value
