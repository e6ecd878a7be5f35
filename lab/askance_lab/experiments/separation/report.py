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
    TWO_ROUNDS,
    NumberKind,
    SeparationPoint,
    learners_of,
    limits_of,
    name_of,
)

HEAD: Final = ("d", "users", "learner", "rounds", "right", "95 %", "error")

_LOOKS: Final = {INTERACTIVE: ("#0b6e99", "o"), TWO_ROUNDS: ("#6d28d9", "D"), NONINTERACTIVE: ("#c2410c", "s")}
_MORE_LOOKS: Final = (("#3f6212", "^"), ("#a16207", "v"), ("#be185d", "P"))
"""Colour and mark of the other learners, in turn."""
_STYLE: Final = """
    body { font: 1rem/1.5 system-ui; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
    svg { max-width: 100%; height: auto }
    table { border-collapse: collapse }
    td, th { padding: .2rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
"""


def rows(points: Sequence[SeparationPoint]) -> list[tuple[str, ...]]:
    """A row for each point, under `HEAD`; a dash stands for what is unknown."""
    return [(str(point.d), f"{point.users:,}", point.learner, _rounds(point), *_measured(point)) for point in points]


def _rounds(point: SeparationPoint) -> str:
    """The fewest and the most that a run took."""
    fewest, most = min(point.rounds), max(point.rounds)
    return str(most) if fewest == most else f"{fewest}–{most}"


def _measured(point: SeparationPoint) -> tuple[str, str, str]:
    if point.success is None or point.error is None:
        return f"–/{len(point.errors)}", "–", "–"
    low, high = point.success.interval
    return f"{point.success.count}/{point.success.total}", f"[{low:.2f}, {high:.2f}]", f"{point.error[0]:.3f}"


def write(out: Path, points: Sequence[SeparationPoint], results: dict[str, Any]) -> None:
    """results.json, both plots as SVG and PNG, and a page that needs nothing else."""
    (out / "results.json").write_text(json.dumps(results, indent=1), "utf-8")
    drawings = plots.write(out, {"error": _draw_errors(points), "needed": _draw_needed(points, results)})
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
            mine = [point for point in here if point.learner == learner]
            _draw_learner(panel, name_of(points, learner), mine, colour, mark)
        panel.axhline(BLIND, color=plots.GUIDE, linestyle=":", linewidth=1, label="¼: a guess of the mask bit")
        panel.set(title=f"d = {d}", xlabel="users", ylim=(-0.02, max([0.6, *(1.1 * mean for mean in means)])))
        ticks = plots.short(point.users for point in here)
        plots.log_axes(panel, ticks, y=False)
        panel.set_xlim(min(ticks) / 1.2, max(ticks) * 1.2)
    panels[0].set_ylabel("mean error")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(2, len(dimensions)), frameon=False
    )
    return figure


def _draw_learner(panel: Any, name: str, points: Sequence[SeparationPoint], colour: str, mark: str) -> None:
    """A line in a light band of its intervals. A learner whose errors are unknown stands in the legend only."""
    known = sorted((each.users, each.error) for each in points if each.error is not None)
    users = [number for number, _ in known]
    panel.fill_between(
        users,
        [low for _, (_, low, _) in known],
        [high for _, (_, _, high) in known],
        color=colour,
        alpha=0.1,
        linewidth=0,
    )
    panel.plot(users, [mean for _, (mean, _, _) in known], marker=mark, color=colour, label=name)


_KINDS: Final = {
    NumberKind.MEASURED: ("", "measured"),
    NumberKind.ENOUGH: ("v", "enough, by a formula"),
}
"""Mark and words of each kind of number. A measured one has its learner's mark, and is full."""
_LIMIT: Final = "every learner in one round: lower limit, proved"


def _draw_needed(points: Sequence[SeparationPoint], results: dict[str, Any]) -> Any:
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
                    label=f"{name_of(points, learner)}: {words}",
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
    shown = "".join(f"<li>{html.escape(each)}" for each in results["verdict"])
    figures = "".join(drawing[drawing.index("<svg") :] for drawing in drawings.values())
    known = limits_of(points)
    limits = _table(users.HEAD, users.rows(known)) + _table(users.LIMITS, users.limit_rows(known))
    words = "".join(f"<li>{html.escape(each)}" for each in users.WORDS)
    head = f"<meta charset=utf-8><title>Askance: the separation</title><style>{_STYLE}</style>"
    return (
        f"<!doctype html><html lang=en>{head}"
        f"<h1>MASKED-PARITY in one round, in two, and in more</h1><ul>{shown}</ul>{figures}"
        f"<p>Bands: 95 % of each mean. Rounds: as the runs took them.</p>{_table(HEAD, rows(points))}"
        f"<h2>Users to be right 19 times in 20, ε = {html.escape(points[0].epsilon)}</h2>{limits}"
        f"<ul>{words}</ul></html>\n"
    )


def _table(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A table of a page."""
    table = "<tr>" + "".join(f"<th>{html.escape(each)}" for each in head)
    for row in cells:
        table += "<tr>" + "".join(f"<td>{html.escape(each)}" for each in row)
    return f"<table>{table}</table>"
