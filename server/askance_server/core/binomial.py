"""Binomial probabilities, their tails and the inverses of these, to the last digits of a double, up to 10^15 trials.

Theory of operation
-------------------
A plan asks how likely k or fewer of n reports are, an interval asks at which p so few are just likely enough. Libraries
that answer this weigh more than all else that is installed, and the tails they compute take √n steps; here the steps
are the same few for any n.

*One probability.* Loader's way (Fast and Accurate Computation of Binomial Probabilities, 2000): not by factorials,
whose logarithms would cancel to nothing, but by Stirling's formula with its error, and by the *deviance*
D = k·ln(k/np) + (n−k)·ln((n−k)/nq), which is small where the probability is large. It depends on k − np, a difference
of numbers that may be 10^15 and nearly equal: `_excess` has it without rounding.

*A tail.* Of Pr[N >= k] and Pr[N < k] the smaller is computed, the larger is what it leaves. Where k or n − k is small,
terms are added: each is the one before times a ratio, and `_TERMS` are all that matter. Elsewhere

    Pr[N >= k] = n · ∫_0^p Pr[Bin(n−1, t) = k−1] dt,

in which the integrand is a bell that is cut on the far side of its top and falls from the cut. It is followed until it
has fallen by e^{−_FALLEN}, and Gauss and Legendre's rule sums that piece to the last digits.

*The inverse in p.* The logarithm of Pr[N >= k] is concave in ln(p/q), as the density of a Beta variable is log-concave
on that scale. A tangent lies above a concave curve, so after one step of Newton's method all others approach the root
from the left, wherever it began; Halley's corrections, kept within a factor of two, make three steps of six.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist
from typing import Final, TypeAlias

import numpy as np

from askance_protocol.arrays import Floats, Integers, Truths

Trials: TypeAlias = int | Integers
"""The trials of all counts, or of each."""

_SMALL: Final = 64
"""k or n − k up to which terms are added."""
_TERMS: Final = 160
_NODES: Final = 24
_FALLEN: Final = 42.0
_STEPS: Final = 100
"""Of Newton's method at the most: it takes five or six."""
_PIECE: Final = 4096
"""Tails at a time: a matrix of these and of terms or nodes is held."""
_SPLIT: Final = 2.0**27 + 1
_LEAST: Final = 1e-280
_MOST: Final = 1 - 2.0**-53


def probability(count: Integers | int, trials: int, p: Floats | float) -> Floats:
    """Pr[N = count], N ~ Binomial(trials, p), for 0 <= count <= trials and 0 <= p <= 1."""
    k, prob = np.broadcast_arrays(np.asarray(count, dtype=float), np.asarray(p, dtype=float))
    inner = np.clip(prob, _LEAST, _MOST)
    found = np.exp(_log_probability(k, trials, _excess(k, trials, inner), inner, 1 - inner))
    return np.where(prob <= 0, k == 0, np.where(prob >= 1, k == trials, found))


def at_least(count: Integers | int, trials: int, p: Floats | float) -> Floats:
    """Pr[N >= count], N ~ Binomial(trials, p), for 0 <= p <= 1."""
    return _tails(np.asarray(count, dtype=float), trials, p)[0]


def at_most(count: Integers | int, trials: int, p: Floats | float) -> Floats:
    """Pr[N <= count], N ~ Binomial(trials, p), for 0 <= p <= 1."""
    return _tails(np.asarray(count, dtype=float) + 1, trials, p)[1]


def outside(below: Integers, above: Integers, trials: int, p: Floats) -> Floats:
    """Pr[N <= below] + Pr[N >= above], N ~ Binomial(trials, p): both tails in one call, which takes half the time."""
    split = len(below)
    counts, proportions = np.concatenate([below + 1, above]).astype(float), np.concatenate([p, p])
    upper, lower = _tails(counts, trials, proportions)
    return lower[:split] + upper[split:]


def quantile(level: float, trials: int, p: float) -> int:
    """Least k with Pr[N <= k] >= level, N ~ Binomial(trials, p)."""
    return bisect_left(range(trials), level, key=lambda count: float(at_most(count, trials, p)))


