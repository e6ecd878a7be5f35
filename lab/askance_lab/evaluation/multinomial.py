"""How many of n users fall into each class: binomial and multinomial counts for any number of users, in a few steps.

Theory of operation
-------------------
A class has an integer weight w of W in all, so that its count is Binomial(n, w/W). NumPy's generator rounds w/W to a
double, and multiplies logarithms by n whose arguments are rounded, so that its comparisons are off by about n·10⁻¹⁶: at
n = 10¹² by 10⁻⁴. Here weights are integers, and only the last comparison is made in doubles, of terms without n.

*Rejection from blocks.* A binomial's mass function f is log-concave with mode m = ⌊(n + 1)·w/W⌋. So if f(m ± b) is at
most f(m)/2, then f at k·b or more beyond the mode is at most 2⁻ᵏ·f(m), for every k. Choose a side; a block k with
probability 2⁻ᵏ⁻¹, by the zeros at the end of a random word; one of the b numbers of the block, all alike; and accept
it with probability 2ᵏ·f(y)/f(m), which is at most 1. With b about 1.2 standard deviations, every other one is accepted.
What f is computed from is the distance of y from the mean n·w/W, and that is known exactly.

*The mass function* is that of Loader, "Fast and accurate computation of binomial probabilities" (2000): its terms are
as small as its logarithm, not as large as n. f(y)/f(m) is within some parts in 10¹² of itself for up to 2⁴⁸ users, and
so is the probability of each count, but for a part of 10⁻¹⁵ in all. The tests compare it with integers.

*A multinomial* is a tree of binomials: how many fall into the first half of the classes, and so on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_protocol.arrays import Floats, Integers

Weights: TypeAlias = NDArray[np.object_]
"""Integers of any size."""

_SERIES: Final = 10
"""Terms of a series in v², |v| < 1/10: the next is below 10⁻²²."""
_EXACT: Final = 16
"""Stirling's error is looked up below, and by its series from here on."""


def stirling_error(n: int) -> float:
    """Return ln n! − (½·ln(2πn) + n·ln n − n), for small n, where its series does not do."""
    return math.lgamma(n + 1) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2 * math.pi) if n else 0.0


_ERRORS: Final = np.array([stirling_error(n) for n in range(_EXACT)])


