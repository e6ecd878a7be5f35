"""Studies of MASKED-PARITY whose users are not drawn one by one, but tallied: the law is the same, the time is not.

Users are alike but for (x, i, b), which is uniform, and for the public coin. So the users of a round fall to its parts
and their Hadamard rows as a multinomial, and of a row's users Binomial(users, p) report 1: half have b = 1, and agree
with the row as often as the row agrees with the signs of r; half have b = 0, and agree with it evenly, unless their
part asks about r itself. The channel's own table turns that into p. Nothing is approximated but p's rounding to floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, NamedTuple

import numpy as np

from askance_lab.experiments.sample_size import LearnerTrial, TrialOutcome
from askance_lab.oracles.shared.oracle import Spent, SQOracle, run
from askance_protocol import hadamard
from askance_protocol.arrays import Floats, Integers
from askance_protocol.channels import BinaryResponse
from askance_protocol.queries import CellQuery
from askance_server.core.cell_channels import ReportsAt
from askance_server.core.planning import SLOTS, TooFewUsersError
from askance_server.core.strategy import Answer, Ask, Parameters, Strategy
from askance_server.strategies.masked_parity_pooled import searched

MICRO_EPSILON: Final = 1_000_000


class Concept(NamedTuple):
    """The concept to be learned, bit j of `r` for r_j."""

    d: int
    r: int
    a: int

    @property
    def learned(self) -> Mapping[str, object]:
        """The hypothesis value of a strategy that is right."""
        return {"r": "".join(str(self.r >> j & 1) for j in range(self.d)), "a": self.a}

    def agreeing(self, *, asked_about: bool) -> Floats:
        """By row: how likely a user's answer agrees with the row, before it is randomized."""
        columns = _columns(searched(self.d, 0).cells)
        signs = np.array([1 - 2 * (self.r >> j & 1) for j in range(self.d)])
        mean = columns[:, : self.d] @ signs / (2 * self.d)
        return (1 + mean + asked_about * columns[:, self.d] * (1 - 2 * self.a) / 2) / 2


@cache
def _columns(number: int) -> Integers:
    rows = np.arange(hadamard.rows_for(number))
    odd = np.bitwise_count(rows[:, np.newaxis] & rows[np.newaxis, :number]) & 1
    return 1 - 2 * odd.astype(np.int64)


@dataclass(slots=True)
class Tallied(SQOracle):
    """An oracle like `LocalReports` for the searching strategies, where a study takes all of its users."""

    strategy: Strategy
    concept: Concept
    users: int
    source: np.random.Generator
    told: bool = False
    """Whether the empty cells show the standard deviation itself, so that the strategy knows the noise exactly."""
    rounds: list[int] = field(default_factory=list[int])
    """The number of users of each round."""
    _slots: Integers = field(init=False, repr=False)
    _right: CellQuery = field(init=False, repr=False)
    """The question about r itself."""
    _agreeing: tuple[Floats, Floats] = field(init=False, repr=False)
    """By row: about another candidate, about r."""

    def __post_init__(self) -> None:
        self._slots = np.cumsum(self.source.multinomial(self.users, np.full(SLOTS, 1 / SLOTS)))
        self._right = searched(self.concept.d, self.concept.r)
        self._agreeing = self.concept.agreeing(asked_about=False), self.concept.agreeing(asked_about=True)

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """The users of whole slots, until there are as many as the round's portion; each to a part by the coin."""
        asked = sum(self.rounds)
        wanted = max(1, int((self.users - asked) * self.strategy.portion(len(self.rounds) + 1)))
        slot = int(np.searchsorted(self._slots, asked + wanted))
        self.rounds.append(int(self._slots[min(slot, SLOTS - 1)]) - asked)
        shares = np.array([ask.share or 1 for ask in asks])
        parts = self.source.multinomial(self.rounds[-1], shares / shares.sum())
        return [self._shares(ask, int(part)) for ask, part in zip(asks, parts, strict=True)]

    def _shares(self, ask: Ask, users: int) -> Floats:
        if not isinstance(ask.query, CellQuery):
            raise TypeError("the strategy asks for no cells")
        if not users:
            raise TooFewUsersError("a part had no users")
        d = self.concept.d
        agreeing = self._agreeing[ask.query == self._right]
        received = self.source.multinomial(users, np.full(len(agreeing), 1 / len(agreeing)))
        ones = self.source.binomial(received, lie() + (1 - 2 * lie()) * agreeing)
        shares = hadamard.transform(2 * ones - received)[: ask.query.cells] / ((1 - 2 * lie()) * users)
        if self.told:
            shares[d + 1 :] = 1 / ((1 - 2 * lie()) * math.sqrt(users))
        return shares

    @property
    def spent(self) -> Spent:
        """Each user is asked once."""
        return Spent(sum(self.rounds), MICRO_EPSILON)


@cache
def lie() -> float:
    """How likely a report at ε = 1 is not the answer."""
    return int(BinaryResponse(MICRO_EPSILON).table()[0][1]) / 2**64


def study(strategy: Strategy, parameters: Parameters, told: bool, users: int, seed: int) -> TrialOutcome:
    """One study, to its end, on a concept of its own."""
    source, d = np.random.default_rng([seed, 14]), int(parameters["d"])
    concept = Concept(d, int(source.integers((1 << d) - 1, dtype=np.uint64, endpoint=True)), int(source.integers(2)))
    planned = (strategy if strategy.at is None else strategy.at(ReportsAt(MICRO_EPSILON))).planned(parameters)
    people = Tallied(planned, concept, users, source, told)
    try:
        learned: Mapping[str, Any] = run(planned, parameters, people).hypothesis.value
    except TooFewUsersError:
        learned = {}
    return TrialOutcome(learned == concept.learned, sum(people.rounds), len(people.rounds))


def tallied(strategy: Strategy, parameters: Parameters, *, told: bool = False) -> LearnerTrial:
    """A trial of this strategy whose users are tallied."""
    return partial(study, strategy, parameters, told)
