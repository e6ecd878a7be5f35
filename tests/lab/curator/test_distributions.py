"""The checker of privacy finds what it is told to look for, and passes what is private."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from askance_lab.curator.distributions import (
    Distribution,
    hockey_stick,
    loss,
    mixture,
    neighbours,
    worst_delta,
    worst_loss,
)


def response(keep: float) -> Callable[[tuple[int, ...]], Distribution]:
    """The first of the entries' majority, told truly with this chance: a mechanism of loss ln(keep/(1−keep))."""

    def mechanism(database: tuple[int, ...]) -> Distribution:
        truth = int(2 * sum(database) > len(database))
        return {truth: keep, 1 - truth: 1 - keep}

    return mechanism


def test_randomized_response_has_its_loss() -> None:
    """e^ε/(1+e^ε) truth: ε, on a domain of two and any size."""
    keep = math.e / (1 + math.e)
    for size in (1, 3, 5):
        assert worst_loss(response(keep), [0, 1], size).value == pytest.approx(1, abs=1e-12)


def test_a_fault_at_a_single_pair_of_neighbours_is_found_and_named() -> None:
    """Planted: private everywhere but between {2,2,2} and {2,2,1}."""

    def faulty(database: tuple[int, ...]) -> Distribution:
        return {"a": 0.9, "b": 0.1} if database == (2, 2, 2) else {"a": 0.5, "b": 0.5}

    found = worst_loss(faulty, [0, 1, 2], 3)

    assert found.value == pytest.approx(math.log(5), abs=1e-12)
    assert sorted((tuple(sorted(found.one)), tuple(sorted(found.other)))) in (
        [(0, 2, 2), (2, 2, 2)],
        [(1, 2, 2), (2, 2, 2)],
    )


def test_an_output_that_only_one_database_has_is_an_infinite_loss_and_its_chance_in_delta() -> None:
    """A leak of chance 1/1000: no ε, δ = .001 at every ε."""

    def leaky(database: tuple[int, ...]) -> Distribution:
        return {"nothing": 0.999, database: 0.001}

    assert worst_loss(leaky, [0, 1], 2).value == math.inf
    for epsilon in (0.0, 1.0, 20.0):
        assert worst_delta(leaky, [0, 1], 2, epsilon).value == pytest.approx(0.001, abs=1e-12)


def test_delta_is_the_best_test_between_neighbours() -> None:
    """Hockey-stick equals the best event, by going through all of them."""
    one = {"a": 0.5, "b": 0.3, "c": 0.15, "d": 0.05}
    other = {"a": 0.25, "b": 0.3, "c": 0.05, "e": 0.4}
    for epsilon in (0.0, 0.5, 1.0):
        best = max(
            sum(one.get(o, 0) - math.exp(epsilon) * other.get(o, 0) for o in event)
            for event in ([o for bit, o in enumerate("abcde") if mask >> bit & 1] for mask in range(32))
        )
        assert hockey_stick(one, other, epsilon) == pytest.approx(best, abs=1e-12)
    assert hockey_stick(one, other, 50.0) == pytest.approx(0.05, abs=1e-12)


def test_delta_vanishes_where_the_loss_ends() -> None:
    """At ε = loss δ is 0, just below it is not."""
    mechanism = response(0.8)
    epsilon = worst_loss(mechanism, [0, 1], 3).value

    assert worst_delta(mechanism, [0, 1], 3, epsilon).value == pytest.approx(0, abs=1e-12)
    assert worst_delta(mechanism, [0, 1], 3, epsilon - 0.01).value > 1e-3


@pytest.mark.parametrize(("domain", "size"), [(2, 1), (2, 4), (3, 3), (4, 2)])
def test_neighbours_are_all_of_them_and_no_others(domain: int, size: int) -> None:
    """As many ordered pairs as multisets of the rest times ordered pairs of entries; they differ in one entry."""
    pairs = list(neighbours(range(domain), size))

    assert len(pairs) == math.comb(domain + size - 2, size - 1) * domain * (domain - 1)
    assert len(set(pairs)) == len(pairs)
    for one, other in pairs:
        assert one[:-1] == other[:-1]
        assert one[-1] != other[-1]


def test_each_database_is_asked_for_once() -> None:
    """The order of entries does not count, so a multiset is one database."""
    asked: list[tuple[str, ...]] = []

    def mechanism(database: tuple[str, ...]) -> Distribution:
        asked.append(database)
        return {0: 1.0}

    assert worst_loss(mechanism, ["x", "y", "z"], 3).value == 0
    assert len(asked) == len(set(asked)) == math.comb(3 + 3 - 1, 3)


def test_a_mixture_adds_up_what_its_parts_share() -> None:
    """Chances of the same output add up."""
    assert mixture([(0.5, {"a": 1.0}), (0.5, {"a": 0.5, "b": 0.5})]) == {"a": 0.75, "b": 0.25}


def test_chances_that_no_float_can_hold_are_left_out() -> None:
    """An output of chance below 1e-300 on both sides decides nothing; on one side it is infinite."""
    assert loss({"a": 1.0, "b": 1e-310}, {"a": 1.0}) == 0
    assert loss({"a": 0.5, "b": 0.5}, {"a": 1.0, "b": 1e-310}) == math.inf
