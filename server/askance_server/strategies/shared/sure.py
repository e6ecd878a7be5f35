"""How sure a hypothesis is that is itself an estimate: the interval of each of its numbers, in text and in JSON.

What stands in a hypothesis is compared between machines, whose libraries of special functions may differ in the last
bits. So the ends of its intervals are decimals of a few digits, rounded outwards: they hold as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

from askance_protocol.text import counted
from askance_server.core.strategy import LEVEL, Estimate

_DIGITS = 6
"""Significant digits of an end in JSON."""
_SHOWN = 4
"""In text."""


def outward(end: float, digits: int, *, up: bool) -> float:
    """A decimal of so many significant digits that is not within the interval that ends here."""
    rounding = ROUND_CEILING if up else ROUND_FLOOR
    return float(Context(prec=digits, rounding=rounding).create_decimal_from_float(end))


def ends_text(low: float, high: float) -> tuple[str, str]:
    """The ends of an interval as text shows them."""
    return f"{outward(low, _SHOWN, up=False):.{_SHOWN}g}", f"{outward(high, _SHOWN, up=True):.{_SHOWN}g}"


def interval_text(estimate: Estimate) -> str:
    """An interval in words, with the number of reports: "0.19 to 0.21 at 95 %, 1,000 reports"."""
    low, high = ends_text(estimate.low, estimate.high)
    reports = counted(estimate.reports, "report")
    return f"{low} to {high} at {100 * LEVEL:g} %, {reports}"


def interval_members(estimates: Sequence[Estimate], *, one: bool = False) -> dict[str, Any]:
    """Members of a hypothesis for estimates of one round: their ends, the level of all at once, and the reports."""
    if not estimates:
        return {}
    low = [outward(each.low, _DIGITS, up=False) for each in estimates]
    high = [outward(each.high, _DIGITS, up=True) for each in estimates]
    ends = {"low": low[0], "high": high[0]} if one else {"low": low, "high": high}
    return {**ends, "level": LEVEL, "reports": estimates[0].reports}
