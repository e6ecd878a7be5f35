"""Privacy budgets: ε is counted in whole millionths.

A charge, a cap and a sum are Python integers of micro-ε, so that Σ charges ≤ cap (KLNRS11, Def. 5.3:
ε₁ + … + ε_k ≤ ε) is decided exactly. No float enters: text is read as a decimal fraction, and a float is
refused. Nothing is rounded: an ε with more than six decimals is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from askance_protocol.errors import ProtocolError
from askance_protocol.text import quoted

MICRO: Final = 1_000_000
"""Micro-ε in one ε."""

LARGEST: Final = 10**15
"""The largest number of micro-ε that is read, charged or summed: exact in a JSON number everywhere."""

_DECIMAL: Final = re.compile(
    r"\+?(?P<whole>[0-9]+)(?:\.(?P<part>[0-9]+))?(?:[eE](?P<exponent>[+-]?[0-9]{1,3}))?", re.ASCII
)


class BudgetExceededError(ProtocolError):
    """A charge that the remaining budget does not cover."""


def charge_from_text(text: str) -> int:
    """Micro-ε of an ε as people write it, exact: `"0.25"` is 250 000. More than six decimals are refused."""
    return _whole(text)


def limit_from_text(text: str) -> int:
    """Micro-ε of an ε that must not be exceeded: read as one that is charged."""
    return _whole(text)


def to_text(micro_epsilon: int) -> str:
    """The shortest decimal that reads back as exactly this many micro-ε."""
    whole, part = divmod(whole_micro(micro_epsilon), MICRO)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".")


def whole_micro(value: object, *, where: str = "ε", least: int = 0) -> int:
    """`value` if it is an integer number of micro-ε in range; a float or a bool never is."""
    if type(value) is not int:
        raise ProtocolError(
            f"is a {type(value).__name__}, not an integer", where=where, remedy="give ε in micro-ε, as an int"
        )
    if not least <= value <= LARGEST:
        raise ProtocolError("is out of range", where=where, remedy=f"give {least} to {LARGEST} micro-ε")
    return value


@dataclass(frozen=True, slots=True)
class Account:
    """What one user may spend over her lifetime, and what she has spent. There is no renewal."""

    cap: int
    spent: int = 0

    def __post_init__(self) -> None:
        whole_micro(self.cap, where="cap")
        whole_micro(self.spent, where="spent")
        if self.spent > self.cap:
            raise BudgetExceededError(
                f"{to_text(self.spent)} is more than the cap of {to_text(self.cap)}", where="spent"
            )

    @property
    def remaining(self) -> int:
        """Micro-ε that may still be charged."""
        return self.cap - self.spent

    def affords(self, charge: int) -> bool:
        """Whether `charge` fits into what remains."""
        return whole_micro(charge, where="charge") <= self.remaining

    def charged(self, charge: int) -> Account:
        """The account after `charge`; refused as a whole where it does not fit."""
        if not self.affords(charge):
            raise BudgetExceededError(
                f"ε = {to_text(charge)} is asked and {to_text(self.remaining)} of {to_text(self.cap)} is left",
                where="charge",
                remedy="a budget is for a lifetime and is not renewed",
            )
        return Account(self.cap, self.spent + charge)


def _parse(text: str) -> Fraction:
    """The exact number of micro-ε, not yet whole, that a decimal text names."""
    if type(text) is not str:
        raise ProtocolError(f"is a {type(text).__name__}, not text", where="ε", remedy='write ε as text, such as "0.5"')
    match = _DECIMAL.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise ProtocolError(
            f"{quoted(text)} is not a positive decimal number", where="ε", remedy='write ε as "1", "0.25" or "1e-3"'
        )
    part = match["part"] or ""
    digits = Fraction(int(match["whole"] + part), 10 ** len(part))
    return digits * Fraction(10) ** int(match["exponent"] or 0) * MICRO


def _whole(text: str) -> int:
    micro_epsilon = _parse(text)
    if micro_epsilon < 1:
        raise ProtocolError(f"{text} is below one micro-ε", where="ε", remedy='the smallest ε is "0.000001"')
    if micro_epsilon > LARGEST:
        raise ProtocolError(f"{text} is out of range", where="ε", remedy=f'the largest ε is "{to_text(LARGEST)}"')
    if micro_epsilon.denominator != 1:
        near = to_text(int(micro_epsilon))
        raise ProtocolError(
            f"{text} has more than six decimals", where="ε", remedy=f'ε is counted in millionths: write "{near}"'
        )
    return int(micro_epsilon)
