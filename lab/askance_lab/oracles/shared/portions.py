"""How many fresh users each query of a round gets, and the oracles that ask a portion for each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from askance_lab.evaluation.weighted import Floats, gathered
from askance_lab.oracles.shared.crowds import Crowd
from askance_lab.oracles.shared.oracle import SQOracle
from askance_protocol.queries import PreparedQuery, prepare
from askance_server.core.strategy import Answer, Ask, Strategy

Deal: TypeAlias = Callable[[int, Sequence[Ask], int], Sequence[int]]
"""From the number of a round, its asks and the users who are left: how many users each ask gets."""


def evenly(strategy: Strategy) -> Deal:
    """All users: the rounds share them as the strategy says, the asks of a round evenly."""

    def deal(number: int, asks: Sequence[Ask], left: int) -> Sequence[int]:
        each = int(left * strategy.portion(number)) // len(asks)
        return [each] * len(asks)

    return deal


def by_bound(need: Callable[[Ask], int]) -> Deal:
    """As many as a bound says: of those who are left, no more."""
    return lambda _number, asks, _left: [need(ask) for ask in asks]


@dataclass(slots=True)
class Portioned(SQOracle):
    """Each query is answered by users of its own, so that each user answers once, whatever is asked."""

    crowd: Crowd
    deal: Deal
    portions: list[int] = field(default_factory=list[int])
    """Number of users of each round."""

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """A portion for each."""
        sizes = self.deal(len(self.portions) + 1, asks, self.crowd.left)
        before = self.crowd.asked
        answers = [self.estimate(ask, size) for ask, size in zip(asks, sizes, strict=True)]
        # Not the sum of the sizes: the cells of a query share its portion evenly, and a rest is not asked.
        self.portions.append(self.crowd.asked - before)
        return answers

    @property
    def received(self) -> Sequence[int]:
        """Number of users of each round."""
        return self.portions

    @abstractmethod
    def estimate(self, ask: Ask, size: int) -> Answer:
        """The answer, from the next `size` users."""

    def prepared(self, ask: Ask) -> PreparedQuery:
        """The query, checked against the users' examples."""
        return prepare(ask.query, self.crowd.schema)

    def counts(self, ask: Ask, size: int) -> Floats:
        """How often each answer is given by the next `size` users."""
        return gathered(self.prepared(ask), self.crowd.take(size))
