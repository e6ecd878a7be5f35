"""The (ε,δ) learner of POINT_d: BNS13, Lemma 1, by exact sums and by enumeration of neighbours."""

from __future__ import annotations

from fractions import Fraction

import pytest
from scipy.stats import binom

from askance_lab.curator import distance, point
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution, worst_delta
from askance_lab.curator.draws import below
from askance_lab.theory.approximate import examples_point_repaired
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom

ONE, MICRO, TENTH = Fraction(1), Fraction(1, 10**6), Fraction(1, 10)
ENTRIES = [(x, y) for x in range(4) for y in (False, True)]
CHANCE = 1e-6


def sample_of(entries: tuple[tuple[int, bool], ...], d: int = 2) -> LabelledSample:
    return LabelledSample.of(d, *zip(*entries, strict=True))


@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize(("epsilon", "delta"), [(ONE, Fraction(1, 5)), (ONE / 2, Fraction(1, 8))])
def test_over_all_neighbours_on_four_points_of_128_delta_is_at_most_what_it_pays(
    epsilon: Fraction, delta: Fraction, stated: bool
) -> None:
    price = point.paid(epsilon=epsilon, delta=delta, stated=stated)

    def learner(entries: tuple[tuple[int, bool], ...]) -> Distribution:
        return point.point_distribution(sample_of(entries, d=7), epsilon=epsilon, delta=delta, stated=stated)

    worst = worst_delta(learner, ENTRIES, 4, float(price.epsilon)).value

    # Nearly all is used: a lead of 2 may turn into one of another point. The guess hides little among 2^7.
    assert 0.4 * float(price.delta) <= worst <= float(price.delta) + 1e-9


def test_without_the_unobserved_points_in_f2_it_is_not_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 13, the literal version: two highest of the points that appear. A single one then has no rival."""
    price = point.paid(epsilon=ONE, delta=Fraction(1, 5))
    ahead = distance.ahead
    monkeypatch.setattr(distance, "ahead", lambda scores, *, others: ahead(scores, others=not scores))

    def learner(entries: tuple[tuple[int, bool], ...]) -> Distribution:
        return point.point_distribution(sample_of(entries), epsilon=price.epsilon, delta=price.delta)

    assert worst_delta(learner, ENTRIES, 3, 1.0).value > 0.4 > price.delta


def test_what_is_drawn_has_the_distribution_that_is_computed() -> None:
    sample = sample_of(((2, True),) * 6 + ((1, True),) + ((3, False),) * 4)
    exact = point.point_distribution(sample, epsilon=ONE, delta=TENTH)
    draw = below(SimulatedRandom(1))
    drawn = [point.learn(sample, epsilon=ONE, delta=TENTH, draw=draw) for _ in range(4000)]

    assert sum(exact.values()) == pytest.approx(1, abs=1e-12)
    for j, chance in exact.items():
        assert binom.cdf(drawn.count(j), 4000, chance) > CHANCE
        assert binom.sf(drawn.count(j) - 1, 4000, chance) > CHANCE


@pytest.mark.parametrize("stated", [False, True])
@pytest.mark.parametrize("d", [9, 16, 1024])
def test_at_the_examples_needed_every_mass_is_found_or_may_be_guessed(d: int, stated: bool) -> None:
    """Row of the yardstick: 344 to 672 users at any d for 1.05α. As proved, for all masses: 366 and 697."""

    def missed(examples: int, mass: float) -> float:
        return point.missed(examples, mass, epsilon=ONE, delta=MICRO, stated=stated)

    m = point.examples_needed(d, epsilon=ONE, delta=MICRO, error=TENTH, failure=TENTH, stated=stated)
    border = 0.1 * (1 - 100 / 2**d)
    guesses_above = 1 / ((0.1 - border) * 2**d) if d < 64 else 0.1

    assert missed(m, border) <= 0.1 < missed(m - 1, border)
    assert all(missed(m, border + extra) <= 0.1 for extra in (0.001, 0.01, 0.1, 0.5))
    assert guesses_above <= 0.1 + 1e-9
    assert m <= examples_point_repaired(dimension=d, epsilon=1, delta=1e-6, error=0.1, failure=0.1)


def test_at_the_yardsticks_mass_it_needs_348_users_and_664_as_stated() -> None:
    def missed(m: int, *, stated: bool) -> float:
        return point.missed(m, 0.105, epsilon=ONE, delta=MICRO, stated=stated)

    assert missed(348, stated=False) <= 0.1 < missed(347, stated=False)
    assert missed(664, stated=True) <= 0.1 < missed(663, stated=True)
    assert point.examples_needed(64, epsilon=ONE, delta=MICRO, error=TENTH, failure=TENTH) == 366


def test_with_1024_bits_it_learns_from_as_many_users_as_with_32() -> None:
    draw, target, d = below(SimulatedRandom(2)), (1 << 1023) + 12345, 1024
    m = point.examples_needed(d, epsilon=ONE, delta=MICRO, error=TENTH, failure=TENTH)
    right = 0
    for _ in range(200):
        points = [target if draw(1000) < 105 else draw(1 << 1024) for _ in range(m)]
        sample = LabelledSample.of(d, points, [x == target for x in points])
        right += point.learn(sample, epsilon=ONE, delta=MICRO, draw=draw) == target

    assert binom.cdf(right, 200, 0.9) > CHANCE


def test_at_two_to_the_d_just_above_one_over_alpha_beta_the_guess_alone_fails_too_often() -> None:
    """Trap 18, on Lemma 1's condition. d = 7, t = .03 and 13 points of mass .97/13: as few examples do not find j."""
    wrong = 0.97 / 13

    assert 2**7 >= 1 / (0.1 * 0.1)
    assert 0.03 + wrong > 0.1
    enough_at_nine_bits = point.examples_needed(9, epsilon=ONE, delta=MICRO, error=TENTH, failure=TENTH)
    assert point.missed(enough_at_nine_bits, 0.03, epsilon=ONE, delta=MICRO) * 13 / 2**7 > 0.1
    with pytest.raises(ProtocolError, match="2\\^d"):
        point.examples_needed(7, epsilon=ONE, delta=MICRO, error=TENTH, failure=TENTH)


def test_no_ones_and_all_points_alike_give_a_uniform_guess() -> None:
    for entries in (((0, False),) * 9, tuple((x, True) for x in range(4)) * 3):
        exact = point.point_distribution(sample_of(entries), epsilon=ONE, delta=TENTH)

        assert set(exact.values()) == {0.25}


@pytest.mark.parametrize(("epsilon", "delta"), [(Fraction(0), TENTH), (ONE, Fraction(0)), (ONE, ONE), (-ONE, TENTH)])
def test_epsilon_and_delta_out_of_range_are_refused(epsilon: Fraction, delta: Fraction) -> None:
    sample = sample_of(((1, True),) * 3)

    with pytest.raises(ProtocolError):
        point.learn(sample, epsilon=epsilon, delta=delta, draw=below(SimulatedRandom(0)))


def test_a_distribution_over_too_many_points_is_refused() -> None:
    with pytest.raises(ProtocolError, match="too many points"):
        point.point_distribution(LabelledSample.of(64, [5], [True]), epsilon=ONE, delta=TENTH)
