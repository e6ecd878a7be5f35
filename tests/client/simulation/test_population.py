"""Made-up users: labelled as their concept says, and distributed as their parameters say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from askance_client.population import Population
from askance_client.simulation.population import KINDS, draws, synthetic
from askance_client.simulation.population.source import Source
from askance_protocol.errors import AskanceError
from askance_protocol.examples import Columns
from askance_protocol.schema import BitsField
from tests.client.simulation.test_population_contract import LABELLED as CONTRACT
from tests.client.simulation.test_population_contract import Case
from tests.protocol.generators import fixed

SIGNIFICANCE = 1e-6
USERS = range(2**40, 2**40 + 40_000)

LABELLED = pytest.mark.parametrize("case", CONTRACT, ids=str)


def same(one: Columns, other: Columns) -> bool:
    return one.schema == other.schema and all((one[name] == other[name]).all() for name in one.arrays)


# ---------------------------------------------------------------------------------------------------- purity


def test_more_users_than_one_block_holds_are_made_of_the_same_users() -> None:
    population = synthetic("parity", {"d": 4096, "bias": "0.3"}, 1)
    columns = population.columns(range(500))

    assert same(columns.part(490, 500), population.columns(range(490, 500)))


def test_words_are_those_of_the_definition() -> None:
    label = b"askance population v1" + (5).to_bytes(16, "big") + b"mean\0value"
    key = hashlib.sha256(label).digest()[:16]
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(8 * 30))
    expected = [int.from_bytes(stream[8 * at :][:8], "little") for at in range(12, 24)]

    assert Source(5, "mean", "value").words(range(4, 8), 3).ravel().tolist() == expected


# -------------------------------------------------------------------------------------------------- the label

Truth = Mapping[str, Any]
Record = Mapping[str, Any]


def parity_of(truth: Truth, x: str) -> int:
    return sum(int(r) * int(bit) for r, bit in zip(truth["r"], x, strict=True)) % 2


def masked_parity(truth: Truth, record: Record) -> bool:
    if record["b"] == "1":
        return truth["r"][record["i"]] == "0"
    return (parity_of(truth, record["x"]) + truth["a"]) % 2 == 0


def decision_list(truth: Truth, record: Record) -> bool:
    for i, v, label in truth["rules"]:
        if int(record["x"][i]) == v:
            return label == 1
    return truth["otherwise"] == 1


def separator(truth: Truth, record: Record) -> bool:
    total = sum(weight * Fraction(record[f"x{j}"]) for j, weight in enumerate(truth["weights"]))
    assert abs(total) >= (Fraction(truth["margin"]) - Fraction(1, 10**9)) * sum(map(abs, truth["weights"]))
    return total >= 0


def heart(truth: Truth, record: Record) -> bool:
    score = sum(truth["score"][name] * record[name] for name in ("age", "max_heart_rate"))
    score += sum(truth["score"][name].get(record[name], 0) for name in ("sex", "chest_pain"))
    score += truth["score"]["st_depression"] * Fraction(str(record["st_depression"]))
    return score + truth["score"]["angina"] * int(record["angina"]) >= truth["from"]


RULES: Mapping[str, Callable[[Truth, Record], bool]] = {
    "masked-parity": masked_parity,
    "parity": lambda truth, record: parity_of(truth, record["x"]) == 0,
    "conjunction": lambda truth, record: all(record["x"][i] == "1" for i in truth["variables"]),
    "decision-list": decision_list,
    "copied-bits": lambda truth, record: RULES[
        "conjunction" if "variables" in truth else "parity" if "r" in truth else "decision-list"
    ](truth, record),
    "point": lambda truth, record: record["x"] == truth["point"],
    "threshold": lambda truth, record: record["x"] < truth["threshold"],
    "separator": separator,
    "heart": heart,
}


@LABELLED
@pytest.mark.parametrize("seed", [1, 2])
def test_without_noise_every_label_is_the_concepts(case: Case, seed: int) -> None:
    population = case.population(seed, eta=0)
    records = [population.columns(range(200)).example(row).record() for row in range(200)]
    truth = json.loads(json.dumps(population.truth))

    assert [RULES[case.kind](truth, record) for record in records] == [record["y"] == 1 for record in records]


@LABELLED
def test_noise_flips_its_share_of_the_labels(case: Case) -> None:
    clean = case.population(7, eta=0).columns(USERS)["y"]
    noisy = case.population(7, eta="0.1").columns(USERS)["y"]
    flips = int((clean != noisy).sum())

    assert stats.binomtest(flips, len(USERS), 0.1).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("kind", ["masked-parity", "parity", "threshold", "point", "separator", "heart"])
def test_both_labels_are_there_to_see(kind: str) -> None:
    parameters = {"d": 8} if "d" in KINDS[kind].parameters else {}
    share = float((synthetic(kind, parameters, 11).columns(USERS)["y"] == 1).mean())

    assert 0.2 < share < 0.8


# ---------------------------------------------------------------------------------------------- distributions


def bit_counts(columns: Columns, name: str) -> list[int]:
    field = columns.schema.field(name)
    assert isinstance(field, BitsField)
    words = columns[name]
    return [int((words[i // 64] >> np.uint64(i % 64) & np.uint64(1)).sum()) for i in range(field.width)]


@pytest.mark.parametrize(("bias", "parameters"), [(0.5, {}), (0.3, {"bias": "0.3"}), (0.99, {"bias": "0.99"})])
def test_bits_have_their_bias_one_by_one(bias: float, parameters: dict[str, str]) -> None:
    counts = bit_counts(synthetic("parity", {"d": 70, **parameters}, 8).columns(USERS), "x")

    assert min(stats.binomtest(count, len(USERS), bias).pvalue for count in counts) > SIGNIFICANCE


def test_bits_are_independent_of_each_other() -> None:
    words = synthetic("parity", {"d": 4, "bias": "0.3"}, 9).columns(USERS)["x"][0]
    expected = [0.3 ** j.bit_count() * 0.7 ** (4 - j.bit_count()) * len(USERS) for j in range(16)]

    assert stats.chisquare(np.bincount(words.astype(np.int64), minlength=16), expected).pvalue > SIGNIFICANCE


@given(words=st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=3))
@fixed(30)
def test_biased_bits_compare_a_uniform_number_with_the_bias(words: list[int]) -> None:
    digits = (True, False, True)  # 5/8
    found = int(draws.biased(np.array([words], np.uint64), digits)[0])

    for place in range(64):
        u1, u2, u3 = (word >> place & 1 for word in words)
        # "below" is asked of the complement, which is as uniform.
        assert found >> place & 1 == (4 * (1 - u1) + 2 * (1 - u2) + (1 - u3) < 5)


def test_masked_parity_is_uniform_over_its_whole_domain() -> None:
    columns = synthetic("masked-parity", {"d": 4}, 10).columns(USERS)
    place = columns["x"][0].astype(np.int64) * 8 + columns["i"].astype(np.int64) * 2 + columns["b"][0].astype(np.int64)

    assert stats.chisquare(np.bincount(place, minlength=128)).pvalue > SIGNIFICANCE


def test_a_point_has_its_mass() -> None:
    population = synthetic("point", {"d": 40, "mass": "0.25"}, 12)
    hits = int((population.columns(USERS)["y"] == 1).sum())

    assert stats.binomtest(hits, len(USERS), 0.25).pvalue > SIGNIFICANCE


def test_thresholds_are_uniform_or_the_least_of_several() -> None:
    for skew in (1, 3):
        drawn = synthetic("threshold", {"domain": 10, "skew": skew}, 13).columns(USERS)["x"]
        above = np.array([(1 - j / 10) ** skew for j in range(11)])
        counts = np.bincount(drawn.astype(np.int64), minlength=10)
        assert stats.chisquare(counts, (above[:-1] - above[1:]) * len(USERS)).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("zipf", ["0", "1", "2.5"])
def test_a_histogram_has_its_shares(zipf: str) -> None:
    population = synthetic("histogram", {"cells": 20, "zipf": zipf}, 14)
    weights = np.array([j ** -float(zipf) for j in range(1, 21)])
    counts = np.bincount(population.columns(USERS)["cell"].astype(np.int64), minlength=20)

    assert population.truth["shares"] == pytest.approx(weights / weights.sum(), abs=1e-12)
    assert stats.chisquare(counts, weights / weights.sum() * len(USERS)).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("shape", ["uniform", "extremes"])
@pytest.mark.parametrize("mean", ["-1", "-0.3", "0", "0.25", "1"])
def test_a_mean_is_what_it_says(mean: str, shape: str) -> None:
    population = synthetic("mean", {"mean": mean, "shape": shape}, 15)
    values = population.columns(USERS)["value"] / 1000
    deviation = 5 * float(values.std()) / len(USERS) ** 0.5

    assert population.truth == {"mean": float(mean)}
    assert values.mean() == pytest.approx(float(mean), abs=deviation + 1e-12)


def test_a_normal_table_is_a_rounded_normal_variable() -> None:
    table, first = draws.normal(Fraction(5, 2))
    words = Source(1, "test", "normal").words(range(100_000), 1)[:, 0]
    drawn = np.clip(draws.choose(words, table) + first, -9, 9)
    ends = stats.norm.cdf((np.arange(-9, 9) + 0.5) / 2.5)
    shares = np.diff(np.concatenate([[0], ends, [1]]))

    assert stats.chisquare(np.bincount(drawn + 9, minlength=19), shares * 100_000).pvalue > SIGNIFICANCE


def test_clusters_lie_around_their_centres() -> None:
    population = synthetic("clusters", {"k": 3, "d": 2, "spread": "0.05"}, 16)
    columns = population.columns(USERS)
    points = np.stack([columns["x0"], columns["x1"]], axis=1) / 1000
    centres = np.array(population.truth["centres"])
    distances = np.linalg.norm(points[:, None] - centres, axis=2)
    own = distances.argmin(axis=1)

    assert stats.chisquare(np.bincount(own, minlength=3)).pvalue > SIGNIFICANCE
    for j in range(3):
        assert points[own == j].mean(axis=0) == pytest.approx(centres[j], abs=0.003)
        assert points[own == j].std(axis=0) == pytest.approx([0.05, 0.05], rel=0.03)


def test_sure_things_happen_and_impossible_ones_do_not() -> None:
    words = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)

    assert draws.happens(words, Fraction(1)).tolist() == [True] * 4
    assert draws.happens(words, Fraction(1, 2)).tolist() == [True, True, False, False]
    assert draws.happens(words, Fraction(0)).tolist() == [False] * 4


# ------------------------------------------------------------------------------------- kinds and parameters


@pytest.mark.parametrize(
    ("kind", "parameters", "complaint"),
    [
        ("nobody", {}, r"'nobody' is not a kind of population \(use one of clusters, conjunction, .*threshold\)"),
        ("parity", {"d": 4, "eda": "0.1"}, r"parameters.eda: is not a parameter here \(use d, bias, eta, r\)"),
        ("parity", {}, r"parameters.d: is missing"),
        ("parity", {"d": True}, r"parameters.d: is not such a number"),
        ("parity", {"d": 3, "r": "01"}, r"parameters.r: is not a bit string"),
        ("masked-parity", {"d": 6}, r"parameters.d: is not a power of two"),
        ("parity", {"d": 3, "eta": "0.5"}, r"parameters.eta: leaves nothing to learn"),
        ("parity", {"d": 3, "eta": "1/3"}, r"parameters.eta: is not such a number"),
        ("parity", {"d": 3, "eta": True}, r"parameters.eta: is not such a number"),
        ("parity", {"d": 3, "bias": 1}, r"parameters.bias: makes all bits the same"),
        ("mean", {"mean": "0.0001"}, r"parameters.mean: is not a multiple of 1/1000"),
        ("mean", {"shape": "odd"}, r"parameters.shape: .*give uniform or extremes"),
        ("decision-list", {"d": 3, "list": "3=1:+ else:-"}, r"parameters.list: is not a decision list over 3 bits"),
        ("decision-list", {"d": 3, "list": ""}, r"parameters.list"),
        ("decision-list", {"d": 3, "list": "1=1:+"}, r"parameters.list"),
    ],
)
def test_what_is_no_population_is_refused(kind: str, parameters: dict[str, Any], complaint: str) -> None:
    with pytest.raises(AskanceError, match=complaint):
        synthetic(kind, parameters, 1)


def test_the_largest_table_and_the_widest_example_are_made() -> None:
    population: Population = synthetic("clusters", {"k": 64, "d": 128, "spread": 1, "denominator": 1 << 14}, 1)

    assert len(population.columns(range(10))) == 10
    assert synthetic("parity", {"d": 4096, "bias": "0.1"}, 1).example(1).values
