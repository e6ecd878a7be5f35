"""Local protocols against statistical queries: the constants that are proved, and the simulations both ways."""

import itertools
import math
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, gamma

from askance_lab.theory import local
from askance_server.core import tails

Floats: TypeAlias = NDArray[np.float64]


def noise_tail(users: int, deviation: float, scale: float) -> float:
    """P(|average of n Lap(λ)| >= δ), exactly: a difference of two Gamma variables."""
    support = np.linspace(0, users + 40 * math.sqrt(users) + 200, 100_001)
    beyond = gamma.sf(support + users * deviation / scale, users)
    return 2 * float(np.trapezoid(gamma.pdf(support, users) * beyond, support))


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0, 11.0, 12.0, 30.0])
@pytest.mark.parametrize("tolerance", [0.5, 1.0, 2.0])
def test_repaired_lemma_5_6_keeps_the_noise_within_its_share(epsilon: float, tolerance: float) -> None:
    """Also beyond ε = 8√2·b/τ, where the repaired Lemma A.3 no longer applies: the noise fails with at most β/2."""
    failure = 0.01
    n = local.users_sq_query_repaired(bound=1, tolerance=tolerance, epsilon=epsilon, failure=failure)

    assert noise_tail(n, tolerance / 2, 2 / epsilon) <= failure / 2
    assert tails.hoeffding_tail(users=n, deviation=tolerance / 2, width=2) <= failure / 2 * (1 + 1e-9)


def test_stated_lemma_5_6_needs_a_constant_well_above_one() -> None:
    """The text wants c "sufficiently large": at c = 1 the noise alone is outside ±τ more often than β."""
    n = local.users_sq_query_stated(bound=1, tolerance=0.1, epsilon=1, failure=0.05, constant=1)

    assert noise_tail(n, 0.1, 2.0) > 0.05


def test_stated_theorem_5_7_takes_its_logarithm_to_base_2() -> None:
    """KLNRS11 §2 fixes "log" to base 2: c·t·log(t/β)b²/(ε²τ²) = 3·4·5·4/(1/4)² at t=4, β=1/8, b=2, ε=1/2, τ=1/2."""
    expected = 3 * 4 * 5 * 2**2 * 4**2

    assert expected == local.users_sq_simulation_stated(
        queries=4, bound=2, tolerance=0.5, epsilon=0.5, failure=0.125, constant=3
    )


def test_repaired_theorem_5_7_is_t_portions_at_a_share_of_the_failure() -> None:
    """Each of the t queries has fresh users and fails with β/t."""
    portion = local.users_sq_query_repaired(bound=1, tolerance=0.1, epsilon=1, failure=0.05 / 7)

    assert 7 * portion == local.users_sq_simulation_repaired(queries=7, bound=1, tolerance=0.1, epsilon=1, failure=0.05)


def test_conjunctions_ask_d_queries_at_alpha_over_2d() -> None:
    """BB-notes, Thm 5: features the target lacks and the hypothesis keeps cost at most 2τ each, α in all."""
    asked = local.conjunction_queries(dimension=8, error=0.1)

    assert asked.number == 8
    assert asked.number * 2 * asked.tolerance == pytest.approx(0.1)


@pytest.mark.parametrize(("bound", "tolerance"), [(1.0, 0.5), (3.0, 0.01), (1.0, 1e-6), (0.2, 1.0)])
def test_a_real_query_is_answered_from_its_binary_digits(bound: float, tolerance: float) -> None:
    """Bshouty-Feldman: with every Boolean answer off by its full tolerance, the real answer stays within τ."""
    asked = local.boolean_queries(bound=bound, tolerance=tolerance)
    values = np.random.default_rng(1).uniform(-bound, bound, 1000)
    values[0] = bound
    left = (values + bound) / (2 * bound)
    digits = []
    for k in range(1, asked.number + 1):
        digit = (left >= 0.5**k).astype(float)
        left = left - digit * 0.5**k
        digits.append(digit.mean())
    for sign in (-1, 1):
        parts = [0.5**k * (digit + sign * asked.tolerance) for k, digit in enumerate(digits, 1)]
        answer = -bound + 2 * bound * sum(parts) + bound * 0.5**asked.number

        assert abs(answer - values.mean()) <= tolerance


