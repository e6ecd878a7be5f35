"""All kinds of population, found in the files of this package, and which of them each strategy learns from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from askance_client.population import Population
from askance_client.simulation.population import parameters as read
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.parameters import Parameters
from askance_protocol.errors import ProtocolError, UsageError


def _found() -> Iterator[PopulationKind]:
    """The records of the modules of this package, in alphabetical order."""
    package = __name__.rpartition(".")[0]
    for name in sorted(module.name for module in iter_modules(import_module(package).__path__)):
        # This module is one of them: it is loaded already, in part, and has no record.
        kind = getattr(import_module(f"{package}.{name}"), "KIND", None)
        if isinstance(kind, PopulationKind):
            yield kind


KINDS: Final[Mapping[str, PopulationKind]] = {kind.name: kind for kind in _found()}

FOR_STRATEGY: Final[Mapping[str, str]] = {
    "mean": "mean",
    "histogram": "histogram",
    "conjunction": "conjunction",
    "masked-parity": "masked-parity",
    "masked-parity-pooled": "masked-parity",
    "masked-parity-noninteractive": "masked-parity",
    "masked-parity-two-rounds": "masked-parity",
    "masked-parity-weak": "masked-parity",
    "parity": "parity",
    "decision-list": "decision-list",
    "decision-tree": "decision-list",
    "perceptron": "separator",
    "kmeans": "clusters",
}
"""The kind whose examples a strategy of the server learns from."""


def synthetic(name: str, parameters: Parameters, seed: int) -> Population:
    """Make a population of this kind. The seed draws its users, and its target if the parameters do not give it."""
    if name not in KINDS:
        raise UsageError("is not a kind of population", where="population", remedy=f"use one of {', '.join(KINDS)}")
    read.only(parameters, *KINDS[name].parameters)
    return KINDS[name].build(parameters, seed)


def for_strategy(strategy: str, study: Parameters, own: Parameters, seed: int) -> Population:
    """Users for a study: what its parameters say about examples, and more that is the population's own.

    A study's other parameters (α, say) are its learner's: the server has checked them.
    """
    if strategy not in FOR_STRATEGY:
        raise ProtocolError(
            "is not a strategy with users of its own",
            where="strategy",
            remedy=f"use one of {', '.join(FOR_STRATEGY)}, or choose a population by its kind",
        )
    kind = FOR_STRATEGY[strategy]
    shared = {name: value for name, value in study.items() if name in KINDS[kind].parameters}
    return synthetic(kind, {**shared, **own}, seed)
