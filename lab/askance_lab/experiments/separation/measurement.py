"""The separation, measured: learners of MASKED-PARITY in many rounds, in two, and in one. KLNRS11, §5.3.

Each point of the measurement is a learner, a dimension and a number of users, run over many seeds: the population's
concept, its users and their noise are all drawn anew. No run is repeated; an interrupted measurement goes on.

How many rounds a learner took is measured with its error: a strategy that may have six of them often stops before, and
no sentence says "two rounds" of a learner that was not measured with two.
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
from askance_lab.evaluation.proportion import CONFIDENCE, Proportion, chance_of_fewer
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
"""Takes as many rounds as it needs, up to six."""
TWO_ROUNDS: Final = limits.TWO_ROUNDS
NONINTERACTIVE: Final = "masked-parity-noninteractive"
"""Takes one."""
LEARNERS: Final = (INTERACTIVE, TWO_ROUNDS, NONINTERACTIVE)
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
    rounds: tuple[int, ...]
    """How many each run took."""

    @property
    def succeeded(self) -> bool:
        """Whether the learner was right 19 times in 20, by its errors."""
        return self.success is not None and self.success.rate >= ENOUGH

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


SeparationTrial: TypeAlias = Trial[SeparationSetting, tuple[float | None, int]]
"""The error of one run of a learner, by its seed, and the rounds that it took."""


def trial(setting: SeparationSetting, seed: int) -> tuple[float | None, int]:
    """Run once in process, with the server's own plan and the users' own channels."""
    strategy, own = registry()[setting.learner], {"d": setting.d}
    population = made_up(strategy, own, seed)
    study = study_for(strategy, {**own, "users": "all", "epsilon": setting.epsilon}, seed)
    people = LocalReports(study, strategy, population, setting.users, seed, counts=setting.counts)
    learned = run(strategy, own, people)
    return error_of(strategy, learned.hypothesis.value, population).value, learned.rounds


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
    for key, setting in by_key.items():
        _renew(checkpoint.results, key, registry()[setting.learner].interactive)
    found = run_points(run, by_key, seeds, engine, checkpoint, progress)
    return [point_of(setting, found[setting.key]) for setting in settings]


def _renew(results: dict[str, Any], key: str, interactive: bool) -> None:
    """Errors without rounds are of a former version: one round where a learner has no more, else measured again."""
    kept = results.get(key, [])
    if not all(isinstance(each, list) for each in kept):
        results[key] = [] if interactive else [each if isinstance(each, list) else [each, 1] for each in kept]


def point_of(setting: SeparationSetting, outcomes: Sequence[tuple[float | None, int]]) -> SeparationPoint:
    """The point of a setting, by what its runs came to."""
    errors, rounds = tuple(error for error, _ in outcomes), tuple(rounds for _, rounds in outcomes)
    return SeparationPoint(setting.learner, setting.d, setting.epsilon, setting.users, errors, rounds)


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
    """Smallest measured number of users with success of at least 95 %; if there is none, what a theorem says.

    One round that succeeds with fewer users than are proved to be needed does so by luck only.
    """
    limit = limits.separation_users(d, epsilon) if learner == NONINTERACTIVE else None
    least = 0 if limit is None else limit.at_once_proved
    mine = _of(points, learner, d)
    fewest = min((each.users for each in mine if each.succeeded and each.users >= least), default=None)
    if fewest is not None:
        return LearnerUsers(learner, d, fewest)
    if learner in (INTERACTIVE, TWO_ROUNDS):
        users = users_masked_parity_pooled(dimension=d, epsilon=float(epsilon), failure=limits.FAILURE)
        return LearnerUsers(learner, d, users, NumberKind.ENOUGH)
    return LearnerUsers(learner, d, least or None, NumberKind.LIMIT)


def _of(points: Sequence[SeparationPoint], learner: str, d: int) -> list[SeparationPoint]:
    """The points of one learner in one dimension, from the fewest users to the most."""
    return sorted((each for each in points if (each.learner, each.d) == (learner, d)), key=lambda each: each.users)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A learner in rounds and the one in one round, at the same number of users.

    It is the fewest with which the learner in rounds succeeds: with many more users both do, and nothing is seen. Where
    it succeeds with none of those tried, it is the most.
    """

    in_rounds: SeparationPoint
    once: SeparationPoint | None
    """None where the learner in one round was not measured at this number of users, or its errors are unknown."""
    succeeds: bool
    ratio: tuple[float | None, float | None, float | None]
    """Users that one round takes to succeed, in multiples of what rounds took; then an interval at 95 %.

    None where what was tried does not say: for the ratio itself, a learner that never succeeded.
    """
    proved: float | None
    """The ratio of what no learner in one round can do without, by `at-once-proved`, to what these rounds took."""

    @property
    def chance(self) -> float | None:
        """How likely one round is right so seldom, or less often, if both are equally good: Fisher's exact test."""
        many, once = self.in_rounds.success, None if self.once is None else self.once.success
        return None if many is None or once is None else chance_of_fewer(once, many)

    @property
    def apart(self) -> bool:
        """Whether rounds are better, at 95 %."""
        return self.chance is not None and self.chance < _TAIL

    @property
    def guesses(self) -> bool:
        """Whether the learner in one round may be one that knows r and guesses the mask bit."""
        error = None if self.once is None else self.once.error
        return self.apart and error is not None and error[1] <= BLIND <= error[2]

    def to_json(self) -> dict[str, Any]:
        """For a program."""
        ratio, low, high = self.ratio
        return {
            "d": self.in_rounds.d,
            "epsilon": self.in_rounds.epsilon,
            "users": self.in_rounds.users,
            "strategy": self.in_rounds.learner,
            "rounds": max(self.in_rounds.rounds),
            "succeeds": self.succeeds,
            "chance": self.chance,
            "apart": self.apart,
            "ratio": ratio,
            "ratio_low": low,
            "ratio_high": high,
            "ratio_proved": self.proved,
        }


