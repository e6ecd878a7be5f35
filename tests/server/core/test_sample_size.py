"""A plan's users suffice for every population that is tried, and fewer by far do not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from askance_protocol.channels import BinaryResponse
from askance_protocol.rounds import PreparedPart
from askance_protocol.tally import Tally
from askance_server.core import tails
from askance_server.core.estimators import estimate
from askance_server.core.sample_size import reports_needed
from tests.protocol.studies import PARTS
from tests.server.core.test_estimators import ALL, each_part, populations, report_probabilities, truth

TOLERANCE, FAILURE, RUNS = 0.1, 0.1, 300


def failures(one: PreparedPart, reports: int) -> int:
    """The most failures of a plan over the populations, of `RUNS` runs each."""
    rng, worst = np.random.default_rng(31), 0
    for population in populations(one).values():
        probabilities, aim = report_probabilities(one, population), truth(one, population)
        failed = 0
        for _ in range(RUNS):
            counts = rng.multinomial(reports, probabilities.ravel() / probabilities.sum())
            values = estimate(one, Tally(counts.reshape(probabilities.shape))).values
            failed += bool(np.abs(values - aim).max() > TOLERANCE + 1e-12)
        worst = max(worst, failed)
    return worst


@each_part
def test_the_planned_reports_suffice_and_a_fifth_of_them_do_not(one: PreparedPart) -> None:
    needed = reports_needed(one, TOLERANCE, FAILURE)

    assert stats.binom.sf(failures(one, needed) - 1, RUNS, FAILURE) > 1e-6
    assert stats.binom.sf(failures(one, needed // 5) - 1, RUNS, FAILURE) < 1e-6


@pytest.mark.parametrize("name", [name for name, part in PARTS.items() if part.channel.kind == "binary"])
def test_exact_tails_need_fewer_than_hoeffding(name: str) -> None:
    one = ALL[name]
    assert isinstance(one.channel, BinaryResponse)
    estimates = 1 if "cell" not in name else 8
    width = 2 * float(one.channel.scale) / (2 if "boolean" in name else 1)
    generous = tails.users_hoeffding(deviation=TOLERANCE, width=width, failure=FAILURE / estimates)
    assert reports_needed(one, TOLERANCE, FAILURE) < 0.9 * generous
