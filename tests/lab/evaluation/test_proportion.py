"""A share that was counted, and its interval."""

from __future__ import annotations

from math import comb

import pytest

from askance_lab.evaluation.proportion import Proportion, difference_interval
from askance_protocol.errors import ProtocolError


def test_the_interval_is_that_of_clopper_and_pearson() -> None:
    """190 of 200: a textbook's (0.910, 0.976)."""
    low, high = Proportion(190, 200).interval

    assert (round(low, 4), round(high, 4)) == (0.91, 0.9758)
    assert Proportion(10, 10).interval == pytest.approx((0.025 ** (1 / 10), 1))
    assert Proportion(0, 10).with_interval == pytest.approx((0, 0, 1 - 0.025 ** (1 / 10)))


def test_more_confidence_is_a_wider_interval() -> None:
    (low, high), (lower, higher) = Proportion(7, 10).interval, Proportion(7, 10, 0.999).interval

    assert lower < low < Proportion(7, 10).rate == 0.7 < high < higher


@pytest.mark.parametrize(("count", "total"), [(0, 0), (-1, 5), (6, 5)])
def test_what_is_no_share_is_refused(count: int, total: int) -> None:
    with pytest.raises(ProtocolError, match="is not a share"):
        Proportion(count, total)


def test_the_interval_of_a_difference_covers_where_that_of_each_alone_does() -> None:
    """By exact enumeration of two binomial counts of 12, on a grid of probabilities; half as wide fails."""
    n = 12
    grid = [0.05, 0.3, 0.5, 0.7, 0.95]
    ends = {(x, y): difference_interval(Proportion(x, n), Proportion(y, n)) for x in range(n + 1) for y in range(n + 1)}

    def coverage(p: float, q: float, shrink: float) -> float:
        total = 0.0
        for (x, y), (low, high) in ends.items():
            middle, half = (low + high) / 2, shrink * (high - low) / 2
            if middle - half <= p - q <= middle + half:
                total += comb(n, x) * p**x * (1 - p) ** (n - x) * comb(n, y) * q**y * (1 - q) ** (n - y)
        return total

    assert min(coverage(p, q, 1) for p in grid for q in grid) >= 0.95
    assert min(coverage(p, q, 0.5) for p in grid for q in grid) < 0.95, "the control is found"
