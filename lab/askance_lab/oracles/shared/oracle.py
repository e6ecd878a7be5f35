"""What an oracle is, and a strategy's run against one: the papers' equivalence as a function argument."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from askance_server.core.run import Run
from askance_server.core.strategy import Answer, Ask, Hypothesis, Parameters, Strategy


@dataclass(frozen=True, slots=True)
class Spent:
    """What an oracle's answers have cost so far."""

    users: int = 0
    """Number of users whose examples were looked at; 0 where answers come from the distribution itself."""
    micro_epsilon: int | None = 0
    """The most that one user paid; None: her example itself was seen, which no ε bounds."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What a strategy learned from an oracle, and what it took."""

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
    """Somebody a strategy can learn from."""

    @abstractmethod
    def learn(self, strategy: Strategy, parameters: Parameters) -> Learned:
        """Let a strategy learn. TooFewUsersError and StrategyError say why it could not."""

    @property
    @abstractmethod
    def spent(self) -> Spent:
        """What has been spent until now."""

    @property
    def received(self) -> Sequence[int]:
        """Number of users asked in each round so far, where users are asked."""
        return ()


class SQOracle(Oracle):
    """Answers statistical queries, each within its tolerance, or with high probability so (KLNRS11, Def. 5.4)."""

    @abstractmethod
    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """The answers to one round: a float each, for a cell query an array with a float for each cell."""

    def learn(self, strategy: Strategy, parameters: Parameters) -> Learned:
        """Send the oracle what the strategy asks, and the strategy what the oracle answers, until it has learned."""
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
    """Let a strategy learn from an oracle."""
    return oracle.learn(strategy, parameters)