_TAIL: Final = (1 - CONFIDENCE) / 2
"""The failure of each end of an interval at 95 %."""


def comparisons(points: Sequence[SeparationPoint]) -> list[Comparison]:
    """Each learner that took more than one round beside the one that took one, in each dimension."""
    several = [each for each in learners_of(points) if rounds_of(points, each)[1] > 1]
    return [_compared(points, learner, d) for d in sorted({point.d for point in points}) for learner in several]


def _compared(points: Sequence[SeparationPoint], learner: str, d: int) -> Comparison:
    mine, once = _of(points, learner, d), _of(points, NONINTERACTIVE, d)
    at = next((each for each in mine if each.succeeded), mine[-1])
    known = {each.users: each for each in once if each.success is not None}
    limit = limits.separation_users(d, at.epsilon)
    least = 0 if limit is None else limit.at_once_proved
    proved = least / at.users if limit is not None and at.succeeded else None
    ratio = _ratio(mine, list(known.values()), least) if at.succeeded else (None, None, None)
    return Comparison(at, known.get(at.users), at.succeeded, ratio, proved)


def _ratio(
    mine: Sequence[SeparationPoint], once: Sequence[SeparationPoint], least: int
) -> tuple[float | None, float | None, float | None]:
    """The ratio of the fewest users with which both succeed, and an interval by exact tests, from few users to more.

    One round takes more users than each number at which it is worse than rounds where they succeed. Rounds take more
    than each number at which they are worse than one round where that succeeds. A test each, in a fixed order and up to
    the first that does not reject: none of them has to be paid for. With fewer users than are proved to be needed one
    round succeeds by luck only, so such a success is none.
    """
    best = next((each for each in mine if each.succeeded), None)
    best_once = next((each for each in once if each.succeeded and each.users >= least), None)
    if best is None:
        return None, None, None
    above = _worse(once, best)
    low = None if above is None else above / best.users
    if best_once is None:
        return None, low, None
    below = _worse(mine, best_once)
    return best_once.users / best.users, low, None if below is None else best_once.users / below


def _worse(points: Sequence[SeparationPoint], than: SeparationPoint) -> int | None:
    """The most users up to which each of these points is right less often than that one, at 95 %."""
    users = None
    for each in points:
        if each.success is None or than.success is None or chance_of_fewer(each.success, than.success) >= _TAIL:
            break
        users = each.users
    return users


def verdict(points: Sequence[SeparationPoint]) -> list[str]:
    """Conclusion with its confidence: a line for each dimension and learner in rounds, at the fewest users it needs.

    Where no learner took more than one round, a line for each dimension says what was measured with the most users.
    """
    found = comparisons(points)
    return [_sentence(each) for each in found] or [
        _plain(d, [point for point in points if point.d == d]) for d in sorted({point.d for point in points})
    ]


