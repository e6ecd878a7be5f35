"""Estimates are unbiased and their intervals hold: at the ends and in the middle, for one report and for many."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import special, stats

from askance_protocol.budget import MICRO
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import GeometricSpec, PreparedPart, TableSpec
from askance_protocol.tally import Tally, tally_round
from askance_server.core.estimators import Estimates, bounded_interval, clopper_pearson, estimate, estimate_each
from tests.protocol.studies import HEIGHT, MASKED_BIT, PARTS, SCHEMA, TABLE, D, part, prepared

Floats = NDArray[np.float64]
ALL = {name: prepared(one).parts[0] for name, one in PARTS.items()}
each_part = pytest.mark.parametrize("one", ALL.values(), ids=ALL.keys())


def answers_of(one: PreparedPart) -> list[int]:
    """Every answer that the part's query can have."""
    match one.query.query:
        case BooleanQuery():
            return [0, 1]
        case RealQuery(denominator=denominator):
            return list(range(-denominator, denominator + 1))
        case CellQuery(cells=cells, negative=negative):
            positive = list(range(1, cells + 1))
            none = [0] if one.pooled else []
            return none + positive + ([-answer for answer in positive] if negative is not None else [])


def truth(one: PreparedPart, population: Floats) -> Floats:
    """What is estimated, for a population given as the share of each answer."""
    answers = np.array(answers_of(one))
    match one.query.query:
        case BooleanQuery():
            return np.array([population @ answers])
        case RealQuery(denominator=denominator):
            return np.array([population @ answers / denominator])
        case CellQuery(cells=cells):
            return np.array([population @ (np.sign(answers) * (np.abs(answers) == cell + 1)) for cell in range(cells)])


def report_probabilities(one: PreparedPart, population: Floats) -> Floats:
    """Pr[row, outcome] of a random user's report, from the channel's exact table."""
    table = np.array([[float(weight) for weight in row] for row in one.channel.table()]) / 2.0**64
    answers = answers_of(one)
    return (
        np.array([population @ table[[int(one.encode(answer, row)) for answer in answers]] for row in range(one.rows)])
        / one.rows
    )


def populations(one: PreparedPart) -> dict[str, Floats]:
    """Extreme and middle: everybody at one end, everybody at the other, half and half, spread out."""
    count = len(answers_of(one))
    first, last = np.eye(count)[0], np.eye(count)[-1]
    return {"first": first, "last": last, "halves": (first + last) / 2, "spread": np.full(count, 1 / count)}


@each_part
def test_the_estimate_is_unbiased_for_every_population(one: PreparedPart) -> None:
    """On the expected tally the estimate is the truth: the score undoes the channel, exactly."""
    for population in [*populations(one).values(), *np.eye(len(answers_of(one)))]:
        expected = Tally(np.rint(report_probabilities(one, population) * 2.0**50).astype(np.int64))
        assert np.abs(estimate(one, expected).values - truth(one, population)).max() < 1e-9


SIZES = [1, 2, 5, 30, 1000, 100_000]
RUNS = 400
MISSES_ALLOWED = 1e-6

Method = Callable[[PreparedPart, Sequence[Tally], float], Sequence[Estimates]]


def coverage_fault(one: PreparedPart, method: Method, confidence: float = 0.9) -> str | None:
    """Where the intervals of a method miss more often than they may, by a binomial test at 10⁻⁶; else None."""
    rng = np.random.default_rng(20)
    for name, population in populations(one).items():
        probabilities, aim = report_probabilities(one, population), truth(one, population)
        for size in SIZES:
            draws = rng.multinomial(size, probabilities.ravel() / probabilities.sum(), size=RUNS)
            tallies = [Tally(counts.reshape(probabilities.shape)) for counts in draws]
            ends = np.array([(found.low, found.high) for found in method(one, tallies, confidence)])
            missed = ((aim < ends[:, 0] - 1e-12) | (aim > ends[:, 1] + 1e-12)).sum(axis=0)
            if stats.binom.sf(missed.max() - 1, RUNS, 1 - confidence) < MISSES_ALLOWED:
                return f"{name}, {size} reports: {missed.max():.0f} of {RUNS} missed"
    return None


@each_part
def test_intervals_cover_for_few_reports_and_many_for_extreme_and_middle_means(one: PreparedPart) -> None:
    assert coverage_fault(one, estimate_each) is None


def normal_intervals(reach: float) -> Method:
    """What textbooks do: the estimate ± z standard errors; or a part of it."""

    def method(one: PreparedPart, tallies: Sequence[Tally], confidence: float) -> Sequence[Estimates]:
        z = reach * stats.norm.isf((1 - confidence) / 2)
        honest = estimate_each(one, tallies, confidence)
        return [
            replace(each, low=each.values - z * each.standard_errors, high=each.values + z * each.standard_errors)
            for each in honest
        ]

    return method


