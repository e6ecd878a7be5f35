"""The separation, measured: what is learned in rounds but not from questions asked at once. KLNRS11, §5.3.

Each point of the measurement is a learner, a dimension and a number of users, run over many seeds: the population's
concept, its users and their noise are all drawn anew. No run is repeated; an interrupted measurement goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeAlias

from askance_lab.data.made_up import made_up
from askance_lab.engines import WorkerPool
from askance_lab.evaluation.error import error_of
from askance_lab.evaluation.proportion import CONFIDENCE, Proportion
from askance_lab.experiments.checkpoint import Checkpoint
from askance_lab.experiments.separation import users as limits
from askance_lab.experiments.trials import Progress, Trial, in_silence, run_points
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.shared.oracle import run
from askance_lab.theory.masked_parity import users_masked_parity_pooled
from askance_protocol.budget import charge_from_text
from askance_protocol.errors import UsageError
from askance_protocol.text import counted, listed, one_of
from askance_server.core.estimators import bounded_interval
from askance_server.strategies.registry import registry

SCHEMA_VERSION: Final = 1
INTERACTIVE: Final = "masked-parity-pooled"
NONINTERACTIVE: Final = "masked-parity-noninteractive"
LEARNERS: Final = (INTERACTIVE, NONINTERACTIVE)
ENOUGH: Final = 0.95
"""The share of right runs with which a number of users counts as enough."""

BLIND: Final = 0.25
"""The mean error of who knows r and guesses the mask bit: half of the examples are masked, half the guesses wrong."""

FORMS: Final[Mapping[str, str]] = {INTERACTIVE: " form=2"}
"""Learners that are not those of version 0.1: what these did is not gone on with."""
WORST: Final = 0.75
"""The largest error that a concept of the class can have against another."""


class NumberKind(StrEnum):
    """What a number of users is."""

    MEASURED = "measured"
    """The fewest that were tried with which a learner is right 19 times in 20."""
    ENOUGH = "enough"
    """So many suffice by a formula, which is not the least."""
    LIMIT = "limit"
    """With fewer no learner at once succeeds: proved, and nothing assumed."""


@dataclass(frozen=True, slots=True)
class SeparationSetting:
    """Parameters of one point of the measurement."""

    learner: str
    d: int
    epsilon: str
    users: int
    counts: bool = False
    """Whether tallies are drawn from their law, and no user is made."""

    @property
    def key(self) -> str:
        """Name of the point among the results: of a learner that has changed, with the form that it has now."""
        form = FORMS.get(self.learner, "") + " counts" * self.counts
        return f"{self.learner}{form} d={self.d} epsilon={self.epsilon} users={self.users}"


@dataclass(frozen=True, slots=True)
class SeparationPoint:
    """Results at one point."""

    learner: str
    d: int
    epsilon: str
    users: int
    errors: tuple[float | None, ...]
    """One for each seed, from 0 on; None where the error of what was learned is unknown."""

    @property
    def known(self) -> list[float] | None:
        """The errors, if all of them are known."""
        known = [error for error in self.errors if error is not None]
        return known if len(known) == len(self.errors) else None

    @property
    def success(self) -> Proportion | None:
        """Runs whose hypothesis is the concept itself; None where an error is unknown."""
        return None if self.known is None else Proportion(sum(error == 0 for error in self.known), len(self.known))

    @property
    def error(self) -> tuple[float, float, float] | None:
        """The mean error, and an interval at 95 % that holds whatever the distribution of errors on [0, ¾].

        A larger error there is not: the shown half may be wrong everywhere, and then the masked half is right by half.
        The learner of another class may have one; then the interval is for errors on [0, 1]. None: unknown.
        """
        if self.known is None:
            return None
        mean = sum(self.known) / len(self.known)
        variance = sum((error - mean) ** 2 for error in self.known) / max(len(self.known) - 1, 1)
        worst = WORST if self.learner in LEARNERS else max(1.0, *self.known)
        return (mean, *bounded_interval(mean, variance, len(self.known), (0.0, worst), CONFIDENCE))


SeparationTrial: TypeAlias = Trial[SeparationSetting, float | None]
"""The error of one run of a learner, by its seed."""


def trial(setting: SeparationSetting, seed: int) -> float | None:
    """Run once in process, with the server's own plan and the users' own channels."""
    strategy, own = registry()[setting.learner], {"d": setting.d}
    population = made_up(strategy, own, seed)
    study = study_for(strategy, {**own, "users": "all", "epsilon": setting.epsilon}, seed)
    people = LocalReports(study, strategy, population, setting.users, seed, counts=setting.counts)
    learned = run(strategy, own, people)
    return error_of(strategy, learned.hypothesis.value, population).value


def measure(
    settings: Sequence[SeparationSetting],
    seeds: int,
    results: Path,
    engine: WorkerPool,
    *,
    progress: Progress = in_silence,
    run: SeparationTrial = trial,
) -> list[SeparationPoint]:
    """Measure each setting with seeds 0 to `seeds` − 1, except runs that the results file already has."""
    checkpoint = Checkpoint(results, "errors", SCHEMA_VERSION)
    by_key = {setting.key: setting for setting in settings}
    errors = run_points(run, by_key, seeds, engine, checkpoint, progress)
    return [SeparationPoint(each.learner, each.d, each.epsilon, each.users, errors[each.key]) for each in settings]


# ------------------------------------------------------------------------------------------------------- what to ask


def settings_of(
    dimensions: Sequence[int],
    epsilon: str,
    users: Sequence[int],
    learners: Sequence[str] = LEARNERS,
    *,
    counts: bool = False,
) -> list[SeparationSetting]:
    """Settings of each learner at the given numbers of users, or at some around the interactive one's need."""
    unknown = sorted(set(learners) - set(registry()))
    if unknown:
        remedy = one_of(unknown[0], registry())
        raise UsageError(f"there is no {listed(unknown)} here", where="--learner", remedy=remedy)
    if not dimensions:
        raise UsageError("names no dimension", where="--d", remedy="write it as 4,8,16")
    # What a run would refuse is refused before anything is made or measured.
    charge_from_text(epsilon)
    for learner in learners:
        for d in dimensions:
            made_up(registry()[learner], {"d": d}, 0)
    return [
        SeparationSetting(learner, d, epsilon, number, counts)
        for d in dimensions
        for number in users or _around(users_masked_parity_pooled(dimension=d, epsilon=float(epsilon), failure=0.05))
        for learner in dict.fromkeys(learners)
    ]


