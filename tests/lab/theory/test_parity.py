"""PARITY: exact privacy by enumeration, exact utility by rank distributions, both amplifications."""

import itertools
import math
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from askance_lab.theory import parity
from askance_protocol.errors import ProtocolError

Floats: TypeAlias = NDArray[np.float64]


def outputs(database: tuple[tuple[int, int], ...], inclusion: float, bits: int) -> Floats:
    """Exact distribution of A (KLNRS11 §4): one probability per parity, the last for ⊥. Examples are (x, label)."""
    solutions = [frozenset(r for r in range(2**bits) if (x & r).bit_count() % 2 == label) for x, label in database]
    result = np.zeros(2**bits + 1)
    for kept in itertools.product((False, True), repeat=len(database)):
        chance = 0.5 * math.prod(inclusion if k else 1 - inclusion for k in kept)
        space = set(range(2**bits)).intersection(*(s for s, k in zip(solutions, kept, strict=True) if k))
        for r in space or {2**bits}:
            result[r] += chance / max(1, len(space))
    result[-1] += 0.5
    return result


def worst_log_ratio(inclusion: float, bits: int, examples: int, runs: int | None = None) -> float:
    """Largest log-ratio of an output between neighbouring databases: A, or K retries of it on the same examples."""
    domain = list(itertools.product(range(2**bits), (0, 1)))
    table = {db: outputs(db, inclusion, bits) for db in itertools.combinations_with_replacement(domain, examples)}
    if runs is not None:
        for db, row in table.items():
            tries = (1 - row[-1] ** runs) / (1 - row[-1])
            table[db] = np.append(row[:-1] * tries, row[-1] ** runs)
    worst = 0.0
    for db, row in table.items():
        for i, example in itertools.product(range(examples), domain):
            other = table[tuple(sorted((*db[:i], example, *db[i + 1 :])))]
            both = (row > 0) & (other > 0)
            assert ((row > 0) == (other > 0)).all()
            worst = max(worst, float(np.log(row[both] / other[both]).max()))
    return worst


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_the_privacy_loss_of_a_is_exact(epsilon: float) -> None:
    """Trap 8, d = 2, n = 3: the largest log-ratio is ln((1+p)/(1-p)), below ε at p = ε/4 and ε itself at tanh(ε/2)."""
    stated = parity.parity_inclusion_stated(epsilon=epsilon)
    exact = parity.parity_inclusion_exact(epsilon=epsilon)

    assert worst_log_ratio(stated, 2, 3) == pytest.approx(parity.parity_loss(inclusion=stated), abs=1e-9)
    assert parity.parity_loss(inclusion=stated) <= epsilon
    assert worst_log_ratio(exact, 2, 3) == pytest.approx(epsilon, abs=1e-9)


def test_a_quarter_of_epsilon_fails_above_3_83() -> None:
    """Trap 8: p = ε/4 is ε-private at 3.830 and not at 3.9 (docs/theory.md#trap-8)."""
    assert parity.parity_inclusion_stated(epsilon=3.830) == 3.830 / 4
    assert parity.parity_loss(inclusion=3.9 / 4) > 3.9
    with pytest.raises(ProtocolError, match="not ε-private"):
        parity.parity_inclusion_stated(epsilon=3.9)


@pytest.mark.parametrize("runs", [1, 2, 5, 20])
@pytest.mark.parametrize("inclusion", [0.05, 0.2214, 0.6])
def test_the_privacy_loss_of_retrying_is_bounded(runs: int, inclusion: float) -> None:
    """Trap 8: max{K·ln(1+p), ln((1+p)/(1-p)²)} is at least the exact loss of K retries, d = 2, n = 2."""
    bound = parity.parity_retry_loss(inclusion=inclusion, runs=runs)
    exact = worst_log_ratio(inclusion, 2, 2, runs)

    assert exact <= bound + 1e-12
    assert bound < runs * parity.parity_loss(inclusion=inclusion) or runs <= 2


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("runs", [1, 4, 30])
def test_the_retry_inclusion_spends_exactly_epsilon(epsilon: float, runs: int) -> None:
    """It is the largest p whose loss is ε."""
    p = parity.parity_retry_inclusion(epsilon=epsilon, runs=runs)

    assert parity.parity_retry_loss(inclusion=p, runs=runs) == pytest.approx(epsilon)


def bad_output(examples: int, inclusion: float, bits: int) -> float:
    """Pr[A outputs a wrong parity | past step 1] for uniform x, exactly, through the rank of random 0/1 rows."""
    kept = binom.pmf(np.arange(examples + 1), examples, inclusion)
    rank = np.zeros(bits + 1)
    rank[0] = 1.0
    wrong = 0.0
    for chance in kept:
        wrong += chance * (1 - (rank * 2.0 ** (np.arange(bits + 1) - bits)).sum())
        grow = rank * (1 - 2.0 ** (np.arange(bits + 1) - bits))
        rank = rank - grow + np.concatenate(([0.0], grow[:-1]))
    return wrong


