"""A share that was counted, and its interval."""

from __future__ import annotations

import pytest

from askance_lab.evaluation.proportion import Proportion
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
