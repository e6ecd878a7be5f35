"""Which channel asks for the cells of a partition best: k-ary response, sets of cells, or buckets by a public row.

Theory of operation
-------------------
A report of subset selection (Ye and Barg 2018, IEEE Trans. Inf. Theory 64(8), §IV) names a set of ω of the k cells: all
sets that contain the user's cell are equally likely, and e^ε times as likely as those that do not. With ω = 1 it is
k-ary response. Not all sets of this size are needed: it is enough that each cell is in as many of them, and so is each
pair of cells. That is a block design, and the points and hyperplanes of a projective geometry are one with no more sets
than points (as Feldman, Nelson, Nguyen and Talwar 2022 use it, arXiv:2203.00194): v = (q^t − 1)/(q − 1) points for a
prime q, of which each hyperplane has ω = (q^(t−1) − 1)/(q − 1). Points that are no cell are left out of the table's
rows, and nothing else changes.

Say each cell is in `own` sets, each pair of cells in `both`, and there are `sets` of them. A given cell is in the
reported set with probability p if it is the user's own, and r if not,

    p = own·e^ε / Z,   r = (both·e^ε + own − both) / Z,   Z = own·e^ε + sets − own,

so the share of a cell is estimated with variance s(1 − s) / (n(p − r)²), s = r + (p − r)·share, from a score of two
values. The sum of this over all cells is the largest for even shares, and there channels are compared. The pooled bit
has C² − 1/k² for each cell, C = (e^ε + 1)/(e^ε − 1), whatever k is.

*A sum of cells.* By k-ary response (own = 1, both = 0, sets = k) one of s cells is named with probability s·r, and
p − r more if the user's own is among them: again a score of two values (`sum_variance`).

Subset selection attains the least mean squared error that any ε-local randomizer has for even shares, up to terms of
lower order (Ye and Barg, Thm V.1), with about one cell in e^ε + 1 in a set. But a channel is published as a table with
a row for each cell and a column for each set, so it is taken as long as that has at most `MAX_WEIGHTS` weights: of a
geometry up to sixty-seven cells.

Beyond, and where an example may lie in no cell or count against its own, a public row hashes the cells into 2^t buckets
(`hashed_cells`): one bit at small ε, more buckets at larger. For small shares they come close to the least error, too.

The weights are integers, as those of every channel, and certified as every table is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product, takewhile
from typing import Final, TypeAlias

from askance_protocol.budget import MICRO
from askance_protocol.channels import BinaryResponse, BinarySpec, ChannelSpec, HashSpec, KarySpec, TableSpec
from askance_protocol.channels.kary import MAX_CATEGORIES
from askance_protocol.channels.ratio import MIN_WEIGHT, SCALE_BITS, WORD, exp_lower, within
from askance_protocol.errors import ProtocolError
from askance_protocol.hadamard import rows_for
from askance_protocol.hashing import MAX_BITS
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.language import FieldValue
from askance_protocol.schema import IntegerField, Schema
from askance_server.core.hashed_cells import CellLaw, law

MAX_WEIGHTS: Final = 1 << 13
"""Weights of a table that a round publishes for one question: about 200 KB."""
MAX_COUNTS: Final = 1 << 19
"""Counts in the tallies of a round: they have to fit into one entry of the bulletin."""
ALL_WEIGHTS: Final = 1 << 16
"""Weights of all tables of a round: 1.6 MB, for a document has to be below 2."""

CLEARLY: Final = 0.98
"""A hash is taken for its variance where it has less than this part of what names cells: that is easier to explain."""


def channel_for(
    query: BooleanQuery | RealQuery | CellQuery,
    example: Schema,
    epsilon: int,
    most: int = MAX_WEIGHTS,
    counts: int = MAX_COUNTS,
) -> ChannelSpec:
    """The channel that estimates even shares of the cells of a query best; else binary response.

    It is published with so many weights at most, and tallied by so many counts; one bit always may be.
    """
    if not isinstance(query, CellQuery):
        return BinarySpec(micro_epsilon=epsilon)
    if query.negative is None and query.always_inside(example):
        return _best(query.cells, epsilon, most, counts)
    # Of an example in no cell, or that counts against its own, only a bit or a bucket tells.
    bit = float(BinaryResponse(micro_epsilon=epsilon).scale) ** 2
    laws = [(law.variance(1 / query.cells), spec) for spec, law in hash_laws(query, example, epsilon, counts)]
    variance, spec = min(laws, key=lambda each: each[0], default=(math.inf, None))
    return BinarySpec(micro_epsilon=epsilon) if spec is None or CLEARLY * bit <= variance else spec


def hash_laws(
    query: CellQuery, example: Schema, epsilon: int, counts: int = MAX_COUNTS
) -> Iterator[tuple[HashSpec, CellLaw]]:
    """Every number of buckets that a query's cells may be hashed into, and the law of a cell's score."""
    for bits in range(1, MAX_BITS + 1):
        spec = HashSpec(micro_epsilon=epsilon, bits=bits)
        try:
            buckets, channel = spec.pooling(query, example), spec.build(query, example)
        except ProtocolError:
            return
        # More buckets than cells, or than cells and signs, tell nothing better.
        if 1 << bits > rows_for(buckets.columns) << buckets.signed or buckets.rows * buckets.outcomes > counts:
            return
        yield spec, law(buckets, channel)


@dataclass(frozen=True, slots=True)
class ReportsAt:
    """What one report of so many micro-ε can tell of cells, as strategies are told it (`strategy.Reports`)."""

    micro_epsilon: int

    def apart(self, cells: int, share: float) -> float:
        """Variance of this share of a cell, times the reports, by the channel that estimates so many cells best."""
        sets = best_sets(cells, self.micro_epsilon)
        better = _better_hash(cells, sets, self.micro_epsilon, MAX_COUNTS)
        return cell_variance(cells, sets, self.micro_epsilon, share) if better is None else better[1].variance(share)

    def together(self, cells: int, some: int, share: float) -> float:
        """Variance of this share of some of the cells in all, times the reports, by k-ary response."""
        return sum_variance(cells, some, self.micro_epsilon, share)


@dataclass(frozen=True, slots=True)
class AllSets:
    """All sets of this size."""

    size: int

    def counts(self, cells: int) -> tuple[int, int, int]:
        """Number of sets, of those with one given cell, and of those with two."""
        return (
            math.comb(cells, self.size),
            math.comb(cells - 1, self.size - 1),
            math.comb(cells - 2, self.size - 2) if self.size > 1 else 0,
        )

    def members(self, cells: int) -> Iterator[Sequence[int]]:
        """The sets, each by its cells."""
        return combinations(range(cells), self.size)


@dataclass(frozen=True, slots=True)
class Geometry:
    """The hyperplanes of the projective geometry of so many coordinates over a prime field, as sets of its points."""

    prime: int
    coordinates: int

    @property
    def points(self) -> int:
        """v, which is the number of hyperplanes, too."""
        return (self.prime**self.coordinates - 1) // (self.prime - 1)

    def counts(self, cells: int) -> tuple[int, int, int]:  # noqa: ARG002 - as AllSets
        """The same for any cells that are points of it."""
        below = [(self.prime ** (self.coordinates - down) - 1) // (self.prime - 1) for down in (1, 2)]
        return self.points, below[0], below[1]

    def members(self, cells: int) -> Iterator[Sequence[int]]:
        """The cells on each hyperplane: those whose product with it is 0."""
        points = [point for point in product(range(self.prime), repeat=self.coordinates) if _is_first(point)]
        for plane in points:
            yield [
                cell
                for cell in range(cells)
                if not sum(a * b for a, b in zip(plane, points[cell], strict=True)) % self.prime
            ]


Sets: TypeAlias = AllSets | Geometry


def _is_first(point: Sequence[int]) -> bool:
    """Whether the first coordinate that is not 0 is 1: of each point one of its multiples."""
    return next((each for each in point if each), 0) == 1


def cell_variance(cells: int, sets: Sets | None, epsilon: int, share: float | None = None) -> float:
    """Variance of this share of a cell, times the number of reports, or of an even one; None: of the pooled bit."""
    if sets is None:
        return float(BinaryResponse(micro_epsilon=epsilon).scale) ** 2 - (cells**-2 if share is None else share**2)
    mine, other = inclusion(cells, sets, epsilon)
    named = (mine + (cells - 1) * other) / cells if share is None else other + (mine - other) * share
    return named * (1 - named) / (mine - other) ** 2


def inclusion(cells: int, sets: Sets, epsilon: int) -> tuple[float, float]:
    """How likely the set that is reported holds the user's own cell, and how likely another."""
    every, own, both = sets.counts(cells)
    odds = math.exp(epsilon / MICRO)
    total = own * odds + every - own
    return own * odds / total, (both * odds + own - both) / total


