"""Runs the benchmarks of speed and growth, keeps what they print, and writes `docs/performance.md` from it.

    python benchmarks/bench.py [NAME ...] [--remake] [--keep FILE] [--page FILE]

Each of `LISTED` is a program of this folder that prints one JSON object: `figures`, each with `median`, `least`, `most`
and its goal, and the names of those that `missed`. It runs alone, within its seconds; together these are 20 minutes at
most. What it printed is kept in `docs/performance/measured.json`, under its name, also where a goal is missed: the page
says so, and the exit status is 6. One that ends otherwise, or not in time, is a failure: what was kept of it stays, and
the exit status is 1. A program that is not there is passed over. `--remake` writes the page from the file, and measures
nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final, cast

HERE: Final = Path(__file__).parent
DOCS: Final = HERE.parent / "docs"
KEPT: Final = DOCS / "performance" / "measured.json"
PAGE: Final = DOCS / "performance.md"
MINUTES: Final = 20
FAILED, MISSED = 1, 6

SPREAD: Final = ("median", "least", "most")

Said = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listed:
    """A benchmark that `make bench` runs."""

    name: str
    seconds: float
    """After which it is stopped."""
    what: str
    limit: str
    """What limits it on a machine like the one that is named."""
    options: tuple[str, ...] = ()


LISTED: Final = (
    Listed("growth", 320, "Growth", "see its table"),
    Listed(
        "simulation",
        100,
        "Simulated users on one core, beside `rng.random(n) < p`",
        "reading and writing memory: of each user her example, her coin and her noise",
    ),
    Listed("engines", 80, "Local and Dask workers", "processors: two workers on two"),
    Listed("kernels", 40, "Channels, beside `rng.random(n) < p`", "AES-CTR, and memory"),
    Listed("documents", 20, "Documents printed and checked", "counts, which no machine changes"),
    Listed(
        "ingest",
        180,
        "Reports to a server, beside FastAPI's no-op",
        "Python on the one core of the server, and the disk: each batch waits until it confirms",
    ),
    Listed("latency", 60, "Waits for a receipt at half of what a server can do", "the disk, which has to confirm"),
    Listed("counts", 40, "Tallies drawn from their joint law", "questions and slots, whatever the number of users"),
    Listed("server_size", 120, "Large servers: start and memory", "reading the log, and the bytes of each user"),
    Listed("responsiveness", 70, "The longest wait for `/healthz` beside long work", "the interpreter's lock"),
    Listed("fleet", 70, "People's clients, and a gateway", "Python on the one core of a client"),
    Listed("replicas", 100, "Replicas on PostgreSQL", "commits of the database, and two processors for all of it"),
)
"""By their names, with the seconds that each may take. `peers` installs other packages, and stays by hand."""


# ------------------------------------------------------------------------------------------------------------- running


def run(listed: Listed, folder: Path) -> tuple[int, Said | None]:
    """Run one to its end, or to the end of its time: its exit status, and what it printed."""
    command = [sys.executable, str(folder / f"{listed.name}.py"), *listed.options]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=listed.seconds, check=False)  # noqa: S603 - ours
    except subprocess.TimeoutExpired:
        print(f"{listed.name}: stopped after {listed.seconds:g} s", file=sys.stderr)
        return FAILED, None
    said = _object(done.stdout.decode("utf-8", "replace"))
    if done.returncode not in {0, MISSED} or said is None:
        print(f"{listed.name}: failed with status {done.returncode}", file=sys.stderr)
        return FAILED, None
    return done.returncode, said


def _object(printed: str) -> Said | None:
    """The JSON object of the last line."""
    try:
        said = json.loads(printed.strip().rpartition("\n")[2])
    except json.JSONDecodeError:
        return None
    return cast("Said", said) if isinstance(said, dict) else None


def run_all(chosen: Iterable[Listed], kept: dict[str, Any], folder: Path = HERE) -> int:
    """Run those that are there, one after the other, and put what they print into `kept`: the exit status."""
    worst = 0
    for listed in chosen:
        if not (folder / f"{listed.name}.py").exists():
            print(f"{listed.name}: is not there", file=sys.stderr)
            continue
        begin = time.monotonic()
        status, said = run(listed, folder)
        if said is not None:
            seconds = round(time.monotonic() - begin)
            kept[listed.name] = {"status": status, "seconds": seconds, "said": said}
            print(f"{listed.name}: {'missed a goal' if status else 'done'}, {seconds} s", file=sys.stderr)
        worst = FAILED if FAILED in {worst, status} else max(worst, status)
    return worst


# ------------------------------------------------------------------------------------------------------------ the page


def figures_of(said: Said) -> dict[str, Said]:
    """The figures of a benchmark; of one that prints no `figures`, its numbers."""
    figures = said.get("figures")
    if isinstance(figures, dict):
        return {str(name): cast("Said", each) for name, each in cast("dict[object, object]", figures).items()}
    return {name: {"median": number} for name, number in _numbers(said) if name not in {"schema_version", "n", "runs"}}


def _numbers(said: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    for name, each in said.items():
        if isinstance(each, dict) and name not in {"goals", "goal", "version_0_1", "machine"}:
            yield from _numbers(cast("dict[str, Any]", each), f"{before}{name}.")
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield before + name, each


def table(listed: Listed, run_: Said) -> list[str]:
    """The section of one benchmark: its figures, with their spread and goals."""
    said: Said = run_["said"]
    lines = ["| figure | median | of the turns | goal |", "| --- | --: | --: | --: |"]
    for name, each in figures_of(said).items():
        spread = f"{number(each['least'])} to {number(each['most'])}" if "least" in each else "–"
        lines.append(f"| {name} | {number(each['median'])} | {spread} | {goal(each, name in said.get('missed', ()))} |")
    return [f"`python benchmarks/{listed.name}.py`, {run_['seconds']} s. Limit: {listed.limit}.", "", *lines]


def goal(figure: Said, missed: bool) -> str:
    """The goal of a figure, and whether it was met."""
    told = [
        f"{words} {number(figure[name])}"
        for name, words in (("at_least", "≥"), ("at_most", "≤"))
        if figure.get(name) is not None
    ]
    if not told:
        return "missed" if missed else "–"
    return f"{' and '.join(told)}: {'missed' if missed else 'met'}"


def number(value: float) -> str:
    """Four digits that count, and commas."""
    short = float(f"{value:.4g}")
    return f"{round(short):,}" if abs(short) >= 1000 or short == round(short) else f"{short:.4g}"


def growth_table(run_: Said) -> list[str]:
    """The curves, each with its exponent and what limits it."""
    said: Said = run_["said"]
    lines = [
        "| what takes the time | of | from, to | fitted from | at the end | exponent | goal | limit |",
        "| --- | --- | --: | --: | --: | --: | --: | --- |",
    ]
    for name, curve in said["curves"].items():
        figure, sizes = said["figures"][name], curve["sizes"]
        # No zero with a sign.
        spread = "{:.2f} ({:.2f} to {:.2f})".format(*(round(figure[each], 2) + 0.0 for each in SPREAD))
        cells = [
            f"{curve['what']} (`{name}`)",
            curve["of"],
            f"{whole(sizes[0])}, {whole(sizes[-1])}{without(curve['left_out'])}",
            whole(curve["fitted_from"]),
            seconds(curve["seconds"][-1][0]),
            spread,
            goal(figure, name in said["missed"]),
            curve["limit"],
        ]
        lines.append(f"| {' | '.join(cells)} |")
    held = {curve["turns"]: curve["held"] for curve in said["curves"].values()}
    sure = " and ".join(f"{100 * level:.0f} % ({turns} turns)" for turns, level in sorted(held.items()))
    about = (
        f"`python benchmarks/growth.py`, {run_['seconds']} s. An exponent is the median of some turns, and stands with"
        f" the least and the most of\nthem: between these the median of all such turns lies with {sure}."
    )
    return [about, "", *lines]


def cluster_table(cluster: Said) -> list[str]:
    """What workers of a cluster would do, by arithmetic; nothing where nothing is said of it."""
    if not cluster:
        return []
    lines = [
        f"| {workers} | {seconds(each['seconds'])} | {number(each['users_a_second'])} |"
        for workers, each in cluster.items()
    ]
    about = "A cluster, by arithmetic from these figures (docs/scaling.md): KLNRS11, Thm 5.7, d = 64, 4.6·10⁹ users."
    return [about, "", "| workers | seconds | users a second |", "| --: | --: | --: |", *lines, ""]


def without(left_out: Sequence[int]) -> str:
    """What did not fit into the time."""
    return f" (no time for {', '.join(map(whole, left_out))})" if left_out else ""


def whole(size: int) -> str:
    """A size: 30,000, or a power of ten where that is longer."""
    power = len(str(size)) - 1
    lead = size // 10**power
    if size < 10**6 or size != lead * 10**power:
        return f"{size:,}"
    raised = str(power).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{raised}" if lead == 1 else f"{lead}·10{raised}"


def seconds(value: float) -> str:
    """A time in the unit that fits it."""
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if value >= unit:
            return f"{number(float(f'{value / unit:.3g}'))} {name}"
    return f"{number(float(f'{value * 1e6:.3g}'))} µs"


def overview(kept: Mapping[str, Any]) -> list[str]:
    """What was run, on what, and what came of it."""
    lines = ["| benchmark | what | seconds | goals | machine |", "| --- | --- | --: | --- | --- |"]
    for listed in LISTED:
        if (run_ := kept.get(listed.name)) is None:
            lines.append(f"| `{listed.name}` | {listed.what} | – | not measured here | – |")
            continue
        missed = run_["said"].get("missed", [])
        told = f"missed: {', '.join(map(str, missed))}" if missed else "met"
        lines.append(f"| `{listed.name}` | {listed.what} | {run_['seconds']} | {told} | {machine(run_['said'])} |")
    return lines


def machine(said: Said) -> str:
    """The machine, as far as a benchmark says it."""
    told = said.get("machine", {})
    parts = [
        f"{told['processors']} processors" if "processors" in told else "",
        str(told.get("kind", "")),
        f"Python {told['python']}" if "python" in told else "",
        f"load {told['load']}" if "load" in told else "",
    ]
    return ", ".join(part for part in parts if part) or "–"


def sections(kept: Mapping[str, Any]) -> dict[str, list[str]]:
    """What stands between the marks of the page, by their names."""
    made = {"overview": overview(kept)}
    if "growth" in kept:
        made["growth"] = growth_table(kept["growth"])
    rest = list[str]()
    for listed in LISTED:
        if listed.name in kept and listed.name != "growth":
            rest += [f"### {listed.what}", "", *table(listed, kept[listed.name]), ""]
            rest += cluster_table(kept[listed.name]["said"].get("cluster", {}))
    made["figures"] = rest[:-1]
    return made


def remade(page: str, kept: Mapping[str, Any]) -> str:
    """The page with what was kept between its marks."""
    for name, lines in sections(kept).items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"the page has not one {begin} and one {end}")
        body = "\n".join(["", *lines, ""])
        page = re.sub(
            rf"{begin}\n.*?{end}", lambda _, new=f"{begin}\n{body}\n{end}": new, page, count=1, flags=re.DOTALL
        )
    return page


# ------------------------------------------------------------------------------------------------------------ the plot

COLOURS: Final = ("#1b6ca8", "#c05621", "#2f855a", "#805ad5", "#b83280", "#718096", "#975a16")
ROW: Final = 3


def drawn(curves: Mapping[str, Said]) -> str:
    """The curves as SVG: a panel for each thing that there is more of, seconds against size, and a line of slope 1."""
    from askance_lab.experiments.figure import GUIDE, figure, log_axes, svg  # noqa: PLC0415 - takes a while

    kinds = list(dict.fromkeys(str(curve["of"]) for curve in curves.values()))
    rows = -(-len(kinds) // ROW)
    whole_ = figure(12, 3.6 * rows)
    panels = whole_.subplots(rows, ROW, squeeze=False)
    for place, panel in enumerate(panels.flat):
        if place >= len(kinds):
            panel.set_visible(False)
            continue
        mine = {name: curve for name, curve in curves.items() if curve["of"] == kinds[place]}
        for colour, (name, curve) in zip(cycle(COLOURS), mine.items(), strict=False):
            middle, least, most = zip(*curve["seconds"], strict=True)
            panel.plot(curve["sizes"], middle, "o-", color=colour, markersize=3, label=name)
            panel.fill_between(curve["sizes"], least, most, color=colour, alpha=0.2, linewidth=0)
        sizes = [size for curve in mine.values() for size in curve["sizes"]]
        low, high = min(sizes), max(sizes)
        start = min(curve["seconds"][0][0] for curve in mine.values())
        ticks = {10**k: f"10{str(k).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}" for k in range(13)}
        if kinds[place] == "d":
            ticks = {1 << k: str(1 << k) for k in range(3, 13, 3)}
        log_axes(panel, {size: text for size, text in ticks.items() if low <= size <= high})
        # Whole decades, each with its label.
        lowest, highest = (math.log10(each) for each in panel.get_ylim())
        bottom, top = 10 ** math.floor(lowest), 10 ** math.ceil(highest)
        panel.plot([low, high], [start, start * high / low], "--", color=GUIDE, linewidth=0.8, zorder=0)
        panel.set(xlabel=kinds[place], ylabel="seconds" if place % ROW == 0 else "", ylim=(bottom, top))
        panel.legend(fontsize=8, frameon=False)
    return svg(whole_)


# --------------------------------------------------------------------------------------------------------- the command


def read(path: Path) -> dict[str, Any]:
    """What was kept, by name."""
    return json.loads(path.read_text("utf-8"))["runs"] if path.exists() else {}


def write(kept: Mapping[str, Any], path: Path, page: Path) -> None:
    """Keep what was printed, and make the page and its plot from it."""
    path.parent.mkdir(exist_ok=True)
    order = [listed.name for listed in LISTED if listed.name in kept]
    told = {"schema_version": 1, "runs": {name: kept[name] for name in order}}
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", "utf-8")
    page.write_text(remade(page.read_text("utf-8"), kept), "utf-8")
    if "growth" in kept:
        (path.parent / "growth.svg").write_text(drawn(kept["growth"]["said"]["curves"]), "utf-8")


def main(given: Sequence[str] | None = None) -> int:
    """Measure, keep, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [listed.name for listed in LISTED]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"all, unless given: {', '.join(names)}")
    parser.add_argument("--remake", action="store_true", help="write the page from what was kept")
    parser.add_argument("--keep", type=Path, default=KEPT, metavar="FILE")
    parser.add_argument("--page", type=Path, default=PAGE, metavar="FILE")
    chosen = parser.parse_args(given)
    if unknown := [name for name in chosen.names if name not in names]:
        parser.error(f"no benchmark here is named {unknown[0]!r}: choose from {', '.join(names)}")
    kept, status = read(chosen.keep), 0
    if not chosen.remake:
        status = run_all([listed for listed in LISTED if not chosen.names or listed.name in chosen.names], kept)
    write(kept, chosen.keep, chosen.page)
    print(f"{chosen.page} is made anew, from {chosen.keep}: git diff has what was there before", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
