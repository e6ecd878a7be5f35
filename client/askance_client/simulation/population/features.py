"""What a synthetic user looks like before she is labelled: columns of an example, each from words of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from askance_client.simulation.population import draws
from askance_client.simulation.population.source import Source
from askance_protocol.concepts import mask
from askance_protocol.examples import Column, words_for
from askance_protocol.randomness import Words
from askance_protocol.schema import AnyField, BitsField, CategoryField, IntegerField, RealField


class Feature(Protocol):
    """One or more fields that are drawn together."""

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """What is drawn."""
        ...

    @property
    def each(self) -> int:
        """How many words it takes for one user, about: what bounds the memory."""
        ...

    def draw(self, users: range) -> Mapping[str, Column]:
        """The columns of these users."""
        ...


@dataclass(frozen=True, slots=True)
class BitsFeature:
    """Independent bits, each 1 with the same chance."""

    source: Source
    field: BitsField
    digits: tuple[bool, ...]

    @classmethod
    def of(cls, source: Source, width: int, bias: Fraction = Fraction(1, 2)) -> BitsFeature:
        """The field that has the name of the source's part."""
        return cls(source, BitsField(name=source.part, width=width), draws.planes(bias))

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The bits."""
        return (self.field,)

    @property
    def each(self) -> int:
        """A word for each 64 bits and each digit of the bias: one digit, where it is ½."""
        return words_for(self.field.width) * len(self.digits)

    def draw(self, users: range) -> Mapping[str, Column]:
        """Bits, packed as columns hold them."""
        words = self.source.words(users, self.each).reshape(-1, words_for(self.field.width), len(self.digits))
        packed = np.ascontiguousarray(draws.biased(words, self.digits).T)
        packed &= mask(self.field.most, self.field.width)
        return {self.field.name: packed}


@dataclass(frozen=True, slots=True)
class PointMass:
    """Independent bits, all of them those of one point with a given chance: uniform bits would hardly ever meet it."""

    source: Source
    others: BitsFeature
    point: int
    mass: Fraction

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The bits."""
        return self.others.fields

    @property
    def each(self) -> int:
        """One word decides between the point and the others."""
        return self.others.each + 1

    def draw(self, users: range) -> Mapping[str, Column]:
        """The point, or something else that may be the point, too."""
        name, width = self.others.field.name, self.others.field.width
        meets = draws.happens(self.source.words(users, 1)[:, 0], self.mass)
        return {name: np.where(meets, mask(self.point, width), self.others.draw(users)[name])}


@dataclass(frozen=True, slots=True)
class UniformFeature:
    """A number from `low` to `high`, in numerators; with a skew, the least of several."""

    source: Source
    field: IntegerField | RealField
    low: int
    high: int
    skew: int = 1

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The number."""
        return (self.field,)

    @property
    def each(self) -> int:
        """A word for each number that it is the least of."""
        return self.skew

    def draw(self, users: range) -> Mapping[str, Column]:
        """The least of as many as the skew says."""
        drawn = draws.below(self.source.words(users, self.skew), self.high - self.low + 1)
        return {self.field.name: drawn.min(axis=1) + self.low}


@dataclass(frozen=True, slots=True, eq=False)
class TabledFeature:
    """A number or a category by a table of cut-points, clipped to its field."""

    source: Source
    field: IntegerField | RealField | CategoryField
    table: Words
    first: int = 0

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The number, or the category."""
        return (self.field,)

    @property
    def each(self) -> int:
        """One word falls between two cut-points."""
        return 1

    def draw(self, users: range) -> Mapping[str, Column]:
        """What the word of each user falls into."""
        drawn = draws.choose(self.source.words(users, 1)[:, 0], self.table) + self.first
        return {self.field.name: np.clip(drawn, self.field.least, self.field.most)}


@dataclass(frozen=True, slots=True)
class TwoPoint:
    """The top of a field with some chance, else its bottom: as far from the mean as values come."""

    source: Source
    field: RealField
    chance: Fraction

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The number."""
        return (self.field,)

    @property
    def each(self) -> int:
        """One word decides."""
        return 1

    def draw(self, users: range) -> Mapping[str, Column]:
        """One of the two ends."""
        top = draws.happens(self.source.words(users, 1)[:, 0], self.chance)
        return {self.field.name: np.where(top, np.int64(self.field.most), np.int64(self.field.least))}
