"""Reals in [−1, 1], gathered around some centres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.numeric import DENOMINATOR, MAX_COORDINATES, coordinates
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import unlabelled
from askance_protocol import parameters as read
from askance_protocol.coins import Users
from askance_protocol.examples import Column
from askance_protocol.parameters import Parameters
from askance_protocol.randomness import Words
from askance_protocol.schema import RealField

_CANDIDATES: Final = 16
"""How many points each centre is chosen from."""
_FINEST: Final = 1 << 14
"""The finest denominator: a table of cut-points is as long as a field is fine."""


@dataclass(frozen=True, slots=True, eq=False)
class Clusters:
    """A normal cloud around each of some centres, clipped to the cube."""

    choice: Source
    source: Source
    fields: tuple[RealField, ...]
    centres: tuple[tuple[int, ...], ...]
    shares: Words
    table: Words
    first: int

    @property
    def each(self) -> int:
        """A word for each coordinate, and one for the cluster."""
        return len(self.fields) + 1

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw the coordinates, in numerators."""
        own = draws.choose(self.choice.words(users, 1)[:, 0], self.shares)
        noise_ = draws.choose(self.source.words(users, len(self.fields)), self.table) + self.first
        top = self.fields[0].most
        drawn = np.clip(np.array(self.centres, np.int64)[own] + noise_, -top, top)
        return {field.name: np.ascontiguousarray(drawn[:, j]) for j, field in enumerate(self.fields)}


def clusters(parameters: Parameters, seed: int) -> Population:
    """Reals x0, x1, … in [−1, 1], gathered around k centres."""
    d = read.whole(parameters, "d", 1, MAX_COORDINATES, default=2)
    k = read.whole(parameters, "k", 1, 64, default=3)
    fields = coordinates(d, read.whole(parameters, "denominator", 10, _FINEST, default=1000))
    spread = read.decimal(parameters, "spread", "0.1", least="0.001", most="1")
    source = Source(seed, "clusters", "x")
    one = fields[0].denominator
    centres = _far_apart(Source(seed, "clusters", "target").once(_CANDIDATES * k * d), d, k, 4 * one // 5)
    shares = draws.zipf(k, read.decimal(parameters, "zipf", "0", least="0", most="4"))
    table, first = draws.normal(spread * one)
    feature = Clusters(Source(seed, "clusters", "cluster"), source, fields, centres, shares, table, first)
    truth = {"centres": [[numerator / one for numerator in centre] for centre in centres], "spread": float(spread)}
    return unlabelled(source, (feature,), truth, f"{k} clusters in {d} coordinates, spread {float(spread):g}")


def _far_apart(words: Sequence[int], d: int, k: int, reach: int) -> tuple[tuple[int, ...], ...]:
    """Choose points of a cube: the first at random, each further one the candidate farthest from those before."""
    candidates = np.array([word % (2 * reach + 1) - reach for word in words], np.int64).reshape(-1, d)
    chosen, nearest = [0], np.full(len(candidates), np.iinfo(np.int64).max)
    while len(chosen) < k:
        nearest = np.minimum(nearest, ((candidates - candidates[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(nearest.argmax()))
    return tuple(tuple(int(numerator) for numerator in candidates[at]) for at in chosen)


KIND: Final = PopulationKind(
    "clusters",
    "normal clouds around some centres",
    {
        "d": "how many reals",
        "k": "how many centres",
        "spread": "the standard deviation",
        "zipf": "cluster j has a share in proportion to 1/j^zipf",
        **DENOMINATOR,
    },
    clusters,
)
