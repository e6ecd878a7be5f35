"""A population as a grid shows it: where its cuts are, the shares of its cells, and a start for k-means on them.

Theory of operation
-------------------
*A grid that fits.* Equal cells are wasted on a crowd in a corner, so the cuts of a grid follow each coordinate's own
histogram: the groups of neighbouring strips with the least squared distance to their means (Fisher 1958, JASA 53(284);
exact, by dynamic programming). A cell then stands for its points by the middle of its strips' points.

*A start.* Shares of cells are brought to the nearest ones that are none below 0 and add up to 1 (Duchi, Shalev-Shwartz,
Singer and Chandra 2008, ICML), which takes the same from each, and so cells that hold noise only go first. On these
k-means++ (Arthur and Vassilvitskii 2007, SODA) and Lloyd's steps are run from several starts, on the aggregator, where
they cost nothing. What they draw is a fixed sequence, the multiples of the golden ratio without their whole part: a
strategy that is run again asks the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from askance_protocol.arrays import Floats, Integers
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import Affine, Compare, FieldValue, If, Integer, Term

STRIPS: Final = 32
"""Equal strips of each coordinate, whose shares say where the cuts of the grid are."""
SIDES: Final = (16, 10, 6, 4, 3, 3, 2, 2)
"""Cells along each side of the grid, in 1, 2, … dimensions."""
_STARTS: Final = 24
_STEPS: Final = 40
"""Lloyd's, on the cells, at most."""
_PIECES: Final = 4
"""Into how many pieces a strip may be cut: within it points are taken for even."""
_GOLDEN: Final = (math.sqrt(5) - 1) / 2


