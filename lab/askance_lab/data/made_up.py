"""Made-up users for a strategy: of the kind that it names, of another that is asked for, or drawn over its schema."""

from __future__ import annotations

from askance_client.population import Population
from askance_client.simulation.population import KINDS, synthetic
from askance_client.simulation.population.over_schema import over_schema
from askance_protocol.errors import UsageError
from askance_protocol.parameters import Parameters
from askance_server.core import planning
from askance_server.core.strategy import Strategy


def made_up(
    strategy: Strategy, study: Parameters, seed: int, own: Parameters | None = None, kind: str | None = None
) -> Population:
    """Users for a study: what its parameters say about examples, and more that is the population's `own`.

    A study's other parameters (α, say) are its learner's: the strategy's schema has checked them.
    """
    wanted = strategy.schema(planning.strategy_parameters(study))
    kind = kind or strategy.examples
    if kind is None:
        if own:
            what = f"{strategy.name!r} names no kind of users, and users drawn over its schema have no parameters"
            raise UsageError(what, where=", ".join(own), remedy="leave it out, or choose --population KIND")
        return over_schema(wanted, seed)
    shared = {name: value for name, value in study.items() if kind in KINDS and name in KINDS[kind].parameters}
    population = synthetic(kind, {**shared, **(own or {})}, seed)
    if population.schema != wanted:
        remedy = "choose another with --population KIND, or give a table with --data FILE"
        raise UsageError(
            f"have other examples than {strategy.name!r} learns from", where=f"{kind} users", remedy=remedy
        )
    return population
