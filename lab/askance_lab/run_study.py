"""The whole protocol on one page: one study, from publication to hypothesis.

What a server, its ledger and its clients do over a network happens here in one process, by the very same functions:
`step` decides for the aggregator, `reports_of` answers for the users, a bulletin in memory stands for the published
one. A study with the same specification, users and seed has the same rounds and the same hypothesis here and over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import chain
from operator import add
from typing import ClassVar, Final, TypeVar

import numpy as np

from askance_client.population import Population
from askance_client.simulation.blocks import BLOCK, blocks_of, reports_of
from askance_lab.engines import Engine
from askance_protocol.rounds import PreparedRound, RoundSpec, StudySpec, prepare_round, read_round, read_study
from askance_protocol.rounds.bulletin import RoundAnswered, RoundClosed, RoundPublished, StudyEnded
from askance_protocol.tally import Tally, tally_in_turn
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.planning import SLOTS, Slots, slots_of, terms_of
from askance_server.core.replay import ReplayError
from askance_server.core.strategy import Strategy
from askance_server.core.study import Ended, Paused, Waiting, step

Task = TypeVar("Task")
Result = TypeVar("Result")

_TASKS: Final = 32
_PIECES: Final = 8
_BLOCKS: Final = 32
"""Blocks of a task, at most: some tenths of a second of work, beside which a few milliseconds of sending are little."""


@dataclass(frozen=True, slots=True)
class Collection:
    """All that a worker needs to report for users of a round: sent to each worker once. A task is a run of users."""

    study: StudySpec
    round: RoundSpec
    population: Population
    seed: int | None

    def __call__(self, users: range) -> list[list[Tally]]:
        """Tallies of these users' reports, block by block: nothing else of them is ever seen.

        A round of all users ends with the last of them, so that its blocks may be added up here. One that ends at a
        number of reports ends at a block.
        """
        blocks = [collected(self, some) for some in blocks_of(users)]
        if terms_of(self.study.parameters).users != "all":
            return blocks
        return [[reduce(add, part) for part in zip(*blocks, strict=True)]]


@dataclass(frozen=True, slots=True)
class SlotCount:
    """Counts the users of a study by the slots that its public coin deals them: before the first round is planned."""

    study: StudySpec
    label: ClassVar[str] = "users by slots"

    def __call__(self, users: range) -> Slots:
        """Of these users."""
        return slots_of(self.study, users)


def added(counts: Iterable[Slots]) -> Slots:
    """The sum of these, of which there is one at a time."""
    summed = np.zeros(SLOTS, np.int64)
    for each in counts:
        summed += each
    return summed


def run_study(
    study: StudySpec,
    strategy: Strategy,
    population: Population,
    users: int,
    seed: int | None,
    engine: Engine | None = None,
    clock: Callable[[], int] = lambda: 0,
) -> StudyInMemory:
    """Run a study over the first users of a population (KLNRS11, Def. 5.3). Without a seed the noise is real."""
    work: Engine = engine or _in_turn
    view = StudyInMemory(study, strategy, users, clock, lambda: added(work(SlotCount(study), pieces_of(users))))
    # 1. Publish. What users will be asked of, and the most that it may cost them, stands first on the bulletin.
    view.publish()
    while True:
        match step(view):
            case RoundPublished() as notice:
                # 2. Plan. The strategy asks statistical queries, each within a tolerance. The plan makes a round of
                # them: a channel for each, and as many users as the tolerances need, who have not answered before.
                view.append(notice)
            case Waiting(round=id_, deadline=deadline):
                # 3 to 5, by many workers, and for each user on her own.
                everybody = Collection(study, view.round(id_).spec, population, seed)
                tasks = tasks_of(users)
                for tallies in chain.from_iterable(work(everybody, tasks)):
                    view.count(id_, tallies)
                    if not isinstance(step(view), Waiting):
                        break
                else:
                    view.pass_time(deadline)
            case RoundClosed() as notice:
                # 6. Close. The round has its reports, or its time is over: from now on it takes no more.
                view.append(notice)
            case RoundAnswered() as notice:
                # 7. Answer. The tallies become public; estimates made of them are what the strategy is sent.
                view.append(notice)
            case StudyEnded() as notice:
                # 8. End. The strategy has returned its hypothesis, or the bulletin says why it could not.
                view.append(notice)
            case Ended():
                return view
            case Paused(reason):
                # What runs here is not the strategy that the study names.
                raise ReplayError(reason, where=study.strategy)


def _in_turn(function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterable[Result]:
    return map(function, tasks)


def tasks_of(users: int) -> list[range]:
    """The users in tasks of whole blocks: some tens of tasks, so that workers end together, or large ones."""
    blocks = -(-users // BLOCK)
    return list(blocks_of(range(users), BLOCK * min(max(1, blocks // _TASKS), _BLOCKS)))


def pieces_of(users: int) -> list[range]:
    """The users in few pieces: what is counted of each is half a megabyte, whatever its size."""
    return list(blocks_of(range(users), max(BLOCK, -(-users // _PIECES))))


def collected(asked: Collection, users: range) -> list[Tally]:
    """Tallies of the reports of one block, which has a random stream of its own."""
    # 3. Prepare. Before she answers, each user checks the round: its digest, its queries, the exact ε of every channel.
    round_ = _prepared(asked.study.to_bytes(), asked.round.to_bytes())
    # 4. Respond. The public coin says which question is hers; she answers it and randomizes the answer, once.
    reports = reports_of(round_, users, asked.population, 0, asked.seed)
    # 5. Tally. How often was each outcome reported?
    return tally_in_turn(round_, reports.in_turn)


@lru_cache(maxsize=4)
def _prepared(study: bytes, round_: bytes) -> PreparedRound:
    """Prepared round, cached once in each worker."""
    return prepare_round(read_study(study), read_round(round_))
