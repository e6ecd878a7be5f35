"""The INTERVAL_d sanitizer: its price derived and enumerated, its parts against brute force, its accuracy measured."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from askance_lab.curator import choosing, geometric, interval_sanitizer, rec_plan
from askance_lab.curator.distributions import Distribution, hockey_stick, loss, worst_delta
from askance_lab.curator.draws import below
from askance_lab.curator.interval_sanitizer import (
    Counted,
    Pieces,
    cells,
    heaviest_windows,
    lengths,
    partition,
    partition_distribution,
    sanitize,
)
from askance_lab.curator.interval_sanitizer_plan import (
    GROWTH,
    CallPrice,
    SanitizerPlan,
    charges,
    composed,
    examples_choosing_needs,
    examples_needed,
    paid,
    planned,
)
from askance_lab.curator.mechanism import ExactParameters
from askance_lab.curator.privacy import Paid, advanced
from askance_lab.curator.rec import rec
from askance_lab.curator.sanitizer_error import Piece, interval_deviation
from askance_lab.theory.mechanisms import geometric_error
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom
from askance_server.core.tails import laplace_sum_tail_repaired

F = Fraction
ASKED: ExactParameters = {"epsilon": F(1), "delta": F(1, 10**6), "error": F(1, 5), "failure": F(1, 10)}

# Tiny: two calls, whose mechanisms have little ε, on a few points of X_2
SMALL = SanitizerPlan(
    d=2,
    error=F(9, 10),
    failure=F(9, 10),
    unit=5,
    calls=2,
    counting=F(1, 4),
    lengths=rec_plan.equal(F(1, 2), F(1, 10), F(1, 2)),
    choosing=Paid(F(1), F(1, 5)),
    histogram=F(1),
    slack=F(1, 10),
)
M = 8


def tree(points: Iterable[int], plan: SanitizerPlan = SMALL) -> Distribution[Pieces]:
    counts = Counter(points)
    return partition_distribution(Counted.of(plan.d, counts), counts.total(), plan)


def spread_out(kind: str, d: int, m: int, different: int = 3000) -> Counter[int]:
    """Databases of m entries, counted, on a few thousand points."""
    rng = random.Random(kind)
    points = {
        "uniform": lambda: rng.randrange(1 << d),
        "every scale": lambda: (1 << rng.randrange(1, d)) + rng.randrange(1 << rng.randrange(1, d)) & (1 << d) - 1,
        "heavy points": lambda: rng.choice([3, 4, 9, 1 << d - 1]) if rng.random() < 0.8 else rng.randrange(1 << d),
        "one cluster": lambda: (1 << d - 1) + rng.randrange(1 << 12),
        "one point": lambda: (1 << d) - 1,
    }[kind]
    whole = Counter(dict.fromkeys([points() for _ in range(different)], 0))
    for _ in range(different):
        whole[points()] += m // different
    whole[points()] += m - whole.total()
    return +whole


# --- The price ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 8, 64, 100_000])
@pytest.mark.parametrize("asked", [{}, {"unit": 12}, {"base_case": 32}, {"epsilon": F(20)}, {"error": F(1, 100)}])
def test_no_more_is_paid_than_was_asked_and_hardly_less(d: int, asked: dict[str, Any]) -> None:
    given: dict[str, Any] = {**ASKED, **asked}
    spent = paid(planned(d, **given))

    assert spent.epsilon <= given["epsilon"]
    assert spent.delta <= given["delta"]
    assert spent.epsilon > 0.999 * given["epsilon"]


def test_composition_is_the_grounds_own_where_all_are_alike_and_basic_where_that_is_less() -> None:
    each, slack = Paid(F(1, 100), F(1, 10**9)), F(1, 10**6)
    many, few = [CallPrice("", 200, each), CallPrice("", 300, each)], [CallPrice("", 3, each)]
    epsilon, delta = advanced(each, 500, slack)

    assert float(composed(many, slack).epsilon) == pytest.approx(epsilon, rel=1e-9)
    assert float(composed(many, slack).delta) == pytest.approx(delta)
    assert composed(few, slack) == each.times(3)


def test_what_is_charged_is_the_most_that_one_entry_replaced_can_change() -> None:
    plan = planned(64, **ASKED)
    count, windows, cell = charges(plan)

    # 33/α calls past their count, and the two leaves that x and x' end in
    assert (windows.times, cell.times, count.times) == (165, 165, 167)
    assert plan.pieces + plan.calls == 3 * 165 + 1
    assert plan.pieces <= 77 / ASKED["error"]  # all calls: the text's bound, with room
    assert examples_choosing_needs(plan) <= examples_needed(plan)


@pytest.mark.parametrize("domain", [(0, 1), (0, 3), (0, 1, 3)])
@pytest.mark.parametrize("calls", [1, 2])
def test_the_pieces_are_private_as_charged_by_enumeration(domain: tuple[int, ...], calls: int) -> None:
    """Every database of 8 entries. Below its bound on m the choosing mechanism has the δ that is enumerated here."""
    plan = replace(SMALL, calls=calls)
    delta = choosing_delta(plan, domain)
    price = sum(part.times * part.each.epsilon for part in charges(plan))
    exact = worst_delta(lambda points: tree(points, plan), domain, M, float(price))

    assert exact.value <= calls * delta + 1e-9
    assert 0 < delta < 1


def choosing_delta(plan: SanitizerPlan, domain: tuple[int, ...]) -> float:
    """Its δ at its ε on any interval and partition that a call may have: an entry replaced, added, or taken away."""
    worst = 0.0
    for rest in itertools.chain(*(itertools.combinations_with_replacement(domain, size) for size in range(M))):
        for (a, b), z in itertools.product(itertools.combinations(range(5), 2), range(3)):
            found = [
                choosing.choosing_distribution(
                    cells(Counted.of(2, Counter((*rest, *more))).within((a, b - 1)), (a, b - 1), z),
                    M,
                    epsilon=plan.choosing.epsilon,
                    error=plan.choosing_error,
                )
                for more in ((), *((point,) for point in domain))
            ]
            pairs = itertools.permutations(found, 2)
            worst = max(worst, *(hockey_stick(*pair, float(plan.choosing.epsilon)) for pair in pairs))
    return worst


# At their bound on m, all mechanisms of two calls, on databases that differ where one of them is at a border:
# two points, of which what is left besides the first may be too few; three, where two lengths may be as good
LOUD = replace(SMALL, counting=F(1), lengths=rec_plan.equal(F(2), F(1, 10), F(1, 2)), choosing=Paid(F(4), F(1, 20)))
TWO, THREE = replace(LOUD, unit=10), LOUD
WALKS = {
    TWO: [Counter({0: k, 3: examples_choosing_needs(TWO) - k}) for k in range(325, 655)],
    THREE: [Counter({0: k, 1: examples_choosing_needs(THREE) - 100 - k, 3: 100}) for k in range(90, 130)],
}


def walk_delta(plan: SanitizerPlan, walk: list[Counter[int]], epsilon: float) -> float:
    trees = [partition_distribution(Counted.of(2, each), each.total(), plan) for each in walk]
    return max(
        hockey_stick(*pair, epsilon)
        for one, other in itertools.pairwise(trees)
        for pair in ((one, other), (other, one))
    )


def price(plan: SanitizerPlan) -> float:
    return float(sum(part.times * part.each.epsilon for part in charges(plan)))


@pytest.mark.parametrize("plan", [TWO, THREE], ids=["two points", "three points"])
def test_the_pieces_are_private_as_charged_where_the_choosing_mechanism_meets_its_bound(plan: SanitizerPlan) -> None:
    assert all(each.total() == examples_choosing_needs(plan) for each in WALKS[plan])
    assert walk_delta(plan, WALKS[plan], price(plan)) <= plan.calls * float(plan.choosing.delta) + 1e-9


@pytest.mark.parametrize(
    ("plan", "noiseless"),
    [
        (TWO, {"counting": F(100)}),
        (THREE, {"lengths": rec_plan.equal(F(100), F(1, 10), F(1, 2))}),
        (TWO, {"choosing": Paid(F(100), F(1, 20))}),
    ],
    ids=["count", "Rec", "choosing mechanism"],
)
def test_control_any_mechanism_without_noise_is_caught(plan: SanitizerPlan, noiseless: dict[str, Any]) -> None:
    bare = replace(plan, **noiseless)

    assert walk_delta(bare, WALKS[plan], price(plan)) > plan.calls * float(plan.choosing.delta) + 0.3


def histogram_loss(sensitivity: int) -> float:
    """Over pieces {0,1}, {2}, {3}: counts to the left of where clamping begins, for all neighbours of 5 entries."""
    rate = geometric.rate(F(1), sensitivity)
    pieces = [(0, 1), (2, 2), (3, 3)]
    worst = 0.0
    for rest in itertools.combinations_with_replacement(range(4), 4):
        for first, second in itertools.permutations(range(4), 2):
            ours, theirs = (Counted.of(2, Counter((*rest, x))).histogram(pieces) for x in (first, second))
            each = [
                loss(*({noisy: geometric.pmf(noisy - count, rate=rate) for noisy in range(-9, 9)} for count in counts))
                for counts in zip((n for _, n in ours), (n for _, n in theirs), strict=True)
            ]
            worst = max(worst, math.fsum(each))
    return worst


def test_all_pieces_counts_together_cost_the_histograms_epsilon_exactly() -> None:
    assert histogram_loss(sensitivity=2) == pytest.approx(1, abs=1e-9)


def test_control_a_histogram_as_if_only_one_count_changed_is_caught() -> None:
    assert histogram_loss(sensitivity=1) > 1.9


def test_control_a_count_in_place_of_m_is_caught() -> None:
    """Were m the entries in [a,b], the choosing mechanism would meet its bound on one of two neighbours only."""
    plan = planned(64, **ASKED, unit=12)
    needs = examples_choosing_needs(plan)
    given = {
        "growth": GROWTH,
        "epsilon": plan.choosing.epsilon,
        "delta": plan.choosing.delta,
        "error": plan.choosing_error,
        "failure": plan.choosing_failure,
        "draw": below(SimulatedRandom(1)),
    }

    assert choosing.choose({(0, 1): needs}, needs, **given) == (0, 1)
    with pytest.raises(ProtocolError):
        choosing.choose({(0, 1): needs - 1}, needs - 1, **given)


def test_each_mechanism_is_really_run_with_what_is_charged_for_it_and_no_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The ledger of one run, read at the doors of the mechanisms."""
    plan = planned(64, **ASKED, unit=12)
    m = examples_needed(plan)
    ledger: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **kwargs: Any) -> Any:
            ledger.append((name, given, kwargs))
            return function(*given, **kwargs)

        return run

    monkeypatch.setattr(geometric, "release", watched("count", geometric.release))
    monkeypatch.setattr(choosing, "choose", watched("cell", choosing.choose))
    monkeypatch.setattr(interval_sanitizer, "rec", watched("windows", rec))
    pieces = sanitize(spread_out("uniform", 64, m), plan=plan, draw=below(SimulatedRandom(1))).pieces

    calls = [kwargs for name, _, kwargs in ledger if name == "windows"]
    found = [(given[1], kwargs) for name, given, kwargs in ledger if name == "cell"]
    released = [kwargs for name, _, kwargs in ledger if name == "count" and "within" in kwargs]
    counted = [kwargs for name, _, kwargs in ledger if name == "count" and "within" not in kwargs]
    assert 1 < len(calls) == len(found) <= plan.calls
    assert len(counted) <= 2 * len(calls) + 1
    assert len(released) == len(pieces) <= plan.pieces
    assert {kwargs["plan"] for kwargs in calls} == {plan.lengths}
    assert {(size, each["epsilon"], each["delta"], each["growth"]) for size, each in found} == {
        (m, plan.choosing.epsilon, plan.choosing.delta, GROWTH)
    }
    assert {each["epsilon"] for each in counted} == {plan.counting}
    assert {(each["epsilon"], each["sensitivity"]) for each in released} == {(plan.histogram, 2)}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 63), min_size=1, max_size=40), st.integers(1, 6), st.integers(0, 2**32))
