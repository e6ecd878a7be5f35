"""The public row as a hash: fields, buckets that two cells share as rarely as is said, one by one and at once alike."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from askance_protocol import hadamard, hashing
from askance_protocol.budget import MICRO
from askance_protocol.channels import HashSpec
from askance_protocol.coins import Coin, rows_from_one
from askance_protocol.errors import ProtocolError
from askance_protocol.hashing import MAX_BITS, MAX_COLUMNS, POLYNOMIALS, Buckets
from askance_protocol.queries import CellQuery
from askance_protocol.queries.language import Affine, FieldValue, Label, Term
from askance_protocol.rounds import Cohort, open_round
from tests.protocol.studies import (
    MASKED_BIT,
    MASKED_CELL,
    PARTS,
    SCHEMA,
    SOME,
    WHICH,
    WHICH_SIGNED,
    part,
    prepared,
    round_of,
    study,
)

EVERY = [
    Buckets(1, 8, signed=False),
    Buckets(2, 8, signed=False),
    Buckets(3, 7, signed=False),
    Buckets(5, 3, signed=False),
    Buckets(1, 8, signed=True, elsewhere=2),
    Buckets(3, 16, signed=True),
    Buckets(3, 5, signed=True, elsewhere=8),
]
each = pytest.mark.parametrize("buckets", EVERY, ids=str)


def answers_of(buckets: Buckets) -> list[int]:
    cells = list(range(1, buckets.columns + 1))
    none = [] if buckets.signed and buckets.elsewhere is None else [0]
    return [*cells, *([-cell for cell in cells] if buckets.signed else []), *none]


def divides(divisor: int, polynomial: int) -> bool:
    """Whether a polynomial over GF(2) divides another."""
    while polynomial.bit_length() >= divisor.bit_length():
        polynomial ^= divisor << polynomial.bit_length() - divisor.bit_length()
    return polynomial == 0


def irreducible(polynomial: int) -> bool:
    return not any(divides(divisor, polynomial) for divisor in range(2, 1 << polynomial.bit_length() // 2 + 1)
                   if divisor != polynomial)  # fmt: skip


def test_each_polynomial_is_the_least_irreducible_one_of_its_degree() -> None:
    assert len(POLYNOMIALS) == 17
    assert 1 << len(POLYNOMIALS) - 1 == MAX_COLUMNS
    for degree, polynomial in enumerate(POLYNOMIALS[2:], 2):
        assert polynomial.bit_length() == degree + 1
        assert irreducible(polynomial)
        assert not any(map(irreducible, range(1 << degree, polynomial)))
    assert POLYNOMIALS[1] == 0b11
    assert not irreducible(0b101)  # The control: (x + 1)².


@each
def test_over_the_rows_two_cells_share_a_bucket_as_often_as_is_said(buckets: Buckets) -> None:
    """Without signs a little more rarely than one time in 2^t, with signs every difference is as likely."""
    many = 1 << buckets.bits
    table = np.array([[int(buckets.encode(cell, row)) for cell in range(1, buckets.columns + 1)]
                      for row in range(buckets.first, buckets.rows)])  # fmt: skip
    for one in range(buckets.columns):
        for other in range(one):
            differences = Counter((table[:, one] ^ table[:, other]).tolist())
            expected = dict.fromkeys(range(many), buckets.rows // many)
            expected[0] -= buckets.first
            assert differences == Counter(expected)


def test_control_a_polynomial_that_is_reducible_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "POLYNOMIALS", (*POLYNOMIALS[:3], 0b1001, *POLYNOMIALS[4:]))
    with pytest.raises(AssertionError):
        test_over_the_rows_two_cells_share_a_bucket_as_often_as_is_said(Buckets(3, 8, signed=False))


@each
def test_many_answers_are_hashed_as_one_is(buckets: Buckets) -> None:
    answers = np.array(answers_of(buckets))
    for row in range(buckets.first, buckets.rows):
        expected = [int(buckets.encode(int(answer), row)) for answer in answers]

        assert buckets.encode_all(answers, np.full(len(answers), row, np.uint16)).tolist() == expected
        assert [int(buckets.encode(answer, row)) for answer in answers] == expected
        assert max(expected) < buckets.outcomes


def test_one_bit_is_the_hadamard_row() -> None:
    buckets = Buckets(1, 8, signed=True, elsewhere=2)
    for row in range(8):
        for answer in answers_of(buckets):
            assert (2, 0, 1)[int(hadamard.encode(answer, row))] == (1, 2, 0)[int(buckets.encode(answer, row))]


def test_a_sign_turns_one_bit_and_who_is_in_no_cell_has_an_outcome_of_her_own() -> None:
    buckets = Buckets(3, 5, signed=True, elsewhere=8)
    for row in range(8):
        assert {int(buckets.encode(cell, row) ^ buckets.encode(-cell, row)) for cell in range(1, 6)} == {1}
        assert buckets.encode(0, row) == 8


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (WHICH, Buckets(2, 8, signed=False)),
        (SOME, Buckets(2, 6, signed=False)),
        (WHICH_SIGNED, Buckets(2, 8, signed=True)),
        (MASKED_CELL, Buckets(2, 8, signed=True, elsewhere=4)),
    ],
    ids=["each in a cell", "some", "signed", "signed, some"],
)
def test_a_query_says_whether_anybody_is_in_no_cell(query: CellQuery, expected: Buckets) -> None:
    assert HashSpec(micro_epsilon=MICRO, bits=2).pooling(query, SCHEMA) == expected


def test_what_cannot_be_hashed_is_refused() -> None:
    spec = HashSpec(micro_epsilon=MICRO, bits=2)
    beyond = Affine(constant=-1, terms=(Term(weight=1, of=FieldValue(field="i")),))

    with pytest.raises(ProtocolError, match="a hash channel does not answer a boolean query"):
        spec.build(MASKED_BIT, SCHEMA)
    with pytest.raises(ProtocolError, match="has 65537 columns"):
        spec.build(CellQuery(cells=MAX_COLUMNS, cell=beyond), SCHEMA)
    # The controls: a sign needs no column more, and one cell less leaves one.
    assert spec.build(CellQuery(cells=MAX_COLUMNS, cell=beyond, negative=Label(sign=1)), SCHEMA).outcomes == 5
    assert spec.build(CellQuery(cells=MAX_COLUMNS - 1, cell=beyond), SCHEMA).outcomes == 4
    for bits in (0, MAX_BITS + 1):
        with pytest.raises(ValueError, match="bits"):
            HashSpec(micro_epsilon=MICRO, bits=bits)


def test_row_0_is_dealt_where_it_says_something_and_nowhere_else() -> None:
    users = 4000
    for name in ("cell, hash", "cell, hash, some", "cell, hash, signed", "cell, hash, signed, some"):
        round_ = prepared(PARTS[name], PARTS["cell, Hadamard"], cohort=Cohort(users=users))
        dealt, rows = round_.questions(range(users))
        counts = np.bincount(rows[dealt == 0], minlength=8)
        first = 0 if "signed" in name else 1
        assert not counts[:first].any()
        # Each of 4,000 / 2 / 8 users or so: beyond six standard deviations with 1e-8.
        assert np.abs(counts[first:] - 2000 / (8 - first)).max() < 6 * (2000 / 7) ** 0.5
        assert np.bincount(rows[dealt == 1], minlength=8).min() > 150
        assert [round_.question(user).row for user in range(20)] == rows[:20].tolist()


def test_rows_from_one_reach_the_last_and_no_further() -> None:
    ends = np.array([0, (1 << 32) - 1, (1 << 64) - 1, (1 << 64) - (1 << 32)], np.uint64)

    assert rows_from_one(ends, 65535).tolist() == [1, 65535, 65535, 1]
    assert rows_from_one(ends, np.array([1, 1, 3, 3], np.uint16)).tolist() == [1, 1, 3, 1]
    counts = np.bincount(rows_from_one(Coin("ab" * 32).toss(range(70_000)), 7), minlength=8)
    assert counts[0] == 0
    assert np.abs(counts[1:] - 10_000).max() < 6 * 100


def test_an_unsound_part_has_no_rows_and_hinders_nobody_else() -> None:
    """Whoever is dealt it refuses; the others are dealt what they would be."""
    sound = part(WHICH, HashSpec(micro_epsilon=MICRO, bits=2))
    unsound = part(CellQuery(cells=8, cell=FieldValue(field="nothing")), HashSpec(micro_epsilon=MICRO, bits=2))
    with pytest.raises(ProtocolError, match="nothing"):
        prepared(sound, unsound)

    round_ = open_round(study(), round_of(sound, unsound))
    assert round_.rows == (8, 1)
    dealt, rows = round_.questions(range(100))
    assert set(rows[dealt == 1].tolist()) == {0}
    assert round_.parts[0].rows == 8
