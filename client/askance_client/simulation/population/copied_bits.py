"""Bits that copy each other, by labels that a learner may or may not have a hypothesis for: made to hurt learners."""

from __future__ import annotations

from typing import Final

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.boolean import BITS, bias
from askance_client.simulation.population.features import BitsFeature, CopiedBits
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import labelled, noise
from askance_protocol import parameters as read
from askance_protocol.concepts import Concept, ConjunctionConcept, DecisionListConcept, ParityConcept
from askance_protocol.parameters import Parameters
from askance_protocol.schema import MAX_WIDTH


def copied_bits(parameters: Parameters, seed: int) -> Population:
    """Each bit is one that all others may have copied, too, or a bit of its own."""
    d = read.whole(parameters, "d", 1, MAX_WIDTH)
    target, chance = Source(seed, "copied-bits", "target"), bias(parameters)
    copied = read.decimal(parameters, "copied", "0.5", least="0", most="1")
    own = BitsFeature.of(target.of("x"), d, chance)
    feature = CopiedBits(
        own, BitsFeature.of(target.of("shared"), 1, chance), BitsFeature.of(target.of("copies"), d, copied)
    )
    count = read.whole(parameters, "relevant", 0, d, default=min(3, d))
    chosen = draws.subset(target.once(d), count)
    return labelled(target, (feature,), _concept(parameters, d, chosen), noise(parameters))


def _concept(parameters: Parameters, d: int, chosen: list[int]) -> Concept:
    match parameters.get("labels", "conjunction"):
        case "conjunction":
            return ConjunctionConcept(tuple(chosen))
        case "parity":
            return ParityConcept("".join(str(int(i in chosen)) for i in range(d)))
        case "list":
            # The label changes with each test, so that the list is as long as it looks.
            return DecisionListConcept(tuple((i, 1, 1 - 2 * (at % 2)) for at, i in enumerate(chosen)), -1)
        case _:
            raise read.refused("labels", "is none of its values", "give conjunction, list or parity")


KIND: Final = PopulationKind(
    "copied-bits",
    "bits that copy each other, labelled by a conjunction, a list or a parity",
    {
        **BITS,
        "copied": "the chance that a bit is a copy",
        "labels": "conjunction, list or parity",
        "relevant": "how many bits the label depends on",
    },
    copied_bits,
)
