"""Algorithm Rec: BNS13, Fig. 1. Its level function by brute force, its success and its privacy by exact distributions.

Every trap that is a code path has its text's literal version here, and what that one violates.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from scipy.stats import binom

from askance_lab.curator import distance, rec, rec_plan
from askance_lab.curator.distributions import Distribution, worst_delta, worst_loss
from askance_lab.curator.draws import below
from askance_lab.curator.privacy import Paid
from askance_lab.curator.rec import Quality
from askance_lab.curator.rec_plan import RecPlan, equal, tuned
from askance_lab.theory import approximate
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import SimulatedRandom

ONE, MICRO, TENTH = Fraction(1), Fraction(1, 10**6), Fraction(1, 10)
TWO_FIFTHS = Fraction(2, 5)
CHANCE = 1e-6


def brute_force(values: Sequence[int]) -> list[int]:
    """Step 3, read aloud, the last min{0, ·} included; as many values as a power of 2, and 1."""
    last = (len(values) - 1).bit_length() - 1
    found = [
        max(min(values[start : start + (1 << j)]) for start in range(len(values) - (1 << j) + 1))
        for j in range(last + 1)
    ]
    return [*found, min(0, found[-1])]


def all_of(quality: Quality) -> list[int]:
    return [quality.at(i) for i in range(quality.top + 1)]


def is_concave(values: Sequence[int]) -> bool:
    """BNS13, Def. 9: between two solutions that score x all do. Up, then down."""
    peak = values.index(max(values))
    up, down = values[: peak + 1], values[peak:]
    return all(a <= b for a, b in pairwise(up)) and all(a >= b for a, b in pairwise(down))


def right(quality: Quality, promise: int, plan: RecPlan) -> float:
    """Exact Pr[Q ≥ (1−α)r]."""
    exact = rec.rec_distribution(quality, promise, plan=plan)
    return math.fsum(chance for j, chance in exact.items() if quality.at(j) >= (1 - plan.error) * promise)


def hill(top: int, first: int, last: int, height: Callable[[int], int]) -> Quality:
    """The best on [first, last], and less with the number of bits that the distance has: steps at powers of 2."""
    steps = {0: height(max(0, first).bit_length()), first: height(0), last + 1: height(1)}
    for bits in range(top.bit_length()):
        steps[first - (1 << bits) + 1] = height(bits)
        steps[last + (1 << bits)] = height(bits + 1)
    inside = sorted(i for i in steps if 0 <= i <= top)
    return Quality.pieces(top, inside, [_height(i, first, last, height) for i in inside])


def _height(i: int, first: int, last: int, height: Callable[[int], int]) -> int:
    return height(max(0, first - i, i - last).bit_length())


# --- L(S,j) ------------------------------------------------------------------------------------------------------


def test_the_level_function_of_any_quality_is_what_brute_force_finds() -> None:
    pick = random.Random(1)
    for _ in range(300):
        top = pick.choice([3, 4, 5, 8, 9, 31, 32, 33, 64, 100, 128, 129, 255, 256])
        values = [pick.randint(-6, 6) for _ in range(top + 1)]
        whole = rec.padded(Quality.of(values))

        assert rec.levels(whole) == brute_force(all_of(whole))
        assert whole.top == 1 << (top - 1).bit_length()


def test_the_level_function_does_not_care_how_a_quality_is_cut_into_pieces() -> None:
    pick = random.Random(2)
    for _ in range(100):
        starts = sorted({0, *(pick.randrange(200) for _ in range(pick.randrange(40)))})
        values = [pick.randint(-4, 9) for _ in starts]
        pieces = Quality.pieces(200, starts, values)

        assert rec.levels(rec.padded(pieces)) == rec.levels(rec.padded(Quality.of(all_of(pieces))))


def test_stretched_by_a_power_of_two_to_two_to_the_1024_the_levels_move_along() -> None:
    pick = random.Random(3)
    small = [pick.randint(0, 9) for _ in range(256)]
    at_256 = brute_force([*small, 0])
    at_1024 = rec.levels(Quality.pieces(1 << 1024, [i << 1016 for i in range(256)] + [1 << 1024], [*small, 0]))

    assert at_1024[1016:] == at_256
    assert set(at_1024[:1017]) == {at_256[0]}


def test_neighbours_levels_and_scores_of_the_recursive_call_differ_by_at_most_one() -> None:
    pick = random.Random(4)
    plan = equal(ONE, MICRO, Fraction(1, 3))
    for _ in range(200):
        top = pick.choice([33, 50, 64, 65])
        values = [pick.randint(-6, 6) for _ in range(top + 1)]
        one, other = Quality.of(values), Quality.of([v + pick.randint(-1, 1) for v in values])
        levels = [rec.levels(rec.padded(each)) for each in (one, other)]
        scores = [rec.inside(rec.padded(each), 7, plan).values for each in (one, other)]

        assert max(abs(a - b) for a, b in zip(*levels, strict=True)) <= 1
        assert max(abs(a - b) for a, b in zip(*scores, strict=True)) <= 1


def test_the_recursive_call_gets_a_concave_problem_that_keeps_its_promise() -> None:
    """Step 5's remark, in whole numbers, at odd αr and at any λ: even of a quality that is not concave."""
    pick = random.Random(5)
    for _ in range(300):
        top, promise = pick.choice([9, 40, 64]), pick.randint(3, 60)
        values = [pick.randint(-20, promise) for _ in range(top)] + [promise]
        plan = replace(equal(ONE, MICRO, Fraction(pick.randint(1, 19), 20)), middle=Fraction(pick.randint(1, 9), 10))
        inner = rec.inside(rec.padded(Quality.of(values)), promise, plan)

        assert is_concave(inner.values)
        assert max(inner.values) >= plan.inner_promise(promise)


