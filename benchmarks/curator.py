"""How fast the trusted curator's learners are: seconds, beside a plain numpy form of the same work in the same run.

Prints one JSON object. Runs are interleaved and each figure is the median. Exits 6 where a time is above its goal.
`curator_users.py` has how many users they need.

    python benchmarks/curator.py
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from askance_lab.curator import generic_interval, generic_parity, interval
from askance_lab.curator.affine import solve
from askance_lab.curator.databases import (
    BitSample,
    LabelledSample,
    PackedBits,
    packed,
    unpacked,
)
from askance_lab.curator.draws import Below, below
from askance_lab.curator.mechanism import exactly
from askance_lab.theory.targets import Targets
from askance_protocol.arrays import Truths
from askance_protocol.randomness import SimulatedRandom

RUNS: Final = 5
TARGETS: Final = Targets()
ENTRIES: Final = 100_000

Work = Callable[[], object]


class Piece(NamedTuple):
    """Some work, the seconds that it may take, and a plain form of the same work."""

    work: Work
    goal: float
    peer: Work | None = None
    times: int = 1
    """The peer does one of this many parts of it."""


def main() -> int:
    """Measure, print, compare with the goals."""
    pieces = all_pieces()
    seconds = measure(pieces)
    result = {
        "schema_version": 1,
        "runs": RUNS,
        "pieces": {name: timings(piece, name, seconds) for name, piece in pieces.items()},
    }
    missed = [name for name, piece in pieces.items() if seconds[name] > piece.goal]
    print(json.dumps({**result, "missed": missed}))
    return 6 if missed else 0


def timings(piece: Piece, name: str, seconds: Mapping[str, float]) -> dict[str, float]:
    """Its seconds, and how much faster than its peer it is."""
    told = {"seconds": round(seconds[name], 4), "goal": piece.goal}
    if piece.peer is not None:
        told["peer_seconds"] = round(piece.times * seconds[f"{name} peer"], 4)
        told["ratio"] = round(piece.times * seconds[f"{name} peer"] / seconds[name], 1)
    return told


def all_pieces() -> dict[str, Piece]:
    """What the learners spend their time on."""
    small, sample = interval_sample(2_000, 1024), interval_sample(ENTRIES, 1024)
    parities = parity_sample(20, 4000)
    words, labels = system(1024, 1024, 1024)
    bits = unpacked(words, 1024)
    how = interval.plan(1024, ENTRIES, **exactly(TARGETS))
    return {
        "parity_solve_d1024": Piece(solving(1024, 1024), 0.2, lambda: plain_elimination(bits, labels)),
        "parity_solve_d4096": Piece(solving(4096, 4096), 1.0),
        "parity_solve_d4096_half_rank": Piece(solving(4096, 2048), 5.0),
        "generic_parity_d20": Piece(
            lambda: generic_parity.MECHANISM.run(parities, TARGETS, draw()),
            0.3,
            lambda: plain_scores(parities, 1 << 10),
            times=1 << 10,
        ),
        "rec_100000_entries_d1024": Piece(lambda: interval.follow(sample, how, draw()), 0.4),
        "rec_2000_entries_d1024": Piece(lambda: interval.follow(small, how, draw()), 0.4),
        "generic_interval_100000_entries_d1024": Piece(
            lambda: generic_interval.MECHANISM.run(sample, TARGETS, draw()), 0.4
        ),
    }


def draw() -> Below:
    """Noise that is the same in each run."""
    return below(SimulatedRandom(1))


def solving(d: int, rank: int) -> Work:
    """All solutions of d equations of this rank, and one of them."""
    words, labels = system(d, d, rank)

    def work() -> None:
        space = solve(d, words, labels)
        assert space is not None  # noqa: S101 - what is measured is the whole work
        space.sample(draw())

    return work


def system(d: int, examples: int, rank: int) -> tuple[PackedBits, Truths]:
    """Random equations that some r solves."""
    rng = np.random.default_rng(d + rank)
    words = random_words(rng, examples, d)
    if rank < d:
        basis = np.unpackbits(random_words(rng, rank, d).view(np.uint8), axis=1, bitorder="little").astype(np.float32)
        sums = rng.integers(0, 2, (examples, rank)).astype(np.float32) @ basis
        words = packed((sums % 2).astype(np.uint8))
    r = random_words(rng, 1, d)
    return words, (np.bitwise_count(words & r).sum(axis=1) % 2).astype(np.bool)


def random_words(rng: np.random.Generator, rows: int, d: int) -> PackedBits:
    """Rows of d uniform bits."""
    return rng.integers(0, 1 << 64, (rows, d // 64), np.uint64)


def plain_elimination(bits: NDArray[np.uint8], labels: Truths) -> None:
    """Eliminate by Gauss and Jordan, a byte a bit, a row at a time."""
    rows = np.concatenate([bits, labels[:, np.newaxis].astype(np.uint8)], axis=1)
    top = 0
    for column in range(bits.shape[1]):
        below_ = np.flatnonzero(rows[top:, column])
        if not len(below_):
            continue
        rows[[top, top + below_[0]]] = rows[[top + below_[0], top]]
        others = np.flatnonzero(rows[:, column])
        rows[others[others != top]] ^= rows[top]
        top += 1


def parity_sample(d: int, examples: int) -> BitSample:
    """Uniform examples of some parity."""
    rng = np.random.default_rng(d)
    x = rng.integers(0, 2, (examples, d), np.uint8)
    return BitSample.of(x, x @ rng.integers(0, 2, d, np.uint8) % 2)


def plain_scores(sample: BitSample, hypotheses: int) -> None:
    """Count the mistakes of the first few parities, one after the other: 2^20 of them take 2^10 times as long."""
    for r in range(hypotheses):
        odd = np.bitwise_count(sample.words[:, 0] & np.uint64(r)) & 1
        np.count_nonzero(odd != sample.labels)


def interval_sample(entries: int, d: int) -> LabelledSample:
    """Numbers of d bits at distances of all sizes from a threshold."""
    rng = np.random.default_rng(entries)
    j, far = 1 << d - 1, rng.integers(0, d - 2, entries)
    points = [
        j + (1 << int(i)) if up else j - 1 - (1 << int(i)) for i, up in zip(far, rng.random(entries) < 0.5, strict=True)
    ]
    scattered = [x ^ int(low) for x, low in zip(points, rng.integers(0, 1 << 20, entries), strict=True)]
    return LabelledSample.of(d, scattered, [x < j for x in scattered])


def measure(pieces: Mapping[str, Piece]) -> dict[str, float]:
    """Median seconds of each, run by turns; the first turn warms caches."""
    works = {name: piece.work for name, piece in pieces.items()}
    works |= {f"{name} peer": piece.peer for name, piece in pieces.items() if piece.peer is not None}
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(RUNS + 1):
        for name, work in works.items():
            begin = time.perf_counter()
            work()
            taken[name].append(time.perf_counter() - begin)
    return {name: statistics.median(each[1:]) for name, each in taken.items()}


if __name__ == "__main__":
    sys.exit(main())
