"""What the benchmarks over many seeds share: their options, and tasks that run on one engine and are kept."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from askance_lab.engines import engine
from askance_lab.experiments.checkpoint import Checkpoint
from askance_lab.experiments.trials import run_tasks

Task = TypeVar("Task")


@dataclass(frozen=True, slots=True)
class Arguments:
    """What is given on the command line."""

    seeds: int
    workers: int
    keep: Path | None


def arguments(about: str | None, *, seeds: int) -> Arguments:
    """Read the command line. All processors work unless another number is given: the results are the same."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", nargs="?", type=int, default=seeds)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, metavar="FILE")
    return Arguments(**vars(parser.parse_args()))


def measured_tasks(
    function: Callable[[Task], dict[str, Any]], tasks: Mapping[str, Task], chosen: Arguments
) -> list[dict[str, Any]]:
    """The results of tasks, by their keys' order; how many are there is told on standard error."""

    def progress(done: int) -> None:
        print(f"{done} of {len(tasks)}", file=sys.stderr)

    with engine(workers=chosen.workers) as workers:
        results = run_tasks(function, tasks, workers, Checkpoint(chosen.keep), progress)
    return list(results.values())
