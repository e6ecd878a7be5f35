"""Users needed for error α but with probability β: searched for, with an interval, and kept.

A learner is run on as many fresh problems as there are seeds. It needs n users if at n, and at no smaller number that
the search tried, the share 1 − β of them succeeds. The ends of the interval are tried as well: with fewer users than
`low` the chance of success is below 1 − β, with `high` it is above, each at 97.5 % by Clopper and Pearson.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from askance_lab.data.problems import PROBLEMS, LearningProblem, Maker
from askance_lab.experiments import checkpoint as stored
from askance_lab.experiments.landscape.cells import BY_KEY, Cell
from askance_lab.experiments.sample_size import Learner, SuccessRate, TrialOutcome, measure, users_needed
from askance_lab.theory.targets import Targets

SCHEMA_VERSION: Final = 1
_STEP: Final = Fraction(1, 10)
_FARTHEST: Final = 12
"""Steps in which an end of the interval is looked for."""


@dataclass(frozen=True, slots=True)
class Task:
    """One point of the landscape."""

    cell: str
    d: int
    terms: Targets
    seeds: int

    @property
    def key(self) -> str:
        """Names it among the results."""
        terms = f"epsilon={self.terms.epsilon} delta={self.terms.delta} alpha={self.terms.alpha} beta={self.terms.beta}"
        return f"{self.cell} · d={self.d} {terms} seeds={self.seeds}"


@dataclass(frozen=True, slots=True)
class CellUsers:
    """Users needed, and between which numbers they lie."""

    cell: str
    d: int
    users: int
    low: int | None
    """With so many it is too seldom right; None: not even few enough were tried."""
    high: int | None
    """With so many it is right often enough."""
    rate: float
    seeds: int


def find(task: Task) -> CellUsers:
    """Search, then look for both ends."""
    cell, learner = BY_KEY[task.cell], _learner(task)
    seeds, rate = range(task.seeds), 1 - Fraction(str(task.terms.beta))
    needed = users_needed(learner, seeds, max(2, int(cell.start(task.d))), rate)
    [there] = [tried for tried in needed.tried if tried.users == needed.users]
    low = _end(learner, seeds, needed.tried, lambda users: users - max(1, int(users * _STEP)), _too_seldom(rate))
    high = _end(
        learner, seeds, needed.tried[::-1], lambda users: users + max(1, int(users * _STEP)), _often_enough(rate)
    )
    return CellUsers(task.cell, task.d, needed.users, low, high, there.rate, task.seeds)


def _too_seldom(rate: Fraction) -> Callable[[SuccessRate], bool]:
    return lambda tried: tried.interval()[1] < rate


def _often_enough(rate: Fraction) -> Callable[[SuccessRate], bool]:
    return lambda tried: tried.interval()[0] >= rate


def _end(
    learner: Learner,
    seeds: Sequence[int],
    tried: Sequence[SuccessRate],
    further: Callable[[int], int],
    surely: Callable[[SuccessRate], bool],
) -> int | None:
    """The number of users, nearest to those needed, of which it is sure. `tried` begins at the far end."""
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


def _learner(task: Task) -> Learner:
    from askance_lab.experiments.landscape.cells import LEARNERS  # noqa: PLC0415 - takes a while

    return trial(PROBLEMS[BY_KEY[task.cell].problem], LEARNERS[task.cell], task.d, task.terms)


def trial(make: Maker, learn: Callable[[LearningProblem, Targets, int], Any], d: int, terms: Targets) -> Learner:
    """A fresh problem for each number of users and seed; whether what is learned is good enough."""

    def run(users: int, seed: int) -> TrialOutcome:
        problem = make(d, terms.alpha, users, seed)
        return TrialOutcome(problem.good(learn(problem, terms, seed)), users, 1)

    return run


def tasks_of(cells: Iterable[Cell], terms: Targets, seeds: int, dimensions: Sequence[int] = ()) -> list[Task]:
    """Each cell where it is measured; of given dimensions those at which it is."""
    tasks = (
        Task(cell.measured_as, d, terms, seeds)
        for cell in cells
        for d in cell.dimensions
        if not dimensions or d in dimensions
    )
    return list(dict.fromkeys(tasks))


def run_all(
    tasks: Sequence[Task],
    results: Path,
    *,
    workers: int = 1,
    tell: Callable[[int], None] = lambda _: None,
    run: Callable[[Task], CellUsers] = find,
) -> list[CellUsers]:
    """All that does not stand in the results file already, each kept as soon as it is there."""
    kept = _known(results)
    missing = [task for task in tasks if task.key not in kept]
    tell(len(tasks) - len(missing))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        started = {pool.submit(run, task): task for task in missing}
        for done, future in enumerate(as_completed(started), len(tasks) - len(missing) + 1):
            kept[started[future].key] = future.result()
            stored.store(results, "found", {key: asdict(each) for key, each in kept.items()}, SCHEMA_VERSION)
            tell(done)
    return [kept[task.key] for task in tasks]


def known(tasks: Iterable[Task], results: Path) -> list[CellUsers]:
    """Of these what was measured before."""
    kept = _known(results)
    return [kept[task.key] for task in tasks if task.key in kept]


def _known(results: Path) -> dict[str, CellUsers]:
    return {key: CellUsers(**found) for key, found in stored.load(results, "found").items()}
