"""The whole protocol on one page: one study, from publication to hypothesis.

What a server, its ledger and its clients do over a network happens here in one process, by the very same functions:
`step` decides for the aggregator, `reports_of` answers for the users, a bulletin in memory stands for the published
one. A study with the same specification, users and seed has the same rounds and the same hypothesis here and over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from askance_client.population import Population
from askance_client.simulation.blocks import blocks_of, reports_of
from askance_lab.engines import Engine
from askance_protocol.rounds import PreparedRound, RoundSpec, StudySpec, prepare_round, read_round, read_study
from askance_protocol.rounds.bulletin import RoundAnswered, RoundClosed, RoundPublished, StudyEnded
from askance_protocol.tally import Tally, tally_answers
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.replay import ReplayError
from askance_server.core.strategy import Strategy
from askance_server.core.study import Ended, Paused, Waiting, step


@dataclass(frozen=True, slots=True)
class Block:
    """Some users of a round, with all that a worker needs to report for them."""

    study: StudySpec
    round: RoundSpec
    population: Population
    users: range
    seed: int | None


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
    view = StudyInMemory(study, strategy, users, clock)
    # 1. Publish. What users will be asked of, and the most that it may cost them, stands first on the bulletin.
    view.publish()
    while True:
        match step(view):
            case RoundPublished() as notice:
                # 2. Plan. The strategy asks statistical queries, each within a tolerance. The plan makes a round of
                # them: a channel for each, and as many users as the tolerances need, who have not answered before.
                view.append(notice)
            case Waiting(round=id_):
                # 3 to 5, by many workers, and for each user on her own.
                tasks = [Block(study, view.round(id_).spec, population, some, seed) for some in blocks_of(range(users))]
                for tallies in map(collected, tasks) if engine is None else engine(collected, tasks):
                    view.count(id_, tallies)
                    if not isinstance(step(view), Waiting):
                        break
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


def collected(block: Block) -> list[Tally]:
    """Tallies of a block's reports: nothing else of its users is ever seen."""
    # 3. Prepare. Before she answers, each user checks the round: its digest, its queries, the exact ε of every channel.
    round_ = _prepared(block.study.to_bytes(), block.round.to_bytes())
    # 4. Respond. The public coin says which question is hers; she answers it and randomizes the answer, once.
    reports = reports_of(round_, block.users, block.population, 0, block.seed)
    # 5. Tally. How often was each outcome reported?
    return tally_answers(round_, reports.questions, reports.outcomes)


@lru_cache(maxsize=4)
def _prepared(study: bytes, round_: bytes) -> PreparedRound:
    """Prepared round, cached once in each worker."""
    return prepare_round(read_study(study), read_round(round_))
