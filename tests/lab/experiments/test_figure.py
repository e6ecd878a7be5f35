"""Plots: what they need, and what is missing where it is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from askance_lab.experiments import figure
from askance_protocol.errors import MissingExtraError


def test_experiments_load_without_matplotlib() -> None:
    program = (
        "import sys\n"
        "from askance_lab.experiments import sample_size, trials\n"
        "from askance_lab.experiments.landscape import report\n"
        "from askance_lab.experiments.separation import report\n"
        "print('matplotlib' in sys.modules, 'dask' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["False", "False"]


def test_matplotlib_that_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"askance\[lab\]"):
        figure.figure(1, 1)


def test_a_figure_is_written_twice_and_carries_no_date(tmp_path: Path) -> None:
    drawn = figure.figure(2, 2)
    [panel] = figure.panels_of(drawn, 1, shared_y=False)
    panel.plot([1000, 2_500_000], [1, 2])
    figure.log_axes(panel, figure.short([2_500_000, 1000, 1000]), y=False)
    written = figure.write(tmp_path, {"plot": drawn})

    assert written == {"plot": (tmp_path / "plot.svg").read_text("utf-8")}
    assert ">1k</text>" in written["plot"]
    assert ">2.5M</text>" in written["plot"]
    assert "<dc:date>" not in written["plot"]
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert figure.plain([8, 2]) == {2: "2", 8: "8"}
