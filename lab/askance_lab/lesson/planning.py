"""Planning a study in pictures: how many users an accuracy takes, and whether so many suffice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from askance_lab.data.made_up import made_up
from askance_lab.evaluation.proportion import Proportion
from askance_lab.experiments import figure as plots
from askance_lab.experiments.planned_users import plan_enrolment
from askance_lab.lesson.picture import FIRST, LOOKS, QUIET, SECOND, Picture
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.shared.oracle import run
from askance_protocol import checks
from askance_server.strategies.registry import registry

_MEAN: Final = "mean"


@dataclass(frozen=True, slots=True)
class UsersByTolerance(Picture):
    """Users to enrol for the mean of a number from −1 to 1, by the error that is allowed and by ε."""

    HEAD: ClassVar = ("error allowed", "ε", "users")
    tolerances: tuple[str, ...]
    users: Mapping[str, tuple[int, ...]]
    """Of each ε, one number for each tolerance."""

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each tolerance and ε."""
        return [
            (tolerance, epsilon, f"{users:,}")
            for epsilon, all_users in self.users.items()
            for tolerance, users in zip(self.tolerances, all_users, strict=True)
        ]

    def figure(self) -> Any:
        """Users against the error allowed, a line for each ε."""
        figure = plots.figure(5.6, 3.8)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        places = [float(each) for each in self.tolerances]
        for number, (epsilon, users) in enumerate(self.users.items()):
            colour, mark, line = LOOKS[number % len(LOOKS)]
            panel.plot(places, users, marker=mark, linestyle=line, color=colour, label=f"ε = {epsilon}")
        panel.set(xlabel="error allowed", ylabel="users to enrol", xscale="log", yscale="log")
        panel.set_xticks(places, labels=self.tolerances)
        panel.minorticks_off()
        panel.legend(frameon=False)
        return figure


def users_by_tolerance(tolerances: Sequence[str], epsilons: Sequence[str] = ("1",)) -> UsersByTolerance:
    """Plan the study of a mean for each error that is allowed and each ε, as `askance plan mean` does."""
    users = {
        epsilon: tuple(plan_enrolment(_MEAN, {"tolerance": each, "epsilon": epsilon}) for each in tolerances)
        for epsilon in epsilons
    }
    return UsersByTolerance(tuple(tolerances), users)


@dataclass(frozen=True, slots=True)
class StudiesRepeated(Picture):
    """How far the estimates of many studies are from the truth, each study of people of its own."""

    HEAD: ClassVar = ("study", "off by", "from", "to")
    tolerance: str
    users: int
    off: tuple[float, ...]
    """Estimate less truth."""
    low: tuple[float, ...]
    """Ends of the intervals, less the truth: 0 is within an interval that holds."""
    high: tuple[float, ...]

    @property
    def within(self) -> Proportion:
        """Studies that are off by the tolerance at most."""
        return Proportion(sum(abs(each) <= float(self.tolerance) for each in self.off), len(self.off))

    @property
    def held(self) -> Proportion:
        """Studies whose interval holds the truth."""
        ends = zip(self.low, self.high, strict=True)
        return Proportion(sum(low <= 0 <= high for low, high in ends), len(self.off))

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each study."""
        columns = enumerate(zip(self.off, self.low, self.high, strict=True), 1)
        return [(str(number), *(f"{each:+.3f}" for each in told)) for number, told in columns]

    def figure(self) -> Any:
        """Errors with their intervals, a study each; the band is what is allowed."""
        figure = plots.figure(7.2, 3.4)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        most = float(self.tolerance)
        panel.axhspan(-most, most, color=QUIET, alpha=0.12, linewidth=0, label=f"allowed: ±{self.tolerance}")
        panel.axhline(0, color=QUIET, linestyle=":")
        for holding, colour, mark, label in (
            (True, FIRST, "o", "the truth is within"),
            (False, SECOND, "s", "it is not"),
        ):
            mine = [k for k in range(len(self.off)) if (self.low[k] <= 0 <= self.high[k]) is holding]
            off = np.array([self.off[k] for k in mine])
            ends = np.array([[self.low[k] for k in mine], [self.high[k] for k in mine]])
            places = [k + 1 for k in mine]
            if mine:
                panel.errorbar(places, off, yerr=np.abs(ends - off), fmt=mark, color=colour, markersize=4, label=label)
        panel.set(xlabel="study", ylabel="estimate less truth", title=f"{self.users:,} users in each study")
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        return figure


def studies_repeated(users: int, studies: int = 40, tolerance: str = "0.05", epsilon: str = "1") -> StudiesRepeated:
    """Run so many studies of a mean, each over other made-up people, by the same code that a server runs."""
    found = [_study(users, tolerance, epsilon, seed) for seed in range(checks.count("studies", studies))]
    off, low, high = zip(*found, strict=True)
    return StudiesRepeated(tolerance, users, off, low, high)


def _study(users: int, tolerance: str, epsilon: str, seed: int) -> tuple[float, float, float]:
    """Estimate and interval of one study, less the truth."""
    strategy, own = registry()[_MEAN], {"tolerance": tolerance}
    people = made_up(strategy, own, seed)
    study = study_for(strategy, {**own, "users": "all", "epsilon": epsilon}, seed)
    learned: Any = run(strategy, own, LocalReports(study, strategy, people, users, seed)).hypothesis.value
    truth: Any = people.truth
    estimate, low, high = (learned[name] - truth["mean"] for name in ("mean", "low", "high"))
    return estimate, low, high
