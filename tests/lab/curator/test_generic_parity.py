"""The generic learner for PARITY, by a Walsh–Hadamard transform: KLNRS11, Thm 3.4."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.linalg import hadamard

from askance_lab.curator import generic
from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import worst_loss
from askance_lab.curator.exponential import probabilities
from askance_lab.curator.generic_parity import Parities, learn, parity_distribution, transform
from askance_protocol.concepts import ParityConcept
from askance_protocol.errors import ProtocolError
from tests.lab.curator.curating import ONE, columns, draws, string, too_few

# ------------------------------------------------------------------------------------------------------------ scores


@pytest.mark.parametrize("d", [1, 2, 3, 6, 9])
def test_the_transform_is_multiplication_by_the_hadamard_matrix(d: int) -> None:
    table = np.random.default_rng(d).integers(-50, 50, 1 << d, dtype=np.int32)
    expected = hadamard(1 << d) @ table
    transform(table)

    assert table.tolist() == expected.tolist()


@pytest.mark.parametrize("d", [1, 4, 7])
def test_the_mistakes_of_every_parity_are_those_that_its_rule_makes(d: int) -> None:
    rng = np.random.default_rng(d)
    x, odd = rng.integers(0, 2, (60, d)), rng.integers(0, 2, 60)
    counted = Parities(d).mistakes(BitSample.of(x, odd))

    assert counted.tolist() == [
        # A population's label is + where the exponent is even; here a label is 1 where it is odd.
        int(np.count_nonzero(ParityConcept(string(r, d)).positive({"x": columns(x)}) == odd.astype(bool)))
        for r in range(1 << d)
    ]


# ----------------------------------------------------------------------------------------------------------- privacy


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 2), ONE])
def test_parities_are_learned_epsilon_privately_and_the_rate_without_its_half_is_caught(epsilon: Fraction) -> None:
    entries = [(x, y) for x in product((0, 1), repeat=2) for y in (0, 1)]

    def right(database: Any) -> Any:
        return parity_distribution(BitSample.from_rows(2, database), epsilon=epsilon)

    def without_half(database: Any) -> Any:
        mistakes = Parities(2).mistakes(BitSample.from_rows(2, database)).astype(np.int64)
        return dict(enumerate(probabilities(-mistakes, epsilon=2 * epsilon)))

    assert worst_loss(right, entries, 3).value <= epsilon + 1e-9
    assert worst_loss(without_half, entries, 3).value > 1.05 * epsilon


# ------------------------------------------------------------------------------------------------- examples and time


def test_a_parity_of_10_bits_is_learned_from_the_sharp_size_where_each_other_is_just_too_bad() -> None:
    """Where x = 0 but for 2·1.05α, each wrong parity has error 1.05α. The control: a third of the examples."""
    rng, draw, runs, d = np.random.default_rng(6), draws(), 300, 10
    n = generic.examples_realizable_sharp(hypotheses=1 << d, epsilon=1, error=0.105, failure=0.1)

    def learned(examples: int) -> bool:
        r = int(rng.integers(0, 1 << d))
        x = np.where(rng.random(examples) < 0.21, rng.integers(0, 1 << d, examples), 0).astype(np.uint64)
        odd = (np.bitwise_count(x & np.uint64(r)) & 1).astype(bool)
        return learn(BitSample(d, x[:, None], odd), epsilon=ONE, draw=draw) == r

    assert n == 219
    assert not too_few(sum(learned(n) for _ in range(runs)), runs, 0.9)
    assert too_few(sum(learned(n // 3) for _ in range(runs)), runs, 0.9)


def test_a_parity_of_20_bits_is_learned() -> None:
    rng, d, n, r = np.random.default_rng(8), 20, 4000, 0xABCDE
    x = rng.integers(0, 1 << d, n).astype(np.uint64)
    sample = BitSample(d, x[:, None], (np.bitwise_count(x & np.uint64(r)) & 1).astype(bool))

    assert learn(sample, epsilon=ONE, draw=draws()) == r


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("d", [0, 27])
def test_no_table_and_one_that_memory_does_not_hold_are_refused_at_once(d: int) -> None:
    with pytest.raises(ProtocolError) as refused:
        Parities(d)
    assert refused.value.where == "d"


def test_examples_of_another_width_are_refused() -> None:
    with pytest.raises(ProtocolError, match="not of 3 bits"):
        generic.learn(Parities(3), BitSample.of([[1, 0]], [1]), epsilon=ONE, draw=draws())
