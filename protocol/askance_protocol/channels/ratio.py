"""e^ε from below, in integers, and the exact inequality that certifies a channel.

Theory of operation
-------------------
A channel is ε-private (KLNRS11, Def. 5.1) when weight(w|u) ≤ e^ε · weight(w|u') for all inputs u, u' and every
outcome w. e^ε is irrational, so the inequality is checked against L(ε)/2¹²⁸ ≤ e^ε, where L is the integer that
`exp_lower` computes by the partial sums of Σ εⁱ/i!, every term rounded down. What passes against the smaller
number passes against e^ε.

L is part of the protocol: both sides compute it with the same integer operations, so they agree on every
threshold to the last bit, in any language that has big integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from askance_protocol.budget import LARGEST, MICRO, to_text
from askance_protocol.errors import ProtocolError

WORD: Final = 1 << 64
"""Every row of a channel sums to this: one 64-bit random word decides one report."""

MIN_WEIGHT: Final = 1 << 30
"""No channel built here has a smaller weight, so rounding moves a ratio by less than 2⁻²⁹, far below one micro-ε."""

LEAST_UNNAMED: Final = 1000
"""The least number of micro-ε that a channel takes without the name of its parameter: ε = 0.001."""
MAX_MICRO_EPSILON: Final = 24 * MICRO
"""2⁶⁴ / e²⁴ < MIN_WEIGHT: no channel built here can be asked for more."""

SCALE_BITS: Final = 128


# A certificate compares each outcome with the same L, and the search for the least ε passes the same ones.
@lru_cache(maxsize=1024)
def exp_lower(micro_epsilon: int) -> int:
    """The integer L with L / 2¹²⁸ ≤ e^ε. It never falls as ε grows."""
    return exp_scaled(micro_epsilon, MICRO)


def exp_scaled(numerator: int, denominator: int) -> int:
    """2¹²⁸ · e^x for a rational x ≥ 0, from below: the sum of the terms 2¹²⁸ · xⁱ/i!, each rounded down."""
    term = total = 1 << SCALE_BITS
    index = 0
    while term:
        index += 1
        term = term * numerator // (denominator * index)
        total += term
    return total


def within(weight: int, other: int, micro_epsilon: int) -> bool:
    """The certified inequality: weight ≤ L(ε) · other / 2¹²⁸, in integers."""
    return weight << SCALE_BITS <= exp_lower(micro_epsilon) * other


def certified_micro_epsilon(extremes: Iterable[tuple[int, int]]) -> int:
    """The least ε, in micro-ε, that certifies every (smallest, largest) pair of weights that one outcome has.

    A zero opposite a non-zero weight has no ε: that outcome would prove what the input was not.
    """
    least = 0
    for smallest, largest in extremes:
        if smallest == 0 < largest:
            raise ProtocolError(
                "an outcome is impossible under one input and possible under another",
                where="weights",
                remedy="give every input some weight on it, or none",
            )
        if not within(largest, smallest, least):
            least = _least_above(least, smallest, largest)
    return least


@lru_cache(maxsize=1024)
def _least_above(low: int, smallest: int, largest: int) -> int:
    """The least ε above `low` that certifies the pair; `low` itself does not."""
    high = MAX_MICRO_EPSILON
    while not within(largest, smallest, high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if within(largest, smallest, middle):
            high = middle
        else:
            low = middle
    return high


def whole_epsilon(micro_epsilon: object) -> int:
    """An ε that a channel may be asked for: an integer of micro-ε, positive and small enough to certify."""
    if type(micro_epsilon) is not int:
        raise ProtocolError(
            f"is a {type(micro_epsilon).__name__}, not an integer",
            where="micro_epsilon",
            remedy="1000000 stands for ε = 1",
        )
    if micro_epsilon < 1:
        raise ProtocolError(f"{micro_epsilon} is not positive", where="micro_epsilon", remedy="the smallest is 1")
    if micro_epsilon > MAX_MICRO_EPSILON:
        raise too_large(micro_epsilon)
    return micro_epsilon


def meant_as_micro(value: int) -> None:
    """Refuse a bare number that was meant as ε: nobody asks for a channel of so little without its name."""
    if 1 <= value < LEAST_UNNAMED:
        raise ProtocolError(
            f"{value} stands for ε = {to_text(value)}",
            where="micro_epsilon",
            remedy=f"write {value * MICRO} for ε = {value}, or micro_epsilon={value} if you mean so little",
        )


def too_large(micro_epsilon: int) -> ProtocolError:
    """The refusal of an ε whose rarest outcome would have too few words to certify it."""
    return ProtocolError(
        f"ε = {to_text(min(micro_epsilon, LARGEST))} is too large to certify with 64-bit weights",
        where="micro_epsilon",
        remedy="ask for less; an ε above 16 protects nobody anyway",
    )
