"""What is remembered is bounded in bytes, whatever a server asks for."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from askance_protocol.channels import binary, tabulated
from askance_protocol.channels import channel as channels
from askance_protocol.channels.binary import MAX_STEPS, BinaryResponse
from askance_protocol.remembering import Remembered


def test_results_are_kept_and_those_that_were_asked_for_longest_ago_go_first() -> None:
    made: list[int] = []

    def make(key: int) -> bytes:
        made.append(key)
        return bytes(key)

    work = Remembered(make, len, most=10)

    assert [len(work(key)) for key in (4, 5, 4, 1, 4, 5)] == [4, 5, 4, 1, 4, 5]
    assert made == [4, 5, 1]
    assert work.held == 10
    # Of 1, 4 and 5, in the order in which they were asked for last, as many go as have to: 1 and 4.
    work(3)
    assert work.held == 8
    assert [work(key) and key for key in (3, 5, 4)] == [3, 5, 4]
    assert made == [4, 5, 1, 3, 4]
    # Too large to be kept: worked out each time, and nothing goes for it.
    assert len(work(11)) == len(work(11)) == 11
    assert made == [4, 5, 1, 3, 4, 11, 11]
    assert work.held == 9


def rounds_of_large_parts(thresholds: Callable[[BinaryResponse], Any], rounds: int) -> None:
    """What a server may have a client do: a round with another ε each, of as many steps as there can be."""
    for number in range(rounds):
        assert len(thresholds(BinaryResponse(1_000_000 + number, MAX_STEPS))) == MAX_STEPS + 1


def held(kept: Remembered[Any, Any]) -> int:
    return sum(each.nbytes for each in kept._kept.values())


def test_thresholds_of_many_rounds_are_bounded_in_bytes() -> None:
    kept = binary._thresholds
    rounds_of_large_parts(kept, 12)
    assert 0 < held(kept) == kept.held <= 8 << 20

    # The control: what is bounded in number holds four megabytes for each.
    counted = lru_cache(maxsize=256)(kept._work)
    rounds_of_large_parts(counted, 12)
    assert counted.cache_info().currsize * 8 * (MAX_STEPS + 1) > 5 * (8 << 20)


def test_what_is_remembered_is_what_is_worked_out() -> None:
    channel = BinaryResponse(500_000, 6)
    again = BinaryResponse(500_000, 6)
    assert binary._thresholds(channel) is binary._thresholds(again)
    assert np.array_equal(binary._thresholds(channel), binary._thresholds._work(again))
    assert [channel.threshold(given) for given in range(7)] == binary._thresholds(channel).tolist()


@pytest.mark.parametrize("kept", [binary._thresholds, tabulated._tabulated, channels.matrix])
def test_each_of_them_has_a_bound_of_megabytes(kept: Remembered[Any, Any]) -> None:
    assert kept._most <= 32 << 20