def test_whatever_the_data_and_the_noise_pieces_are_disjoint_without_gaps_and_calls_are_capped(
    points, calls, seed
) -> None:
    plan = replace(SMALL, d=6, calls=calls, counting=F(1, 10**4), unit=11)
    whole = Counted.of(6, Counter(points * 10_000))
    pieces = sorted(partition(whole, whole.total, plan, below(SimulatedRandom(seed))))

    assert [a for a, _ in pieces] == [0, *(b + 1 for _, b in pieces[:-1])]
    assert pieces[-1][1] == 63
    assert len(pieces) <= plan.pieces == 2 * calls + 1


def test_control_without_the_cap_some_data_take_more_calls_than_are_charged() -> None:
    whole = Counted.of(6, Counter(dict.fromkeys(range(64), 4000)))
    capped = replace(SMALL, d=6, calls=3, unit=40, choosing=Paid(F(4), F(1, 5)))
    plans = capped, replace(capped, calls=10**6)
    pieces, free = (list(partition(whole, whole.total, plan, below(SimulatedRandom(2)))) for plan in plans)

    assert len(pieces) <= capped.pieces == 7 < len(free)


def test_what_is_drawn_has_the_exact_distribution() -> None:
    """A thousand times, at counts where several lengths and cells are as good."""
    whole = Counted.of(2, Counter({0: 516, 1: 405, 3: 516}))
    assert whole.total >= examples_choosing_needs(SMALL)
    exact = partition_distribution(whole, whole.total, SMALL)
    runs, draw = 1000, below(SimulatedRandom(4))
    drawn = Counter(tuple(partition(whole, whole.total, SMALL, draw)) for _ in range(runs))

    assert math.fsum(exact.values()) == pytest.approx(1, abs=1e-12)
    assert sum(chance > 0.05 for chance in exact.values()) >= 3
    assert set(drawn) <= set(exact)
    for pieces, chance in exact.items():
        assert binom.cdf(drawn[pieces], runs, chance) > 1e-6
        assert binom.sf(drawn[pieces] - 1, runs, chance) > 1e-6


