"""How likely a mean of independent reports is to reach so far: by the saddlepoint, good for few reports and for many.

Theory of operation
-------------------
The normal limit looks at the middle of a law and extrapolates; far out, or for few reports, it is wrong by factors.
Lugannani and Rice (1980) tilt the law until its mean *is* where one asks, P_t(f) ∝ P(f)·e^{tf}, and use the normal
limit there, in its middle, where it is best. With K(t) = ln E e^{tf} and K'(t) = x the tail of the mean of n scores is

    Pr[mean ≥ x] ≈ Φ(−r),   r = w + ln(u/w)/w,   w = ±√(2n(tx − K(t))),   u = t·√(n K''(t)),

in the form of Barndorff-Nielsen's r (Jensen 1992). The relative error is of order 1/n, everywhere.

Scores are few values, so their sums are, too, and the probability of the value that was seen belongs to the tail. On a
lattice of span h Daniels (1987) asks half a step short of it, at x − h/2n, with u = (2/h)·sinh(th/2)·√(n K''). Sums of
other laws are denser than their scores: to take their largest gap for h errs on the side of a larger tail.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from askance_protocol.arrays import Floats

_STEPS: Final = 60
"""Of Newton's method at the most: it takes about six."""
_NEAR: Final = 1e-3
"""A root w below which ln(u/w)/w is mere rounding."""


def signed_root(laws: Floats, scores: Floats, seen: Floats, trials: int, spans: Floats) -> Floats:
    """The r with Φ(−r) ≈ Pr[mean ≥ seen], for r > 0, and ≈ Pr[mean ≤ seen] with |r|, for r < 0; a row for each mean.

    0 where what was seen is within half a step of the expected. `seen` lies between the least and the largest score.
    """
    means = (laws * scores).sum(axis=1)
    side = np.sign(seen - means)
    asked = seen - side * spans / (2 * trials)
    # A score of one value is never out; its mean is off by what is rounded.
    beyond = (side * (asked - means) > 0) & (spans > 0)
    found = np.zeros(len(laws))
    if beyond.any():
        centred = np.broadcast_to(scores, laws.shape)[beyond] - asked[beyond, np.newaxis]
        found[beyond] = _root(laws[beyond], centred, trials, spans[beyond])
    return found


def _root(laws: Floats, scores: Floats, trials: int, spans: Floats) -> Floats:
    """`signed_root` at a mean of 0."""
    tilt, logarithm, variance = _tilted(laws, scores)
    w = np.sign(tilt) * np.sqrt(np.maximum(-2 * trials * logarithm, 0))
    # Past 50 half steps nothing is left of the tail either way.
    u = np.sinh(np.clip(tilt * spans / 2, -50, 50)) * 2 / spans * np.sqrt(trials * variance)
    near = np.abs(w) < _NEAR
    divisor = np.where(near, 1.0, w)
    return np.where(near, w, w + np.log(np.where(near, 1.0, u / divisor)) / divisor)


def _tilted(laws: Floats, scores: Floats) -> tuple[Floats, Floats, Floats]:
    """The t at which the tilted law has mean 0, with K(t) and K''(t)."""
    step = 2 / np.ptp(scores, axis=1)
    means = (laws * scores).sum(axis=1)
    tilt = np.clip(-means / (laws * scores**2).sum(axis=1), -step, step)
    for _ in range(_STEPS):
        mean, variance = _moments(laws, scores, tilt)
        # Where the tilted law is all at one score its variance says nothing: the step is as long as it may be.
        change = np.clip(-mean / np.maximum(variance, 1e-300), -step, step)
        tilt = tilt + change
        if (np.abs(change) <= 1e-7 * np.maximum(np.abs(tilt), 1e-7 * step)).all():
            break
    # 1 + Σ P (e^{tf} − 1): near t = 0 the logarithm keeps its digits.
    logarithm = np.log1p((laws * np.expm1(tilt[:, np.newaxis] * scores)).sum(axis=1))
    return tilt, logarithm, _moments(laws, scores, tilt)[1]


def _moments(laws: Floats, scores: Floats, tilt: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of the tilted laws."""
    exponent = tilt[:, np.newaxis] * scores
    weights = laws * np.exp(exponent - exponent.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    mean = (weights * scores).sum(axis=1)
    return mean, (weights * (scores - mean[:, np.newaxis]) ** 2).sum(axis=1)
