"""How many reports until the right row of a pooled question leads: against sums over all counts, and simulated."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from askance_lab.experiments.planned_users import plan_study
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery
from askance_protocol.queries.language import Label, Slice
from askance_protocol.rounds import BinarySpec
from askance_server.core.planners import users_for_leading_row
from askance_server.core.run import StrategyError, _check_ask  # pyright: ignore[reportPrivateUsage]
from askance_server.core.strategy import Ask

KEPT = (np.e - 1) / (np.e + 1)
"""1/C at ε = 1."""


def behind(users: int, rows: int, kept: float, lead: float = 1.0) -> float:
    """Union bound of the probability that the right row does not lead, summed over every number of steps."""
    steps = np.arange(users + 1)
    moves = min(1.0, 2 / rows)
    chances = stats.binom.pmf(steps, users, moves)
    return float((rows - 1) * chances @ stats.binom.cdf(steps // 2, steps, 0.5 + lead * kept / 4))


@pytest.mark.parametrize("rows", [2, 4, 16, 256])
@pytest.mark.parametrize("failure", [0.5, 0.05, 1e-5])
def test_so_many_reports_suffice_and_a_tenth_fewer_do_not(rows: int, failure: float) -> None:
    for kept, lead in ((KEPT, 1.0), (0.9, 0.5)):
        users = users_for_leading_row(kept, rows, lead, failure)

        assert behind(users, rows, kept, lead) <= failure * (1 + 1e-6)
        assert behind(max(0, int(users * 0.9) - 4), rows, kept, lead) > failure


def test_every_report_more_is_better() -> None:
    """What makes bisection exact."""
    for rows in (4, 8, 64):
        found = [behind(users, rows, KEPT) for users in range(1, 200)]
        assert all(later <= earlier + 1e-12 for earlier, later in pairwise(found))
    # Of two rows an even number may stand at a tie: the plan is enough with one report more, too.
    users = users_for_leading_row(KEPT, 2, 1, 0.05)
    assert max(behind(users, 2, KEPT), behind(users + 1, 2, KEPT)) <= 0.05


def rate_of_success(users: int, d: int, studies: int) -> float:
    """How often row 0, whose labels all agree, leads, from the counts of each row's reports."""
    source, rows = np.random.default_rng(6), 2**d
    right = 0
    for _ in range(studies):
        dealt = source.multinomial(users, np.full(rows, 1 / rows))
        agreeing = source.binomial(dealt, np.where(np.arange(rows) == 0, (1 + KEPT) / 2, 0.5))
        right += int(np.argmax(2 * agreeing - dealt) == 0)
    return right / studies


@pytest.mark.parametrize("d", [4, 8])
def test_the_plan_of_parity_is_enough_and_half_of_it_is_not(d: int) -> None:
    planned = plan_study("parity", {"d": d}).rounds[0].planned
    assert planned == users_for_leading_row(KEPT, 2**d, 1, 0.05)
    # 1,000 studies: 95 % less three standard errors; of half the users the bound itself gives no 80 %.
    assert rate_of_success(planned, d, 1000) >= 0.95 - 3 * 0.0069
    assert rate_of_success(planned // 2, d, 1000) < 0.85


def test_a_lead_is_of_cells_that_one_bit_asks_for() -> None:
    cells = CellQuery(cells=4, cell=Slice(field="x", first=0, width=2), negative=Label(sign=-1))
    _check_ask("ask 0", Ask(cells, 0.1, "binary", row_lead=1))
    for wrong in (
        Ask(cells, 0.1, "kary", row_lead=1),
        Ask(cells, 0.1, "best", row_lead=1),
        Ask(cells, 0.1, row_lead=1),
        Ask(cells, 0.1, "binary", row_lead=-1),
        Ask(cells, 0.1, "binary", row_lead=2.5),
        Ask(cells, 0.1, "binary", row_lead=True),
        Ask(BooleanQuery(test=Label(sign=1)), 0.1, "binary", row_lead=1),
    ):
        with pytest.raises(StrategyError, match="row_lead"):
            _check_ask("ask 0", wrong)


def test_no_lead_and_no_channel_are_refused() -> None:
    for kept, lead, named in ((KEPT, 0, "lead"), (KEPT, 2.5, "lead"), (1.0, 1, "kept"), (0.0, 1, "kept")):
        with pytest.raises(ProtocolError, match=named):
            users_for_leading_row(kept, 4, lead, 0.05)
    # So many that double precision does not resolve single reports: Markov's bound itself.
    assert users_for_leading_row(1e-7, 4096, 1, 0.05) > 10**15
    assert BinarySpec(micro_epsilon=1_000_000).kind == "binary"
