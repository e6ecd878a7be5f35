"""The number of fresh users for each query of a round, and the oracles that ask a separate portion for each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from askance_lab.evaluation.weighted import gathered
from askance_lab.oracles.shared.crowds import Crowd
from askance_lab.oracles.shared.oracle import SQOracle
from askance_protocol.arrays import Floats
from askance_protocol.queries import PreparedQuery, prepare
from askance_server.core.strategy import Answer, Ask, Strategy

Deal: TypeAlias = Callable[[int, Sequence[Ask], int], Sequence[int]]
"""From the number of a round, its asks and the users who are left: how many users each ask gets."""


def evenly(strategy: Strategy) -> Deal:
    """Use all users: rounds share them as the strategy says, the asks of a round evenly."""

    def deal(number: int, asks: Sequence[Ask], left: int) -> Sequence[int]:
        each = int(left * strategy.portion(number)) // len(asks)
        return [each] * len(asks)

    return deal


def by_bound(need: Callable[[Ask], int]) -> Deal:
    """Number of users that a bound requires, up to all who are left."""
    return lambda _number, asks, _left: [need(ask) for ask in asks]


@dataclass(slots=True)
class Portioned(SQOracle):
    """Each query is answered by separate users, so that each user answers once."""

    crowd: Crowd
    deal: Deal
    portions: list[int] = field(default_factory=list[int])
    """Number of users of each round."""

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """Answers to a round, from one portion for each query."""
        sizes = self.deal(len(self.portions) + 1, asks, self.crowd.left)
        before = self.crowd.asked
        answers = [self.estimate(ask, size) for ask, size in zip(asks, sizes, strict=True)]
        # Not the sum of the sizes: the cells of a query share its portion evenly, and a rest is not asked.
        self.portions.append(self.crowd.asked - before)
        return answers

    @property
    def received(self) -> Sequence[int]:
        """Number of users in each round."""
        return self.portions

    @abstractmethod
    def estimate(self, ask: Ask, size: int) -> Answer:
        """Answer from the next `size` users."""

    def prepared(self, ask: Ask) -> PreparedQuery:
        """Query, checked against the schema of the users' examples."""
        return prepare(ask.query, self.crowd.schema)

    def counts(self, ask: Ask, size: int) -> Floats:
        """Number of times that the next `size` users give each answer."""
        return gathered(self.prepared(ask), self.crowd.take(size))
