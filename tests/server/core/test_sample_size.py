"""A plan's users suffice for every population that is tried, and fewer by far do not."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy import stats

from askance_protocol.arrays import Floats, Integers
from askance_protocol.budget import MICRO
from askance_protocol.channels import BinaryResponse
from askance_protocol.rounds import PreparedPart
from askance_protocol.tally import Tally
from askance_server.core import planners, tails
from askance_server.core.estimators import estimate, estimated
from askance_server.core.sample_size import reports_for_row, reports_needed, reports_suffice
from tests.protocol.studies import PARTS, prepared
from tests.server.core.test_estimators import (
    ALL,
    answers_of,
    each_part,
    populations,
    report_probabilities,
    rows_of,
    truth,
)

TOLERANCE, FAILURE, RUNS = 0.1, 0.1, 300


def failures(one: PreparedPart, reports: int) -> int:
    """The most failures of a plan over the populations, of `RUNS` runs each."""
    rng, worst = np.random.default_rng(31), 0
    for population in populations(one).values():
        probabilities, aim = report_probabilities(one, population), truth(one, population)
        failed = 0
        for _ in range(RUNS):
            counts = rng.multinomial(reports, probabilities.ravel() / probabilities.sum())
            values = estimated(one, Tally(counts.reshape(probabilities.shape)))
            failed += bool(np.abs(values - aim).max() > TOLERANCE + 1e-12)
        worst = max(worst, failed)
    return worst


@each_part
def test_what_is_counted_here_is_what_is_published(one: PreparedPart) -> None:
    """The values of an estimate, without its intervals."""
    counts = np.random.default_rng(5).integers(0, 50, (one.rows, one.channel.outcomes))
    counts[: rows_of(one).start] = 0
    tally = Tally(counts)

    assert estimated(one, tally) == pytest.approx(estimate(one, tally).values, abs=1e-12)


@each_part
def test_the_planned_reports_suffice_and_a_fifth_of_them_do_not(one: PreparedPart) -> None:
    needed = reports_needed(one, TOLERANCE, FAILURE)

    assert stats.binom.sf(failures(one, needed) - 1, RUNS, FAILURE) > 1e-6
    assert stats.binom.sf(failures(one, needed // 5) - 1, RUNS, FAILURE) < 1e-6


def moments(one: PreparedPart) -> Iterator[tuple[Floats, Floats, Floats]]:
    """For each estimate the values of its score, and the mean and mean square of that for each answer of a user."""
    answers = answers_of(one)
    table = np.array([[float(weight) for weight in row] for row in one.channel.table()]) / 2.0**64
    # Estimates are linear in the tally: its score is what they are for a single report.
    shape = one.rows, one.channel.outcomes
    dealt = rows_of(one)
    scores = np.array([[estimated(one, Tally(single(shape, row, word))) for word in range(shape[1])] for row in dealt])
    reports = [table[[int(one.encode(answer, row)) for row in dealt]] / len(dealt) for answer in answers]
    for score in np.moveaxis(scores, -1, 0):
        means, squares = (np.array([float((each * score**power).sum()) for each in reports]) for power in (1, 2))
        yield score, means, squares


def single(shape: tuple[int, int], row: int, word: int) -> Integers:
    counts = np.zeros(shape, np.int64)
    counts[row, word] = 1
    return counts


def failure_of_all(one: PreparedPart, reports: int) -> float:
    """Sum over what the part estimates of the chance that it is off by more than the tolerance, at worst over users.

    From first principles: exact for scores of two values, by Bernstein's inequality for others. The variance of a
    mixture is a linear function less a square of one, so that two kinds of users make the worst of them.
    """
    total = 0.0
    for score, means, squares in moments(one):
        shares = np.linspace(0, 1, 101)[:, np.newaxis, np.newaxis]
        mean = shares * means + (1 - shares) * means[:, np.newaxis]
        variance = float((shares * squares + (1 - shares) * squares[:, np.newaxis] - mean**2).max())
        values = np.unique(np.round(score, 9))
        spread = float(np.ptp(values))
        if len(values) > 2:
            exponent = reports * TOLERANCE**2 / (2 * (variance + spread * TOLERANCE / 3))
            total += 2 * math.exp(-exponent)
            continue
        p = (np.unique(mean) - values[0]) / spread
        reach = reports * TOLERANCE / spread
        below, above = (
            stats.binom.cdf(np.ceil(reports * p - reach) - 1, reports, p),
            stats.binom.sf(np.floor(reports * p + reach), reports, p),
        )
        total += float((below + above).max())
    return total


@each_part
def test_the_failure_is_shared_by_all_that_a_part_estimates_and_the_worst_users_are_reckoned_with(
    one: PreparedPart,
) -> None:
    needed = reports_needed(one, TOLERANCE, FAILURE)

    assert failure_of_all(one, needed) <= FAILURE
    # The control: a tenth fewer do not suffice.
    assert failure_of_all(one, needed - needed // 10) > FAILURE


@pytest.mark.parametrize("name", [name for name, part in PARTS.items() if part.channel.kind == "binary"])
def test_exact_tails_need_fewer_than_hoeffding(name: str) -> None:
    one = ALL[name]
    assert isinstance(one.channel, BinaryResponse)
    estimates = 1 if "cell" not in name else 8
    width = 2 * float(one.channel.scale) / (2 if "boolean" in name else 1)
    generous = tails.users_hoeffding(deviation=TOLERANCE, width=width, failure=FAILURE / estimates)
    assert reports_needed(one, TOLERANCE, FAILURE) < 0.9 * generous


@pytest.mark.parametrize("name", ["boolean, binary", "real, binary", "cell, kary", "cell, Hadamard", "cell, hash"])
def test_as_many_as_are_needed_suffice_and_one_fewer_does_not(name: str) -> None:
    """Where the tails are exact."""
    one = prepared(PARTS[name]).parts[0]
    needed = reports_needed(one, TOLERANCE, FAILURE)

    assert reports_suffice(one, needed, TOLERANCE, FAILURE)
    assert not reports_suffice(one, needed - 1, TOLERANCE, FAILURE)
    assert not reports_suffice(one, needed, 0.9 * TOLERANCE, FAILURE)
    assert not reports_suffice(one, needed, TOLERANCE, 0.5 * FAILURE)


def test_a_row_leads_with_as_many_reports_as_its_channel_needs() -> None:
    one = prepared(PARTS["cell, Hadamard"]).parts[0]
    kept = 1 / BinaryResponse(MICRO).scale

    assert reports_for_row(one, 1, FAILURE) == planners.users_for_leading_row(float(kept), one.rows, 1, FAILURE)
