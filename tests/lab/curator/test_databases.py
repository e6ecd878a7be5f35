"""Databases: what is no database is refused, without saying what was in it; bits survive packing."""

from __future__ import annotations

import numpy as np
import pytest

from askance_lab.curator.concepts import CONJUNCTION, PARITY
from askance_lab.curator.databases import BitSample, LabelledSample, in_domain, packed, unpacked
from askance_protocol.errors import ProtocolError


@pytest.mark.parametrize(
    ("d", "points", "match"),
    [
        (3, [], "empty"),
        (3, [1, 1717], "not in 0"),
        (3, [-1717], "not in 0"),
        (3, [0.5], "whole numbers"),
        (3, ["1717"], "whole numbers"),
        (0, [0], "d"),
    ],
)
def test_points_outside_the_domain_are_refused_without_being_named(d: int, points: list[int], match: str) -> None:
    """Empty, out of range, no numbers."""
    with pytest.raises(ProtocolError, match=match) as caught:
        in_domain(d, points)
    assert "1717" not in str(caught.value)


def test_the_ends_of_a_huge_domain_are_in_it() -> None:
    """0 and 2^1024 − 1; 2^1024 is not."""
    assert in_domain(1024, [0, (1 << 1024) - 1]) == (0, (1 << 1024) - 1)
    with pytest.raises(ProtocolError, match="database"):
        in_domain(1024, [1 << 1024])


@pytest.mark.parametrize("labels", [[0, 2], [0], [0, 1, 1], [0, -1], [0, None]])
def test_labels_that_do_not_fit_are_refused(labels: list[int]) -> None:
    """Too few, too many, neither 0 nor 1."""
    with pytest.raises(ProtocolError, match="labels"):
        LabelledSample.of(4, [3, 5], labels)


def test_a_sample_keeps_its_examples() -> None:
    """Numpy's numbers count as numbers, entries may repeat."""
    sample = LabelledSample.of(4, np.array([3, 3, 15]), [True, 0, int(np.int64(1))])

    assert sample == LabelledSample(4, (3, 3, 15), (True, False, True))
    assert len(sample) == 3
    assert all(type(x) is int for x in sample.points)


@pytest.mark.parametrize("d", [1, 7, 8, 63, 64, 65, 128, 1000])
def test_packing_bits_is_undone_by_unpacking(d: int) -> None:
    """For widths around the words' border; bit j is at word j // 64, place j % 64."""
    bits = np.random.default_rng(d).integers(0, 2, (5, d), dtype=np.uint8)
    words = packed(bits)

    assert words.shape == (5, -(-d // 64))
    np.testing.assert_array_equal(unpacked(words, d), bits)
    for row, word in zip(bits.tolist(), words.tolist(), strict=True):
        assert [word[j // 64] >> (j % 64) & 1 for j in range(d)] == row


@pytest.mark.parametrize(
    ("bits", "labels"),
    [
        ([], []),
        ([[]], [1]),
        ([[0, 1]], [1, 0]),
        ([0, 1], [1, 0]),
        ([[0, 2]], [1]),
        ([[0, 1]], [3]),
        ([[0.5, 1]], [1]),
        ([[0, -1]], [1]),
        ([[0, float("nan")]], [1]),
    ],
)
def test_bits_that_are_none_are_refused(bits: list[list[float]], labels: list[int]) -> None:
    """Empty, of the wrong shape, neither 0 nor 1."""
    with pytest.raises(ProtocolError, match="database"):
        BitSample.of(bits, labels)


def test_rows_of_unequal_length_are_refused() -> None:
    """As the checker hands them over: (bits, label) pairs of one d."""
    sample = BitSample.from_rows(2, [((0, 1), 1), ((1, 1), 0)])

    assert (len(sample), sample.d, sample.words.tolist(), sample.labels.tolist()) == (2, 2, [[2], [3]], [True, False])
    for rows in ([], [((0, 1), 1), ((1,), 0)], [((0, 1, 1), 1)]):
        with pytest.raises(ProtocolError, match="database"):
            BitSample.from_rows(2, rows)


def test_labels_of_made_up_examples_are_exponents_for_parities_and_truths_for_the_others() -> None:
    for concepts, said in ((PARITY, -1), (CONJUNCTION, 1)):
        columns = concepts.problem(3, 0.1, 60, 1).columns
        database = concepts.database(columns)

        assert (database.d, len(database)) == (3, 60)
        assert database.labels.tolist() == (columns["y"] == said).tolist()
        assert 0 < database.labels.sum() < 60
