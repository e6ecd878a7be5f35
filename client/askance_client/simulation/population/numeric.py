"""Populations over numbers: thresholds, separators, clusters, and what the mean and the histogram are asked of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.boolean import noise
from askance_client.simulation.population.features import TabledFeature, TwoPoint, UniformFeature
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import labelled, unlabelled
from askance_protocol import parameters as read
from askance_protocol.concepts import SeparatorConcept, ThresholdConcept
from askance_protocol.examples import Column
from askance_protocol.parameters import Parameters
from askance_protocol.queries.query import MAX_CELLS, MAX_DENOMINATOR
from askance_protocol.randomness import Words
from askance_protocol.schema import MAX_MAGNITUDE, IntegerField, RealField

MAX_COORDINATES: Final = 128
_CANDIDATES: Final = 16
_FINE: Final = 1 << 14
"""The finest denominator of clusters: a table of cut-points is as long as a field is fine."""


def threshold(parameters: Parameters, seed: int) -> Population:
    """A number from 0 to domain − 1, labelled +1 below a threshold. BNS13, §3.2: INTERVAL_d."""
    domain = read.whole(parameters, "domain", 2, MAX_MAGNITUDE, default=1000)
    target = Source(seed, "threshold", "target")
    # In the middle half, so that both labels are there to see, unless it is given.
    drawn = domain // 4 + target.once(1)[0] % (domain // 2 + 1)
    end = read.whole(parameters, "threshold", 0, domain, default=drawn)
    skew = read.whole(parameters, "skew", 1, 16, default=1)
    field = IntegerField(name="x", low=0, high=domain - 1)
    feature = UniformFeature(Source(seed, target.kind, "x"), field, 0, domain - 1, skew)
    return labelled(target, (feature,), ThresholdConcept(end), noise(parameters))


@dataclass(frozen=True, slots=True)
class Apart:
    """Points of a cube, moved away from the plane w·x = 0 to the side that they are on.

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

    def draw(self, users: range) -> Mapping[str, Column]:
        """The coordinates, in numerators."""
        reach = self.fields[0].most - self.gap
        drawn = draws.below(self.source.words(users, self.each), 2 * reach + 1) - reach
        weights = np.array(self.weights, np.int64)
        side = np.where((drawn * weights).sum(axis=1) >= 0, np.int64(self.gap), np.int64(-self.gap))
        drawn += side[:, None] * np.sign(weights)
        return {field.name: np.ascontiguousarray(drawn[:, j]) for j, field in enumerate(self.fields)}


def separator(parameters: Parameters, seed: int) -> Population:
    """Reals x0, x1, … in [−1, 1], labelled by the side of a plane through 0 that they are on, with a margin."""
    d = read.whole(parameters, "d", 1, MAX_COORDINATES)
    fields = _coordinates(d, read.whole(parameters, "denominator", 1, MAX_DENOMINATOR, default=1000))
    margin = read.decimal(parameters, "margin", "0.1", least="0", most="1")
    target = Source(seed, "separator", "target")
    # Never 0, so that every coordinate has its part in it.
    weights = tuple((1 - (word & 2)) * (1 + (word >> 2) % 9) for word in target.once(d))
    feature = Apart(Source(seed, target.kind, "x"), fields, weights, math.ceil(margin * fields[0].denominator))
    rule = SeparatorConcept(weights, f"{float(margin):g}")
    return labelled(target, (feature,), rule, noise(parameters))


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

    def draw(self, users: range) -> Mapping[str, Column]:
        """The coordinates, in numerators."""
        own = draws.choose(self.choice.words(users, 1)[:, 0], self.shares)
        noise_ = draws.choose(self.source.words(users, len(self.fields)), self.table) + self.first
        top = self.fields[0].most
        drawn = np.clip(np.array(self.centres, np.int64)[own] + noise_, -top, top)
        return {field.name: np.ascontiguousarray(drawn[:, j]) for j, field in enumerate(self.fields)}


def clusters(parameters: Parameters, seed: int) -> Population:
    """Reals x0, x1, … in [−1, 1], gathered around k centres."""
    d = read.whole(parameters, "d", 1, MAX_COORDINATES, default=2)
    k = read.whole(parameters, "k", 1, 64, default=3)
    fields = _coordinates(d, read.whole(parameters, "denominator", 10, _FINE, default=1000))
    spread = read.decimal(parameters, "spread", "0.1", least="0.001", most="1")
    source = Source(seed, "clusters", "x")
    one = fields[0].denominator
    centres = _far_apart(Source(seed, "clusters", "target").once(_CANDIDATES * k * d), d, k, 4 * one // 5)
    shares = draws.zipf(k, read.decimal(parameters, "zipf", "0", least="0", most="4"))
    table, first = draws.normal(spread * one)
    feature = Clusters(Source(seed, "clusters", "cluster"), source, fields, centres, shares, table, first)
    truth = {"centres": [[numerator / one for numerator in centre] for centre in centres], "spread": float(spread)}
    return unlabelled(source, (feature,), truth, f"{k} clusters in {d} coordinates, spread {float(spread):g}")


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


def histogram(parameters: Parameters, seed: int) -> Population:
    """A cell, the j-th with a share in proportion to 1/j^zipf: uniform, where zipf is 0."""
    cells = read.whole(parameters, "cells", 2, MAX_CELLS)
    exponent = read.decimal(parameters, "zipf", "0", least="0", most="4")
    source = Source(seed, "histogram", "cell")
    table = draws.zipf(cells, exponent)
    ends = [0, *table.tolist(), 1 << 64]
    truth = {"shares": [(ends[j + 1] - ends[j]) / (1 << 64) for j in range(cells)]}
    feature = TabledFeature(source, IntegerField(name="cell", low=0, high=cells - 1), table)
    return unlabelled(source, (feature,), truth, f"{cells} cells, Zipf with exponent {float(exponent):g}")


def _coordinates(d: int, denominator: int) -> tuple[RealField, ...]:
    return tuple(RealField(name=f"x{j}", low=-1, high=1, denominator=denominator) for j in range(d))


def _far_apart(words: Sequence[int], d: int, k: int, reach: int) -> tuple[tuple[int, ...], ...]:
    """Points of a cube: the first at random, each further one the candidate that is farthest from those before."""
    candidates = np.array([word % (2 * reach + 1) - reach for word in words], np.int64).reshape(-1, d)
    chosen, nearest = [0], np.full(len(candidates), np.iinfo(np.int64).max)
    while len(chosen) < k:
        nearest = np.minimum(nearest, ((candidates - candidates[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(nearest.argmax()))
    return tuple(tuple(int(numerator) for numerator in candidates[at]) for at in chosen)
