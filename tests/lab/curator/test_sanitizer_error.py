"""Improper to proper: the database that is built is as close to the estimates as any is."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance_lab.curator.sanitizer_error import (
    Piece,
    entries,
    interval_deviation,
    multiset,
    nearest_interval_database,
    nearest_point_database,
    point_deviation,
)
from askance_lab.theory.sanitizers import proper_sanitizer_accuracy
from askance_protocol.errors import ProtocolError

NOISE = st.integers(-6, 6)


def databases(d: int, m: int):
    """All of them: nothing to search in with more than a few bits."""
    return map(Counter, itertools.combinations_with_replacement(range(1 << d), m))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 2), st.integers(1, 5), st.dictionaries(st.integers(0, 3), NOISE, max_size=4))
def test_no_database_is_closer_to_estimates_of_points_whatever_they_are(d, m, wild) -> None:
    estimates = {point: count for point, count in wild.items() if point < 1 << d}
    built = nearest_point_database(d, estimates, m)

    assert sum(built.values()) == m
    assert min(built.values()) > 0
    assert point_deviation(built, estimates) == min(point_deviation(each, estimates) for each in databases(d, m))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 2), st.integers(1, 5), st.lists(st.tuples(st.integers(0, 3), NOISE), min_size=1, max_size=5))
def test_no_database_is_closer_to_estimates_of_thresholds_whatever_they_are(d, m, wild) -> None:
    pieces = [Piece(end % (1 << d), count) for end, count in wild]
    built = nearest_interval_database(d, pieces, m)

    assert sum(built.values()) == m
    assert min(built.values()) > 0
    assert interval_deviation(built, pieces) == min(interval_deviation(each, pieces) for each in databases(d, m))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=40), st.data())
def test_estimates_within_alpha_of_s_give_a_database_within_2_alpha_of_s(points, data) -> None:
    true, m = Counter(points), len(points)
    noisy = {point: count + data.draw(NOISE) for point, count in true.items()}
    pieces = [Piece(point, count + data.draw(NOISE)) for point, count in true.items()]

    built, steps = nearest_point_database(64, noisy, m), nearest_interval_database(64, pieces, m)

    assert sum(built.values()) == sum(steps.values()) == m
    # α is how far the estimates are off, and 2α is what BNS13, §2.3 promises
    off = point_deviation(true, noisy), interval_deviation(true, pieces)
    assert point_deviation(true, built) <= proper_sanitizer_accuracy(error=0.25, failure=0.1).error / 0.25 * off[0]
    assert interval_deviation(true, steps.items()) <= 2 * off[1]


def test_a_point_without_an_estimate_is_filled_up_no_further_than_the_deviation() -> None:
    built = nearest_point_database(64, {5: 4}, 10)

    assert built == {5: 4, 0: 1, 1: 1, 2: 1, 3: 1, 4: 1, 6: 1}
    assert point_deviation(built, {5: 4}) == 1


def test_control_counts_that_are_clipped_and_scaled_but_not_filled_are_farther_off_than_s() -> None:
    """What "round and clip" without the ranges gives: all the rest on the first point."""
    true = Counter({5: 4, **dict.fromkeys(range(10, 16), 1)})
    careless = {5: 4, 0: 6}
    built = nearest_point_database(64, {5: 4}, 10)

    assert point_deviation(true, careless) > 2 * point_deviation(true, {5: 4}) >= point_deviation(true, built)


def test_control_cumulative_counts_that_are_not_monotone_are_no_database_and_ours_are() -> None:
    pieces = [Piece(1, 6), Piece(2, -3), Piece(3, 7)]
    built = nearest_interval_database(2, pieces, 10)

    assert min(count for _, count in pieces) < 0 <= min(built.values())
    assert interval_deviation(built, pieces) == 2  # 6, 3, 10 becomes 4, 4, 10: half of 3, rounded up


def test_entries_are_a_database_in_order() -> None:
    assert entries({7: 2, 1: 1}) == (1, 7, 7)


@pytest.mark.parametrize(
    "call",
    [
        lambda: nearest_point_database(2, {1: 1}, 0),
        lambda: nearest_point_database(2, {4: 1}, 3),
        lambda: nearest_interval_database(2, [Piece(4, 1)], 3),
        lambda: nearest_interval_database(2, [], 3),
        lambda: nearest_interval_database(2, [Piece(1, 1)], 0),
    ],
)
def test_an_empty_database_and_points_outside_the_domain_are_refused(call) -> None:
    with pytest.raises(ProtocolError):
        call()


@pytest.mark.parametrize("database", [[], {}, {1: 0}, {1: -1, 2: 3}, {1: 1.5}, {4: 1}, [4], {"1": 2}])
def test_a_database_is_counted_in_whole_numbers_within_the_domain_or_refused(database) -> None:
    assert multiset(2, [1, 3, 1]) == multiset(2, {1: 2, 3: 1, 0: 0}) == {1: 2, 3: 1}
    with pytest.raises(ProtocolError):
        multiset(2, database)
