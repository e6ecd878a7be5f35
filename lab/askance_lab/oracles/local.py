"""The local model in process: the server's own plan and the clients' own reports, without a network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from askance_client.population import Population
from askance_lab.counted_study import count_study
from askance_lab.engines import Engine, engine
from askance_lab.oracles.shared.crowds import check_size
from askance_lab.oracles.shared.oracle import Learned, Oracle, Spent
from askance_lab.oracles.shared.setting import OracleKind, OracleSetting
from askance_lab.run_study import run_study
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import Cause, PreparedRound, StudySpec
from askance_protocol.schema import Schema
from askance_protocol.tally import Tally
from askance_server.core.estimates import study_estimates
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.planning import TooFewUsersError
from askance_server.core.run import StrategyError
from askance_server.core.strategy import Estimate, Hypothesis, Parameters, Strategy
from askance_server.core.study import study_of


@dataclass(slots=True)
class LocalReports(Oracle):
    """One study over the first users of a population, each reporting at most once."""

    study: StudySpec
    strategy: Strategy
    population: Population
    users: int
    seed: int | None
    """Of the noise; None: real noise."""
    engine: Engine = field(default_factory=engine)
    now: Callable[[], int] = lambda: 0
    """The clock that deadlines are counted from: a part of a round's digest, and so of its coins."""
    counts: bool = False
    """Whether tallies are drawn from their law, and no user is made (`counted_study`)."""
    view: StudyInMemory | None = None
    """The study, once it has been run."""

    def __post_init__(self) -> None:
        if self.study.example != self.population.schema:
            raise ProtocolError("has another schema than the study", where="population")
        check_size(self.population, self.users)

    def learn(self, strategy: Strategy, parameters: Parameters) -> Learned:  # noqa: ARG002 - the study has both
        """Run the study and return what it learned."""
        study = self.study, self.strategy, self.population, self.users, self.seed
        self.view = count_study(*study, self.now) if self.counts else run_study(*study, self.engine, self.now)
        learned = learned_by(self.view)
        return Learned(
            learned,
            len(self.rounds),
            sum(len(round_.parts) for round_ in self.rounds),
            self.spent.users,
            self.spent.micro_epsilon,
            tuple(self.received),
            self.view.end.reason,
        )

    @property
    def rounds(self) -> Sequence[PreparedRound]:
        """Published rounds."""
        return [] if self.view is None else list(self.view.rounds.values())

    @property
    def tallies(self) -> Sequence[Sequence[Tally]]:
        """Tallies of each round, one for each part."""
        return [] if self.view is None else list(self.view.counted.values())

    @property
    def received(self) -> Sequence[int]:
        """Number of reports of each round."""
        return [sum(tally.received for tally in tallies) for tallies in self.tallies]

    def estimates(self, strategy: Strategy | None) -> Sequence[Estimate]:
        """What the reports say of all that was asked."""
        return study_estimates(self.study, strategy, zip(self.rounds, self.tallies, strict=True))

    @property
    def spent(self) -> Spent:
        """ε of one report: the planner gives no user two rounds."""
        return Spent(sum(self.received), max((round_.charge for round_ in self.rounds), default=0))


def learned_by(view: StudyInMemory) -> Hypothesis:
    """Hypothesis of a finished study, or an error that says why there is none."""
    if view.end.cause is not Cause.LEARNED:
        raise failure(view.end.cause, view.end.reason)
    output = view.replay.output
    assert isinstance(output, Hypothesis)  # noqa: S101 - told the type checker: nothing else leads to this cause
    return output


def failure(cause: Cause | None, reason: str) -> TooFewUsersError | StrategyError:
    """The error for a study that ended without a hypothesis."""
    if cause in (Cause.TOO_FEW_USERS, Cause.TOO_FEW_REPORTS):
        return TooFewUsersError(reason)
    return StrategyError(reason)


def study_for(strategy: Strategy, parameters: Parameters, seed: int, example: Schema | None = None) -> StudySpec:
    """A study whose nonce, and so its coins, come from the seed; over these examples, if the strategy takes any."""
    nonce = hashlib.sha256(b"askance lab nonce v1" + str(seed).encode()).hexdigest()[:32]
    title = f"{strategy.name}, in process"
    named = {strategy.name: strategy}
    return study_of(
        named,
        strategy=strategy.name,
        parameters=parameters,
        title=title,
        nonce=nonce,
        simulated=True,
        example=example if strategy.over else None,
    )


def _local(setting: OracleSetting) -> Oracle:
    study = study_for(setting.strategy, setting.parameters, setting.seed, setting.population.schema)
    noise = None if setting.real_noise else setting.seed
    whom = setting.population, setting.users
    return LocalReports(study, setting.strategy, *whom, noise, setting.engine, counts=setting.counts)


ORACLE: Final = OracleKind("local", "users' own reports, planned as a server would", _local, local=True)
