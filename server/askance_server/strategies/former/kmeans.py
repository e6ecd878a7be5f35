"""k-means as version 0.1 asks it: from the fullest cells of an even grid, with a question for each sum."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.arrays import Floats
from askance_protocol.queries import CellQuery, RealQuery
from askance_protocol.queries.language import Affine, Compare, If, Integer, Term
from askance_protocol.schema import Schema
from askance_server.core.strategy import (
    LEVEL,
    Answer,
    Ask,
    Asking,
    Estimate,
    Estimating,
    Hypothesis,
    Parameters,
    Strategy,
    estimates_in,
)
from askance_server.strategies.mean import denominator
from askance_server.strategies.shared.centres import coordinate
from askance_server.strategies.shared.points import Centre, cube, form, nearest
from askance_server.strategies.shared.sure import interval_members
from askance_server.strategies.shared.survey_answers import VALUE_FAILS

PORTIONS: Final = (1, 3, 3, 3)
"""The start is one question, each later round one for every coordinate of every centre."""
GRID: Final = 4
"""Cells along each side of the cube."""


def schema(parameters: Parameters) -> Schema:
    """Schema of a user: a point of the cube."""
    read.only(parameters, "d", "k", "denominator", "tolerance")
    return Schema(fields=cube(parameters, size(parameters)[1]))


def size(parameters: Parameters) -> tuple[int, int]:
    """Number of centres and of coordinates."""
    return read.whole(parameters, "k", 2, 8, default=3), read.whole(parameters, "d", 1, 4, default=2)


def grid(d: int, one: int) -> CellQuery:
    """Cell of a grid: Σ GRID^j · (number of cuts that x_j has passed)."""
    cuts = [2 * one * cut // GRID - one for cut in range(1, GRID)]
    passed = [(j, Compare(left=form({j: 1}), relation=">=", right=Integer(of=cut))) for j in range(d) for cut in cuts]
    one_each = [(GRID**j, If(test=test, then=Integer(of=1), otherwise=Integer(of=0))) for j, test in passed]
    terms = tuple(Term(weight=weight, of=of) for weight, of in one_each)
    return CellQuery(cells=GRID**d, cell=Affine(terms=terms))


def start(shares: Floats, k: int, d: int) -> Floats:
    """Middles of grid cells: the fullest, then k − 1 times a full one far from those chosen before."""
    cells = np.arange(len(shares))[:, np.newaxis] // GRID ** np.arange(d) % GRID
    middles = (2 * cells + 1) / GRID - 1
    chosen = [int(shares.argmax())]
    while len(chosen) < k:
        away = ((middles[:, np.newaxis] - middles[chosen]) ** 2).sum(axis=2).min(axis=1)
        chosen.append(int((shares * away).argmax()))
    return middles[chosen]


def total(j: int, c: int, centres: list[Centre], one: int) -> RealQuery:
    """x_j if centre c is the nearest, else 0."""
    mine = Compare(left=nearest(centres), relation="=", right=Integer(of=c))
    return RealQuery(numerator=If(test=mine, then=form({j: 1}), otherwise=Integer(of=0)), denominator=one)


def run(parameters: Parameters) -> Asking:
    """A round for the start, then a round for each step."""
    k, d = size(parameters)
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
    sure = centre_estimates(partial(estimates_in, answers), k, d, 0)
    told = {**interval_members(sure), "reports": [each.reports for each in sure]} if sure else {}
    return Hypothesis(f"centres {text}", {"centres": centres.tolist(), **told})


def centre_estimates(estimating: Estimating, k: int, d: int, first: int) -> Sequence[Estimate]:
    """A row for each coordinate of each centre, from the last round; none before there is one that all parts answered.

    `first` is the number of estimates before the rounds of k shares and k·d means each.
    """
    values, shares = (estimating(1 - (1 - LEVEL) * part) for part in (VALUE_FAILS, 1 - VALUE_FAILS))
    if len(values) <= first or (len(values) - first) % (k + k * d):
        return ()
    totals, counts = values[-k * d :], shares[-k * d - k : -k * d]
    return [
        coordinate(f"mean(x{j}) nearest to centre {c}", totals[c * d + j], counts[c])
        for c in range(k)
        for j in range(d)
    ]


def estimates(parameters: Parameters, estimating: Estimating) -> Sequence[Estimate]:
    """Each coordinate of each centre, and then what each question says."""
    k, d = size(parameters)
    return [*centre_estimates(estimating, k, d, GRID**d), *estimating(LEVEL)]


FORMER: Final = Strategy(
    name="kmeans",
    summary="Centres of clusters",
    interactive=True,
    rounds=len(PORTIONS),
    schema=schema,
    run=run,
    portions=PORTIONS,
    estimates=estimates,
)
