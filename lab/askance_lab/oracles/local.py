"""The local model in process: the server's own plan, the client's own reports, without the wire between them.

A round is planned over all users, prepared, answered block by block and estimated by the very functions that a server
and a gateway use, with the gateway's blocks and streams. So a study of the same specification, users and seed has the
same tallies here and over HTTP, to the last report.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from askance_client.population import Population
from askance_client.simulation.gateway import BLOCK
from askance_lab.engines import Engine, engine
from askance_lab.oracles.crowds import check_size
from askance_lab.oracles.oracle import Oracle, Spent
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import CellQuery
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import (
    PreparedPart,
    PreparedRound,
    RoundSpec,
    StudySpec,
    prepare_round,
    read_round,
    read_study,
)
from askance_protocol.tally import Tally, tally_round
from askance_server.core import planning
from askance_server.core.estimators import estimate
from askance_server.core.strategy import Answer, Ask, Parameters, Strategy
from askance_server.core.study import study_of


@dataclass(frozen=True, slots=True)
class Block:
    """Some users of a round, for a worker that knows nothing else."""

    study: StudySpec
    round: RoundSpec
    population: Population
    users: range
    seed: int


@dataclass(slots=True)
class LocalReports(Oracle):
    """Every user is in one cohort of the study, and reports once."""

    study: StudySpec
    strategy: Strategy
    population: Population
    users: int
    seed: int
    engine: Engine = field(default_factory=engine)
    now: Callable[[], int] = lambda: 0
    """The clock that deadlines are counted from: a part of a round's digest, and so of its coins."""
    rounds: list[PreparedRound] = field(default_factory=list[PreparedRound])
    tallies: list[list[Tally]] = field(default_factory=list["list[Tally]"])

    def __post_init__(self) -> None:
        if self.study.example != self.population.schema:
            raise ProtocolError("has another schema than the study", where="population")
        check_size(self.population, self.users)

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """Plan, ask, tally, estimate."""
        round_ = self._planned(asks)
        tallies = self._tallied(round_)
        self.rounds.append(round_)
        self.tallies.append(tallies)
        return [answer_of(part, tally) for part, tally in zip(round_.parts, tallies, strict=True)]

    def _planned(self, asks: Sequence[Ask]) -> PreparedRound:
        number = len(self.rounds) + 1
        asked = planning.demand(self.study, asks, self.strategy.rounds)
        place = planning.RoundPosition(number, self.strategy.portion(number), self._first_slot)
        payers = planning.payers(self.study, self.users, asked.charge, _everybody)
        return prepare_round(self.study, planning.plan(self.study, asked, place, self.users, payers, self.now()))

    @property
    def _first_slot(self) -> int:
        cohorts = [round_.spec.cohort for round_ in self.rounds]
        return max((cohort.first_slot + cohort.slot_count for cohort in cohorts), default=0)

    def _tallied(self, round_: PreparedRound) -> list[Tally]:
        tasks = [Block(self.study, round_.spec, self.population, users, self.seed) for users in _blocks(self.users)]
        total = [Tally(np.zeros((part.rows, part.channel.outcomes), np.int64)) for part in round_.parts]
        for some in self.engine(reported, tasks):
            total = [one + other for one, other in zip(total, some, strict=True)]
        silent = sum(not tally.received for tally in total)
        if silent:
            received = sum(tally.received for tally in total)
            raise planning.TooFewUsersError(
                f"had {received} reports, and {silent} of its {len(total)} parts had none",
                where=f"round {round_.spec.number}",
                remedy="give more users",
                available=received,
            )
        return total

    @property
    def received(self) -> list[int]:
        """Reports of each round."""
        return [sum(tally.received for tally in tallies) for tallies in self.tallies]

    @property
    def spent(self) -> Spent:
        """The planner's runs of slots do not meet, so nobody pays for two rounds."""
        return Spent(sum(self.received), max((round_.charge for round_ in self.rounds), default=0))


def study_for(strategy: Strategy, parameters: Parameters, seed: int) -> StudySpec:
    """A study of one's own. Its nonce, which makes coins its own, comes from the seed."""
    nonce = hashlib.sha256(b"askance lab nonce v1" + str(seed).encode()).hexdigest()[:32]
    title = f"{strategy.name}, in process"
    named = {strategy.name: strategy}
    return study_of(named, strategy=strategy.name, parameters=parameters, title=title, nonce=nonce, simulated=True)


def reported(block: Block) -> list[Tally]:
    """The reports of a block, counted: what the gateway draws, on its stream for this round and block."""
    round_ = _prepared(block.study, block.round)
    asked = np.flatnonzero(round_.asked(block.users))
    numbers = asked.astype(np.uint64) + np.uint64(block.users.start)
    columns = block.population.columns(block.users)
    stream = SimulatedRandom(block.seed, stream=int(round_.id[:16], 16) << 48 | block.users.start)
    sample = round_.respond_all(numbers, columns.take(asked), stream)
    return tally_round(round_, numbers, sample.outcomes)


def answer_of(part: PreparedPart, tally: Tally) -> Answer:
    """A float, or an array of one for each cell."""
    values = estimate(part, tally).values
    return values if isinstance(part.query.query, CellQuery) else float(values[0])


@lru_cache(maxsize=4)
def _prepared_once(key: tuple[bytes, bytes]) -> PreparedRound:
    return prepare_round(read_study(key[0]), read_round(key[1]))


def _prepared(study: StudySpec, round_: RoundSpec) -> PreparedRound:
    """A worker prepares a round once, not for each block."""
    return _prepared_once((study.to_bytes(), round_.to_bytes()))


def _blocks(users: int) -> Iterator[range]:
    for begin in range(0, users, BLOCK):
        yield range(begin, min(begin + BLOCK, users))


def _everybody(users: range, charge: int) -> np.ndarray[tuple[int], np.dtype[np.bool]]:  # noqa: ARG001 - an `Affording`
    """Nobody has paid for anything before the study."""
    return np.ones(len(users), np.bool)