def sum_variance(cells: int, some: int, epsilon: int, share: float) -> float:
    """Variance of this share of so many cells together, times the number of k-ary reports."""
    lie = 1 / (math.exp(epsilon / MICRO) + cells - 1)
    spread = 1 - cells * lie
    named = some * lie + spread * share
    return named * (1 - named) / spread**2


@lru_cache(maxsize=256)
def _best(cells: int, epsilon: int, most: int, counts: int) -> ChannelSpec:
    if cells < 2:
        return BinarySpec(micro_epsilon=epsilon)
    sets = best_sets(cells, epsilon, most)
    better = _better_hash(cells, sets, epsilon, counts)
    if better is not None:
        return better[0]
    if sets is None:
        return BinarySpec(micro_epsilon=epsilon)
    return KarySpec(micro_epsilon=epsilon) if sets == AllSets(1) else set_channel(cells, sets, epsilon)


@lru_cache(maxsize=256)
def _better_hash(cells: int, sets: Sets | None, epsilon: int, counts: int) -> tuple[HashSpec, CellLaw] | None:
    """The hash that estimates even shares best, where that is clearly better than these sets or the bit."""
    laws = hash_laws(*partition(cells), epsilon, counts)
    best = min(laws, key=lambda each: each[1].variance(1 / cells), default=None)
    clearly = best is not None and best[1].variance(1 / cells) < CLEARLY * cell_variance(cells, sets, epsilon)
    return best if clearly else None


