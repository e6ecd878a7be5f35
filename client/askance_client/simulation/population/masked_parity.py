"""Examples (x, i, b), uniform, labelled by a masked parity. KLNRS11, §5.3."""

from __future__ import annotations

from typing import Final

from askance_client.population import Population
from askance_client.simulation.population.boolean import BITS, bias, bit_string
from askance_client.simulation.population.features import BitsFeature, UniformFeature
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import labelled, noise
from askance_protocol import parameters as read
from askance_protocol.concepts import MaskedParityConcept
from askance_protocol.parameters import Parameters
from askance_protocol.schema import IntegerField


def masked_parity(parameters: Parameters, seed: int) -> Population:
    """(x, i, b) uniform, labelled by c_{r,a}. KLNRS11, §5.3."""
    d = read.whole(parameters, "d", 2, 64)
    if d & (d - 1):
        raise read.refused("d", "is not a power of two", "give 2, 4, 8, 16, 32 or 64")
    target = Source(seed, "masked-parity", "target")
    drawn = target.once(d + 1)
    r = read.bits(parameters, "r", d) or bit_string(drawn[:d])
    a = read.whole(parameters, "a", 0, 1, default=drawn[d] & 1)
    features = (
        BitsFeature.of(target.of("x"), d, bias(parameters)),
        UniformFeature(target.of("i"), IntegerField(name="i", low=0, high=d - 1), 0, d - 1),
        BitsFeature.of(target.of("b"), 1),
    )
    return labelled(target, features, MaskedParityConcept(r, a), noise(parameters))


KIND: Final = PopulationKind(
    "masked-parity",
    "(x, i, b) and the parity of some bits of x, masked: KLNRS11, 5.3",
    {**BITS, "r": "the bits of x that count", "a": "the mask bit"},
    masked_parity,
)
