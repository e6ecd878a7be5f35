"""A_dist: (ε,δ) by enumeration, tight, the smallest threshold that is; what the text's literal version does wrong."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import pytest
from scipy.stats import binom

from askance_lab.curator import distance
from askance_lab.curator.distance import Ahead, ahead, choose, found_chance, gap_needed, threshold
from askance_lab.curator.distributions import Distribution, worst_delta
from askance_lab.curator.draws import below
from askance_lab.curator.geometric import at_least
from askance_lab.curator.privacy import Paid
from askance_lab.theory import approximate
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom

PRICES = [(Fraction(1), Fraction(1, 10)), (Fraction(1, 2), Fraction(1, 5)), (Fraction(2), Fraction(1, 50))]
ELSEWHERE = None
"""An entry that speaks for no solution."""
DOMAIN = [0, 1, 2, ELSEWHERE]


def votes(
    found: Callable[[Ahead[int]], float], *, others: bool = True
) -> Callable[[tuple[int | None, ...]], Distribution]:
    """A_dist on "how many entries name it", of 3 solutions and, with others, of more that no entry names."""

    def mechanism(database: tuple[int | None, ...]) -> Distribution:
        named = Counter(entry for entry in database if entry is not None)
        lead = ahead(named if others else {solution: named[solution] for solution in range(3)}, others=others)
        chance = found(lead)
        return {None: 1 - chance} | ({} if lead.best is None else {lead.best: chance})

    return mechanism


@pytest.mark.parametrize("others", [True, False])
@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
def test_the_tight_form_is_exactly_as_private_as_declared(epsilon: Fraction, delta: Fraction, *, others: bool) -> None:
    """docs/theory.md#checks: over all neighbours of n entries δ(ε) ≤ δ; and one threshold lower it would not be."""
    steep = epsilon / 2
    least = threshold(epsilon, delta)
    mechanism = votes(lambda lead: found_chance(lead.gap, epsilon=epsilon, delta=delta), others=others)
    lower = votes(
        lambda lead: at_least(least - 1 - lead.gap, rate=steep) if lead.gap else 0.0,  # a planted fault
        others=others,
    )

    for n in (2, 5, 8):
        assert worst_delta(mechanism, DOMAIN, n, float(epsilon)).value <= float(delta) + 1e-12
        assert worst_delta(lower, DOMAIN, n, float(epsilon)).value > float(delta)


@pytest.mark.parametrize(("epsilon", "delta"), PRICES)
def test_the_stated_form_spends_half(epsilon: Fraction, delta: Fraction) -> None:
    """Trap 18: (ε/2, ·) holds for A_dist as written, at the δ that `paid` declares; at ε it has room to spare."""
    spent = distance.paid(epsilon=epsilon, delta=delta, stated=True)
    mechanism = votes(lambda lead: found_chance(lead.gap, epsilon=epsilon, delta=delta, stated=True))

    assert spent.epsilon == epsilon / 2
    assert spent.delta < delta
    for n in (2, 5, 8):
        assert worst_delta(mechanism, DOMAIN, n, float(spent.epsilon)).value <= float(spent.delta) + 1e-12
        assert worst_delta(mechanism, DOMAIN, n, float(epsilon) / 2 - 0.05).value > 0  # tight in ε too


def test_at_large_gaps_the_loss_is_epsilon_and_no_less() -> None:
    """The tight form uses ε up: between gaps 12 and 14, far above p(2), ⊥ changes by e^ε exactly."""
    epsilon, delta = Fraction(1, 2), Fraction(1, 5)
    one, other = (found_chance(gap, epsilon=epsilon, delta=delta) for gap in (12, 14))

    assert math.log((1 - one) / (1 - other)) == pytest.approx(0.5, abs=1e-9)


def test_a_runner_up_that_nobody_names_counts_as_zero() -> None:
    """Trap 13. Control: f₂ among the observed solutions only, a lone solution having no rival, gives δ = 1."""
    epsilon, delta = PRICES[0]

    def careless(database: tuple[int | None, ...]) -> Distribution:
        named = Counter(entry for entry in database if entry is not None)
        lead = ahead(named, others=False) if named else Ahead(None, 0)
        chance = found_chance(lead.gap, epsilon=epsilon, delta=delta)
        return {None: 1 - chance} | ({} if lead.best is None else {lead.best: chance})

    assert worst_delta(careless, DOMAIN, 2, 1.0).value > 0.9
    assert ahead({7: 5}, others=True) == Ahead(7, 5)


def test_leads_are_defined_for_ties_for_nobody_and_for_one_solution() -> None:
    """Ties and nothing above 0 lead by 0; a single solution of a full list has no rival; no solutions is an error."""
    assert ahead({1: 4, 2: 4}, others=False).gap == 0
    assert ahead({1: 4, 2: 1, 3: -9}, others=False) == Ahead(1, 3)
    assert ahead({1: -2, 2: -5}, others=True).gap == 0
    assert ahead({}, others=True) == Ahead(None, 0)
    assert ahead({1: -3}, others=False) == Ahead(1, None)
    with pytest.raises(ProtocolError, match="solutions"):
        ahead({}, others=False)


