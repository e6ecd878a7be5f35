"""Features: fields of made-up users before they are labelled, each from random words of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from askance_client.simulation.population import draws
from askance_client.simulation.population.law import BitsLaw, BitsOfOne, ListedLaw
from askance_client.simulation.population.source import Source
from askance_protocol.coins import Users
from askance_protocol.concepts import mask
from askance_protocol.examples import Column, words_for
from askance_protocol.randomness import Words
from askance_protocol.schema import AnyField, BitsField, CategoryField, IntegerField, LabelField, RealField


class Feature(Protocol):
    """A way to draw one or more fields together."""

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The fields that are drawn."""
        ...

    @property
    def each(self) -> int:
        """The number of words for one user, about: it bounds the memory."""
        ...

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw the columns of these users."""
        ...


@dataclass(frozen=True, slots=True)
class BitsFeature:
    """Independent bits, each 1 with the same chance."""

    source: Source
    field: BitsField
    digits: tuple[bool, ...]

    @classmethod
    def of(cls, source: Source, width: int, bias: Fraction = Fraction(1, 2)) -> BitsFeature:
        """Bits in a field that has the name of the source's part."""
        return cls(source, BitsField(name=source.part, width=width), draws.planes(bias))

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The bits."""
        return (self.field,)

    @property
    def each(self) -> int:
        """A word for each 64 bits and each digit of the bias: one digit, where it is ½."""
        return words_for(self.field.width) * len(self.digits)

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw the bits, packed as columns hold them."""
        words = self.source.words(users, self.each)
        if self.digits != (True,):
            words = draws.biased(words.reshape(-1, words_for(self.field.width), len(self.digits)), self.digits)
        packed = np.ascontiguousarray(words.T)
        if self.field.width % 64:
            packed[-1] &= mask(self.field.most, self.field.width)[-1]
        return {self.field.name: packed}

    def law(self, read: Collection[str]) -> BitsLaw:  # noqa: ARG002 - one field
        """Each bit with the chance that its digits write."""
        return BitsLaw(self.field, 1 << len(self.digits), (BitsOfOne(1, (self.ones,) * self.field.width),))

    @property
    def ones(self) -> int:
        """The chance of a 1, in parts of 2 to the number of digits."""
        return sum(digit << place for place, digit in enumerate(reversed(self.digits)))


@dataclass(frozen=True, slots=True)
class PointMass:
    """Independent bits, but with a given chance all those of one point: uniform bits would hardly ever meet it."""

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

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw the point, or any bits, which may be the point, too."""
        name, width = self.others.field.name, self.others.field.width
        meets = draws.happens(self.source.words(users, 1)[:, 0], self.mass)
        return {name: np.where(meets, mask(self.point, width), self.others.draw(users)[name])}

    def law(self, read: Collection[str]) -> BitsLaw:
        """The point, or any bits."""
        others, meets = self.others.law(read), draws.chance_of(self.mass)
        return mixed(others, [(meets, self.point), (draws.WHOLE - meets, None)])


@dataclass(frozen=True, slots=True)
class CopiedBits:
    """Bits that go with each other: each is, with a given chance, a copy of one bit that the user has besides."""

    own: BitsFeature
    shared: BitsFeature
    copies: BitsFeature
    """Which bits are copies: as many bits as those of its own."""

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The bits."""
        return self.own.fields

    @property
    def each(self) -> int:
        """The words of all three."""
        return self.own.each + self.shared.each + self.copies.each

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw bits of her own, and put the shared one where a bit is a copy."""
        name = self.own.field.name
        own, copies = self.own.draw(users)[name], self.copies.draw(users)[self.copies.field.name]
        shared = self.shared.draw(users)[self.shared.field.name][0] == 1
        return {name: np.where(shared, own | copies, own & ~copies)}

    def law(self, read: Collection[str]) -> BitsLaw:  # noqa: ARG002 - one field
        """By the shared bit: each bit is that one, or 1 by itself."""
        of, copied = 1 << len(self.own.digits), 1 << len(self.copies.digits)
        by_itself, width = self.own.ones * (copied - self.copies.ones), self.own.field.width
        ones = (by_itself + of * self.copies.ones, by_itself)
        weights = (self.shared.ones, (1 << len(self.shared.digits)) - self.shared.ones)
        parts = zip(weights, ones, strict=True)
        return BitsLaw(self.own.field, of * copied, tuple(BitsOfOne(weight, (one,) * width) for weight, one in parts))


@dataclass(frozen=True, slots=True)
class UniformFeature:
    """A number from `low` to `high`, in numerators, or a category by its index; with a skew, the least of several."""

    source: Source
    field: IntegerField | RealField | CategoryField
    low: int
    high: int
    skew: int = 1

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The number, or the category."""
        return (self.field,)

    @property
    def each(self) -> int:
        """A word for each draw that it is the least of."""
        return self.skew

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw as often as the skew says, and take the least."""
        drawn = draws.below(self.source.words(users, self.skew), self.high - self.low + 1)
        least = drawn[:, 0] if self.skew == 1 else drawn.min(axis=1)
        return {self.field.name: least + self.low if self.low else least}

    def law(self, read: Collection[str]) -> ListedLaw:  # noqa: ARG002 - one field
        """Each value by the words that give it."""
        weights = draws.least_of(self.high - self.low + 1, self.skew)
        return ListedLaw({self.field.name: np.arange(self.low, self.high + 1)}, weights)


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

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw the outcome that the word of each user falls into."""
        drawn = draws.choose(self.source.words(users, 1)[:, 0], self.table) + self.first
        return {self.field.name: np.clip(drawn, self.field.least, self.field.most)}

    def law(self, read: Collection[str]) -> ListedLaw:  # noqa: ARG002 - one field
        """Each outcome by the words between its cut-points."""
        values = np.clip(np.arange(len(self.table) + 1) + self.first, self.field.least, self.field.most)
        return ListedLaw({self.field.name: values}, draws.weights_of(self.table))


@dataclass(frozen=True, slots=True)
class TwoPoint:
    """The top of a field with some chance, else its bottom: a label, or values as far from their mean as they come."""

    source: Source
    field: RealField | LabelField
    chance: Fraction

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The number, or the label."""
        return (self.field,)

    @property
    def each(self) -> int:
        """One word decides."""
        return 1

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw one of the two ends."""
        top = draws.happens(self.source.words(users, 1)[:, 0], self.chance)
        return {self.field.name: top * np.int64(self.field.most - self.field.least) + np.int64(self.field.least)}

    def law(self, read: Collection[str]) -> ListedLaw:  # noqa: ARG002 - one field
        """The two ends."""
        top = draws.chance_of(self.chance)
        return ListedLaw({self.field.name: np.array([self.field.least, self.field.most])}, (draws.WHOLE - top, top))


def mixed(others: BitsLaw, parts: Sequence[tuple[int, int | None]]) -> BitsLaw:
    """A mixture of points, by their bits, and of other bits, where there is no point."""
    [one], places = others.mixed, range(others.field.width)
    points = (one.ones if point is None else tuple(others.of * (point >> j & 1) for j in places) for _, point in parts)
    weights = (weight for weight, _ in parts)
    return BitsLaw(others.field, others.of, tuple(map(BitsOfOne, weights, points)))
