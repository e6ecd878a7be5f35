"""What several answers of one person add up to (KLNRS11, Def. 5.3: ε₁ + … + ε_k), in pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from askance_lab.experiments import figure as plots
from askance_lab.lesson.picture import FIRST, QUIET, SECOND, Picture
from askance_protocol import checks
from askance_protocol.budget import Account, charge_from_text, limit_from_text, to_text
from askance_protocol.channels import BinaryResponse
from askance_protocol.errors import UsageError


@dataclass(frozen=True, slots=True)
class AskedAgain(Picture):
    """How often one guesses somebody's answer who answers the same question again and again, with fresh noise."""

    HEAD: ClassVar = ("reports", "guessed", "at most, by the sum of ε")
    epsilon: str
    times: tuple[int, ...]
    guessed: tuple[float, ...]
    """By the majority of the reports."""
    most: tuple[float, ...]
    """What the sum of all ε allows at most: e^{kε}/(1 + e^{kε})."""

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each number of reports."""
        columns = zip(self.times, self.guessed, self.most, strict=True)
        return [(str(times), f"{guessed:.1%}", f"{most:.2%}") for times, guessed, most in columns]

    def figure(self) -> Any:
        """The chance of a right guess against the number of reports."""
        figure = plots.figure(5.6, 3.6)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        panel.plot(self.times, self.most, ":", color=QUIET, label="at most, by the sum of ε")
        panel.plot(self.times, self.guessed, "o-", color=FIRST, label="the majority of the reports")
        panel.axhline(0.5, color=QUIET, linewidth=0.6)
        panel.set(xlabel="reports of one person", ylabel="her answer is guessed", ylim=(0.45, 1.02))
        panel.set_title(f"ε = {self.epsilon} for each report")
        panel.set_xticks(self.times[:: 1 + len(self.times) // 12])
        panel.legend(frameon=False, loc="lower right")
        return figure


def asked_again(epsilon: str = "1", times: int = 21) -> AskedAgain:
    """Work out exactly how often the majority of 1, 3, 5, … reports is the truth."""
    truth = float(BinaryResponse(micro_epsilon=charge_from_text(epsilon)).probability(1, 1))
    odd = range(1, checks.count("times", times) + 1, 2)
    guessed = tuple(_majority(truth, number) for number in odd)
    most = tuple(1 / (1 + math.exp(-number * float(epsilon))) for number in odd)
    return AskedAgain(epsilon, tuple(odd), guessed, most)


def _majority(truth: float, times: int) -> float:
    """Pr[more than half of so many reports are the truth], for an odd number."""
    return math.fsum(
        math.comb(times, right) * truth**right * (1 - truth) ** (times - right)
        for right in range(times // 2 + 1, times + 1)
    )


@dataclass(frozen=True, slots=True)
class WalletSteps(Picture):
    """What a wallet says to one study after the other: it answers while it can pay, and then no more."""

    HEAD: ClassVar = ("study", "the wallet", "spent")
    cap: int
    """In millionths of ε, as all sums here."""
    charge: int
    spent: tuple[int, ...]
    """After each study."""
    answered: tuple[bool, ...]

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each study."""
        steps = enumerate(zip(self.answered, self.spent, strict=True), 1)
        return [(str(k), "answers" if answered else "refuses", to_text(spent)) for k, (answered, spent) in steps]

    def figure(self) -> Any:
        """What is spent after each study; hatched where the wallet refuses, and nothing leaves the phone."""
        figure = plots.figure(5.6, 3.2)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        for answered, colour, hatch, label in ((True, FIRST, "", "answers"), (False, "white", "//", "refuses")):
            mine = [k for k, did in enumerate(self.answered, 1) if did is answered]
            heights = [self.spent[k - 1] / 1e6 for k in mine]
            panel.bar(mine, heights, color=colour, hatch=hatch, edgecolor=FIRST, label=label)
        panel.axhline(self.cap / 1e6, color=QUIET, linestyle=":", label="the cap")
        panel.set(xlabel="study", ylabel="ε spent")
        panel.set_xticks(range(1, len(self.spent) + 1))
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        return figure


def wallet_steps(cap: str, charge: str, studies: int) -> WalletSteps:
    """Ask one person in so many studies, each for this much ε; her account decides, in whole millionths."""
    account, price = Account(limit_from_text(cap)), charge_from_text(charge)
    spent: list[int] = []
    answered: list[bool] = []
    for _ in range(checks.count("studies", studies)):
        answered.append(account.affords(price))
        account = account.charged(price) if answered[-1] else account
        spent.append(account.spent)
    return WalletSteps(account.cap, price, tuple(spent), tuple(answered))


@dataclass(frozen=True, slots=True)
class SplitOrShared(Picture):
    """Standard errors of several shares: everybody answers all questions for a part of ε, or one question for all."""

    HEAD: ClassVar = ("questions", "all, ε split", "one each")
    epsilon: str
    people: int
    questions: tuple[int, ...]
    split: tuple[float, ...]
    shared: tuple[float, ...]

    def rows(self) -> Sequence[tuple[str, ...]]:
        """A row for each number of questions."""
        columns = zip(self.questions, self.split, self.shared, strict=True)
        return [(str(number), f"{split:.2%}", f"{shared:.2%}") for number, split, shared in columns]

    def figure(self) -> Any:
        """Both standard errors against the number of questions."""
        figure = plots.figure(5.6, 3.6)
        [panel] = plots.panels_of(figure, 1, shared_y=False)
        panel.plot(self.questions, self.split, "s--", color=SECOND, label="everybody answers all, for ε/k each")
        panel.plot(self.questions, self.shared, "o-", color=FIRST, label="everybody answers one, for ε")
        panel.set(xlabel="questions k", ylabel="standard error of a share", ylim=(0, None))
        panel.set_title(f"{self.people:,} people, ε = {self.epsilon} for each of them")
        panel.legend(frameon=False, loc="upper left")
        return figure


def split_or_shared(questions: Sequence[int], people: int = 10_000, epsilon: str = "1") -> SplitOrShared:
    """Work out the standard error of each share, at the worst, if k questions are asked in one way and the other."""
    checks.count("people", people)
    checks.count("questions", min(questions, default=0))
    whole = charge_from_text(epsilon)
    if max(questions) > min(whole, people):
        raise UsageError("are more than there are people, or millionths of ε", where="questions", remedy="ask fewer")
    split = tuple(_error(whole // number, people) for number in questions)
    shared = tuple(_error(whole, people / number) for number in questions)
    return SplitOrShared(epsilon, people, tuple(questions), split, shared)


def _error(micro_epsilon: int, reports: float) -> float:
    """C/(2√n): the most that the standard error of a share can be, reports saying yes half of the time."""
    return float(BinaryResponse(micro_epsilon=micro_epsilon).scale) / (2 * math.sqrt(reports))