@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [*PRICES, (Fraction(1), Fraction(1, 10**6)), (Fraction(7), Fraction(1, 9))]
)
def test_the_gap_needed_is_the_smallest_that_suffices(epsilon: Fraction, delta: Fraction, *, stated: bool) -> None:
    """By the exact chance; it is within a step or so of the bound for continuous noise."""
    for failure in (Fraction(1, 2), Fraction(1, 10), Fraction(1, 1000)):
        gap = gap_needed(epsilon=epsilon, delta=delta, failure=failure, stated=stated)
        chances = [found_chance(each, epsilon=epsilon, delta=delta, stated=stated) for each in (gap - 1, gap)]
        assert chances[0] < 1 - failure <= chances[1]
        bound = approximate.distance_gap_repaired if stated else approximate.distance_gap_tight
        assert gap <= bound(epsilon=float(epsilon), delta=float(delta), failure=float(failure)) + 2


def test_the_gap_of_proposition_2_is_too_small_at_large_epsilon() -> None:
    """Trap 18: at ε = 20 the stated gap (4/ε)ln(2/βδ) lies below the threshold, and f₁ is missed nearly always."""
    epsilon, delta, failure = Fraction(20), Fraction(1, 100), Fraction(1, 10)
    stated = 4 / float(epsilon) * math.log(2 / float(failure * delta))

    assert found_chance(math.ceil(stated), epsilon=epsilon, delta=delta, stated=True) < 1 - failure
    enough = gap_needed(epsilon=epsilon, delta=delta, failure=failure, stated=True)
    assert found_chance(enough, epsilon=epsilon, delta=delta, stated=True) >= 1 - failure


@pytest.mark.parametrize("stated", [False, True])
def test_it_finds_as_often_as_computed(stated: bool) -> None:
    """2,000 runs at gaps around the threshold, at level 1e-6."""
    epsilon, delta, runs = Fraction(1), Fraction(1, 10), 2000
    draw = below(SimulatedRandom(11))
    least = threshold(epsilon, delta, stated=stated)
    for gap in (1, least - 2, least, least + 3):
        found = sum(choose(gap, epsilon=epsilon, delta=delta, draw=draw, stated=stated) for _ in range(runs))
        chance = found_chance(gap, epsilon=epsilon, delta=delta, stated=stated)
        assert min(binom.cdf(found, runs, chance), binom.sf(found - 1, runs, chance)) > 1e-6 / 8


def test_a_tie_is_never_decided_and_a_lone_solution_always() -> None:
    """Step 4, and F of one solution."""
    draw = below(SimulatedRandom(12))
    epsilon, delta = Fraction(1, 10), Fraction(9, 10)

    assert not any(choose(0, epsilon=epsilon, delta=delta, draw=draw) for _ in range(50))
    assert choose(None, epsilon=epsilon, delta=delta, draw=draw)
    assert found_chance(0, epsilon=epsilon, delta=delta) == 0
    assert found_chance(None, epsilon=epsilon, delta=delta) == 1


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**9), Fraction(1), Fraction(1000)])
def test_thresholds_are_settled_at_any_size(epsilon: Fraction) -> None:
    """δ = 2^-1000 and ε from 1e-9 to 1000; the tight threshold agrees with the formula for continuous noise."""
    for delta in (Fraction(1, 2**1000), Fraction(1, 10**6), Fraction(99, 100)):
        tight, stated = threshold(epsilon, delta), threshold(epsilon, delta, stated=True)
        log = math.log(delta.numerator) - math.log(delta.denominator)
        assert tight == max(2, 2 + math.ceil(-2 / epsilon * (log + math.log1p(math.exp(-epsilon / 2)))))
        assert stated == 2 + math.ceil(-4 / epsilon * log)


def test_a_threshold_next_to_a_border_is_not_rounded_across_it() -> None:
    """Where δ is a hair above or below a tail's value, 60 digits down, no float can tell and this can."""
    from decimal import Decimal, localcontext

    with localcontext(prec=80):
        tail = Fraction(Decimal(-5).exp() / (1 + Decimal("-0.5").exp()))  # Pr[noise ≥ 10] at ε = 1
    hair = Fraction(1, 10**60)

    assert threshold(Fraction(1), tail + hair) == 12
    assert threshold(Fraction(1), tail - hair) == 13
    assert float(tail + hair) == float(tail - hair)


def test_it_costs_what_it_declares_and_refuses_nonsense() -> None:
    """(ε,δ), and errors for prices that are none."""
    epsilon, delta = PRICES[0]

    assert distance.paid(epsilon=epsilon, delta=delta) == Paid(epsilon, delta)
    for wrong in ((Fraction(0), delta), (epsilon, Fraction(0)), (epsilon, Fraction(1))):
        with pytest.raises(ProtocolError):
            threshold(*wrong)
    with pytest.raises(ProtocolError, match="failure"):
        gap_needed(epsilon=epsilon, delta=delta, failure=Fraction(1))
