"""What an oracle is built from, and how an oracle presents itself: its `ORACLE`, at the end of its file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from askance_client.population import Population
from askance_lab.engines import Engine, engine
from askance_lab.evaluation.domain import domain_of, is_listed
from askance_lab.evaluation.weighted import WeightedExamples
from askance_lab.oracles.shared.crowds import People, check_size
from askance_lab.oracles.shared.oracle import Oracle
from askance_lab.remote.local_server import LocalServer
from askance_server.core import planning
from askance_server.core.strategy import Parameters, Strategy

STAND_IN = 1 << 17
"""Number of examples that stand for a domain that cannot be listed, unless the number of users is given."""


@dataclass(frozen=True, slots=True)
class OracleSetting:
    """Who is learned from, and how."""

    strategy: Strategy
    parameters: Parameters
    """The study's: the strategy's own, and the planner's."""
    population: Population
    users: int
    """0: not given."""
    seed: int = 1
    eta: float = 0.0
    """The rate at which the population's labels are wrong."""
    engine: Engine = field(default_factory=engine)
    server: LocalServer | None = None
    """For the oracle over HTTP, a server that runs; None: one is started."""

    @property
    def own(self) -> Parameters:
        """What the strategy sees."""
        return planning.strategy_parameters(self.parameters)

    @property
    def micro_epsilon(self) -> int:
        """ε of a report, or of the curator."""
        return planning.terms_of(self.parameters).epsilon

    @property
    def people(self) -> People:
        """The users, none of them asked."""
        return People(self.population, self.users)

    @property
    def is_approximate(self) -> bool:
        """Whether examples have to stand for a domain."""
        return self.population.size is None and not is_listed(self.population)

    @property
    def distribution(self) -> WeightedExamples:
        """What exact answers are about: the domain; all rows of a table; or many examples that stand for the domain."""
        if self.population.size is not None:
            return WeightedExamples(self.population.columns(range(self.users or self.population.size)))
        if is_listed(self.population):
            return domain_of(self.population)
        return WeightedExamples(self.population.columns(range(self.users or STAND_IN)))


@dataclass(frozen=True, slots=True)
class OracleKind:
    """One way to answer a strategy, under the name that `askance run --oracle` knows it by."""

    name: str
    summary: str
    build: Callable[[OracleSetting], Oracle | AbstractContextManager[Oracle]]
    local: bool = False
    """Users randomize their own reports."""
    asks_users: bool = True
    """Otherwise it looks at the distribution itself."""

    def open(self, setting: OracleSetting) -> AbstractContextManager[Oracle]:
        """The oracle, as long as it is needed."""
        if self.asks_users:
            check_size(setting.population, setting.users)
        built = self.build(setting)
        return nullcontext(built) if isinstance(built, Oracle) else built
