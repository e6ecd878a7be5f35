"""The contract of every kind of population: the same users in any company, and a truth that the labels follow."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_client.population import Population
from askance_client.simulation.population import KINDS, Synthetic, synthetic
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import AskanceError
from askance_protocol.examples import Columns
from askance_protocol.schema import BitsField
from tests.protocol.generators import fixed


@dataclass(frozen=True)
class Case:
    """A population, and the digest of its first 200 users, its schema, truth and summary."""

    kind: str
    parameters: Mapping[str, Any]
    digest: str

    def __str__(self) -> str:
        return f"{self.kind} {json.dumps(self.parameters)}"

    def population(self, seed: int, **more: Any) -> Synthetic:
        made = synthetic(self.kind, {**self.parameters, **more}, seed)
        assert isinstance(made, Synthetic)
        return made


# The digests are those of version 0.1: studies are repeated by their seeds, so they never change.
CASES = [
    Case("masked-parity", {"d": 8}, "725f09bbf1e5cd47"),
    Case("masked-parity", {"d": 64, "bias": "0.3", "eta": "0.1"}, "fe5de3ddbebc2950"),
    Case("parity", {"d": 5}, "f89548fb8e509d95"),
    Case("parity", {"d": 130, "eta": "0.2"}, "6eb24e89199fb061"),
    Case("conjunction", {"d": 70, "bias": "0.9"}, "e79ce27971672dc7"),
    Case("conjunction", {"d": 6, "variables": "000000"}, "d7ff4b685c6407ed"),
    Case("decision-list", {"d": 12, "length": 5}, "91e76f693fc745bb"),
    Case("decision-list", {"d": 3, "list": "2=1:+ 0=0:- else:+"}, "53a68e8726db9ba6"),
    Case("point", {"d": 66}, "a6b3110d33574ee7"),
    Case("point", {"d": 3, "mass": "0", "point": "011"}, "02c1cc8e6fd7ee37"),
    Case("threshold", {"domain": 1 << 40}, "6d8122d74b3b16f0"),
    Case("threshold", {"domain": 100, "threshold": 20, "skew": 4}, "db3acdebf3b3d897"),
    Case("separator", {"d": 3}, "92a99c73adb3da31"),
    Case("separator", {"d": 1, "margin": "0", "denominator": 1}, "c6a0bd5d175488e3"),
    Case("clusters", {"k": 4, "d": 3, "zipf": "1"}, "a7ffde4b47c8fa64"),
    Case("heart", {"eta": "0.05"}, "9fbae3562b9804a0"),
    Case("telemetry", {"gaps": "0.25"}, "65111a9a8a1fbdb0"),
    Case("mean", {"mean": "-0.25"}, "0a119653fb68a3a6"),
    Case("mean", {"mean": "0.5", "shape": "extremes"}, "e1a7fc196d57af50"),
    Case("strings", {"d": 7}, "095a72cb21319c82"),
    Case("strings", {"d": 70, "strings": 3, "zipf": "0", "common": "0.5"}, "d189ed047e39095c"),
    Case("copied-bits", {"d": 6}, "280beec57427954a"),
    Case("copied-bits", {"d": 70, "copied": "0.9", "labels": "list", "bias": "0.3"}, "4f77638ec6477ef6"),
    Case("copied-bits", {"d": 5, "labels": "parity", "relevant": 5}, "7b22a4c67501b21d"),
    Case("histogram", {"cells": 7}, "19cf650937ae3be0"),
    Case("histogram", {"cells": 300, "zipf": "1.1"}, "935d80f655ccc69c"),
]
LABELLED = [case for case in CASES if "eta" in KINDS[case.kind].parameters]

every = pytest.mark.parametrize("case", CASES, ids=str)
every_labelled = pytest.mark.parametrize("case", LABELLED, ids=str)


def digest(population: Population) -> str:
    described = [population.name, population.schema.to_json(), population.truth, population.summary]
    found = hashlib.sha256(json.dumps(described, sort_keys=True, ensure_ascii=False).encode())
    for name, array in population.columns(range(200)).arrays.items():
        found.update(name.encode())
        found.update(array.astype(array.dtype.newbyteorder("<")).tobytes())
    return found.hexdigest()[:16]


def same(one: Columns, other: Columns) -> bool:
    return one.schema == other.schema and all((one[name] == other[name]).all() for name in one.arrays)


def test_every_kind_is_held_to_the_contract() -> None:
    assert {case.kind for case in CASES} == set(KINDS)


@every
def test_the_users_of_a_seed_never_change(case: Case) -> None:
    assert digest(case.population(1)) == case.digest


# ------------------------------------------------------------------------------------------- user i is a function of i


def strangers(population: Population, users: range) -> list[int]:
    """The users who hold another example alone than in company."""
    columns = population.columns(users)
    assert columns.count == len(users)
    return [user for row, user in enumerate(users) if population.example(user) != columns.example(row)]


@every
def test_one_user_alone_is_the_one_in_company(case: Case) -> None:
    assert strangers(case.population(4), range(10_000, 10_050)) == []


def test_control_users_who_depend_on_their_company_are_found() -> None:
    class Sociable(Synthetic):
        """Its users are drawn anew for each run of users."""

        def columns(self, users: range) -> Columns:
            return synthetic("threshold", {}, len(users)).columns(users)

    honest = CASES[[case.kind for case in CASES].index("threshold")].population(1)
    population = Sociable(**{field.name: getattr(honest, field.name) for field in fields(Synthetic)})

    assert len(strangers(population, range(50))) > 10


@every
@fixed(8)
@given(data=st.data())
def test_a_run_of_users_is_the_same_whatever_it_is_a_part_of(case: Case, data: st.DataObject) -> None:
    begin = data.draw(st.one_of(st.integers(0, 99), st.integers(0, MAX_USER - 99), st.just(MAX_USER - 99)))
    ends = st.integers(begin, begin + 99)
    cut, end = sorted([data.draw(ends), data.draw(ends)])
    population = case.population(3)
    whole = population.columns(range(begin, end))

    assert same(whole.part(0, cut - begin), population.columns(range(begin, cut)))
    assert same(whole.part(cut - begin, end - begin), case.population(3).columns(range(cut, end)))


@every
@pytest.mark.parametrize("apart", [1, 2, 50])
def test_some_users_of_a_run_are_those_of_the_run(case: Case, apart: int) -> None:
    """Few are made alone, many with the others."""
    population, users = case.population(3), range(1000, 3000)
    rows = np.arange(7, 2000, apart)

    assert same(population.some(users, rows), population.columns(users).take(rows))
    assert len(population.some(users, rows[:0])) == 0


@every
def test_the_last_users_of_all_are_there_at_once(case: Case) -> None:
    population = case.population(6)

    assert population.size is None
    assert len(population.columns(range(2**47, 2**47 + 1000))) == 1000
    assert population.example(MAX_USER - 1).values


@every
def test_another_seed_is_another_population(case: Case) -> None:
    one, other = (case.population(seed).columns(range(200)) for seed in (1, 2))

    assert not same(one, other)


# ------------------------------------------------------------------------------------------------ schema, parameters


@every
def test_columns_are_what_the_schema_allows_and_cannot_be_written(case: Case) -> None:
    columns = case.population(5).columns(range(300))

    assert same(columns, Columns.of_examples(columns.schema, [columns.example(row) for row in range(300)]))
    assert [str(array.dtype) for array in columns.arrays.values()] == [
        "uint64" if isinstance(field, BitsField) else "int64" for field in columns.schema.fields
    ]
    assert not any(array.flags.writeable for array in columns.arrays.values())


@pytest.mark.parametrize("users", [range(-1, 2), range(MAX_USER, MAX_USER + 1), range(0, 4, 2), range(3, 2)])
@every
def test_only_a_run_of_users_has_columns(case: Case, users: range) -> None:
    with pytest.raises(AskanceError) as refused:
        case.population(1).columns(users)

    assert refused.value.where == "users"


@every
def test_a_parameter_that_the_kind_does_not_know_is_refused(case: Case) -> None:
    with pytest.raises(AskanceError) as refused:
        case.population(1, nonsense=1)

    assert refused.value.where == "parameters.nonsense"


@pytest.mark.parametrize("value", [True, -7, "nonsense", 1 << 70])
@every
def test_a_parameter_is_refused_by_its_name_or_makes_a_sound_population(case: Case, value: Any) -> None:
    for name in KINDS[case.kind].parameters:
        try:
            population = case.population(1, **{name: value})
        except AskanceError as refused:
            assert refused.where == f"parameters.{name}"  # noqa: PT017 - some values are allowed
        else:
            assert len(population.columns(range(3))) == 3


@pytest.mark.parametrize("seed", [-1, 1 << 128, True, "1"])
@every
def test_a_seed_is_a_number(case: Case, seed: Any) -> None:
    with pytest.raises(AskanceError) as refused:
        case.population(seed)

    assert refused.value.where == "seed"


# --------------------------------------------------------------------------------------------------- truth and labels


@every
def test_a_truth_is_json(case: Case) -> None:
    truth = case.population(1).truth

    assert truth
    assert json.loads(json.dumps(truth)).keys() == truth.keys()


@every_labelled
def test_without_noise_every_label_is_the_concepts_and_the_truth_is_its_own(case: Case) -> None:
    population = case.population(2, eta=0)
    columns = population.columns(range(300))

    assert population.labelling is not None
    assert population.truth == population.labelling.rule.truth
    assert (columns["y"] == np.where(population.labelling.rule.positive(columns.arrays), 1, -1)).all()


@every_labelled
def test_noise_changes_labels_and_nothing_else(case: Case) -> None:
    clean, noisy = (case.population(1, eta=eta).columns(range(1000)) for eta in (0, "0.25"))

    assert all((clean[name] == noisy[name]).all() for name in clean.arrays if name != "y")
    assert 0 < int((clean["y"] != noisy["y"]).sum()) < 1000
