"""How many reports each channel needs to tell the cells of a partition to within a tolerance: which needs the fewest.

Theory of operation
-------------------
Through every channel here the share s of a cell is estimated from a score of two values, so that the number of reports
with the larger one is binomial, of proportion low + (high − low)·s/span. How many reports keep every cell within its
tolerance whatever the shares are, but with a probability that the cells share evenly, is then exact (`planners`), and
channels are compared by it, not by their variances: at even shares a report of many outcomes is rarely in doubt, but
one cell may hold half of the users. Of each family the member of the least largest variance is reckoned.

| channel | a report counts for a cell | if the user is in it (high) | if not (low) |
|---|---|---|---|
| one bit, by a public row | it agrees with H[row, cell] | e^ε / (e^ε + 1) | ½; span: from −1 to 1 |
| a public hash to m buckets | it names the cell's bucket | e^ε / (e^ε + m − 1) | near 1/m: `hashed_cells` |
| k-ary response, sets | it names the cell | own·e^ε / Z | (both·e^ε + own − both) / Z: `cell_channels` |
| unary encoding, OUE | the cell's bit is 1 | ½ | 1 / (e^ε + 1) |
| local hashing, OLH | it names the cell's hash, of g | e^ε / (e^ε + g − 1) | 1/g |

The last two are Wang, Blocki, Li and Jha's (2017, USENIX Security, §4.3 and §4.4), there with g = e^ε + 1 for small
shares; for every share it is e^(ε/2) + 1. They are here to be compared with: a report of OUE has a bit for each cell,
and OLH needs random hashes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final

from askance_protocol import checks
from askance_protocol.budget import MICRO
from askance_protocol.channels import BinaryResponse, BinarySpec, ChannelSpec, KaryResponse, KarySpec
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.schema import Schema
from askance_server.core import planners
from askance_server.core.cell_channels import (
    MAX_COUNTS,
    MAX_WEIGHTS,
    AllSets,
    Geometry,
    Sets,
    all_sets,
    hash_laws,
    inclusion,
    partition,
    set_channel,
)

WANG: Final = "Wang et al. 2017"


@dataclass(frozen=True, slots=True)
class TwoValued:
    """How often a report has the larger of two scores at the least and the greatest share, which are `span` apart."""

    low: float
    high: float
    span: float = 1.0

    def reports(self, tolerance: float, failure: float) -> int:
        """Number of reports by exact binomial tails."""
        return planners.users_two_valued(self.low, self.high, self.span, tolerance, failure)

    @property
    def variance(self) -> float:
        """The largest there is, over all shares, times the number of reports."""
        nearest = min(max(self.low, 0.5), self.high)
        return nearest * (1 - nearest) * (self.span / (self.high - self.low)) ** 2


@dataclass(frozen=True, slots=True)
class ChannelNeed:
    """Reports that one channel needs."""

    name: str
    reports: int
    times: float
    """How many times as many as the channel that is taken."""
    offered: bool
    """Whether a round can be asked by it; else it is a line to compare with."""
    source: str
    """Who describes it."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    source: str
    score: TwoValued
    spec: Callable[[], ChannelSpec] | None = None


def fewest_for(
    query: BooleanQuery | RealQuery | CellQuery,
    example: Schema,
    epsilon: int,
    tolerance: float,
    failure: float,
    most: int = MAX_WEIGHTS,
    counts: int = MAX_COUNTS,
) -> ChannelSpec:
    """The channel, of at most so many weights and counts, that needs the fewest reports for every population.

    For a test or a number one bit does: no channel tells two inputs apart better (Kairouz, Oh and Viswanath 2016). And
    for signed cells: all users may be in one, half of them for it and half against.
    """
    if not isinstance(query, CellQuery) or query.negative is not None or not 0 < tolerance < 1 or query.cells < 2:
        # Whoever asks for another tolerance is refused with the reason where the reports are counted.
        return BinarySpec(micro_epsilon=epsilon)
    inside = query.always_inside(example)
    return _fewest(query.cells, epsilon, tolerance, failure, most if inside else 0, counts)


