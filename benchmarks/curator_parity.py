"""How fast the PARITY learner solves, and how many users each of its versions needs.

`parity_solve` times affine solving and one uniform draw, `parity_coins` the coins of 10⁵ examples, `parity_users`
counts successes on a distribution that is as hard as can be: x = 0 but for a share of 2·1.05α, there uniform, so that
every wrong parity has the error 1.05α. Prints one JSON object; exits 6 where a time is above its goal.

    python benchmarks/curator_parity.py [runs]
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from askance_lab.curator import retry, train_test
from askance_lab.curator.affine import solve
from askance_lab.curator.databases import Bits, BitSample, Truths, packed
from askance_lab.curator.draws import Below, below
from askance_lab.curator.parity import coins, inclusion
from askance_protocol.bounds.parity import TrainTest
from askance_protocol.randomness import SimulatedRandom

SHAPES: Final = {
    "d1024_full_rank": (1024, 1024, 1024, 0.2),
    "d1024_20_times": (1024, 20 * 1024, 1024, 0.2),
    "d4096_full_rank": (4096, 4096, 4096, 1.0),
    "d4096_half_rank": (4096, 4096, 2048, 5.0),
}
"""Bits, examples, rank, and the seconds that solving and a draw may take."""
COINS_GOAL: Final = 0.1
RUNS: Final = 5
ALPHA: Final = 0.1
BITS: Final = 10
ONE: Final = Fraction(1)

Learner: TypeAlias = Callable[[BitSample, Below], int | None]
Report: TypeAlias = dict[str, dict[str, float]]


def main() -> int:
    """Measure, print, compare with the goals."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    solved = parity_solve()
    tossed = parity_coins()
    missed = [name for name, found in {**solved, **tossed}.items() if found["seconds"] > found["goal"]]
    result = {"schema_version": 1, "solve": solved, "coins": tossed, "users": parity_users(runs), "missed": missed}
    print(json.dumps(result))
    return 6 if missed else 0


def parity_solve() -> Report:
    """Median seconds of solving and drawing, for each shape."""
    report: Report = {}
    for name, (d, examples, rank, goal) in SHAPES.items():
        words, labels = _system(d, examples, rank)

        def work(d: int = d, words: Bits = words, labels: Truths = labels) -> None:
            space = solve(d, words, labels)
            assert space is not None  # noqa: S101 - what is measured is the whole work
            space.sample(below(SimulatedRandom(1)))

        report[name] = {"seconds": _seconds(work), "goal": goal}
    return report


def parity_coins() -> Report:
    """Median seconds of choosing among 10⁵ examples."""
    p = inclusion(ONE)
    return {
        "coins_100000": {"seconds": _seconds(lambda: coins(100_000, p, below(SimulatedRandom(1)))), "goal": COINS_GOAL}
    }


def parity_users(runs: int) -> Report:
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


def _system(d: int, examples: int, rank: int) -> tuple[Bits, Truths]:
    """Random equations that some r solves."""
    rng = np.random.default_rng(d + rank)
    words = _random_words(rng, examples, d)
    if rank < d:
        basis = np.unpackbits(_random_words(rng, rank, d).view(np.uint8), axis=1, bitorder="little").astype(np.float32)
        sums = rng.integers(0, 2, (examples, rank)).astype(np.float32) @ basis
        words = packed((sums % 2).astype(np.uint8))
    r = _random_words(rng, 1, d)
    return words, (np.bitwise_count(words & r).sum(axis=1) % 2).astype(np.bool)


def _random_words(rng: np.random.Generator, rows: int, d: int) -> NDArray[np.uint64]:
    return rng.integers(0, 1 << 64, (rows, d // 64), np.uint64)


def _seconds(work: Callable[[], object]) -> float:
    taken: list[float] = []
    for _ in range(RUNS + 1):
        begin = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begin)
    # The first run warms caches.
    return round(statistics.median(taken[1:]), 4)


if __name__ == "__main__":
    sys.exit(main())
