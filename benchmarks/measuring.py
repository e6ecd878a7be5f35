"""What the benchmarks of speed share: ratios within one run, their spread, their goals, and a planted miss.

A machine is never as fast twice, so a figure is a ratio of two things that were measured in turns in one run. It is the
median over the turns of the ratio within each turn, and stands with the least and the most of them. Each benchmark
prints one JSON object and exits 6 where a figure misses its goal. That it would is shown with `--planted NAME`: what
has that name then does its work `PLANTED` times while it is measured once, and the benchmark has to exit 6.

    python benchmarks/NAME.py [--turns N] [--planted NAME]
"""

from __future__ import annotations

import argparse
import json
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
