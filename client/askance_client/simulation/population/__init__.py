"""Users who are made up from a seed: user i's example is a pure function of the seed and i."""

from askance_client.simulation.population.kinds import FOR_STRATEGY, KINDS, PopulationKind, for_strategy, synthetic
from askance_client.simulation.population.synthetic import Synthetic

__all__ = ["FOR_STRATEGY", "KINDS", "PopulationKind", "Synthetic", "for_strategy", "synthetic"]
