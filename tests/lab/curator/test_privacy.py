"""Prices, and how they add up."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from askance_lab.curator.distributions import hockey_stick
from askance_lab.curator.privacy import Paid, advanced, checked
from askance_protocol.errors import ProtocolError

TENTH = Fraction(1, 10)


def test_prices_add_up_and_read_well() -> None:
    both = Paid(TENTH, Fraction(1, 1000)) + Paid(Fraction(1, 2))

    assert both == Paid(Fraction(3, 5), Fraction(1, 1000))
    assert both.times(2) == Paid(Fraction(6, 5), Fraction(1, 500))
    assert str(both) == "ε = 0.6, δ = 0.001"
    assert str(Paid(TENTH)) == "ε = 0.1"


@pytest.mark.parametrize("count", [1, 10, 60])
@pytest.mark.parametrize("slack", [Fraction(1, 2), Fraction(1, 100), Fraction(1, 10**6)])
def test_advanced_composition_holds_for_randomized_response_many_times(count: int, slack: Fraction) -> None:
    """The exact distributions of k randomized responses: by how many tell the truth, all else being alike."""
    keep = 1 / (1 + math.exp(-float(TENTH)))
    one, other = (
        {k: math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(count + 1)} for p in (keep, 1 - keep)
    )
    epsilon, delta = advanced(Paid(TENTH), count, slack)

    assert hockey_stick(one, other, epsilon) <= delta + 1e-12
    assert delta == float(slack)
    # The control: where many are composed, the ε of one is not enough.
    assert count == 1 or hockey_stick(one, other, float(TENTH)) > 1e-3


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(Fraction(0), None), (Fraction(-1), None), (TENTH, Fraction(0)), (TENTH, Fraction(1)), (TENTH, Fraction(-1))],
)
def test_what_is_no_price_is_refused(epsilon: Fraction, delta: Fraction | None) -> None:
    with pytest.raises(ProtocolError):
        checked(epsilon, delta)


def test_a_price_that_is_one_is_given_back_as_it_is() -> None:
    assert checked(TENTH) == Paid(TENTH)
    assert checked(TENTH, Fraction(1, 3)) == Paid(epsilon=TENTH, delta=Fraction(1, 3))


@pytest.mark.parametrize(("epsilon", "delta"), [(-1, 0), (1, -1), (1, 1)])
def test_nobody_pays_what_is_no_privacy(epsilon: int, delta: int) -> None:
    with pytest.raises(ProtocolError, match="is no privacy"):
        Paid(Fraction(epsilon), Fraction(delta))
