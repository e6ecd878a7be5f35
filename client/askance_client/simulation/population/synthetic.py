"""Made-up populations: features, a target concept, and noise on the labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, cast

import numpy as np

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.features import Feature
from askance_client.simulation.population.source import Source
from askance_protocol import parameters as read
from askance_protocol.concepts import Concept
from askance_protocol.examples import Column, Columns
from askance_protocol.parameters import Parameters
from askance_protocol.schema import LabelField, Schema

_WORDS: Final = 1 << 18
"""About how many words are drawn at a time, so that what is asked for takes the memory, not how it is made."""


@dataclass(frozen=True, slots=True)
class Labelling:
    """Random classification noise: each label is flipped with chance η, on its own. BB-notes, §1.4."""

    source: Source
    rule: Concept
    eta: Fraction

    def draw(self, columns: Mapping[str, Column], users: range) -> Column:
        """Label these users."""
        flipped = draws.happens(self.source.words(users, 1)[:, 0], self.eta)
        return np.where(self.rule.positive(columns) ^ flipped, np.int64(1), np.int64(-1))


@dataclass(frozen=True, eq=False)
class Synthetic(Population):
    """A population that is computed: it has a user for every user number, and makes only those that are asked for."""

    features: tuple[Feature, ...]
    labelling: Labelling | None

    def columns(self, users: range) -> Columns:
        """Make these users, block by block."""
        self.check(users)
        blocks = [self._block(block) for block in self._blocks(users)]
        arrays = {name: _joined([block[name] for block in blocks]) for name in blocks[0]}
        return Columns(self.schema, arrays, len(users))

    def _blocks(self, users: range) -> Iterator[range]:
        step = max(1, _WORDS // sum(feature.each for feature in self.features))
        for start in range(users.start, users.stop, step) or (users.start,):
            yield range(start, min(start + step, users.stop))

    def _block(self, users: range) -> Mapping[str, Column]:
        columns: dict[str, Column] = {}
        for feature in self.features:
            columns.update(feature.draw(users))
        if self.labelling is not None:
            columns[LABEL] = self.labelling.draw(columns, users)
        return columns


LABEL: Final = "y"
ETA: Final[Mapping[str, str]] = {"eta": "the chance that a label is flipped, below 0.5"}
"""The parameter that every labelled kind has."""


def unlabelled(source: Source, features: tuple[Feature, ...], truth: Mapping[str, object], text: str) -> Synthetic:
    """Make a population without labels."""
    schema = Schema(fields=tuple(field for feature in features for field in feature.fields))
    return Synthetic(source.kind, schema, None, truth, _summary(source, text), features, None)


def labelled(source: Source, features: tuple[Feature, ...], rule: Concept, eta: Fraction) -> Synthetic:
    """Make a population whose last field is the label."""
    fields = (*(field for feature in features for field in feature.fields), LabelField(name=LABEL))
    noise = f"; labels flipped with chance {float(eta):g}" if eta else ""
    labelling = Labelling(Source(source.seed, source.kind, LABEL), rule, eta)
    summary = _summary(source, f"{rule}{noise}")
    return Synthetic(source.kind, Schema(fields=fields), None, rule.truth, summary, features, labelling)


def noise(parameters: Parameters) -> Fraction:
    """Read the noise rate of the labels: η < 1/2. BB-notes, §1.4."""
    eta = read.decimal(parameters, "eta", "0", least="0", most="0.5")
    if eta == Fraction(1, 2):
        raise read.refused("eta", "leaves nothing to learn", "give a noise rate below 0.5")
    return eta


def _summary(source: Source, text: str) -> str:
    return f"{source.kind}, simulated with seed {source.seed}: {text}"


def _joined(parts: list[Column]) -> Column:
    column = cast("Column", np.concatenate(parts, axis=-1))
    column.flags.writeable = False
    return column
