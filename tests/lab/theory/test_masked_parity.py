"""MASKED-PARITY: A_MP, the pooled round, the noninteractive learner and the lower bounds."""

import math

import numpy as np
import pytest
from scipy.linalg import hadamard
from scipy.stats import binom

from askance_lab.theory import masked_parity


def test_a_mp_first_round_costs_what_theory_says() -> None:
    """KLNRS11, Thm 5.7 repaired (docs/theory.md#proved-constants): 4.6e9 users at d = 64, ε = 1, β = .05."""
    rounds = masked_parity.users_masked_parity_repaired(dimension=64, epsilon=1, failure=0.05)

    assert rounds.first == pytest.approx(4.6e9, rel=0.01)
    assert rounds.total == rounds.first + rounds.second


def test_a_mp_tolerances_separate_the_means() -> None:
    """KLNRS11, Prop. 5.18: 1/(4d+1) is below half of 1/(2d), and 1/5 below half of 1/2."""
    first, second = masked_parity.masked_parity_queries(dimension=64)

    assert (first.number, second.number) == (64, 1)
    assert 0.99 / (4 * 64) < first.tolerance < 1 / (4 * 64)
    assert second.tolerance < 1 / 4


@pytest.mark.parametrize(("dimension", "fraction", "users"), [(8, 0.5, 6083), (16, 0.75, 41489), (64, 1.0, 1097822)])
def test_the_pooled_round_is_the_one_measured(dimension: int, fraction: float, users: float) -> None:
    """The prototype's runs used the stated fraction of this bound, β = .05, ε = 1."""
    bound = masked_parity.users_masked_parity_pooled(dimension=dimension, epsilon=1, failure=0.05)

    assert fraction * bound == pytest.approx(users, rel=2e-4)


