"""Made-up users for a strategy: of the kind it names, of a requested kind, or uniform over its schema."""

from __future__ import annotations

from askance_client.population import Population
from askance_client.simulation.population import KINDS, synthetic
from askance_client.simulation.population.over_schema import over_schema
from askance_protocol.errors import ProtocolError, UsageError
from askance_protocol.parameters import Parameters
from askance_server.core import planning
from askance_server.core.strategy import Strategy


def made_up(
    strategy: Strategy, study: Parameters, seed: int, own: Parameters | None = None, kind: str | None = None
) -> Population:
    """Population for a study, from the study's parameters and more that are the population's `own`.

    A study's other parameters (α, say) are its learner's: the strategy's schema has checked them.
    """
    own_kind, kind = kind is None, kind or strategy.examples
    wanted = strategy.schema(planning.strategy_parameters(study)) if own_kind or strategy.over is None else None
    if kind is None:
        assert wanted is not None  # noqa: S101 - told the type checker: no kind was asked for
        if own:
            what = f"{strategy.name!r} names no kind of users, and users drawn over its schema have no parameters"
            raise UsageError(what, where=", ".join(own), remedy="leave it out, or choose --population KIND")
        return over_schema(wanted, seed)
    shared = {name: value for name, value in study.items() if kind in KINDS and name in KINDS[kind].parameters}
    population = synthetic(kind, {**shared, **(own or {})}, seed)
    if wanted is None:
        wanted = strategy.on(population.schema).schema(planning.strategy_parameters(study))
    if population.schema != wanted:
        remedy = "choose another with --population KIND, or give a table with --data FILE"
        raise UsageError(
            f"have other examples than {strategy.name!r} learns from", where=f"{kind} users", remedy=remedy
        )
    return population


def split_parameters(strategy: Strategy, given: Parameters, kind: str | None) -> tuple[Parameters, Parameters]:
    """The study's parameters, and those that the strategy refuses and the population accepts.

    A parameter that both know (`d`) stays the study's, which `made_up` shares with the users.
    """
    if strategy.over is not None and kind is not None and kind in KINDS:
        # What fields there are is told by the kind, and not by its parameters.
        strategy = strategy.on(synthetic(kind, {}, 0).schema)
    known = set(KINDS[kind].parameters) if (kind := kind or strategy.examples or "") in KINDS else set[str]()
    study, own = dict(given), dict[str, int | bool | str]()
    first: dict[str, ProtocolError] = {}
    while True:
        try:
            strategy.schema(planning.strategy_parameters(study))
        except ProtocolError as refused:
            name = refused.where.removeprefix("parameters.")
            if name in first:
                # It is the study's after all, and its value is wrong.
                raise first[name] from None
            if name not in study or name not in known:
                raise
            first[name] = refused
            own[name] = study.pop(name)
        else:
            return study, own
