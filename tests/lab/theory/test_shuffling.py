"""What a trusted shuffler would add: against every population of a few users, and coin by coin."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from askance_lab.theory import shuffling
from askance_lab.theory.shuffling import (
    EXACT,
    shuffled_delta,
    shuffled_epsilon_any,
    shuffled_epsilon_binary,
    shuffled_epsilon_closed,
)
from askance_protocol.arrays import Floats
from askance_protocol.errors import ProtocolError


def keep(epsilon: float) -> float:
    return math.exp(epsilon) / (math.exp(epsilon) + 1)


def blanket(epsilon: float) -> float:
    return 2 * (1 - keep(epsilon))


def hockey_stick(one: Floats, other: Floats, central: float) -> float:
    return float(np.maximum(one - math.exp(central) * other, 0).sum())


def ones(epsilon: float, mine: int, others: int, holding: int) -> Floats:
    """Law of the number of ones among all reports, where `holding` others hold a 1: all that a shuffler leaves."""
    p, law = keep(epsilon), np.ones(1)
    for bit in (mine, *(1,) * holding, *(0,) * (others - holding)):
        chance = p if bit else 1 - p
        law = np.convolve(law, [1 - chance, chance])
    return law


def worst(epsilon: float, users: int, central: float) -> float:
    """The largest divergence over all populations, and either way round."""
    return max(
        hockey_stick(ones(epsilon, mine, users - 1, holding), ones(epsilon, 1 - mine, users - 1, holding), central)
        for holding in range(users)
        for mine in (0, 1)
    )


CASES = [(epsilon, users) for epsilon in (0.25, 1.0, 3.0) for users in (1, 2, 3, 8, 30)]


def exceeded(epsilon: float, users: int, clones: float) -> bool:
    """Whether some population is told apart better than the blanket says."""
    return any(
        worst(epsilon, users, central)
        > shuffled_delta(users=users, epsilon=epsilon, central=central, clones=clones) + 1e-12
        for central in np.linspace(0, epsilon, 9)
    )


@pytest.mark.parametrize(("epsilon", "users"), CASES)
def test_no_population_of_a_few_users_is_told_apart_better_than_it_says(epsilon: float, users: int) -> None:
    assert not exceeded(epsilon, users, blanket(epsilon))
    # Clones are fewer than coins, so they say less.
    assert not exceeded(epsilon, users, math.exp(-epsilon))


@pytest.mark.parametrize("epsilon", [0.25, 1.0])
def test_control_a_blanket_twice_as_large_is_found_to_be_too_large(epsilon: float) -> None:
    assert exceeded(epsilon, 8, min(1.0, 2 * blanket(epsilon)))


def by_coins(epsilon: float, users: int, clones: float, central: float) -> float:
    """Every number of coins and of ones among them."""
    p, total = keep(epsilon), 0.0
    for coins in range(users):
        law = stats.binom.pmf(np.arange(coins + 1), coins, 0.5)
        one, other = (np.convolve(law, [1 - chance, chance]) for chance in (p, 1 - p))
        chance = float(stats.binom.pmf(coins, users - 1, clones))
        # Both ways round are the same.
        assert hockey_stick(one, other, central) == pytest.approx(hockey_stick(other, one, central), abs=1e-14)
        total += chance * hockey_stick(one, other, central)
    return total


@pytest.mark.parametrize(("epsilon", "users"), CASES)
def test_the_sum_is_that_of_all_coins_one_by_one(epsilon: float, users: int) -> None:
    for clones in (blanket(epsilon), math.exp(-epsilon)):
        for central in np.linspace(0, epsilon, 7):
            found = shuffled_delta(users=users, epsilon=epsilon, central=central, clones=clones)
            expected = by_coins(epsilon, users, clones, float(central))

            assert expected - 1e-12 <= found <= expected * 1.01 + 1e-9


@pytest.mark.parametrize("users", [300, 900])
def test_runs_of_numbers_of_coins_err_upward_and_little(users: int) -> None:
    for central in (0.02, 0.1, 0.2):
        found = shuffled_delta(users=users, epsilon=1, central=central, clones=blanket(1))
        expected = by_coins(1, users, blanket(1), central)

        assert expected * (1 - 1e-9) <= found <= expected * 1.05 + 1e-9


def test_one_user_hides_among_nobody() -> None:
    assert shuffled_epsilon_binary(users=1, epsilon=1, delta=1e-6) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("central", [shuffled_epsilon_binary, shuffled_epsilon_any])
def test_more_users_and_a_larger_delta_are_better(central: Callable[..., float]) -> None:
    found = [central(users=users, epsilon=1, delta=1e-6) for users in (100, 1_000, 10_000, 10**6, EXACT)]

    assert found == sorted(found, reverse=True)
    assert central(users=1_000, epsilon=1, delta=1e-3) < found[1]
    # At least as 1/√n, once there are many; faster where δ is nearly enough by itself.
    assert math.sqrt(EXACT / 10**6) < found[3] / found[4] < 2 * math.sqrt(EXACT / 10**6)


def test_the_closed_form_is_weaker_and_says_where_it_holds() -> None:
    for users in (10_000, 10**6):
        closed = shuffled_epsilon_closed(users=users, epsilon=1, delta=1e-6)
        assert shuffled_epsilon_any(users=users, epsilon=1, delta=1e-6) < closed
    with pytest.raises(ProtocolError, match=r"Thm 3\.1 asks for"):
        shuffled_epsilon_closed(users=100, epsilon=1, delta=1e-6)
    # ln(1 + (e − 1)/(e + 1)·(8√(e·ln(4·10⁶)/10⁶) + 8e/10⁶)), written out.
    assert shuffled_epsilon_closed(users=10**6, epsilon=1, delta=1e-6) == pytest.approx(0.0234968, rel=1e-5)


def test_beyond_the_sum_the_closed_form_is_taken() -> None:
    many = EXACT + 1
    closed = shuffled_epsilon_closed(users=many, epsilon=1, delta=1e-6)

    assert shuffled_epsilon_binary(users=many, epsilon=1, delta=1e-6) == closed


@pytest.mark.parametrize("users", [50, 2_000, 10**6])
def test_at_what_it_says_delta_is_enough_and_a_little_below_it_is_not(users: int) -> None:
    found = shuffled_epsilon_binary(users=users, epsilon=1, delta=1e-6)

    assert shuffled_delta(users=users, epsilon=1, central=found, clones=blanket(1)) <= 1e-6
    assert shuffled_delta(users=users, epsilon=1, central=found * 0.99, clones=blanket(1)) > 1e-6


def test_its_parameters_are_checked() -> None:
    for wrong in ({"users": 0}, {"epsilon": 0}, {"central": 2.0}, {"clones": 1.5}):
        with pytest.raises(ProtocolError):
            shuffled_delta(**{"users": 10, "epsilon": 1.0, "central": 0.5, "clones": 0.5, **wrong})  # type: ignore[arg-type]
    assert shuffling.THEOREMS[0].needs.startswith("a shuffler, which Askance does not have")
