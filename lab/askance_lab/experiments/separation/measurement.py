"""The separation, measured: what is learned in rounds and not by whoever asks all at once. KLNRS11, §5.3.

Each point of the measurement is a learner, a dimension and a number of users, run over many seeds: the population's
concept, its users and their noise are all drawn anew. A point is measured once; whoever is interrupted resumes.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from askance_lab.experiments import checkpoint as kept
from askance_lab.theory.masked_parity import users_masked_parity_noninteractive, users_masked_parity_pooled

SCHEMA_VERSION: Final = 1
INTERACTIVE: Final = "masked-parity-pooled"
NONINTERACTIVE: Final = "masked-parity-noninteractive"
LEARNERS: Final = (INTERACTIVE, NONINTERACTIVE)
BLIND: Final = 0.25
"""The mean error of who knows r and guesses the mask bit: half of the examples are masked, half the guesses wrong."""

WORST: Final = 0.75
"""The largest error that a concept of the class can have against another."""

SeparationTrial: TypeAlias = Callable[["SeparationSetting", int], float]
"""The error of one run of a learner, by its seed."""


@dataclass(frozen=True, slots=True)
class SeparationSetting:
    """One point of the measurement."""

    learner: str
    d: int
    epsilon: str
    users: int

    @property
    def key(self) -> str:
        """Names it among the results."""
        return f"{self.learner} d={self.d} epsilon={self.epsilon} users={self.users}"


@dataclass(frozen=True, slots=True)
class SeparationPoint:
    """What came of it."""

    learner: str
    d: int
    epsilon: str
    users: int
    errors: tuple[float, ...]
    """One for each seed, from 0 on."""

    @property
    def successes(self) -> int:
        """Runs whose hypothesis is the concept itself."""
        return sum(error == 0 for error in self.errors)

    @property
    def success(self) -> tuple[float, float, float]:
        """Their share, and Clopper and Pearson's interval at 95 %."""
        import numpy as np  # noqa: PLC0415 - takes a while, as what follows

        from askance_server.core.estimators import clopper_pearson  # noqa: PLC0415

        low, high = clopper_pearson(np.array([self.successes]), len(self.errors), 0.95)
        return self.successes / len(self.errors), float(low[0]), float(high[0])

    @property
    def error(self) -> tuple[float, float, float]:
        """The mean error, and an interval at 95 % that holds whatever the distribution of errors on [0, ¾].

        More there is not: the shown half may be wrong everywhere, and then the masked half is right by half.
        """
        from askance_server.core.estimators import bounded_interval  # noqa: PLC0415 - takes a while

        mean = sum(self.errors) / len(self.errors)
        variance = sum((error - mean) ** 2 for error in self.errors) / max(len(self.errors) - 1, 1)
        return (mean, *bounded_interval(mean, variance, len(self.errors), (0.0, WORST), 0.95))


def trial(setting: SeparationSetting, seed: int) -> float:
    """One run, in process: the server's own plan, the users' own channels."""
    from askance_lab.data.made_up import made_up  # noqa: PLC0415 - takes a while
    from askance_lab.evaluation.exact import exact_error  # noqa: PLC0415
    from askance_lab.oracles.local import LocalReports, study_for  # noqa: PLC0415
    from askance_lab.oracles.shared.oracle import run  # noqa: PLC0415
    from askance_server.strategies.registry import registry  # noqa: PLC0415

    strategy, own = registry()[setting.learner], {"d": setting.d}
    population = made_up(strategy, own, seed)
    study = study_for(strategy, {**own, "users": "all", "epsilon": setting.epsilon}, seed)
    learned = run(strategy, own, LocalReports(study, strategy, population, setting.users, seed))
    error = exact_error(strategy, learned.hypothesis.value, population.truth)
    assert error is not None  # noqa: S101 - told the type checker: these learners' errors are known
    return error