@pytest.mark.parametrize("dimension", [8, 64])
def test_the_pooled_round_suffices_exactly(dimension: int) -> None:
    """All d signs are right but for β: each agreement count is an exact binomial with p = (1 + 1/(2dC))/2."""
    n = masked_parity.users_masked_parity_pooled(dimension=dimension, epsilon=1, failure=0.05)
    p = (1 + 1 / (2 * dimension * masked_parity.shrinkage(epsilon=1))) / 2

    assert dimension * binom.cdf(n // 2, n, p) <= 0.05
    assert dimension * binom.cdf(n // 4, n // 2, p) > 0.05


@pytest.mark.parametrize(("dimension", "users"), [(8, 2.9e4), (16, 7.3e6), (32, 4.8e11)])
def test_the_noninteractive_learner_costs_what_theory_says(dimension: int, users: float) -> None:
    """docs/theory.md#at-once at ε = 1, β = .05; and the exact binomial of the bent query's sign is within β."""
    n = masked_parity.users_mask_bit_enough(dimension=dimension, epsilon=1, failure=0.05)
    bias = masked_parity.bent_query_bias(dimension=dimension) / masked_parity.shrinkage(epsilon=1)

    assert n == pytest.approx(users, rel=0.02)
    assert binom.cdf(n // 2, n, (1 + bias) / 2) <= 0.05


def bent(bits: int) -> np.ndarray:
    """The inner-product function on an even number of bits: |Walsh coefficient| = 2^{-bits/2} everywhere."""
    halves = np.arange(2**bits)
    low, high = halves & (2 ** (bits // 2) - 1), halves >> (bits // 2)
    return 1 - 2 * (np.bitwise_count(low & high) % 2).astype(float)


def test_klnrs08_theorem_5_1_is_refuted_at_d_8() -> None:
    """Trap 1: d+1 nonadaptive queries, each answered off by 2^{-2d/3} in the worst direction, name all 512 concepts."""
    d = 8
    claim = masked_parity.klnrs08_nonadaptive_stated(dimension=d)
    walsh = hadamard(2**d) @ bent(d) / 2**d  # of y·B(x) on b = 0, before the mask
    dual = (walsh < 0).astype(int)
    names = set()
    for r in range(2**d):
        bits = [(r >> j) & 1 for j in range(d)]
        for a in (0, 1):
            # "y if i=j and b=1, else 1": mean 1 - 2·[r_j]/(2d); the adversary pulls each towards the middle.
            parity_means = [1 - bit / d for bit in bits]
            answers = [
                mean + (claim.tolerance if bit else -claim.tolerance)
                for mean, bit in zip(parity_means, bits, strict=True)
            ]
            found = sum(2**j for j, answer in enumerate(answers) if answer < 1 - 1 / (2 * d))
            mean = 0.5 + 0.5 * (-1) ** a * walsh[r]
            answer = mean - math.copysign(claim.tolerance, mean - 0.5)
            names.add((found, int(answer < 0.5) ^ int(dual[found])))
            assert (found, int(answer < 0.5) ^ int(dual[found])) == (r, a)

    assert len(names) == 512
    assert d + 1 <= claim.queries
    assert abs(0.5 * walsh).min() == masked_parity.bent_query_bias(dimension=d) > claim.tolerance


@pytest.mark.parametrize(("dimension", "refuted"), [(2, False), (4, False), (6, False), (8, True), (20, True)])
def test_the_refutation_starts_at_d_8(dimension: int, refuted: bool) -> None:
    """2^{-d/2-1} > 2^{-2d/3} means d > 6; KLNRS11's 2^{-d/3} is above the bent bias at every d."""
    assert refuted == masked_parity.klnrs08_refuted(dimension=dimension)
    assert masked_parity.bent_query_bias(dimension=dimension) < 2 ** (-dimension / 3)


def test_a_query_sees_at_most_the_fraction_bessel_allows() -> None:
    """Thm 5.16(2) at d = 6: y·B on 2 of the bits attains 2^{-d/3-2} = 1/16 exactly, where a display says 2^{-d/3}."""
    d = 6
    query = np.tile(bent(2), 2 ** (d - 2))
    inner = 0.5 * hadamard(2**d) @ query / 2**d  # ⟨f⁰, c⁰_{r,0}⟩; a = 1 only flips the sign
    seen = np.mean(np.abs(inner) >= 2 ** (-d / 3))

    assert seen == 2 ** (-d / 3 - 2)
    assert masked_parity.mask_hidden_repaired(queries=1, dimension=d) == pytest.approx(0.5 * (1 - seen))


def test_the_mask_stays_hidden_as_the_proof_says() -> None:
    """Thm 5.16(2): the proof's ½(1 - t/2^{d/3+2}) is at least the theorem's ½ - t/2^{d/3+2}, at d = 30, t = 1000."""
    stated = masked_parity.mask_hidden_stated(queries=1000, dimension=30)
    repaired = masked_parity.mask_hidden_repaired(queries=1000, dimension=30)

    assert stated == pytest.approx(0.5 - 1000 / 2**12)
    assert repaired == pytest.approx(0.5 * (1 - 1000 / 2**12))
    assert masked_parity.mask_hidden_repaired(queries=10**6, dimension=30) == 0
    assert masked_parity.mask_hidden_repaired(queries=1000, dimension=30, tolerance=2**-9) > repaired


def test_parities_survive_few_queries() -> None:
    """KLNRS11 §5.2: 2^{d/3} at 2^{-d/3} is the very corner of the Bessel argument; half as many leave half of them."""
    corner = masked_parity.parity_sq_lower_bound_stated(dimension=30)
    half = {"queries": corner.number // 2, "dimension": 30, "tolerance": corner.tolerance}

    assert (corner.number, corner.tolerance) == (2**10, 2**-10)
    assert masked_parity.parity_survives(**half) == pytest.approx(0.5)
    assert masked_parity.parity_survives(**{**half, "queries": corner.number}) == pytest.approx(0)


def test_a_flat_query_sees_as_many_parities_as_bessel_allows() -> None:
    """A bent function on 4 of 6 bits has 16 coefficients of 1/4: exactly 1/τ² of the 64 parities, none left out."""
    coefficients = hadamard(64) @ np.tile(bent(4), 4) / 64
    unseen = np.mean(np.abs(coefficients) < 1 / 4)

    assert unseen == pytest.approx(masked_parity.parity_survives(queries=1, dimension=6, tolerance=1 / 4))
