"""Channels for cells: sets that are fair to each cell and each pair, integer tables within ε, scores of two values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from askance_protocol.channels import BinarySpec, KarySpec, TableSpec
from askance_protocol.channels.tabulated import TabulatedChannel
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import FieldValue
from askance_protocol.schema import IntegerField, Schema
from askance_server.core.cell_channels import (
    MAX_WEIGHTS,
    AllSets,
    Geometry,
    Sets,
    cell_variance,
    channel_for,
    set_channel,
)

FAMILIES: list[tuple[int, Sets]] = [
    (8, AllSets(3)),
    (7, Geometry(2, 3)),
    (11, Geometry(3, 3)),
    (31, Geometry(3, 4)),
    (31, Geometry(5, 3)),
    (57, Geometry(7, 3)),
]


def chosen(cells: int, epsilon: int) -> BinarySpec | KarySpec | TableSpec:
    """The channel of a question with so many cells."""
    schema = Schema(fields=(IntegerField(name="cell", low=0, high=cells - 1),))
    found = channel_for(CellQuery(cells=cells, cell=FieldValue(field="cell")), schema, epsilon)
    assert isinstance(found, BinarySpec | KarySpec | TableSpec)
    return found


def built(cells: int, sets: Sets, epsilon: int) -> TabulatedChannel:
    return TabulatedChannel(tuple(tuple(map(int, row)) for row in set_channel(cells, sets, epsilon).weights))


def fair(cells: int, members: Sequence[frozenset[int]], counts: tuple[int, int, int]) -> bool:
    """Whether so many sets have each cell, and each pair."""
    own = {sum(cell in one for one in members) for cell in range(cells)}
    both = {sum(a in one and b in one for one in members) for a, b in combinations(range(cells), 2)}
    return (len(members), own, both) == (counts[0], {counts[1]}, {counts[2]})


@pytest.mark.parametrize(("cells", "sets"), FAMILIES)
def test_each_cell_is_in_as_many_sets_and_so_is_each_pair(cells: int, sets: Sets) -> None:
    members = [frozenset(one) for one in sets.members(cells)]

    assert fair(cells, members, sets.counts(cells))
    # The control: with a cell moved from one set to the next this is not so.
    first = next(number for number, one in enumerate(members) if 0 in one)
    other = next(number for number, one in enumerate(members) if 0 not in one)
    members[first], members[other] = members[first] - {0}, members[other] | {0}
    assert not fair(cells, members, sets.counts(cells))


@pytest.mark.parametrize("epsilon", [1, 200_000, 1_000_000, 3_000_000])
@pytest.mark.parametrize(("cells", "sets"), FAMILIES)
def test_a_table_of_sets_is_certified_within_epsilon(cells: int, sets: Sets, epsilon: int) -> None:
    certified = built(cells, sets, epsilon).certified_micro_epsilon

    assert epsilon - 1 <= certified <= epsilon


@pytest.mark.parametrize(("cells", "sets"), FAMILIES)
def test_the_share_of_a_cell_has_an_unbiased_score_of_two_values_and_the_variance_that_is_compared(
    cells: int, sets: Sets
) -> None:
    channel = built(cells, sets, 1_000_000)
    table = np.array(channel.rows, float) / 2.0**64
    for cell in (0, cells - 1):
        target = np.eye(cells)[cell]
        score = channel.scores(target)

        assert table @ score == pytest.approx(target, abs=1e-9)
        assert len(np.unique(np.round(score, 9))) == 2
        assert channel.proportions(target) is not None
        even = table.mean(axis=0)
        assert even @ score**2 - (even @ score) ** 2 == pytest.approx(cell_variance(cells, sets, 1_000_000), rel=1e-6)
    # Of two cells at once there is no such score, and what was solved for is as unbiased.
    both = np.eye(cells)[0] + 2 * np.eye(cells)[1]
    assert table @ channel.scores(both) == pytest.approx(both, abs=1e-9)


def test_up_to_67_cells_are_asked_as_well_as_by_optimized_unary_encoding() -> None:
    """Wang et al. 2017: 4e^ε/(e^ε − 1)² and the share itself. Within a fiftieth at ε up to 1; the bit is 27 % above."""
    for micro_epsilon in (500_000, 1_000_000):
        odds = math.exp(micro_epsilon / 1e6)
        for cells in range(2, 68):
            unary = 4 * odds / (odds - 1) ** 2 + 1 / cells
            found = chosen(cells, micro_epsilon)
            assert not isinstance(found, BinarySpec)
            families = [AllSets(1), *(Geometry(prime, t) for prime in (2, 3, 5, 7) for t in range(3, 8))]
            least = min(
                cell_variance(cells, sets, micro_epsilon)
                for sets in families
                if sets == AllSets(1) or (cells <= sets.counts(cells)[0] <= MAX_WEIGHTS // cells)
            )
            assert least < 1.02 * unary
    assert isinstance(chosen(200, 1_000_000), BinarySpec)
    assert cell_variance(200, None, 1_000_000) > 1.25 * 3.69


def test_a_table_is_as_small_as_is_asked() -> None:
    schema = Schema(fields=(IntegerField(name="cell", low=0, high=11),))
    query = CellQuery(cells=12, cell=FieldValue(field="cell"))
    sizes = {most: channel_for(query, schema, 1_000_000, most) for most in (8192, 1024, 100)}

    for most, spec in sizes.items():
        assert not isinstance(spec, TableSpec) or sum(map(len, spec.weights)) <= most
    assert isinstance(sizes[1024], TableSpec)
    assert not isinstance(sizes[100], TableSpec)
