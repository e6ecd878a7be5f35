"""The oracles by their names, each built from the same few facts: what `askance run --oracle` chooses from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from askance_client.population import Population
from askance_lab.engines import Engine, engine
from askance_lab.evaluation.domain import domain_of, is_listed
from askance_lab.evaluation.weighted import WeightedExamples
from askance_lab.oracles.adversarial import HidesMask, WorstCase, hides
from askance_lab.oracles.crowds import People, check_size
from askance_lab.oracles.curator import Curator
from askance_lab.oracles.exact import Exact
from askance_lab.oracles.fresh import Fresh, Randomizer
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.names import OracleName
from askance_lab.oracles.oracle import Oracle
from askance_lab.oracles.portions import evenly
from askance_lab.oracles.samples import Samples
from askance_protocol.errors import ProtocolError
from askance_server.core import planning
from askance_server.core.strategy import Parameters, Strategy

STAND_IN: Final = 1 << 17
"""Examples that stand for a domain that cannot be listed, unless the number of users is said."""

_ALPHA: Final = "0.1"
"""The α of a strategy that has one, where it is not said."""


@dataclass(frozen=True, slots=True)
class OracleSetting:
    """Who is learned from, and how."""

    strategy: Strategy
    parameters: Parameters
    """The study's: the strategy's own, and the planner's."""
    population: Population
    users: int
    """0: not said."""
    seed: int = 1
    eta: float = 0.0
    """The rate at which the population's labels are wrong."""
    engine: Engine = field(default_factory=engine)

    @property
    def own(self) -> Parameters:
        """What the strategy sees."""
        return planning.strategy_parameters(self.parameters)

    @property
    def micro_epsilon(self) -> int:
        """Of a report, or of the curator."""
        return planning.terms_of(self.parameters).epsilon

    @property
    def people(self) -> People:
        """The users, none of them asked."""
        return People(self.population, self.users)


def distribution(setting: OracleSetting) -> WeightedExamples:
    """What exact answers are about: the domain; all rows of a table; or many examples, which stand for the domain."""
    if setting.population.size is not None:
        return WeightedExamples(setting.population.columns(range(setting.users or setting.population.size)))
    if is_listed(setting.population):
        return domain_of(setting.population)
    return WeightedExamples(setting.population.columns(range(setting.users or STAND_IN)))


def is_approximate(setting: OracleSetting) -> bool:
    """Whether examples have to stand for a domain."""
    return setting.population.size is None and not is_listed(setting.population)


def _exact(setting: OracleSetting) -> Oracle:
    return Exact(distribution(setting))


def _adversarial(setting: OracleSetting) -> Oracle:
    examples = distribution(setting)
    return HidesMask.of_theorem(examples) if hides(examples) else WorstCase(Exact(examples))


def _samples(setting: OracleSetting) -> Oracle:
    return Samples(setting.people, evenly(setting.strategy), eta=setting.eta)


def _curator(setting: OracleSetting) -> Oracle:
    return Curator(setting.people, evenly(setting.strategy), micro_epsilon=setting.micro_epsilon, seed=setting.seed)


def _fresh(randomizer: Randomizer) -> Callable[[OracleSetting], Oracle]:
    return lambda setting: Fresh(
        setting.people,
        evenly(setting.strategy),
        micro_epsilon=setting.micro_epsilon,
        randomizer=randomizer,
        seed=setting.seed,
    )


def _local(setting: OracleSetting) -> Oracle:
    study = study_for(setting.strategy, setting.parameters, setting.seed)
    return LocalReports(study, setting.strategy, setting.population, setting.users, setting.seed, setting.engine)


ORACLES: Final[Mapping[OracleName, Callable[[OracleSetting], Oracle]]] = {
    OracleName.EXACT: _exact,
    OracleName.ADVERSARIAL: _adversarial,
    OracleName.SAMPLES: _samples,
    OracleName.CURATOR: _curator,
    OracleName.FRESH: _fresh(Randomizer.BINARY),
    OracleName.FRESH_LAPLACE: _fresh(Randomizer.PAPER),
    OracleName.LOCAL: _local,
}
"""All but the one over HTTP, which needs a server."""

NEED_NO_USERS: Final = frozenset({OracleName.EXACT, OracleName.ADVERSARIAL})


def oracle_of(name: OracleName, setting: OracleSetting) -> Oracle:
    """Build it."""
    if name not in NEED_NO_USERS:
        check_size(setting.population, setting.users)
    return ORACLES[name](setting)


def is_kept(setting: OracleSetting, learned: Mapping[str, object], error: float, least: float = 0.0) -> bool:
    """Whether a strategy's promise is kept: an error within its tolerance or its α, where it knows one, or `least`."""
    # An oracle that lies by exactly τ may be a rounding error beyond it.
    return error <= max(_promised(setting, learned), least) * (1 + 1e-9)


def _promised(setting: OracleSetting, learned: Mapping[str, object]) -> float:
    if "tolerance" in learned:
        return float(str(learned["tolerance"]))
    if "alpha" in setting.parameters:
        return float(str(setting.parameters["alpha"]))
    try:
        setting.strategy.schema({**setting.own, "alpha": _ALPHA})
    except ProtocolError:
        return 0.0
    return float(_ALPHA)
