"""The interface of oracles, and a strategy's run against one: the papers' equivalence as a function argument."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from askance_server.core.run import Run
from askance_server.core.strategy import Answer, Ask, Estimate, Hypothesis, Parameters, Strategy


@dataclass(frozen=True, slots=True)
class Spent:
    """Cost of an oracle's answers so far."""

    users: int = 0
    """Number of users whose examples were looked at; 0 where answers come from the distribution itself."""
    micro_epsilon: int | None = 0
    """The most that one user paid; None: her example itself was seen, which no ε bounds."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What a strategy learned from an oracle, and at what cost."""

    hypothesis: Hypothesis
    rounds: int
    queries: int
    users: int
    max_spent_micro_epsilon: int | None
    received: tuple[int, ...] = ()
    """Number of users asked in each round, where users are asked."""
    reason: str = ""
    """How a study ended, in the words of its last bulletin entry; the hypothesis' text, where there is no study."""


class Oracle(ABC):
    """An oracle that a strategy can learn from."""

    @abstractmethod
    def learn(self, strategy: Strategy, parameters: Parameters) -> Learned:
        """Let a strategy learn. TooFewUsersError and StrategyError say why it could not."""

    @property
    @abstractmethod
    def spent(self) -> Spent:
        """Cost so far."""

    @property
    def received(self) -> Sequence[int]:
        """Number of users asked in each round so far, if users are asked."""
        return ()

    def estimates(self, strategy: Strategy | None) -> Sequence[Estimate]:  # noqa: ARG002 - for oracles of reports
        """What reports say of all that was asked, as the strategy tells it; none where nobody reports."""
        return ()


class SQOracle(Oracle):
    """Answers statistical queries within their tolerance, surely or with high probability (KLNRS11, Def. 5.4)."""

    @abstractmethod
    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """Answers to one round: a float for each query, or an array with a float for each cell."""

    def learn(self, strategy: Strategy, parameters: Parameters) -> Learned:
        """Pass the strategy's asks to the oracle, and its answers back, until the strategy has learned."""
        run = Run(strategy, parameters)
        rounds = queries = 0
        said = run.step(None)
        while not isinstance(said, Hypothesis):
            rounds, queries = rounds + 1, queries + len(said)
            said = run.step(self.answer(said))
        spent = self.spent
        received = tuple(self.received)
        return Learned(said, rounds, queries, spent.users, spent.micro_epsilon, received, said.text)


def run(strategy: Strategy, parameters: Parameters, oracle: Oracle) -> Learned:
    """Run a strategy against an oracle."""
    return oracle.learn(strategy, parameters)
