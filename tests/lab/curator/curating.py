"""Helpers of the curator's tests: seeded draws, the one-sided test at 10⁻⁶, and the hardest examples of PARITY."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.stats import binom

from askance_lab.curator.databases import BitSample, packed
from askance_lab.curator.draws import Below, below
from askance_protocol.randomness import SimulatedRandom

ONE = Fraction(1)
RARE = 1e-6


def draws(seed: int = 1) -> Below:
    return below(SimulatedRandom(seed))


def too_few(successes: int, runs: int, chance: float) -> bool:
    """So few successes that their chance is below this but for one case in a million."""
    return bool(binom.cdf(successes, runs, chance) < RARE)


def hard(d: int, n: int, alpha: float, seed: int) -> tuple[BitSample, int]:
    """Where x = 0 but for a share of 2·1.05α, there uniform: every wrong parity has the error 1.05α."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (n, d)) * (rng.random(n) < 2.1 * alpha)[:, None]
    r = rng.integers(0, 2, d)
    return BitSample.of(x, x @ r % 2), int(r @ (1 << np.arange(d)))


def string(r: int, d: int) -> str:
    """As populations write it: bit 0 first."""
    return "".join(str(r >> i & 1) for i in range(d))


def columns(x: np.ndarray) -> np.ndarray:
    """Words as a population has them: a column a user."""
    return packed(x.astype(np.uint8)).T
