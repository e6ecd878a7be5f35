"""All kinds of population, found in the files of this package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from askance_client.population import Population
from askance_client.simulation.population.kind import PopulationKind
from askance_protocol import parameters as read
from askance_protocol.errors import UsageError
from askance_protocol.parameters import Parameters


def _found() -> Iterator[PopulationKind]:
    """The records of the modules of this package, in alphabetical order."""
    package = __name__.rpartition(".")[0]
    for name in sorted(module.name for module in iter_modules(import_module(package).__path__)):
        # This module is one of them: it is loaded already, in part, and has no record.
        kind = getattr(import_module(f"{package}.{name}"), "KIND", None)
        if isinstance(kind, PopulationKind):
            yield kind


KINDS: Final[Mapping[str, PopulationKind]] = {kind.name: kind for kind in _found()}


def synthetic(name: str, parameters: Parameters, seed: int) -> Population:
    """Make a population of this kind. The seed draws its users, and its target if the parameters do not give it."""
    if name not in KINDS:
        raise UsageError("is not a kind of population", where="population", remedy=f"use one of {', '.join(KINDS)}")
    read.only(parameters, *KINDS[name].parameters)
    return KINDS[name].build(parameters, seed)
