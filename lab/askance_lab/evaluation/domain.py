"""The exact distribution of synthetic users, as a list of points: what "exact" means.

Every feature that has few enough values is listed with the probability of each: bits, uniform numbers, numbers by a
table, two ends, a point among bits. Independent features multiply; the label follows from the concept, both labels
where there is noise. What is not listed here (clouds of points, a rate that depends on an age) has no such list, and
neither have domains of more than `MOST` points: there an oracle takes many examples for all that there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from askance_client.population import Population
from askance_client.simulation.population import Synthetic
from askance_client.simulation.population.features import (
    BitsFeature,
    Feature,
    PointMass,
    TabledFeature,
    TwoPoint,
    UniformFeature,
)
from askance_client.simulation.population.synthetic import LABEL, Labelling
from askance_lab.evaluation.weighted import WeightedExamples
from askance_protocol.arrays import Floats
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Column, Columns, words_for

MOST: Final = 1 << 22
"""Points of a domain that are listed."""


@dataclass(frozen=True, slots=True, eq=False)
class ListedFeature:
    """The values of one feature and their probabilities."""

    columns: Mapping[str, Column]
    chances: Floats


def domain_of(population: Population) -> WeightedExamples:
    """All possible examples with their probabilities."""
    if not isinstance(population, Synthetic):
        raise _unlisted("is a file, which has rows but no distribution")
    points = math.prod(_points(feature) for feature in population.features)
    noisy = population.labelling is not None and population.labelling.eta > 0
    if points * (1 + noisy) > MOST:
        raise _unlisted(f"has more than {MOST:,} different examples")
    return _labelled(population, _product([_listed(feature) for feature in population.features]))


def is_listed(population: Population) -> bool:
    """Whether the domain is known and small enough to list."""
    try:
        domain_of(population)
    except ProtocolError:
        return False
    return True


def _unlisted(what: str) -> ProtocolError:
    return ProtocolError(what, where="population", remedy="take many of its examples for all that there are")


def _points(feature: Feature) -> int:
    """Number of values of a feature."""
    match feature:
        case BitsFeature(field=field) | PointMass(others=BitsFeature(field=field)):
            return 1 << field.width
        case UniformFeature(low=low, high=high):
            return high - low + 1
        case TabledFeature(field=field):
            return field.most - field.least + 1
        case TwoPoint():
            return 2
        case _:
            raise _unlisted(f"has a feature that is not listed ({type(feature).__name__})")


def _listed(feature: Feature) -> ListedFeature:
    match feature:
        case BitsFeature():
            return _bits(feature)
        case PointMass(others=others, point=point, mass=mass):
            # With its mass the point; else any bits, which may be the point, too.
            all_ = _bits(others)
            chances: Floats = (1 - float(mass)) * all_.chances
            chances[point] += float(mass)
            return ListedFeature(all_.columns, chances)
        case UniformFeature(field=field, low=low, high=high, skew=skew):
            # The least of `skew` draws is k or more with chance ((m − k)/m)^skew.
            above = np.linspace(1, 0, high - low + 2) ** skew
            return ListedFeature({field.name: np.arange(low, high + 1)}, (above[:-1] - above[1:]).astype(np.float64))
        case TabledFeature():
            return _tabled(feature)
        case TwoPoint(field=field, chance=chance):
            top = float(chance)
            return ListedFeature({field.name: np.array([field.least, field.most])}, np.array([1 - top, top]))
        case _:
            raise _unlisted("has a feature that is not listed")


def _bits(feature: BitsFeature) -> ListedFeature:
    width = feature.field.width
    values = np.arange(1 << width, dtype=np.uint64)
    bias = sum(2.0**-place for place, digit in enumerate(feature.digits, 1) if digit)
    ones = np.bitwise_count(values)
    packed = np.zeros((words_for(width), len(values)), np.uint64)
    packed[0] = values
    chances = bias ** ones.astype(np.float64) * (1 - bias) ** (width - ones.astype(np.float64))
    return ListedFeature({feature.field.name: packed}, chances)


def _tabled(feature: TabledFeature) -> ListedFeature:
    ends = np.array([0, *feature.table.tolist(), 1 << 64], dtype=object)
    chances = np.array((ends[1:] - ends[:-1]) / (1 << 64), np.float64)
    field = feature.field
    clipped = np.clip(np.arange(len(chances)) + feature.first, field.least, field.most) - field.least
    summed = np.zeros(field.most - field.least + 1)
    np.add.at(summed, clipped, chances)
    return ListedFeature({field.name: np.arange(field.least, field.most + 1)}, summed)


def _product(features: list[ListedFeature]) -> ListedFeature:
    """All combinations of the features, which are independent."""
    columns: dict[str, Column] = {}
    chances = np.ones(1)
    for feature in features:
        here = len(feature.chances)
        columns = {name: _column(np.repeat(column, here, axis=-1)) for name, column in columns.items()}
        for name, column in feature.columns.items():
            columns[name] = _column(np.concatenate([column] * len(chances), axis=-1))
        chances = (chances[:, None] * feature.chances).ravel()
    return ListedFeature(columns, chances)


def _labelled(population: Synthetic, product: ListedFeature) -> WeightedExamples:
    if population.labelling is None:
        return WeightedExamples(Columns(population.schema, product.columns, len(product.chances)), product.chances)
    columns, chances = _with_noise(product, population.labelling)
    return WeightedExamples(Columns(population.schema, columns, len(chances)), chances)


def _with_noise(product: ListedFeature, labelling: Labelling) -> tuple[Mapping[str, Column], Floats]:
    """Right labels with probability 1 − η, wrong ones with probability η."""
    right = np.where(labelling.rule.positive(product.columns), np.int64(1), np.int64(-1))
    eta = float(labelling.eta)
    if not eta:
        return {**product.columns, LABEL: right}, product.chances
    twice = {name: _column(np.concatenate([column, column], axis=-1)) for name, column in product.columns.items()}
    chances = np.concatenate([(1 - eta) * product.chances, eta * product.chances])
    return {**twice, LABEL: np.concatenate([right, -right])}, chances


def _column(array: NDArray[Any]) -> Column:
    """The array with the type of a column."""
    return cast("Column", array)
