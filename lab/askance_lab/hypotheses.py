"""How wrong a hypothesis is: exactly, where the domain allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, Final


def masked_parity(learned: Mapping[str, Any], truth: Mapping[str, Any]) -> Fraction:
    """Over uniform examples. KLNRS11, §5.3: b shows bit i of r in one half, and masks the parity by a in the other."""
    wrong = sum(mine != right for mine, right in zip(learned["r"], truth["r"], strict=True))
    shown = Fraction(wrong, len(truth["r"]))
    # Two parities of different r differ on half of all x; of the same r, everywhere or nowhere.
    masked = Fraction(1, 2) if wrong else Fraction(int(learned["a"] != truth["a"]))
    return (shown + masked) / 2


def mean(learned: Mapping[str, Any], truth: Mapping[str, Any]) -> Fraction:
    """By how much the estimate is off."""
    return abs(Fraction(learned["mean"]) - Fraction(truth["mean"]))


ERRORS: Final[Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Fraction]]] = {
    "masked-parity": masked_parity,
    "masked-parity-pooled": masked_parity,
    "masked-parity-noninteractive": masked_parity,
    "mean": mean,
}


def error_of(strategy: str, learned: Mapping[str, Any], truth: Mapping[str, Any]) -> float | None:
    """The share of examples that a hypothesis labels wrongly, or how far an estimate is off; None: nobody knows."""
    if strategy not in ERRORS or not learned or not truth:
        return None
    return float(ERRORS[strategy](learned, truth))
