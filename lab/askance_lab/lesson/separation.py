"""The separation in pictures (KLNRS11, §5.3): what is learned in two rounds, and not in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from askance_lab.evaluation.proportion import Proportion
from askance_lab.experiments import figure as plots
from askance_lab.experiments.separation import users as limits
from askance_lab.experiments.separation.measurement import (
    NONINTERACTIVE,
    TWO_ROUNDS,
    SeparationPoint,
    SeparationSetting,
    name_of,
    point_of,
    settings_of,
    trial,
    verdict,
)
from askance_lab.lesson.picture import FIRST, LOOKS, QUIET, SECOND, Picture
from askance_protocol import checks
from askance_protocol.errors import UsageError


@dataclass(frozen=True, slots=True)
class RightByUsers(Picture):
    """How often a learner in two rounds and one in one round are right, by the number of users."""

    HEAD: ClassVar = ("users", "learner", "right", "from", "to")
    d: int
    two_rounds: tuple[SeparationPoint, ...]
    one_round: tuple[SeparationPoint, ...]

    @property
    def points(self) -> tuple[SeparationPoint, ...]:
        """Both learners' points."""
        return (*self.two_rounds, *self.one_round)

    @property
    def verdict(self) -> str:
        """The conclusion at the fewest users with which two rounds succeed, with its intervals."""
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
            rows.append((f"{point.users:,}", name_of([point], point.learner), f"{right.count}/{right.total}", *ends))
        return rows

    def figure(self) -> Any:
        """The share of right runs against the users, with intervals at 95 %."""
        figure = plots.figure(5.6, 3.6)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        for points, (colour, mark, line) in zip((self.two_rounds, self.one_round), LOOKS, strict=False):
            users, right = [point.users for point in points], [self.right(point) for point in points]
            low, high = zip(*(each.interval for each in right), strict=True)
            panel.fill_between(users, low, high, color=colour, alpha=0.1, linewidth=0)
            name = name_of(points, points[0].learner)
            rates = [each.rate for each in right]
            panel.plot(users, rates, marker=mark, linestyle=line, color=colour, label=name)
        panel.axhline(0.5, color=QUIET, linestyle=":", label="a coin for the mask bit")
        panel.set(xlabel="users", ylabel="share of runs that are right", ylim=(-0.02, 1.04), title=f"d = {self.d}")
        plots.log_axes(panel, plots.short(point.users for point in self.two_rounds), y=False)
        panel.legend(frameon=False)
        return figure


def right_by_users(d: int, users: Sequence[int], runs: int = 20, epsilon: str = "1") -> RightByUsers:
    """Let both learners learn so many made-up concepts from so many users, each run with users and noise of its own."""
    checks.count("runs", runs)
    checks.count("users", len(users))
    learners = (TWO_ROUNDS, NONINTERACTIVE)
    points = [_point(setting, runs) for setting in settings_of([d], epsilon, sorted(set(users)), learners)]
    mine, other = (tuple(point for point in points if point.learner == name) for name in learners)
    return RightByUsers(d, mine, other)


def _point(setting: SeparationSetting, runs: int) -> SeparationPoint:
    return point_of(setting, [trial(setting, seed) for seed in range(runs)])


@dataclass(frozen=True, slots=True)
class UsersByDimension(Picture):
    """Users that a learner in exactly two rounds was measured to need, and that none in one round can do without."""

    HEAD: ClassVar = ("d", "two rounds, measured", "more rounds, measured", "one round, proved", "times two rounds")
    dimensions: tuple[int, ...]
    two_rounds: tuple[int, ...]
    more_rounds: tuple[tuple[int, int], ...]
    """Users, and the most rounds that a study took."""
    one_round: tuple[int, ...]

    @property
    def times(self) -> tuple[float, ...]:
        """How many times as many users one round takes as two, at least. Below 1, no gap is proved."""
        return tuple(many / few for many, few in zip(self.one_round, self.two_rounds, strict=True))

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each dimension."""
        columns = zip(self.dimensions, self.two_rounds, self.more_rounds, self.one_round, self.times, strict=True)
        return [
            (str(d), limits.shown(two), f"{more:,} (up to {rounds})", limits.shown(one), limits.times(ratio))
            for d, two, (more, rounds), one, ratio in columns
        ]

    def figure(self) -> Any:
        """The numbers of users against the dimension; what is proved has empty marks."""
        figure = plots.figure(5.6, 3.8)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        empty = {"color": SECOND, "markerfacecolor": "white"}
        panel.plot(self.dimensions, self.one_round, "s:", label="one round: at least, proved", **empty)
        panel.plot(self.dimensions, self.two_rounds, "o-", color=FIRST, label="two rounds: enough, measured")
        more = [users for users, _ in self.more_rounds]
        panel.plot(self.dimensions, more, "^-.", color=QUIET, label="more rounds: enough, measured")
        panel.set(xlabel="d", ylabel="users to be right 19 times in 20")
        plots.log_axes(panel, plots.plain(self.dimensions))
        panel.legend(frameon=False, loc="upper left")
        return figure


def users_by_dimension(epsilon: str = "1") -> UsersByDimension:
    """Take from the records how many users the separation costs, for each dimension that was measured."""
    known = limits.table(sorted(d for d, measured_at in limits.measured_users() if measured_at == epsilon), epsilon)
    found = [(each, each.two_rounds, each.measured) for each in known]
    rows = [
        (each.d, two.users, (more.users, more.rounds), each.at_once_proved) for each, two, more in found if two and more
    ]
    if not rows:
        raise UsageError(f"nothing was measured at {epsilon}", where="epsilon", remedy='take "1"')
    return UsersByDimension(*zip(*rows, strict=True))
