"""Strings of bits, of which a few are common."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.features import BitsFeature, mixed
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.law import BitsLaw
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import unlabelled
from askance_protocol import parameters as read
from askance_protocol.coins import Users
from askance_protocol.concepts import mask
from askance_protocol.examples import Column
from askance_protocol.parameters import Parameters
from askance_protocol.randomness import Words
from askance_protocol.schema import MAX_WIDTH, AnyField


@dataclass(frozen=True, slots=True, eq=False)
class CommonStrings:
    """One of a few strings by a table of cut-points, or, beyond its last, any string."""

    source: Source
    others: BitsFeature
    table: Words
    strings: tuple[int, ...]

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The string."""
        return self.others.fields

    @property
    def each(self) -> int:
        """One word decides which string it is."""
        return self.others.each + 1

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw a common string, or any, which may be a common one, too."""
        field = self.others.field
        drawn = self.others.draw(users)[field.name]
        which = draws.choose(self.source.words(users, 1)[:, 0], self.table)
        for at, string in enumerate(self.strings):
            drawn = np.where(which == at, mask(string, field.width), drawn)
        return {field.name: drawn}

    def law(self, read: Collection[str]) -> BitsLaw:
        """Each common string, or any."""
        weights = draws.weights_of(self.table)
        return mixed(self.others.law(read), list(zip(weights, (*self.strings, None), strict=True)))


def strings(parameters: Parameters, seed: int) -> Population:
    """A common share of the users has one of a few strings, the j-th in proportion to 1/j^zipf; the others have any."""
    d = read.whole(parameters, "d", 1, MAX_WIDTH)
    count = read.whole(parameters, "strings", 1, 64, default=min(5, 1 << min(d, 6)))
    exponent = read.decimal(parameters, "zipf", "1", least="0", most="4")
    common = read.decimal(parameters, "common", "0.8", least="0", most="1")
    if count > 1 << min(d, 60):
        raise read.refused("strings", f"are more than there are of {d} bits", "give fewer, or a larger d")
    source = Source(seed, "strings", "x")
    chosen = _distinct(source.of("target"), count, d)
    table = draws.cuts([*_weights(count, exponent, common), max(0, round((1 - common) * _ONE))])
    ends = [0, *table.tolist()]
    others = BitsFeature.of(source, d)
    by_chance = (1 - Fraction(ends[-1], 1 << 64)) / (1 << d)
    truth = {
        "shares": {
            others.field.show(string): float(Fraction(high - low, 1 << 64) + by_chance)
            for string, low, high in zip(chosen, ends, ends[1:], strict=False)
        }
    }
    text = f"{count} strings that {float(common):g} of the users have, Zipf with exponent {float(exponent):g}"
    return unlabelled(source, (CommonStrings(source.of("which"), others, table, tuple(chosen)),), truth, text)


_ONE: Final = 1 << 60


def _weights(count: int, exponent: Fraction, common: Fraction) -> list[int]:
    """In whole multiples of 2⁻⁶⁰, so that the last bit of a machine's power function does not show."""
    powers = [max(1, round((1 << 30) * rank ** -float(exponent))) for rank in range(1, count + 1)]
    return [round(common * _ONE * power / sum(powers)) for power in powers]


def _distinct(source: Source, count: int, width: int) -> list[int]:
    """So many strings, none twice: drawn until there are enough."""
    each, found, start = -(-width // 64), dict[int, None](), 0
    while len(found) < count:
        for row in source.words(range(start, start + count), each).tolist():
            found[sum(word << 64 * at for at, word in enumerate(row)) & ((1 << width) - 1)] = None
        start += count
    return list(found)[:count]


KIND: Final = PopulationKind(
    "strings",
    "a string of bits, of which a few are common",
    {
        "d": "bits of a string",
        "strings": "how many are common",
        "zipf": "the j-th has a share in proportion to 1/j^zipf",
        "common": "the share of the users that has one of them",
    },
    strings,
)
