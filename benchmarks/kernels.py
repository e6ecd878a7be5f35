"""How fast the exact channels are, as ratios to numpy's `rng.random(n) < p` in the same run on one core.

Prints one JSON object. A ratio of 2 means twice as fast as the float comparison. Exits 6 where a ratio misses its goal,
or where the memory of chunked work grows with n. `binary` is drawn from a seed, `binary_of_the_system` as real noise
is; `binary_read_at_once` reads all of its bytes from the operating system, as real noise was drawn before.

    python benchmarks/kernels.py [--turns N] [--planted NAME]
"""

from __future__ import annotations

import os
import sys
import tracemalloc
from typing import Final

import numpy as np
from measuring import Figure, Work, arguments, in_turns, on_one_core, tell
from numpy.typing import NDArray

from askance_protocol.budget import MICRO
from askance_protocol.channels import BinaryResponse, Channel, DiscreteLaplace, KaryResponse, TwoSidedGeometric
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import FieldValue
from askance_protocol.randomness import Leads, OsRandom, Positions, RandomSource, SimulatedRandom, Words
from askance_protocol.rounds import BinarySpec, Cohort, Part, PreparedRound, RoundSpec, StudySpec, prepare_round
from askance_protocol.schema import IntegerField, Schema
from askance_protocol.tally import tally_round
from askance_server.core.estimators import estimate

COUNT: Final = 10_000_000
CELLS: Final = 128
CHUNK: Final = 1 << 16
BASELINE: Final = "baseline"
GOALS: Final = {
    "binary": 1.0,
    "binary_of_the_system": 3.5,
    "hadamard_128": 0.3,
    "kary_128": 0.15,
    "tally_hadamard_128": 0.3,
    "geometric_100": 0.05,
}
"""At least this fraction of the baseline's speed. Kernels without a goal are printed for comparison."""
MEMORY: Final = 1.1
"""Ten times the users, the same memory: a tenth of slack for what an allocator rounds up."""


def main() -> int:
    """Measure, print, compare with the goals."""
    work = {BASELINE: baseline(COUNT), **kernels(COUNT)}
    given = arguments(__doc__, list(work))
    on_one_core()
    timed = in_turns(work, given)
    figures = {
        name: timed.ratio(BASELINE, name, **({"at_least": GOALS[name]} if name in GOALS else {}))
        for name in work
        if name != BASELINE
    }
    memory = Figure((peak_bytes(COUNT) / peak_bytes(COUNT // 10),), at_most=MEMORY)
    each = 1e9 * Figure(tuple(timed.seconds[BASELINE])).median / COUNT
    return tell(
        {**figures, "memory": memory}, n=COUNT, baseline="rng.random(n) < p", baseline_ns_per_user=round(each, 3)
    )


def baseline(count: int) -> Work:
    """What most simulations of randomized response do, with a float that decides."""
    rng = np.random.default_rng(1)
    return lambda: rng.random(count) < 0.7310585786300049


def kernels(count: int) -> dict[str, Work]:
    """Each channel from inputs to outcomes; the Hadamard part from cells to outcomes and back to estimates."""
    rng = np.random.default_rng(2)
    cells = rng.integers(0, CELLS, count).astype(np.uint8)
    round_ = hadamard_round()
    outcomes = respond(round_, cells)
    binary = BinaryResponse(MICRO)
    return {
        "binary": sampler(binary, rng, count),
        "binary_of_the_system": sampler(binary, rng, count, OsRandom()),
        "binary_read_at_once": sampler(binary, rng, count, ReadAtOnce()),
        "binary_value_2001": sampler(BinaryResponse(MICRO, 2000), rng, count),
        "hadamard_128": lambda: respond(round_, cells),
        "kary_128": sampler(KaryResponse(MICRO, CELLS), rng, count),
        "geometric_100": sampler(TwoSidedGeometric(MICRO, 100), rng, count),
        "laplace_100": sampler(DiscreteLaplace(MICRO, 100), rng, count),
        "tally_hadamard_128": lambda: estimate(round_.parts[0], tally_round(round_, range(count), outcomes)[0]),
    }


class ReadAtOnce(OsRandom):
    """All bytes from the operating system: what is drawn for many users had that before."""

    class _Draw:
        def __init__(self, leads: Leads) -> None:
            self.leads = leads

        def words(self, positions: Positions) -> Words:
            tails = np.frombuffer(os.urandom(8 * len(positions)), "<u8") >> np.uint64(16)
            return self.leads[positions].astype(np.uint64) << np.uint64(48) | tails

    def draw(self, count: int) -> _Draw:
        """The next words."""
        return self._Draw(np.frombuffer(os.urandom(2 * count), "<u2"))


def sampler(channel: Channel, rng: np.random.Generator, count: int, source: RandomSource | None = None) -> Work:
    """The channel on inputs of all kinds."""
    inputs = rng.integers(0, channel.inputs, count).astype(np.uint8 if channel.inputs <= 256 else np.uint16)
    source = SimulatedRandom(1) if source is None else source
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
