"""Which channel asks for the cells of a partition best: k-ary response, subset selection, or one bit and a public row.

Theory of operation
-------------------
A report of subset selection (Ye and Barg 2018, IEEE Trans. Inf. Theory 64(8), §IV) names a set of ω of the k cells: all
sets that contain the user's cell are equally likely, and e^ε times as likely as those that do not. With ω = 1 it is
k-ary response. A given cell is in the reported set with probability p if it is the user's own, and q if not,

    p = ω·e^ε / (ω·e^ε + k − ω),   q = (p·(ω − 1) + (1 − p)·ω) / (k − 1),

so the share of a cell is estimated with variance r(1 − r) / (n(p − q)²), r = q + (p − q)·share, from a score of two
values. The sum of this over all cells is the largest for even shares, where r = ω/k, and there channels are compared.
The pooled bit has C² − 1/k² for each cell, C = (e^ε + 1)/(e^ε − 1), whatever k is.

Subset selection attains the least mean squared error that any ε-local randomizer has for even shares, up to terms of
lower order (Ye and Barg, Thm V.1). But it is published as a table with k rows and one column for each set, so it is
taken as long as that has at most `MAX_WEIGHTS` weights: for seventeen cells with three, say. Beyond, the bit is.

The weights are integers, as those of every channel, and certified as every table is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from typing import Final

from askance_protocol.budget import MICRO
from askance_protocol.channels import BinaryResponse, BinarySpec, ChannelSpec, KarySpec, TableSpec
from askance_protocol.channels.kary import MAX_CATEGORIES
from askance_protocol.channels.ratio import MIN_WEIGHT, SCALE_BITS, WORD, exp_lower, within
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.schema import Schema

MAX_WEIGHTS: Final = 1 << 13
"""Weights of a table that a round publishes for one question: about 200 KB."""


def channel_for(query: BooleanQuery | RealQuery | CellQuery, example: Schema, epsilon: int) -> ChannelSpec:
    """The channel that estimates the cells of a query best; binary response for any other query.

    Only binary response has an answer for an example without a cell, or that counts against its cell.
    """
    if not isinstance(query, CellQuery) or query.negative is not None:
        return BinarySpec(micro_epsilon=epsilon)
    try:
        cells = query.inputs(example)
    except ProtocolError:
        return BinarySpec(micro_epsilon=epsilon)
    return _best(cells, epsilon)


def cell_variance(cells: int, size: int, epsilon: int) -> float:
    """Variance of the share of a cell, times the number of reports, where shares are even; size 0: the pooled bit."""
    if not size:
        return float(BinaryResponse(epsilon).scale) ** 2 - cells**-2
    odds = math.exp(epsilon / MICRO)
    own = size * odds / (size * odds + cells - size)
    other = (own * (size - 1) + (1 - own) * size) / (cells - 1)
    even = size / cells
    return even * (1 - even) / (own - other) ** 2


@lru_cache(maxsize=256)
def _best(cells: int, epsilon: int) -> ChannelSpec:
    if cells < 2:
        return BinarySpec(micro_epsilon=epsilon)
    size = min(_sizes(cells), key=lambda size: cell_variance(cells, size, epsilon))
    if size > 1:
        return subset_channel(cells, size, epsilon)
    return KarySpec(micro_epsilon=epsilon) if size else BinarySpec(micro_epsilon=epsilon)


def _sizes(cells: int) -> Iterator[int]:
    yield 0
    if cells <= MAX_CATEGORIES:
        yield 1
    yield from (size for size in range(2, cells // 2 + 1) if cells * math.comb(cells, size) <= MAX_WEIGHTS)


def subset_channel(cells: int, size: int, epsilon: int) -> TableSpec:
    """Subset selection as a table: a row for each cell, a column for each set of this size."""
    inside, outside = math.comb(cells - 1, size - 1), math.comb(cells - 1, size)
    odds = exp_lower(epsilon)
    lie = -(-(WORD << SCALE_BITS) // (odds * inside + (outside << SCALE_BITS)))
    # What rounding leaves is dealt to the first sets that tell the truth, so a truth may weigh one more than its share.
    while not within((WORD - lie * outside) // inside + 1, lie, epsilon):
        lie += 1
    truth, rest = divmod(WORD - lie * outside, inside)
    if lie < MIN_WEIGHT:
        raise ProtocolError("is too large for subset selection", where="epsilon", remedy="ask for less")
    rows = list[tuple[str, ...]]()
    for cell in range(cells):
        left = rest
        row = list[str]()
        for chosen in combinations(range(cells), size):
            extra = cell in chosen and left > 0
            left -= extra
            row.append(str(truth + extra if cell in chosen else lie))
        rows.append(tuple(row))
    return TableSpec(weights=tuple(rows))