def proportion(count: Integers | int, trials: Trials, tail: float) -> Floats:
    """The p at which Pr[N >= count] = tail, N ~ Binomial(trials, p), for 1 <= count <= trials and 0 < tail < 1.

    Of many counts each may have its own trials.
    """
    k = np.asarray(count, dtype=float)
    p = np.clip(_wilson(k, trials, tail), _LEAST, _MOST)
    q, top = 1 - p, _at_its_top(k, trials)
    for _ in range(_STEPS):
        # Near 1 it is q that has all its digits.
        excess = np.where(p <= 0.5, _excess(k, trials, p), -_excess(np.asarray(trials - k, float), trials, q))
        reached = _both(trials, k, excess, p, q)[0]
        density = k * q * np.exp(top - _deviance(k, trials, excess, p, q))
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = density / reached
            step = (math.log(tail) - np.log(reached)) / rate
            # Halley's: the second derivative is the rate times this bend.
            bend = k - (trials + 1) * p - rate
            step = np.where(reached > 0, step / np.clip(1 + step * bend / 2, 0.5, 2), 1.0)
        raised = p * np.exp(np.clip(step, -30, 30))
        p, q = raised / (q + raised), q / (q + raised)
        # In standard deviations: what is left after a step is about the cube of it.
        if (np.abs(step) * np.sqrt(k * q) < 1e-5).all():
            break
    return p


def _wilson(k: Floats, trials: Trials, tail: float) -> Floats:
    """About where `proportion` is (Wilson 1927), to begin with."""
    z = -NormalDist().inv_cdf(tail)
    return np.asarray((k + z * z / 2 - z * np.sqrt(k * (1 - k / trials) + z * z / 4)) / (trials + z * z))


def _tails(count: Floats, trials: int, p: Floats | float) -> tuple[Floats, Floats]:
    """Pr[N >= count] and Pr[N < count]."""
    asked, prob = np.broadcast_arrays(count, np.asarray(p, dtype=float))
    k, inner = np.clip(asked, 1, max(trials, 1)), np.clip(prob, _LEAST, _MOST)
    upper, lower = _both(trials, k, _excess(k, trials, inner), inner, 1 - inner)
    certain = (asked < 1) | ((prob >= 1) & (asked <= trials))
    never = ~certain & ((asked > trials) | (prob <= 0))
    return np.where(certain, 1.0, np.where(never, 0.0, upper)), np.where(certain, 0.0, np.where(never, 1.0, lower))


