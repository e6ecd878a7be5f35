"""The private PARITY learner A: its exact loss, its traps, its utility at the sample bound."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest
from scipy.stats import binom, chi2

from askance_lab.curator.affine import solve
from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import Distribution, loss, worst_loss
from askance_lab.curator.draws import below
from askance_lab.curator.parity import (
    attempt_distribution,
    coins,
    exact_loss,
    grown,
    inclusion,
    learn,
    paid,
    parity_distribution,
)
from askance_lab.curator.privacy import Paid
from askance_lab.theory.parity import examples_parity_sharp, examples_parity_stated
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom
from tests.lab.curator.curating import hard

Entry: TypeAlias = tuple[tuple[int, ...], int]
TINY = 1e-6
TWO_BITS: list[Entry] = [(x, y) for x in itertools.product((0, 1), repeat=2) for y in (0, 1)]
EPSILONS = [Fraction(1, 10), Fraction(1, 2), Fraction(1)]


def sample_of(rows: Sequence[Entry]) -> BitSample:
    return BitSample.from_rows(len(rows[0][0]), rows)


def by_subsets(sample: BitSample, p: Fraction) -> Distribution:
    """A's distribution written down again: every set that may be kept, solved by elimination."""
    total: dict[int | None, float] = dict.fromkeys([None, *range(1 << sample.d)], 0.0)
    total[None] = 0.5
    for kept in itertools.product((False, True), repeat=len(sample)):
        chance = 0.5 * math.prod(float(p) if each else 1 - float(p) for each in kept)
        chosen = np.array(kept)
        space = solve(sample.d, sample.words[chosen], sample.labels[chosen])
        if space is None:
            total[None] += chance
            continue
        for choice in range(1 << space.dimension):
            total[space.solution(choice)] += chance / (1 << space.dimension)
    return total


@pytest.mark.parametrize("stated", [False, True], ids=["tanh", "quarter"])
@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
def test_the_worst_loss_on_two_bits_and_three_examples_is_exactly_what_p_says(epsilon: Fraction, stated: bool) -> None:
    p = inclusion(epsilon, stated=stated)
    worst = worst_loss(lambda rows: parity_distribution(sample_of(rows), epsilon=epsilon, stated=stated), TWO_BITS, 3)
    tight = math.log((1 + p) / (1 - p))

    assert worst.value == pytest.approx(tight, abs=1e-9)
    assert exact_loss(p) == pytest.approx(tight, abs=1e-12)
    assert worst.value <= float(epsilon) + 1e-12
    if not stated:
        assert worst.value == pytest.approx(float(epsilon), abs=1e-9)


def test_without_step_one_the_loss_is_unbounded_and_the_enumeration_says_so() -> None:
    p = inclusion(Fraction(1))
    worst = worst_loss(lambda rows: attempt_distribution(sample_of(rows), p, silence=Fraction(0)), TWO_BITS, 3)

    assert worst.value == math.inf


def test_bottom_has_probability_one_half_on_examples_of_a_parity_and_more_on_others() -> None:
    for rows in itertools.combinations_with_replacement(TWO_BITS, 3):
        silent = parity_distribution(sample_of(rows), epsilon=Fraction(1))[None]
        consistent = solve(2, sample_of(rows).words, sample_of(rows).labels) is not None

        assert silent == pytest.approx(0.5, abs=1e-12) if consistent else silent > 0.5 + 1e-3


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_distribution_by_subspaces_is_that_of_all_subsets(d: int) -> None:
    rng = np.random.default_rng(d)
    for n in (1, 4, 7):
        sample = BitSample.of(rng.integers(0, 2, (n, d)), rng.integers(0, 2, n))
        for p in (Fraction(1, 5), inclusion(Fraction(2))):
            ours, theirs = attempt_distribution(sample, p), by_subsets(sample, p)
            assert math.fsum(ours.values()) == pytest.approx(1, abs=1e-12)
            assert all(ours.get(h, 0.0) == pytest.approx(chance, abs=1e-12) for h, chance in theirs.items())


