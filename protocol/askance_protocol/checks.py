"""Pre-conditions of formulas, and the ceiling that turns a formula into a number of users."""

from __future__ import annotations

import math

from askance_protocol.errors import ProtocolError


def require(holds: bool, what: str, *, where: str, remedy: str) -> None:
    """Refuse parameters that violate a theorem's side condition."""
    if not holds:
        raise ProtocolError(what, where=where, remedy=remedy)


def positive(name: str, value: float) -> float:
    """`value`, if it is finite and above 0, as a tolerance, an ε or a scale must be (NaN fails every comparison)."""
    require(
        0 < value < math.inf, f"must be positive and finite, not {value}", where=name, remedy="give a number above 0"
    )
    return value


def open_unit(name: str, value: float) -> float:
    """`value`, if it lies strictly between 0 and 1, as a failure probability or an error rate must."""
    require(0 < value < 1, f"must lie strictly between 0 and 1, not {value}", where=name, remedy="try 0.05")
    return value


def between(name: str, value: float, lowest: float, highest: float) -> float:
    """`value`, if it lies in a closed interval."""
    remedy = f"give a number from {lowest} to {highest}"
    require(lowest <= value <= highest, f"must lie in [{lowest}, {highest}], not {value}", where=name, remedy=remedy)
    return value


def count(name: str, value: int, *, least: int = 1) -> int:
    """`value`, if it is a whole number of queries, users, bits or hypotheses (there may be 2**4096 of them)."""
    require(
        value >= least and value % 1 == 0,
        f"must be a whole number of at least {least}",
        where=name,
        remedy="give a whole number",
    )
    return value


def keep_probability(name: str, value: float) -> float:
    """`value`, if randomized response can tell the truth with this probability: above ½, or it says nothing."""
    require(0.5 < value < 1, f"must lie strictly between 1/2 and 1, not {value}", where=name, remedy="use e^ε/(1+e^ε)")
    return value


def whole(value: float, what: str = "users") -> int:
    """The smallest count that is at least `value`.

    A formula that is a whole number on paper may come out a few units in the last place above it: that is rounding,
    not one more person.
    """
    remedy = "ask for less: a larger tolerance or failure probability, a smaller dimension"
    require(
        math.isfinite(value), "the bound is larger than any number this machine can hold", where=what, remedy=remedy
    )
    nearest = round(value)
    return max(1, nearest if abs(value - nearest) <= 8 * math.ulp(value) else math.ceil(value))


def power(base: float, exponent: float) -> float:
    """base**exponent, or infinity where that is too large, so that `whole` can refuse it in words."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def exp(exponent: float) -> float:
    """e**exponent, or infinity where that is too large."""
    return power(math.e, exponent)


def attainable(name: str, value: float) -> float:
    """`value`, if a finite number of users can meet this tolerance: if it has not underflowed to 0."""
    require(
        value > 0, "underflows to 0: no finite number of users reaches it", where=name, remedy="use a smaller ε or d"
    )
    return value
