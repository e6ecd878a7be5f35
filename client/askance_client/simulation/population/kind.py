"""Kinds of population: the record that each file of a kind ends with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from askance_client.population import Population
from askance_protocol.parameters import Parameters


@dataclass(frozen=True, slots=True)
class PopulationKind:
    """A way to make up users. A file of this package that ends with one, named KIND, is found by `kinds`."""

    name: str
    summary: str
    parameters: Mapping[str, str]
    """The parameters by their names, and what each says."""
    build: Callable[[Parameters, int], Population]
    """Make the population of these parameters and of a seed."""