def test_the_learner_draws_from_its_distribution() -> None:
    rows: list[Entry] = [((1, 0), 1), ((1, 0), 1), ((0, 1), 0), ((1, 1), 0)]
    sample, draw, runs = sample_of(rows), below(SimulatedRandom(4)), 3000
    expected = parity_distribution(sample, epsilon=Fraction(1))
    counts = Counter(learn(sample, epsilon=Fraction(1), draw=draw) for _ in range(runs))

    def improbable(theirs: Distribution) -> bool:
        gap = math.fsum((counts.get(h, 0) - runs * each) ** 2 / (runs * each) for h, each in theirs.items())
        return bool(chi2.sf(gap, len(theirs) - 1) < TINY)

    assert not improbable(expected)
    # The control: the other p is another distribution.
    assert improbable(parity_distribution(sample, epsilon=Fraction(1), stated=True))


# --- p: trap 8 ----------------------------------------------------------------------------------------------------


def test_a_quarter_of_epsilon_is_private_up_to_3_830_where_the_texts_stop_at_one_half() -> None:
    epsilon = Fraction("3.83")
    p = inclusion(epsilon, stated=True)
    worst = worst_loss(lambda rows: parity_distribution(sample_of(rows), epsilon=epsilon, stated=True), TWO_BITS, 2)

    assert p == epsilon / 4
    assert 0.99 * 3.83 < worst.value <= 3.83


def test_a_quarter_of_epsilon_at_3_9_is_not_private_and_refused() -> None:
    literal = Fraction("3.9") / 4
    worst = worst_loss(lambda rows: attempt_distribution(sample_of(rows), literal), TWO_BITS, 2)

    assert worst.value > 4.3
    with pytest.raises(ProtocolError, match=r"p = ε/4 is not ε-private"):
        inclusion(Fraction("3.9"), stated=True)
    with pytest.raises(ProtocolError, match=r"p = ε/4 is not ε-private"):
        learn(sample_of(TWO_BITS), epsilon=Fraction("3.9"), stated=True, draw=below(SimulatedRandom(1)))
    ours = worst_loss(lambda rows: parity_distribution(sample_of(rows), epsilon=Fraction("3.9")), TWO_BITS, 2)
    assert ours.value == pytest.approx(3.9, abs=1e-9)


@pytest.mark.parametrize("epsilon", ["1e-200", "1e-30", "1e-9", "1/10", "1", "3.9", "20", "40", "800"])
def test_p_is_a_fraction_below_tanh_of_half_epsilon_and_close_to_it(epsilon: str) -> None:
    p = inclusion(Fraction(epsilon))

    assert 0 < p < 1
    assert (1 + p) / (1 - p) <= grown(Fraction(epsilon))
    assert float(p) == pytest.approx(math.tanh(float(Fraction(epsilon)) / 2), rel=1e-10)


def test_the_bound_on_e_to_the_epsilon_is_below_it_and_near() -> None:
    for epsilon in (Fraction(1, 10**50), Fraction(1, 3), Fraction(7, 2), Fraction(64)):
        # e^ε between two of its partial sums.
        terms = [Fraction(1)]
        for k in range(1, 300):
            terms.append(terms[-1] * epsilon / k)
        exact = sum(terms)
        assert grown(epsilon) <= exact
        # Above ε³/6 of its size no digit of it may be missing.
        assert 1 - grown(epsilon) / exact <= max(Fraction(2, 10**40), Fraction(0))


# --- Coins ---------------------------------------------------------------------------------------------------------


def test_coins_decide_by_their_first_32_bits_and_a_tie_by_the_rest_of_the_chance() -> None:
    chance = Fraction(3 * 7 + 2, 7) / 2**32  # first 32 bits: 3, and 2/7 of a unit
    lanes = [2, 3, 4] + [0] * 125
    words = int.from_bytes(np.array(lanes, "<u4").tobytes(), "little")

    for rest, tied in ((1, True), (2, False)):
        script = {1 << 4096: words, 7: rest}
        assert coins(3, chance, script.__getitem__).tolist() == [True, tied, False]


