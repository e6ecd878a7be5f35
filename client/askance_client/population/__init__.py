"""Whom to ask: users made up from a seed, or read from a file."""

from askance_client.population.file import FORMATS, FromFile, from_file
from askance_client.population.kinds import FOR_STRATEGY, KINDS, Kind, for_strategy, synthetic
from askance_client.population.population import Population
from askance_client.population.synthetic import Synthetic

__all__ = [
    "FORMATS",
    "FOR_STRATEGY",
    "KINDS",
    "FromFile",
    "Kind",
    "Population",
    "Synthetic",
    "for_strategy",
    "from_file",
    "synthetic",
]
