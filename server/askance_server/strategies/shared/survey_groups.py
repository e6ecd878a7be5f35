"""Which questions of a survey one report answers together: where that is more exact for each of them.

Theory of operation
-------------------
Questions with k₁, …, k_m cells, a yes/no question having two, are one question with K = Πk_i cells: a user lies in one
cell of their product. Its number is the mixed-radix number of theirs. By k-ary response over the K cells, a cell of one
question is a sum of s = K/k_i cells, one of which is named with probability s·q + (p − q)·share: a binomial count, so
its estimate has the variance of `Reports.together`, and its interval is exact.

Asked apart, a question with s_i of the S = Σs_j shares of the users has s_i/S of their reports, so a variance S/s_i
times that of its own channel. Which is less depends on ε and on the shares. For two yes/no questions of a half each the
pair is better from ε = ln((3 − √2)/(√2 − 1)) = 1.34 on; but the noise on a cell that nobody has is (e^ε + 1)/e^ε times
as large, whatever ε is. So questions are asked together if each cell of each is estimated better whatever its share is,
from a fifth of an even one to all but a fifth of it. The variances are quadratic in it, with the coefficient −1, that
of what is asked apart times S/s_i > 1: their difference is concave, so it is enough to look at the two ends. Pairs are
asked so from ε = 1.75 on.

Of the groups that are allowed those are taken for which the sum of variances is the least, each against what it is
apart: by dynamic programming over the questions in the order of their cells, each group a run of them. Six yes/no
questions at ε = 4 are two groups of three.

Means stay apart: they ask for a number, which lies in no cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import inf, isfinite, prod
from operator import mul
from typing import Final, TypeAlias

import numpy as np

from askance_protocol.channels import KarySpec
from askance_protocol.channels.kary import MAX_CATEGORIES
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, prepare
from askance_protocol.queries.language import Affine, AnyNumber, If, Integer, Term
from askance_protocol.queries.telemetry import Measure, TelemetryQuestion
from askance_protocol.schema import Schema
from askance_server.core.strategy import Answer, Estimate, Reports, SetsOfCells, SumsOfCells

Asked: TypeAlias = BooleanQuery | RealQuery | CellQuery

UNIT: Final = 6
"""Share of a question in the users, where all have the same."""
OF_QUOTIENT: Final = (5, 1)
"""Shares of the two queries of a quotient, of value and of whether there is one.

To first order its variance is C²(1/s + m²/(4(1 − s)))/(n·D²), m the mean on [−1, 1], s the first share. The best s is
1/(1 + |m|/2), which nobody knows before; five sixths are within a fifth of the best for every m.
"""
RARE: Final = 0.2
"""Of an even share, how small a share may be that must not be estimated worse together than apart."""


@dataclass(frozen=True, slots=True)
class Group:
    """Queries that one report answers: one as it stands, or several by the cell of their product."""

    members: tuple[Asked, ...]

    @property
    def query(self) -> Asked:
        """What is published."""
        return self.members[0] if len(self.members) == 1 else product_of(self.members)

    @property
    def sums(self) -> SetsOfCells:
        """Sets of cells of the product, for each number of each member; none where there is one member."""
        return tuple(one for each in self._sums() for one in each)

    @property
    def numbers(self) -> list[int]:
        """Number of answers to each member: of a share one, of cells one each."""
        return [query.cells if isinstance(query, CellQuery) else 1 for query in self.members]

    def answers(self, given: Answer) -> list[Answer]:
        """The answer to each member."""
        if len(self.members) == 1:
            return [given]
        cells = np.asarray(given, np.float64)
        totals = [np.array([cells[list(one)].sum() for one in each]) for each in self._sums()]
        return [
            float(total[0]) if isinstance(query, BooleanQuery) else total
            for query, total in zip(self.members, totals, strict=True)
        ]

    def estimates(self, found: Sequence[Estimate]) -> list[Sequence[Estimate]]:
        """The estimates of each member, of those of its numbers one after the other."""
        return [found[begin:end] for begin, end in pairwise(accumulate(self.numbers, initial=0))]

    def _sums(self) -> list[SetsOfCells]:
        if len(self.members) == 1:
            return []
        every = _marginals(tuple(map(cells_of, self.members)))
        return [
            cells[1:] if isinstance(query, BooleanQuery) else cells
            for query, cells in zip(self.members, every, strict=True)
        ]


def sums_of_groups(groups: Sequence[Group]) -> SumsOfCells:
    """The sums that are estimated of each query that was put together."""
    return {query: group.sums for group in groups if group.sums and isinstance(query := group.query, CellQuery)}


def cells_of(query: Asked) -> int:
    """Number of cells of a partition; yes and no are two."""
    return query.cells if isinstance(query, CellQuery) else 2


def product_of(queries: Sequence[Asked]) -> CellQuery:
    """The cell of all these partitions at once: the first one's number counts ones, and so on."""
    cells = list(map(cells_of, queries))
    weights = [1, *accumulate(cells, mul)]
    terms = tuple(Term(weight=weight, of=_number(query)) for weight, query in zip(weights, queries, strict=False))
    return CellQuery(cells=prod(cells), cell=Affine(terms=terms))


