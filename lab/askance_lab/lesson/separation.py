"""The separation in pictures (KLNRS11, §5.3): what is learned in rounds, and not from questions asked at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from askance_lab.evaluation.proportion import Proportion
from askance_lab.experiments import figure as plots
from askance_lab.experiments.separation import users as limits
from askance_lab.experiments.separation.measurement import (
    INTERACTIVE,
    NONINTERACTIVE,
    SeparationPoint,
    SeparationSetting,
    settings_of,
    trial,
    verdict,
)
from askance_lab.lesson.picture import FIRST, LOOKS, QUIET, SECOND, Picture
from askance_lab.theory.limits import users_at_once_proved
from askance_protocol import checks
from askance_protocol.errors import UsageError

_NAMES: Final = {INTERACTIVE: "in rounds", NONINTERACTIVE: "at once"}


@dataclass(frozen=True, slots=True)
class RightByUsers(Picture):
    """How often each of the two learners is right, by the number of users."""

    HEAD: ClassVar = ("users", "learner", "right", "from", "to")
    d: int
    in_rounds: tuple[SeparationPoint, ...]
    at_once: tuple[SeparationPoint, ...]

    @property
    def points(self) -> tuple[SeparationPoint, ...]:
        """Both learners' points."""
        return (*self.in_rounds, *self.at_once)

    @property
    def verdict(self) -> str:
        """The conclusion at the largest number of users, with its intervals."""
        [line] = verdict(self.points)
        return line

    def right(self, point: SeparationPoint) -> Proportion:
        """Runs that learned the concept exactly."""
        found = point.success
        assert found is not None  # noqa: S101 - told the type checker: MASKED-PARITY has an exact error
        return found

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each learner and number of users."""
        rows: list[tuple[str, ...]] = []
        for point in self.points:
            right = self.right(point)
            ends = (f"{end:.0%}" for end in right.interval)
            rows.append((f"{point.users:,}", _NAMES[point.learner], f"{right.count}/{right.total}", *ends))
        return rows

    def figure(self) -> Any:
        """The share of right runs against the users, with intervals at 95 %."""
        figure = plots.figure(5.6, 3.6)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        for points, (colour, mark, line), aside in zip(
            (self.in_rounds, self.at_once), LOOKS, (0.98, 1.02), strict=False
        ):
            rates = np.array([self.right(point).rate for point in points])
            ends = np.abs(np.array([self.right(point).interval for point in points]).T - rates)
            users = [aside * point.users for point in points]  # a little apart, so that no interval hides the other
            name = _NAMES[points[0].learner]
            panel.errorbar(users, rates, yerr=ends, marker=mark, linestyle=line, color=colour, capsize=3, label=name)
        panel.axhline(0.5, color=QUIET, linestyle=":", label="a coin for the mask bit")
        panel.set(xlabel="users", ylabel="share of runs that are right", ylim=(-0.02, 1.04), title=f"d = {self.d}")
        plots.log_axes(panel, plots.short(point.users for point in self.in_rounds), y=False)
        panel.legend(frameon=False)
        return figure


def right_by_users(d: int, users: Sequence[int], runs: int = 20, epsilon: str = "1") -> RightByUsers:
    """Let both learners learn so many made-up concepts from so many users, each run with users and noise of its own."""
    checks.count("runs", runs)
    checks.count("users", len(users))
    points = [_point(setting, runs) for setting in settings_of([d], epsilon, sorted(set(users)))]
    mine, other = (tuple(point for point in points if point.learner == name) for name in (INTERACTIVE, NONINTERACTIVE))
    return RightByUsers(d, mine, other)


def _point(setting: SeparationSetting, runs: int) -> SeparationPoint:
    errors = tuple(trial(setting, seed) for seed in range(runs))
    return SeparationPoint(setting.learner, setting.d, setting.epsilon, setting.users, errors)


@dataclass(frozen=True, slots=True)
class UsersByDimension(Picture):
    """Users that a learner in rounds was measured to need, and that none at once can do without."""

    HEAD: ClassVar = ("d", "in rounds, measured", "at once, proved", "times as many")
    dimensions: tuple[int, ...]
    in_rounds: tuple[int, ...]
    at_once: tuple[int, ...]

    @property
    def times(self) -> tuple[float, ...]:
        """How many times as many users it takes at once, at least."""
        return tuple(many / few for many, few in zip(self.at_once, self.in_rounds, strict=True))

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each dimension."""
        columns = zip(self.dimensions, self.in_rounds, self.at_once, self.times, strict=True)
        return [(str(d), limits.shown(few), limits.shown(many), limits.times(ratio)) for d, few, many, ratio in columns]

    def figure(self) -> Any:
        """Both numbers of users against the dimension; what is proved has empty marks."""
        figure = plots.figure(5.6, 3.8)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        empty = {"color": SECOND, "markerfacecolor": "white"}
        panel.plot(self.dimensions, self.at_once, "s:", label="at once: fewer never do, proved", **empty)
        panel.plot(self.dimensions, self.in_rounds, "o-", color=FIRST, label="in rounds: so many do, measured")
        panel.set(xlabel="d", ylabel="users to be right 19 times in 20")
        plots.log_axes(panel, plots.plain(self.dimensions))
        panel.legend(frameon=False, loc="upper left")
        return figure


def users_by_dimension(epsilon: str = "1") -> UsersByDimension:
    """Take from the records how many users the separation costs, for each dimension that was measured."""
    found = {
        d: each.users for (d, measured_at), each in sorted(limits.measured_users().items()) if measured_at == epsilon
    }
    if not found:
        raise UsageError(f"nothing was measured at {epsilon}", where="epsilon", remedy='take "1"')
    proved = (users_at_once_proved(dimension=d, epsilon=float(epsilon), failure=limits.FAILURE) for d in found)
    return UsersByDimension(tuple(found), tuple(found.values()), tuple(proved))
