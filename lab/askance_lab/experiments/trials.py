"""The harness of all experiments: many trials over an engine, each result kept as soon as it is there.

Theory of operation
-------------------
A trial is a function of a module, of a point (what is measured) and a seed. Whatever it draws comes from that seed, so
its outcome depends on neither the engine, nor the number of workers, nor the order of the trials; an interrupted
measurement goes on with the trials that are missing, and ends with the numbers that it would have ended with.

- `run_trials` is the least: every seed at one point.
- `run_points` runs seeds 0, 1, 2, … at each of many points. Its checkpoint holds, by the point's key, a list of the
  outcomes from seed 0 on, so more seeds can be added later.
- `run_tasks` runs tasks that repeat trials themselves, as a search for users does. Its checkpoint holds one result a
  key. Tasks differ much in length, so a result is kept as it comes, not in the order of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from askance_lab.engines import Engine, WorkerPool
from askance_lab.experiments.checkpoint import Checkpoint

Point = TypeVar("Point")
Outcome = TypeVar("Outcome")
Task = TypeVar("Task")

Trial: TypeAlias = Callable[[Point, int], Outcome]
"""The outcome of one run at a point, by its seed. Other processes import it by name, so it belongs to a module."""

Progress: TypeAlias = Callable[[int], None]
"""Is told how many trials, or tasks, have their result; those that had it before count."""


def in_silence(done: int) -> None:
    """Tell no one: the progress of a call that gives none."""


@dataclass(frozen=True, slots=True)
class SeededTrial(Generic[Point, Outcome]):
    """One trial, as an engine's task."""

    trial: Trial[Point, Outcome]
    point: Point
    seed: int

    def outcome(self) -> Outcome:
        """Run it."""
        return self.trial(self.point, self.seed)


def run_trials(trial: Trial[Point, Outcome], point: Point, seeds: Sequence[int], engine: Engine) -> tuple[Outcome, ...]:
    """The outcome of each seed, in their order."""
    tasks = [SeededTrial(trial, point, seed) for seed in seeds]
    return tuple(engine(SeededTrial[Point, Outcome].outcome, tasks))


def run_points(
    trial: Trial[Point, Outcome],
    points: Mapping[str, Point],
    seeds: int,
    engine: WorkerPool,
    checkpoint: Checkpoint,
    progress: Progress = in_silence,
) -> dict[str, tuple[Any, ...]]:
    """By each point's key the outcomes of seeds 0 to `seeds` − 1, which JSON must be able to hold."""
    known: dict[str, list[Any]] = {key: list(checkpoint.results.get(key, ())) for key in points}
    keys, tasks = list[str](), list[SeededTrial[Point, Outcome]]()
    for key, point in points.items():
        missing = range(len(known[key]), seeds)
        keys += [key] * len(missing)
        tasks += [SeededTrial(trial, point, seed) for seed in missing]
    done = len(points) * seeds - len(tasks)
    progress(done)
    with checkpoint:
        # In the order of the tasks, so that a list always holds the seeds from 0 on.
        for key, outcome in zip(keys, engine(SeededTrial[Point, Outcome].outcome, tasks), strict=True):
            known[key].append(outcome)
            checkpoint.keep(key, known[key])
            progress(done := done + 1)
    return {key: tuple(outcomes[:seeds]) for key, outcomes in known.items()}


def run_tasks(
    function: Callable[[Task], Any],
    tasks: Mapping[str, Task],
    engine: WorkerPool,
    checkpoint: Checkpoint,
    progress: Progress = in_silence,
) -> dict[str, Any]:
    """By each task's key its result, which JSON must be able to hold."""
    missing = [key for key in tasks if key not in checkpoint.results]
    done = len(tasks) - len(missing)
    progress(done)
    with checkpoint:
        for index, result in engine.completed(function, [tasks[key] for key in missing]):
            checkpoint.keep(missing[index], result)
            progress(done := done + 1)
    return {key: checkpoint.results[key] for key in tasks}
