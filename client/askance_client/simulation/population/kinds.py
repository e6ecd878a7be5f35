"""All kinds of population, found in the files of this package."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from askance_client.population import Population
from askance_client.simulation.population.kind import PopulationKind
from askance_protocol import discovery
from askance_protocol import parameters as read
from askance_protocol.errors import UsageError
from askance_protocol.parameters import Parameters
from askance_protocol.text import one_of, quoted


def found_kinds() -> dict[str, PopulationKind]:
    """The kinds of the files of this folder, by name."""
    # This module is one of them: it is loaded already, in part, and has no record.
    folder = import_module(__name__.rpartition(".")[0])
    return {kind.name: kind for kind in discovery.records(folder, "KIND", PopulationKind)}


KINDS: Final[Mapping[str, PopulationKind]] = found_kinds()


def synthetic(name: str, parameters: Parameters, seed: int) -> Population:
    """Make a population of this kind. The seed draws its users, and its target if the parameters do not give it."""
    if name not in KINDS:
        raise UsageError(f"{quoted(name)} is not a kind of population", where="population", remedy=one_of(name, KINDS))
    read.only(parameters, *KINDS[name].parameters)
    return KINDS[name].build(parameters, seed)