def measure(
    settings: Sequence[SeparationSetting],
    seeds: int,
    results: Path,
    *,
    workers: int = 1,
    tell: Callable[[SeparationPoint], None] = lambda _: None,
    run: SeparationTrial = trial,
) -> list[SeparationPoint]:
    """Measure each point over so many seeds, in order, but for what stands in the results file already."""
    known = {key: tuple(errors) for key, errors in kept.load(results, "errors").items()}
    points: list[SeparationPoint] = []
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for setting in settings:
            errors = known.get(setting.key, ())
            if len(errors) < seeds:
                more = range(len(errors), seeds)
                errors += tuple(pool.map(run, [setting] * len(more), more))
                known[setting.key] = errors
                kept.store(results, "errors", known, SCHEMA_VERSION)
            points.append(SeparationPoint(setting.learner, setting.d, setting.epsilon, setting.users, errors[:seeds]))
            tell(points[-1])
    return points


# ------------------------------------------------------------------------------------------------------- what to ask


def settings_of(dimensions: Sequence[int], epsilon: str, users: Sequence[int]) -> list[SeparationSetting]:
    """Each learner at the same numbers of users: those given, or some around what the interactive one needs."""
    return [
        SeparationSetting(learner, d, epsilon, number)
        for d in dimensions
        for number in users or _around(users_masked_parity_pooled(dimension=d, epsilon=float(epsilon), failure=0.05))
        for learner in LEARNERS
    ]


def _around(needed: int) -> list[int]:
    """From an eighth of it to twice, in whole thousands."""
    return sorted({max(1000, 1000 * round(needed * 2.0**power / 1000)) for power in (-3, -2, -1, 0, 1)})


# ------------------------------------------------------------------------------------------------------ what it says


@dataclass(frozen=True, slots=True)
class LearnerUsers:
    """Users that a learner needs to be right 19 times in 20."""

    learner: str
    d: int
    users: int
    measured: bool
    """Otherwise by the formula: THEORY.md, §1."""


def needed(points: Sequence[SeparationPoint], learner: str, d: int, epsilon: str) -> LearnerUsers:
    """The fewest measured users with a share of 95 % or more; where there are none, the formula's."""
    enough = [point.users for point in points if (point.learner, point.d) == (learner, d) and point.success[0] >= 0.95]
    if enough:
        return LearnerUsers(learner, d, min(enough), measured=True)
    formula = users_masked_parity_pooled if learner == INTERACTIVE else users_masked_parity_noninteractive
    return LearnerUsers(learner, d, formula(dimension=d, epsilon=float(epsilon), failure=0.05), measured=False)


def verdict(points: Sequence[SeparationPoint]) -> list[str]:
    """What the measurement shows, and how surely: a line for each dimension, at its largest number of users."""
    return [_verdict(d, [point for point in points if point.d == d]) for d in sorted({point.d for point in points})]


def _verdict(d: int, points: Sequence[SeparationPoint]) -> str:
    most = max(point.users for point in points)
    many, once = (next(p for p in points if (p.learner, p.users) == (learner, most)) for learner in LEARNERS)
    apart = many.success[1] > once.success[2]
    says = f"{'' if apart else 'not '}apart beyond the intervals at 95 %"
    blind = ", and at once the mask bit is a guess (¼ is within)" if apart and _guesses(once) else ""
    return f"d = {d}, {most:,} users: in rounds {_shown(many)}; at once {_shown(once)}: {says}{blind}"


def _guesses(point: SeparationPoint) -> bool:
    _, low, high = point.error
    return low <= BLIND <= high


def _shown(point: SeparationPoint) -> str:
    (_, low, high), (error, *_), runs = point.success, point.error, len(point.errors)
    return f"right in {point.successes} of {runs} [{low:.2f}, {high:.2f}], mean error {error:.3f}"


def results_of(points: Sequence[SeparationPoint]) -> dict[str, Any]:
    """For a program: every point with its intervals, the users needed, and the verdict."""
    dimensions, epsilon = sorted({point.d for point in points}), points[0].epsilon
    return {
        "schema_version": SCHEMA_VERSION,
        "points": [
            {**asdict(point), "errors": None, "seeds": len(point.errors), "successes": point.successes}
            | {"success": point.success, "error": point.error}
            for point in points
        ],
        "needed": [asdict(needed(points, learner, d, epsilon)) for d in dimensions for learner in LEARNERS],
        "verdict": verdict(points),
    }
