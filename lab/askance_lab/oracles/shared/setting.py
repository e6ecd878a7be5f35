"""What an oracle is built from, and the record `ORACLE` that each oracle's file ends with."""

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
    """Population, strategy and parameters that an oracle is built from."""

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
    real_noise: bool = False
    """Whether reports get the operating system's randomness, not the seed's: for real rows."""
    counts: bool = False
    """Whether the oracle in process draws tallies from their law, and makes no user."""
    tell: Callable[[int], None] = lambda _: None
    """Is told how many users have answered so far, by an oracle that waits for them."""

    @property
    def own(self) -> Parameters:
        """The strategy's own parameters."""
        return planning.strategy_parameters(self.parameters)

    @property
    def planned(self) -> Strategy:
        """The strategy with as many rounds as it takes here: users are not kept for rounds that never come."""
        return self.strategy.planned(self.own)

    @property
    def micro_epsilon(self) -> int:
        """ε of a report, or of the curator, in micro-ε."""
        return planning.terms_of(self.parameters).epsilon

    @property
    def people(self) -> People:
        """The users, none of them asked yet."""
        return People(self.population, self.users)

    @property
    def is_approximate(self) -> bool:
        """Whether sampled examples have to replace the domain."""
        return self.population.size is None and not is_listed(self.population)

    @property
    def distribution(self) -> WeightedExamples:
        """Distribution of exact answers: the domain, all rows of a table, or many sampled examples."""
        if self.population.size is not None:
            return WeightedExamples(self.population.columns(range(self.users or self.population.size)))
        if is_listed(self.population):
            return domain_of(self.population)
        return WeightedExamples(self.population.columns(range(self.users or STAND_IN)))


@dataclass(frozen=True, slots=True)
class OracleKind:
    """One way to answer a strategy, with its name for `askance run --oracle`."""

    name: str
    summary: str
    build: Callable[[OracleSetting], Oracle | AbstractContextManager[Oracle]]
    local: bool = False
    """Users randomize their own reports."""
    asks_users: bool = True
    """Otherwise it looks at the distribution itself."""

    def open(self, setting: OracleSetting) -> AbstractContextManager[Oracle]:
        """Open the oracle for the duration of a `with` block."""
        if self.asks_users:
            check_size(setting.population, setting.users)
        built = self.build(setting)
        return nullcontext(built) if isinstance(built, Oracle) else built
