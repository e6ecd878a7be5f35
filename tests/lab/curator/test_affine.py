"""Affine subspaces over GF(2): against brute force, against an elimination in plain Python, and how fast."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

from askance_lab.curator.affine import SolutionSpace, solve, solve_sample
from askance_lab.curator.databases import BitSample, PackedBits, packed
from askance_lab.curator.draws import below
from askance_protocol.randomness import SimulatedRandom

TINY = 1e-6


def system(d: int, rows: int, rank: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random 0/1 equations of at most this rank, with labels that a random r gives, r = 0 for a seed of 0."""
    rng = np.random.default_rng(seed)
    x = (rng.integers(0, 2, (rows, rank)) @ rng.integers(0, 2, (rank, d))) % 2
    y = x @ rng.integers(0, 2 if seed else 1, d) % 2
    return x.astype(np.uint8), y.astype(bool)


def plain_rank(vectors: list[int]) -> int:
    """The rank of vectors written as ints, one at a time."""
    basis: list[int] = []
    for vector in vectors:
        left = vector
        for one in basis:
            left = min(left, left ^ one)
        if left:
            basis.append(left)
    return len(basis)


def as_ints(x: np.ndarray) -> list[int]:
    return [sum(int(bit) << j for j, bit in enumerate(row)) for row in x]


def brute_force(x: np.ndarray, y: np.ndarray) -> set[int]:
    d = x.shape[1]
    return {
        r
        for r in range(1 << d)
        if all((r & row).bit_count() % 2 == label for row, label in zip(as_ints(x), y, strict=True))
    }


def unbackward(space: SolutionSpace, choice: int) -> int:
    """A planted mistake: the free bits are drawn, those with a pivot are left as they are where all free bits are 0."""
    base = space.solution(0)
    for place, j in enumerate(space.free().tolist()):
        base |= (choice >> place & 1) << j
    return base


@pytest.mark.parametrize("seed", range(60))
def test_the_choices_are_one_to_one_with_the_solutions_that_brute_force_finds(seed: int) -> None:
    d, rows, rank = 1 + seed % 8, 1 + seed % 13, 1 + seed % 5
    x, y = system(d, rows, min(rank, d), seed)
    space = solve(d, packed(x), y)
    expected = brute_force(x, y)

    assert space is not None
    found = [space.solution(choice) for choice in range(1 << space.dimension)]

    assert len(found) == len(expected)
    assert set(found) == expected
    assert {r for r in range(-1, 2 << d) if r in space} == expected


def test_a_sampler_that_forgets_to_substitute_back_is_caught_by_the_same_check() -> None:
    caught = 0
    for seed in range(60):
        x, y = system(6, 4, 4, seed)
        space = solve(6, packed(x), y)
        assert space is not None
        caught += {unbackward(space, choice) for choice in range(1 << space.dimension)} != brute_force(x, y)

    assert caught > 50


@pytest.mark.parametrize(
    ("d", "rows", "rank"), [(64, 80, 40), (65, 300, 65), (130, 128, 129), (200, 500, 77), (1, 5, 1)]
)
def test_across_words_the_rank_is_that_of_a_plain_elimination_and_every_draw_solves_all(
    d: int, rows: int, rank: int
) -> None:
    for seed in range(4):
        x, y = system(d, rows, min(rank, d), seed)
        space = solve(d, packed(x), y)
        draw = below(SimulatedRandom(seed))
        assert space is not None
        drawn = [space.sample(draw) for _ in range(20)]

        assert space.rank == plain_rank(as_ints(x))
        assert space.dimension == d - space.rank == len(space.free())
        for r in drawn:
            assert r in space
            assert all((r & row).bit_count() % 2 == label for row, label in zip(as_ints(x), y, strict=True))
        # Each choice of the free bits is a different solution: so all of them are reached, each once.
        free = space.free().tolist()
        assert all(space.solution(1 << k) ^ space.solution(0) != 0 for k in range(len(free)))
        assert all((space.solution(1 << k) >> free[k]) & 1 for k in range(len(free)))


def test_draws_are_uniform_over_a_space_of_sixteen_solutions() -> None:
    x, y = system(70, 90, 66, 3)
    space = solve(70, packed(x), y)
    assert space is not None
    assert space.dimension == 4
    draw = below(SimulatedRandom(5))
    counts = Counter(space.sample(draw) for _ in range(8000))

    assert len(counts) == 16
    assert chi2.sf(sum((count - 500) ** 2 / 500 for count in counts.values()), 15) > TINY
    # The control: draws that leave one free bit at 0.
    halved = Counter(space.solution(draw(8)) for _ in range(8000))
    assert chi2.sf(sum((halved.get(r, 0) - 500) ** 2 / 500 for r in counts), 15) < TINY


@pytest.mark.parametrize(("d", "rows"), [(3, 6), (64, 90), (100, 120), (100, 1000)])
def test_one_wrong_label_among_dependent_rows_leaves_no_solution(d: int, rows: int) -> None:
    for seed in range(8):
        x, y = system(d, rows, min(d, 60), seed)
        where = seed * 7 % rows
        # A row that the others span: now it is given twice, with both labels.
        x[where], y[where] = x[rows - 1], ~y[rows - 1]

        assert solve(d, packed(x), y) is None


def test_a_wrong_label_far_behind_the_rows_that_decide_r_is_seen() -> None:
    x, y = system(20, 5000, 20, 9)
    x[:200] = np.random.default_rng(1).integers(0, 2, (200, 20))
    y[:] = x[:, 3]
    for where in (150, 4999):
        wrong = y.copy()
        wrong[where] = ~wrong[where]
        x[where] = x[0]
        wrong[where] = ~y[0]

        assert solve(20, packed(x), wrong) is None
        wrong[where] = y[0]
        assert solve(20, packed(x), wrong) is not None


def test_no_equations_leave_everything_and_zero_rows_nothing_to_solve() -> None:
    none: PackedBits = np.zeros((0, 1), np.uint64)
    everything = solve(5, none, np.zeros(0, bool))
    zeros = solve(5, np.zeros((3, 1), np.uint64), np.zeros(3, bool))

    assert everything is not None
    assert zeros is not None
    assert everything.dimension == zeros.dimension == 5
    assert [everything.solution(choice) for choice in range(32)] == list(range(32))
    assert solve(5, np.zeros((3, 1), np.uint64), np.array([False, True, False])) is None


def test_a_sample_is_solved_on_the_examples_that_are_kept_only() -> None:
    sample = BitSample.of([[1, 0], [1, 0], [0, 1]], [1, 0, 1])

    assert solve_sample(sample, np.array([True, True, True])) is None
    space = solve_sample(sample, np.array([True, False, True]))
    assert space is not None
    assert (space.dimension, space.solution(0)) == (0, 0b11)


def test_the_input_is_left_as_it_was() -> None:
    x, y = system(100, 150, 80, 2)
    words = packed(x)
    before = words.copy()
    solve(100, words, y)

    assert (words == before).all()
