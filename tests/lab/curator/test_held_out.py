"""The error on rows held out: released with noise, and with an interval that counts the noise in."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from askance_lab.curator import geometric, registry
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import loss
from askance_lab.curator.draws import below
from askance_lab.curator.held_out import noise_reach, release_share
from askance_lab.curator.inputs import MechanismInput, own
from askance_lab.data.table_file import TableFile
from askance_lab.evaluation.proportion import Proportion
from askance_protocol.randomness import SimulatedRandom
from tests.lab.curator.branching import distribution


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(20)])
def test_the_noise_s_reach_is_the_smallest_that_is_left_so_rarely(epsilon: Fraction) -> None:
    reach = noise_reach(epsilon, 0.025)

    assert 2 * geometric.at_least(reach + 1, rate=epsilon) <= 0.025
    assert reach == 0 or 2 * geometric.at_least(reach, rate=epsilon) > 0.025


@pytest.mark.parametrize("chance", [0.0, 0.01, 0.5])
def test_the_interval_covers_as_often_as_it_says(chance: float) -> None:
    draw, rng = below(SimulatedRandom(3)), np.random.default_rng(3)
    covered = naive = 0
    for _ in range(600):
        count = int(rng.binomial(200, chance))
        released = release_share(count, 200, epsilon=Fraction(1, 5), draw=draw)
        low, high = released.interval
        covered += low <= chance <= high
        low, high = Proportion(round(released.value * 200), 200).interval
        naive += low <= chance <= high

    assert covered >= 0.95 * 600 - 4 * np.sqrt(600 * 0.95 * 0.05)
    # The control: an interval that does not count the noise in misses too often.
    assert naive < 0.93 * 600


def test_a_share_stays_one() -> None:
    draw = below(SimulatedRandom(4))
    values = [release_share(count, 5, epsilon=Fraction(1, 10), draw=draw) for count in (0, 5) for _ in range(40)]

    assert all(0 <= each.interval[0] <= each.value <= each.interval[1] <= 1 for each in values)


def loss_of_a_row(epsilon: Fraction) -> float:
    """Largest loss where one row held out is labelled otherwise, over all counts of four rows: exactly."""
    laws = [
        distribution(lambda draw, count=count: release_share(count, 4, epsilon=epsilon, draw=draw))
        for count in range(5)
    ]
    return max(loss(laws[one], laws[other]) for one in range(5) for other in (one - 1, one + 1) if 0 <= other < 5)


def test_a_row_that_is_labelled_otherwise_costs_epsilon_exactly() -> None:
    assert loss_of_a_row(Fraction(1)) == pytest.approx(1)
    # The control.
    assert loss_of_a_row(Fraction(5, 4)) > 1.2


def taught_and_held_out(given: MechanismInput[LabelledSample, int], rows: int) -> tuple[list[int], list[int]]:
    """The points that are learned from, and those that thresholds are measured on: one more mistake a point below."""
    mistakes = [given.mistakes(threshold) or 0 for threshold in range(rows + 1)]
    held = [point for point in range(rows) for _ in range(mistakes[point] - mistakes[point + 1])]
    return sorted(given.database.points), held


def test_a_row_is_learned_from_or_held_out_and_never_both(tmp_path: Path) -> None:
    """On that rests that nothing more is paid for the error: the two parts are disjoint (parallel composition)."""
    rows, chosen = 23, registry.mechanism("generic-interval")
    (tmp_path / "table.csv").write_text("n,y\n" + "".join(f"{n},yes\n" for n in range(rows - 1)) + f"{rows - 1},no\n")
    table = TableFile.of(tmp_path / "table.csv", None, "y", "yes").rows()
    splits = [taught_and_held_out(own(chosen, table, "n", seed), rows) for seed in range(8)]

    for taught, held in splits:
        # The point that is labelled otherwise is counted the other way.
        assert sorted([*taught, *held]) in (list(range(rows)), list(range(rows - 1)))
        assert len(taught) == rows - rows // 5
    assert len({tuple(held) for _, held in splits}) > 4


def test_a_release_about_all_rows_holds_none_out(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("n,y\n" + "".join(f"{n},yes\n" for n in range(9)) + "9,no\n")
    table = TableFile.of(tmp_path / "table.csv", None, "y", "yes").rows()
    given = own(registry.mechanism("geometric"), table, "n", 1)

    assert sorted(given.database.points) == list(range(10))
    assert (given.fresh, given.mistakes(3)) == (0, None)
