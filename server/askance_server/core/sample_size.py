"""Number of reports that a part needs: exact binomial tails or Bernstein's inequality, from its channel's numbers."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from askance_protocol import checks
from askance_protocol.arrays import Floats
from askance_protocol.channels import Channel
from askance_protocol.channels.channel import matrix
from askance_protocol.hashing import Buckets
from askance_protocol.queries import CellQuery
from askance_protocol.rounds import PreparedPart
from askance_server.core import planners
from askance_server.core.estimators import POOLED, Sums, wanted_of
from askance_server.core.hashed_cells import CellLaw, law


def reports_needed(part: PreparedPart, tolerance: float, failure: float, sums: Sums = ()) -> int:
    """Number of reports for every estimate of the part to be within `tolerance`, with probability 1 − `failure`.

    For two-valued scores by exact binomial tails, for others by Bernstein's inequality. Tolerance is on what is
    estimated: a frequency, a mean in [−1, 1], the signed share of a cell, or these sums of cells instead. Cells, or
    sums, share the failure evenly.
    """
    wanted, each = _estimated(part, failure, sums)
    if isinstance(part.pooling, Buckets) and not sums:
        return _hashed(law(part.pooling, part.channel), tolerance, each)
    return max(_needed(part.channel, target, tolerance, each) for target in wanted)


def reports_for_row(part: PreparedPart, lead: float, failure: float) -> int:
    """Number of reports until the right row leads, with probability 1 − `failure`: see `strategy.Ask.row_lead`."""
    ends = part.channel.proportions(POOLED)
    assert ends is not None  # noqa: S101 - told the type checker: a pooled part is answered by one bit
    return planners.users_for_leading_row(float(ends[1] - ends[0]), part.rows, lead, failure)


def reports_suffice(part: PreparedPart, reports: int, tolerance: float, failure: float, sums: Sums = ()) -> bool:
    """Whether exactly so many reports are enough, if at least `reports_needed`: a few more than those may not be.

    See the theory of operation of `planners`. Bernstein's inequality only gets better.
    """
    wanted, each = _estimated(part, failure, sums)
    for target in wanted:
        ends, span = part.channel.proportions(target), float(np.ptp(target))
        if isinstance(part.pooling, Buckets) and not sums:
            score, span = law(part.pooling, part.channel), 1.0
            ends = None if score.signed else score.ends
        if ends is not None and reports <= planners.LARGEST:
            reach = tolerance * (ends[1] - ends[0]) / span
            if planners.worst_proportion(reports, reach, *ends).failure > each:
                return False
    return True


def _estimated(part: PreparedPart, failure: float, sums: Sums) -> tuple[Floats, float]:
    """What is estimated from the part's reports, and the failure of each estimate."""
    query = part.query.query
    if isinstance(query, CellQuery) and part.pooled and not sums:
        wanted, estimates = POOLED[np.newaxis], query.cells
    else:
        wanted = wanted_of(part, sums)
        estimates = len(wanted)
    return wanted, checks.open_unit("failure", failure) / estimates


def _needed(channel: Channel, target: Floats, tolerance: float, failure: float) -> int:
    ends = channel.proportions(target)
    if ends is None:
        return _bounded(channel, target, tolerance, failure)
    return _two_valued(*ends, float(np.ptp(target)), tolerance, failure)


def _hashed(score: CellLaw, tolerance: float, failure: float) -> int:
    """Number of reports of a cell's bucket; with signs they take three values, and are bounded."""
    if not score.signed:
        return _two_valued(*score.ends, 1, tolerance, failure)
    return planners.users_bounded(score.largest_variance, float(np.ptp(score.values)), tolerance, failure)


@lru_cache(maxsize=4096)
def _two_valued(low: float, high: float, span: float, tolerance: float, failure: float) -> int:
    """Number of reports by exact binomial tails. Cells of one part need the same, and a plan asks
    for its rounds twice: so it is computed once.
    """
    if span == 1:
        return planners.users_kary(high, low, tolerance, failure)
    return planners.users_two_valued(low, high, span, tolerance, failure)


def _bounded(channel: Channel, target: Floats, tolerance: float, failure: float) -> int:
    """Number of reports by Bernstein's inequality: Var f ≤ E(f − c)² for every c, bounded at the worst input."""
    score = channel.scores(target)
    centred = (score - (target.max() + target.min()) / 2) ** 2
    return planners.users_bounded(float((matrix(channel) @ centred).max()), float(np.ptp(score)), tolerance, failure)
