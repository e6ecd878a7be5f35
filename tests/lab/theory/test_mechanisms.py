"""Laplace, geometric and exponential noise against their exact distributions."""

import math

import numpy as np
import pytest

from askance_lab.theory import mechanisms


def test_the_laplace_scale_is_not_its_inverse() -> None:
    """Trap 9: BB-notes, Def. 2 prints εn/b; the density ratio under a shift of b/n must be e^ε, so b/(εn)."""
    scale = mechanisms.laplace_average_scale(width=2, examples=100, epsilon=0.5)

    assert math.exp((2 / 100) / scale) == pytest.approx(math.exp(0.5))
    assert scale == pytest.approx(1 / (0.5 * 100 / 2))


def test_laplace_error_is_exceeded_exactly_as_often_as_said() -> None:
    """BB-notes, Thm 3 and BNS13, Thm 1 are inverse to each other, and n examples bring the noise below the error."""
    error = mechanisms.laplace_error(scale=3, failure=0.01)
    n = mechanisms.examples_laplace_average(width=1, epsilon=0.1, error=0.02, failure=0.01)

    assert mechanisms.laplace_tail(scale=3, error=error) == pytest.approx(0.01)
    for users, within in ((n, True), (n - 1, False)):
        scale = mechanisms.laplace_average_scale(width=1, examples=users, epsilon=0.1)
        assert (mechanisms.laplace_tail(scale=scale, error=0.02) <= 0.01) == within


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("sensitivity", [1, 3])
def test_geometric_noise_is_what_its_pmf_says(epsilon: float, sensitivity: int) -> None:
    """N21 §2: tail, variance and error from the pmf α^{-|k|}(α-1)/(α+1), summed term by term."""
    base = mechanisms.geometric_base(epsilon=epsilon, sensitivity=sensitivity)
    k = np.arange(-3000, 3001)
    pmf = base ** -np.abs(k).astype(float) * (base - 1) / (base + 1)
    error = mechanisms.geometric_error(epsilon=epsilon, failure=0.01, sensitivity=sensitivity)

    assert pmf.sum() == pytest.approx(1)
    for distance in (1, 2, 7):
        tail = mechanisms.geometric_tail(epsilon=epsilon, distance=distance, sensitivity=sensitivity)
        assert tail == pytest.approx(pmf[np.abs(k) >= distance].sum())
    assert mechanisms.geometric_variance(epsilon=epsilon, sensitivity=sensitivity) == pytest.approx((pmf * k**2).sum())
    assert pmf[np.abs(k) > error].sum() <= 0.01 < pmf[np.abs(k) > error - 1].sum()


def test_the_geometric_error_may_be_zero() -> None:
    """At a huge ε the noise is 0 but for β; nothing overflows on the way."""
    assert mechanisms.geometric_error(epsilon=900, failure=0.5) == 0


def test_the_exponential_tail_bounds_the_exact_mechanism() -> None:
    """BNS13, Prop. 1(ii), in its worst case: one best solution and |H|-1 exactly `loss` below it."""
    solutions, epsilon, sensitivity = 50, 0.7, 2
    loss = mechanisms.exponential_loss(solutions=solutions, epsilon=epsilon, failure=0.05, sensitivity=sensitivity)
    weight = (solutions - 1) * math.exp(-epsilon * loss / (2 * sensitivity))
    tail = mechanisms.exponential_tail(solutions=solutions, epsilon=epsilon, loss=loss, sensitivity=sensitivity)

    assert tail == pytest.approx(0.05)
    assert 0.9 * tail <= weight / (1 + weight) <= tail
