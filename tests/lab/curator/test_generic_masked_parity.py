"""The generic learner for MASKED-PARITY, as PARITY in d + 1 bits: KLNRS11, Thm 3.4, §5.3."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import ArrayLike

from askance_lab.curator import generic
from askance_lab.curator.databases import masked, packed, unpacked
from askance_lab.curator.distributions import Distribution, worst_loss
from askance_lab.curator.generic_masked_parity import learn, masked_parity_distribution, split
from askance_lab.curator.generic_parity import Parities
from askance_protocol.concepts import MaskedParityConcept
from askance_protocol.errors import ProtocolError
from tests.lab.curator.curating import ONE, columns, draws, string, too_few


@pytest.mark.parametrize("d", [1, 3, 5])
def test_the_mistakes_of_every_masked_parity_are_those_that_its_rule_makes(d: int) -> None:
    rng = np.random.default_rng(d)
    x, i, b, odd = rng.integers(0, 2, (60, d)), rng.integers(0, d, 60), *rng.integers(0, 2, (2, 60))
    counted = Parities(d + 1).mistakes(masked(d, packed(x.astype(np.uint8)), i, b, odd))
    examples = {"x": columns(x), "i": i, "b": b[None, :]}

    for index, mistakes in enumerate(counted.tolist()):
        r, a = split(d, index)
        positive = MaskedParityConcept(string(r, d), a).positive(examples)
        assert mistakes == np.count_nonzero(positive == odd.astype(bool))
    assert len({split(d, index) for index in range(len(counted))}) == 2 << d


def test_masked_examples_are_examples_of_a_parity_at_any_d() -> None:
    """Of d = 100: (x,1) and e_i, with (r,a) as the parity; so the efficient learner of PARITY may have them."""
    d, rng = 100, np.random.default_rng(1)
    x, i, b, r = rng.integers(0, 2, (50, d)), rng.integers(0, d, 50), rng.integers(0, 2, 50), rng.integers(0, 2, d)
    positive = MaskedParityConcept("".join(map(str, r)), 1).positive({"x": columns(x), "i": i, "b": b[None, :]})
    sample = masked(d, packed(x.astype(np.uint8)), i, b, ~positive)

    assert sample.d == d + 1
    assert ((unpacked(sample.words, d + 1) @ np.append(r, 1)) % 2 == sample.labels).all()


def test_masked_parities_are_learned_epsilon_privately() -> None:
    entries = list(product(range(4), range(2), range(2), range(2)))

    def mechanism(database: tuple[tuple[int, ...], ...]) -> Distribution[tuple[int, int]]:
        x, i, b, odd = np.array(database).T
        return masked_parity_distribution(masked(2, x[:, None], i, b, odd), epsilon=ONE)

    assert worst_loss(mechanism, entries, 2).value <= 1 + 1e-9


def test_a_masked_parity_is_learned_by_a_curator_from_a_few_hundred_examples() -> None:
    """Uniform examples, d = 8: where b = 0, any other (r, a) is wrong on a half or on all: an error of ¼ at least."""
    rng, draw, runs, d = np.random.default_rng(7), draws(), 200, 8
    n = generic.examples_realizable_sharp(hypotheses=2 << d, epsilon=1, error=0.25, failure=0.1)
    right = 0
    for _ in range(runs):
        r, a = int(rng.integers(0, 1 << d)), int(rng.integers(0, 2))
        x, i, b = rng.integers(0, 1 << d, n).astype(np.uint64), rng.integers(0, d, n), rng.integers(0, 2, n)
        odd = np.where(b == 1, r >> i & 1, np.bitwise_count(x & np.uint64(r)) & 1 ^ a)
        right += learn(masked(d, x[:, None], i, b, odd), epsilon=ONE, draw=draw) == (r, a)

    assert n < 150
    assert not too_few(right, runs, 0.9)


@pytest.mark.parametrize(
    ("x", "i", "b", "odd"),
    [
        ([[1]], [3], [0], [0]),
        ([[1]], [0], [2], [0]),
        ([[1]], [0], [0], [-1]),
        ([[1], [1]], [0], [0], [0]),
        (np.zeros((0, 1)), [], [], []),
        ([[1, 0]], [0], [0], [0]),
    ],
)
def test_masked_examples_outside_their_ranges_are_refused(
    x: ArrayLike, i: ArrayLike, b: ArrayLike, odd: ArrayLike
) -> None:
    with pytest.raises(ProtocolError, match=r"masked examples|outside their ranges"):
        masked(3, x, i, b, odd)
