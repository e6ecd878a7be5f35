"""The POINT_d sanitizer: its accuracy at its conditions, its price by enumeration, and what each part is there for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from scipy.stats import binom

from askance_lab.curator import choosing, geometric, point_sanitizer
from askance_lab.curator.distributions import Distribution, hockey_stick, loss, worst_delta
from askance_lab.curator.draws import below
from askance_lab.curator.mechanism import ExactParameters
from askance_lab.curator.point_sanitizer import (
    FoundPoints,
    examples_needed,
    paid,
    rounds_for,
    sanitize,
    sanitize_distribution,
)
from askance_lab.curator.sanitizer_error import point_deviation
from askance_lab.theory.sanitizers import examples_choosing, examples_point_sanitizer, point_rounds
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom

F = Fraction
ASKED: ExactParameters = {"epsilon": F(1), "delta": F(1, 10**6), "error": F(1, 10), "failure": F(1, 10)}

# Tiny: ε' = 4 and δ' = .2 a round at α' = .9, where the choosing mechanism's bound on m is met by 12 entries
EACH = F(4)
LOOSE = {"epsilon": 4.0, "delta": 0.2, "error": 0.9, "failure": 0.9}
M = examples_choosing(growth=1, **LOOSE)
DOMAIN = range(3)


def found(points: Sequence[int], *, rounds: int, epsilon: Fraction = EACH) -> Distribution[FoundPoints]:
    return sanitize_distribution(Counter(points), len(points), rounds=rounds, epsilon=epsilon, error=F(9, 10))


def nine_heavy_and_singletons(m: int) -> list[int]:
    heavy = [p for p in range(9) for _ in range(int(0.105 * m))]
    return heavy + list(range(1000, 1000 + m - len(heavy)))


@pytest.mark.parametrize("tight", [False, True])
def test_nine_points_of_mass_105_among_singletons_are_all_estimated_within_alpha(tight) -> None:
    m = examples_needed(**ASKED, tight=tight)
    points = nine_heavy_and_singletons(m)
    true, draw, runs = Counter(points), below(SimulatedRandom(11)), 25
    worst = [point_deviation(true, sanitize(64, points, draw=draw, tight=tight, **ASKED).counts) for _ in range(runs)]
    close = sum(each <= m / 10 for each in worst)

    assert binom.cdf(close, runs, 0.9) > 1e-6
    assert close >= 20  # 19 and fewer of 25 would hardly show .9


def test_its_database_is_within_2_alpha_and_has_m_entries() -> None:
    m = examples_needed(**ASKED, tight=True)
    points = nine_heavy_and_singletons(m)
    estimates = sanitize(64, points, draw=below(SimulatedRandom(3)), tight=True, **ASKED)
    database = estimates.database()

    assert sum(database.values()) == m
    assert point_deviation(Counter(points), database) <= m / 5
    assert estimates.of(5) == F(estimates.counts[5], m)
    assert estimates.of(999) == 0


def test_one_round_is_private_as_declared_by_enumeration() -> None:
    """A choosing mechanism of (ε',δ') and a noisy count of ε', over all databases of 12 entries on three points."""
    assert M == 12
    exact = worst_delta(lambda points: found(points, rounds=1), DOMAIN, M, 2 * float(EACH))

    assert exact.value <= LOOSE["delta"] + 1e-9


def test_two_rounds_are_private_by_enumeration_at_a_price_in_which_both_counts_share_a_sensitivity_of_2() -> None:
    """`paid` says 2ε' for the choices and 2ε' for the counts of every round together, and 2δ'."""
    exact = worst_delta(lambda points: found(points, rounds=2), DOMAIN, M, 4 * float(EACH))

    assert exact.value <= 2 * LOOSE["delta"] + 1e-9
    assert 0.001 < exact.value < 0.01  # what is left is δ's: a lone entry's point, which the other database never names


def test_the_counts_really_cost_two_and_not_one() -> None:
    """An entry that moves from one counted point to another: the bound of 2ε' is met by the likeliest outputs."""
    one, other = found([0] * 6 + [1] * 6, rounds=2), found([0] * 5 + [1] * 7, rounds=2)
    both = ((0, 6), (1, 6))

    assert loss({both: one[both]}, {both: other[both]}) >= 2 * float(EACH) - 2


def test_control_the_whole_epsilon_in_every_round_is_caught() -> None:
    """Undivided: each mechanism is given what all of them together may cost."""
    exact = worst_delta(lambda points: found(points, rounds=2), DOMAIN, M, float(EACH))

    assert exact.value > 2 * LOOSE["delta"]


def test_control_counts_without_noise_are_caught() -> None:
    def noiseless(points: Sequence[int]) -> Any:
        counts = Counter(points)
        chosen = choosing.choosing_distribution(counts, M, epsilon=EACH, error=F(9, 10))
        return {point and (point, counts[point]): chance for point, chance in chosen.items()}

    exact = worst_delta(noiseless, DOMAIN, M, 2 * float(EACH))

    assert exact.value > 0.5 > LOOSE["delta"]


