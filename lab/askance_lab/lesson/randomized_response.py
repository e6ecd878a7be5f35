"""Randomized response in pictures (Warner 1965; KLNRS11, p. 4): one report, many reports, and what ε is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from askance_lab.evaluation.proportion import Proportion
from askance_lab.experiments import figure as plots
from askance_lab.lesson.picture import FIRST, QUIET, SECOND, Picture
from askance_protocol import checks
from askance_protocol.budget import charge_from_text
from askance_protocol.channels import BinaryResponse
from askance_protocol.randomness import SimulatedRandom


@dataclass(frozen=True, slots=True)
class BeliefAfterReport(Picture):
    """How sure one may be that somebody's answer is yes, before and after her report."""

    HEAD: ClassVar = ("before", "after a no", "after a yes")
    epsilon: str
    factor: float
    """Times as likely as under the other answer a report is, at most: e^ε."""
    before: tuple[float, ...]
    after_no: tuple[float, ...]
    after_yes: tuple[float, ...]

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each belief that one may begin with."""
        columns = zip(self.before, self.after_no, self.after_yes, strict=True)
        return [tuple(f"{each:.0%}" for each in row) for row in columns]

    def figure(self) -> Any:
        """Belief after the report against belief before it; on the dotted line nothing is learned."""
        figure = plots.figure(4.4, 4.2)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        panel.plot(self.before, self.after_yes, color=FIRST, label="after a yes")
        panel.plot(self.before, self.after_no, "--", color=SECOND, label="after a no")
        panel.plot((0, 1), (0, 1), ":", color=QUIET, label="before")
        panel.set(
            xlabel="belief before the report", ylabel="belief after it", title=f"one report at ε = {self.epsilon}"
        )
        panel.legend(frameon=False, loc="upper left")
        return figure


def belief_after_report(epsilon: str = "1", points: int = 21) -> BeliefAfterReport:
    """Work out by Bayes' rule what one report does to a belief, for beliefs from 0 to 1."""
    channel = BinaryResponse(micro_epsilon=charge_from_text(epsilon))
    factor = float(channel.probability(1, 1) / channel.probability(1, 0))
    before = np.linspace(0, 1, 1 + checks.count("points", points - 1))
    after = [before * odds / (before * odds + 1 - before) for odds in (1 / factor, factor)]
    no, yes = (tuple(each.tolist()) for each in after)
    return BeliefAfterReport(epsilon, factor, tuple(before.tolist()), no, yes)


@dataclass(frozen=True, slots=True)
class ShareTold(Picture):
    """The share of yes as crowds of several sizes tell it, with intervals at 95 %."""

    HEAD: ClassVar = ("people", "estimate", "from", "to")
    epsilon: str
    share: float
    people: tuple[int, ...]
    estimates: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def widths(self) -> tuple[float, ...]:
        """Width of each interval."""
        return tuple(high - low for low, high in zip(self.low, self.high, strict=True))

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each crowd."""
        columns = zip(self.people, self.estimates, self.low, self.high, strict=True)
        return [(f"{people:,}", *(f"{each:.1%}" for each in told)) for people, *told in columns]

    def figure(self) -> Any:
        """Estimates with their intervals against the number of people; the line is the truth."""
        figure = plots.figure(5.6, 3.6)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        middle = np.clip(self.estimates, self.low, self.high)
        ends = np.abs(np.array([self.low, self.high]) - middle)
        panel.errorbar(self.people, middle, yerr=ends, fmt="o", color=FIRST, capsize=3, label="told, with its interval")
        panel.axhline(self.share, color=QUIET, linestyle=":", label="the truth")
        panel.set(xlabel="people", ylabel="share of yes", ylim=(-0.02, 1.02), title=f"ε = {self.epsilon}")
        plots.log_axes(panel, plots.short(self.people), y=False)
        panel.legend(frameon=False)
        return figure


def share_told(share: float, people: Sequence[int], epsilon: str = "1", seed: int = 0) -> ShareTold:
    """Let crowds of these sizes report, this share of whom would say yes, and estimate the share from each crowd."""
    channel = BinaryResponse(micro_epsilon=charge_from_text(epsilon))
    checks.between("share", share, 0, 1)
    told: list[tuple[float, float, float]] = []
    for number, size in enumerate(people):
        answers = np.arange(size) < round(share * checks.count("people", size))
        reports = channel.sample(answers.astype(np.int64), SimulatedRandom(seed=1000 * seed + number)).outcomes
        found = Proportion(int(reports.sum()), size)
        told.append(_undone(channel, found.with_interval))
    estimates, low, high = zip(*told, strict=True)
    ends = (tuple(np.clip(end, 0, 1).tolist()) for end in (low, high))
    return ShareTold(epsilon, share, tuple(people), estimates, *ends)


def _undone(channel: BinaryResponse, shares: tuple[float, float, float]) -> tuple[float, float, float]:
    """Undo the channel: from the share of reports that say yes to the share of people."""
    value, low, high = ((1 + float(channel.scale) * (2 * each - 1)) / 2 for each in shares)
    return value, low, high


@dataclass(frozen=True, slots=True)
class PrivacyByEpsilon(Picture):
    """What a person gives and a study gets, by ε."""

    HEAD: ClassVar = ("ε", "truth told", "odds move", "reports for one answer")
    epsilons: tuple[str, ...]
    truth: tuple[float, ...]
    """How often a report is the truth."""
    odds: tuple[float, ...]
    """Times that the odds move at most."""
    worth: tuple[float, ...]
    """Number of reports that say as much of a share near one half as one open answer does."""

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each ε."""
        columns = zip(self.epsilons, self.truth, self.odds, self.worth, strict=True)
        return [(name, f"{truth:.1%}", f"{odds:.2f}", f"{worth:.1f}") for name, truth, odds, worth in columns]

    def figure(self) -> Any:
        """Two panels over ε: how often the truth is told, and how many reports one open answer is worth."""
        figure = plots.figure(7.2, 3.4)
        left, right = plots.panels_of(figure, 2, shared_y=False)
        places = [float(each) for each in self.epsilons]
        left.plot(places, self.truth, "o-", color=FIRST)
        left.axhline(0.5, color=QUIET, linestyle=":")
        left.set(xlabel="ε", ylabel="share of reports that are the truth", ylim=(0.45, 1.02))
        right.plot(places, self.worth, "s-", color=SECOND)
        right.set(xlabel="ε", ylabel="reports for one open answer", yscale="log")
        return figure


def privacy_by_epsilon(epsilons: Sequence[str]) -> PrivacyByEpsilon:
    """Look up in the channel of each ε how often it tells the truth, and how much its reports say."""
    channels = [BinaryResponse(micro_epsilon=charge_from_text(each)) for each in epsilons]
    truth = tuple(float(channel.probability(1, 1)) for channel in channels)
    odds = tuple(float(channel.probability(1, 1) / channel.probability(1, 0)) for channel in channels)
    # The variance of a report's score is C² (KLNRS11, p. 4), that of an open answer, ±1 with chances of one half, is 1.
    worth = tuple(float(channel.scale**2) for channel in channels)
    return PrivacyByEpsilon(tuple(epsilons), truth, odds, worth)