def strips(j: int, one: int) -> CellQuery:
    """Which of equal strips x_j lies in."""
    return CellQuery(
        cells=STRIPS, cell=Affine(terms=_passed(j, [-(-2 * one * cut // STRIPS) - one for cut in range(1, STRIPS)], 1))
    )


def grid(sides: Sequence[Side]) -> CellQuery:
    """Cell of a grid: how many cuts x_0 has passed, then x_1, …, as digits."""
    cells = SIDES[len(sides) - 1]
    terms = [term for j, each in enumerate(sides) for term in _passed(j, each.cuts, cells**j)]
    return CellQuery(cells=cells ** len(sides), cell=Affine(terms=tuple(terms)))


def _passed(j: int, cuts: Sequence[int], digit: int) -> tuple[Term, ...]:
    """The number of cuts that x_j has passed, at a digit's place."""
    tests = [Compare(left=FieldValue(field=f"x{j}"), relation=">=", right=Integer(of=cut)) for cut in cuts]
    return tuple(Term(weight=digit, of=If(test=test, then=Integer(of=1), otherwise=Integer(of=0))) for test in tests)


def as_shares(answers: Floats) -> Floats:
    """The nearest numbers that are none below 0 and add up to 1: the same is taken from each, but not below 0."""
    falling = np.sort(answers)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(falling) + 1)
    return (answers - excess[int(np.flatnonzero(falling > excess)[-1])]).clip(0, None)


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a grid: cuts in numerators, and of each cell the middle of its points and how wide it is."""

    cuts: tuple[int, ...]
    middles: Floats
    widths: Floats


def side(shares: Floats, cells: int, one: int) -> Side:
    """Cut a coordinate into so many cells at most, by the shares of its strips."""
    pieces = STRIPS * _PIECES
    masses, places = np.repeat(shares, _PIECES), (2 * np.arange(pieces) + 1) / pieces - 1
    # What has nobody has a little, so that where noise has hidden a few there is a cell for them still.
    masses = masses / masses.sum() + 1e-6
    ends = _groups(masses, places, cells)
    cuts = sorted({round((2 * end / pieces - 1) * one) for end in ends} - {-one})
    bounds = np.array([-one, *cuts, one]) / one
    at = np.searchsorted(bounds[1:-1], places, side="right")
    count = len(cuts) + 1
    held = np.bincount(at, masses, count)
    told = np.bincount(at, masses * places, count) / np.where(held > 0, held, 1)
    middles = np.where(held > 0, told, (bounds[1:] + bounds[:-1]) / 2)
    return Side(tuple(cuts), middles, np.diff(bounds))


def _groups(masses: Floats, places: Floats, count: int) -> list[int]:
    """Where groups of neighbours begin, but for the first, so that they are nearest to their means (Fisher 1958)."""
    sums = [np.concatenate(([0.0], np.cumsum(masses * places**power))) for power in range(3)]
    mass, first, second = (each[np.newaxis, :] - each[:, np.newaxis] for each in sums)
    # spread[a, b] of the group of a, a + 1, …, b − 1.
    spread = np.where(mass > 0, second - first**2 / np.where(mass > 0, mass, 1), np.inf)
    best, before = spread[0], list[Integers]()
    for _ in range(count - 1):
        whole = best[:, np.newaxis] + spread
        before.append(whole.argmin(axis=0))
        best = whole.min(axis=0)
    ends, end = list[int](), len(masses)
    for begins in reversed(before):
        end = int(begins[end])
        ends.append(end)
    return ends


@dataclass(frozen=True, slots=True)
class Cells:
    """A population as a grid shows it: the middles of its cells, how wide they are, and their shares."""

    middles: Floats
    widths: Floats
    shares: Floats

    def near(self, centres: Floats) -> Integers:
        """Index of the centre that each cell's middle is nearest to."""
        return _distances(self.middles, centres).argmin(axis=1)

    def cost(self, centres: Floats) -> float:
        """Mean squared distance of middles to the nearest centre."""
        return float(self.shares @ _distances(self.middles, centres).min(axis=1))

    def moved(self, centres: Floats) -> Floats:
        """Lloyd's step: each centre to the mean of the cells that are nearest to it; one without any stays."""
        own = self.shares[:, np.newaxis] * (self.near(centres)[:, np.newaxis] == np.arange(len(centres)))
        held = own.sum(axis=0)[:, np.newaxis]
        return np.where(held > 0, own.T @ self.middles / np.where(held > 0, held, 1), centres)

    def around(self, centres: Floats) -> Floats:
        """Mean width of the cells that are nearest to each centre; of all cells where there are none."""
        own = self.shares[:, np.newaxis] * (self.near(centres)[:, np.newaxis] == np.arange(len(centres)))
        held = own.sum(axis=0)[:, np.newaxis]
        return np.where(held > 0, own.T @ self.widths / np.where(held > 0, held, 1), self.shares @ self.widths)

    def settled(self, centres: Floats) -> Floats:
        """Lloyd's steps until nothing moves."""
        for _ in range(_STEPS):
            before, centres = centres, self.moved(centres)
            if np.array_equal(before, centres):
                break
        return centres

    def start(self, k: int) -> Floats:
        """The best of several starts."""
        settled = [self.settled(self.seeded(k, number)) for number in range(_STARTS)]
        return min(settled, key=self.cost)

    def seeded(self, k: int, number: int) -> Floats:
        """k-means++: each next centre is a cell's middle, in proportion to share and squared distance."""
        weights, chosen = self.shares, list[int]()
        for turn in range(k):
            # Where no cell is left a centre is where another is, and nobody's.
            draw = (number * k + turn + 1) * _GOLDEN % 1
            summed = np.cumsum(weights if weights.any() else self.shares)
            chosen.append(int((summed[:-1] <= draw * summed[-1]).sum()))
            weights = self.shares * _distances(self.middles, self.middles[chosen]).min(axis=1)
        return self.middles[chosen]


def cells_of(sides: Sequence[Side], answers: Floats) -> Cells:
    """The cells of a grid that have a share, by the answers to its query."""
    cells = SIDES[len(sides) - 1]
    digits: Integers = np.arange(len(answers))[:, np.newaxis] // cells ** np.arange(len(sides)) % cells
    # Where two cuts are one, there are fewer cells along a side.
    counts = np.array([len(each.middles) for each in sides], np.int64)
    there: Integers = np.flatnonzero((digits < counts).all(axis=1))
    shares = as_shares(answers[there])
    held: Integers = digits[there[shares > 0]].T
    middles = np.stack([each.middles[digit] for each, digit in zip(sides, held, strict=True)], axis=1)
    widths = np.stack([each.widths[digit] for each, digit in zip(sides, held, strict=True)], axis=1)
    return Cells(middles, widths, shares[shares > 0])


def _distances(points: Floats, centres: Floats) -> Floats:
    return ((points[:, np.newaxis] - centres) ** 2).sum(axis=2)