def test_with_half_and_an_even_promise_step_4_is_the_texts() -> None:
    quality, promise, plan = hill(64, 20, 29, lambda bits: 100 - 9 * bits), 100, equal(ONE, MICRO, TWO_FIFTHS)
    found = brute_force(all_of(quality))

    assert rec.inside(quality, promise, plan).values == tuple(min(a - 60, 100 - b) for a, b in pairwise(found))


# --- Success -----------------------------------------------------------------------------------------------------


def plateaus(widths: Sequence[int], starts: int) -> list[tuple[int, int]]:
    return [(first, first + width - 1) for width in widths for first in range(starts) if first + width <= 65]


def plateau(first: int, last: int) -> Quality:
    return Quality.of([4000 if first <= i <= last else 2000 for i in range(65)])


def literal_hits(cells: Sequence[int | None], k: int, plan: RecPlan, top: int) -> list[int]:
    """Step 10 as written: A = [a, b], from a and from b. Where there is no A, as ours."""
    left = cells[0] or 0
    ends = left, min(top, left + (8 << k) - 1)
    return sorted({min(top, end + (i << k) // 2) for end in ends for i in range(16)})


def test_rec_solves_232_plateaus_with_probability_nine_tenths_each() -> None:
    """With d = 6, n = 4000, α = .4: 58 places, widths 1, 2, 4, 8. Exact probabilities. The next test has all 2145."""
    inputs = plateaus((1, 2, 4, 8), 58)

    assert len(inputs) == 232
    assert all(right(plateau(*each), 4000, equal(ONE, MICRO, TWO_FIFTHS)) >= 0.9 for each in inputs)
    at_a_shift = tuned_for(64, ONE, base_case=6)
    assert all(right(plateau(*each), 4000, at_a_shift) >= 0.9 for each in inputs[::9])


@pytest.mark.slow
def test_rec_solves_every_plateau_and_with_h_from_b_it_surely_fails_on_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 11: a plateau across a border of the A_i is in no A; the second set from b looks for it beside A."""
    inputs, plan = plateaus(range(1, 66), 65), equal(ONE, MICRO, TWO_FIFTHS)

    assert min(right(plateau(*each), 4000, plan) for each in inputs) >= 0.9
    monkeypatch.setattr(rec, "hits", literal_hits)
    fails = {each for each in inputs if right(plateau(*each), 4000, plan) < 1e-6}
    assert fails == {(31, 32), (31, 33), (46, 48), (47, 48), (47, 49), (62, 64), (63, 64)}


def tuned_for(top: int, epsilon: Fraction, *, base_case: int | None = None) -> RecPlan:
    return tuned(top, epsilon=epsilon, delta=MICRO, error=TENTH, failure=TENTH, base_case=base_case)


SHAPES: dict[str, Callable[[int, int], int]] = {
    "cliff": lambda promise, bits: promise if bits == 0 else 0,
    "just above μ": lambda promise, bits: promise if bits == 0 else math.floor(promise * 0.951),
    "just below μ": lambda promise, bits: promise if bits == 0 else math.floor(promise * 0.94),
    "a level for each power of 2": lambda promise, bits: promise - math.ceil(promise * bits / 64),
    "steeper": lambda promise, bits: promise - math.ceil(promise * bits / 25),
    "flat": lambda promise, bits: promise - bits // 8,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "plan",
    [
        equal(ONE / 4, MICRO / 2, TENTH, base_case=64),
        equal(ONE / 7, MICRO / 4, TENTH, base_case=6),
        replace(tuned_for(1 << 64, ONE), spread=0),
        replace(tuned_for(1 << 64, ONE), spread=32),
    ],
    ids=["equal parts", "two levels", "tuned", "tuned, at a random shift"],
)
def test_at_the_promise_needed_it_fails_with_at_most_beta_on_hills_of_every_shape(plan: RecPlan, shape: str) -> None:
    top, promise = 1 << 64, rec_plan.promise_needed(1 << 64, plan, TENTH)
    bound = rec_plan.failure(top, promise, plan)

    assert bound <= 0.1
    for first, last in ((0, 0), (top, top), (top // 2 - 1, top // 2), (12345, 12345 + (1 << 30)), (4, top // 3)):
        quality = hill(top, first, last, lambda bits: SHAPES[shape](promise, bits))
        assert 1 - right(quality, promise, plan) <= bound + 1e-9


def test_the_promise_needed_is_no_more_than_the_bound_of_the_protocol_package() -> None:
    plan = equal(ONE / 4, MICRO / 2, TENTH, base_case=64)
    theirs = approximate.rec_promise_repaired(
        top=1 << 64, epsilon=0.25, delta=5e-7, error=0.1, failure=0.1 / 3, base_case=64
    )

    assert rec_plan.promise_needed(1 << 64, plan, TENTH) <= theirs
    assert rec_plan.promise_needed(1 << 64, tuned_for(1 << 64, ONE), TENTH) <= theirs / 3


def test_what_is_drawn_has_the_distribution_that_is_computed() -> None:
    quality = Quality.of([max(0, 30 - 4 * abs(i - 17)) for i in range(34)])
    for spread in (0, 8):
        plan = RecPlan(TWO_FIFTHS, ONE / 2, Paid(ONE, TENTH), ONE / 4, base_case=3, spread=spread)
        exact = rec.rec_distribution(quality, 30, plan=plan)
        draw = below(SimulatedRandom(6))
        drawn = [rec.rec(quality, 30, plan=plan, draw=draw) for _ in range(3000)]

        assert sum(exact.values()) == pytest.approx(1, abs=1e-12)
        assert set(drawn) <= set(exact)
        for j, chance in exact.items():
            assert binom.cdf(drawn.count(j), 3000, chance) > CHANCE / 34
            assert binom.sf(drawn.count(j) - 1, 3000, chance) > CHANCE / 34


def test_the_base_case_on_two_to_the_64_solutions_takes_pieces_by_their_length() -> None:
    top, draw = 1 << 64, below(SimulatedRandom(7))
    quality = Quality.pieces(top, [0, 1 << 62, 3 << 62], [5, 3, 5])
    plan = replace(equal(ONE, MICRO, TENTH), base_case=top)
    drawn = [rec.rec(quality, 5, plan=plan, draw=draw) for _ in range(2000)]
    low = 1 / (1 + math.exp(1))  # half of all solutions score 2 less, at ε/2

    assert {quality.at(j) for j in drawn} == {3, 5}
    many = sum(quality.at(j) == 3 for j in drawn)
    assert binom.cdf(many, 2000, low) > CHANCE
    assert binom.sf(many - 1, 2000, low) > CHANCE
    firsts = sum(j < 1 << 62 for j in drawn)
    assert binom.cdf(firsts, 2000, (1 - low) / 2) > CHANCE
    assert binom.sf(firsts - 1, 2000, (1 - low) / 2) > CHANCE


# --- Privacy -----------------------------------------------------------------------------------------------------

TOP = 33
KINDS = [
    [int(0 <= i <= 3) for i in range(TOP + 1)],
    [int(13 <= i <= 16) for i in range(TOP + 1)],
    [int(i >= 29) for i in range(TOP + 1)],
    [int(i >= 5) for i in range(TOP + 1)],
    [1] * (TOP + 1),
    [i % 2 for i in range(TOP + 1)],
]
"""What an entry adds to each solution's score; the last makes Q anything but concave."""


def mechanism(plan: RecPlan, promise: int) -> Callable[[tuple[int, ...]], Distribution]:
    def of(entries: tuple[int, ...]) -> Distribution:
        scores = [sum(column) for column in zip(*(KINDS[e] for e in entries), strict=True)]
        return rec.rec_distribution(Quality.of(scores), promise, plan=plan)

    return of


@pytest.mark.parametrize("spread", [0, 8])
@pytest.mark.parametrize("base_case", [8, 2])
@pytest.mark.parametrize(("epsilon", "delta", "other"), [(ONE / 4, TENTH, ONE / 20), (ONE, ONE / 20, ONE / 2)])
def test_over_all_neighbours_delta_is_at_most_what_it_pays(
    epsilon: Fraction, delta: Fraction, other: Fraction, base_case: int, spread: int
) -> None:
    plan = RecPlan(TWO_FIFTHS, other, Paid(epsilon, delta), other, base_case=base_case, spread=spread)
    price = rec_plan.paid(TOP, plan)

    assert worst_delta(mechanism(plan, 4), range(6), 4, float(price.epsilon)).value <= float(price.delta) + 1e-9


@pytest.mark.parametrize("spread", [0, 8])
def test_cells_that_are_taken_without_the_distance_to_the_next_are_caught(
    spread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = RecPlan(TWO_FIFTHS, ONE / 2, Paid(ONE, ONE / 20), ONE / 2, base_case=8, spread=spread)
    price = rec_plan.paid(TOP, plan)
    monkeypatch.setattr(distance, "found_chance", lambda gap, **_: float(gap is None or gap > 0))

    assert worst_delta(mechanism(plan, 4), range(6), 4, float(price.epsilon)).value > 1.7 * float(price.delta)


def test_where_there_is_one_cell_it_is_private_without_delta_and_half_the_price_is_caught() -> None:
    plan = RecPlan(TWO_FIFTHS, ONE / 2, Paid(ONE, TENTH), ONE / 2, base_case=8, spread=64)
    found = worst_loss(mechanism(plan, 4), range(6), 4).value

    assert float(plan.base + plan.last) / 2 < found <= float(plan.base + plan.last) + 1e-9


# --- Traps -------------------------------------------------------------------------------------------------------


def test_h_has_whole_points_of_the_range_and_each_once_at_every_length() -> None:
    """Trap 11: at K = 1, K/2 is none; the last cell is trimmed, and so H may reach beyond T."""
    plan = equal(ONE, MICRO, TENTH)
    for k in range(7):
        points = rec.hits([0, 60], k, plan, 62)
        literal = [60 + Fraction(i << k, 2) for i in range(16)]

        assert points == sorted(set(points))
        assert 0 <= points[0] <= points[-1] <= 62
        assert any(each.denominator > 1 or each > 62 for each in literal)


def test_padded_by_zero_a_concave_quality_below_zero_gets_a_second_hill() -> None:
    """Trap 12. Its levels are other ones, too: as if there were a plateau of 23 zeros."""
    values = [max(5 - 3 * abs(i - 10), -30) for i in range(42)]
    whole = all_of(rec.padded(Quality.of(values)))
    literal = [*values, *[0] * (65 - 42)]

    assert is_concave(whole)
    assert not is_concave(literal)
    assert brute_force(literal)[4] == 0 > brute_force(whole)[4]


def test_with_max_instead_of_min_at_the_top_level_the_levels_would_rise_again() -> None:
    """Trap 12: the text's min{0, ·} is right, also where all scores are negative; then max is 0, above the last."""
    found = rec.levels(Quality.of([-7, -3, -2, -3, -9]))

    assert found == [-2, -3, -7, -7]
    assert max(0, found[-2]) > found[-2]


def test_partitions_with_one_cell_or_none_and_no_answer_have_a_defined_outcome() -> None:
    """Trap 13. Flat: A_dist finds nothing, H is the first cell's. Long: A is one cell, and B has none."""
    plan = equal(ONE, MICRO, TENTH, base_case=7)
    flat = Quality.of([5] * 128)

    short, long = rec.leads(flat, 0, plan, 0), rec.leads(flat, 7, plan, 0)
    assert [lead.gap for lead in short] == [0, 0]
    assert long == [rec.Lead(0, None)]
    assert rec.hits([None, None], 0, plan, 127) == list(range(8))
    assert rec.hits([0], 7, plan, 127) == [0, 64, 127]
    assert rec.leads(Quality.of([5] * 9), 0, plan, 0) == [rec.Lead(0, 0), rec.Lead(4, None)]


def test_a_cells_lead_is_over_the_best_outside_of_it_whether_listed_or_not() -> None:
    """Trap 13: f₂ among all cells. Against a list of all of them, with random steps."""
    pick = random.Random(8)
    for _ in range(300):
        quality = Quality.of([pick.randint(0, 9) * (pick.random() < 0.2) for _ in range(65)])
        plan = pick.choice([equal(ONE, MICRO, TENTH), replace(equal(ONE, MICRO, TENTH), spread=8)])
        k, shift = pick.randrange(4), pick.randrange(8)
        width = 8 << k
        firsts = [-shift << k] if plan.spread else [0, 4 << k]
        for begin, lead in zip(firsts, rec.leads(quality, k, plan, shift), strict=True):
            cells = {left: range(max(0, left), min(64, left + width - 1) + 1) for left in range(begin, 65, width)}
            scores = {left: max(map(quality.at, cell)) for left, cell in cells.items() if cell}
            expected = distance.ahead(scores, others=False)

            assert lead.gap == expected.gap
            assert lead.left == expected.best or not lead.gap


def test_levels_are_fewer_than_log_star_and_basic_composition_beats_lemma_2() -> None:
    """Trap 14."""
    for d, base_case, levels in ((5, 32, 0), (6, 32, 1), (32, 32, 1), (33, 32, 2), (512, 32, 2), (512, 512, 1)):
        plan = equal(ONE / 10, MICRO, TENTH, base_case=base_case)
        price = rec_plan.paid(1 << d, plan)
        theirs = approximate.rec_privacy_repaired(top=1 << d, epsilon=0.1, delta=1e-6, base_case=base_case)
        stated = approximate.rec_privacy_stated(top=1 << d, epsilon=0.1, delta=1e-6)

        assert price == Paid((3 * levels + 1) * ONE / 10, 2 * levels * MICRO)
        assert (float(price.epsilon), float(price.delta)) == pytest.approx(theirs)
        assert approximate.log_star(1 << d) > levels
        assert price.epsilon < stated.epsilon
        assert price.delta < stated.delta


def test_with_alpha_at_every_level_a_promise_is_too_small_that_is_enough_with_a_constant() -> None:
    """Trap 15, at two levels: 2^64 solutions, 65, 7."""
    ours = equal(ONE, MICRO, TENTH, base_case=6)
    promise = rec_plan.promise_needed(1 << 64, ours, TENTH)
    quality = hill(1 << 64, 12345, 12345 + (1 << 30), lambda bits: promise - math.ceil(promise * bits / 200))

    assert right(quality, promise, ours) >= 0.9
    assert rec_plan.failure(1 << 64, promise, replace(ours, inner=TENTH)) == 1
    assert rec_plan.promise_needed(1 << 64, replace(ours, inner=TENTH), TENTH) > 2 * promise


@pytest.mark.parametrize("stated", [False, True])
def test_a_tuned_plan_spends_no_more_than_it_is_given(stated: bool) -> None:
    for d, base_case, failure in (
        (6, None, TENTH),
        (64, None, TENTH),
        (64, 8, TENTH),
        (1024, None, MICRO),
        (4, 32, TENTH),
    ):
        plan = tuned(1 << d, epsilon=ONE, delta=MICRO, error=TENTH, failure=failure, base_case=base_case)
        price = rec_plan.paid(1 << d, replace(plan, stated=stated))

        assert price.epsilon == ONE or (stated and price.epsilon < ONE)
        assert price.delta <= MICRO
        assert (plan.spread == 0) == (failure == MICRO)


# --- Refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("starts", "values"),
    [([], []), ([1], [0]), ([0, 0], [1, 1]), ([0, 5], [1]), ([0, 9], [1, 1]), ([0], [0.5]), ([0], [Fraction(1, 2)])],
)
def test_what_is_no_whole_valued_function_on_the_range_is_refused(starts: list[int], values: list[int]) -> None:
    with pytest.raises(ProtocolError, match="quality"):
        Quality.pieces(8, starts, values)


@pytest.mark.parametrize(
    "change",
    [
        {"base": Fraction(0)},
        {"last": Fraction(-1)},
        {"distance": Paid(ONE)},
        {"distance": Paid(Fraction(0), TENTH)},
        {"error": ONE},
        {"inner": Fraction(0)},
        {"middle": ONE},
        {"base_case": 1},
        {"spread": 4},
        {"spread": 12},
    ],
)
def test_a_plan_out_of_range_is_refused(change: dict[str, Fraction]) -> None:
    with pytest.raises(ProtocolError):
        replace(equal(ONE, MICRO, TENTH), **change)


def test_a_promise_that_is_no_count_is_refused() -> None:
    with pytest.raises(ProtocolError, match="promise"):
        rec.rec(plateau(3, 4), -1, plan=equal(ONE, MICRO, TENTH), draw=below(SimulatedRandom(0)))


def test_a_failure_below_that_of_the_random_shift_is_refused() -> None:
    with pytest.raises(ProtocolError, match="shift"):
        rec_plan.promise_needed(1 << 64, replace(equal(ONE, MICRO, TENTH), spread=8), TENTH)
