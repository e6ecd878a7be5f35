"""An app's telemetry: mixed columns, half of them with gaps, that depend on each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Final, cast

import numpy as np

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.law import ListedLaw
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import unlabelled
from askance_protocol import parameters as read
from askance_protocol.arrays import Integers
from askance_protocol.coins import Users
from askance_protocol.examples import Column
from askance_protocol.parameters import Parameters
from askance_protocol.schema import AnyField, BitsField, CategoryField, IntegerField

_COUNTRIES: Final = ("at", "ch", "de", "es", "fr", "it", "nl", "pl")
_PLANS: Final = ("free", "pro", "team")
_PLAN_WEIGHTS: Final = (70, 24, 6)
_VERSIONS: Final = ("1.8", "1.9", "2.0", "2.1", "2.2")
_VERSION_WEIGHTS: Final = (4, 10, 18, 42, 26)
_DARK: Final = Fraction(3, 5)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Who pays uses the app longer; who is on an old version sees more crashes; a gap comes with its own chance."""

    source: Source
    gaps: Fraction

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The columns."""
        return (
            CategoryField(name="country", values=_COUNTRIES),
            CategoryField(name="plan", values=_PLANS, gap=True),
            CategoryField(name="version", values=_VERSIONS, gap=True),
            IntegerField(name="minutes", low=0, high=120, gap=True),
            IntegerField(name="crashes", low=0, high=9),
            BitsField(name="dark", width=1),
        )

    @property
    def each(self) -> int:
        """Words for one user."""
        return 12

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw the columns of these users."""
        words = self.source.words(users, self.each)
        country = draws.choose(words[:, 0], draws.zipf(len(_COUNTRIES), Fraction(1)))
        plan = draws.choose(words[:, 1], draws.cuts(_PLAN_WEIGHTS))
        version = draws.choose(words[:, 2], draws.cuts(_VERSION_WEIGHTS))
        # The least of two draws, and for who pays the larger: short sessions are many, and paid ones longer.
        spans = draws.below(words[:, 3:5], 121)
        shorter, longer = np.sort(spans, axis=1).T
        minutes = shorter + (longer - shorter) * (plan > 0)
        crashes = np.maximum(np.sort(draws.below(words[:, 5:7], 10), axis=1)[:, 0] - 2 * (version > 1), 0)
        dark = (draws.happens(words[:, 7], _DARK) | (plan == 2)).astype(np.uint64)

        def or_gap(column: Integers, word: int, most: int) -> Integers:
            return np.where(draws.happens(words[:, word], self.gaps), most + 1, column)

        return {
            "country": country,
            "plan": or_gap(plan, 8, len(_PLANS) - 1),
            "version": or_gap(version, 9, len(_VERSIONS) - 1),
            "minutes": or_gap(minutes, 10, 120),
            "crashes": crashes,
            "dark": dark[np.newaxis],
        }

    def law(self, read: Collection[str]) -> ListedLaw:
        """By the plan and the version, on which the others depend. A field that is not read has one value."""
        plans, versions = (draws.weights_of(draws.cuts(each)) for each in (_PLAN_WEIGHTS, _VERSION_WEIGHTS))
        given = [
            _listed(self._given(plan, version), read, of_plan * of_version)
            for plan, of_plan in enumerate(plans)
            for version, of_version in enumerate(versions)
        ]
        columns = np.concatenate([values for values, _ in given], axis=-1)
        named = {field.name: column for field, column in zip(self.fields, columns, strict=True)}
        named["dark"] = columns[-1:].astype(np.uint64)
        return ListedLaw(cast("Mapping[str, Column]", named), tuple(weight for _, each in given for weight in each))

    def _given(self, plan: int, version: int) -> Mapping[str, tuple[int, ...]]:
        """By field, the weights of its values, for who has this plan and this version."""
        minutes = draws.least_of(121, 2) if plan == 0 else draws.greatest_of(121, 2)
        crashes, fewer = draws.least_of(10, 2), 2 * (version > 1)
        dark = 0 if plan == 2 else draws.WHOLE - draws.chance_of(_DARK)
        gap = draws.chance_of(self.gaps)

        def or_gap(weights: tuple[int, ...]) -> tuple[int, ...]:
            return (*((draws.WHOLE - gap) * weight for weight in weights), gap * sum(weights))

        return {
            "country": draws.weights_of(draws.zipf(len(_COUNTRIES), Fraction(1))),
            "plan": or_gap(tuple(int(each == plan) for each in range(len(_PLANS)))),
            "version": or_gap(tuple(int(each == version) for each in range(len(_VERSIONS)))),
            "minutes": or_gap(minutes),
            "crashes": (sum(crashes[: fewer + 1]), *crashes[fewer + 1 :]),
            "dark": (dark, draws.WHOLE - dark),
        }


def _listed(weights: Mapping[str, tuple[int, ...]], read: Collection[str], weight: int) -> tuple[Integers, list[int]]:
    """All combinations of the values that can be: a row for each field."""
    each = [{k: w for k, w in enumerate(of) if w} if name in read else {0: 1} for name, of in weights.items()]
    values = np.stack([some.ravel() for some in np.meshgrid(*map(list, each), indexing="ij")])
    parts = (np.array(list(some.values()), object) for some in each)
    return values.astype(np.int64), (reduce(np.multiply.outer, parts) * weight).ravel().tolist()


def telemetry(parameters: Parameters, seed: int) -> Population:
    """Six columns: country, plan, version, minutes, crashes, dark; plan, version and minutes with gaps."""
    gaps = read.decimal(parameters, "gaps", "0.1", least="0", most="1")
    source = Source(seed, "telemetry", "row")
    text = f"six columns, three of them with {float(gaps):.0%} gaps"
    return unlabelled(source, (Telemetry(source, gaps),), {"gaps": float(gaps)}, text)


KIND: Final = PopulationKind(
    "telemetry",
    "an app's telemetry, with gaps",
    {"gaps": "the chance that a column that may be empty is, for each of plan, version and minutes"},
    telemetry,
)
