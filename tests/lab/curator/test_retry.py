"""A* by retrying: the text's K runs, repaired, and without counting them. Exact losses, traps 6 and 8, utility."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pytest
from scipy.stats import binom, chi2

from askance_lab.curator import insist
from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import Distribution, loss, worst_loss
from askance_lab.curator.draws import Below, below
from askance_lab.curator.parity import attempt_distribution
from askance_lab.curator.parity import inclusion as inclusion_of_one
from askance_lab.curator.privacy import Paid
from askance_lab.curator.retry import exact_loss, inclusion, learn, paid, repeated, retry_distribution
from askance_lab.theory.parity import parity_retry_repaired, parity_retry_sharp
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom
from tests.lab.curator.curating import ONE, hard

Entry: TypeAlias = tuple[tuple[int, ...], int]
TINY = 1e-6
TWO_BITS: list[Entry] = [(x, y) for x in itertools.product((0, 1), repeat=2) for y in (0, 1)]
CONTRADICTORY: list[Entry] = [((1, 0), 0), ((1, 0), 1)] * 20


def sample_of(rows: Sequence[Entry]) -> BitSample:
    return BitSample.from_rows(len(rows[0][0]), rows)


def insistent(sample: BitSample, p: Fraction, s: float = float(insist.SILENCE)) -> Distribution[int | None]:
    """`insist`'s distribution at any p, written as a sum over the tries."""
    once = attempt_distribution(sample, p, silence=Fraction(0))
    none = once[None]
    tries = range(4000)
    spoken = math.fsum((1 - s) ** (k + 1) * none**k for k in tries)
    silent = math.fsum(s * (1 - s) ** k * none**k for k in tries)
    return {h: silent if h is None else spoken * chance for h, chance in once.items()}


# --- Privacy -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 2), ONE, Fraction(3)], ids=str)
def test_the_loss_of_k_runs_is_within_epsilon_on_two_bits_and_three_examples(epsilon: Fraction, runs: int) -> None:
    worst = worst_loss(lambda rows: retry_distribution(sample_of(rows), epsilon=epsilon, runs=runs), TWO_BITS, 3)
    p = inclusion(epsilon, runs)

    assert worst.value <= float(epsilon) + 1e-12
    # ⊥ alone shows K·ln(1+p).
    assert worst.value >= runs * math.log1p(p) - 1e-9
    assert exact_loss(p, runs) <= float(epsilon) + 1e-9


def test_all_of_epsilon_is_spent_where_the_runs_decide_and_one_percent_more_of_p_is_caught() -> None:
    p = inclusion(ONE, 5)
    assert p == pytest.approx(math.exp(0.2) - 1, rel=1e-9)

    def at(p: Fraction) -> float:
        return worst_loss(lambda rows: repeated(attempt_distribution(sample_of(rows), p), 5), TWO_BITS, 3).value

    assert at(p) == pytest.approx(1, abs=1e-9)
    assert at(p * Fraction(101, 100)) > 1.005


def test_the_texts_own_rate_spends_less_than_half_of_its_epsilon() -> None:
    """Trap 8: it lets each run pay ε/K for all that A might show, though it shows an h once."""
    p = inclusion(ONE, 5, stated=True)
    worst = worst_loss(lambda rows: retry_distribution(sample_of(rows), epsilon=ONE, runs=5, stated=True), TWO_BITS, 3)

    assert p == Fraction(1, 20)
    assert worst.value < 0.5


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), ONE, Fraction(3)], ids=str)
def test_the_loss_of_uncounted_tries_is_within_epsilon_whatever_the_silence(epsilon: Fraction) -> None:
    for silence in (Fraction(1, 2), insist.SILENCE, Fraction(1, 10**6)):
        worst = worst_loss(
            lambda rows, s=silence: insist.insist_distribution(sample_of(rows), epsilon=epsilon, silence=s), TWO_BITS, 3
        )
        assert worst.value <= float(epsilon) + 1e-12


def plateau(rest: int, entry: Entry) -> BitSample:
    """Many examples against r = 0, and one that is for it, or not."""
    return sample_of([((1, 0), 1)] * rest + [entry])


def test_uncounted_tries_come_near_their_bound_and_a_rate_that_is_as_a_has_it_is_caught() -> None:
    """Here h = 00 is excluded by ever more sets: one example halves its rivals and makes the other sets void."""

    def between(p: Fraction) -> float:
        for_it, against = (insistent(plateau(60, ((1, 0), y)), p, s=1e-3) for y in (0, 1))
        return loss(for_it, against)

    ours = inclusion(ONE, 1)
    assert 0.99 < between(ours) <= 1
    assert between(inclusion_of_one(ONE)) > 1.5
    assert between(ours * Fraction(103, 100)) > 1.01


