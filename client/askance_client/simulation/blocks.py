"""Blocks of users: the reports of many simulated users at a time, the same wherever they are drawn.

A gateway draws them to send them, the lab to count them. Each block of each round has a random stream of its own, so
what one block reports does not depend on the others, on their order, or on who draws them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from askance_client.population import Population
from askance_protocol.randomness import OsRandom, RandomSource, SimulatedRandom
from askance_protocol.reports import ReportBatch
from askance_protocol.rounds import PreparedRound, Questions

BLOCK: Final = 100_000
"""Users of a block, unless given."""


def blocks_of(users: range, size: int = BLOCK) -> Iterator[range]:
    """Cut a run of users into blocks."""
    for begin in range(users.start, users.stop, size):
        yield range(begin, min(begin + size, users.stop))


@dataclass(frozen=True, slots=True, eq=False)
class BlockReports:
    """Reports of the users of a block, with what they were asked: who counts them need not look it up again."""

    batch: ReportBatch
    questions: Questions


def reports_of(
    round_: PreparedRound, users: range, population: Population, first: int, seed: int | None
) -> BlockReports:
    """Reports of the users of a block who are asked. User u holds example u − `first` of the population."""
    asked = np.flatnonzero(round_.asked(users))
    numbers = asked.astype(np.uint64) + np.uint64(users.start)
    columns = population.some(range(users.start - first, users.stop - first), asked)
    questions = round_.questions(users if len(asked) == len(users) else numbers)
    sample = round_.respond_all(numbers, columns, source_of(round_, users, seed), questions)
    return BlockReports(ReportBatch(numbers, sample.outcomes, sample.simulated), questions)


def source_of(round_: PreparedRound, users: range, seed: int | None) -> RandomSource:
    """Random stream for each round and block; repeatable with a seed, real noise without."""
    if seed is None:
        return OsRandom()
    return SimulatedRandom(seed, stream=int(round_.id[:16], 16) << 48 | users.start)
