"""Exact draws: every probability that decides privacy comes from uniform bits and rational arithmetic, not floats.

Theory of operation
-------------------
`below` makes uniform whole numbers out of 64-bit words. On it stand e^{−γ} coins and the discrete Laplace distribution,
both after Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy" (2020).

`draw_exponential` is the exponential mechanism's draw: level i with probability in proportion to m_i·e^{−γ·loss_i},
where the multiplicities m_i may be any whole numbers (2^1024 thresholds between two examples are one level). Floats
find the level, unless the uniform number lies so near to a border between two that their rounding could tell it
wrongly; then more bits of it are drawn, and the borders computed to more digits, until it does not. So the distribution
is the mechanism's, and not a float's approximation of it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate
from typing import Final, TypeAlias

import numpy as np

from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import RandomSource

Below: TypeAlias = Callable[[int], int]
"""Draws a uniform whole number below another."""

_BITS: Final = 60
_SLACK: Final = 2.0**-32
"""More than floats can be wrong at a border: below 2^20 levels, whose exponents' rounding is below 2^-40."""


def below(source: RandomSource) -> Below:
    """Source of uniform whole numbers from 64-bit words, without the bias of a remainder."""
    words: list[int] = []

    def word() -> int:
        if not words:
            draw = source.draw(1 << 12)
            words.extend(draw.words(np.arange(1 << 12, dtype=np.intp)).tolist())
        return words.pop()

    def draw(count: int) -> int:
        if count < 1:
            raise ProtocolError("leaves nothing to draw", where="count", remedy="give 1 or more")
        bits = (count - 1).bit_length()
        while True:
            value = 0
            for _ in range(-(-bits // 64)):
                value = value << 64 | word()
            value &= (1 << bits) - 1
            if value < count:
                return value

    return draw


def bernoulli(chance: Fraction, draw: Below) -> bool:
    """Flip a coin that is true with exactly this probability."""
    return draw(chance.denominator) < chance.numerator


def bernoulli_exp(gamma: Fraction, draw: Below) -> bool:
    """Flip a coin that is true with probability e^{−γ}, 0 ≤ γ ≤ 1: whether the first K with a failure is odd.

    CKS 2020, Algorithm 1.
    """
    k = 1
    while draw(gamma.denominator * k) < gamma.numerator:
        k += 1
    return k % 2 == 1


def discrete_laplace(scale: Fraction, draw: Below) -> int:
    """Draw an integer k with probability in proportion to e^{−|k|/scale}, exactly. CKS 2020, Algorithm 2."""
    t, s = scale.numerator, scale.denominator
    while True:
        u = draw(t)
        if not bernoulli_exp(Fraction(u, t), draw):
            continue
        v = 0
        while bernoulli_exp(Fraction(1), draw):
            v += 1
        magnitude = (u + t * v) // s
        negative = draw(2) == 1
        if not (negative and magnitude == 0):
            return -magnitude if negative else magnitude


def draw_exponential(losses: Sequence[int], multiplicities: Sequence[int], rate: Fraction, draw: Below) -> int:
    """Draw index i with probability in proportion to multiplicity_i·e^{−rate·loss_i}, exactly."""
    if not 0 < len(losses) == len(multiplicities) <= 1 << 20 or not any(multiplicities):
        raise ProtocolError("are no levels", where="losses", remedy="give 1 to 2^20, each with its multiplicity")
    bits, point = _BITS, draw(1 << _BITS)
    found, sure = _by_floats(losses, multiplicities, rate, point)
    digits = 50
    while not sure:
        bits, point = bits + 128, point << 128 | draw(1 << 128)
        found, sure = _by_decimals(
            losses, multiplicities, rate, Fraction(point, 1 << bits), Fraction(1, 1 << bits), digits
        )
        digits *= 2
    return found


def _by_floats(losses: Sequence[int], multiplicities: Sequence[int], rate: Fraction, point: int) -> tuple[int, bool]:
    borders = np.cumsum(chances(losses, multiplicities, rate))[:-1]  # the last border is 1
    place = point / (1 << _BITS)
    first, last = np.searchsorted(borders, [place - _SLACK, place + _SLACK + 2.0**-_BITS], side="right")
    return int(first), bool(first == last)


def chances(
    losses: Sequence[int], multiplicities: Sequence[int], rate: Fraction
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Probability of each level, in floats: for search, plots and checks."""
    least = min(loss for loss, many in zip(losses, multiplicities, strict=True) if many)
    steep = float(rate)
    logs = np.array(
        [
            math.log(many) - steep * (loss - least) if many else -math.inf
            for loss, many in zip(losses, multiplicities, strict=True)
        ]
    )
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def _by_decimals(
    losses: Sequence[int], multiplicities: Sequence[int], rate: Fraction, place: Fraction, width: Fraction, digits: int
) -> tuple[int, bool]:
    """Draw with borders that are right to `digits` digits, less what summation and the exponent may cost."""
    context = Context(prec=digits, Emin=-(10**15), Emax=10**15)
    least = min(losses)
    weights = [
        context.multiply(Decimal(many), _exp(rate * (least - loss), context)) if many else Decimal(0)
        for loss, many in zip(losses, multiplicities, strict=True)
    ]
    # As whole numbers of 10^-digits of the heaviest: what is lighter (e^{-10^6}) costs no million digits.
    heaviest = max(weights)
    sums = list(accumulate(int(context.scaleb(context.divide(each, heaviest), digits)) for each in weights))
    slack = Fraction(1, 10 ** (digits - 25))
    low, high = (place - slack) * sums[-1], (place + width + slack) * sums[-1]
    first, last = bisect_right(sums, low, hi=len(sums) - 1), bisect_right(sums, high, hi=len(sums) - 1)
    return first, first == last


def _exp(exponent: Fraction, context: Context) -> Decimal:
    """E to a rational number: rounding costs as many digits as the exponent has before the point."""
    return context.exp(context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))