def test_control_deleting_without_null_elements_is_caught() -> None:
    """With m, the threshold αm/2 shrinks, until one entry that is left over passes it: on a neighbour it never does."""

    def shrinking(counts: Counter[int], m: int, rounds: int) -> dict[tuple[int, ...], float]:
        if not rounds or not m:
            return {(): 1.0}
        chosen = choosing.choosing_distribution(counts, m, epsilon=EACH, error=F(9, 10))
        total: dict[tuple[int, ...], float] = {(): chosen[None]}
        for point in (each for each in chosen if each is not None):
            rest = Counter({other: count for other, count in counts.items() if other != point})
            for tail, chance in shrinking(rest, m - counts[point], rounds - 1).items():
                total[(point, *tail)] = chosen[point] * chance  # the counts' noise would hide none of it
        return total

    exact = worst_delta(lambda points: shrinking(Counter(points), M, 2), DOMAIN, M, 4 * float(EACH))

    assert exact.value > 2 * LOOSE["delta"]
    assert set(exact.one) - set(exact.other)


def test_control_deleting_without_null_elements_makes_a_refusal_depend_on_the_data() -> None:
    """One of two neighbours meets the choosing mechanism's bound in the second round, the other does not."""
    each = {key: F(value) for key, value in LOOSE.items()}
    draw = below(SimulatedRandom(1))

    choosing.choose({1: 6}, M, growth=1, draw=draw, **each)
    with pytest.raises(ProtocolError):
        choosing.choose({1: 6}, M - 1, growth=1, draw=draw, **each)


@pytest.mark.parametrize("tight", [False, True])
@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(F(1, 100), F(1, 10**6)), (F(1), F(1, 10**6)), (F(10), F(1, 10**6)), (F(44), F(1, 10**9)), (F(44), F(1, 10**12))],
)
@pytest.mark.parametrize("error", [F(1, 100), F(1, 10), F(1, 2), F(9, 10)])
def test_no_more_is_paid_than_was_asked(epsilon, delta, error, tight) -> None:
    """At ε = 44, α = .9 the stated proof's e^{ε'} − 1 ≤ 2ε' does not hold; basic composition keeps the claim."""
    spent = paid(epsilon=epsilon, delta=delta, error=error, failure=F(1, 10), tight=tight)

    assert spent.epsilon <= epsilon
    assert spent.delta <= delta
    if tight:
        assert spent.epsilon > epsilon * (1 - F(1, 1 << 20))


def composed(rounds: int, each: Fraction, slack: Fraction) -> tuple[Decimal, Decimal]:
    """What the rounds cost by basic and by advanced composition, to 60 digits, and two counts' worth of noise.

    DRV10, Thm III.3: k mechanisms of ε' cost √(2k·ln(1/δ̃))·ε' + kε'(e^{ε'} − 1), and δ̃.
    """
    with localcontext(Context(prec=60)):
        one, k = Decimal(each.numerator) / each.denominator, Decimal(rounds)
        log = (Decimal(slack.denominator) / slack.numerator).ln()
        return k * one + 2 * one, (2 * k * log).sqrt() * one + k * one * (one.exp() - 1) + 2 * one


ROUNDS = [(1, F(1, 10)), (20, F(1, 22)), (200, F(1, 100)), (2000, F(1, 500)), (200, F(99, 100)), (3, F(2))]
SLACKS = [F(1, 5), F(1, 10**6)]


@pytest.mark.parametrize(("rounds", "each"), ROUNDS)
@pytest.mark.parametrize("slack", SLACKS)
def test_the_price_of_all_rounds_is_the_lesser_of_two_theorems_and_never_below_either(rounds, each, slack) -> None:
    basic, advanced = composed(rounds, each, slack)
    spent, added = point_sanitizer._spent(rounds, each, slack)
    price = Decimal(spent.numerator) / spent.denominator

    assert added == (slack if advanced < basic else 0)
    assert 0 <= price / min(basic, advanced) - 1 < Decimal(2) ** -38


def test_both_theorems_have_their_cases() -> None:
    cheaper = {advanced < basic for r, e in ROUNDS for s in SLACKS for basic, advanced in [composed(r, e, s)]}

    assert cheaper == {True, False}


