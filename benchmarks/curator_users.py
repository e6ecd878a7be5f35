"""How often each version of the private PARITY learner is right, with about the least users that it needs.

On a distribution that is as hard as can be: x = 0 but for a share of 2·1.05α, there uniform, so that every wrong parity
has the error 1.05α. Prints one JSON object.

    python benchmarks/curator_users.py [runs]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from askance_lab.curator import retry, train_test
from askance_lab.curator.databases import BitSample
from askance_lab.curator.draws import Below, below
from askance_protocol.bounds.parity import TrainTest
from askance_protocol.randomness import SimulatedRandom

ALPHA: Final = 0.1
BITS: Final = 10
ONE: Final = Fraction(1)

Learner: TypeAlias = Callable[[BitSample, Below], int | None]


def main() -> int:
    """Measure and print."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(json.dumps({"schema_version": 1, "runs": runs, "users": parity_users(runs)}))
    return 0


def parity_users(runs: int) -> dict[str, dict[str, float]]:
    """How often each version finds r at α = .1, ε = 1, d = 10, with as many users as its entry says."""
    return {name: _success(users, learner, runs) for name, (users, learner) in versions().items()}


def versions() -> dict[str, tuple[int, Learner]]:
    """Versions of A*, with about the least users at which they find r nine times of ten."""
    parts = {"laplace": TrainTest(4, 160, 80), "exponential": TrainTest(4, 160, 60)}
    return {
        "insist": (240, lambda sample, draw: retry.insist(sample, epsilon=ONE, draw=draw)),
        "retry_4": (296, lambda sample, draw: retry.learn(sample, epsilon=ONE, runs=4, draw=draw)),
        "retry_5": (348, lambda sample, draw: retry.learn(sample, epsilon=ONE, runs=5, draw=draw)),
        "retry_5_stated_rate": (
            1540,
            lambda sample, draw: retry.learn(sample, epsilon=ONE, runs=5, draw=draw, stated=True),
        ),
        "train_test_laplace": (
            parts["laplace"].total,
            lambda sample, draw: train_test.learn(sample, epsilon=ONE, parts=parts["laplace"], draw=draw),
        ),
        "train_test_exponential": (
            parts["exponential"].total,
            lambda sample, draw: train_test.learn(
                sample, epsilon=ONE, parts=parts["exponential"], draw=draw, selection="exponential"
            ),
        ),
    }


def _success(users: int, learner: Learner, runs: int) -> dict[str, float]:
    rng, draw = np.random.default_rng(users), below(SimulatedRandom(users))
    right = 0
    for _ in range(runs):
        sample, r = hard_sample(rng, users)
        right += learner(sample, draw) == r
    low, high = _interval(right, runs)
    return {"users": users, "success": right / runs, "low": low, "high": high}


def hard_sample(rng: np.random.Generator, users: int) -> tuple[BitSample, int]:
    """Examples and their r."""
    shown = rng.random(users) < 2.1 * ALPHA
    x = rng.integers(0, 2, (users, BITS)) * shown[:, np.newaxis]
    r = rng.integers(0, 2, BITS)
    return BitSample.of(x, x @ r % 2), int(r @ (1 << np.arange(BITS)))


def _interval(right: int, runs: int) -> tuple[float, float]:
    """Wilson's, 95 %."""
    z, share = 1.96, right / runs
    middle, shrunk = share + z * z / (2 * runs), 1 + z * z / runs
    spread = z * (share * (1 - share) / runs + (z / (2 * runs)) ** 2) ** 0.5
    return round((middle - spread) / shrunk, 4), round((middle + spread) / shrunk, 4)


if __name__ == "__main__":
    sys.exit(main())