def test_the_closed_form_of_uncounted_tries_is_the_sum_over_the_tries() -> None:
    for rows in ([((1, 0), 1), ((0, 1), 0), ((1, 1), 0)], CONTRADICTORY, TWO_BITS):
        ours = insist.insist_distribution(sample_of(rows), epsilon=ONE)
        theirs = insistent(sample_of(rows), inclusion(ONE, 1))

        assert math.fsum(ours.values()) == pytest.approx(1, abs=1e-12)
        assert all(ours.get(h, 0.0) == pytest.approx(each, abs=1e-12) for h, each in theirs.items())


def test_more_retries_without_paying_for_them_are_caught() -> None:
    """The control of `K·ln(1+p)`: A's own p with five runs."""
    p = inclusion_of_one(ONE)
    worst = worst_loss(lambda rows: repeated(attempt_distribution(sample_of(rows), p), 5), TWO_BITS, 3)

    assert worst.value == pytest.approx(5 * math.log1p(p), abs=1e-9)
    assert worst.value > 1.8


@pytest.mark.parametrize("epsilon", ["1e-9", "1/10", "1", "5", "40", "800"])
@pytest.mark.parametrize("runs", [1, 5, 30])
def test_p_keeps_to_both_conditions_in_exact_arithmetic_and_is_near_the_bounds(epsilon: str, runs: int) -> None:
    p = inclusion(Fraction(epsilon), runs)

    assert 0 < p < 1
    if Fraction(epsilon) < 20:
        grown = Fraction(math.exp(Fraction(epsilon))) * (1 + Fraction(1, 2**50))
        assert (1 + p) ** runs <= grown
        assert (1 + p) <= grown * (1 - p) ** 2
        assert exact_loss(p, runs) == pytest.approx(float(Fraction(epsilon)), rel=1e-6)


# --- What it draws --------------------------------------------------------------------------------------------------


def k_runs(sample: BitSample, draw: Below) -> int | None:
    return learn(sample, epsilon=ONE, runs=3, draw=draw)


def uncounted(sample: BitSample, draw: Below) -> int | None:
    return insist.learn(sample, epsilon=ONE, silence=Fraction(1, 5), draw=draw)


@pytest.mark.parametrize("version", [k_runs, uncounted])
def test_each_version_draws_from_its_own_distribution_and_not_from_the_others(
    version: Callable[[BitSample, Below], int | None],
) -> None:
    sample, draw, runs = (
        sample_of([((1, 0), 1), ((1, 0), 0), ((0, 1), 0), ((1, 1), 0)]),
        below(SimulatedRandom(4)),
        3000,
    )
    theirs = {
        k_runs: retry_distribution(sample, epsilon=ONE, runs=3),
        uncounted: insist.insist_distribution(sample, epsilon=ONE, silence=Fraction(1, 5)),
    }
    counts = Counter(version(sample, draw) for _ in range(runs))
    for other, expected in theirs.items():
        gap = math.fsum((counts.get(h, 0) - runs * each) ** 2 / (runs * each) for h, each in expected.items())
        assert (chi2.sf(gap, len(expected) - 1) > TINY) == (other is version)


def test_contradictory_examples_end_in_bottom_or_a_parity_and_never_for_ever() -> None:
    draw = below(SimulatedRandom(3))
    sample = sample_of(CONTRADICTORY)

    assert {learn(sample, epsilon=Fraction(5), runs=4, draw=draw) for _ in range(20)} == {None}
    assert {insist.learn(sample, epsilon=Fraction(5), draw=draw) for _ in range(20)} == {None}


# --- Utility -------------------------------------------------------------------------------------------------------


def test_a_fractional_number_of_runs_rounded_down_stays_silent_more_often_than_the_text_allows() -> None:
    """Trap 6: log₂(1/β') runs, β' = β/2, are 4.3; and step 1 takes up all of β' that the text counts for it."""
    beta = 0.1
    sample = sample_of([((1, 0), 1), ((0, 1), 1)])
    literal = retry_distribution(sample, epsilon=ONE, runs=math.floor(math.log2(2 / beta)))
    repaired = parity_retry_repaired(dimension=2, epsilon=1, error=0.1, failure=beta)

    assert literal[None] > beta / 2
    assert retry_distribution(sample, epsilon=ONE, runs=repaired.runs)[None] <= beta / 3


def k_runs_at_the_bound() -> tuple[int, Callable[[BitSample, Below], int | None]]:
    plan = parity_retry_sharp(dimension=10, epsilon=1, error=0.1, failure=0.1)
    return plan.examples, lambda sample, draw: learn(sample, epsilon=ONE, runs=plan.runs, draw=draw)


