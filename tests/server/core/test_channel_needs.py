"""How many reports each channel needs: as a plan of its part says; the fewest are taken; other tables say the same."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.channels import BinarySpec, ChannelSpec, HashSpec, KarySpec, TableSpec
from askance_protocol.queries import BooleanQuery, CellQuery
from askance_protocol.queries.language import Constant, FieldValue, Label
from askance_protocol.rounds import Part
from askance_protocol.schema import Schema
from askance_server.core.cell_channels import AllSets, Geometry, all_sets, hash_laws, partition, set_channel
from askance_server.core.channel_needs import ChannelNeed, TwoValued, compare, fewest_for, hashing
from askance_server.core.sample_size import reports_needed
from tests.protocol.studies import prepared, study

CASES = [(2, 1), (3, 1), (4, 1), (8, 2), (16, 4), (40, 1), (100, 4), (300, 1)]


def needs(cells: int, epsilon: float, tolerance: float = 0.05) -> dict[str, ChannelNeed]:
    return {each.name: each for each in compare(cells, int(epsilon * MICRO), tolerance, 0.05)}


def planned(cells: int, spec: ChannelSpec, tolerance: float = 0.05) -> int:
    """The reports of a part that asks so."""
    query, example = partition(cells)
    asked = study(example=example, cap=20 * MICRO)
    [part] = prepared(Part(query=query, channel=spec, charge=16 * MICRO), of=asked).parts
    return reports_needed(part, tolerance, 0.05)


def fewest(cells: int, epsilon: float, tolerance: float = 0.05, most: int = 1 << 13) -> ChannelSpec:
    return fewest_for(*partition(cells), int(epsilon * MICRO), tolerance, 0.05, most)


def test_k_ary_response_takes_as_many_times_fewer_as_were_measured_before() -> None:
    for cells, epsilon, times in ((2, 1, 4.0), (3, 1, 2.5), (4, 1, 1.7), (16, 4, 2.5)):
        found = needs(cells, epsilon)
        assert found["one bit"].reports / found["k-ary response"].reports == pytest.approx(times, abs=0.06)


@pytest.mark.parametrize(("cells", "epsilon"), CASES)
def test_each_line_is_what_a_part_by_this_channel_is_planned_with(cells: int, epsilon: float) -> None:
    found, micro = needs(cells, epsilon), int(epsilon * MICRO)
    specs: dict[str, ChannelSpec] = {
        "one bit": BinarySpec(micro_epsilon=micro),
        "k-ary response": KarySpec(micro_epsilon=micro),
    }
    for name, spec in specs.items():
        assert found[name].reports == planned(cells, spec)
    [(name, bits)] = [
        (name, int(name.split()[-2]).bit_length() - 1) for name in found if name.startswith("a public hash")
    ]
    assert found[name].reports == planned(cells, HashSpec(micro_epsilon=micro, bits=bits))
    # And no other number of buckets needs fewer.
    assert found[name].reports <= min(planned(cells, spec) for spec, _ in hash_laws(*partition(cells), micro))


@pytest.mark.parametrize(("cells", "epsilon"), CASES)
def test_the_channel_that_is_taken_is_the_first_that_is_offered_and_needs_as_many(cells: int, epsilon: float) -> None:
    lines = list(needs(cells, epsilon).values())
    first = next(each for each in lines if each.offered)

    assert planned(cells, fewest(cells, epsilon)) == pytest.approx(first.reports, rel=1e-3)
    assert first.times == 1
    assert [each.reports for each in lines] == sorted(each.reports for each in lines)
    assert all(each.times == each.reports / first.reports for each in lines)
    # No table that there is needs fewer, by more than a saw's tooth.
    tables = [set_channel(cells, sets, int(epsilon * MICRO)) for sets in all_sets(cells, 1 << 10) if sets != AllSets(1)]
    assert all(planned(cells, table) > 0.99 * first.reports for table in tables)


def test_what_is_taken_depends_on_cells_and_epsilon_and_how_much_may_be_published() -> None:
    assert fewest(2, 1) == KarySpec(micro_epsilon=MICRO)
    assert fewest(4, 1) == HashSpec(micro_epsilon=MICRO, bits=1)
    assert isinstance(fewest(8, 1), TableSpec)
    assert fewest(8, 1, most=100) == HashSpec(micro_epsilon=MICRO, bits=1)
    assert fewest(100, 4) == HashSpec(micro_epsilon=4 * MICRO, bits=3)
    # So many counts only: that of a bit.
    assert fewest_for(*partition(100), 4 * MICRO, 0.05, 0.05, counts=256) == HashSpec(micro_epsilon=4 * MICRO, bits=1)


def test_one_bit_asks_what_has_two_answers_or_signs_and_buckets_what_may_be_in_no_cell() -> None:
    query, example = partition(16)
    labelled = Schema(fields=(*example.fields, *study().example.fields[-1:]))
    bit = BinarySpec(micro_epsilon=4 * MICRO)
    signed = query.model_copy(update={"negative": Label(sign=-1)})

    assert fewest_for(BooleanQuery(test=Constant(truth=True)), example, 4 * MICRO, 0.05, 0.05) == bit
    assert fewest_for(signed, labelled, 4 * MICRO, 0.05, 0.05) == bit
    some = CellQuery(cells=12, cell=FieldValue(field="cell"))
    assert fewest_for(some, example, 4 * MICRO, 0.05, 0.05) == HashSpec(micro_epsilon=4 * MICRO, bits=3)
    # The control: all in a cell.
    assert fewest_for(query, example, 4 * MICRO, 0.05, 0.05) != bit


def test_where_epsilon_is_too_large_for_the_best_channel_another_is_taken() -> None:
    """Near the largest ε that one bit is built for, tables of more outcomes are too coarse to be certified."""
    for cells in (2, 3, 8, 16, 100):
        query, example = partition(cells)
        spec = fewest(cells, 23.56)
        assert spec.build(query, example).certified_micro_epsilon <= 23_560_000


# ----------------------------------------------------------------------------- lines that are no channels: as tables


def unary(cells: int, epsilon: float) -> np.ndarray:
    """Optimised unary encoding, a row for each cell and a column for each set of ones: Wang et al. 2017, §4.3."""
    zero = 1 / (math.exp(epsilon) + 1)
    sets = list(product((0, 1), repeat=cells))
    ones = np.where(np.eye(cells) == 1, 0.5, zero)
    return np.array(
        [[math.prod(p if bit else 1 - p for p, bit in zip(row, one, strict=True)) for one in sets] for row in ones]
    )


def local_hash(cells: int, g: int, epsilon: float) -> np.ndarray:
    """Local hashing by all functions to g values, the function in the outcome: §4.4."""
    odds = math.exp(epsilon)
    functions = list(product(range(g), repeat=cells))
    kinds = [(hashed, value) for hashed in functions for value in range(g)]
    own = np.array([[hashed[cell] == value for hashed, value in kinds] for cell in range(cells)])
    return np.where(own, odds, 1) / (odds + g - 1) / len(functions)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("cells", [2, 3, 4])
def test_unary_encoding_and_local_hashing_are_what_their_lines_say(cells: int, epsilon: float) -> None:
    """As tables: exactly ε, and a report counts for a cell as often as is said."""
    odds = math.exp(epsilon)
    sets = list(product((0, 1), repeat=cells))
    functions = [(hashed, value) for hashed in product(range(3), repeat=cells) for value in range(3)]
    for table, counted, score in (
        (unary(cells, epsilon), [one[0] == 1 for one in sets], TwoValued(1 / (odds + 1), 0.5)),
        (local_hash(cells, 3, epsilon), [hashed[0] == value for hashed, value in functions], hashing(odds, 3)),
    ):
        assert table.sum(axis=1) == pytest.approx(1)
        assert max(math.log((table[a] / table[b]).max()) for a, b in combinations(range(cells), 2)) == pytest.approx(
            epsilon
        )
        assert table[:, np.array(counted)].sum(axis=1) == pytest.approx([score.high, *[score.low] * (cells - 1)])


def test_no_other_number_of_values_of_a_hash_needs_fewer() -> None:
    for epsilon in (0.1, 1, 2, 3.3, 5):
        [name] = [name for name in needs(50, epsilon) if name.startswith("local hashing")]
        odds, g = math.exp(epsilon), int(name.split()[-1])
        assert hashing(odds, g).variance == min(hashing(odds, other).variance for other in range(2, 60))


def test_the_sets_of_a_line_are_named_by_what_they_are() -> None:
    assert "sets of 3 of 8" in needs(8, 1)
    assert "40 sets of 13 of 40" in needs(16, 1)
    assert Geometry(3, 4).counts(16)[:2] == (40, 13)