def _around(needed: int) -> list[int]:
    """Numbers from an eighth of it to twice, in whole thousands."""
    return sorted({max(1000, 1000 * round(needed * 2.0**power / 1000)) for power in (-3, -2, -1, 0, 1)})


# ------------------------------------------------------------------------------------------------------ what it shows


@dataclass(frozen=True, slots=True)
class LearnerUsers:
    """Number of users that a learner needs to be right 19 times in 20, or the nearest that is known of it."""

    learner: str
    d: int
    users: int | None
    """None: not measured, and nothing is known."""
    kind: NumberKind = NumberKind.MEASURED

    @property
    def measured(self) -> bool:
        """Whether it is this learner's own number."""
        return self.users is not None and self.kind is NumberKind.MEASURED

    def to_json(self) -> dict[str, Any]:
        """For a program."""
        return {**asdict(self), "kind": None if self.users is None else self.kind.value, "measured": self.measured}


def learners_of(points: Sequence[SeparationPoint]) -> list[str]:
    """Measured learners, in order of first appearance."""
    return list(dict.fromkeys(point.learner for point in points))


def needed(points: Sequence[SeparationPoint], learner: str, d: int, epsilon: str) -> LearnerUsers:
    """Smallest measured number of users with success of at least 95 %; if there is none, what a theorem says."""
    mine = [point for point in points if (point.learner, point.d) == (learner, d)]
    enough = [point.users for point in mine if point.success is not None and point.success.rate >= ENOUGH]
    if enough:
        return LearnerUsers(learner, d, min(enough))
    if learner == INTERACTIVE:
        users = users_masked_parity_pooled(dimension=d, epsilon=float(epsilon), failure=limits.FAILURE)
        return LearnerUsers(learner, d, users, NumberKind.ENOUGH)
    limit = limits.separation_users(d, epsilon) if learner == NONINTERACTIVE else None
    return LearnerUsers(learner, d, None if limit is None else limit.at_once_proved, NumberKind.LIMIT)


def verdict(points: Sequence[SeparationPoint]) -> list[str]:
    """Conclusion with its confidence: one line for each dimension, at its largest number of users."""
    return [_verdict(d, [point for point in points if point.d == d]) for d in sorted({point.d for point in points})]


def _verdict(d: int, points: Sequence[SeparationPoint]) -> str:
    most = max(point.users for point in points)
    there = {point.learner: point for point in points if point.users == most}
    told = "; ".join(f"{name_of(learner)} {_result(point)}" for learner, point in there.items())
    return f"d = {d}, {counted(most, 'user')}: {told}{_comparison(there)}"


def _comparison(there: Mapping[str, SeparationPoint]) -> str:
    """Whether the two learners of the separation differ, if both were measured."""
    many, once = there.get(INTERACTIVE), there.get(NONINTERACTIVE)
    if many is None or once is None or many.success is None or once.success is None:
        return ""
    apart = many.success.interval[0] > once.success.interval[1]
    blind = ", and at once the mask bit is a guess (¼ is within)" if apart and _guesses(once) else ""
    pair = "" if len(there) == len(LEARNERS) else "in rounds and at once are "
    return f": {pair}{'' if apart else 'not '}apart beyond the intervals at 95 %{blind}"


def _guesses(point: SeparationPoint) -> bool:
    return point.error is not None and point.error[1] <= BLIND <= point.error[2]


def name_of(learner: str) -> str:
    """The learner's part in the separation; its own name, where it has none."""
    return {INTERACTIVE: "in rounds", NONINTERACTIVE: "at once"}.get(learner, learner)


def _result(point: SeparationPoint) -> str:
    if point.success is None or point.error is None:
        return f"ran {counted(len(point.errors), 'time')}, with an error that is unknown"
    (low, high), runs = point.success.interval, point.success.total
    return f"right in {point.success.count} of {runs} [{low:.2f}, {high:.2f}], mean error {point.error[0]:.3f}"


def limits_of(points: Sequence[SeparationPoint]) -> list[limits.SeparationUsers]:
    """What is known of each dimension that was measured, whatever the learner."""
    return limits.table(sorted({point.d for point in points}), points[0].epsilon)


def results_of(points: Sequence[SeparationPoint]) -> dict[str, Any]:
    """For a program: every point with its intervals, the users needed, limits, the verdict. What is unknown is null."""
    dimensions, epsilon, learners = sorted({point.d for point in points}), points[0].epsilon, learners_of(points)
    return {
        "schema_version": SCHEMA_VERSION,
        "points": [_to_json(point) for point in points],
        "needed": [needed(points, learner, d, epsilon).to_json() for d in dimensions for learner in learners],
        "limits": [each.to_json() for each in limits_of(points)],
        "verdict": verdict(points),
    }


def _to_json(point: SeparationPoint) -> dict[str, Any]:
    success = point.success
    return {
        **asdict(point),
        "errors": None,
        "seeds": len(point.errors),
        "successes": None if success is None else success.count,
        "success": None if success is None else success.with_interval,
        "error": point.error,
    }
