"""Bits, labelled +1 at one point only, which has a mass of its own. BNS13, §3.1."""

from __future__ import annotations

from typing import Final

from askance_client.population import Population
from askance_client.simulation.population.boolean import BITS, bit_string, bits_x
from askance_client.simulation.population.features import PointMass
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import labelled, noise
from askance_protocol import parameters as read
from askance_protocol.concepts import PointConcept
from askance_protocol.parameters import Parameters
from askance_protocol.schema import MAX_WIDTH


def point(parameters: Parameters, seed: int) -> Population:
    """Bits, labelled +1 at one point only, which has a mass of its own. BNS13, §3.1: POINT_d."""
    d = read.whole(parameters, "d", 1, MAX_WIDTH)
    target = Source(seed, "point", "target")
    at = read.bits(parameters, "point", d) or bit_string(target.once(d))
    mass = read.decimal(parameters, "mass", "0.5", least="0", most="1")
    feature = PointMass(target.of("mass"), bits_x(target, d, parameters), int(at[::-1], 2), mass)
    return labelled(target, (feature,), PointConcept(at), noise(parameters))


KIND: Final = PopulationKind(
    "point",
    "whether x is one point: POINT_d of BNS13, 3.1",
    {**BITS, "mass": "the chance to be put on the point", "point": "the point, as a bit string"},
    point,
)
