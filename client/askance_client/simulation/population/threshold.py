"""A number from 0 to domain − 1, labelled +1 below a threshold. BNS13, §3.2."""

from __future__ import annotations

from typing import Final

from askance_client.population import Population
from askance_client.simulation.population.features import UniformFeature
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import ETA, labelled, noise
from askance_protocol import parameters as read
from askance_protocol.concepts import ThresholdConcept
from askance_protocol.parameters import Parameters
from askance_protocol.schema import MAX_MAGNITUDE, IntegerField


def threshold(parameters: Parameters, seed: int) -> Population:
    """A number from 0 to domain − 1, labelled +1 below a threshold. BNS13, §3.2: INTERVAL_d."""
    domain = read.whole(parameters, "domain", 2, MAX_MAGNITUDE, default=1000)
    target = Source(seed, "threshold", "target")
    # In the middle half, so that both labels are there to see, unless it is given.
    drawn = domain // 4 + target.once(1)[0] % (domain // 2 + 1)
    end = read.whole(parameters, "threshold", 0, domain, default=drawn)
    skew = read.whole(parameters, "skew", 1, 16, default=1)
    field = IntegerField(name="x", low=0, high=domain - 1)
    feature = UniformFeature(target.of("x"), field, 0, domain - 1, skew)
    return labelled(target, (feature,), ThresholdConcept(end), noise(parameters))


KIND: Final = PopulationKind(
    "threshold",
    "whether a number is below a threshold: INTERVAL_d of BNS13, 3.2",
    {
        "domain": "numbers are 0 .. domain - 1",
        "threshold": "the first number that is not below",
        "skew": "x is the least of this number of draws",
        **ETA,
    },
    threshold,
)
