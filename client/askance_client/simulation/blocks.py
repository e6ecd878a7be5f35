"""Blocks of users: the reports of many simulated users at a time, the same wherever they are drawn.

A gateway draws them to send them, the lab to count them. Each block of each round has a random stream of its own, so
what one block reports does not depend on the others, on their order, or on who draws them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from askance_client.population import Population
from askance_protocol.heap import keep_memory
from askance_protocol.randomness import OsRandom, RandomSource, SimulatedRandom
from askance_protocol.reports import ReportBatch
from askance_protocol.rounds import InTurn, PreparedRound

BLOCK: Final = 100_000
"""Users of a block, unless given."""

_MOST: Final = 0.75
"""Where fewer than three in four are asked, nothing is made of the others."""


def blocks_of(users: range, size: int = BLOCK) -> Iterator[range]:
    """Cut a run of users into blocks."""
    for begin in range(users.start, users.stop, size):
        yield range(begin, min(begin + size, users.stop))


@dataclass(frozen=True, slots=True, eq=False)
class BlockReports:
    """Reports of the users of a block who are asked, part by part, as they are counted."""

    start: int
    asked: NDArray[np.intp] | None
    """Who of the block is asked, where only their reports were drawn: a report's place is one among them."""
    in_turn: InTurn

    def batch(self) -> ReportBatch:
        """The reports as a gateway delivers them: in the order of their users."""
        places, outcomes = self.in_turn.places, self.in_turn.outcomes
        order = np.argsort(places)
        rows = places[order] if self.asked is None else self.asked
        numbers = rows.astype(np.uint64) + np.uint64(self.start)
        return ReportBatch(numbers, outcomes[order].astype(np.uint32), self.in_turn.simulated)


def reports_of(
    round_: PreparedRound, users: range, population: Population, first: int, seed: int | None
) -> BlockReports:
    """Reports of the users of a block who are asked. User u holds example u − `first` of the population."""
    keep_memory()
    block = range(users.start - first, users.stop - first)
    asked, source = np.flatnonzero(round_.asked(users)), source_of(round_, users, seed)
    if len(asked) < _MOST * len(users):
        questions = round_.questions(asked + users.start)
        drawn = round_.respond_in_turn(questions, population.some(block, asked), source)
        return BlockReports(users.start, asked, drawn)
    # Examples of the few who are not asked are made as well, and looked at, rather than all others copied.
    some = None if len(asked) == len(users) else asked
    drawn = round_.respond_in_turn(round_.questions(users), population.columns(block), source, some)
    return BlockReports(users.start, None, drawn)


def source_of(round_: PreparedRound, users: range, seed: int | None) -> RandomSource:
    """Random stream for each round and block; repeatable with a seed, real noise without."""
    if seed is None:
        return OsRandom()
    return SimulatedRandom(seed, stream=int(round_.id[:16], 16) << 48 | users.start)