@pytest.mark.parametrize(
    "chance", [Fraction(1, 40), inclusion(Fraction(1)), Fraction(1, 2)], ids=["1/40", "tanh", "1/2"]
)
def test_coins_fall_as_often_as_they_should(chance: Fraction) -> None:
    shown = int(coins(100_000, chance, below(SimulatedRandom(8))).sum())

    def improbable(p: float) -> bool:
        return bool(min(binom.cdf(shown, 100_000, p), binom.sf(shown - 1, 100_000, p)) < TINY)

    assert not improbable(float(chance))
    assert improbable(0.85 * float(chance))


def test_coins_of_chance_zero_and_one_are_certain() -> None:
    draw = below(SimulatedRandom(2))

    assert not coins(300, Fraction(0), draw).any()
    assert coins(300, Fraction(1), draw).all()


# --- Utility -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stated", [False, True], ids=["tanh", "quarter"])
def test_at_the_sample_bound_one_run_is_right_a_quarter_of_the_time_and_far_below_it_is_not(stated: bool) -> None:
    d, alpha, runs = 10, 0.1, 300
    epsilon, draw = Fraction(1), below(SimulatedRandom(11))
    p = inclusion(epsilon, stated=stated)
    # The texts' bound is for Pr ≥ ¼; the direct one with β' = ½ leaves as much.
    enough = (
        examples_parity_stated(dimension=d, epsilon=1, error=alpha)
        if stated
        else examples_parity_sharp(dimension=d, inclusion=float(p), error=alpha, failure=0.5)
    )

    def improbable(n: int) -> bool:
        right = 0
        for seed in range(runs):
            sample, r = hard(d, n, alpha, seed)
            right += learn(sample, epsilon=epsilon, draw=draw, stated=stated) == r
        return bool(binom.cdf(right, runs, 0.25) < TINY)

    assert not improbable(enough)
    assert improbable(enough // 8 if stated else enough // 3)


# --- Refusals and corners ------------------------------------------------------------------------------------------


def test_contradictory_and_repeated_examples_give_bottom_or_a_parity_and_never_a_crash() -> None:
    draw = below(SimulatedRandom(3))
    contradictory = sample_of([((1, 0), 0), ((1, 0), 1)] * 50)
    repeated = sample_of([((1, 1), 1)] * 100)

    assert all(learn(contradictory, epsilon=Fraction(3), draw=draw) is None for _ in range(50))
    assert {learn(repeated, epsilon=Fraction(3), draw=draw) for _ in range(60)} == {None, 0b01, 0b10}


def test_examples_too_few_for_any_accuracy_are_learned_from_privately_all_the_same() -> None:
    one = sample_of([((1, 0), 1)])

    assert loss(*(parity_distribution(sample_of([row]), epsilon=Fraction(1)) for row in TWO_BITS[:2])) <= 1 + 1e-12
    assert learn(one, epsilon=Fraction(1), draw=below(SimulatedRandom(1))) in {None, 0, 1, 2, 3}


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(-1)], ids=str)
def test_an_epsilon_that_is_not_positive_is_refused(epsilon: Fraction) -> None:
    for ask in (lambda: inclusion(epsilon), lambda: paid(epsilon), lambda: inclusion(epsilon, stated=True)):
        with pytest.raises(ProtocolError, match="must be positive"):
            ask()


def test_what_is_paid_is_epsilon() -> None:
    assert paid(Fraction(1, 3)) == Paid(Fraction(1, 3))


def test_a_distribution_over_too_many_hypotheses_is_refused() -> None:
    with pytest.raises(ProtocolError, match="must lie in"):
        parity_distribution(BitSample.of(np.zeros((2, 11)), np.zeros(2)), epsilon=Fraction(1))
