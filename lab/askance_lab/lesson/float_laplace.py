"""Laplace noise in doubles, in pictures: it looks private, and single reports give answers away (Mironov 2012)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from askance_lab.evaluation.proportion import Proportion
from askance_lab.experiments import figure as plots
from askance_lab.experiments.float_laplace import leaky_laplace, possible_reports
from askance_lab.lesson.picture import FIRST, QUIET, SECOND, Picture
from askance_protocol import checks
from askance_protocol.budget import MICRO, charge_from_text

_NO, _YES = -1.0, 1.0
_EDGES: Final = 40


def _scale(epsilon: str) -> float:
    """Scale 2b/ε of the noise for answers within ±b, b = 1 (KLNRS11, §5.1.1)."""
    return 2 * MICRO / charge_from_text(epsilon)


def _drawn(answer: float, epsilon: str, reports: int, seed: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    generator = np.random.default_rng((seed, int(answer > 0)))
    return leaky_laplace(np.full(checks.count("reports", reports), answer), _scale(epsilon), generator)


@dataclass(frozen=True, slots=True)
class LaplaceReports(Picture):
    """How often reports fall where, from people who answer no (−1) and from people who answer yes (+1)."""

    HEAD: ClassVar = ("from", "to", "no", "yes")
    epsilon: str
    edges: tuple[float, ...]
    no: tuple[int, ...]
    yes: tuple[int, ...]

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each bin."""
        columns = zip(self.edges[:-1], self.edges[1:], self.no, self.yes, strict=True)
        return [(f"{low:.2f}", f"{high:.2f}", f"{no:,}", f"{yes:,}") for low, high, no, yes in columns]

    def figure(self) -> Any:
        """Both histograms, one over the other: they overlap everywhere."""
        figure = plots.figure(5.6, 3.4)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        panel.stairs(self.yes, self.edges, color=FIRST, label="who answers yes (+1)")
        panel.stairs(self.no, self.edges, color=SECOND, linestyle="--", label="who answers no (−1)")
        panel.set(xlabel="report", ylabel="number of reports", title=f"Laplace noise in doubles, ε = {self.epsilon}")
        panel.legend(frameon=False)
        return figure


def laplace_reports(epsilon: str = "1", reports: int = 20_000, seed: int = 0) -> LaplaceReports:
    """Draw so many reports of each answer and count them in bins."""
    reach = 5 * _scale(epsilon)
    edges = np.linspace(-reach, reach, _EDGES + 1)
    no, yes = (np.histogram(_drawn(answer, epsilon, reports, seed), edges)[0].tolist() for answer in (_NO, _YES))
    return LaplaceReports(epsilon, tuple(edges.tolist()), tuple(no), tuple(yes))


@dataclass(frozen=True, slots=True)
class ReachableDoubles(Picture):
    """Neighbouring doubles, and which of them the noise can return under each answer."""

    HEAD: ClassVar = ("double", "from no", "from yes")
    epsilon: str
    doubles: tuple[float, ...]
    no: tuple[bool, ...]
    yes: tuple[bool, ...]

    @property
    def telling(self) -> int:
        """Number of these doubles that one answer can return and the other cannot."""
        return sum(no != yes for no, yes in zip(self.no, self.yes, strict=True))

    @property
    def shared(self) -> int:
        """Number of these doubles that both answers can return."""
        return sum(no and yes for no, yes in zip(self.no, self.yes, strict=True))

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each double."""
        words = {True: "possible", False: "never"}
        columns = zip(self.doubles, self.no, self.yes, strict=True)
        return [(repr(double), words[no], words[yes]) for double, no, yes in columns]

    def figure(self) -> Any:
        """Two rows of strokes, a stroke where the double can be a report."""
        figure = plots.figure(7.2, 2.0)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        places = [[place for place, is_there in enumerate(row) if is_there] for row in (self.no, self.yes)]
        panel.eventplot(places, lineoffsets=[0, 1], linelengths=0.8, colors=[SECOND, FIRST], linewidths=1.2)
        panel.set_yticks([0, 1], labels=["from no", "from yes"])
        panel.set(xlabel=f"{len(self.doubles)} neighbouring doubles, from {self.doubles[0]!r} on")
        panel.set_xlim(-1, len(self.doubles))
        return figure


def reachable_doubles(start: float = 0.75, count: int = 120, epsilon: str = "1") -> ReachableDoubles:
    """Try each of so many doubles from `start` upwards: can the noise return it from a no, and from a yes?"""
    beyond = np.arange(checks.count("count", count)) * np.spacing(start)
    doubles = start + beyond
    no, yes = (tuple(possible_reports(doubles, answer, _scale(epsilon)).tolist()) for answer in (_NO, _YES))
    return ReachableDoubles(epsilon, tuple(doubles.tolist()), no, yes)


@dataclass(frozen=True, slots=True)
class RuledOut(Picture):
    """The share of single reports of a no that no yes can have sent."""

    HEAD: ClassVar = ("ε", "given away", "from", "to")
    epsilons: tuple[str, ...]
    shares: tuple[Proportion, ...]

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each ε."""
        pairs = zip(self.epsilons, self.shares, strict=True)
        return [(name, *(f"{each:.1%}" for each in share.with_interval)) for name, share in pairs]

    def figure(self) -> Any:
        """The share for each ε, with its interval at 95 %; were the noise private, it would be 0."""
        figure = plots.figure(5.0, 3.4)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        rates = np.array([each.rate for each in self.shares])
        ends = np.abs(np.array([each.interval for each in self.shares]).T - rates)
        panel.errorbar(range(len(rates)), rates, yerr=ends, fmt="s", color=SECOND, capsize=3)
        panel.axhline(0, color=QUIET, linestyle=":", label="if the noise were private")
        panel.set_xticks(range(len(rates)), labels=self.epsilons)
        panel.set(
            xlabel="ε", ylabel="reports that give the answer away", ylim=(-0.03, 1), xlim=(-0.5, len(rates) - 0.5)
        )
        panel.legend(frameon=False)
        return figure


def ruled_out(epsilons: Sequence[str], reports: int = 4000, seed: int = 0) -> RuledOut:
    """Attack so many single reports of people who answer no: how many can nobody have sent who answers yes?"""
    shares: list[Proportion] = []
    for epsilon in epsilons:
        seen = possible_reports(_drawn(_NO, epsilon, reports, seed), _YES, _scale(epsilon))
        shares.append(Proportion(int((~seen).sum()), reports))
    return RuledOut(tuple(epsilons), tuple(shares))
