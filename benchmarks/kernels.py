"""How fast the exact channels are, as ratios to numpy's `rng.random(n) < p` in the same run on one core.

Prints one JSON object. A ratio of 2 means twice as fast as the float comparison. Runs are interleaved and each
figure is the median, so that whatever else the machine does meets all kernels alike. Exits 6 where a ratio is
below its goal, or where the memory of chunked work grows with n.

    python benchmarks/kernels.py [n]
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from askance_protocol.budget import MICRO
from askance_protocol.channels import BinaryResponse, Channel, DiscreteLaplace, KaryResponse, TwoSidedGeometric
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import FieldValue
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import BinarySpec, Cohort, Part, PreparedRound, RoundSpec, StudySpec, prepare_round
from askance_protocol.schema import IntegerField, Schema
from askance_protocol.tally import tally_round
from askance_server.core.estimators import estimate

CELLS: Final = 128
CHUNK: Final = 1 << 16
RUNS: Final = 5
GOALS: Final = {"binary": 1.0, "hadamard_128": 0.3, "kary_128": 0.15, "tally_hadamard_128": 0.3, "geometric_100": 0.05}
"""At least this fraction of the baseline's speed. Kernels without a goal are printed for comparison."""

Kernel = Callable[[], object]


def main() -> int:
    """Measure, print, compare with the goals."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    seconds = measure({"baseline": baseline(count), **kernels(count)})
    ratios = {name: round(seconds["baseline"] / took, 3) for name, took in seconds.items() if name != "baseline"}
    memory = {str(n): peak_bytes(n) for n in (count // 10, count)}
    missed = [name for name, goal in GOALS.items() if ratios[name] < goal]
    # Ten times the users, the same memory: a tenth of slack for what an allocator rounds up.
    grows = memory[str(count)] > 1.1 * memory[str(count // 10)]
    result = {
        "schema_version": 1,
        "n": count,
        "runs": RUNS,
        "baseline": "rng.random(n) < p",
        "baseline_ns_per_user": round(1e9 * seconds["baseline"] / count, 3),
        "ratios": ratios,
        "goals": GOALS,
        "missed": missed,
        "chunked_peak_bytes": memory,
        "memory_grows": grows,
    }
    print(json.dumps(result))
    return 6 if missed or grows else 0


def measure(all_kernels: dict[str, Kernel]) -> dict[str, float]:
    """Median seconds of each kernel, all of them once per run."""
    taken: dict[str, list[float]] = {name: [] for name in all_kernels}
    for _ in range(RUNS + 1):
        for name, kernel in all_kernels.items():
            begin = time.perf_counter()
            kernel()
            taken[name].append(time.perf_counter() - begin)
    # The first run warms caches and lookup tables.
    return {name: statistics.median(times[1:]) for name, times in taken.items()}


def baseline(count: int) -> Kernel:
    """What most simulations of randomized response do, with a float that decides."""
    rng = np.random.default_rng(1)
    return lambda: rng.random(count) < 0.7310585786300049


def kernels(count: int) -> dict[str, Kernel]:
    """Each channel from inputs to outcomes; the Hadamard part from cells to outcomes and back to estimates."""
    rng = np.random.default_rng(2)
    cells = rng.integers(0, CELLS, count).astype(np.uint8)
    round_ = hadamard_round()
    outcomes = respond(round_, cells)
    return {
        "binary": sampler(BinaryResponse(MICRO), rng, count),
        "binary_value_2001": sampler(BinaryResponse(MICRO, 2000), rng, count),
        "hadamard_128": lambda: respond(round_, cells),
        "kary_128": sampler(KaryResponse(MICRO, CELLS), rng, count),
        "geometric_100": sampler(TwoSidedGeometric(MICRO, 100), rng, count),
        "laplace_100": sampler(DiscreteLaplace(MICRO, 100), rng, count),
        "tally_hadamard_128": lambda: estimate(round_.parts[0], tally_round(round_, range(count), outcomes)[0]),
    }


def sampler(channel: Channel, rng: np.random.Generator, count: int) -> Kernel:
    """The channel on inputs of all kinds."""
    inputs = rng.integers(0, channel.inputs, count).astype(np.uint8 if channel.inputs <= 256 else np.uint16)
    source = SimulatedRandom(1)
    return lambda: channel.sample(inputs, source)


def hadamard_round() -> PreparedRound:
    """One round that asks in which of the cells a user lies."""
    field = IntegerField(name="i", low=0, high=CELLS - 1)
    study = StudySpec(
        title="benchmark",
        nonce="0" * 32,
        example=Schema(fields=(field,)),
        strategy="histogram",
        interactive=False,
        simulated=True,
        cap=MICRO,
    )
    query = CellQuery(cells=CELLS, cell=FieldValue(field="i"))
    part = Part(query=query, channel=BinarySpec(micro_epsilon=MICRO), charge=MICRO)
    spec = RoundSpec(study=study.digest(), number=1, parts=(part,), cohort=Cohort(users=1), target=1, deadline=0)
    return prepare_round(study, spec)


def respond(round_: PreparedRound, cells: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """From cells to outcomes, a chunk at a time: coin, row, encoding, randomization."""
    source = SimulatedRandom(3)
    outcomes = np.empty(len(cells), np.uint8)
    part = round_.parts[0]
    for begin in range(0, len(cells), CHUNK):
        chunk = cells[begin : begin + CHUNK]
        rows = round_.questions(range(begin, begin + len(chunk)))[1]
        inputs = part.encode_all(chunk.astype(np.int16) + 1, rows)
        outcomes[begin : begin + CHUNK] = part.channel.sample(inputs, source).outcomes
    return outcomes


def peak_bytes(count: int) -> int:
    """The most memory that chunked work holds at once: draw cells, report, tally, forget."""
    round_ = hadamard_round()
    tracemalloc.start()
    total = np.zeros((CELLS, 2), np.int64)
    for begin in range(0, count, CHUNK):
        size = min(CHUNK, count - begin)
        cells = np.random.default_rng(begin).integers(0, CELLS, size, np.uint8)
        outcomes = respond(round_, cells)
        total += tally_round(round_, range(begin, begin + size), outcomes)[0].counts
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total.sum() == count  # noqa: S101 - what is measured is the whole work
    return peak


if __name__ == "__main__":
    sys.exit(main())
