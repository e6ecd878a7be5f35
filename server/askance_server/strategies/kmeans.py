"""k-means by statistical queries, SuLQ's (KLNRS11, §1.1.1): a round moves each centre to the mean of its points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.channels import BinaryResponse
from askance_protocol.queries import CellQuery
from askance_protocol.schema import Schema
from askance_server.core.strategy import (
    LEVEL,
    Ask,
    Asking,
    Estimate,
    Estimating,
    Features,
    Hypothesis,
    Parameters,
    Reports,
    Strategy,
    estimates_in,
)
from askance_server.strategies.former.kmeans import FORMER
from askance_server.strategies.mean import denominator
from askance_server.strategies.shared.centres import centre_estimates, centre_members, cost, step
from askance_server.strategies.shared.grids import SIDES, STRIPS, as_shares, cells_of, grid, side, strips
from askance_server.strategies.shared.points import Centre, cube, nearest, pulls, together

PORTIONS: Final = (4, 2, 1, 1, 4)
"""Strips, a grid, and then steps, of which the last is learned: about as they need."""
STEPS: Final = (2, 2, 1)  # tolerances of the answers to each: only the next one builds on those before the last


def schema(parameters: Parameters) -> Schema:
    """Schema of a user: a point of the cube."""
    read.only(parameters, "d", "k", "denominator", "tolerance")
    read.decimal(parameters, "tolerance", below=1, default="0.05")
    return Schema(fields=cube(parameters, size(parameters)[1]))


def size(parameters: Parameters) -> tuple[int, int]:
    """Number of centres and of coordinates. Which of k centres is nearest is a query, and its length has a limit."""
    d = read.whole(parameters, "d", 1, len(SIDES), default=2)
    return read.whole(parameters, "k", 2, 8 if d <= 5 else 7, default=3), d


def run(parameters: Parameters, scale: float = math.inf) -> Asking:
    """A round for the cuts of a grid, one for its shares, one for each step; intervals need the scale of a bit."""
    k, d = size(parameters)
    one, tau = denominator(parameters), float(read.decimal(parameters, "tolerance", below=1, default="0.05"))
    along = yield [Ask(strips(j, one), tau, "best") for j in range(d)]
    sides = [side(as_shares(np.asarray(shares, np.float64)), SIDES[d - 1], one) for shares in along]
    answers = yield [Ask(grid(sides), tau)]
    cells = cells_of(sides, np.asarray(answers[0], np.float64))
    centres = cells.start(k)
    for times in STEPS:
        now: list[Centre] = np.rint(one * centres).astype(int).tolist()
        # A sum is told by K answers together, whose errors are as likely one way as the other: by √K better than each.
        each, all_ = (max(tau, min(times * tau * more, 0.5)) for more in (1, math.sqrt(together(k))))
        sums = [Ask(pull, all_) for j in range(d) for pull in pulls(j, now, one)]
        answers = yield [Ask(CellQuery(cells=k, cell=nearest(now)), each, "best"), *sums]
        centres = step(answers, cells, centres)
    text = ", ".join(f"({', '.join(f'{x:.3f}' for x in centre)})" for centre in centres.tolist())
    sure = centre_members(partial(estimates_in, answers), k, d, scale)
    return Hypothesis(f"centres {text}", {"centres": centres.tolist(), **sure})


def at(reports: Reports) -> Strategy:
    """The same strategy, which can say how sure it is."""
    scale = float(BinaryResponse(micro_epsilon=reports.micro_epsilon).scale)
    return replace(KMEANS, at=None, run=partial(run, scale=scale), estimates=partial(estimates, scale))


def estimates(scale: float, parameters: Parameters, estimating: Estimating) -> Sequence[Estimate]:
    """Each coordinate of each centre, and then what each question says."""
    k, d = size(parameters)
    return [*centre_estimates(estimating, k, d, d * STRIPS + SIDES[d - 1] ** d, scale), *estimating(LEVEL)]


KMEANS: Final = Strategy(
    name="kmeans",
    summary="Centres of clusters",
    interactive=True,
    rounds=len(PORTIONS),
    schema=schema,
    run=run,
    longest="ones",
    portions=PORTIONS,
    cost=cost,
    at=at,
    former=FORMER,
    examples="clusters",
    features=Features.POINTS,
    small={"d": 2, "k": 3},
)
