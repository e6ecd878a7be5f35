"""How many users a strategy needs: studies in process, by the protocol's own rounds; only the people are simulated.

A study is planned, dealt, answered, randomized, tallied and estimated as over a server, user by user: what is left out
is the wire and the ledger. All of the users who are enrolled count, whether they were asked or not; how many were asked
on average is told besides. Users are made and forgotten chunk by chunk, so the memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from askance_client.population import Population, synthetic
from askance_protocol.budget import MICRO
from askance_protocol.errors import ProtocolError
from askance_protocol.estimators import Tally, clopper_pearson, estimate, tally_round
from askance_protocol.queries import CellQuery
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import PreparedPart, PreparedRound, StudySpec, prepare_round
from askance_server import planning
from askance_server.rounds import study_of
from askance_server.strategies import Answer, Ask, Hypothesis, Run, Strategy
from askance_server.strategies.strategy import Parameters

CHUNK: Final = 1 << 18
Learner = Callable[[int, int], "Outcome"]
"""From users and a seed to how a study ended."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one study ended."""

    success: bool
    asked: int
    """Users who gave a report."""
    rounds: int


@dataclass(frozen=True, slots=True)
class Measured:
    """How a number of studies ended that differ in nothing but their seeds."""

    users: int
    seeds: int
    successes: int
    asked: float
    rounds: float

    @property
    def rate(self) -> float:
        """The share of successes."""
        return self.successes / self.seeds

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Clopper and Pearson's interval for the chance of success."""
        low, high = clopper_pearson(np.array([self.successes]), self.seeds, confidence)
        return float(low[0]), float(high[0])

    def to_json(self) -> dict[str, Any]:
        """For a report."""
        return {
            "users": self.users,
            "seeds": self.seeds,
            "successes": self.successes,
            "rate": self.rate,
            "interval": [round(end, 4) for end in self.interval()],
            "mean_asked": round(self.asked),
            "mean_rounds": round(self.rounds, 2),
        }


@dataclass(frozen=True, slots=True)
class Needed:
    """The fewest users of those tried at which enough studies succeeded, and all that was tried."""

    users: int
    tried: tuple[Measured, ...]


def users_needed(
    learner: Learner,
    seeds: Sequence[int],
    start: int,
    rate: Fraction = Fraction(19, 20),
    step: Fraction = Fraction(1, 50),
) -> Needed:
    """Search until the fewest users that do and the most that do not lie within `step` of each other.

    The same seeds everywhere, so that the rates that are compared share their populations.
    """
    tried: list[Measured] = []

    def enough(users: int) -> bool:
        tried.append(measure(learner, users, seeds))
        return tried[-1].successes >= rate * tried[-1].seeds

    low, high = _bracket(enough, start)
    while high - low > max(1, step * low):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return Needed(high, tuple(sorted(tried, key=lambda measured: measured.users)))


def _bracket(enough: Callable[[int], bool], start: int) -> tuple[int, int]:
    """Users that do not suffice, and users that do, an eighth apart."""
    users, last = start, 0
    if enough(users):
        while users > 1 and enough(lower := users * 8 // 9):
            users = lower
        return users * 8 // 9, users
    while not enough(users):
        users, last = users + max(1, users // 8), users
    return last, users


def measure(learner: Learner, users: int, seeds: Sequence[int]) -> Measured:
    """Run it once for each seed."""
    ended = [learner(users, seed) for seed in seeds]
    asked, rounds = (sum(values) / len(ended) for values in ([e.asked for e in ended], [e.rounds for e in ended]))
    return Measured(users, len(ended), sum(e.success for e in ended), asked, rounds)


def learner_of(strategy: Strategy, parameters: Parameters, kind: str = "masked-parity") -> Learner:
    """A strategy over a kind of population, which shares its parameters `d` and the like."""
    own = planning.strategy_parameters(parameters)

    def learn(users: int, seed: int) -> Outcome:
        return study(strategy, {"users": "all", **parameters}, synthetic(kind, own, seed), users, seed)

    return learn


def study(strategy: Strategy, parameters: Parameters, population: Population, users: int, seed: int) -> Outcome:
    """One study, to its end. It fails, as on the server, where a part hears of nobody or too few are left."""
    title, nonce = f"{strategy.name}, {users} users", f"{seed:032x}"
    strategies = {strategy.name: strategy}
    spec = study_of(strategies, strategy=strategy.name, parameters=parameters, title=title, nonce=nonce, simulated=True)
    asking, people = Run(strategy, planning.strategy_parameters(parameters)), _People(spec, population, users, seed)
    said = asking.step(None)
    while not isinstance(said, Hypothesis):
        answers = people.answer(strategy, said)
        if answers is None:
            return Outcome(False, people.asked, people.rounds)
        said = asking.step(answers)
    learned = said.value
    success = all(learned.get(name) == value for name, value in population.truth.items())
    return Outcome(success, people.asked, people.rounds)


class _People:
    """The users of one study, and which of them have reported."""

    def __init__(self, study: StudySpec, population: Population, users: int, seed: int) -> None:
        self._study, self._population, self._users = study, population, users
        self._source = SimulatedRandom(seed)
        self._first_slot = self.asked = self.rounds = 0
        # Everybody pays once at most, since rounds ask runs of slots that no earlier round took: so all can pay.
        charge = planning.terms_of(study.parameters).epsilon
        self._payers = planning.payers(study, users, charge, _all)

    def answer(self, strategy: Strategy, asks: Sequence[Ask]) -> list[Answer] | None:
        """Publish the next round, hear its users, estimate."""
        number = self.rounds + 1
        place = planning.Place(number, strategy.portion(number), self._first_slot)
        demand = planning.demand(self._study, asks, strategy.rounds)
        try:
            spec = planning.plan(self._study, demand, place, self._users, self._payers, now=0)
        except planning.TooFewUsersError:
            return None
        self.rounds, self._first_slot = number, spec.cohort.first_slot + spec.cohort.slot_count
        tallies = self._hear(prepared := prepare_round(self._study, spec))
        if not all(tally.received for tally in tallies):
            return None
        return [_answer(*pair) for pair in zip(prepared.parts, tallies, strict=True)]

    def _hear(self, round_: PreparedRound) -> list[Tally]:
        total: list[Tally] | None = None
        for begin in range(0, self._users, CHUNK):
            users = range(begin, min(begin + CHUNK, self._users))
            mine = np.flatnonzero(round_.asked(users))
            columns = self._population.columns(users).take(mine)
            numbers = (mine + begin).astype(np.uint64)
            outcomes = round_.respond_all(numbers, columns, self._source).outcomes
            tallies = tally_round(round_, numbers, outcomes)
            total = tallies if total is None else [a + b for a, b in zip(total, tallies, strict=True)]
            self.asked += len(mine)
        if total is None:
            raise ProtocolError("nobody takes part", where="users", remedy="give one user at least")
        return total


def _answer(part: PreparedPart, tally: Tally) -> Answer:
    """As the server reads its tallies."""
    values = estimate(part, tally).values
    return values if isinstance(part.query.query, CellQuery) else float(values[0])


def _all(users: range, charge: int) -> NDArray[np.bool]:
    return np.full(len(users), charge <= 1000 * MICRO)