@each_part
def test_control_intervals_half_as_wide_are_caught(one: PreparedPart) -> None:
    assert coverage_fault(one, normal_intervals(0.5)) is not None


@each_part
def test_several_tallies_at_once_have_the_estimates_of_each(one: PreparedPart) -> None:
    rng = np.random.default_rng(4)
    shape = one.rows, one.channel.outcomes
    tallies = [
        Tally(rng.multinomial(300, np.full(shape[0] * shape[1], 1 / (shape[0] * shape[1]))).reshape(shape))
        for _ in range(5)
    ]

    for tally, found in zip(tallies, estimate_each(one, tallies, 0.9), strict=True):
        alone = estimate(one, tally, 0.9)
        for name in ("values", "standard_errors", "low", "high"):
            assert getattr(found, name) == pytest.approx(getattr(alone, name), abs=1e-9), name
        assert (found.confidence, found.received) == (0.9, 300)


def test_tallies_of_unlike_numbers_of_reports_are_not_estimated_together() -> None:
    with pytest.raises(ProtocolError, match=r"^tallies: have not equally many"):
        estimate_each(ALL["boolean, binary"], [Tally.of([[1, 2]]), Tally.of([[1, 1]])])


def test_control_the_normal_interval_is_caught_at_few_reports() -> None:
    fault = coverage_fault(ALL["boolean, table"], normal_intervals(1))
    assert fault is not None
    assert " 1 reports" in fault or " 2 reports" in fault or " 5 reports" in fault


@each_part
def test_the_standard_error_is_the_spread_of_the_estimate(one: PreparedPart) -> None:
    rng = np.random.default_rng(8)
    probabilities = report_probabilities(one, populations(one)["spread"])
    draws = rng.multinomial(2000, probabilities.ravel() / probabilities.sum(), size=400)
    found = estimate_each(one, [Tally(counts.reshape(probabilities.shape)) for counts in draws])
    spread = np.std([each.values for each in found], axis=0)
    claimed = np.mean([each.standard_errors for each in found], axis=0)
    # The standard deviation of 400 runs is itself known to about 3.5 %.
    assert np.abs(spread / claimed - 1).max() < 0.2


def test_clopper_and_pearson_cover_exactly() -> None:
    """Enumerated, not simulated: for every proportion of a grid, the covered counts have enough probability."""
    for size in (1, 2, 3, 10, 60):
        counts = np.arange(size + 1)
        low, high = clopper_pearson(counts, size, 0.95)
        assert low[0] == 0
        assert high[-1] == 1
        for proportion in np.linspace(0, 1, 501):
            covered = (low <= proportion) & (proportion <= high)
            assert np.sum(stats.binom.pmf(counts[covered], size, proportion)) >= 0.95 - 1e-12


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_binomial_interval_is_no_wider_than_the_two_beta_quantiles(size: int) -> None:
    """Clopper and Pearson's definition, each end with half of what may go wrong."""
    ones = np.arange(size + 1)
    low, high = clopper_pearson(ones, size, 0.95)
    assert low[0] == 0
    assert high[-1] == 1
    assert low[1:] == pytest.approx(stats.beta.ppf(0.025, ones[1:], size - ones[1:] + 1), rel=1e-9)
    assert high[:-1] == pytest.approx(stats.beta.ppf(0.975, ones[:-1] + 1, size - ones[:-1]), rel=1e-9)


def test_the_bounded_interval_shrinks_with_the_variance() -> None:
    """Many reports of small variance: Maurer and Pontil's bound is far narrower than Hoeffding's."""
    low, high = bounded_interval(0.5, 0.0001, 10**6, (0.0, 1.0), 0.95)
    assert high - low < 0.0001
    assert low < 0.5 < high


def kl(mean: float, p: float) -> float:
    """Relative entropy of two coins."""
    return float(special.rel_entr(mean, p) + special.rel_entr(1 - mean, 1 - p))


@pytest.mark.parametrize(("bottom", "top"), [(0.0, 1.0), (-3.0, 2.0)])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("received", [1, 20, 5000])
def test_a_bounded_interval_is_where_both_theorems_hold_each_side_with_a_quarter_of_the_failure(
    bottom: float, top: float, share: float, received: int
) -> None:
    """Hoeffding 1963, Thm 1: n·kl = ln(1/δ). Maurer and Pontil 2009, Thm 4: √(2V ln(2/δ)/n) + 7 ln(2/δ)/(3(n − 1))."""
    width, confidence = top - bottom, 0.9
    value, side = bottom + share * width, (1 - confidence) / 4
    for variance in (0.0, 0.01 * width**2):
        low, high = bounded_interval(value, variance, received, (bottom, top), confidence)
        reach = math.inf
        if received > 1:
            log = math.log(2 / side)
            reach = math.sqrt(2 * variance * log / received) + 7 * width * log / (3 * (received - 1))

        assert low <= value <= high
        for end, away in ((low, -1), (high, 1)):
            # Nothing further away is left by both theorems, and nothing nearer is excluded by either.
            outside, inside = end + 1e-9 * away, end - 1e-9 * away
            beyond = not bottom < outside < top or received * kl(share, (outside - bottom) / width) >= math.log(
                1 / side
            )
            assert beyond or abs(outside - value) >= reach
            if abs(end - value) > 1e-9:
                assert received * kl(share, (inside - bottom) / width) <= math.log(1 / side)
                assert abs(inside - value) <= reach


