"""The exponential mechanism: ε by enumeration, finite at any score, and the exponent without the 2 is caught."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from askance_lab.curator import exponential
from askance_lab.curator.distributions import Distribution, worst_loss
from askance_lab.curator.draws import below, chances
from askance_lab.curator.privacy import Paid
from askance_lab.theory import mechanisms
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom

Example = tuple[int, bool]
EXAMPLES: list[Example] = [(x, y) for x in range(4) for y in (False, True)]


def mistakes(database: tuple[Example, ...]) -> list[int]:
    """Minus the mistakes of the 5 thresholds "x < j" on {0,…,3}."""
    return [-sum((x < j) != y for x, y in database) for j in range(5)]


def thresholds(epsilon: Fraction) -> Callable[[tuple[Example, ...]], Distribution]:
    return lambda database: dict(enumerate(exponential.probabilities(mistakes(database), epsilon=epsilon)))


def without_the_two(epsilon: Fraction) -> Callable[[tuple[Example, ...]], Distribution]:
    """A planted fault: exponent εq/Δ."""
    return lambda database: dict(
        enumerate(chances([-score for score in mistakes(database)], [1] * 5, epsilon).tolist())
    )


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_five_thresholds_are_private_by_enumeration(epsilon: Fraction) -> None:
    """docs/theory.md#checks: n = 4, all databases and neighbours: log-ratio ≤ ε, and above ε/2."""
    worst = worst_loss(thresholds(epsilon), EXAMPLES, 4).value

    assert float(epsilon) / 2 < worst <= float(epsilon) + 1e-9


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(3)])
def test_the_exponent_without_the_two_is_caught(epsilon: Fraction) -> None:
    """Control: an example that is relabelled helps one threshold and harms another, so εq/Δ loses more than ε."""
    assert worst_loss(without_the_two(epsilon), EXAMPLES, 4).value > float(epsilon) * 1.2


def test_a_sensitivity_of_three_pays_for_steps_of_three() -> None:
    """Scores of 3 a mistake at Δ = 3 have the chances of scores of 1 at Δ = 1."""
    database = tuple(EXAMPLES[:4])
    tripled = [3 * score for score in mistakes(database)]

    np.testing.assert_allclose(
        exponential.probabilities(tripled, epsilon=Fraction(1), sensitivity=3),
        exponential.probabilities(mistakes(database), epsilon=Fraction(1)),
        atol=1e-12,
    )


@pytest.mark.parametrize("shift", [-(10**6), 10**6, -(10**15)])
def test_only_differences_of_scores_count(shift: int) -> None:
    """Finite at −10⁶ and beyond: the same chances as around 0, and draws that end."""
    scores = np.array([0, -1, -4]) + shift
    found = exponential.probabilities(scores, epsilon=Fraction(1))

    np.testing.assert_allclose(found, exponential.probabilities([0, -1, -4], epsilon=Fraction(1)), atol=1e-12)
    assert exponential.choose([shift, shift - 10**6], epsilon=Fraction(1), draw=below(SimulatedRandom(1))) == 0


@pytest.mark.parametrize("multiplicities", [None, [1, 5, 2, 0]])
def test_choices_have_their_chances(multiplicities: list[int] | None) -> None:
    """4,000 choices, ties among them, at level 1e-6."""
    scores, epsilon, runs = [3, 1, 3, 0], Fraction(1), 4000
    draw = below(SimulatedRandom(2))
    counts = Counter(
        exponential.choose(scores, epsilon=epsilon, draw=draw, multiplicities=multiplicities) for _ in range(runs)
    )
    for i, chance in enumerate(exponential.probabilities(scores, epsilon=epsilon, multiplicities=multiplicities)):
        assert min(binom.cdf(counts[i], runs, chance), binom.sf(counts[i] - 1, runs, chance)) > 1e-6 / 8


def test_a_group_is_as_likely_as_its_members_together() -> None:
    """Multiplicities are solutions that score alike."""
    single = exponential.probabilities([2, 0, 0, 0], epsilon=Fraction(1))
    grouped = exponential.probabilities([2, 0], epsilon=Fraction(1), multiplicities=[1, 3])

    assert grouped == pytest.approx([single[0], math.fsum(single[1:])], abs=1e-12)


def test_losses_are_as_rare_as_the_proposition_says() -> None:
    """BNS13, Prop. 1(ii), on its hardest scores: one best solution, the rest worse by just the loss."""
    for solutions in (2, 10, 1000):
        for gap in (1, 5, 20):
            worse = exponential.probabilities([0, -gap], epsilon=Fraction(1), multiplicities=[1, solutions - 1])[1]
            assert worse <= mechanisms.exponential_tail(solutions=solutions, epsilon=1, loss=gap)


def test_it_costs_epsilon_and_refuses_nonsense() -> None:
    """No scores, no privacy, no sensitivity."""
    draw = below(SimulatedRandom(3))

    assert exponential.paid(Fraction(1)) == Paid(Fraction(1))
    with pytest.raises(ProtocolError, match="scores"):
        exponential.choose([], epsilon=Fraction(1), draw=draw)
    with pytest.raises(ProtocolError, match="epsilon"):
        exponential.choose([1], epsilon=Fraction(0), draw=draw)
    with pytest.raises(ProtocolError, match="sensitivity"):
        exponential.probabilities([1], epsilon=Fraction(1), sensitivity=0)


@pytest.mark.parametrize(
    ("scores", "what"),
    [
        ([0.5, 1.0], "no whole numbers"),
        ([float("nan"), 1.0], "no whole numbers"),
        (np.array([1.0, 2.0]), "no whole numbers"),
        (["1"], "no whole numbers"),
        ([2**63, 0], "beyond 64 bits"),
        ([-(2**63) - 1], "beyond 64 bits"),
        (np.array([2**63], np.uint64), "beyond 64 bits"),
        ([-(2**62), 2**62], "too far apart"),
    ],
)
def test_scores_that_64_bits_do_not_hold_exactly_are_refused(scores: Any, what: str) -> None:
    """Rounded or wrapped around they would be other scores, and another law."""
    with pytest.raises(ProtocolError, match=what):
        exponential.probabilities(scores, epsilon=Fraction(1))


def test_scores_at_the_ends_of_64_bits_are_exact() -> None:
    for scores in ([2**63 - 1, 2**63 - 2], [-(2**63), -(2**63) + 1][::-1], np.array([5, 4])):
        chances = exponential.probabilities(scores, epsilon=Fraction(2))
        assert chances[0] / chances[1] == pytest.approx(np.e)
