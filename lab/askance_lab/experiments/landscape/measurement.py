"""Search for the number of users that reach error α with probability 1 − β, with an interval, and store it.

A learner is run on as many fresh problems as there are seeds. It needs n users if at n, and at no smaller number that
the search tried, the share 1 − β of them succeeds. The ends of the interval are tried as well: with fewer users than
`low` the chance of success is below 1 − β, with `high` it is above, each at 97.5 % by Clopper and Pearson.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from askance_lab.data.problems import PROBLEMS, LearningProblem, Maker
from askance_lab.engines import WorkerPool
from askance_lab.experiments.checkpoint import Checkpoint
from askance_lab.experiments.landscape.cells import BY_KEY, LEARNERS, Cell
from askance_lab.experiments.sample_size import LearnerTrial, SuccessRate, TrialOutcome, measure, users_needed
from askance_lab.experiments.trials import Progress, in_silence, run_tasks
from askance_lab.theory.targets import Targets

SCHEMA_VERSION: Final = 1
_STEP: Final = Fraction(1, 10)
_FARTHEST: Final = 12
"""Steps in which an end of the interval is looked for."""


@dataclass(frozen=True, slots=True)
class Task:
    """One point of the landscape to measure."""

    cell: str
    d: int
    targets: Targets
    seeds: int

    @property
    def key(self) -> str:
        """Name of the task among the results."""
        targets = self.targets
        shown = f"epsilon={targets.epsilon} delta={targets.delta} alpha={targets.alpha} beta={targets.beta}"
        return f"{self.cell} · d={self.d} {shown} seeds={self.seeds}"


@dataclass(frozen=True, slots=True)
class CellUsers:
    """Number of users needed, with the interval it lies in."""

    cell: str
    d: int
    users: int
    low: int | None
    """With this number it is too seldom right; None: no number so small was tried."""
    high: int | None
    """With this number it is right often enough; None: no number so large was tried."""
    rate: float
    seeds: int


def find(task: Task) -> CellUsers:
    """Search for the number of users, then for both ends of its interval."""
    cell, learner = BY_KEY[task.cell], _learner(task)
    seeds, rate = range(task.seeds), 1 - Fraction(str(task.targets.beta))
    needed = users_needed(learner, seeds, max(2, int(cell.start(task.d))), rate)
    low = _end(learner, seeds, needed.tried, lambda users: users - max(1, int(users * _STEP)), _too_seldom(rate))
    high = _end(
        learner, seeds, needed.tried[::-1], lambda users: users + max(1, int(users * _STEP)), _often_enough(rate)
    )
    return CellUsers(task.cell, task.d, needed.users, low, high, needed.measured.right.rate, task.seeds)


def _too_seldom(rate: Fraction) -> Callable[[SuccessRate], bool]:
    return lambda tried: tried.right.interval[1] < rate


def _often_enough(rate: Fraction) -> Callable[[SuccessRate], bool]:
    return lambda tried: tried.right.interval[0] >= rate


def _end(
    learner: LearnerTrial,
    seeds: Sequence[int],
    tried: Sequence[SuccessRate],
    further: Callable[[int], int],
    surely: Callable[[SuccessRate], bool],
) -> int | None:
    """End of the interval: the number of users, nearest to those needed, at which `surely` holds."""
    sure = [each.users for each in tried if surely(each)]
    if sure:
        return sure[-1]
    users = tried[0].users
    for _ in range(_FARTHEST):
        users = further(users)
        if users < 1:
            return None
        if surely(measure(learner, users, seeds)):
            return users
    return None


def _learner(task: Task) -> LearnerTrial:
    return trial(PROBLEMS[BY_KEY[task.cell].problem], LEARNERS[task.cell], task.d, task.targets)


@dataclass(frozen=True, slots=True)
class ProblemTrial:
    """Make a fresh problem for each number of users and seed; tell whether what is learned is good enough."""

    make: Maker
    learn: Callable[[LearningProblem, Targets, int], Any]
    d: int
    targets: Targets

    def __call__(self, users: int, seed: int) -> TrialOutcome:
        """Make the problem, learn, compare the error with α."""
        problem = self.make(self.d, self.targets.alpha, users, seed)
        return TrialOutcome(problem.good(self.learn(problem, self.targets, seed)), users, 1)


def trial(make: Maker, learn: Callable[[LearningProblem, Targets, int], Any], d: int, targets: Targets) -> LearnerTrial:
    """Trials of a learner on problems of this kind."""
    return ProblemTrial(make, learn, d, targets)


def tasks_of(cells: Iterable[Cell], targets: Targets, seeds: int, dimensions: Sequence[int] = ()) -> list[Task]:
    """Tasks for each cell and dimension at which it is measured, or for the given dimensions only."""
    tasks = (
        Task(cell.measured_as, d, targets, seeds)
        for cell in cells
        for d in cell.dimensions
        if not dimensions or d in dimensions
    )
    return list(dict.fromkeys(tasks))


def run_all(
    tasks: Sequence[Task],
    results: Path,
    engine: WorkerPool,
    *,
    progress: Progress = in_silence,
    run: Callable[[Task], CellUsers] = find,
) -> list[CellUsers]:
    """Search for every task that is missing in the results file; store each result as it arrives."""
    by_key = {task.key: KeptSearch(run, task) for task in tasks}
    found = run_tasks(KeptSearch.to_json, by_key, engine, _checkpoint(results), progress)
    return [CellUsers(**found[task.key]) for task in tasks]


@dataclass(frozen=True, slots=True)
class KeptSearch:
    """A search as an engine's task."""

    run: Callable[[Task], CellUsers]
    task: Task

    def to_json(self) -> dict[str, Any]:
        """Run the search; the result as the results file stores it."""
        return asdict(self.run(self.task))


def known(tasks: Iterable[Task], results: Path) -> list[CellUsers]:
    """Stored results of these tasks."""
    kept = _checkpoint(results).results
    return [CellUsers(**kept[task.key]) for task in tasks if task.key in kept]


def _checkpoint(results: Path) -> Checkpoint:
    return Checkpoint(results, "found", SCHEMA_VERSION)
