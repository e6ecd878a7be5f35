"""What reports of buckets say of cells: how often each report counts for a cell, and what it counts.

Theory of operation
-------------------
A public row hashes the cells into m = 2^t buckets (`askance_protocol.hashing`), and k-ary response names the user's own
bucket with probability p, another outcome with r each. Over the rows, which the public coin deals evenly,

- *unsigned*: a report names the bucket of a cell with probability p if the user is in it, and with q = r + (p − r)c if
  not, c the chance that two cells share a bucket. So (named − q)/(p − q) is an unbiased score, of two values;
- *signed*: with the bucket of (cell, +) it counts 1, with that of (cell, −) it counts −1, with all others 0. A user in
  the cell gives p and r to the two, one in another cell r + (p − r)/m to each, one in none r. So the difference over
  p − r is unbiased, of three values.

*All cells at once.* [h = w] is the mean over u of (−1)^⟨u, h ⊕ w⟩, and (−1)^⟨u, h_r(j)⟩ is the entry of the Hadamard
matrix at row r·u and column j, u as a polynomial. So the tally is transformed along its buckets, what has the same r·u
is added up, and one transform over the rows tells of every cell how many reports named its bucket.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from askance_protocol import hadamard
from askance_protocol.arrays import Floats, Integers
from askance_protocol.channels import Channel
from askance_protocol.hashing import Buckets
from askance_protocol.tally import Tally


@dataclass(frozen=True, slots=True)
class CellLaw:
    """The score of a report for one cell: the law is the same for each."""

    values: Floats
    """What a report counts: two values, or three with signs."""
    table: Floats
    """How likely each value is: for a user in the cell, with signs for one who counts against it, for one elsewhere.

    With signs and where an example may be in no cell, for one in none, too.
    """

    @property
    def wanted(self) -> Floats:
        """What each of these users counts for the cell."""
        return np.array([1.0, -1.0, 0.0, 0.0][: len(self.table)] if self.signed else [1.0, 0.0])

    @property
    def ends(self) -> tuple[float, float]:
        """Of two values, how likely the larger one is for a user elsewhere, and for one in the cell."""
        return float(self.table[-1, 1]), float(self.table[0, 1])

    @property
    def signed(self) -> bool:
        """Whether there are three values."""
        return len(self.values) == 3

    def variance(self, share: float) -> float:
        """The variance of a report, if this share of the users is in the cell: with signs, half of them against it."""
        mixture = np.array([share / 2, share / 2, 1 - share] if self.signed else [share, 1 - share])
        mixture = mixture @ self.table[: len(mixture)]
        return float(mixture @ self.values**2 - (mixture @ self.values) ** 2)

    @property
    def largest_variance(self) -> float:
        """With signs, the largest variance of any users: there is none larger where the mean is not 0."""
        return max(self.variance(0), self.variance(1))


def law(buckets: Buckets, channel: Channel) -> CellLaw:
    """The law of a cell's score by k-ary response: see the theory of operation."""
    named, other = (weight / 2.0**64 for weight in channel.weights(0)[:2])
    if buckets.signed:
        even = other + (named - other) / (1 << buckets.bits)
        falls = np.array(
            [[other, named], [named, other], [even, even], *[[other, other]][: buckets.elsewhere is not None]]
        )
        table = np.insert(falls, 1, 1 - falls.sum(axis=1), axis=1)
        return CellLaw(np.array([-1.0, 0.0, 1.0]) / (named - other), table)
    even = other + (named - other) * ((buckets.rows >> buckets.bits) - 1) / (buckets.rows - 1)
    table = np.array([[1 - named, named], [1 - even, even]])
    return CellLaw((np.array([0.0, 1.0]) - even) / (named - even), table)


def counts(buckets: Buckets, cells: int, tally: Tally) -> Integers:
    """How many reports have each value of the score, for each cell: a row for each value."""
    named = tally.counts[:, : 1 << buckets.bits]
    turned = _along_buckets(named)
    multiples = list(buckets.multiples(np.arange(buckets.rows)))
    every, odd = np.zeros(buckets.rows, np.int64), np.zeros(buckets.rows, np.int64)
    for u in range(1 << buckets.bits):
        row = reduce(np.bitwise_xor, (each for bit, each in enumerate(multiples) if u >> bit & 1), 0 * multiples[0])
        np.add.at(odd if u & 1 else every, row, turned[u])
    # For (cell, +) the even u and the odd ones add up, for (cell, −) the odd ones count against.
    both = [hadamard.transform(column)[:cells] for column in (every, odd)]
    forth, back = ((both[0] + sign * both[1]) >> buckets.bits for sign in (1, -1))
    if not buckets.signed:
        return np.stack([tally.received - forth, forth])
    return np.stack([back, tally.received - forth - back, forth])


def _along_buckets(counts: Integers) -> Integers:
    """For each u the sum over buckets w of (−1)^⟨u, w⟩ · counts: a row for each u, a column for each public row."""
    each: Integers = np.arange(counts.shape[1], dtype=np.int64)
    odd = np.bitwise_count(each[:, np.newaxis] & each) & np.uint8(1)
    return (1 - 2 * odd.astype(np.int64)) @ counts.T
