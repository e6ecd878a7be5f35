"""What the benchmarks of speed share: ratios within one run, their spread, their goals, and a planted miss.

A machine is never as fast twice, so a figure is a ratio of two things that were measured in turns in one run. It is the
median over the turns of the ratio within each turn, and stands with the least and the most of them. Each benchmark
prints one JSON object and exits 6 where a figure misses its goal. That it would is shown with `--planted NAME`: what
has that name then does its work `PLANTED` times while it is measured once, and the benchmark has to exit 6.

    python benchmarks/NAME.py [--turns N] [--planted NAME]

How the time of something grows is a figure as well: the exponent e of seconds = c·sizeᵉ, the slope of a straight line
through the logarithms, by least squares over the upper half of the sizes (`growing`). Each turn has an exponent of its
own. Small work is repeated until it can be timed; a size that would not fit into the budget is left out. The
seconds of what has the planted name then count in proportion to its size, which is one exponent more.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

PLANTED: Final = 10
MISSED: Final = 6
"""The exit status of a benchmark that misses a goal."""

Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Arguments:
    """What every benchmark is given."""

    turns: int
    planted: str | None


def arguments(about: str | None, names: Sequence[str], *, turns: int = 5) -> Arguments:
    """Read the command line of a benchmark whose measured things have these names."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=turns, help="how often everything is measured")
    parser.add_argument("--planted", choices=names, help="measure this as if it were far slower: a goal must be missed")
    return Arguments(**vars(parser.parse_args()))


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number: the median of its turns and their ends, beside its goal."""

    values: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def median(self) -> float:
        """The figure itself."""
        return statistics.median(self.values)

    @property
    def missed(self) -> bool:
        """Whether it is on the wrong side of its goal; what is no number is."""
        low = self.at_least is not None and not self.median >= self.at_least
        return low or (self.at_most is not None and not self.median <= self.at_most)

    def to_json(self) -> dict[str, Any]:
        """The figure as a benchmark prints it."""
        goal = {"at_least": self.at_least, "at_most": self.at_most}
        spread = {"median": self.median, "least": min(self.values), "most": max(self.values)}
        return {name: _short(number) for name, number in (spread | goal).items() if number is not None}


@dataclass(frozen=True, slots=True)
class Growth:
    """The seconds that one kind of work took at growing sizes, turn by turn."""

    seconds: Mapping[int, Sequence[float]]
    left_out: tuple[int, ...] = ()
    """Sizes that did not fit into the budget."""

    @property
    def upper(self) -> list[int]:
        """The sizes that are fitted: the upper half of them, by their logarithms. Below, fixed costs count."""
        middle = math.sqrt(min(self.seconds) * max(self.seconds))
        return [size for size in self.seconds if size >= middle]

    def exponent(self, **goal: float) -> Figure:
        """How it grows over the upper sizes; no number where these are fewer than two."""
        sizes = self.upper
        turns = zip(*(self.seconds[size] for size in sizes), strict=True)
        return Figure(tuple(_slope(sizes, turn) for turn in turns), **goal)

    def to_json(self) -> dict[str, Any]:
        """The curve as a benchmark prints it: at each size the median, the least and the most seconds."""
        rows = {size: (statistics.median(took), min(took), max(took)) for size, took in self.seconds.items()}
        return {
            "sizes": list(rows),
            "fitted_from": self.upper[0],
            "seconds": [[_short(each) for each in row] for row in rows.values()],
            "left_out": list(self.left_out),
        }


def held(turns: int) -> float:
    """How sure it is that a median lies between the least and the most of so many turns, of any law."""
    return 1 - 2 ** (1 - turns)


@dataclass(slots=True)
class Timed:
    """The seconds that each piece of work took, turn by turn: entry k of each was measured in turn k."""

    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def ratio(self, above: str, below: str, *, scale: float = 1, **goal: float) -> Figure:
        """How many times as long `above` takes as `below`, times `scale`: the speed of `below` beside `above`."""
        pairs = zip(self.seconds[above], self.seconds[below], strict=True)
        return Figure(tuple(scale * one / other for one, other in pairs), **goal)

    def rate(self, name: str, count: float, **goal: float) -> Figure:
        """How many of `count` things a second it does: on this machine, today."""
        return Figure(tuple(count / took for took in self.seconds[name]), **goal)


def in_turns(work: Mapping[str, Work], given: Arguments, clock: Callable[[], float] = time.perf_counter) -> Timed:
    """Measure all pieces of work once a turn. A first turn, which warms caches, is thrown away."""
    timed = Timed({name: [] for name in work})
    for turn in range(given.turns + 1):
        for name, piece in work.items():
            begin = clock()
            for _ in range(PLANTED if name == given.planted else 1):
                piece()
            if turn:
                timed.seconds[name].append(clock() - begin)
    return timed


LEAST: Final = 0.02
"""Seconds of what is timed: shorter work is repeated until it takes as long."""


def growing(
    work: Callable[[int], Work],
    sizes: Sequence[int],
    turns: int,
    *,
    budget: float,
    planted: bool = False,
    least: float = LEAST,
    clock: Callable[[], float] = time.perf_counter,
    watch: Callable[[], float] = time.perf_counter,
) -> Growth:
    """Measure the work at each size once a turn, and in all for about so many seconds by the `watch`.

    It is done once before it counts, which warms caches and says how often to repeat it. A size is left out, with all
    that are larger, where it would not fit into the budget if the work grows in proportion.
    """
    pieces, repeats, last, left = dict[int, Work](), dict[int, int](), 0.0, budget
    for size in sizes:
        if turns * last * size / max(pieces, default=size) > left:
            break
        begin = watch()
        piece = pieces[size] = work(size)
        took = _seconds(piece, 1, clock)
        if took < 10 * least:
            # What was done for the first time did more than it does again.
            took = min(took, _seconds(piece, 1, clock))
        ready = watch()
        last = _seconds(piece, 1, watch) if took < least else took
        repeats[size] = math.ceil(least / max(took, least / 1000)) if took < least else 1
        left -= ready - begin + turns * repeats[size] * last
    seconds: dict[int, list[float]] = {size: [] for size in pieces}
    for _ in range(turns):
        for size, piece in pieces.items():
            took = _seconds(piece, repeats[size], clock) / repeats[size]
            seconds[size].append(took * size / sizes[0] if planted else took)
    return Growth(seconds, tuple(size for size in sizes if size not in pieces))


def _seconds(piece: Work, often: int, clock: Callable[[], float]) -> float:
    """Without the collector of garbage, as in `timeit`: it would look through what is held for all sizes."""
    gc.disable()
    try:
        begin = clock()
        for _ in range(often):
            piece()
        return clock() - begin
    finally:
        gc.enable()


def _slope(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    if len(sizes) < 2 or min(seconds) <= 0:
        return math.nan
    x, y = ([math.log(each) for each in numbers] for numbers in (sizes, seconds))
    return statistics.linear_regression(x, y).slope


def on_one_core() -> None:
    """Stay on one processor from here on, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def tell(figures: Mapping[str, Figure], **more: Any) -> int:
    """Print the figures as one JSON object; the exit status."""
    missed = [name for name, figure in figures.items() if figure.missed]
    told = {
        "schema_version": 1,
        "machine": machine(),
        **more,
        "figures": {name: figure.to_json() for name, figure in figures.items()},
        "missed": missed,
    }
    print(json.dumps(told))
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return MISSED if missed else 0


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    load = round(os.getloadavg()[0], 2)
    return {"processors": os.cpu_count(), "python": platform.python_version(), "kind": platform.machine(), "load": load}


def _short(number: float) -> float:
    """Four digits that count."""
    return float(f"{number:.4g}")