# --- The parts against brute force -------------------------------------------------------------------------------


def brute_windows(points: list[int], a: int, b: int) -> list[int]:
    inside = [x for x in points if a <= x <= b]
    width = b - a + 1
    return [
        max(
            sum(s <= x < s + min(1 << j, width) for x in inside)
            for s in range(a, max(a, b - min(1 << j, width) + 1) + 1)
        )
        for j in range((b - a).bit_length() + 1)
    ]


INTERVALS = st.tuples(st.integers(0, 31), st.integers(0, 31)).map(sorted)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 31), min_size=1, max_size=30), INTERVALS)
def test_the_heaviest_windows_are_those_of_brute_force(points: list[int], interval: tuple[int, int]) -> None:
    part = Counted.of(5, Counter(points)).within(interval)

    assert heaviest_windows(part, interval) == brute_windows(points, *interval)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 31), min_size=1, max_size=30), st.integers(0, 31), INTERVALS, st.integers(1, 5))
def test_the_score_of_lengths_is_concave_and_changes_by_1_at_most_where_an_entry_is_replaced(
    points, other, interval, r
) -> None:
    scores = [
        lengths(Counted.of(5, Counter(each)).within(interval), interval, r).values
        for each in (points, [*points[:-1], other])
    ]
    differences = [abs(one - two) for one, two in zip(*scores, strict=True)]
    top = scores[0].index(max(scores[0]))

    assert max(differences) <= 1
    assert list(scores[0][: top + 1]) == sorted(scores[0][: top + 1])
    assert list(scores[0][top:]) == sorted(scores[0][top:], reverse=True)
    if sum(interval[0] <= x <= interval[1] for x in points) >= 2 * r:
        assert max(scores[0]) >= r  # the promise


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 31), min_size=1, max_size=30), INTERVALS, st.integers(0, 5))
def test_cells_hold_every_window_and_an_entry_is_in_two_at_most(
    points: list[int], interval: tuple[int, int], z: int
) -> None:
    a, b = interval
    found = cells(Counted.of(5, Counter(points)).within(interval), interval, z)

    for (c, e), count in found.items():
        assert a <= c <= e <= b
        assert e - c < (1 if z == 0 else 2 << z)
        assert count == sum(c <= x <= e for x in points)
    for x in filter(lambda x: a <= x <= b, points):
        assert 1 <= sum(c <= x <= e for c, e in found) <= GROWTH
        window = range(x, min(b, x + (1 << z) - 1) + 1)
        assert any(c <= window[0] and window[-1] <= e for c, e in found)


