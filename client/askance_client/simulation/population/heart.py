"""Made-up patients, in the form of the tables that people have: categories, whole numbers, reals, a bit, a label."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.features import BitsFeature, Feature, TabledFeature
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.law import ListedLaw
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import ETA, labelled, noise
from askance_protocol.arrays import Truths
from askance_protocol.coins import Users
from askance_protocol.concepts import bit
from askance_protocol.examples import Column
from askance_protocol.parameters import Parameters
from askance_protocol.schema import AnyField, CategoryField, IntegerField, RealField

AGE = IntegerField(name="age", low=20, high=90)
SEX = CategoryField(name="sex", values=("female", "male"))
PAIN = CategoryField(name="chest_pain", values=("typical", "atypical", "other", "none"))
PRESSURE = IntegerField(name="blood_pressure", low=80, high=220)
CHOLESTEROL = IntegerField(name="cholesterol", low=100, high=500)
RATE = IntegerField(name="max_heart_rate", low=60, high=220)
DEPRESSION = RealField(name="st_depression", low=0, high=7, denominator=10)


@dataclass(frozen=True, slots=True)
class HeartRate:
    """A heart rate around a middle that falls with age: the fields of a real table are not independent."""

    rate: TabledFeature
    age: TabledFeature

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The age and the rate."""
        return (*self.age.fields, *self.rate.fields)

    @property
    def each(self) -> int:
        """One word for each."""
        return 2

    def draw(self, users: Users) -> Mapping[str, Column]:
        """Draw both."""
        age = self.age.draw(users)
        middle = 188 - 7 * age[AGE.name].astype(np.int64) // 10
        around = draws.choose(self.rate.source.words(users, 1)[:, 0], self.rate.table) + self.rate.first
        return {**age, RATE.name: np.clip(middle + around, RATE.least, RATE.most)}

    def law(self, read: Collection[str]) -> ListedLaw:
        """Each age, with each rate around its middle."""
        ages, of_age = self.age.law(read).columns[AGE.name].astype(np.int64), self.age.law(read).weights
        around, of_rate = np.arange(len(self.rate.table) + 1) + self.rate.first, draws.weights_of(self.rate.table)
        rates = np.clip((188 - 7 * ages // 10)[:, np.newaxis] + around, RATE.least, RATE.most)
        weights = np.outer(np.array(of_age, object), np.array(of_rate, object))
        columns = {AGE.name: np.repeat(ages, len(around)), RATE.name: rates.ravel()}
        return ListedLaw(columns, tuple(weights.ravel().tolist()))


@dataclass(frozen=True, slots=True)
class Risk:
    """A concept: a score of whole numbers is high. It is made up, too: of no use to a patient."""

    @property
    def truth(self) -> Mapping[str, object]:
        """What each field adds, and from where on the label is +1."""
        return {
            "score": {
                "age": 2,
                "sex": {"male": 20},
                "chest_pain": {"none": 40},
                "max_heart_rate": -1,
                "st_depression": 20,
                "angina": 30,
            },
            "from": 24,
        }

    def __str__(self) -> str:
        terms = "2 age + 20 (male) + 40 (no chest pain) - max_heart_rate + 20 st_depression + 30 angina"
        return f"y = +1 where {terms} is at least 24"

    def positive(self, columns: Mapping[str, Column]) -> Truths:
        """Whether the score is high, for each user."""
        whole = {name: columns[name].astype(np.int64, copy=False) for name in columns if columns[name].ndim == 1}
        score = 2 * whole["age"] + 20 * whole["sex"] + 40 * (whole["chest_pain"] == PAIN.index["none"])
        # st_depression is held in tenths.
        score += 2 * whole["st_depression"] - whole["max_heart_rate"] + 30 * bit(columns["angina"], 0)
        return score >= 24


def heart(parameters: Parameters, seed: int) -> Population:
    """Seven fields of patients and an exercise-angina bit, labelled by a score."""

    def part(name: str) -> Source:
        return Source(seed, "heart", name)

    def around(field: IntegerField | RealField, middle: int, spread: int | str) -> TabledFeature:
        table, first = draws.normal(Fraction(spread))
        return TabledFeature(part(field.name), field, table, middle + first)

    features: tuple[Feature, ...] = (
        HeartRate(rate=around(RATE, 0, 20), age=around(AGE, 54, 9)),
        TabledFeature(part("sex"), SEX, draws.cuts([32, 68])),
        TabledFeature(part("chest_pain"), PAIN, draws.cuts([8, 17, 28, 47])),
        around(PRESSURE, 132, 18),
        around(CHOLESTEROL, 246, 50),
        around(DEPRESSION, 8, "11.6"),
        BitsFeature.of(part("angina"), 1, Fraction("0.33")),
    )
    return labelled(part("target"), features, Risk(), noise(parameters))


KIND: Final = PopulationKind("heart", "made-up patients: categories, numbers, a bit and a label", {**ETA}, heart)