def test_a_bound_on_a_variance_narrows_an_interval_only_with_two_reports() -> None:
    one, two = (bounded_interval(0.5, 0.0, received, (0.0, 1.0), 0.5) for received in (1, 10_000))

    assert one == pytest.approx((0.5 - math.sqrt(1 - (1 / 8) ** 2) / 2, 0.5 + math.sqrt(1 - (1 / 8) ** 2) / 2))
    assert two == pytest.approx((0.5 - 7 * math.log(16) / (3 * 9999), 0.5 + 7 * math.log(16) / (3 * 9999)))


@each_part
def test_one_report_alone_has_an_error_as_large_as_can_be_and_all_stay_in_their_domain(one: PreparedPart) -> None:
    singles = list[Estimates]()
    for row, word in product(range(one.rows), range(one.channel.outcomes)):
        counts = np.zeros((one.rows, one.channel.outcomes), np.int64)
        counts[row, word] = 1
        singles.append(estimate(one, Tally(counts)))
    values = np.array([single.values for single in singles])
    signed = isinstance(one.query.query, RealQuery) or getattr(one.query.query, "negative", None) is not None

    for single in singles:
        assert single.standard_errors == pytest.approx(np.ptp(values, axis=0) / 2)
        assert (single.low >= (-1 if signed else 0)).all()
        assert (single.high <= 1).all()
        assert (single.low < single.high).all()
        assert (single.received, single.confidence) == (1, 0.95)
    # The control: what is estimated is not held to the domain, or it would be biased.
    assert values.max() > 1


@each_part
def test_an_interval_is_never_so_far_out_that_nothing_possible_is_left_of_it(one: PreparedPart) -> None:
    """400 reports alike, whichever: their scores' means lie where no mean can be, and their interval is the nearest."""
    signed = isinstance(one.query.query, RealQuery) or getattr(one.query.query, "negative", None) is not None
    least, most, beyond = -1.0 if signed else 0.0, 1.0, 0
    for row, word in product(range(one.rows), range(one.channel.outcomes)):
        counts = np.zeros((one.rows, one.channel.outcomes), np.int64)
        counts[row, word] = 400
        found = estimate(one, Tally(counts))
        below, above = found.values < least, found.values > most
        beyond += int(below.sum() + above.sum())

        assert (found.high - found.low > 0.001).all()
        assert (found.low[below] == least).all()
        assert (found.high[above] == most).all()
    # The control: without such means there would be nothing to see.
    assert beyond > 0


@each_part
def test_the_standard_error_is_that_of_the_mean_of_the_scores_by_its_definition(one: PreparedPart) -> None:
    """√(V/n) with the sample variance, V = Σ (f − mean)²/(n − 1), of what single reports estimate."""
    counts = np.random.default_rng(2).integers(1, 9, (one.rows, one.channel.outcomes))
    found = estimate(one, Tally(counts))
    total, square = np.zeros(len(found.values)), np.zeros(len(found.values))
    for row, word in product(range(one.rows), range(one.channel.outcomes)):
        single = np.zeros_like(counts)
        single[row, word] = 1
        score = estimate(one, Tally(single)).values
        total += counts[row, word] * score
        square += counts[row, word] * score**2
    received = counts.sum()
    mean = total / received

    assert found.values == pytest.approx(mean)
    assert found.standard_errors == pytest.approx(np.sqrt((square / received - mean**2) / (received - 1)))


# ------------------------------------------------------------------------------------------------------- tallies


def population_columns(count: int, seed: int) -> Columns:
    rng = np.random.default_rng(seed)
    arrays = {
        "x": rng.integers(0, 2, (count, D)),
        "i": rng.integers(0, D, count),
        "b": rng.integers(0, 2, (count, 1)),
        "height": rng.uniform(-1, 1, count),
        "y": rng.choice([-1, 1], count, p=[0.8, 0.2]),
    }
    return Columns.of(SCHEMA, arrays)


