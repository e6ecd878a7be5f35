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
    """Whose examples were looked at; 0 where answers come from the distribution itself."""
    micro_epsilon: int | None = 0
    """The most that one user paid; None: her example itself was seen, which no ε bounds."""


class Oracle(ABC):
    """Answers queries, each within its tolerance, or with high probability so (KLNRS11, Def. 5.4)."""

    @abstractmethod
    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """The answers to one round: a float each, for a cell query an array of one for each cell."""

    @property
    @abstractmethod
    def spent(self) -> Spent:
        """What has been spent until now."""


@dataclass(frozen=True, slots=True)
class Learned:
    """What a strategy learned from an oracle, and what it took."""

    hypothesis: Hypothesis
    rounds: int
    queries: int
    users: int
    max_spent_micro_epsilon: int | None


def run(strategy: Strategy, parameters: Parameters, oracle: Oracle) -> Learned:
    """Send the oracle what the strategy asks, and the strategy what the oracle answers, until it has learned."""
    asking = Run(strategy, parameters)
    rounds = queries = 0
    said = asking.step(None)
    while not isinstance(said, Hypothesis):
        rounds, queries = rounds + 1, queries + len(said)
        said = asking.step(oracle.answer(said))
    spent = oracle.spent
    return Learned(said, rounds, queries, spent.users, spent.micro_epsilon)
