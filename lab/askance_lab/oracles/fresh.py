"""Local reports with fresh users for each query: KLNRS11, Thm 5.7, as it is written.

A cell query is what it stands for in the papers, a query for each cell, each with a part of the portion of its own;
`pooled` has the way in which one bit of every user answers them all. Each query g: D → [low, high] becomes a number of
equal steps, 0 at low, and a user's report is one word of a channel on these steps:

- `BINARY`: one bit, of the protocol's binary response;
- `LAPLACE`: the protocol's discretised Laplace noise, of which a report is a certified ε; up to 1,023 steps;
- `PAPER`: R(u) = g(u) + Lap(2b/ε) with b = 1 (KLNRS11, §5.1.1), over the reals. Not private in floats (`float_laplace`)
  and therefore in the lab only.

Reports of one portion are counted, so their order does not matter: users with equal inputs are drawn in one go. From a
`Crowd` of people each report takes a word of the simulation's stream, as on a server. From a `Drawn` crowd the counts
are drawn as a whole (a multinomial for each input; for the sum of n Laplace variables the difference of two gamma
variables, because each is a difference of two exponential ones): the same distribution, for any number of users.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final

import numpy as np

from askance_lab.oracles.shared.crowds import Drawn
from askance_lab.oracles.shared.oracle import Oracle, Spent
from askance_lab.oracles.shared.portions import Portioned, evenly
from askance_lab.oracles.shared.setting import OracleKind, OracleSetting
from askance_protocol.arrays import Floats, Integers
from askance_protocol.budget import MICRO, whole_micro
from askance_protocol.channels import BinaryResponse, Channel, DiscreteLaplace
from askance_protocol.channels.additive import MAX_RANGE
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.randomness import SimulatedRandom
from askance_server.core.strategy import Answer, Ask

_CHUNK: Final = 1 << 20


class Randomizer(Enum):
    """Noise that a user adds to her answer."""

    BINARY = "binary"
    LAPLACE = "laplace"
    PAPER = "paper"


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A portion of users: how many hold each of the equal steps from `low` to `high`."""

    counts: Integers
    low: float
    high: float

    @property
    def values(self) -> Floats:
        """Values of the steps."""
        return np.linspace(self.low, self.high, len(self.counts))


@dataclass(slots=True)
class Fresh(Portioned):
    """Each user is asked one query, once, and answers through an ε-local randomizer."""

    micro_epsilon: int = MICRO
    randomizer: Randomizer = Randomizer.BINARY
    seed: int = 1
    _stream: SimulatedRandom = field(init=False, repr=False)
    _source: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        whole_micro(self.micro_epsilon, least=1)
        self._stream = SimulatedRandom(self.seed, stream=2)
        self._source = np.random.default_rng([self.seed, 3])

    def estimate(self, ask: Ask, size: int) -> Answer:
        """Unbiased mean of the reports; for a cell query an array, each cell from its own portion."""
        if not isinstance(ask.query, CellQuery):
            return self._mean(steps_of(ask.query, self._counts(ask, size)))
        each = size // ask.query.cells
        means = [self._mean(steps_of(ask.query, self._counts(ask, each), cell)) for cell in range(ask.query.cells)]
        return np.array(means)

    def _counts(self, ask: Ask, size: int) -> Integers:
        return Portioned.counts(self, ask, size).astype(np.int64)

    def _mean(self, steps: Steps) -> float:
        if self.randomizer is Randomizer.PAPER:
            return self._paper(steps)
        channel = _channel(self.randomizer, self.micro_epsilon, len(steps.counts) - 1)
        reports = self._reports(channel, steps.counts)
        return float(channel.scores(steps.values) @ reports) / int(reports.sum())

    def _reports(self, channel: Channel, counts: Integers) -> Integers:
        """Number of reports of each outcome."""
        total = np.zeros(channel.outcomes, np.int64)
        for given in np.flatnonzero(counts).tolist():
            total += self._alike(channel, given, int(counts[given]))
        return total

    def _alike(self, channel: Channel, given: int, users: int) -> Integers:
        """Reports of the users who hold the same input."""
        if isinstance(self.crowd, Drawn):
            row = np.array([float(weight) for weight in channel.weights(given)])
            return self._source.multinomial(users, row / row.sum())
        total = np.zeros(channel.outcomes, np.int64)
        for some in _pieces(users):
            sample = channel.sample(np.full(some, given, np.uint32), self._stream)
            total += np.bincount(sample.outcomes, minlength=channel.outcomes)
        return total

    def _paper(self, steps: Steps) -> float:
        """Average of g(u_i) + Lap(2b/ε), b = 1: KLNRS11, §5.1.1."""
        users, scale = int(steps.counts.sum()), 2 * MICRO / self.micro_epsilon
        total = float(steps.counts @ steps.values)
        if isinstance(self.crowd, Drawn):
            up, down = self._source.gamma(users, scale, 2)
            return (total + float(up) - float(down)) / users
        noise = sum(float(self._source.laplace(0, scale, some).sum()) for some in _pieces(users))
        return (total + noise) / users

    @property
    def spent(self) -> Spent:
        """ε of one report: no user is asked twice."""
        return Spent(self.crowd.asked, self.micro_epsilon if self.crowd.asked else 0)


def steps_of(query: BooleanQuery | RealQuery | CellQuery, counts: Integers, cell: int = 0) -> Steps:
    """Steps that a portion is asked about, from the histogram of its answers: a mean, or one cell's signed share."""
    match query:
        case BooleanQuery():
            return Steps(counts, 0, 1)
        case RealQuery():
            return Steps(counts, -1, 1)
        case CellQuery(cells=cells, negative=negative):
            plus, minus = int(counts[cells + 1 + cell]), int(counts[cells - 1 - cell])
            none = int(counts.sum()) - plus - minus
            return (
                Steps(np.array([none, plus]), 0, 1) if negative is None else Steps(np.array([minus, none, plus]), -1, 1)
            )


@lru_cache(maxsize=64)
def _channel(randomizer: Randomizer, micro_epsilon: int, steps: int) -> Channel:
    if randomizer is Randomizer.BINARY:
        return BinaryResponse(micro_epsilon=micro_epsilon, steps=steps)
    if steps > MAX_RANGE:
        raise ProtocolError(
            f"has {steps} steps, over {MAX_RANGE}",
            where="query.denominator",
            remedy="use a denominator of 511 at most, or binary response",
        )
    return DiscreteLaplace(micro_epsilon=micro_epsilon, range=steps)


def _pieces(users: int) -> Iterator[int]:
    for begin in range(0, users, _CHUNK):
        yield min(_CHUNK, users - begin)


def fresh(setting: OracleSetting, randomizer: Randomizer = Randomizer.BINARY) -> Oracle:
    """Fresh portions of the users of a setting."""
    dealt, micro_epsilon = evenly(setting.planned), setting.micro_epsilon
    return Fresh(setting.people, dealt, micro_epsilon=micro_epsilon, randomizer=randomizer, seed=setting.seed)


ORACLE: Final = OracleKind("fresh", "users' own bits, fresh users for each query", fresh, local=True)
