"""What `askance separation` leaves behind: results for programs, plots, and a page that needs nothing else."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from askance_lab.experiments import figure as plots
from askance_lab.experiments.separation import users
from askance_lab.experiments.separation.measurement import (
    BLIND,
    INTERACTIVE,
    NONINTERACTIVE,
    NumberKind,
    SeparationPoint,
    learners_of,
    limits_of,
    name_of,
)

HEAD: Final = ("d", "users", "learner", "right", "95 %", "mean error")

_LOOKS: Final = {INTERACTIVE: ("#0b6e99", "o"), NONINTERACTIVE: ("#c2410c", "s")}
_MORE_LOOKS: Final = (("#6d28d9", "D"), ("#3f6212", "^"), ("#a16207", "v"), ("#be185d", "P"))
"""Colour and mark of the other learners, in turn."""
_STYLE: Final = """
    body { font: 1rem/1.5 system-ui; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
    svg { max-width: 100%; height: auto }
    table { border-collapse: collapse }
    td, th { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
"""


def rows(points: Sequence[SeparationPoint]) -> list[tuple[str, ...]]:
    """A row for each point, under `HEAD`; a dash stands for what is unknown."""
    return [(str(point.d), f"{point.users:,}", name_of(point.learner), *_measured(point)) for point in points]


def _measured(point: SeparationPoint) -> tuple[str, str, str]:
    if point.success is None or point.error is None:
        return f"–/{len(point.errors)}", "–", "–"
    low, high = point.success.interval
    return f"{point.success.count}/{point.success.total}", f"[{low:.2f}, {high:.2f}]", f"{point.error[0]:.3f}"


def write(out: Path, points: Sequence[SeparationPoint], results: dict[str, Any]) -> None:
    """results.json, both plots as SVG and PNG, and a page that needs nothing else."""
    (out / "results.json").write_text(json.dumps(results, indent=1), "utf-8")
    drawings = plots.write(out, {"error": _draw_errors(points), "needed": _draw_needed(results)})
    (out / "report.html").write_text(_page(points, results, drawings), "utf-8")


def _looks(learners: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The colour and the mark of each learner."""
    others = [learner for learner in learners if learner not in _LOOKS]
    more = {learner: _MORE_LOOKS[number % len(_MORE_LOOKS)] for number, learner in enumerate(others)}
    return {learner: _LOOKS.get(learner) or more[learner] for learner in learners}


def _draw_errors(points: Sequence[SeparationPoint]) -> Any:
    """The mean error against the users, a panel a dimension; ¼ is what a guess of the mask bit costs."""
    dimensions = sorted({point.d for point in points})
    means = [point.error[0] for point in points if point.error is not None]
    figure = plots.figure(3.2 * len(dimensions) + 0.6, 4.0)
    panels = plots.panels_of(figure, len(dimensions), shared_y=True)
    for d, panel in zip(dimensions, panels, strict=True):
        here = [point for point in points if point.d == d]
        for learner, (colour, mark) in _looks(learners_of(points)).items():
            _draw_learner(panel, learner, here, colour, mark)
        panel.axhline(BLIND, color=plots.GUIDE, linestyle=":", linewidth=1, label="¼: a guess of the mask bit")
        panel.set(title=f"d = {d}", xlabel="users", ylim=(-0.02, max([0.6, *(1.1 * mean for mean in means)])))
        ticks = plots.short(point.users for point in here)
        plots.log_axes(panel, ticks, y=False)
        panel.set_xlim(min(ticks) / 1.2, max(ticks) * 1.2)
    panels[0].set_ylabel("mean error")
    # The handle of the dotted line comes first; the learners are to.
    (guess, *learners), (guess_label, *names) = panels[0].get_legend_handles_labels()
    columns = 4 if len(dimensions) > 1 else 1
    figure.legend([*learners, guess], [*names, guess_label], loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _draw_learner(panel: Any, learner: str, points: Sequence[SeparationPoint], colour: str, mark: str) -> None:
    """A line with error bars. A learner whose errors are unknown stands in the legend only."""
    known = sorted((each.users, each.error) for each in points if each.learner == learner and each.error is not None)
    below = [mean - low for _, (mean, low, _) in known]
    above = [high - mean for _, (mean, _, high) in known]
    panel.errorbar(
        [users for users, _ in known],
        [mean for _, (mean, _, _) in known],
        yerr=[below, above],
        marker=mark,
        color=colour,
        capsize=3,
        elinewidth=1,
        label=name_of(learner),
    )


_KINDS: Final = {
    NumberKind.MEASURED: ("", "measured"),
    NumberKind.ENOUGH: ("v", "enough, by a formula"),
}
"""Mark and words of each kind of number. A measured one has its learner's mark, and is full."""
_LIMIT: Final = "at once: lower limit, proved"


def _draw_needed(results: dict[str, Any]) -> Any:
    """Users against the dimension. A line joins what was measured; each other kind of number has a shape of its own."""
    figure = plots.figure(5.6, 4.2)
    [panel] = plots.panels_of(figure, 1, shared_y=False)
    known = [each for each in results["needed"] if each["users"] is not None and each["kind"] != NumberKind.LIMIT]
    for learner, (colour, mark) in _looks(list(dict.fromkeys(each["learner"] for each in known))).items():
        for kind, (other, words) in _KINDS.items():
            mine = [each for each in known if (each["learner"], each["kind"]) == (learner, kind)]
            if mine:
                measured = kind is NumberKind.MEASURED
                panel.plot(
                    [each["d"] for each in mine],
                    [float(each["users"]) for each in mine],
                    "-" if measured else ":",
                    marker=mark if measured else other,
                    color=colour,
                    markerfacecolor=colour if measured else "white",
                    label=f"{name_of(learner)}: {words}",
                )
    limits = results["limits"]
    if limits:
        # From d = 64 on these, and an end of the axis, are no integers of 64 bits.
        proved = [float(each["at_once_proved"]) for each in limits]
        panel.plot(
            [each["d"] for each in limits], proved, "^:", color=plots.GUIDE, markerfacecolor="white", label=_LIMIT
        )
    panel.set(xlabel="d", ylabel="users to be right 19 times in 20")
    plots.log_axes(panel, plots.plain(each["d"] for each in results["needed"]))
    if known or limits:
        low, high = (math.log10(each) for each in panel.get_ylim())
        panel.set_ylim(10.0 ** math.floor(low), 10.0 ** math.ceil(high))
        figure.legend(loc="outside lower center", frameon=False, fontsize=9)
    else:
        panel.text(0.5, 0.5, "not enough at any number that was tried", transform=panel.transAxes, ha="center")
    return figure


def _page(points: Sequence[SeparationPoint], results: dict[str, Any], drawings: dict[str, str]) -> str:
    """Self-contained: the drawings are in it, and nothing is fetched."""
    table = "".join(f"<th>{html.escape(each)}" for each in HEAD)
    for row in rows(points):
        table += "<tr>" + "".join(f"<td>{html.escape(each)}" for each in row)
    shown = "".join(f"<li>{html.escape(each)}" for each in results["verdict"])
    figures = "".join(drawing[drawing.index("<svg") :] for drawing in drawings.values())
    limits = "".join(f"<th>{html.escape(each)}" for each in users.HEAD)
    for row in users.rows(limits_of(points)):
        limits += "<tr>" + "".join(f"<td>{html.escape(each)}" for each in row)
    words = "".join(f"<li>{html.escape(each)}" for each in users.WORDS)
    head = f"<meta charset=utf-8><title>Askance: the separation</title><style>{_STYLE}</style>"
    return (
        f"<!doctype html><html lang=en>{head}"
        f"<h1>What a second round is worth</h1><ul>{shown}</ul>{figures}<table><tr>{table}</table>"
        f"<h2>Whatever the learner</h2><p>Users of each dimension to be right 19 times in 20, ε = "
        f"{html.escape(points[0].epsilon)}.</p><table><tr>{limits}</table><ul>{words}</ul></html>\n"
    )
