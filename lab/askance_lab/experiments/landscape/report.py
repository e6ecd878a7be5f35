"""The landscape as a table, as JSON and as plots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Any, Final

from askance_lab.experiments import figure as plots
from askance_lab.experiments.landscape.cells import APPROXIMATE, BY_KEY, CELLS, LIMITS, PURE, Cell, Model
from askance_lab.experiments.landscape.measurement import SCHEMA_VERSION, CellUsers
from askance_lab.theory.targets import Targets

_COLOURS: Final = {
    (Model.AT_ONCE, "ε each"): "#b91c1c",
    (Model.IN_ROUNDS, "ε each"): "#d97706",
    (Model.CURATOR, PURE): "#0b6e99",
    (Model.CURATOR, APPROXIMATE): "#6d28d9",
    (Model.NOBODY, "–"): "#3f6212",
}
_MARKS: Final = {Model.AT_ONCE: "s", Model.IN_ROUNDS: "o", Model.CURATOR: "D", Model.NOBODY: "^"}
_DASHES: Final = {Model.AT_ONCE: ":", Model.IN_ROUNDS: "--", Model.CURATOR: "-.", Model.NOBODY: (0, (1, 4))}
"""Of bounds, by model: what is proved has a broken line with empty triangles, what was measured marks of its own."""
_CROSSING: Final = (("POINT", "A_dist"), ("INTERVAL", "Rec"))
_LARGE: Final = 64
"""A dimension at which every class is shown, measured or not."""
_MOST: Final = 10**13
"""Bounds beyond are not shown."""


@dataclass(frozen=True, slots=True)
class Crossover:
    """Dimension d from which the (ε,δ)-private learner needs fewer users than the generic one."""

    problem: str
    learner: str
    d: float | None
    """None: the curves do not cross between dimensions that were measured."""
    between: tuple[int, int] | None


def crossovers(found: Sequence[CellUsers]) -> list[Crossover]:
    """Crossings of the measured curves, interpolated in log d and log users."""
    return [_crossover(problem, learner, found) for problem, learner in _CROSSING]


def _crossover(problem: str, learner: str, found: Sequence[CellUsers]) -> Crossover:
    one, other = (_users(found, problem, name) for name in ("generic", learner))
    common = sorted(one.keys() & other.keys())
    gaps = {d: log(one[d]) - log(other[d]) for d in common}
    for low, high in pairwise(common):
        if gaps[low] <= 0 < gaps[high]:
            share = -gaps[low] / (gaps[high] - gaps[low])
            return Crossover(problem, learner, exp(log(low) + share * (log(high) - log(low))), (low, high))
    return Crossover(problem, learner, None, None)


def _users(found: Sequence[CellUsers], problem: str, learner: str) -> dict[int, int]:
    cells = {cell.measured_as for cell in CELLS if (cell.problem, cell.learner) == (problem, learner)}
    return {each.d: each.users for each in found if each.cell in cells}


# -------------------------------------------------------------------------------------------------------------- JSON


def results_of(found: Sequence[CellUsers], targets: Targets, seeds: int) -> dict[str, Any]:
    """Machine-readable results: every point with its interval, theorem and bound; and the crossovers."""
    return {
        "schema_version": SCHEMA_VERSION,
        "epsilon": str(targets.epsilon),
        "delta": str(targets.delta),
        "alpha": targets.alpha,
        "beta": targets.beta,
        "seeds": seeds,
        "points": [_point(each, targets) for each in found],
        "crossovers": [asdict(each) for each in crossovers(found)],
    }


def _point(found: CellUsers, targets: Targets) -> dict[str, Any]:
    cell = BY_KEY[found.cell]
    about = {
        "problem": cell.problem,
        "model": cell.model.value,
        "learner": cell.learner,
        "privacy": cell.privacy,
        "theorem": cell.theorem,
        "bound": cell.bound(found.d, targets),
        "bounded": cell.bounded or cell.learner,
    }
    return {**about, **asdict(found)}


# ------------------------------------------------------------------------------------------------------------- table


def tables(found: Sequence[CellUsers], targets: Targets, cells: Iterable[Cell] = CELLS) -> list[str]:
    """Markdown tables, two for each class: measured users with their interval; and what is proved."""
    chosen = dict.fromkeys(cell.problem for cell in cells)
    return [line for problem in chosen for line in (*_measured(problem, found), *_proved(problem, found, targets))]


def _measured(problem: str, found: Sequence[CellUsers]) -> list[str]:
    """A dash stands where nobody has measured."""
    measured = {(each.cell, each.d): each for each in found}
    dimensions = sorted({each.d for each in found if BY_KEY[each.cell].problem == problem})
    rows = [
        [cell.model.value, cell.learner, cell.privacy]
        + [_entry(measured.get((cell.measured_as, d))) for d in dimensions]
        for cell in CELLS
        if cell.problem == problem
    ]
    return _table(f"**{problem}**, measured", ["model", "learner", "private"], dimensions, rows)


def _proved(problem: str, found: Sequence[CellUsers], targets: Targets) -> list[str]:
    """Users that are enough, by a theorem; and a row of its own for a limit, with fewer than which nobody succeeds."""
    dimensions = _dimensions(problem, found)
    rows = [
        [cell.model.value, cell.bounded or cell.learner, cell.theorem, "enough"]
        + [_large(cell.bound(d, targets)) for d in dimensions]
        for cell in CELLS
        if cell.problem == problem
    ]
    rows += [
        [limit.model.value, "any learner", limit.theorem, "fewer never do"]
        + [_large(limit.users(d, targets)) for d in dimensions]
        for limit in LIMITS
        if limit.problem == problem
    ]
    return _table(f"**{problem}**, proved", ["model", "learner", "by", "kind"], dimensions, rows)


def _table(title: str, names: Sequence[str], dimensions: Sequence[int], rows: Sequence[Sequence[str]]) -> list[str]:
    head = [*names, *(f"d = {d}" for d in dimensions)]
    lines = [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]
    return [title, "", *lines, ""]


def _entry(found: CellUsers | None) -> str:
    return "–" if found is None else f"{found.users:,} [{_shown(found.low)}, {_shown(found.high)}]"


def _large(users: int) -> str:
    return f"{users:,}" if users < 10**7 else f"{float(users):.1e}"


def _shown(users: int | None) -> str:
    return "?" if users is None else f"{users:,}"


def conclusions(found: Sequence[CellUsers]) -> list[str]:
    """One line for each crossover."""
    return [_crossing(each) for each in crossovers(found)]


def _crossing(crossover: Crossover) -> str:
    if crossover.d is None or crossover.between is None:
        return f"{crossover.problem}: {crossover.learner} and the generic learner do not cross where both were measured"
    low, high = crossover.between
    return (
        f"{crossover.problem}: from d ≈ {crossover.d:.0f} on (between {low} and {high}) {crossover.learner} "
        f"needs fewer users than the generic learner"
    )


# ------------------------------------------------------------------------------------------------------------- plots


def write(out: Path, found: Sequence[CellUsers], targets: Targets, seeds: int) -> dict[str, Any]:
    """results.json, tables.md and both plots as SVG and PNG."""
    results = results_of(found, targets, seeds)
    (out / "results.json").write_text(json.dumps(results, indent=1), "utf-8")
    (out / "tables.md").write_text("\n".join(tables(found, targets)), "utf-8")
    plots.write(out, {"landscape": _draw(found, targets), "crossovers": _draw_crossovers(found)})
    return results


def _draw(found: Sequence[CellUsers], targets: Targets) -> Any:
    """One panel for each class: users against d, with marks for measurements and dotted lines for bounds."""
    measured = {BY_KEY[each.cell].problem for each in found}
    problems = [name for name in dict.fromkeys(cell.problem for cell in CELLS) if name in measured]
    figure = plots.figure(3.0 * len(problems), 4.4)
    panels = plots.panels_of(figure, len(problems), shared_y=True)
    for problem, panel in zip(problems, panels, strict=True):
        for cell in (cell for cell in CELLS if cell.problem == problem):
            _draw_cell(panel, cell, found, targets)
        _draw_limits(panel, problem, found, targets)
        panel.set(title=problem, xlabel="d", ylim=(3, _MOST))
        plots.log_axes(panel, plots.plain(d for d in _dimensions(problem, found) if d & (d - 1) == 0))
        panel.tick_params(axis="x", labelsize=7)
        panel.legend(frameon=False, fontsize=7, loc="upper left")
    panels[0].set_ylabel(f"users until error ≤ {targets.alpha} but with probability {targets.beta}")
    words = "marks with intervals: measured · ▽ broken lines: proved to be enough · △: proved, fewer never do at once"
    figure.suptitle(words, fontsize=9)
    return figure


def _dimensions(problem: str, found: Sequence[CellUsers]) -> list[int]:
    """Dimensions that tables and plots show for a class."""
    return sorted({each.d for each in found if BY_KEY[each.cell].problem == problem} | {_LARGE})


def _draw_cell(panel: Any, cell: Cell, found: Sequence[CellUsers], targets: Targets) -> None:
    """The bound of a cell, and what was measured. A model's second learner has hollow marks.

    A learner that stands for both local models shows as a square around a circle.
    """
    mine = [each for each in found if each.cell == cell.measured_as]
    colour, at_once = _COLOURS[cell.model, cell.privacy], cell.model is Model.AT_ONCE
    first = next(c for c in CELLS if (c.problem, c.model) == (cell.problem, cell.model))
    hollow = at_once or cell != first
    dimensions = _dimensions(cell.problem, found)
    _draw_proved(panel, dimensions, [float(cell.bound(d, targets)) for d in dimensions], "v", cell.model, colour)
    if not mine:
        return
    panel.errorbar(
        [each.d for each in mine],
        [each.users for each in mine],
        yerr=[
            [each.users - (each.low or 1) for each in mine],
            [(each.high or each.users) - each.users for each in mine],
        ],
        marker=_MARKS[cell.model],
        markersize=7 if at_once else 4,
        markerfacecolor="white" if hollow else colour,
        color=colour,
        linewidth=1,
        capsize=2,
        zorder=2 if at_once else 3,
        label=f"{cell.model.value}: {cell.learner}" if cell.model is Model.CURATOR else cell.model.value,
    )


def _draw_limits(panel: Any, problem: str, found: Sequence[CellUsers], targets: Targets) -> None:
    dimensions = _dimensions(problem, found)
    for limit in LIMITS:
        if limit.problem == problem:
            users = [float(limit.users(d, targets)) for d in dimensions]
            _draw_proved(panel, dimensions, users, "^", limit.model, plots.GUIDE)


def _draw_proved(
    panel: Any, dimensions: Sequence[int], users: Sequence[float], mark: str, model: Model, colour: str
) -> None:
    panel.plot(
        dimensions,
        users,
        linestyle=_DASHES[model],
        marker=mark,
        markersize=3,
        markerfacecolor="white",
        markeredgewidth=0.6,
        color=colour,
        linewidth=0.9,
    )


def _draw_crossovers(found: Sequence[CellUsers]) -> Any:
    """Users against d for POINT and INTERVAL: they grow with pure ε, and not with (ε,δ)."""
    figure = plots.figure(7.2, 3.4)
    panels = plots.panels_of(figure, len(_CROSSING), shared_y=True)
    for (problem, learner), panel, crossing in zip(_CROSSING, panels, crossovers(found), strict=True):
        if not _users(found, problem, learner):
            continue
        for name, privacy in (("generic", PURE), (learner, APPROXIMATE)):
            users = dict(sorted(_users(found, problem, name).items()))
            colour = _COLOURS[Model.CURATOR, privacy]
            panel.plot(list(users), list(users.values()), "D-", markersize=4, color=colour, label=f"{name}: {privacy}")
        if crossing.d is not None:
            panel.axvline(crossing.d, color=plots.GUIDE, linestyle=":", linewidth=1)
            panel.text(crossing.d * 1.08, 0.03, f"d ≈ {crossing.d:.0f}", transform=panel.get_xaxis_transform())
        panel.set(title=problem, xlabel="d")
        plots.log_axes(panel, plots.plain(_users(found, problem, "generic")))
        panel.legend(frameon=False, fontsize=8)
    panels[0].set_ylabel("users")
    return figure
