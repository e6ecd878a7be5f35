"""Figures in the house's ink, as SVG that is the same each time."""

from __future__ import annotations

import io
from typing import Any, Final

_INK: Final = {
    "axes.edgecolor": "#555",
    "axes.labelcolor": "#222",
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "askance",
}


def figure(width: float, height: float) -> Any:
    """An empty one, in inches."""
    from matplotlib import rcParams  # noqa: PLC0415 - takes a while
    from matplotlib.figure import Figure  # noqa: PLC0415 - no display is looked for

    parameters: Any = rcParams
    parameters.update(_INK)
    return Figure(figsize=(width, height), layout="constrained")


def svg(drawn: Any) -> str:
    """Its text, without a date."""
    text = io.StringIO()
    drawn.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
