"""Intervals of scores with several values cover whatever the population is: enumerated for few reports, all tallies."""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special

from askance_protocol.budget import MICRO
from askance_protocol.channels.channel import Channel, matrix
from askance_protocol.channels.geometric import TwoSidedGeometric
from askance_protocol.channels.laplace import DiscreteLaplace
from askance_server.core.estimators import clopper_pearson
from askance_server.core.mixtures import Mixtures, interval, mixtures

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Question = tuple[Floats, Floats, Floats]
"""A channel's table, the score of each outcome, and what is wanted of each input."""


def added_noise(kind: type[Channel], epsilon: float, denominator: int) -> Question:
    """A number between −1 and 1 in steps of 1/denominator."""
    channel = kind(round(epsilon * MICRO), 2 * denominator)  # pyright: ignore[reportCallIssue] - both kinds take them
    wanted = np.arange(2 * denominator + 1) / denominator - 1
    return matrix(channel), channel.scores(wanted), wanted


def named(epsilon: float, wanted: tuple[float, ...]) -> Question:
    """Three-ary response: the score undoes it."""
    table = (np.ones((3, 3)) + np.expm1(epsilon) * np.eye(3)) / (2 + np.exp(epsilon))
    return table, np.linalg.solve(table, np.array(wanted)), np.array(wanted)