@pytest.mark.parametrize("mean", [0.5, 0.37])
def test_sq_to_pac_answers_every_query(mean: float) -> None:
    """BB-notes, Thm 6 with constant 1/2: an exact binomial piece misses ±τ with at most δ/M; half of it misses more."""
    queries, tolerance, failure = 100, 0.05, 0.1
    piece = local.examples_sq_to_pac(queries=queries, tolerance=tolerance, failure=failure) // queries

    def miss(n: int) -> float:
        counts = np.arange(n + 1)
        return binom.pmf(counts, n, mean)[np.abs(counts / n - mean) > tolerance].sum()

    assert miss(piece) <= failure / queries
    assert miss(piece // 2) > failure / queries


@pytest.mark.parametrize("noise_rate", [0.0, 0.3, 0.45])
def test_label_noise_is_survived_by_both_estimators(noise_rate: float) -> None:
    """BB-notes, Thm 8: on φ = [y = 1] with fair labels, the worst case, both samples answer within τ as promised.

    The query's mean is estimated as (1 + ȳ/(1-2η))/2, ȳ an exact binomial of noisy labels.
    """
    tolerance, failure, truth = 0.05, 0.05, 0.5
    noisy = truth * (1 - noise_rate) + (1 - truth) * noise_rate
    parameters = {"queries": 1, "tolerance": tolerance, "noise_rate": noise_rate, "failure": failure}
    joint = local.examples_sq_noise_joint(**parameters)
    split = local.examples_sq_noise_split(**parameters)

    def miss(n: int, allowed: float) -> float:
        counts = np.arange(n + 1)
        estimates = (1 + (2 * counts / n - 1) / (1 - 2 * noise_rate)) / 2
        return binom.pmf(counts, n, noisy)[np.abs(estimates - truth) > allowed].sum()

    assert miss(joint, tolerance) <= failure
    assert 4 * joint <= split
    # The label part alone: half of the tolerance with half of the failure.
    assert miss(split - local.examples_sq_noise_split(**{**parameters, "noise_rate": 0.0}) // 2, tolerance / 2) <= (
        failure / 2
    )


def rejection_distance(randomizer: Floats, mixture: Floats, tolerance: float, divisor: float) -> tuple[float, float]:
    """Largest distance of B_{R,ε}'s output from the true mixture over all answers at v ± τ, and its expected tries."""
    epsilon = np.log(max(randomizer.max(axis=0) / randomizer.min(axis=0)))
    q, p = randomizer[0], mixture @ randomizer
    slack = tolerance * q * (math.exp(epsilon) - math.exp(-epsilon))
    distance, tries = 0.0, 0.0
    for signs in itertools.product((-1, 1), repeat=len(q)):
        accepted = (p + np.array(signs) * slack) / (divisor * math.exp(epsilon))
        assert (accepted <= q * (1 + 1e-12)).all()
        distance = max(distance, np.abs(accepted / accepted.sum() - p).sum() / 2)
        tries = max(tries, 1 / accepted.sum())
    return distance, tries


@pytest.mark.parametrize("seed", range(5))
def test_a_local_randomizer_is_simulated_within_its_share(seed: int) -> None:
    """KLNRS11, Claim 5.9 for random finite randomizers: distance at most β/t and ((1+φ)/(1-φ))e^ε tries.

    At the text's tolerance and at the sharp one, whatever the oracle answers.
    """
    rng = np.random.default_rng(seed)
    randomizer = rng.dirichlet(np.full(4, 5.0), size=3)
    randomizer = randomizer * 0.7 + 0.3 / 4
    epsilon = float(np.log(max(randomizer.max(axis=0) / randomizer.min(axis=0))))
    mixture = rng.dirichlet(np.ones(3))
    share = 0.3
    stated = local.randomizer_tolerance_stated(queries=1, epsilon=epsilon, failure=share)
    sharp = local.randomizer_tolerance_sharp(queries=1, epsilon=epsilon, failure=share)
    loose, _ = rejection_distance(randomizer, mixture, stated, 1 + share / 3)
    tight, tries = rejection_distance(randomizer, mixture, sharp, 1 + share)

    assert sharp >= 3 * stated
    assert loose <= share / 3
    assert tight <= share
    assert tries <= local.expected_tries(epsilon=epsilon, accuracy=share) * (1 + 1e-12)


def test_tries_are_at_most_2_e_to_the_epsilon() -> None:
    """KLNRS11, Claim 5.9: φ <= 1/3 gives 2e^ε tries; an interactive simulation asks two queries a try."""
    assert local.expected_tries(epsilon=1, accuracy=1 / 3) == pytest.approx(2 * math.e)
    assert local.expected_randomizer_queries(queries=10, epsilon=1, interactive=True) == pytest.approx(40 * math.e)


def test_interactive_ratio_needs_the_wider_divisor() -> None:
    """Claim 5.10: two answers off by β/3t make a ratio off by more than β/3t and at most β/t, so divide by 1+β/t."""
    share = 0.3
    ratio = (1 + share / 3) / (1 - share / 3)

    assert 1 + share / 3 < ratio <= 1 + share
    assert local.interactive_randomizer_tolerance(queries=1, epsilon=1, failure=share) == pytest.approx(
        share / (3 * math.e**2)
    )
