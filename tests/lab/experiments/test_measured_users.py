"""How many users sufficed in simulation: found, kept, gone on with, and told as no bound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from askance_lab.engines import engine
from askance_lab.experiments.measured_users import Measurement, kept, measure
from askance_lab.experiments.sample_size import TrialOutcome
from askance_protocol.errors import DataError, UsageError

MEAN = Measurement.of("mean", {"tolerance": "0.2", "epsilon": "2", "beta": "0.1"}, None)


def threshold(users: int, seed: int) -> TrialOutcome:
    """Seed k succeeds from 1000 + k users on; a fresh one as the seed that it is a million more than."""
    return TrialOutcome(users >= 1000 + seed % 1_000_000, users, 1)


def counting(
    trial: Callable[[int, int], TrialOutcome], most: float = float("inf")
) -> Callable[[int, int], TrialOutcome]:
    def run(users: int, seed: int) -> TrialOutcome:
        if len(ran) >= most:
            raise KeyboardInterrupt
        ran.append((users, seed))
        return trial(users, seed)

    ran = run.ran = list[tuple[int, int]]()  # type: ignore[attr-defined]
    return run


def test_it_finds_the_fewest_users_to_one_in_twenty(tmp_path: Path) -> None:
    found = measure(MEAN, threshold, 20, 10**6, tmp_path)

    # Two of twenty may fail, so seed 17 has to succeed.
    assert 1017 <= found.users <= 1017 * 1.05
    assert (found.sufficed, found.right.total) == (True, 20)
    assert found.to_json()["bound"] is False
    low, high = found.to_json()["interval"]
    assert low < found.right.rate <= high


def test_an_interrupted_search_goes_on_and_finds_the_same(tmp_path: Path) -> None:
    whole = counting(threshold)
    expected = measure(MEAN, whole, 20, 10**6, tmp_path / "whole")
    broken = counting(threshold, most=60)
    with pytest.raises(KeyboardInterrupt):
        measure(MEAN, broken, 20, 10**6, tmp_path / "broken")
    rest = counting(threshold)

    assert measure(MEAN, rest, 20, 10**6, tmp_path / "broken") == expected
    assert [*broken.ran, *rest.ran] == whole.ran  # type: ignore[attr-defined]
    # Once more, and nothing is run.
    again = counting(threshold)
    assert measure(MEAN, again, 20, 10**6, tmp_path / "broken") == expected
    assert again.ran == []  # type: ignore[attr-defined]


def test_every_engine_finds_the_same_and_keeps_the_same(tmp_path: Path) -> None:
    expected = measure(MEAN, threshold, 20, 10**6, tmp_path / "one")
    with engine("local", 2) as two:
        assert measure(MEAN, threshold, 20, 10**6, tmp_path / "two", engine=two) == expected
    one, other = (MEAN.file(tmp_path / folder).read_bytes() for folder in ("one", "two"))
    assert one == other


def test_a_plan_finds_what_was_measured_of_the_same_alone(tmp_path: Path) -> None:
    assert kept(MEAN, tmp_path) is None
    few = measure(MEAN, threshold, 10, 10**6, tmp_path)
    assert kept(MEAN, tmp_path) == few
    # With the most seeds.
    many = measure(MEAN, threshold, 20, 10**6, tmp_path)
    measure(MEAN, threshold, 10, 10**6, tmp_path)
    assert kept(MEAN, tmp_path) == many

    others = [
        Measurement.of("mean", {**MEAN.parameters, "epsilon": "1"}, None),
        Measurement.of("histogram", MEAN.parameters, None),
        Measurement("mean", MEAN.parameters, MEAN.population, "0.0.0"),
        Measurement("mean", MEAN.parameters, "other", MEAN.version),
        Measurement("mean", MEAN.parameters, MEAN.population, MEAN.version, counts=True),
    ]
    assert [kept(other, tmp_path) for other in others] == [None] * 5
    assert len({each.file(tmp_path) for each in [MEAN, *others]}) == 6


def test_its_studies_may_be_counted() -> None:
    """Far more users than could be made one by one."""
    counted = Measurement.of("mean", MEAN.parameters, None, counts=True)

    assert counted.trial(None)(10**12, 1) == TrialOutcome(True, 10**12, 1)


def test_no_number_above_the_plans_is_tried(tmp_path: Path) -> None:
    run = counting(threshold)
    found = measure(MEAN, run, 20, 700, tmp_path)

    assert (found.users, found.sufficed, found.right.count) == (700, False, 0)
    assert max(users for users, _ in run.ran) == 700  # type: ignore[attr-defined]


def test_a_real_search_ends_below_the_plan(tmp_path: Path) -> None:
    found = measure(MEAN, MEAN.trial(None), 10, 500, tmp_path)

    assert found.sufficed
    assert found.users < 500
    assert (found.population, found.right.total) == ("mean", 10)


def test_what_promises_nothing_cannot_be_measured() -> None:
    with pytest.raises(UsageError, match="promises nothing"):
        Measurement.of("kmeans", {"epsilon": "1"}, None).trial(None)


def test_a_file_that_is_another_is_refused(tmp_path: Path) -> None:
    MEAN.file(tmp_path).write_text("{}")
    with pytest.raises(DataError, match="is not a file of outcomes"):
        kept(MEAN, tmp_path)
