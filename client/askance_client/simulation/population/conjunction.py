"""Bits, labelled by whether some of them are all 1. BB-notes, Thm 5."""

from __future__ import annotations

from typing import Final

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.boolean import BITS, bits_x
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import labelled, noise
from askance_protocol import parameters as read
from askance_protocol.concepts import ConjunctionConcept
from askance_protocol.parameters import Parameters
from askance_protocol.rounds.spec import MAX_PARTS


def conjunction(parameters: Parameters, seed: int) -> Population:
    """Bits, labelled by whether some of them are all 1. BB-notes, Thm 5."""
    d = read.whole(parameters, "d", 1, MAX_PARTS)
    target = Source(seed, "conjunction", "target")
    count = read.whole(parameters, "relevant", 0, d, default=min(3, d))
    given = read.bits(parameters, "variables", d)
    chosen = draws.subset(target.once(d), count) if given is None else [i for i in range(d) if given[i] == "1"]
    return labelled(target, (bits_x(target, d, parameters),), ConjunctionConcept(tuple(chosen)), noise(parameters))


KIND: Final = PopulationKind(
    "conjunction",
    "whether some bits of x are all 1: BB-notes, Thm 5",
    {**BITS, "relevant": "how many bits are asked for", "variables": "which, as a bit string"},
    conjunction,
)
