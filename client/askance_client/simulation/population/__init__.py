"""Made-up users: user i's example is a pure function of a seed and i.

Each kind of population is a file that ends with its record, `KIND = PopulationKind(...)`; the package finds them. To
add a kind is to add such a file, and a case of it in the tests.
"""

from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.kinds import KINDS, synthetic
from askance_client.simulation.population.over_schema import over_schema
from askance_client.simulation.population.synthetic import Synthetic

__all__ = ["KINDS", "PopulationKind", "Synthetic", "over_schema", "synthetic"]