def some_table(seed: int) -> Question:
    """Any table: what is wanted is what its scores are the means of."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(3, 0.4), 3) + 0.002
    table /= table.sum(axis=1, keepdims=True)
    score = rng.normal(size=3)
    return table, score, table @ score


def two_likely(apart: int) -> Question:
    """Five scores, of which two are likely that are so far apart; the other three are rare."""
    table = np.full((2, 5), 0.002)
    table[0, 1] = table[1, 1 + apart] = 1
    table /= table.sum(axis=1, keepdims=True)
    score = np.arange(5.0)
    return table, score, table @ score


THREE = {
    **{f"geometric, {epsilon}": added_noise(TwoSidedGeometric, epsilon, 1) for epsilon in (0.5, 1, 3, 5, 8, 12)},
    "named, 1": named(1, (-1, 0, 1)),
    "named, 4": named(4, (-1, 0, 1)),
    "named, uneven": named(4, (0, 0.3, 1)),
    "a cell of three": named(1, (0, 0, 1)),
    "a table": some_table(5),
}
FIVE = {
    "two likely scores, near": two_likely(1),
    "two likely scores, far": two_likely(2),
    "geometric of five": added_noise(TwoSidedGeometric, 2, 2),
    "geometric of five, hardly noisy": added_noise(TwoSidedGeometric, 9, 2),
}
RARE = [0.0, 0.001, 0.003, 0.01, 0.03, *np.arange(0.1, 1.001, 0.1).tolist()]


@cache
def mixed(inputs: int) -> Floats:
    """Populations: of two inputs each, in all shares; of three, a grid; and others."""
    one = np.eye(inputs)
    pairs = [share * one[a] + (1 - share) * one[b] for a, b in permutations(range(inputs), 2) for share in RARE]
    threes = [(a, b, max(1 - a - b, 0)) for a, b in product(RARE, RARE) if inputs == 3 and a + b < 1.0001]
    others = np.random.default_rng(1).dirichlet(np.full(inputs, 0.3), 50)
    return np.concatenate([pairs, np.array(threes).reshape(-1, inputs), others])


def family(question: Question) -> Mixtures:
    table, score, wanted = question
    return mixtures(table, score[np.newaxis], wanted[np.newaxis])


@cache
def tallies(reports: int, outcomes: int) -> Integers:
    """All ways in which so many reports may fall on so many outcomes."""
    bars = combinations(range(reports + outcomes - 1), outcomes - 1)
    return np.array([np.diff((-1, *bar, reports + outcomes - 1)) - 1 for bar in bars])


def misses(question: Question, reports: int, confidence: float, shrunk: float = 0.0) -> tuple[float, float]:
    """The largest probability of a miss, and of one on one side, over all populations: every tally is enumerated."""
    table, _, wanted = question
    counts, populations = tallies(reports, table.shape[1]), mixed(len(table))
    low, high = interval(family(question), counts, confidence)
    # What is cut off lies inside: where an end is the last mean that there may be, it stays.
    cut = (high - low) / 2 * shrunk
    low = np.where(low > wanted.min() + 1e-9, low + cut, low)
    high = np.where(high < wanted.max() - 1e-9, high - cut, high)
    ways = special.gammaln(reports + 1) - special.gammaln(counts + 1).sum(axis=1)
    likely = np.exp(ways[:, np.newaxis] + counts @ np.log(populations @ table).T)
    truth = populations @ wanted
    below, above = (
        (likely * missed).sum(axis=0)
        for missed in (low[:, np.newaxis] > truth + 1e-9, high[:, np.newaxis] < truth - 1e-9)
    )
    return float((below + above).max()), float(np.maximum(below, above).max())


@pytest.mark.parametrize("question", FIVE.values(), ids=FIVE.keys())
@pytest.mark.parametrize("reports", [1, 2, 3, 4, 6, 8, 10])
def test_no_population_of_five_scores_is_missed_more_often_than_it_may(question: Question, reports: int) -> None:
    for confidence in (0.5, 0.95):
        missed, one_side = misses(question, reports, confidence)
        assert missed <= 1 - confidence
        assert one_side <= 0.6 * (1 - confidence)


@pytest.mark.parametrize("question", THREE.values(), ids=THREE.keys())
@pytest.mark.parametrize("reports", [1, 2, 3, 4, 5, 8, 12, 20, 40])
def test_no_population_is_missed_more_often_than_it_may(question: Question, reports: int) -> None:
    for confidence in (0.5, 0.8, 0.95, 0.999):
        missed, one_side = misses(question, reports, confidence)
        assert missed <= 1 - confidence
        assert one_side <= 0.6 * (1 - confidence)


@pytest.mark.parametrize("question", THREE.values(), ids=THREE.keys())
def test_control_intervals_a_tenth_shorter_miss(question: Question) -> None:
    assert misses(question, 80, 0.95, shrunk=0.1)[0] > 0.05


MANY = {
    "geometric": added_noise(TwoSidedGeometric, 1, 10),
    "geometric, hardly noisy": added_noise(TwoSidedGeometric, 8, 10),
    "laplace": added_noise(DiscreteLaplace, 2, 5),
}
ALL = THREE | FIVE | MANY
each_question = pytest.mark.parametrize("question", ALL.values(), ids=ALL.keys())
SIZES = [1, 2, 7, 60, 3000, 10**6]


def some_tallies(question: Question, reports: int, count: int = 12) -> Integers:
    """Of several populations, and all reports alike."""
    table = question[0]
    rng = np.random.default_rng(reports)
    laws = rng.dirichlet(np.full(len(table), 0.3), count) @ table
    drawn = [rng.multinomial(reports, law / law.sum()) for law in laws]
    return np.concatenate([drawn, reports * np.eye(table.shape[1], dtype=np.int64)])


@each_question
@pytest.mark.parametrize("reports", SIZES)
def test_ends_are_in_order_and_hold_the_nearest_mean_that_there_may_be(question: Question, reports: int) -> None:
    _, score, wanted = question
    counts = some_tallies(question, reports)
    low, high = interval(family(question), counts, 0.95)
    nearest = np.clip(counts @ score / reports, wanted.min(), wanted.max())

    assert (wanted.min() <= low).all()
    assert (low <= nearest + 1e-12).all()
    assert (nearest - 1e-12 <= high).all()
    assert (high <= wanted.max()).all()
    assert (low < high).all()


@each_question
@pytest.mark.parametrize("reports", SIZES)
def test_a_higher_confidence_holds_the_lower_one(question: Question, reports: int) -> None:
    counts = some_tallies(question, reports)
    inner = None
    for confidence in (0.5, 0.8, 0.95, 0.99, 1 - 1e-6, 1 - 1e-12):
        low, high = interval(family(question), counts, confidence)
        if inner is not None:
            assert (low <= inner[0] + 1e-12).all()
            assert (inner[1] <= high + 1e-12).all()
        inner = low, high


@each_question
def test_the_order_of_outcomes_and_of_inputs_changes_nothing(question: Question) -> None:
    table, score, wanted = question
    rng = np.random.default_rng(1)
    outcomes, inputs = rng.permutation(table.shape[1]), rng.permutation(len(table))
    turned = table[inputs][:, outcomes], score[outcomes], wanted[inputs]
    for reports in SIZES:
        counts = some_tallies(question, reports)
        found = interval(family(question), counts, 0.95)
        other = interval(family(turned), counts[:, outcomes], 0.95)

        assert np.abs(np.array(found) - other).max() < 1e-9


@each_question
def test_scores_turned_over_turn_the_interval_over(question: Question) -> None:
    table, score, wanted = question
    for reports in SIZES:
        counts = some_tallies(question, reports)
        low, high = interval(family(question), counts, 0.95)
        mirrored = interval(family((table, -score, -wanted)), counts, 0.95)

        assert np.abs(np.array([low, high]) + mirrored[::-1]).max() < 1e-8


@each_question
def test_outcomes_of_one_score_are_one_outcome(question: Question) -> None:
    """Each outcome split in two: the same intervals from twice as many counts."""
    table, score, wanted = question
    split = np.repeat(table, 2, axis=1) * np.tile([0.25, 0.75], table.shape[1]), np.repeat(score, 2), wanted
    counts = some_tallies(question, 60)
    halves = np.stack([counts // 3, counts - counts // 3], axis=2).reshape(len(counts), -1)
    found, other = (np.array(interval(family(each), of, 0.95)) for each, of in ((question, counts), (split, halves)))

    assert np.abs(found - other).max() < 1e-9


def test_scores_of_several_questions_at_once_have_the_intervals_of_each() -> None:
    table, _, _ = named(2, (-1, 0, 1))
    wanted = np.array([(-1, 0, 1), (0, 0, 1), (1, 0.5, 0), (0, 1, 0)])
    scored: Floats = np.linalg.solve(table, wanted.T).T.astype(np.float64)
    counts = np.array([(20, 30, 50), (60, 20, 20), (1, 1, 98), (34, 33, 33)])
    low, high = interval(mixtures(table, scored, wanted), counts, 0.9)

    for row, ends in enumerate(zip(low, high, strict=True)):
        alone = interval(mixtures(table, scored[[row]], wanted[[row]]), counts[[row]], 0.9)
        assert ends == pytest.approx((alone[0].item(), alone[1].item()), abs=1e-9)


@pytest.mark.parametrize("several", [1, 2, 3])
def test_some_rows_are_those_rows_and_repeated_ones_come_in_their_order(several: int) -> None:
    table, _, _ = named(2, (-1, 0, 1))
    wanted = np.array([(-1, 0, 1), (0, 0, 1), (1, 0.5, 0)])[:several]
    every = mixtures(table, np.linalg.solve(table, wanted.T).T.astype(np.float64), wanted)
    last = every.rows(np.array([several - 1]))
    thrice = every.repeated(3)

    assert every.repeated(1) is every
    assert last.scores.tolist() == every.scores[-1:].tolist()
    assert last.domain[1].tolist() == every.domain[1][-1:].tolist()
    # One for all stays one for all.
    assert thrice.scores.tolist() == (every.scores.tolist() * 3 if several > 1 else every.scores.tolist())


@pytest.mark.parametrize("reports", [1, 5, 30, 1000, 10**6])
def test_two_values_have_nearly_the_interval_of_clopper_and_pearson(reports: int) -> None:
    """The same question, whose answer is exact there."""
    table = np.array([[0.75, 0.25], [0.25, 0.75]])
    score, wanted = np.array([-0.5, 1.5]), np.array([0.0, 1.0])
    ones = np.unique(np.linspace(0, reports, 30).astype(np.int64))
    low, high = interval(family((table, score, wanted)), np.stack([reports - ones, ones], axis=1), 0.95)
    ends = clopper_pearson(ones, reports, 0.95)
    inside = (ones >= 0.25 * reports) & (ones <= 0.75 * reports)

    for found, exact in zip((low, high), ends, strict=True):
        assert found[inside] == pytest.approx(np.clip(2 * exact - 0.5, 0, 1)[inside], abs=0.05 / reports)


@each_question
def test_no_population_of_a_mean_is_spread_out_less_or_more_than_the_hulls_say(question: Question) -> None:
    table, score, wanted = question
    squares = table @ score**2
    mixed = np.random.default_rng(3).dirichlet(np.full(len(wanted), 0.2), 500)
    hulls = family(question)
    (least_law, least), (most_law, most) = hulls.least.at(mixed @ wanted), hulls.most.at(mixed @ wanted)

    assert (least - 1e-9 <= mixed @ squares).all()
    assert (mixed @ squares <= most + 1e-9).all()
    for law, square in ((least_law, least), (most_law, most)):
        assert law.sum(axis=1) == pytest.approx(1)
        assert (law * hulls.scores).sum(axis=1) == pytest.approx(mixed @ wanted, abs=1e-9)
        assert (law * hulls.scores**2).sum(axis=1) == pytest.approx(square)


@pytest.mark.parametrize("question", MANY.values(), ids=MANY.keys())
def test_a_thousand_reports_have_an_interval_about_as_wide_as_the_normal_one(question: Question) -> None:
    table, score, _ = question
    law = (np.eye(len(table))[0] + np.eye(len(table)).mean(axis=0)) / 2 @ table
    for reports, wider in ((1000, 1.12), (100_000, 1.01)):
        counts = np.random.default_rng(2).multinomial(reports, law / law.sum(), 50)
        low, high = interval(family(question), counts, 0.95)
        normal = 2 * 1.96 * np.sqrt(law @ (score - law @ score) ** 2 / reports)

        assert 0.99 < (high - low).mean() / normal < wider


def test_of_inputs_that_all_count_alike_there_is_nothing_to_say() -> None:
    table = named(1, (-1, 0, 1))[0]
    low, high = interval(mixtures(table, np.array([[0.4, 0.5, 0.6]]), np.full((1, 3), 0.5)), np.array([[3, 2, 1]]), 0.9)

    assert (low, high) == (pytest.approx(0.5), pytest.approx(0.5))
