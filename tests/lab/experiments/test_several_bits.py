"""At larger ε a report of MASKED-PARITY's search is of several bits, and fewer users do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from askance_lab.experiments.sample_size import learner_of, measure
from askance_server.core.cell_channels import ReportsAt
from askance_server.core.strategy import Reports, Strategy
from askance_server.strategies.masked_parity_pooled import MASKED_PARITY_POOLED, run
from askance_server.strategies.masked_parity_until_sure import MASKED_PARITY_UNTIL_SURE
from askance_server.strategies.shared.posterior import WhatReportsTell, shrinkage


@pytest.mark.parametrize("strategy", [MASKED_PARITY_POOLED, MASKED_PARITY_UNTIL_SURE])
@pytest.mark.parametrize(("epsilon", "channel"), [(1_000_000, "binary"), (1_500_000, "best"), (3_000_000, "best")])
def test_the_search_asks_by_one_bit_where_more_gain_little(strategy: Strategy, epsilon: int, channel: str) -> None:
    assert strategy.at is not None
    [ask] = next(strategy.at(ReportsAt(epsilon)).run({"d": 8}))

    assert ask.channel == channel


def one_bit(reports: Reports) -> Strategy:
    """The same search by one bit, whatever ε is."""
    told = WhatReportsTell(shrinkage(reports), "binary")
    return replace(MASKED_PARITY_POOLED, at=None, run=partial(run, told=told))


def test_reports_of_several_bits_find_the_concept_with_users_with_whom_one_bit_does_not() -> None:
    parameters, users, seeds = {"d": 16, "epsilon": "3"}, 1800, range(20)
    several = measure(learner_of(MASKED_PARITY_POOLED, parameters), users, seeds)
    single = measure(learner_of(replace(MASKED_PARITY_POOLED, at=one_bit), parameters), users, seeds)

    assert several.right.count >= 17
    # The control: the same users, by binary response.
    assert single.right.count <= 14