def stated_rate_at_the_repaired_bound() -> tuple[int, Callable[[BitSample, Below], int | None]]:
    plan = parity_retry_repaired(dimension=10, epsilon=1, error=0.1, failure=0.1)
    return plan.examples, lambda sample, draw: learn(sample, epsilon=ONE, runs=plan.runs, draw=draw, stated=True)


def uncounted_at_the_bound() -> tuple[int, Callable[[BitSample, Below], int | None]]:
    plan = insist.examples_needed(dimension=10, epsilon=1, error=0.1, failure=0.1)
    return plan.examples, lambda sample, draw: insist.learn(sample, epsilon=ONE, silence=plan.silence, draw=draw)


@pytest.mark.parametrize("plan", [k_runs_at_the_bound, stated_rate_at_the_repaired_bound, uncounted_at_the_bound])
def test_at_its_bound_the_error_is_within_alpha_nine_times_of_ten_and_at_a_quarter_of_the_need_it_is_not(
    plan: Callable[[], tuple[int, Callable[[BitSample, Below], int | None]]],
) -> None:
    n, version = plan()
    runs, draw = 300, below(SimulatedRandom(12))

    def improbable(n: int) -> bool:
        right = sum(version(sample, draw) == r for sample, r in (hard(10, n, 0.1, seed) for seed in range(runs)))
        return bool(binom.cdf(right, runs, 0.9) < TINY)

    assert not improbable(n)
    assert improbable(n // (10 if n > 1000 else 3))


def test_with_256_bits_it_finds_r_among_as_many_uniform_examples_as_its_bound_says() -> None:
    d, runs = 256, 20
    plan = insist.examples_needed(dimension=d, epsilon=1, error=0.1, failure=0.1)
    rng, draw = np.random.default_rng(5), below(SimulatedRandom(15))
    right = 0
    for _ in range(runs):
        x, r = rng.integers(0, 2, (plan.examples, d), np.uint8), rng.integers(0, 2, d, np.uint8)
        found = insist.learn(BitSample.of(x, x @ r % 2), epsilon=ONE, silence=plan.silence, draw=draw)
        right += found == sum(int(bit) << j for j, bit in enumerate(r))

    assert binom.cdf(right, runs, 0.9) > TINY
    assert plan.examples < 6000


def test_the_users_needed_are_below_those_of_the_repaired_text_and_do_not_grow_with_the_certainty() -> None:
    sharp = parity_retry_sharp(dimension=10, epsilon=1, error=0.1, failure=0.1)
    ours = insist.examples_needed(dimension=10, epsilon=1, error=0.1, failure=0.1)
    certain = insist.examples_needed(dimension=10, epsilon=1, error=0.1, failure=1e-6)

    assert ours.examples < sharp.examples <= 352 * 1.3
    assert 0 < ours.silence <= Fraction(1, 160)
    # ln(1/β) on top of d·ln 2, where K runs multiply the two.
    assert certain.examples < 3 * ours.examples
    assert parity_retry_sharp(dimension=10, epsilon=1, error=0.1, failure=1e-6).examples > 8 * ours.examples


# --- Refusals ------------------------------------------------------------------------------------------------------


def test_epsilon_runs_and_silence_out_of_range_are_refused() -> None:
    sample, draw = sample_of(TWO_BITS), below(SimulatedRandom(1))

    with pytest.raises(ProtocolError, match="must be positive"):
        learn(sample, epsilon=Fraction(0), runs=2, draw=draw)
    with pytest.raises(ProtocolError, match="must be positive"):
        insist.learn(sample, epsilon=Fraction(-1), draw=draw)
    with pytest.raises(ProtocolError, match="at least 1"):
        learn(sample, epsilon=ONE, runs=0, draw=draw)
    with pytest.raises(ProtocolError, match="must lie in"):
        learn(sample, epsilon=ONE, runs=10**6, draw=draw)
    with pytest.raises(ProtocolError, match=r"p = ε/4 is not ε-private"):
        learn(sample, epsilon=Fraction(8), runs=2, draw=draw, stated=True)
    for silence in (Fraction(0), Fraction(1), Fraction(2)):
        with pytest.raises(ProtocolError, match="between 0 and 1"):
            insist.learn(sample, epsilon=ONE, draw=draw, silence=silence)
        with pytest.raises(ProtocolError, match="between 0 and 1"):
            insist.insist_distribution(sample, epsilon=ONE, silence=silence)


def test_what_is_paid_is_epsilon() -> None:
    assert paid(Fraction(1, 3)) == Paid(Fraction(1, 3))
