"""Pre-conditions of the bounds, and the one ceiling that turns a formula into a count of people."""

from __future__ import annotations

import math

from askance_protocol.errors import ProtocolError


def require(holds: bool, what: str, *, where: str, remedy: str) -> None:
    """A theorem's side condition, written as code."""
    if not holds:
        raise ProtocolError(what, where=where, remedy=remedy)


def positive(name: str, value: float) -> float:
    """A tolerance, an ε, a scale: finite and above 0 (NaN fails every comparison)."""
    require(
        0 < value < math.inf, f"must be positive and finite, not {value}", where=name, remedy="give a number above 0"
    )
    return value


def open_unit(name: str, value: float) -> float:
    """A failure probability, an error rate: strictly between 0 and 1."""
    require(0 < value < 1, f"must lie strictly between 0 and 1, not {value}", where=name, remedy="try 0.05")
    return value


def between(name: str, value: float, lowest: float, highest: float) -> float:
    """A number from a closed interval."""
    remedy = f"give a number from {lowest} to {highest}"
    require(lowest <= value <= highest, f"must lie in [{lowest}, {highest}], not {value}", where=name, remedy=remedy)
    return value


def count(name: str, value: int, *, least: int = 1) -> int:
    """A number of queries, users, bits: whole, and as large as Python likes (|H| may be 2**4096)."""
    require(
        value >= least and value % 1 == 0,
        f"must be a whole number of at least {least}",
        where=name,
        remedy="give a whole number",
    )
    return value


def keep_probability(name: str, value: float) -> float:
    """Probability that randomized response tells the truth: above ½, or the report says nothing."""
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
    """base**exponent, where too large is infinity, so that `whole` can refuse it in words."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def exp(exponent: float) -> float:
    """e**exponent, where too large is infinity."""
    return power(math.e, exponent)


def attainable(name: str, value: float) -> float:
    """A tolerance that some finite number of users can meet: not one that has underflowed to 0."""
    require(
        value > 0, "underflows to 0: no finite number of users reaches it", where=name, remedy="use a smaller ε or d"
    )
    return value