def compare(cells: int, epsilon: int, tolerance: float, failure: float) -> list[ChannelNeed]:
    """What each channel needs for so many cells that hold everything, all within the tolerance; the fewest first."""
    checks.open_unit("failure", failure)
    checks.open_unit("tolerance", tolerance)
    candidates = [*_offered(cells, epsilon, MAX_WEIGHTS, MAX_COUNTS), *_compared(epsilon)]
    needs = [each.score.reports(tolerance, failure / cells) for each in candidates]
    least = min(need for each, need in zip(candidates, needs, strict=True) if each.spec is not None)
    lines = [
        ChannelNeed(each.name, need, need / least, each.spec is not None, each.source)
        for each, need in zip(candidates, needs, strict=True)
    ]
    return sorted(lines, key=lambda line: line.reports)


@lru_cache(maxsize=1024)
def _fewest(cells: int, epsilon: int, tolerance: float, failure: float, most: int, counts: int) -> ChannelSpec:
    candidates = _offered(cells, epsilon, most, counts)
    for best in sorted(candidates, key=lambda each: each.score.reports(tolerance, failure / cells)):
        assert best.spec is not None  # noqa: S101 - told the type checker: it is offered
        # Where ε is too large for this one's weights, one bit may still do.
        with suppress(ProtocolError):
            return best.spec()
    return BinarySpec(micro_epsilon=epsilon)


def _offered(cells: int, epsilon: int, most: int, counts: int) -> Iterator[_Candidate]:
    """One bit, and of each family the member of the least largest variance. Of equals the first is taken.

    With no weights at all an example may be in no cell, which only a bit or a bucket tells.
    """
    keep = BinaryResponse(micro_epsilon=epsilon).keep / 2.0**64
    bit = TwoValued(1 - keep, keep, 2)
    yield _Candidate("one bit", "Warner 1965", bit, lambda: BinarySpec(micro_epsilon=epsilon))
    named = list(all_sets(cells, most)) if most else []
    if AllSets(1) in named:
        score = TwoValued(*reversed(inclusion(cells, AllSets(1), epsilon)))
        yield _Candidate("k-ary response", "Warner 1965", score, lambda: _kary(cells, epsilon))
    query, example = partition(cells, outside=not most)
    hashed = [(TwoValued(*law.ends), spec) for spec, law in hash_laws(query, example, epsilon, counts)]
    if hashed:
        score, spec = min(hashed, key=lambda each: each[0].variance)
        yield _Candidate(f"a public hash to {1 << spec.bits} buckets", WANG, score, partial(_same, spec))
    every = [sets for sets in named if isinstance(sets, AllSets) and sets.size > 1]
    planes = [sets for sets in named if isinstance(sets, Geometry)]
    for family in filter(None, (every, planes)):
        scored = [(TwoValued(*reversed(inclusion(cells, sets, epsilon))), sets) for sets in family]
        score, sets = min(scored, key=lambda each: each[0].variance)
        spec = partial(set_channel, cells, sets, epsilon)
        yield _Candidate(_named(sets, cells), "Ye and Barg 2018", score, spec)


def _same(spec: ChannelSpec) -> ChannelSpec:
    return spec


def _kary(cells: int, epsilon: int) -> KarySpec:
    return KarySpec(micro_epsilon=KaryResponse(micro_epsilon=epsilon, k=cells).micro_epsilon)


def _named(sets: Sets, cells: int) -> str:
    every, own, _ = sets.counts(cells)
    return f"sets of {sets.size} of {cells}" if isinstance(sets, AllSets) else f"{every} sets of {own} of {every}"


def _compared(epsilon: int) -> Iterator[_Candidate]:
    """Channels that are no tables here: OUE (§4.3) and OLH (§4.4), with the number of hashes that is best for it."""
    odds = math.exp(epsilon / MICRO)
    yield _Candidate("unary encoding, OUE", WANG, TwoValued(1 / (odds + 1), 0.5))
    # high − low is largest, and high above ½, at g = e^(ε/2) + 1.
    most = math.floor(math.sqrt(odds)) + 1
    score, g = min(((hashing(odds, g), g) for g in (most, most + 1)), key=lambda each: each[0].variance)
    yield _Candidate(f"local hashing, OLH, g = {g}", WANG, score)


def hashing(odds: float, g: int) -> TwoValued:
    """Local hashing to g values: the user's own by e^ε of e^ε + g − 1, any other cell's by one in g."""
    return TwoValued(1 / g, odds / (odds + g - 1))
