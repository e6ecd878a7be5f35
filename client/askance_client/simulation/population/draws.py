"""Turning uniform 64-bit words into values of an example, in integers: the same on every machine, for one user or many.

A normal variable is no exception. It is a table of cut-points, as every channel of this project is, and not the
logarithm and cosine of Box and Muller: those differ in their last bit from one processor to the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Integers, Truths
from askance_protocol.randomness import LEAD_BITS, Words
from askance_protocol.remembering import Remembered

_MANY: Final = 1 << 10
_LONG: Final = 1 << 12
"""So many words are looked up through a guide, in tables of so many cut-points."""
WHOLE: Final = 1 << 64
"""How many words there are."""
_PLANES: Final = 32
_TAIL: Final = 8
"""A normal variable stays within this many standard deviations: it leaves them once in 10¹⁵ draws."""


def happens(words: Words, chance: Fraction) -> Truths:
    """Draw truths that are true with this chance, to the nearest multiple of 2⁻⁶⁴ below it."""
    if chance >= 1:
        return np.ones(words.shape, np.bool)
    return words < np.uint64(chance_of(chance))


def chance_of(chance: Fraction) -> int:
    """How many of all words make it happen."""
    return math.floor(min(chance, 1) * WHOLE)


def below(words: Words, count: int) -> Integers:
    """Draw numbers from 0 to count − 1, each as likely to within count/2⁶⁴."""
    if count & (count - 1) == 0:
        return (words & np.uint64(count - 1)).view(np.int64)
    return (words % np.uint64(count)).view(np.int64)


def least_of(count: int, times: int) -> tuple[int, ...]:
    """The weights of 0 .. count − 1 as the least of so many such draws: where it is k or more, all of them are."""
    each, more = divmod(WHOLE, count)
    beyond = [((count - k) * each + max(0, more - k)) ** times for k in range(count + 1)]
    return tuple(this - after for this, after in pairwise(beyond))


def greatest_of(count: int, times: int) -> tuple[int, ...]:
    """The same of the greatest: where it is below k, all of them are."""
    each, more = divmod(WHOLE, count)
    below_ = [(k * each + min(k, more)) ** times for k in range(count + 1)]
    return tuple(after - this for this, after in pairwise(below_))


def planes(bias: Fraction) -> tuple[bool, ...]:
    """The binary digits of a bias, to 32 places, without the zeros at the end: ½ is the one digit 1."""
    scaled = min(max(round(bias * (1 << _PLANES)), 1), (1 << _PLANES) - 1)
    digits = f"{scaled:0{_PLANES}b}".rstrip("0")
    return tuple(digit == "1" for digit in digits)


def biased(words: Words, digits: Sequence[bool]) -> Words:
    """Draw 64 biased bits from a word for each digit, on the last axis.

    A bit is 1 where a uniform u = 0.u₁u₂… is below the bias 0.b₁b₂…, which the first place where they differ
    decides: from the last digit on, "below so far" becomes (¬uₖ ∨ below) where bₖ = 1 and (¬uₖ ∧ below) where not.
    """
    less = np.zeros(words.shape[:-1], np.uint64)
    for place, digit in reversed(list(enumerate(digits))):
        less = less | words[..., place] if digit else less & words[..., place]
    return less


def cuts(weights: Sequence[int]) -> Words:
    """Cut-points of outcomes with these weights: where the words of one end and those of the next begin."""
    sums = list(accumulate(weights))
    return np.array([min((part << 64) // sums[-1], WHOLE - 1) for part in sums[:-1]], np.uint64)


def choose(words: Words, table: Words) -> Integers:
    """The outcome that each word falls into: the number of cut-points that it has passed."""
    if words.size < _MANY or len(table) > _LONG:
        return np.searchsorted(table, words, side="right").astype(np.int64)
    found = _guide(table.tobytes())[(words >> np.uint64(64 - LEAD_BITS)).view(np.int64)].astype(np.int64)
    open_ = found > len(table)
    found[open_] = np.searchsorted(table, words[open_], side="right")
    return found


def _guide_of(table: bytes) -> NDArray[np.uint16]:
    """What the top bits of a word say: its outcome, or that a cut-point has these bits, too."""
    cuts_ = np.frombuffer(table, np.uint64)
    first = np.arange(1 << LEAD_BITS, dtype=np.uint64) << np.uint64(64 - LEAD_BITS)
    last = first + np.uint64((1 << 64 - LEAD_BITS) - 1)
    least, most = (np.searchsorted(cuts_, words, side="right") for words in (first, last))
    return np.where(least == most, least, len(cuts_) + 1).astype(np.uint16)


_guide: Final = Remembered(_guide_of, lambda guide: guide.nbytes, most=8 << 20)


def weights_of(table: Words) -> tuple[int, ...]:
    """How many of all words fall into each outcome."""
    return tuple(end - begin for begin, end in pairwise([0, *table.tolist(), WHOLE]))


def zipf(count: int, exponent: Fraction) -> Words:
    """Cut-points of count outcomes, the j-th with weight 1/j^exponent."""
    # In whole multiples of 2⁻⁶⁰, so that the last bit of a machine's power function does not show.
    return cuts([max(1, round((1 << 60) * rank ** -float(exponent))) for rank in range(1, count + 1)])


def normal(spread: Fraction) -> tuple[Words, int]:
    """Cut-points of a normal variable with this standard deviation, rounded to whole numbers, and the least of them."""
    reach = math.ceil(_TAIL * spread)
    # P[Z < k + 1/2] = erfc(−(k + 1/2) / (σ√2)) / 2.
    ends = (-(k + 0.5) / (float(spread) * math.sqrt(2)) for k in range(-reach, reach))
    shares = (math.floor(Fraction(math.erfc(end) / 2) * WHOLE) for end in ends)
    return np.array([min(share, WHOLE - 1) for share in shares], np.uint64), -reach


def subset(words: Sequence[int], count: int) -> list[int]:
    """Choose this number of places, in order: those of the smallest words."""
    return sorted(sorted(range(len(words)), key=words.__getitem__)[:count])