@pytest.mark.parametrize(("rounds", "each"), ROUNDS)
@pytest.mark.parametrize("slack", SLACKS)
def test_as_many_randomized_responses_and_the_counts_are_private_at_that_price_exactly(rounds, each, slack) -> None:
    """Randomized response is the most that ε' allows: the exact law of k of them, and of one that is worth 2ε'."""

    def delta(epsilon: float) -> float:
        """By how many tell the truth: each that does adds ε' to the loss, each that does not takes it away."""
        keep, counts = 1 / (1 + math.exp(-float(each))), 1 / (1 + math.exp(-2 * float(each)))
        truths = range(rounds + 1)
        one, other = ([float(binom.pmf(k, rounds, p)) for k in truths] for p in (keep, 1 - keep))
        return math.fsum(
            max(0.0, a * p - math.exp(epsilon) * b * q)
            for a, b in zip(one, other, strict=True)
            for p, q in ((counts, 1 - counts), (1 - counts, counts))
        )

    spent, added = point_sanitizer._spent(rounds, each, slack)

    assert delta(float(spent)) <= float(added) + 1e-12
    # The control: half of it is not enough, with or without the slack.
    assert delta(float(spent) / 2) > (float(added) if rounds < 4 else 1e-12)


@pytest.mark.parametrize("error", [F(1, 100), F(1, 1000)])
def test_where_rounds_are_many_advanced_composition_is_what_is_paid_and_its_delta_is_charged(error: Fraction) -> None:
    asked = {**ASKED, "epsilon": F(1, 10), "error": error}
    each, spent = rounds_for(**asked, tight=True), paid(**asked, tight=True)
    basic, advanced = composed(each.rounds, each.epsilon, ASKED["delta"] / 5)

    assert advanced < basic
    assert abs(Decimal(spent.epsilon.numerator) / spent.epsilon.denominator / advanced - 1) < Decimal(2) ** -38
    assert spent.delta == each.rounds * each.delta + ASKED["delta"] / 5


def test_the_parameters_are_the_constructions_and_tight_ones_need_fewer_examples() -> None:
    stated, tight = rounds_for(**ASKED), rounds_for(**ASKED, tight=True)
    bound = point_rounds(epsilon=1, delta=1e-6, error=0.1, failure=0.1)

    assert [float(each) for each in stated] == pytest.approx(list(bound))
    assert tight.epsilon == pytest.approx(1 / 22)
    assert examples_needed(**ASKED) == examples_point_sanitizer(epsilon=1, delta=1e-6, error=0.1, failure=0.1)
    assert examples_needed(**ASKED, tight=True) < examples_needed(**ASKED) / 3


@pytest.mark.parametrize("tight", [False, True])
def test_each_round_is_really_run_with_what_is_charged_for_it_and_m_stays(
    monkeypatch: pytest.MonkeyPatch, tight: bool
) -> None:
    """The ledger of one run, read at the doors of the mechanisms."""
    m, each = examples_needed(**ASKED, tight=tight), rounds_for(**ASKED, tight=tight)
    chosen: list[tuple[int, dict[str, Any]]] = []
    counted: list[dict[str, Any]] = []
    choose, release = choosing.choose, geometric.release
    monkeypatch.setattr(choosing, "choose", lambda *a, **k: (chosen.append((a[1], k)), choose(*a, **k))[1])
    monkeypatch.setattr(geometric, "release", lambda *a, **k: (counted.append(k), release(*a, **k))[1])
    sanitize(64, nine_heavy_and_singletons(m), draw=below(SimulatedRandom(2)), tight=tight, **ASKED)

    assert 9 <= len(counted) <= len(chosen) <= each.rounds
    assert {(size, k["epsilon"], k["delta"], k["growth"]) for size, k in chosen} == {(m, each.epsilon, each.delta, 1)}
    assert {(k["epsilon"], k.get("sensitivity", 1)) for k in counted} == {(each.epsilon, 1)}


def test_a_sample_of_the_exact_distribution_is_what_is_drawn() -> None:
    """The same rounds, drawn 2,000 times through the parts that `sanitize` calls, against the enumeration."""
    exact = found([0] * 8 + [1] * 4, rounds=1)
    draw, runs = below(SimulatedRandom(5)), 2000
    each = {key: F(value) for key, value in LOOSE.items()}
    drawn = Counter(choosing.choose({0: 8, 1: 4}, M, growth=1, draw=draw, **each) for _ in range(runs))

    for point in (0, None):
        chance = math.fsum(p for output, p in exact.items() if (output[0][0] if output else None) == point)
        assert binom.cdf(drawn[point], runs, chance) > 1e-6
        assert binom.sf(drawn[point] - 1, runs, chance) > 1e-6
    assert math.fsum(exact.values()) == pytest.approx(1, abs=1e-12)
    assert hockey_stick(exact, exact, 0.0) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        {"database": []},
        {"database": [987_654_321] * 500_000},
        {"database": [1] * 1000},
        {"epsilon": F(0)},
        {"epsilon": F(1000)},
        {"delta": F(0)},
        {"error": F(1)},
        {"failure": F(0)},
    ],
)
def test_too_few_examples_and_parameters_out_of_range_are_refused_without_naming_an_entry(wrong) -> None:
    given = {"database": [1] * 500_000, **ASKED, **wrong}

    with pytest.raises(ProtocolError) as refusal:
        sanitize(2, draw=below(SimulatedRandom(1)), **given)
    assert "987" not in str(refusal.value)