@pytest.mark.parametrize("d", [1, 63, 64, 65, 200])
def test_the_ends_of_a_domain_are_no_limit(d: int) -> None:
    last = (1 << d) - 1
    whole = Counted.of(d, Counter([0, last, last]))

    assert heaviest_windows(whole, (0, last)) == [2] * d + [3]
    assert cells(whole, (0, last), d) == {(0, last): 3}
    assert cells(whole, (0, last), 0) == {(0, 0): 1, (last, last): 2}
    assert whole.within((1, last)).total == 2
    assert heaviest_windows(whole.within((1, last - 1)), (1, max(1, last - 1)))[0] == 0


def test_nothing_in_an_interval_has_no_cells() -> None:
    nothing = Counted.of(6, Counter([3])).within((8, 31))

    assert cells(nothing, (8, 31), 2) == cells(nothing, (8, 31), 0) == {}
    assert heaviest_windows(nothing, (8, 31)) == [0] * 6


# --- Accuracy ----------------------------------------------------------------------------------------------------

KINDS = ["uniform", "every scale", "heavy points", "one cluster", "one point"]


@pytest.mark.parametrize("asked", [{}, {"unit": 12}, {"base_case": 32}])
def test_all_thresholds_of_64_bits_are_within_alpha_at_the_bound(asked: dict[str, Any]) -> None:
    plan = planned(64, **ASKED, **asked)
    m, draw = examples_needed(plan), below(SimulatedRandom(8))
    close, halves = [], 0
    for kind in KINDS:
        database = spread_out(kind, 64, m)
        for _ in range(6):
            estimates = sanitize(database, plan=plan, draw=draw)
            close.append(interval_deviation(database, estimates.pieces) <= m / 5)
            built = estimates.database()
            halves += sum(built.values()) == m and interval_deviation(database, built.items()) <= 2 * m / 5

    assert binom.cdf(sum(close), len(close), 0.9) > 1e-6
    assert sum(close) >= 25
    assert halves >= 25


