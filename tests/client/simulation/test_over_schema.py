"""Users over any schema: uniform, independent, the same in any company, and with nothing in them to be learned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from askance_client.simulation.population import over_schema
from askance_lab.evaluation.domain import domain_of, is_listed
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import AskanceError
from askance_protocol.examples import Columns
from askance_protocol.schema import BitsField, CategoryField, IntegerField, LabelField, RealField, Schema
from tests.client.simulation.test_population_contract import same
from tests.protocol.generators import fixed, schemas

SIGNIFICANCE = 1e-6
USERS = range(40_000)

SMALL = Schema(
    fields=(
        LabelField(name="sign"),
        BitsField(name="x", width=2),
        CategoryField(name="plan", values=("free", "pro", "team")),
        IntegerField(name="age", low=-2, high=1),
        RealField(name="share", low=0, high=1, denominator=2),
    )
)
LARGE = Schema(
    fields=(
        BitsField(name="x", width=4096),
        IntegerField(name="n", low=-(1 << 40), high=1 << 40),
        LabelField(name="y"),
    )
)


@fixed(30)
@given(schema=schemas(), begin=st.integers(0, MAX_USER - 20), cut=st.integers(0, 20))
def test_a_user_of_any_schema_is_the_same_alone_and_in_company(schema: Schema, begin: int, cut: int) -> None:
    population = over_schema(schema, 3)
    whole = population.columns(range(begin, begin + 20))

    assert population.schema == schema
    assert same(whole, Columns.of_examples(schema, [population.example(begin + row) for row in range(20)]))
    assert same(whole.part(cut, 20), over_schema(schema, 3).columns(range(begin + cut, begin + 20)))


def test_every_combination_is_as_likely() -> None:
    columns = over_schema(SMALL, 1).columns(USERS)
    place = columns["sign"] > 0
    for value, count in (
        (columns["x"][0].astype(np.int64), 4),
        (columns["plan"], 3),
        (columns["age"] + 2, 4),
        (columns["share"], 3),
    ):
        place = place * count + value
    counts = np.bincount(place.astype(np.int64), minlength=288)

    assert len(counts) == 288
    assert stats.chisquare(counts).pvalue > SIGNIFICANCE


def test_a_large_schema_uses_its_whole_range() -> None:
    columns = over_schema(LARGE, 1).columns(range(2_000))
    ones = np.bitwise_count(columns["x"]).sum(axis=0).astype(np.int64)

    assert stats.kstest(columns["n"] / (1 << 40), "uniform", (-1, 2)).pvalue > SIGNIFICANCE
    assert stats.kstest((ones - 2048) / 32, "norm").pvalue > SIGNIFICANCE


def test_there_is_nothing_to_learn_and_the_domain_is_listed_where_it_is_small() -> None:
    population = over_schema(SMALL, 1)
    domain = domain_of(population)

    assert population.truth == {}
    assert population.labelling is None
    assert population.size is None
    assert len(domain.columns) == 288
    assert domain.weights == pytest.approx(np.full(288, 1 / 288))
    assert not is_listed(over_schema(LARGE, 1))


def test_another_seed_is_another_population_and_a_seed_is_a_number() -> None:
    one, other = (over_schema(SMALL, seed).columns(range(100)) for seed in (1, 2))

    assert not same(one, other)
    with pytest.raises(AskanceError, match=r"^seed: "):
        over_schema(SMALL, -1)