@pytest.mark.parametrize("bits", [1, 2, 10])
@pytest.mark.parametrize("failure", [0.25, 0.01])
def test_the_sharp_bound_holds_where_chernoff_is_not_needed(bits: int, failure: float) -> None:
    """2^d(1-pα)^n bounds the exact probability of a wrong output (uniform x: every wrong parity has error 1/2)."""
    inclusion = math.tanh(0.5)
    n = parity.examples_parity_sharp(dimension=bits, inclusion=inclusion, error=0.5, failure=failure)

    assert bad_output(n, inclusion, bits) <= failure
    assert bad_output(n // 4, inclusion, bits) > failure


@pytest.mark.parametrize("bits", [1, 10])
def test_lemma_4_1_is_true_with_room_to_spare(bits: int) -> None:
    """KLNRS11, Lemma 4.1 and KLNRS08, Lemma 3.1: their n is twice what the sharp bound asks at p = ε/4."""
    stated = parity.examples_parity_stated(dimension=bits, epsilon=0.4, error=0.5)
    sharp = parity.examples_parity_sharp(dimension=bits, inclusion=0.1, error=0.5, failure=0.25)

    assert 1.9 * sharp <= stated
    assert 0.5 * (1 - bad_output(stated, 0.1, bits)) >= 0.25


def test_the_chernoff_step_of_lemma_4_1_is_misquoted() -> None:
    """Its e^{-εn/16} for |S| < εn/8 is below the exact binomial tail; e^{-εn/32}, what Thm A.1 gives, is above."""
    epsilon, n = 0.4, 2000
    short = binom.cdf(math.ceil(epsilon * n / 8) - 1, n, epsilon / 4)

    assert math.exp(-epsilon * n / 16) < short <= math.exp(-epsilon * n / 32)


def test_retrying_is_repaired_and_sharpened() -> None:
    """Trap 6: β' = β/3 and ⌈log2⌉ runs; with the exact loss (trap 8) a tenth of the examples.

    A prototype needed 352 at d = 10, ε = 1, α = β = .1.
    """
    parameters = {"dimension": 10, "epsilon": 1.0, "error": 0.1, "failure": 0.1}
    repaired = parity.parity_retry_repaired(**parameters)
    sharp = parity.parity_retry_sharp(**parameters)
    p = parity.parity_retry_inclusion(epsilon=1.0, runs=sharp.runs)

    assert repaired.runs == 5
    assert repaired.examples == math.ceil(8 * 5 / 0.1 * (10 * math.log(2) + math.log(30)))
    assert parity.parity_retry_stated(**parameters).examples < repaired.examples
    assert 2.0**-sharp.runs + 2**10 * (1 - 0.1 * p) ** sharp.examples <= 0.1
    assert 352 <= sharp.examples <= repaired.examples / 10


def test_there_is_no_logarithm_to_base_three_quarters() -> None:
    """Trap 7: KLNRS11's k is negative, so A* as stated cannot be run."""
    with pytest.raises(ProtocolError, match=r"-1[0-9] candidates"):
        parity.parity_train_test_stated(
            dimension=10, epsilon=1, error=0.1, failure=0.1, train_constant=1, test_constant=1
        )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_train_and_test_meets_its_three_claims(epsilon: float) -> None:
    """KLNRS11, Lemma 4.6 at β' = β/3: enough candidates, exact test-set binomials, exact Laplace noise."""
    error, failure = 0.1, 0.1
    share, small = failure / 3, error / 5
    plan = parity.parity_train_test_repaired(dimension=10, epsilon=epsilon, error=error, failure=failure)
    k, s = plan.candidates, plan.test
    other = parity.parity_train_test_exponential(dimension=10, epsilon=epsilon, error=error, failure=failure)

    assert 0.75**k <= share < 0.75 ** (k - 1)
    assert plan.train == parity.examples_parity_stated(dimension=10, epsilon=epsilon, error=small)
    for test in (s, other.test):
        assert binom.sf(math.ceil(2 * small * test) - 1, test, small) <= share / k
        assert binom.cdf(math.floor(4 * small * test), test, 5 * small) <= share / k
    assert math.exp(-small * s * epsilon / k) <= share / k * (1 + 1e-9)
    assert k * math.exp(-epsilon * small * other.test) <= share * (1 + 1e-9)
    assert plan.total == k * plan.train + s >= other.total
