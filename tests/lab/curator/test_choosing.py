"""The choosing mechanism: private on as many entries as Lemma 4 asks for, not private on few, and refused there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from scipy.stats import binom

from askance_lab.curator import choosing
from askance_lab.curator.choosing import choose, choosing_distribution
from askance_lab.curator.distributions import Distribution, hockey_stick, worst_delta
from askance_lab.curator.draws import below
from askance_lab.curator.privacy import Paid
from askance_lab.theory.sanitizers import examples_choosing
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom

ONE = Fraction(1)


def named(entries: tuple[int, ...], growth: int) -> Counter[int]:
    """Entry x speaks for the k = growth solutions x, x + 1, …: k-bounded growth."""
    return Counter(entry + step for entry in entries for step in range(growth))


def mechanism(
    epsilon: Fraction, error: Fraction, growth: int = 1
) -> Callable[[tuple[int, ...]], Distribution[int | None]]:
    return lambda database: choosing_distribution(named(database, growth), len(database), epsilon=epsilon, error=error)


def test_below_its_bound_it_is_not_private() -> None:
    """Trap 17, the control: at α = ½, ε = 1 and m = 10 entries of 3 points, δ(1) = .129 by enumeration."""
    assert worst_delta(mechanism(ONE, Fraction(1, 2)), [0, 1, 2], 10, 1.0).value == pytest.approx(0.129, abs=5e-4)


@pytest.mark.parametrize(
    ("epsilon", "delta", "error", "growth"),
    [
        (Fraction(4), Fraction(1, 4), Fraction(9, 10), 1),
        (Fraction(4), Fraction(1, 4), Fraction(9, 10), 2),
        (Fraction(8), Fraction(1, 10), Fraction(1, 2), 1),
    ],
)
def test_at_its_bound_it_is_as_private_as_declared(
    epsilon: Fraction, delta: Fraction, error: Fraction, growth: int
) -> None:
    """docs/theory.md#checks: δ(ε) ≤ δ over all neighbours of the fewest entries that Lemma 4 allows."""
    m = examples_choosing(growth=growth, epsilon=float(epsilon), delta=float(delta), error=float(error), failure=0.5)

    assert m <= 40
    assert worst_delta(mechanism(epsilon, error, growth), [0, 1, 2], m, float(epsilon)).value <= float(delta)


def test_at_its_bound_and_small_epsilon_the_dangerous_neighbours_are_safe() -> None:
    """ε = 1, δ = 1e-6, m = 500 or so: one entry moved, for every best score and any number of single rivals."""
    error, failure, delta = Fraction(1, 2), 0.1, 1e-6
    m = examples_choosing(growth=1, epsilon=1, delta=delta, error=0.5, failure=failure)
    worst = 0.0
    for best in range(m):
        singles = dict.fromkeys(range(2, m - best + 1), 1)
        with_point, without = {0: best, 1: 1} | singles, {0: best + 1} | singles
        law = [choosing_distribution(each, m, epsilon=ONE, error=error) for each in (with_point, without)]
        worst = max(worst, hockey_stick(law[0], law[1], 1.0), hockey_stick(law[1], law[0], 1.0))

    assert worst <= delta


def test_fewer_entries_than_the_bound_are_refused_and_the_error_names_the_number() -> None:
    """Refused on m alone, whatever the scores; at the bound it runs."""
    price = {"growth": 1, "epsilon": Fraction(4), "delta": Fraction(1, 4), "error": Fraction(1, 2), "failure": 0.1}
    m = examples_choosing(growth=1, epsilon=4, delta=0.25, error=0.5, failure=0.1)
    draw = below(SimulatedRandom(17))

    for scores in ({}, {3: 2}, {3: m}):
        with pytest.raises(ProtocolError, match=str(m)):
            choose(scores, m - 1, **price, draw=draw)
    assert choose({3: m}, m, **price, draw=draw) == 3


def test_it_is_as_good_as_the_lemma_says_on_the_hardest_scores() -> None:
    """Rivals just worse than α-good, as many as there can be: P(within αm of the best) ≥ 1 − β, exactly."""
    error, failure = Fraction(1, 4), 0.1
    m = examples_choosing(growth=1, epsilon=1, delta=0.01, error=0.25, failure=failure)
    for best in range(0, m + 1, 7):
        poor = best - m // 4 - 1
        rivals = dict.fromkeys(range(1, 1 + (m - best) // max(1, poor)), poor) if poor >= 1 else {}
        law = choosing_distribution({0: best} | rivals, m, epsilon=ONE, error=error)
        good = law.get(0, 0.0) + (law[None] if best <= error * m else 0.0)
        assert good >= 1 - failure


def test_outputs_have_the_exact_distribution() -> None:
    """4,000 choices at the bound: ⊥ and each solution as often as computed, at level 1e-6."""
    epsilon, error, runs = Fraction(8), Fraction(1, 2), 4000
    m = examples_choosing(growth=1, epsilon=8, delta=0.1, error=0.5, failure=0.5)
    high = choosing.least(m, error)
    scores, draw = {"a": high, "b": high - 1, "c": high - 1, "nobody": 0}, below(SimulatedRandom(18))
    counts = Counter(
        choose(scores, m, growth=1, epsilon=epsilon, delta=Fraction(1, 10), error=error, failure=0.5, draw=draw)
        for _ in range(runs)
    )
    law = choosing_distribution(scores, m, epsilon=epsilon, error=error)

    assert set(counts) <= set(law) == {None, "a", "b", "c"}
    for output, chance in law.items():
        assert min(binom.cdf(counts[output], runs, chance), binom.sf(counts[output] - 1, runs, chance)) > 1e-6 / 8


def test_nobody_named_is_bottom_even_past_step_1() -> None:
    """An empty G(S) is ⊥, whatever the noise; and solutions of score 0 are never chosen."""
    price = {"growth": 1, "epsilon": Fraction(8), "delta": Fraction(1, 4), "error": Fraction(1, 100), "failure": 0.5}
    m = examples_choosing(growth=1, epsilon=8, delta=0.25, error=0.01, failure=0.5)
    draw = below(SimulatedRandom(19))

    assert all(choose(scores, m, **price, draw=draw) is None for scores in ({}, {1: 0}) for _ in range(200))
    assert choosing_distribution({1: 0}, 5, epsilon=ONE, error=0.5) == {None: 1.0}


def test_an_epsilon_beyond_the_proof_is_refused() -> None:
    """αβε ≤ 16 is what the proof needs for new solutions to stay within δ."""
    epsilon, error, failure, delta, growth = Fraction(200), Fraction(99, 100), Fraction(99, 100), 0.9, 10**9
    m = examples_choosing(growth=growth, epsilon=200, delta=delta, error=0.99, failure=0.99)
    with pytest.raises(ProtocolError, match="epsilon"):
        choose(
            {},
            m,
            growth=growth,
            epsilon=epsilon,
            delta=Fraction(9, 10),
            error=error,
            failure=failure,
            draw=below(SimulatedRandom(20)),
        )


def test_it_costs_what_it_declares() -> None:
    """(ε,δ), Lemma 4."""
    assert choosing.paid(ONE, Fraction(1, 10)) == Paid(ONE, Fraction(1, 10))
