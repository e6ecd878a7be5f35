"""What `askance separation` leaves behind: results for programs, plots, and a page that needs nothing else."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from askance_lab.experiments import figure as drawing
from askance_lab.experiments.separation.measurement import BLIND, INTERACTIVE, NONINTERACTIVE, SeparationPoint

NAMES: Final = {INTERACTIVE: "in rounds", NONINTERACTIVE: "at once"}

_COLOURS: Final = {INTERACTIVE: "#0b6e99", NONINTERACTIVE: "#c2410c"}
_MARKS: Final = {INTERACTIVE: "o", NONINTERACTIVE: "s"}
_STYLE: Final = """
    body { font: 1rem/1.5 system-ui; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
    svg { max-width: 100%; height: auto }
    table { border-collapse: collapse }
    td, th { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
"""


def write(out: Path, points: Sequence[SeparationPoint], results: dict[str, Any]) -> None:
    """results.json, both plots as SVG and PNG, and a page that needs nothing else."""
    (out / "results.json").write_text(json.dumps(results, indent=1), "utf-8")
    drawn = {"error": _draw_errors(points), "needed": _draw_needed(results)}
    for name, figure in drawn.items():
        figure.savefig(out / f"{name}.png", dpi=160)
        (out / f"{name}.svg").write_text(drawing.svg(figure), "utf-8")
    (out / "report.html").write_text(
        _page(points, results, {name: drawing.svg(figure) for name, figure in drawn.items()}), "utf-8"
    )


def _draw_errors(points: Sequence[SeparationPoint]) -> Any:
    """The mean error against the users, a panel a dimension; ¼ is what a guess of the mask bit costs."""
    dimensions = sorted({point.d for point in points})
    figure = drawing.figure(3.2 * len(dimensions) + 0.6, 3.4)
    panels = figure.subplots(1, len(dimensions), sharey=True, squeeze=False)[0]
    for d, panel in zip(dimensions, panels, strict=True):
        for learner, mark in _MARKS.items():
            mine = sorted((p for p in points if (p.d, p.learner) == (d, learner)), key=lambda p: p.users)
            users, errors = [p.users for p in mine], [p.error[0] for p in mine]
            panel.plot(users, errors, marker=mark, color=_COLOURS[learner], label=NAMES[learner])
            low, high = [p.error[1] for p in mine], [p.error[2] for p in mine]
            panel.fill_between(users, low, high, color=_COLOURS[learner], alpha=0.12, linewidth=0)
        panel.axhline(BLIND, color="#555", linestyle=":", linewidth=1)
        panel.set(xscale="log", title=f"d = {d}", xlabel="users", ylim=(-0.02, 0.6))
        measured = sorted({p.users for p in points if p.d == d})
        panel.set_xticks(measured, labels=[_short(users) for users in measured])
        panel.minorticks_off()
    panels[0].set_ylabel("mean error")
    panels[0].annotate(
        "¼: a guess of the mask bit", (0.03, BLIND + 0.01), xycoords=("axes fraction", "data"), fontsize=8
    )
    panels[-1].legend(frameon=False)
    return figure


def _short(users: int) -> str:
    """Few characters, for an axis."""
    unit, name = (10**6, "M") if users >= 10**6 else (1000, "k") if users >= 1000 else (1, "")
    return f"{users / unit:.3g}{name}"


def _draw_needed(results: dict[str, Any]) -> Any:
    """Users needed against the dimension: full marks are measured, hollow ones are the formula's."""
    figure = drawing.figure(5.6, 3.8)
    panel = figure.subplots()
    for learner, mark in _MARKS.items():
        mine = [each for each in results["needed"] if each["learner"] == learner]
        dimensions, users = [each["d"] for each in mine], [each["users"] for each in mine]
        panel.plot(dimensions, users, color=_COLOURS[learner], label=NAMES[learner])
        for each in mine:
            face = _COLOURS[learner] if each["measured"] else "white"
            panel.plot([each["d"]], [each["users"]], mark, color=_COLOURS[learner], markerfacecolor=face)
    panel.set(xscale="log", yscale="log", xlabel="d", ylabel="users to be right 19 times in 20")
    panel.set_xticks(
        sorted({each["d"] for each in results["needed"]}),
        labels=sorted({str(each["d"]) for each in results["needed"]}, key=int),
    )
    panel.minorticks_off()
    panel.set_title("full: measured · hollow: by the formula", fontsize=9)
    panel.legend(frameon=False)
    return figure


def _page(points: Sequence[SeparationPoint], results: dict[str, Any], drawings: dict[str, str]) -> str:
    """Self-contained: the drawings are in it, and nothing is fetched."""
    cells = ("d", "users", "learner", "right", "95 %", "mean error")
    rows = "".join(f"<th>{each}" for each in cells)
    for point in points:
        _, low, high = point.success
        right = f"{point.successes} of {len(point.errors)}"
        shown = (
            point.d,
            f"{point.users:,}",
            NAMES[point.learner],
            right,
            f"{low:.2f} … {high:.2f}",
            f"{point.error[0]:.3f}",
        )
        rows += "<tr>" + "".join(f"<td>{html.escape(str(each))}" for each in shown)
    said = "".join(f"<li>{html.escape(each)}" for each in results["verdict"])
    figures = "".join(drawing[drawing.index("<svg") :] for drawing in drawings.values())
    head = f"<meta charset=utf-8><title>Askance: the separation</title><style>{_STYLE}</style>"
    return (
        f"<!doctype html><html lang=en>{head}"
        f"<h1>What a second round is worth</h1><ul>{said}</ul>{figures}<table><tr>{rows}</table></html>\n"
    )