def _plain(d: int, points: Sequence[SeparationPoint]) -> str:
    most = max(point.users for point in points)
    shown = "; ".join(_result(point) for point in points if point.users == most)
    return f"d = {d}, {counted(most, 'user')}: {shown}"


def _sentence(each: Comparison) -> str:
    here = each.in_rounds
    words = f"d = {here.d}, {counted(here.users, 'user')}: {_result(here)}"
    if each.once is not None and each.chance is not None:
        words += f"; {_result(each.once)}: {'' if each.apart else 'not '}apart ({_chance(each.chance)})"
        words += ", and one round only guesses the mask bit (¼ is within)" if each.guesses else ""
    if here.success is None:
        return words
    if not each.succeeds:
        return f"{words}. With none of the numbers tried was {here.learner} right 19 times in 20"
    return f"{words}. {_ratio_words(each)}"


def _ratio_words(each: Comparison) -> str:
    """How many times as many users one round takes: in these runs, and by what is proved."""
    ratio, low, high = (None if end is None else limits.times(end) for end in each.ratio)
    ends = f"{low} to {high}" if low and high else f"{low} or more" if low else f"{high} or less" if high else "?"
    if ratio is not None:
        words = f"One round took {ratio} times as many users (95 %: {ends})"
    elif low is not None:
        words = f"One round takes more than {low} times as many users (95 %)"
    else:
        words = "How many times as many users one round takes is not seen"
    if each.proved is None:
        return words
    gap = f"proved: at least {limits.times(each.proved)} times" if each.proved > 1 else "no gap is proved"
    return f"{words}; {gap}"


def _chance(chance: float) -> str:
    return "exact test, p < 0.0001" if chance < 0.0001 else f"exact test, p = {chance:.4f}"


def rounds_of(points: Sequence[SeparationPoint], learner: str) -> tuple[int, int]:
    """The fewest and the most rounds that a run of this learner took."""
    taken = [rounds for point in points if point.learner == learner for rounds in point.rounds]
    return min(taken), max(taken)


def rounds_text(fewest: int, most: int) -> str:
    """Rounds as they were measured, in words."""
    return counted(most, "round") if fewest == most else f"up to {counted(most, 'round')}"


def name_of(points: Sequence[SeparationPoint], learner: str) -> str:
    """A learner by its strategy and the rounds that it took."""
    return f"{learner} ({rounds_text(*rounds_of(points, learner))})"


def _result(point: SeparationPoint) -> str:
    name = name_of([point], point.learner)
    if point.success is None or point.error is None:
        return f"{name} ran {counted(len(point.errors), 'time')}, with an error that is unknown"
    (low, high), runs = point.success.interval, point.success.total
    return f"{name} right in {point.success.count} of {runs} [{low:.2f}, {high:.2f}]"


def limits_of(points: Sequence[SeparationPoint]) -> list[limits.SeparationUsers]:
    """What is known of each dimension that was measured, whatever the learner."""
    return limits.table(sorted({point.d for point in points}), points[0].epsilon)


def results_of(points: Sequence[SeparationPoint]) -> dict[str, Any]:
    """For a program: every point with its intervals, the users needed, limits, the verdict. What is unknown is null."""
    dimensions, epsilon, learners = sorted({point.d for point in points}), points[0].epsilon, learners_of(points)
    return {
        "schema_version": SCHEMA_VERSION,
        "points": [_to_json(point) for point in points],
        "needed": [
            {
                **needed(points, learner, d, epsilon).to_json(),
                "strategy": learner,
                "rounds": rounds_of(points, learner)[1],
            }
            for d in dimensions
            for learner in learners
        ],
        "limits": [each.to_json() for each in limits_of(points)],
        "comparisons": [each.to_json() for each in comparisons(points)],
        "verdict": verdict(points),
    }


def _to_json(point: SeparationPoint) -> dict[str, Any]:
    success = point.success
    return {
        **asdict(point),
        "strategy": point.learner,
        "rounds": max(point.rounds),
        "mean_rounds": sum(point.rounds) / len(point.rounds),
        "errors": None,
        "seeds": len(point.errors),
        "successes": None if success is None else success.count,
        "success": None if success is None else success.with_interval,
        "error": point.error,
    }
