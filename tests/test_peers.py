"""The table of other libraries is what the benchmark printed, and what it would not let pass."""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PRINTED = json.loads((ROOT / "docs" / "peers" / "measured.json").read_text("utf-8"))


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    # A script, which imports what lies beside it.
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return import_module("peers")


def test_the_table_is_what_the_benchmark_printed(peers: Any) -> None:
    told = (ROOT / "docs" / "peers.md").read_text("utf-8")
    rows = PRINTED["rows"]
    figures = peers.figures_of(rows)

    assert "\n".join(peers.markdown(rows)) in told
    assert "\n".join(peers.goals(figures)) in told
    assert [row["library"] for row in rows] == list(peers.PEERS)
    assert {name: figure.to_json() for name, figure in figures.items()} == PRINTED["figures"]
    assert PRINTED["missed"] == [name for name, figure in figures.items() if figure.missed] == []
    terms = (peers.EPSILON, peers.CELLS, peers.USERS, peers.BIT_USERS)
    assert tuple(PRINTED[name] for name in ("epsilon", "cells", "users", "bit_users")) == terms


def test_versions_are_pinned_and_were_installed(peers: Any) -> None:
    for row in PRINTED["rows"]:
        peer = peers.PEERS[row["library"]]
        assert [*peer.packages, *peer.undeclared] == [*row["packages"], *row["undeclared"]]
        assert {each.lower().replace("_", "-") for each in [*peer.packages, *peer.undeclared]} <= {
            each.lower().replace("_", "-") for each in row["installed"]
        }


def spoilt(change: str) -> list[dict[str, Any]]:
    rows = deepcopy(PRINTED["rows"])
    [mine] = [row for row in rows if row["library"] == "askance"]
    for each in (mine["bit"], *mine["cells"]):
        if change == "speed":
            for name in ("singly_beside_baseline", "bulk_beside_baseline"):
                each[name] /= 100
        else:
            each["error"] = {name: 1.5 * number for name, number in each["error"].items()}
    return rows


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ("speed", {"bit_in_bulk", "bit_singly", "cells_in_bulk"}),
        ("error", {"bit_error_beyond_noise", "cells_error_beyond_noise"}),
    ],
)
def test_control_a_miss_is_one(peers: Any, change: str, names: set[str]) -> None:
    figures = peers.figures_of(spoilt(change))

    assert {name for name, figure in figures.items() if figure.missed} == names


def test_ours_is_measured_as_the_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Again, for a moment: the bit and the cells have the errors that were printed."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    worker: Any = import_module("peers_libraries")
    monkeypatch.setattr(worker, "MOST", 40)
    library = worker.askance(1.0, PRINTED["cells"])
    [mine] = [row for row in PRINTED["rows"] if row["library"] == "askance"]
    truth = 1 / np.arange(1, PRINTED["cells"] + 1)

    found = worker.error_of(library.cells[0], truth / truth.sum(), PRINTED["users"], 1)
    # A mean of 40 squares of 128 cells: within a fifth but for one time in a million.
    assert found["rmse"] == pytest.approx(mine["cells"][0]["error"]["rmse"], rel=0.2)
    assert "askance_lab" in sys.modules