def test_from_examples_to_estimates_the_truth_is_within_the_intervals() -> None:
    """All parts in one noninteractive round: 60,000 users per part on average."""
    count = 60_000 * len(PARTS)
    columns, round_ = population_columns(count, 1), prepared(*PARTS.values())
    outcomes = round_.respond_all(range(count), columns, SimulatedRandom(2)).outcomes
    tallies = tally_round(round_, range(count), outcomes)

    assert sum(tally.received for tally in tallies) == count
    for one, tally in zip(round_.parts, tallies, strict=True):
        answers = one.query.answers(columns)
        population = np.array([(answers == answer).mean() for answer in answers_of(one)])
        found = estimate(one, tally, 1 - 1e-6)
        assert (found.low <= truth(one, population)).all()
        assert (truth(one, population) <= found.high).all()
        assert (np.abs(found.values - truth(one, population)) < 6 * found.standard_errors).all()


@pytest.mark.parametrize("vanish", [0.3, 0.6])
def test_users_who_drop_out_at_random_move_no_estimate(vanish: float) -> None:
    """What is divided by is what was received. |z| < 4.9 each, two-sided 10⁻⁶."""
    columns = population_columns(40_000, 3)
    for one in (PARTS["boolean, binary"], PARTS["real, laplace"], PARTS["cell, Hadamard"], PARTS["cell, kary"]):
        round_ = prepared(one)
        outcomes = round_.respond_all(range(40_000), columns, SimulatedRandom(6)).outcomes
        staying = np.flatnonzero(np.random.default_rng(7).random(40_000) >= vanish)
        (tally,) = tally_round(round_, staying, outcomes[staying])
        found = estimate(round_.parts[0], tally)
        answers = round_.parts[0].query.answers(columns)
        aim = truth(round_.parts[0], np.array([(answers == answer).mean() for answer in answers_of(round_.parts[0])]))
        assert tally.received == len(staying)
        assert (np.abs(found.values - aim) < 4.9 * found.standard_errors).all()


def test_tallies_of_parts_of_the_users_add_up() -> None:
    round_ = prepared(*PARTS.values())
    outcomes = round_.respond_all(range(3000), population_columns(3000, 4), SimulatedRandom(5)).outcomes
    whole = tally_round(round_, range(3000), outcomes)
    halves = [tally_round(round_, range(start, start + 1500), outcomes[start : start + 1500]) for start in (0, 1500)]
    shuffled = np.random.default_rng(0).permutation(3000)
    again = tally_round(round_, shuffled, outcomes[shuffled])

    for at, tally in enumerate(whole):
        assert (tally.counts == (halves[0][at] + halves[1][at]).counts).all()
        assert (tally.counts == again[at].counts).all()
        assert (Tally.of(tally.to_rows()).counts == tally.counts).all()


# ------------------------------------------------------------------------------------------------------ refusals


def test_what_cannot_be_estimated_is_refused() -> None:
    one = ALL["boolean, binary"]
    with pytest.raises(ProtocolError, match="nobody has reported"):
        estimate(one, Tally.of([[0, 0]]))
    with pytest.raises(ProtocolError, match="rows and outcomes"):
        estimate(one, Tally.of([[1, 0, 0]]))
    for confidence in (0.0, 1.0, float("nan")):
        with pytest.raises(ProtocolError, match=r"^confidence"):
            estimate(one, Tally.of([[1, 0]]), confidence)


def test_an_outcome_of_another_part_is_refused() -> None:
    several = prepared(part(MASKED_BIT), part(HEIGHT, GeometricSpec(micro_epsilon=MICRO)))
    for round_, outcomes in (
        (several, np.full(100, 5)),
        (prepared(part()), np.array([2])),
        (prepared(part()), np.array([-1])),
    ):
        with pytest.raises(ProtocolError, match=r"^outcomes: "):
            tally_round(round_, range(len(outcomes)), outcomes)


def test_a_table_that_tells_nothing_estimates_nothing() -> None:
    deaf = TableSpec(weights=((str(1 << 63), str(1 << 63)),) * 2)
    with pytest.raises(ProtocolError, match="does not determine"):
        estimate(prepared(part(MASKED_BIT, deaf)).parts[0], Tally.of([[1, 1]]))


def test_a_table_with_turned_outcomes_is_estimated_all_the_same() -> None:
    """Outcome 0 stands for yes: the score falls, and the interval is still the right way round."""
    turned = TableSpec(weights=tuple(row[::-1] for row in TABLE.weights))
    plain, other = (prepared(part(MASKED_BIT, table, 2 * MICRO)).parts[0] for table in (TABLE, turned))
    found, mirrored = estimate(plain, Tally.of([[30, 70]])), estimate(other, Tally.of([[70, 30]]))
    assert np.allclose([found.values, found.low, found.high], [mirrored.values, mirrored.low, mirrored.high])
    assert found.low < found.values < found.high
