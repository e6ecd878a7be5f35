"""Studies of MASKED-PARITY whose users are not drawn one by one, but tallied: the law is the same, the time is not.

Users are alike but for (x, i, b), which is uniform, and for the public coin. So the users of a round fall to its parts
and their Hadamard rows as a multinomial, and of a row's users Binomial(users, p) report 1: half have b = 1, and agree
with the row as often as the row agrees with the signs of r; half have b = 0, and agree with it evenly, unless their
part asks about r itself. The channel's own table turns that into p. Nothing is approximated but p's rounding to floats.
"""

from __future__ import annotations

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
from askance_server.strategies.masked_parity import second
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

    def agreeing(self, columns: Integers, *, asked_about: bool) -> Floats:
        """By row: how likely a user's answer agrees with the row, before it is randomized; or a coin."""
        signs = np.array([1 - 2 * (self.r >> j & 1) for j in range(self.d)])
        mean = columns[: self.d].T @ signs / (2 * self.d)
        if asked_about:
            mean = mean + columns[self.d] * (1 - 2 * self.a) / 2
        return (1 + mean) / 2


@cache
def columns_of(cells: int) -> Integers:
    """The column of each cell in the Sylvester matrix, which is symmetric: also a row each."""
    rows = np.arange(hadamard.rows_for(cells))
    return 1 - 2 * (np.bitwise_count(rows[:cells, np.newaxis] & rows) & 1).astype(np.int64)


@dataclass(slots=True)
class Tallied(SQOracle):
    """An oracle like `LocalReports` for MASKED-PARITY's learners in rounds, where a study takes all of its users."""

    strategy: Strategy
    concept: Concept
    users: int
    source: np.random.Generator
    told: bool = False
    """Whether the empty cells show the standard deviation itself, so that the strategy knows the noise exactly."""
    rounds: list[int] = field(default_factory=list[int])
    """The number of users of each round."""
    _slots: Integers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._slots = np.cumsum(self.source.multinomial(self.users, np.full(SLOTS, 1 / SLOTS)))

    def answer(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        """The users of whole slots, until there are as many as the round's portion; each to a part by the coin."""
        asked = sum(self.rounds)
        wanted = max(1, int((self.users - asked) * self.strategy.portion(len(self.rounds) + 1)))
        slot = int(np.searchsorted(self._slots, asked + wanted))
        self.rounds.append(int(self._slots[min(slot, SLOTS - 1)]) - asked)
        shares = np.array([ask.share or 1 for ask in asks])
        parts = self.source.multinomial(self.rounds[-1], shares / shares.sum())
        if not parts.all():
            raise TooFewUsersError("a part had no users")
        query = asks[0].query
        if isinstance(query, CellQuery):
            return list(self._shares(asks, query, parts))
        return [self._frequency(ask, int(users)) for ask, users in zip(asks, parts, strict=True)]

    def _shares(self, asks: Sequence[Ask], query: CellQuery, users: Integers) -> Floats:
        """Signed shares of the cells, which are as many in all parts."""
        d, columns = self.concept.d, columns_of(query.cells)
        right = searched(d, self.concept.r, query.cells // d)
        about_another = self.concept.agreeing(columns, asked_about=False)
        agreeing = np.tile(about_another, (len(asks), 1))
        for place, ask in enumerate(asks):
            if ask.query == right:
                agreeing[place] = self.concept.agreeing(columns, asked_about=True)
        received = self.source.multinomial(users, np.full(columns.shape[1], 1 / columns.shape[1]))
        ones = self.source.binomial(received, lie() + (1 - 2 * lie()) * agreeing)
        shares = (2 * ones - received) @ columns.T / ((1 - 2 * lie()) * users[:, np.newaxis])
        if self.told:
            shares[:, d + 1 :] = 1 / ((1 - 2 * lie()) * np.sqrt(users))[:, np.newaxis]
        return shares

    def _frequency(self, ask: Ask, users: int) -> float:
        """How often a user has b = 0, and a label other than χ_r̂(x): KLNRS11, Prop. 5.18, step 2."""
        d, r, a = self.concept
        right = ask.query == second("".join(str(r >> j & 1) for j in range(d)))
        frequency = a / 2 if right else 1 / 4
        ones = self.source.binomial(users, lie() + (1 - 2 * lie()) * frequency)
        return float((ones / users - lie()) / (1 - 2 * lie()))

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