def _both(trials: Trials, k: Floats, excess: Floats, p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Pr[N >= k] and Pr[N < k], for 1 <= k <= n: the smaller, and what it leaves."""
    rare = excess > 0
    # N < k means that at least n − k + 1 of the trials fail.
    given = np.where(rare, [k, excess, p, q], [trials - k + 1, 1 - excess, q, p]).reshape(4, -1)
    pieces = [
        _smaller(_of(trials, slice(begin, begin + _PIECE)), *given[:, begin : begin + _PIECE])
        for begin in range(0, k.size, _PIECE)
    ]
    small = np.concatenate(pieces).reshape(k.shape) if pieces else np.zeros(k.shape)
    return np.where(rare, small, 1 - small), np.where(rare, 1 - small, small)


def _of(trials: Trials, some: slice | Truths) -> Trials:
    """The trials of some of the counts."""
    return trials if isinstance(trials, int) else trials[some]


def _smaller(trials: Trials, k: Floats, excess: Floats, p: Floats, q: Floats) -> Floats:
    """Pr[N >= k] for k above np."""
    few = np.minimum(k, trials - k) <= _SMALL
    if few.all():
        return _added(trials, k, excess, p, q)
    found = np.zeros(k.shape)
    for which, method in ((few, _added), (~few, _integrated)):
        if which.any():
            found[which] = method(_of(trials, which), k[which], excess[which], p[which], q[which])
    return found


def _added(trials: Trials, k: Floats, excess: Floats, p: Floats, q: Floats) -> Floats:
    later = np.arange(min(_TERMS, int(np.max(trials))))
    ratios = (
        np.maximum((trials - k)[:, np.newaxis] - later, 0) / (k[:, np.newaxis] + 1 + later) * (p / q)[:, np.newaxis]
    )
    return np.exp(_log_probability(k, trials, excess, p, q)) * (1 + np.cumprod(ratios, axis=1).sum(axis=1))


def _integrated(trials: Trials, k: Floats, excess: Floats, p: Floats, q: Floats) -> Floats:
    # The integrand's counts: k − 1 of n − 1, at t = p − w.
    k, n, excess = k - 1, trials - 1, excess - q
    top = _deviance(k, n, excess, p, q)
    slope, curvature = np.maximum(excess, 0) / (p * q), n / (p * q)
    width = 2 * _FALLEN / (slope + np.hypot(slope, np.sqrt(2 * curvature * _FALLEN)))
    for _ in range(2):  # of Newton's method, for the w at which the integrand has fallen so far
        width = np.minimum(width, p * (1 - 2.0**-30))
        t, rest, beyond = p - width, q + width, excess + n * width
        width += (_FALLEN - _deviance(k, n, beyond, t, rest) + top) * t * rest / beyond
    width = np.minimum(width, p * (1 - 2.0**-30))
    nodes, weights = _rule()
    w = width[:, np.newaxis] * nodes
    k, p, q, excess = (array[:, np.newaxis] for array in (k, p, q, excess))
    if not isinstance(n, int):
        n = n[:, np.newaxis]
    values = np.exp(_at_its_top(k, n) - _deviance(k, n, excess + n * w, p - w, q + w))
    return np.asarray(trials * width * (values @ weights))


@cache
def _rule() -> tuple[Floats, Floats]:
    """Gauss and Legendre's rule on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def _log_probability(k: Floats, n: Trials, excess: Floats, p: Floats, q: Floats) -> Floats:
    return _at_its_top(k, n) - _deviance(k, n, excess, p, q)


def _at_its_top(k: Floats, n: Trials) -> Floats:
    """Logarithm of Pr[Bin(n, k/n) = k], by Stirling's formula for the three factorials."""
    inside = (k > 0) & (k < n)
    root = np.log(np.where(inside, n / (2 * math.pi * np.maximum(k, 1) * np.maximum(n - k, 1)), 1)) / 2
    whole, part, rest = _stirling(np.stack(np.broadcast_arrays(np.asarray(n, float), k, n - k)))
    return root + whole - part - rest


def _deviance(k: Floats, n: Trials, excess: Floats, p: Floats, q: Floats) -> Floats:
    return _half_deviance(k, n * p, excess) + _half_deviance(n - k, n * q, -excess)


_ARTANH: Final = [1 / (2 * power + 1) for power in range(1, 10)]


def _half_deviance(k: Floats, mean: Floats, excess: Floats) -> Floats:
    """k·ln(k/mean) − excess, where the excess is k − mean: Loader's bd0."""
    # ln(k/mean) = 2·artanh v: of its series the first term, which cancels, is left out.
    v = excess / (k + mean)
    square = v * v
    largest = float(square.max(initial=1e-300))
    terms = len(_ARTANH) if largest >= 0.01 else 1 + int(39 / -math.log(largest))
    near = excess * v + 2 * k * v * square * _polynomial(_ARTANH[:terms], square)
    if largest < 0.01:
        return near
    return np.where(square < 0.01, near, k * np.log(np.where(k > 0, k, 1) / np.maximum(mean, _LEAST)) - excess)


_SERIES: Final = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188]
_TABLE: Final = np.array(
    [0.0, *(math.lgamma(k + 1) - (k + 0.5) * math.log(k) + k - math.log(2 * math.pi) / 2 for k in range(1, 16))]
)


def _stirling(k: Floats) -> Floats:
    """Logarithm of k!, less ln(√(2πk)(k/e)^k), and 0 for k = 0."""
    inverse = 1 / np.maximum(k, 1)
    series = inverse * _polynomial(_SERIES, inverse * inverse)
    return np.where(k < len(_TABLE), _TABLE[np.minimum(k, len(_TABLE) - 1).astype(np.int64)], series)


def _polynomial(coefficients: Sequence[float], x: Floats) -> Floats:
    """Horner's rule; numpy's own takes several times as long for one number."""
    value = np.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value *= x
        value += coefficient
    return value


def _excess(k: Floats, n: Trials, p: Floats) -> Floats:
    """Return k − np as if it had been rounded once: the product's own rounding is found by Dekker (1971)."""
    many = np.asarray(n, float)
    n_high, n_low = _halves(many)
    p_high, p_low = _halves(p)
    product = many * p
    error = ((n_high * p_high - product) + n_high * p_low + n_low * p_high) + n_low * p_low
    return (k - product) - error


def _halves(number: Floats) -> tuple[Floats, Floats]:
    """Veltkamp's split: two numbers of 26 bits whose sum it is."""
    scaled = np.asarray(_SPLIT * number)
    high = scaled - (scaled - number)
    return high, number - high