def test_a_threshold_is_estimated_between_0_and_1_and_no_piece_is_heavier_than_derived() -> None:
    plan = planned(64, **ASKED, unit=12)
    m = examples_needed(plan)
    database = spread_out("every scale", 64, m)
    estimates = sanitize(database, plan=plan, draw=below(SimulatedRandom(9)))
    whole = Counted.of(64, database)
    ends = [piece.end for piece in estimates.pieces]
    spans = zip([0, *(end + 1 for end in ends)], ends, strict=False)
    heaviest = max(whole.within(span).total for span in spans if span[0] < span[1])

    assert [estimates.of(0), estimates.of(1 << 64)] == [0, pytest.approx(1, abs=0.01)]
    assert all(0 <= estimates.of(1 << j) <= 1 for j in range(65))
    assert heaviest <= 10 * plan.step(m)


def test_what_is_left_of_and_right_of_everything_has_no_fewer_than_no_entries() -> None:
    plan = planned(64, **ASKED, unit=12)
    m, draw = examples_needed(plan), below(SimulatedRandom(12))
    found = [piece.estimate for _ in range(8) for piece in sanitize({1 << 20: m}, plan=plan, draw=draw).pieces]

    assert (min(found), max(found) <= m) == (0, True)
    # The control: as often as not the noise on nothing would have been below it.
    assert 4 < found.count(0) < len(found)