def _number(query: Asked) -> AnyNumber:
    assert not isinstance(query, RealQuery)  # noqa: S101 - told the type checker: means are never put together
    if isinstance(query, CellQuery):
        return query.cell
    return If(test=query.test, then=Integer(of=1), otherwise=Integer(of=0))


@lru_cache(maxsize=256)
def _marginals(cells: tuple[int, ...]) -> tuple[SetsOfCells, ...]:
    """Of each partition, for each of its cells the cells of the product that lie in it."""
    weights, every = [1, *accumulate(cells, mul)], np.arange(prod(cells))
    return tuple(
        tuple(tuple(np.flatnonzero(every // weight % count == cell).tolist()) for cell in range(count))
        for weight, count in zip(weights, cells, strict=False)
    )


def shares_of_users(asked: Sequence[TelemetryQuestion]) -> Counter[Asked]:
    """How the users are dealt where every question has as many: what several ask has the users of all."""
    shares = Counter[Asked]()
    for question in asked:
        dealt = (UNIT,) if len(question.queries) == 1 else OF_QUOTIENT
        shares.update(dict(zip(question.queries, dealt, strict=True)))
    return shares


def groups_of(asked: Sequence[TelemetryQuestion], example: Schema, reports: Reports | None) -> list[Group]:
    """What each report answers, where reports tell so much: every query is in one group. None: nothing together."""
    shares = shares_of_users(asked)
    joined = dict[Asked, Group]()
    if reports is not None:
        sums = [query for question in asked if question.measure is not Measure.MEAN for query in question.queries]
        fit = [query for query in shares if query in sums and _fits((query,), example, reports)]
        for group in _runs(sorted(fit, key=cells_of), _costs(shares, example, reports)):
            joined.update(dict.fromkeys(group, Group(tuple(group))))
    return list(dict.fromkeys(joined.get(query, Group((query,))) for query in shares))


_RunCost: TypeAlias = Callable[[Sequence[Asked]], float]


def _runs(order: Sequence[Asked], cost: _RunCost) -> Sequence[Sequence[Asked]]:
    """The cut into runs that costs least; one query alone costs 1."""
    best: list[tuple[float, list[Sequence[Asked]]]] = [(0.0, [])]
    for end in range(1, len(order) + 1):
        found = (best[end - 1][0] + 1, [*best[end - 1][1], order[end - 1 : end]])
        for begin in range(end - 2, -1, -1):
            run = order[begin:end]
            if prod(map(cells_of, run)) > MAX_CATEGORIES:
                break
            price = best[begin][0] + cost(run)
            if price < found[0]:
                found = price, [*best[begin][1], run]
        best.append(found)
    return best[-1][1]


def _costs(shares: Counter[Asked], example: Schema, reports: Reports) -> _RunCost:
    """The sum of the variances of a group against those apart; infinite where one is not lower, or there is no room."""

    def cost(run: Sequence[Asked]) -> float:
        found = sum(ratios(run, shares, reports))
        return found if isfinite(found) and _fits(run, example, reports) else inf

    return cost


def ratios(run: Sequence[Asked], shares: Mapping[Asked, int], reports: Reports) -> list[float]:
    """The variance of each of these asked together, against what it is apart; infinite where it may not be."""
    cells, every = prod(map(cells_of, run)), sum(shares[query] for query in run)
    return [_ratio(cells, cells_of(query), reports, shares[query] / every) for query in run]


@lru_cache(maxsize=4096)
def _ratio(cells: int, own: int, reports: Reports, part: float) -> float:
    """Variance of a cell of `own` ones by k-ary response over all `cells`, against that of its own channel.

    `part`: of the users that all have together, how many are its own apart. At an even share; or infinite, if that of
    a rare cell, or of one that nearly all are in, is not lower.
    """
    even = 1 / own
    shares = (RARE * even, 1 - RARE * even, even)
    found = [reports.together(cells, cells // own, share) * part / reports.apart(own, share) for share in shares]
    return found[-1] if max(found) < 1 else inf


def _fits(run: Sequence[Asked], example: Schema, reports: Reports) -> bool:
    """Whether the language and the channel have room for all of them."""
    try:
        query = prepare(product_of(run), example).query
        KarySpec(micro_epsilon=reports.micro_epsilon).build(query, example)
    except ProtocolError:
        return False
    return True
