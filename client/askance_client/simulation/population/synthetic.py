"""Made-up populations: features, a target concept, and noise on the labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.features import Feature
from askance_client.simulation.population.source import Source
from askance_protocol import parameters as read
from askance_protocol.coins import Users
from askance_protocol.concepts import Concept
from askance_protocol.examples import Column, Columns
from askance_protocol.parameters import Parameters
from askance_protocol.schema import LabelField, Schema

_FEW: Final = 4
"""To make one user alone takes as long as about so many in a row."""

_WORDS: Final = 1 << 19
"""About how many words are drawn at a time, so that what is asked for takes the memory, not how it is made."""


@dataclass(frozen=True, slots=True)
class Labelling:
    """Random classification noise: each label is flipped with chance η, on its own. BB-notes, §1.4."""

    source: Source
    rule: Concept
    eta: Fraction

    def draw(self, columns: Mapping[str, Column], users: Users) -> Column:
        """Label these users."""
        positive = self.rule.positive(columns)
        if self.eta:
            positive = positive ^ draws.happens(self.source.words(users, 1)[:, 0], self.eta)
        return (positive.view(np.int8) * np.int8(2) - np.int8(1)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Synthetic(Population):
    """A population that is computed: it has a user for every user number, and makes only those that are asked for."""

    features: tuple[Feature, ...]
    labelling: Labelling | None

    def columns(self, users: range) -> Columns:
        """Make these users, block by block."""
        self.check(users)
        return self._made(users)

    def some(self, users: range, rows: NDArray[np.intp]) -> Columns:
        """Make the users of these places: where they are few, without the others."""
        self.check(users)
        if len(rows) * _FEW < len(users):
            return self._made(rows.astype(np.uint64) + np.uint64(users.start))
        return super().some(users, rows)

    def _made(self, users: Users) -> Columns:
        blocks = [self._block(block) for block in self._blocks(users)]
        arrays = {name: _joined([block[name] for block in blocks]) for name in blocks[0]}
        return Columns(self.schema, arrays, len(users))

    def _blocks(self, users: Users) -> Iterator[Users]:
        step = max(1, _WORDS // sum(feature.each for feature in self.features))
        for start in range(0, len(users), step) or (0,):
            yield users[start : start + step]

    def _block(self, users: Users) -> Mapping[str, Column]:
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
    column = parts[0] if len(parts) == 1 else cast("Column", np.concatenate(parts, axis=-1))
    column.flags.writeable = False
    return column
