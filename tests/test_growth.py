"""Each curve of growth does its work, at its two smallest sizes; how long that takes is measured by `make bench`."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def growth(monkeypatch: pytest.MonkeyPatch) -> Any:
    # A script, which imports what lies beside it.
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("growth")


def test_each_curve_in_this_process_does_its_work(growth: Any) -> None:
    for curve in growth.CURVES:
        grown = growth.measured(replace(curve, sizes=curve.sizes[:2], least=0.0), 1)
        assert len(grown.seconds) == 2, curve.name
        assert min(took for [took] in grown.seconds.values()) > 0, curve.name


def test_the_numbers_that_grow_are_those_of_the_page(growth: Any) -> None:
    ends = {(curve.of, curve.sizes[0], curve.sizes[-1]) for curve in growth.NAMED.values()}

    assert {of for of, _, _ in ends} == {"users", "d", "rounds", "studies", "connections", "streams"}
    assert {("users", 10**4, 10**8), ("d", 8, 4096), ("rounds", 1, 1000), ("studies", 1, 1000)} <= ends
    assert {("connections", 1, 2000), ("streams", 1, 500)} <= ends
    assert {curve.at_most for curve in growth.NAMED.values()} == {1.2, 0.2}
