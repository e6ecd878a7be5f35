"""A value in [−1, 1] with a known mean."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from askance_client.population import Population
from askance_client.simulation.population.features import TwoPoint, UniformFeature
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.numeric import DENOMINATOR
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import unlabelled
from askance_protocol import parameters as read
from askance_protocol.parameters import Parameters
from askance_protocol.queries.query import MAX_DENOMINATOR
from askance_protocol.schema import RealField


def mean(parameters: Parameters, seed: int) -> Population:
    """A value in [−1, 1] with a known mean: evenly on both sides of it, or at the two ends."""
    one = read.whole(parameters, "denominator", 1, MAX_DENOMINATOR, default=1000)
    source = Source(seed, "mean", "value")
    drawn = Source(seed, source.kind, "target").once(1)[0] % (one + 1) - one // 2
    exact = read.decimal(parameters, "mean", "0", least="-1", most="1") * one if "mean" in parameters else drawn
    centre = math.floor(exact)
    if centre != exact:
        raise read.refused("mean", f"is not a multiple of 1/{one}", 'choose another "denominator" or mean')
    field = RealField(name="value", low=-1, high=1, denominator=one)
    shape = read.word(parameters, "shape", "uniform", "extremes")
    reach = one - abs(centre)
    feature = (
        TwoPoint(source, field, Fraction(one + centre, 2 * one))
        if shape == "extremes"
        else UniformFeature(source, field, centre - reach, centre + reach)
    )
    return unlabelled(source, (feature,), {"mean": centre / one}, f"mean {centre / one:g}, {shape}")


KIND: Final = PopulationKind(
    "mean",
    "a value in [-1, 1] with a known mean",
    {"mean": "a multiple of 1/denominator", "shape": "uniform or extremes", **DENOMINATOR},
    mean,
)
