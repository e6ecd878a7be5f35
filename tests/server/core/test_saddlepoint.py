"""Tails by the saddlepoint are those of exact sums, for few reports and far out; on the safe side where they differ."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_server.core.saddlepoint import signed_root

Floats = NDArray[np.float64]


def exact_tails(law: Floats, trials: int) -> Floats:
    """Pr[sum >= s] of scores 0, 1, 2, …, for each s: the law, convolved with itself."""
    total = np.ones(1)
    for _ in range(trials):
        total = np.convolve(total, law)
    return np.cumsum(total[::-1])[::-1]


def tail(law: Floats, trials: int, sum_: int) -> float:
    """The same by the saddlepoint."""
    scores = np.arange(len(law), dtype=np.float64)
    root = signed_root(law[np.newaxis], scores[np.newaxis], np.array([sum_ / trials]), trials, np.ones(1))
    return float(stats.norm.sf(root[0]))


LAWS = {
    "a coin": np.array([0.7, 0.3]),
    "a rare event": np.array([0.97, 0.03]),
    "three values": np.array([0.5, 0.2, 0.3]),
    "many values": np.array([0.3, *np.full(9, 0.05), 0.25]),
}


NEAR = {1: 0.25, 2: 0.25, 5: 0.2, 20: 0.06, 200: 0.01}
"""Relative errors that are allowed, by the number of scores: of the order 1/n."""


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())
@pytest.mark.parametrize("trials", NEAR)
def test_tails_are_those_of_the_exact_sum(law: Floats, trials: int) -> None:
    for sum_, wanted in enumerate(exact_tails(law, trials).tolist()):
        if 1e-9 < wanted < 0.2:
            assert tail(law, trials, sum_) == pytest.approx(wanted, rel=NEAR[trials])


def test_control_the_normal_limit_is_far_off() -> None:
    law, trials, sum_ = LAWS["a rare event"], 20, 4
    z = (sum_ - 0.5 - trials * 0.03) / np.sqrt(trials * 0.03 * 0.97)

    assert stats.norm.sf(z) < exact_tails(law, trials)[sum_] / 10


def test_both_sides_mirror_each_other() -> None:
    law, scores = LAWS["three values"][np.newaxis], np.array([[0.0, 1.0, 2.0]])
    for seen in (0.1, 0.5, 1.2, 1.9):
        one = signed_root(law, scores, np.array([seen]), 30, np.ones(1))
        other = signed_root(law[:, ::-1], scores, np.array([2 - seen]), 30, np.ones(1))
        assert one == pytest.approx(-other, rel=1e-9, abs=1e-12)


def test_what_is_within_half_a_step_of_the_expected_is_not_out_at_all() -> None:
    law, scores = np.array([[0.5, 0.5]]), np.array([[0.0, 1.0]])
    roots = [signed_root(law, scores, np.array([count / 10]), 10, np.ones(1)).item() for count in (4, 5, 6)]

    assert roots[1] == 0
    assert roots[0] < 0 < roots[2]


@pytest.mark.parametrize("trials", [10**6, 10**9, 10**12, 10**15])
def test_the_digits_hold_up_to_any_number_of_reports(trials: int) -> None:
    """Two standard deviations from the mean: there the tail is the normal one."""
    law, scores = np.array([[0.25, 0.5, 0.25]]), np.array([[-1.0, 0.0, 1.0]])
    seen = np.array([2 * np.sqrt(0.5 / trials)])

    assert signed_root(law, scores, seen, trials, np.ones(1)) == pytest.approx(2, abs=2 / np.sqrt(trials) + 1e-6)
