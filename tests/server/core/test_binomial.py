"""Binomial tails and their inverses: against exact sums, against SciPy, and where SciPy's last digits are wrong."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from askance_protocol.arrays import Floats, Integers
from askance_server.core import binomial

NEAR = 1e-12


def exactly(count: int, trials: int, p: float) -> Decimal:
    """Pr[N >= count] in 60 digits, its terms added until they are below 1e-30 of the sum."""
    with localcontext(prec=60):
        chance, rest = Decimal(p), 1 - Decimal(p)
        term = math.comb(trials, count) * chance**count * rest ** (trials - count)
        total = term
        for later in range(count, trials):
            term *= Decimal(trials - later) / (later + 1) * chance / rest
            total += term
            if term < total * Decimal("1e-30"):
                break
        return total


def asked(trials: int, size: int) -> tuple[Integers, Floats]:
    """Counts up to eight standard deviations from what is expected, at chances all over the line."""
    source = np.random.default_rng(trials)
    p = source.random(size) ** 3
    p = np.where(source.random(size) < 0.5, p, 1 - p)
    spread = np.sqrt(trials * p * (1 - p) + 1)
    count = np.floor(trials * p + source.uniform(-8, 8, size) * spread).astype(np.int64)
    return np.clip(count, 0, trials), p


def worst(found: Floats, known: Floats | float) -> float:
    """Largest relative difference."""
    return float(np.max(np.abs(found / known - 1)))


def test_tails_are_the_exact_sums() -> None:
    """Where terms are added, where they are integrated, and on both sides of where one gives way to the other."""
    source = np.random.default_rng(1)
    found, known = [], []
    for _ in range(150):
        trials = int(10 ** source.uniform(0.5, 4.3))
        p = float(source.choice([0.5, 0.27, 0.73, 0.9, 0.99, 0.003]))
        count = int(trials * p + 1 + source.uniform(0, 6) * math.sqrt(trials * p * (1 - p)))
        if count <= trials:
            found += [binomial.at_least(count, trials, p), binomial.at_most(count - 1, trials, p)]
            known += [float(exactly(count, trials, p)), float(1 - exactly(count, trials, p))]

    assert len(known) > 200
    assert worst(np.array(found), np.array(known)) < NEAR


@pytest.mark.parametrize("trials", [1, 2, 7, 64, 65, 66, 129, 130, 1000, 20_000])
def test_tails_and_probabilities_are_those_of_scipy(trials: int) -> None:
    count, p = asked(trials, 400)

    assert worst(binomial.at_least(count, trials, p), stats.binom.sf(count - 1, trials, p)) < NEAR
    # The mirror image, as SciPy's own tail at most k loses digits where p is nearly 1.
    assert worst(binomial.at_most(count, trials, p), stats.binom.sf(trials - count - 1, trials, 1 - p)) < NEAR
    assert worst(binomial.probability(count, trials, p), stats.binom.pmf(count, trials, p)) < NEAR


def in_sixty_digits(count: int, trials: int, p: float, deviations: float) -> float:
    """Pr[N >= count] by the integral of the module, each of its numbers in 60 digits."""
    with localcontext(prec=60):
        k, n, chance = Decimal(count - 1), Decimal(trials - 1), Decimal(p)
        width = Decimal(deviations) * (chance * (1 - chance) / n).sqrt()
        total = Decimal(0)
        for node, weight in zip(*np.polynomial.legendre.leggauss(40), strict=True):
            t = chance - width * (1 + Decimal(float(node))) / 2
            fallen = k * (k / (n * t)).ln() + (n - k) * ((n - k) / (n * (1 - t))).ln()
            total += Decimal(float(weight)) / 2 * (-fallen).exp()
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
        top = (n / (2 * pi * k * (n - k))).sqrt() * ((1 / n - 1 / k - 1 / (n - k)) / 12).exp()
        return float(trials * width * top * total)


def far(trials: int) -> float:
    """How far off the module is where counts are large and nearly what is expected."""
    found, known = [], []
    for p in (0.5, 0.7310585786300049, 0.2689414213699951, 0.01):
        for deviations in (0.3, 2.0, 6.0):
            count = math.ceil(trials * Fraction(p)) + int(deviations * math.sqrt(trials * p * (1 - p)))
            found.append(float(binomial.at_least(count, trials, p)))
            known.append(in_sixty_digits(count, trials, p, 9.0))
    return worst(np.array(found), np.array(known))


@pytest.mark.parametrize("trials", [10**8, 10**12, 10**15])
def test_a_tail_of_many_trials_has_its_last_digits(trials: int) -> None:
    assert far(trials) < NEAR


def test_control_a_product_that_is_rounded_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def rounded(k: Floats, n: int, p: Floats) -> Floats:
        return k - n * p

    monkeypatch.setattr(binomial, "_excess", rounded)
    assert far(10**15) > 1e-9


def test_control_a_rule_of_too_few_nodes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    few = tuple((half + shift) / 2 for half, shift in zip(np.polynomial.legendre.leggauss(12), (1, 0), strict=True))
    monkeypatch.setattr(binomial, "_rule", lambda: few)
    assert far(10**8) > NEAR


def test_certain_tails() -> None:
    """Beyond the ends of the line, of chances 0 and 1, and of no trial at all."""
    counts, chances = np.array([-1, 0, 1, 2, 3]), np.array([[0.0], [0.5], [1.0]])

    assert binomial.at_most(counts, 2, chances).tolist() == [[0, 1, 1, 1, 1], [0, 0.25, 0.75, 1, 1], [0, 0, 0, 1, 1]]
    assert binomial.at_least(counts, 2, chances).tolist() == [[1, 1, 0, 0, 0], [1, 1, 0.75, 0.25, 0], [1, 1, 1, 1, 0]]
    assert binomial.at_most(counts, 0, 0.5).tolist() == [0, 1, 1, 1, 1]
    assert binomial.at_least(counts, 0, 0.5).tolist() == [1, 1, 0, 0, 0]
    probability = binomial.probability(np.arange(3), 2, chances)
    assert probability[[0, 2]].tolist() == [[1, 0, 0], [0, 0, 1]]
    assert probability[1] == pytest.approx([0.25, 0.5, 0.25], rel=NEAR)
    assert binomial.at_most(np.zeros(0, dtype=np.int64), 5, 0.5).shape == (0,)


@pytest.mark.parametrize("trials", [1, 5, 700, 10**6, 10**12])
def test_what_is_outside_is_both_tails(trials: int) -> None:
    count, p = asked(trials, 200)
    p = np.concatenate([p, [0.0, 1.0, 0.3]])
    below, above = np.concatenate([count - 1, [-1, 0, trials]]), np.concatenate([count + 2, [1, trials, trials + 1]])

    together = binomial.outside(below, above, trials, p)
    assert together == pytest.approx(binomial.at_most(below, trials, p) + binomial.at_least(above, trials, p), rel=NEAR)


def test_the_two_tails_are_one_together() -> None:
    """Also over more counts than are computed at a time."""
    count = np.arange(10_001)
    both = binomial.at_least(count, 10_000, 0.3) + binomial.at_most(count - 1, 10_000, 0.3)

    assert np.abs(both - 1).max() < 1e-15


@pytest.mark.parametrize("tail", [0.9, 0.4, 0.025, 1e-6, 1e-30])
@pytest.mark.parametrize("trials", [1, 2, 30, 1000, 10**6])
def test_the_inverse_in_p_is_that_of_scipy(trials: int, tail: float) -> None:
    count = np.unique(np.clip((np.random.default_rng(trials).random(100) ** 2 * trials).astype(np.int64), 1, trials))

    assert worst(binomial.proportion(count, trials, tail), stats.beta.ppf(tail, count, trials - count + 1)) < 10 * NEAR


@pytest.mark.parametrize("trials", [10**9, 10**12, 10**15])
def test_the_inverse_in_p_undoes_the_tail(trials: int) -> None:
    count = np.array([1, 2, 63, 64, 65, 1000, trials // 3, trials // 2, trials - 70, trials - 1, trials])
    p = binomial.proportion(count, trials, 0.025)
    # What a last digit of p makes of the tail: the density times it.
    digit = np.spacing(p) * count * binomial.probability(count, trials, p) / p

    assert (np.abs(binomial.at_least(count, trials, p) - 0.025) < 1e-13 + 4 * digit).all()


def test_the_quantile_is_that_of_scipy() -> None:
    for trials in (1, 2, 50, 3000, 10**7):
        for level in (1e-15, 0.003, 0.5, 0.97):
            for p in (0.0, 0.01, 0.5, 0.9, 1.0):
                assert binomial.quantile(level, trials, p) == stats.binom.ppf(level, trials, p), (trials, level, p)
