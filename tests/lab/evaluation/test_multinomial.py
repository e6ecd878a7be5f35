"""Counts of any number of users have the law that their weights say, in integers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb, log
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from askance_lab.evaluation.multinomial import Binomials, binomial, multinomial
from askance_protocol.arrays import Integers

FALSE_ALARM: Final = 1e-6
MANY: Final = 10**12
DRAWS: Final = 40_000
Draw = Callable[[int, int, int], Integers]


def of(numbers: list[int]) -> NDArray[np.object_]:
    return np.array(numbers, object)


def law(users: int, weight: int, total: int, counts: list[int] | None = None) -> Binomials:
    each = len(counts) if counts is not None else 1
    return Binomials(np.full(each, users), of([weight] * each), of([total] * each))


def drawn(users: int, weight: int, total: int) -> Integers:
    return binomial(np.full(DRAWS, users), of([weight] * DRAWS), of([total] * DRAWS), np.random.default_rng(5))


@pytest.mark.parametrize("users", [1, 2, 3, 15, 16, 17, 40, 333])
@pytest.mark.parametrize(("weight", "total"), [(1, 2), (1, 3), (999, 1000), (1, 10**30), (7 * 10**20, 10**21)])
def test_the_mass_function_is_that_of_integers(users: int, weight: int, total: int) -> None:
    counts = list(range(users + 1))

    found = law(users, weight, total, counts).log_mass(np.array(counts))

    exact = [
        comb(users, y) * Fraction(weight, total) ** y * Fraction(total - weight, total) ** (users - y) for y in counts
    ]
    expected = [log(each.numerator) - log(each.denominator) for each in exact]
    assert found == pytest.approx(expected, rel=1e-12, abs=2e-12)


@pytest.mark.parametrize(("weight", "total"), [(1, 2), (1, 3), (12345678901234567, 1 << 64), (1, 10**11), (1, 10**13)])
@pytest.mark.parametrize("users", [10**6, MANY, (1 << 48) - 1])
def test_far_from_the_mode_too_its_ratios_are_those_of_integers(users: int, weight: int, total: int) -> None:
    """f(y + 1)/f(y) = (n − y)·w / ((y + 1)·(W − w)): their product leads from the mode to 400 beyond."""
    mode = int(law(users, weight, total).mode[0])
    counts = list(range(mode, min(mode + 400, users)))

    found = law(users, weight, total, counts).log_mass(np.array(counts))

    ratios = [Fraction((users - y) * weight, (y + 1) * (total - weight)) for y in counts[:-1]]
    steps = [float(each - 1) if abs(each - 1) < Fraction(1, 10**8) else 0.0 for each in ratios]
    logs = [np.log1p(small) if small else log(each) for small, each in zip(steps, ratios, strict=True)]
    assert found - found[0] == pytest.approx(np.cumsum([0.0, *logs]), rel=1e-11, abs=2e-12)


def test_outside_nobody_and_nobody_of_none() -> None:
    assert law(5, 1, 3, [-1, 6]).log_mass(np.array([-1, 6])).tolist() == [-np.inf, -np.inf]
    assert law(0, 1, 3).log_mass(np.array([0])).tolist() == [0.0]
    assert law(5, 0, 3, [0, 1]).log_mass(np.array([0, 1])).tolist() == [0.0, -np.inf]
    assert law(5, 3, 3, [5, 4]).log_mass(np.array([5, 4])).tolist() == [0.0, -np.inf]


def p_of_small(counts: Integers, users: int, share: Fraction) -> float:
    """How likely counts are as far from the binomial."""
    chances = np.array([float(comb(users, y) * share**y * (1 - share) ** (users - y)) for y in range(users + 1)])
    expected, seen = chances * len(counts), np.bincount(counts, minlength=users + 1)
    often = expected > 8
    rest = expected[~often].sum(), seen[~often].sum()
    distance = ((seen - expected)[often] ** 2 / expected[often]).sum() + (rest[1] - rest[0]) ** 2 / max(rest[0], 1e-300)
    return float(chi2.sf(distance, often.sum()))


@pytest.mark.parametrize(("users", "weight", "total"), [(1, 1, 3), (2, 1, 2), (9, 1, 3), (60, 59, 60), (300, 1, 2)])
def test_few_users_are_drawn_as_integers_say(users: int, weight: int, total: int) -> None:
    counts = drawn(users, weight, total)

    assert p_of_small(counts, users, Fraction(weight, total)) > FALSE_ALARM
    # The control: a weight that is a tenth too small.
    assert p_of_small(counts, users, Fraction(9 * weight, 10 * total)) < FALSE_ALARM


def p_of_many(counts: Integers, users: int, weight: int, total: int) -> float:
    """How likely counts are as far from the normal law, from which so many differ by less than 10⁻⁵."""
    mean, spread = Fraction(users * weight, total), (users * weight * (total - weight)) ** 0.5 / total
    floor = int(mean)
    cells = 40 * norm.cdf((counts - floor + 0.5 - float(mean - floor)) / spread)
    seen, expected = np.bincount(cells.astype(np.intp).clip(0, 39), minlength=40), len(counts) / 40
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), 39))


@pytest.mark.parametrize(("weight", "total"), [(1, 2), (1, 3), (12345678901234567, 1 << 64), (1, 1 << 16)])
def test_a_million_million_users_are_drawn_as_integers_say(weight: int, total: int) -> None:
    counts = drawn(MANY, weight, total)

    assert p_of_many(counts, MANY, weight, total) > FALSE_ALARM
    # The control: a share that is off by 6 % of a standard deviation, which is one part in 10⁷ or less.
    shift = int(0.06 * (weight * (total - weight) / MANY) ** 0.5 * 10**12)
    assert p_of_many(counts, MANY, 10**12 * weight + shift, 10**12 * total) < FALSE_ALARM


def test_rare_things_come_as_often_as_poisson_says() -> None:
    counts = drawn(MANY, 1, MANY)

    assert np.bincount(counts)[:3] / DRAWS == pytest.approx(
        np.exp(-1) * np.array([1, 1, 0.5]), abs=5.3 * 0.5 / DRAWS**0.5
    )


def test_classes_take_all_users_and_none_without_weight() -> None:
    weights: Any = np.array([[1, 0, 2, 3, 0], [0, 0, 5, 0, 0], [4, 4, 4, 4, 4]], object)

    counts = multinomial(np.array([MANY, 7, 0]), weights, np.random.default_rng(1))

    assert counts.sum(axis=1).tolist() == [MANY, 7, 0]
    assert counts[0, [1, 4]].tolist() == [0, 0]
    assert counts[1].tolist() == [0, 0, 7, 0, 0]
    assert counts[0] == pytest.approx(MANY * np.array([1, 0, 2, 3, 0]) / 6, abs=5.3 * MANY**0.5)
    assert multinomial(np.array([3, 5]), of([2]).reshape(1, 1), np.random.default_rng(1)).tolist() == [[3], [5]]


@pytest.mark.parametrize("classes", [2, 3, 5, 8])
def test_the_classes_of_a_multinomial_go_together(classes: int) -> None:
    """Each class alone, and two of them against each other: Cov(N_i, N_j) = −n·p_i·p_j."""
    weights, users = of(list(range(1, classes + 1))), 1000
    counts = multinomial(np.full(DRAWS, users), weights[np.newaxis], np.random.default_rng(2))

    shares = np.arange(1, classes + 1) / sum(range(classes + 1))
    expected = users * (np.diag(shares) - np.outer(shares, shares))
    # The standard error of a covariance of normal variables.
    spread = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / DRAWS)
    assert (np.abs(np.cov(counts.T) - expected) < 5.5 * spread).all()
    assert (np.abs(counts.mean(0) - users * shares) < 5.3 * np.sqrt(np.diag(expected) / DRAWS)).all()