class Binomials:
    """Binomial(n, w/W) for many n, w and W at once: their mass functions, and draws."""

    def __init__(self, users: Integers, weights: Weights, totals: Weights) -> None:
        exact = users.astype(object) * weights
        floor = exact // totals
        self.users = users
        self.mean = floor.astype(np.int64)
        """⌊n·w/W⌋."""
        self.rest: Floats = ((exact - floor * totals) / totals).astype(np.float64)
        """n·w/W − ⌊n·w/W⌋."""
        self.share: Floats = (weights / totals).astype(np.float64)
        self.other: Floats = ((totals - weights) / totals).astype(np.float64)
        self.mode = np.minimum((exact + weights) // totals, users).astype(np.int64)

    def log_mass(self, counts: Integers, at: Any = slice(None)) -> Floats:
        """Logarithm of the probability of a count from each (or each that `at` says); −∞ outside 0 … n."""
        n, share, other = self.users[at], self.share[at], self.other[at]
        away = (counts - self.mean[at]) - self.rest[at]
        inside = (counts >= 0) & (counts <= n)
        y = np.clip(counts, 0, n)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = _error(n) - _error(y) - _error(n - y)
            found -= _deviance(y, n * share, away) + _deviance(n - y, n * other, -away)
            found += 0.5 * np.log(n / (2 * math.pi * y.astype(np.float64) * (n - y)))
            found = np.where(y == 0, n * _log(other, share), found)
            found = np.where(y == n, n * _log(share, other), found)
        # Nobody is in a class of no weight, and everybody in one of all: 0·ln 0 is 0.
        found = np.where((n == 0) | (share == 0) & (y == 0) | (other == 0) & (y == n), 0.0, found)
        return np.where(inside, found, -np.inf)

    def draw(self, source: np.random.Generator) -> Integers:
        """A count from each."""
        drawn = self.mode.copy()
        left = np.flatnonzero((self.users > 0) & (self.share > 0) & (self.other > 0))
        highest = self.log_mass(self.mode)
        width = self._widths(highest)
        while len(left):
            words = source.integers(1, 1 << 62, len(left), np.int64, endpoint=True)
            block = np.bitwise_count((words & -words) - 1).astype(np.int64)
            beyond = block * width[left] + source.integers(0, width[left])
            counts = self.mode[left] + np.where(source.integers(0, 2, len(left)) == 1, beyond, -1 - beyond)
            log_chance = self.log_mass(counts, left) - highest[left] + block * math.log(2)
            accepted = source.random(len(left)) < np.exp(np.minimum(log_chance, 0.0))
            drawn[left[accepted]] = counts[accepted]
            left = left[~accepted]
        return drawn

    def _widths(self, highest: Floats) -> Integers:
        """Widths of blocks, of which each further one is at most half as likely at its best as the one before."""
        width = 1 + (1.2 * np.sqrt(self.users * self.share * self.other)).astype(np.int64)
        while True:
            ends = (self.log_mass(self.mode + width), self.log_mass(self.mode - width))
            # The hair is for rounding: the widths are only guesses.
            wide = np.maximum(*ends) > highest - math.log(2) - 1e-9
            if not wide.any():
                return width
            width = np.where(wide, width + (width + 1) // 2, width)


def binomial(users: Integers, weights: Weights, totals: Weights, source: np.random.Generator) -> Integers:
    """Of each number of users, how many fall into a class that has this weight of a total."""
    return Binomials(users, weights, totals).draw(source)


def multinomial(users: Integers, weights: Weights, source: np.random.Generator) -> Integers:
    """Of each number of users, how many fall into each class: a row of weights for each, or one row for all."""
    classes = weights.shape[-1]
    before = np.zeros((len(users), classes + 1), object)
    before[:, 1:] = np.cumsum(weights, axis=-1)
    counts = np.zeros((len(users), classes), np.int64)
    _split(counts, users.reshape(-1, 1), before, [0, classes], source)
    return counts


def _split(counts: Integers, held: Integers, before: Weights, ends: Sequence[int], source: np.random.Generator) -> None:
    """Split the users of each run of classes between its halves, until each run is one class."""
    while max(np.diff(ends)) > 1:
        starts, stops = np.array(ends[:-1]), np.array(ends[1:])
        middles = (starts + stops + 1) // 2
        first = binomial(
            held.ravel(),
            (before[:, middles] - before[:, starts]).ravel(),
            np.maximum(before[:, stops] - before[:, starts], 1).ravel(),
            source,
        ).reshape(held.shape)
        # A run of one class stays whole: its first half is all of it.
        pairs = np.stack([first, held - first], axis=-1).reshape(len(held), -1)
        whole = np.stack([middles > starts, stops > middles], axis=-1).ravel()
        held = pairs[:, whole]
        ends = [0, *np.stack([middles, stops], axis=-1).ravel()[whole].tolist()]
    counts[:] = held


def _error(counts: Integers) -> Floats:
    """Stirling's error: 1/12n − 1/360n³ + …"""
    n = np.maximum(counts, _EXACT).astype(np.float64)
    squared = n * n
    series = (
        1 / 12
        - (1 / 360 - (1 / 1260 - (1 / 1680 - (1 / 1188 - 691 / 360360 / squared) / squared) / squared) / squared)
        / squared
    ) / n
    return np.where(counts < _EXACT, _ERRORS[np.minimum(counts, _EXACT - 1)], series)


def _deviance(counts: Integers, mean: Floats, away: Floats) -> Floats:
    """y·ln(y/μ) + μ − y, where y − μ is known better than y and μ are: Loader's bd0."""
    ratio = away / (counts + mean)
    squared = ratio * ratio
    term, total = 2 * counts * ratio, away * ratio
    for odd in range(3, 2 * _SERIES + 3, 2):
        term = term * squared
        total = total + term / odd
    far = counts * np.log(counts / mean) - away
    return np.where(np.abs(ratio) < 0.1, total, far)


def _log(share: Floats, other: Floats) -> Floats:
    """The logarithm of a share, by the smaller of the two."""
    return np.where(other < 0.5, np.log1p(-other), np.log(share))