def partition(cells: int, *, outside: bool = False) -> tuple[CellQuery, Schema]:
    """A question with so many cells, and examples each of which is in one, or outside."""
    example = Schema(fields=(IntegerField(name="cell", low=0, high=cells - 1 + outside),))
    return CellQuery(cells=cells, cell=FieldValue(field="cell")), example


def best_sets(cells: int, epsilon: int, most: int = MAX_WEIGHTS) -> Sets | None:
    """The sets by which even shares of so many cells are estimated best; None: by one bit."""
    return min([None, *all_sets(cells, most)], key=lambda sets: cell_variance(cells, sets, epsilon))


def all_sets(cells: int, most: int) -> Iterator[Sets]:
    """All families of sets whose table has at most so many weights; k-ary response needs no table."""
    if cells <= MAX_CATEGORIES:
        yield AllSets(1)
    # The larger the sets, up to half of the cells, the more of them there are.
    yield from takewhile(lambda sets: cells * sets.counts(cells)[0] <= most, map(AllSets, range(2, cells // 2 + 1)))
    for prime in (2, 3, 5, 7):
        for coordinates in range(3, 8):
            found = Geometry(prime, coordinates)
            if cells <= found.points and cells * found.points <= most:
                yield found


def set_channel(cells: int, sets: Sets, epsilon: int) -> TableSpec:
    """A table with a row for each cell, and a column for each set."""
    every, inside, _ = sets.counts(cells)
    outside = every - inside
    odds = exp_lower(epsilon)
    lie = -(-(WORD << SCALE_BITS) // (odds * inside + (outside << SCALE_BITS)))
    # What rounding leaves is dealt to the first sets that tell the truth, so a truth may weigh one more than its share.
    while not within((WORD - lie * outside) // inside + 1, lie, epsilon):
        lie += 1
    truth, rest = divmod(WORD - lie * outside, inside)
    if lie < MIN_WEIGHT:
        raise ProtocolError("is too large for subset selection", where="epsilon", remedy="ask for less")
    members = [frozenset(one) for one in sets.members(cells)]
    rows = list[tuple[str, ...]]()
    for cell in range(cells):
        left = rest
        row = list[str]()
        for chosen in members:
            extra = cell in chosen and left > 0
            left -= extra
            row.append(str(truth + extra if cell in chosen else lie))
        rows.append(tuple(row))
    return TableSpec(weights=tuple(rows))