@pytest.mark.parametrize("unit", [12, 32])
def test_the_entries_needed_leave_room_for_the_noise_of_all_pieces_and_of_each_count(unit: int) -> None:
    """As derived: the pieces' noise is within what a cut piece leaves of α, a count's within 2r."""
    plan = planned(16, **ASKED, unit=unit)
    quarter = float(ASKED["failure"]) / 4 / plan.pieces
    loud = replace(plan, histogram=F(1, 10**5))
    noise = plan.pieces * geometric_error(epsilon=float(loud.histogram) / 2, failure=quarter)
    room = float(ASKED["error"]) * (1 - 10 / unit) * examples_needed(loud)
    unsure = replace(plan, counting=F(1, 10**6))
    off = geometric_error(epsilon=float(unsure.counting), failure=quarter)

    assert noise * (1 - 1e-9) <= room < 1.001 * noise
    assert off <= 2 * (unsure.step(examples_needed(unsure)) + 1) < 1.001 * off + 4


def test_control_without_the_counts_of_leaves_the_error_is_far_above_alpha() -> None:
    """Heavy points, and too few entries between them to look for more: but between them are most of the entries."""
    plan = planned(64, **ASKED)
    m = examples_needed(plan)
    r = plan.step(m)
    database = Counter({i << 59: 2 * r for i in range(29)})
    database.update({(i << 59) + (k << 50): r // 128 for i in range(29) for k in range(64, 448)})
    database[0] += m - database.total()
    pieces = sanitize(database, plan=plan, draw=below(SimulatedRandom(10))).pieces
    cells_only = [Piece(end, count if count < 2.5 * r else 0) for end, count in pieces]

    assert interval_deviation(database, pieces) <= m / 5 < interval_deviation(database, cells_only)


def test_the_entries_needed_hardly_depend_on_d() -> None:
    small, large = (examples_needed(planned(d, **ASKED)) for d in (16, 1 << 20))

    assert small <= large < 1.02 * small


def test_counts_of_all_dyadic_intervals_are_better_below_d_610_as_the_document_says() -> None:
    """An entry is in d of them, so the noise on each has scale 2d/ε, and a threshold is a sum of d at most."""

    def dyadic(d: int) -> float:
        scale, log = 2 * d, math.log(2 / 0.1) + d * math.log(2)
        deviation = scale * math.sqrt(8 * log / d)  # laplace_sum_tail_repaired = β/2^d, solved for it
        tail = laplace_sum_tail_repaired(users=d, deviation=deviation, scale=scale)
        assert math.log(tail) == pytest.approx(math.log(0.1) - d * math.log(2))
        return d * deviation / 0.2

    text, ours = examples_needed(planned(64, **ASKED)), examples_needed(planned(64, **ASKED, unit=12))

    assert 99_000 < dyadic(64) < 100_000
    assert dyadic(609) < text < dyadic(610)
    assert dyadic(278) < ours < dyadic(280)


# --- Refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "database",
    [[], [1] * 1000, {1: -3, 2: 10**8}, {1: 0}, {1 << 64: 10**8}, {-1: 10**8}, {1: 10**8, 2: 0.5}],
)
def test_too_few_entries_and_those_outside_the_domain_are_refused_without_naming_them(database: Any) -> None:
    with pytest.raises(ProtocolError) as refusal:
        sanitize(database, plan=planned(64, **ASKED), draw=below(SimulatedRandom(1)))
    assert str(1 << 64) not in str(refusal.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": F(0)},
        {"delta": F(1)},
        {"error": F(0)},
        {"failure": F(2)},
        {"unit": 10},
        {"base_case": 1},
    ],
)
def test_parameters_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    parameters: dict[str, Any] = {**ASKED, **wrong}

    with pytest.raises(ProtocolError):
        planned(64, **parameters)


def test_counts_are_whole_numbers_of_64_bits() -> None:
    whole = Counted.of(64, Counter({(1 << 64) - 1: 10**12, 5: 1}))

    assert whole.points.dtype == np.uint64
    assert whole.total == 10**12 + 1
