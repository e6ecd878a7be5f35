"""k-means by statistical queries, SuLQ's (KLNRS11, §1.1.1): a round moves each centre to the mean of its points."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.examples import Columns
from askance_protocol.queries import CellQuery, RealQuery
from askance_protocol.queries.language import Compare, If, Integer
from askance_protocol.schema import RealField, Schema
from askance_server.core.strategy import (
    LEVEL,
    Answer,
    Ask,
    Asking,
    Estimate,
    Estimating,
    Features,
    Hypothesis,
    Learnt,
    Parameters,
    Strategy,
    estimates_in,
)
from askance_server.strategies.mean import denominator
from askance_server.strategies.shared.centres import centre_estimates
from askance_server.strategies.shared.points import GRID, Centre, cube, form, grid, nearest, start
from askance_server.strategies.shared.sure import interval_members

PORTIONS: Final = (1, 3, 3, 3)
"""The start is one question, each later round one for every coordinate of every centre."""


def schema(parameters: Parameters) -> Schema:
    """Schema of a user: a point of the cube."""
    read.only(parameters, "d", "k", "denominator", "tolerance")
    read.whole(parameters, "k", 2, 8, default=3)
    read.decimal(parameters, "tolerance", below=1, default="0.05")
    return Schema(fields=cube(parameters, read.whole(parameters, "d", 1, 4, default=2)))


def total(j: int, c: int, centres: list[Centre], one: int) -> RealQuery:
    """x_j if centre c is the nearest, else 0."""
    mine = Compare(left=nearest(centres), relation="=", right=Integer(of=c))
    return RealQuery(numerator=If(test=mine, then=form({j: 1}), otherwise=Integer(of=0)), denominator=one)


def run(parameters: Parameters) -> Asking:
    """A round for the start, then a round for each step."""
    k, d = read.whole(parameters, "k", 2, 8, default=3), read.whole(parameters, "d", 1, 4, default=2)
    one, tau = denominator(parameters), float(read.decimal(parameters, "tolerance", below=1, default="0.05"))
    [shares] = yield [Ask(grid(d, one), tau)]
    centres, answers = start(np.asarray(shares, np.float64), k, d), list[Answer]()
    for _ in PORTIONS[1:]:
        now: list[Centre] = np.rint(one * centres).astype(int).tolist()
        sums = [Ask(total(j, c, now, one), tau) for c in range(k) for j in range(d)]
        answers = yield [Ask(CellQuery(cells=k, cell=nearest(now)), tau), *sums]
        counts, *totals = answers
        counted = np.asarray(counts, np.float64)[:, np.newaxis]
        means = np.array(totals).reshape(k, d) / np.maximum(counted, tau)
        # A centre that seems to have nobody stays where it is.
        centres = np.where(counted > 2 * tau, means.clip(-1, 1), centres)
    text = ", ".join(f"({', '.join(f'{x:.3f}' for x in centre)})" for centre in centres.tolist())
    # Coordinate by coordinate, centre by centre: of the points that were nearest before the last step.
    sure = centre_estimates(partial(estimates_in, answers), k, d, 0)
    told = {**interval_members(sure), "reports": [each.reports for each in sure]} if sure else {}
    return Hypothesis(f"centres {text}", {"centres": centres.tolist(), **told})


def estimates(parameters: Parameters, estimating: Estimating) -> Sequence[Estimate]:
    """Each coordinate of each centre, and then what each question says."""
    k, d = read.whole(parameters, "k", 2, 8, default=3), read.whole(parameters, "d", 1, 4, default=2)
    return [*centre_estimates(estimating, k, d, GRID**d), *estimating(LEVEL)]


def cost(value: Learnt, columns: Columns) -> float:
    """Mean squared distance to the nearest centre."""
    centres = np.array(value["centres"], np.float64)
    scales = [field.denominator for field in columns.schema.fields if isinstance(field, RealField)]
    points = np.stack([columns[f"x{j}"] / scales[j] for j in range(centres.shape[1])], axis=1)
    return float(np.min([((points - centre) ** 2).sum(axis=1) for centre in centres], axis=0).mean())


KMEANS: Final = Strategy(
    name="kmeans",
    summary="Centres of clusters",
    interactive=True,
    rounds=4,
    schema=schema,
    run=run,
    longest="ones",
    portions=PORTIONS,
    cost=cost,
    estimates=estimates,
    examples="clusters",
    features=Features.POINTS,
    small={"d": 2, "k": 3},
)
