"""Bits, labelled by the parity of some of them. KLNRS11, §4."""

from __future__ import annotations

from typing import Final

from askance_client.population import Population
from askance_client.simulation.population.boolean import BITS, bit_string, bits_x
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import labelled, noise
from askance_protocol import parameters as read
from askance_protocol.concepts import ParityConcept
from askance_protocol.parameters import Parameters
from askance_protocol.schema import MAX_WIDTH


def parity(parameters: Parameters, seed: int) -> Population:
    """Bits, labelled by the parity of some of them. KLNRS11, §4."""
    d = read.whole(parameters, "d", 1, MAX_WIDTH)
    target = Source(seed, "parity", "target")
    r = read.bits(parameters, "r", d) or bit_string(target.once(d))
    return labelled(target, (bits_x(target, d, parameters),), ParityConcept(r), noise(parameters))


KIND: Final = PopulationKind(
    "parity", "the parity of some bits of x: KLNRS11, 4", {**BITS, "r": "the bits of x that count"}, parity
)
