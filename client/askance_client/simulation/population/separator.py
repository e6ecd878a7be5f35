"""Reals in [−1, 1], labelled by the side of a plane through 0 that they are on, with a margin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.numeric import DENOMINATOR, MAX_COORDINATES, coordinates
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import ETA, labelled, noise
from askance_protocol import parameters as read
from askance_protocol.coins import Users
from askance_protocol.concepts import SeparatorConcept
from askance_protocol.examples import Column
from askance_protocol.parameters import Parameters
from askance_protocol.queries.query import MAX_DENOMINATOR
from askance_protocol.schema import RealField


@dataclass(frozen=True, slots=True)
class SeparatedPoints:
    """Points of a cube, each moved away from the plane w·x = 0 to the side that they are on.

    Drawn from [−(1 − γ), 1 − γ]^d and moved by γ in every coordinate, toward the corner that w points to or the
    opposite one, they stay in [−1, 1]^d and |w·x| is at least γ · Σ|w_j|. As Σ|w_j| is at least the length of w, so
    is the distance from the plane at least γ.
    """

    source: Source
    fields: tuple[RealField, ...]
    weights: tuple[int, ...]
    gap: int

    @property
    def each(self) -> int:
        """A word for each coordinate."""
        return len(self.fields)

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw the coordinates, in numerators."""
        reach = self.fields[0].most - self.gap
        drawn = draws.below(self.source.words(users, self.each), 2 * reach + 1) - reach
        weights = np.array(self.weights, np.int64)
        side = np.where((drawn * weights).sum(axis=1) >= 0, np.int64(self.gap), np.int64(-self.gap))
        drawn += side[:, None] * np.sign(weights)
        return {field.name: np.ascontiguousarray(drawn[:, j]) for j, field in enumerate(self.fields)}


def separator(parameters: Parameters, seed: int) -> Population:
    """Reals x0, x1, … in [−1, 1], labelled by the side of a plane through 0 that they are on, with a margin."""
    d = read.whole(parameters, "d", 1, MAX_COORDINATES)
    fields = coordinates(d, read.whole(parameters, "denominator", 1, MAX_DENOMINATOR, default=1000))
    margin = read.decimal(parameters, "margin", "0.1", least="0", most="1")
    target = Source(seed, "separator", "target")
    # Never 0, so that every coordinate has its part in it.
    weights = tuple((1 - (word & 2)) * (1 + (word >> 2) % 9) for word in target.once(d))
    feature = SeparatedPoints(target.of("x"), fields, weights, math.ceil(margin * fields[0].denominator))
    rule = SeparatorConcept(weights, f"{float(margin):g}")
    return labelled(target, (feature,), rule, noise(parameters))


KIND: Final = PopulationKind(
    "separator",
    "the side of a plane that reals are on",
    {"d": "how many reals", "margin": "no example is nearer to the plane", **DENOMINATOR, **ETA},
    separator,
)
