"""Channels for cells: sets that are fair to each cell and each pair, integer tables within ε, scores of two values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from askance_protocol.channels import BinarySpec, HashSpec, KaryResponse, KarySpec, TableSpec
from askance_protocol.channels.kary import MAX_CATEGORIES
from askance_protocol.channels.ratio import MIN_WEIGHT, within
from askance_protocol.channels.tabulated import TabulatedChannel
from askance_protocol.errors import ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery
from askance_protocol.queries.language import Constant, FieldValue
from askance_protocol.rounds.spec import MAX_DOCUMENT
from askance_protocol.schema import IntegerField, Schema
from askance_server.core import cell_channels
from askance_server.core.cell_channels import (
    ALL_WEIGHTS,
    MAX_WEIGHTS,
    AllSets,
    Geometry,
    ReportsAt,
    Sets,
    best_sets,
    cell_variance,
    channel_for,
    hash_laws,
    partition,
    set_channel,
    sum_variance,
)

FAMILIES: list[tuple[int, Sets]] = [
    (8, AllSets(3)),
    (7, Geometry(2, 3)),
    (11, Geometry(3, 3)),
    (31, Geometry(3, 4)),
    (31, Geometry(5, 3)),
    (57, Geometry(7, 3)),
]


def chosen(cells: int, epsilon: int) -> BinarySpec | HashSpec | KarySpec | TableSpec:
    """The channel of a question with so many cells."""
    schema = Schema(fields=(IntegerField(name="cell", low=0, high=cells - 1),))
    found = channel_for(CellQuery(cells=cells, cell=FieldValue(field="cell")), schema, epsilon)
    assert isinstance(found, BinarySpec | HashSpec | KarySpec | TableSpec)
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


@pytest.mark.parametrize("shares", [(30, 30, 30, 5, 5), (31, 30, 29, 5, 5), (28, 31, 31, 5, 5)])
def test_a_table_whose_likely_outcomes_are_as_likely_from_other_cells_has_a_finite_unbiased_score(
    shares: tuple[int, ...],
) -> None:
    """The outcomes that a cell gives often come as often from each other cell: these sets tell nothing about it."""
    others = (50, 20, 20, 5, 5), (20, 50, 20, 2, 8)
    rows = [[share * (1 << 64) // 100 for share in row] for row in (shares, *others)]
    channel = TabulatedChannel(tuple((row[0] + (1 << 64) - sum(row), *row[1:]) for row in rows))
    target = np.eye(3)[0]
    score = channel.scores(target)

    assert np.array(channel.rows, float) / 2.0**64 @ score == pytest.approx(target, abs=1e-9)
    assert channel.proportions(target) is None


def test_up_to_67_cells_are_asked_as_well_as_by_optimized_unary_encoding() -> None:
    """Wang et al. 2017: 4e^ε/(e^ε − 1)² and the share itself. Within a fiftieth at ε up to 1; the bit is 27 % above."""
    for micro_epsilon in (500_000, 1_000_000):
        odds = math.exp(micro_epsilon / 1e6)
        for cells in range(2, 68):
            unary = 4 * odds / (odds - 1) ** 2 + 1 / cells
            assert not isinstance(chosen(cells, micro_epsilon), BinarySpec)
            families = [AllSets(1), *(Geometry(prime, t) for prime in (2, 3, 5, 7) for t in range(3, 8))]
            least = min(
                cell_variance(cells, sets, micro_epsilon)
                for sets in families
                if sets == AllSets(1) or (cells <= sets.counts(cells)[0] <= MAX_WEIGHTS // cells)
            )
            assert least < 1.02 * unary
            assert ReportsAt(micro_epsilon).apart(cells, 1 / cells) < 1.02 * unary
    assert chosen(200, 1_000_000) == HashSpec(micro_epsilon=1_000_000, bits=2)
    assert cell_variance(200, None, 1_000_000) > 1.25 * 3.69


def test_a_table_is_as_small_as_is_asked() -> None:
    schema = Schema(fields=(IntegerField(name="cell", low=0, high=11),))
    query = CellQuery(cells=12, cell=FieldValue(field="cell"))
    sizes = {most: channel_for(query, schema, 1_000_000, most) for most in (8192, 1024, 100)}

    for most, spec in sizes.items():
        assert not isinstance(spec, TableSpec) or sum(map(len, spec.weights)) <= most
    assert isinstance(sizes[1024], TableSpec)
    assert not isinstance(sizes[100], TableSpec)


# ------------------------------------------------------------------------------------------ the variances, exactly


def variance(law: np.ndarray, score: np.ndarray) -> float:
    return float(law @ score**2 - (law @ score) ** 2)


def k_ary(cells: int, epsilon: int) -> tuple[KaryResponse, np.ndarray]:
    channel = KaryResponse(epsilon, cells)
    return channel, np.array([[float(weight) for weight in row] for row in channel.table()]) / 2.0**64


@pytest.mark.parametrize("share", [0.0, 0.04, 0.5, 1.0])
@pytest.mark.parametrize("epsilon", [200_000, 1_000_000, 3_000_000])
@pytest.mark.parametrize(("cells", "sets"), FAMILIES)
def test_the_variance_of_any_share_is_that_of_its_reports(cells: int, sets: Sets, epsilon: int, share: float) -> None:
    """However the other users lie in the other cells."""
    channel = built(cells, sets, epsilon)
    population = np.append(share, (1 - share) * np.arange(1, cells) / (cells * (cells - 1) / 2))
    law = population @ (np.array(channel.rows, float) / 2.0**64)
    found = variance(law, channel.scores(np.eye(cells)[0]))

    assert found == pytest.approx(cell_variance(cells, sets, epsilon, share), rel=1e-5)
    # The control: one cell more in each set that is counted.
    other = Geometry(sets.prime, sets.coordinates + 1) if isinstance(sets, Geometry) else AllSets(sets.size + 1)
    assert found != pytest.approx(cell_variance(cells, other, epsilon, share), rel=1e-3)


@pytest.mark.parametrize("share", [None, 0.0, 0.3, 1.0])
def test_the_variance_of_a_bit_is_c_squared_less_the_square_of_the_share(share: float | None) -> None:
    """An even share has that of 1/k."""
    odds = math.exp(1.5)
    expected = ((odds + 1) / (odds - 1)) ** 2 - (1 / 20 if share is None else share) ** 2

    assert cell_variance(20, None, 1_500_000, share) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("epsilon", [200_000, 1_000_000, 4_000_000])
@pytest.mark.parametrize(("cells", "some"), [(2, 1), (5, 1), (5, 3), (12, 4)])
def test_the_variance_of_some_cells_together_is_that_of_k_ary_reports(cells: int, some: int, epsilon: int) -> None:
    channel, table = k_ary(cells, epsilon)
    lie, truth = table[1, 0], table[0, 0]
    score = np.where(np.arange(cells) < some, 1.0, 0.0) / (truth - lie)
    for share in (0.0, 0.1, 0.5, 1.0):
        law = np.where(np.arange(cells) < some, share / some, (1 - share) / (cells - some)) @ table
        assert variance(law, score) == pytest.approx(sum_variance(cells, some, epsilon, share), rel=1e-5)
        assert sum_variance(cells, 1, epsilon, share) == pytest.approx(
            cell_variance(cells, AllSets(1), epsilon, share), rel=1e-9
        )
    assert channel.certified_micro_epsilon <= epsilon


def test_what_strategies_are_told_is_the_variance_of_the_channel_that_is_asked_by() -> None:
    reports = ReportsAt(1_000_000)

    [hashed] = [law for spec, law in hash_laws(*partition(200), 1_000_000) if spec == chosen(200, 1_000_000)]
    assert reports.apart(200, 0.1) == hashed.variance(0.1)
    assert ReportsAt(200_000).apart(200, 0.1) == cell_variance(200, None, 200_000, 0.1)
    assert reports.apart(2, 0.1) == cell_variance(2, AllSets(1), 1_000_000, 0.1)
    assert reports.apart(12, 0.1) == min(cell_variance(12, each, 1_000_000, 0.1) for each in candidates(12, 8192))
    assert reports.together(12, 4, 0.3) == sum_variance(12, 4, 1_000_000, 0.3)


# -------------------------------------------------------------------------------------------------- which is taken


def candidates(cells: int, most: int) -> list[Sets | None]:
    """Every channel that there is for so many cells, each by what its table is: no more weights than that."""
    found: list[Sets | None] = [None, *([AllSets(1)] if cells <= 1024 else [])]
    subsets = [AllSets(size) for size in range(2, cells) if cells * math.comb(cells, size) <= most]
    planes = [Geometry(prime, t) for prime in (2, 3, 5, 7) for t in range(3, 12)]
    return [*found, *subsets, *(each for each in planes if cells <= each.points <= most // cells)]


def worse(found: Sets | None, cells: int, epsilon: int, most: int) -> bool:
    """Whether it is none that there is, or another is better."""
    every = candidates(cells, most)
    least = min(cell_variance(cells, each, epsilon) for each in every)
    return found not in every or cell_variance(cells, found, epsilon) > least * (1 + 1e-12)


@pytest.mark.parametrize("most", [1, 100, 1024, MAX_WEIGHTS])
def test_no_other_channel_with_as_many_weights_is_better(most: int) -> None:
    for cells in (*range(2, 70), 120, 500):
        for epsilon in (10_000, 300_000, 700_000, 1_000_000, 1_430_000, 1_800_000, 2_500_000, 6_000_000):
            assert not worse(best_sets(cells, epsilon, most), cells, epsilon, most), (cells, epsilon)
    # The controls: the second best, and a geometry that has too few points, or too many sets.
    assert worse(None, 31, 1_430_000, 1024)
    assert worse(Geometry(5, 3), 32, 1_430_000, 1024)
    assert worse(Geometry(5, 3), 31, 1_430_000, 960)


@pytest.mark.parametrize(
    ("cells", "epsilon", "sets"),
    [(8, 500_000, AllSets(3)), (31, 1_430_000, Geometry(5, 3)), (64, 10_000, Geometry(2, 7))],
)
def test_a_table_may_have_as_many_weights_as_it_may_and_not_one_more(cells: int, epsilon: int, sets: Sets) -> None:
    weights = cells * sets.counts(cells)[0]

    assert best_sets(cells, epsilon, weights) == sets
    assert best_sets(cells, epsilon, weights - 1) != sets


def test_k_ary_response_names_as_many_cells_as_it_has_categories_and_a_row_any_number() -> None:
    assert isinstance(chosen(MAX_CATEGORIES, 12_000_000), KarySpec)
    assert isinstance(chosen(MAX_CATEGORIES + 1, 12_000_000), HashSpec)
    assert isinstance(chosen(MAX_CATEGORIES + 1, 300_000), BinarySpec)


def test_what_is_no_partition_of_all_users_is_asked_by_the_bit_or_by_buckets() -> None:
    """An example without a cell has to have an answer, and so has one that counts against its cell."""
    schema = Schema(fields=(IntegerField(name="cell", low=0, high=5),))
    asked = CellQuery(cells=6, cell=FieldValue(field="cell"))

    def kind(query: CellQuery | BooleanQuery, epsilon: int) -> type[object]:
        return type(channel_for(query, schema, epsilon))

    signed, some = (
        asked.model_copy(update={"negative": Constant(truth=False)}),
        CellQuery(cells=5, cell=FieldValue(field="cell")),
    )
    for epsilon in (300_000, 3_000_000):
        assert kind(asked, epsilon) not in (BinarySpec, HashSpec)  # The control.
        assert kind(BooleanQuery(test=Constant(truth=True)), epsilon) is BinarySpec
    assert [kind(signed, epsilon) for epsilon in (300_000, 3_000_000)] == [BinarySpec, HashSpec]
    assert [kind(some, epsilon) for epsilon in (300_000, 3_000_000)] == [HashSpec, HashSpec]


def test_one_cell_is_asked_by_the_bit() -> None:
    schema = Schema(fields=(IntegerField(name="cell", low=0, high=0),))
    query = CellQuery(cells=1, cell=FieldValue(field="cell"))

    assert channel_for(query, schema, 1_000_000) == BinarySpec(micro_epsilon=1_000_000)


def test_the_sets_with_a_larger_weight_are_as_many_as_rounding_leaves() -> None:
    """Each row sums to 2⁶⁴, and a truth weighs at most one more than another: what is certified needs no more."""
    for cells, sets in FAMILIES:
        for row in built(cells, sets, 1_000_000).rows:
            lie, *truths = sorted(set(row))
            assert sum(row) == 2**64
            assert truths[-1] - truths[0] <= 1
            assert sum(weight != lie for weight in row) == sets.counts(cells)[1]
            # The first of them: so every client has the same table.
            assert [w for w in row if w != lie] == sorted((w for w in row if w != lie), reverse=True)


def test_a_lie_weighs_no_more_than_its_share() -> None:
    """One less would be beyond ε: nothing is given away."""
    for cells, sets in FAMILIES:
        for epsilon in (1, *range(100_000, 3_000_001, 100_000)):
            rows = built(cells, sets, epsilon).rows
            lie, truth = min(rows[0]), max(rows[0])
            every, inside, _ = sets.counts(cells)
            less = (2**64 - (lie - 1) * (every - inside)) // inside + 1
            assert within(truth, lie, epsilon)
            assert not within(less, lie - 1, epsilon)


def test_an_epsilon_at_which_a_lie_would_be_too_rare_is_refused() -> None:
    """Below 2³⁰ the weights of a table are too coarse to be certified."""
    largest = max(epsilon for epsilon in range(0, 40_000_001, 50_000) if fits(epsilon))

    assert min(built(8, AllSets(3), largest).rows[0]) >= MIN_WEIGHT
    assert not fits(largest + 50_000)
    with pytest.raises(ProtocolError, match="epsilon: is too large for subset selection"):
        set_channel(8, AllSets(3), largest + 50_000)


def test_a_lie_may_weigh_as_little_as_any_weight_may(monkeypatch: pytest.MonkeyPatch) -> None:
    lie = min(built(8, AllSets(3), 1_000_000).rows[0])
    monkeypatch.setattr(cell_channels, "MIN_WEIGHT", lie)
    assert fits(1_000_000)
    monkeypatch.setattr(cell_channels, "MIN_WEIGHT", lie + 1)
    assert not fits(1_000_000)


def test_the_largest_tables_of_a_question_and_of_a_round_have_room_in_a_document() -> None:
    """A table of 200 KB, and eight of them in a round: no more would be published, and twice as many would not fit."""
    largest = chosen(67, 1_000_000)
    assert isinstance(largest, TableSpec)
    size = len(largest.model_dump_json()) * MAX_WEIGHTS // sum(map(len, largest.weights))

    assert 100_000 < size < 210_000
    every = size * (ALL_WEIGHTS // MAX_WEIGHTS)
    assert every < MAX_DOCUMENT // 2 < 2 * every  # Half a document is what a round is planned into.


def fits(epsilon: int) -> bool:
    try:
        set_channel(8, AllSets(3), max(epsilon, 1))
    except ProtocolError:
        return False
    return True
