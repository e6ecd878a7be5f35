"""Plots in the project's style: reproducible SVG, and PNG."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from askance_protocol.errors import MissingExtraError

GUIDE: Final = "#555"
"""The colour of lines that are no measurement."""

_INK: Final = {
    "axes.edgecolor": GUIDE,
    "axes.labelcolor": "#222",
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "askance",
}


def figure(width: float, height: float) -> Any:
    """Empty figure of this size, in inches."""
    try:
        from matplotlib import rcParams  # noqa: PLC0415 - belongs to an extra, and takes a while
        from matplotlib.figure import Figure  # noqa: PLC0415 - and not pyplot, which looks for a display
    except ImportError:
        raise MissingExtraError.of("matplotlib", "lab") from None
    parameters: Any = rcParams
    parameters.update(_INK)
    return Figure(figsize=(width, height), layout="constrained")


def panels_of(drawn: Any, count: int, *, shared_y: bool) -> list[Any]:
    """Panels side by side."""
    return list(drawn.subplots(1, count, sharey=shared_y, squeeze=False)[0])


def log_axes(panel: Any, ticks: Mapping[int, str], *, y: bool = True) -> None:
    """Set a logarithmic x axis, and by default y axis, with these ticks on x and no others."""
    panel.set(xscale="log", **({"yscale": "log"} if y else {}))
    panel.set_xticks(list(ticks), labels=list(ticks.values()))
    panel.minorticks_off()


def plain(numbers: Iterable[int]) -> dict[int, str]:
    """Set ticks at these numbers, in order, each labelled with itself."""
    return {number: str(number) for number in sorted(set(numbers))}


def short(numbers: Iterable[int]) -> dict[int, str]:
    """Set ticks at these numbers, in order, with short labels: 3k, 2M."""
    return {number: _short(number) for number in sorted(set(numbers))}


def _short(number: int) -> str:
    unit, name = (10**6, "M") if number >= 10**6 else (1000, "k") if number >= 1000 else (1, "")
    return f"{number / unit:.3g}{name}"


def svg(drawn: Any) -> str:
    """SVG text of a figure, without a date."""
    text = io.StringIO()
    drawn.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()


def write(out: Path, figures: Mapping[str, Any]) -> dict[str, str]:
    """Write each figure as PNG and SVG under its name; returns the SVG text."""
    written: dict[str, str] = {}
    for name, drawn in figures.items():
        drawn.savefig(out / f"{name}.png", dpi=160)
        written[name] = svg(drawn)
        (out / f"{name}.svg").write_text(written[name], "utf-8")
    return written
