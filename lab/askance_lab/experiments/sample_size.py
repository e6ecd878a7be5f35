"""The number of users that a strategy needs: trials in process, and a search.

A study is planned, dealt, answered, randomized, tallied and estimated as over a server, user by user: what is left out
is the wire and the ledger. All of the users who are enrolled count, whether they were asked or not; how many were asked
on average is told besides. Users are made and forgotten chunk by chunk, so the memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from askance_client.population import Population
from askance_lab.data.made_up import made_up
from askance_lab.engines import Engine, engine
from askance_lab.evaluation.error import error_of
from askance_lab.evaluation.exact import is_kept
from askance_lab.evaluation.proportion import Proportion
from askance_lab.experiments.trials import Trial, run_trials
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.shared.oracle import run
from askance_server.core import planning
from askance_server.core.run import StrategyError
from askance_server.core.strategy import Learnt, Parameters, Strategy


class TrialOutcome(NamedTuple):
    """Result of one study."""

    success: bool
    asked: int
    """Users who gave a report."""
    rounds: int


LearnerTrial: TypeAlias = Trial[int, TrialOutcome]
"""From a number of users and a seed to how a study ended."""

IN_PROCESS: Final[Engine] = engine()


@dataclass(frozen=True, slots=True)
class SuccessRate:
    """Results of several studies that differ only in their seeds."""

    users: int
    right: Proportion
    """The studies that succeeded."""
    asked: float
    """Users who gave a report, on average."""
    rounds: float
    """Rounds, on average."""
    most_rounds: int
    """Rounds of the study that took the most."""

    def to_json(self) -> dict[str, Any]:
        """For a report."""
        return {
            "users": self.users,
            "seeds": self.right.total,
            "successes": self.right.count,
            "rate": self.right.rate,
            "interval": [round(end, 4) for end in self.right.interval],
            "mean_asked": round(self.asked),
            "mean_rounds": round(self.rounds, 2),
            "rounds": self.most_rounds,
        }


@dataclass(frozen=True, slots=True)
class UsersNeeded:
    """Smallest tested number of users at which enough studies succeeded, and all tested numbers."""

    users: int
    tried: tuple[SuccessRate, ...]

    @property
    def measured(self) -> SuccessRate:
        """How the studies with this number of users ended."""
        return next(tried for tried in self.tried if tried.users == self.users)


def users_needed(
    learner: LearnerTrial,
    seeds: Sequence[int],
    start: int,
    rate: Fraction = Fraction(19, 20),
    step: Fraction = Fraction(1, 50),
    engine: Engine = IN_PROCESS,
) -> UsersNeeded:
    """Search until the smallest sufficient and the largest insufficient number are within `step` of each other.

    The same seeds everywhere, so that the rates that are compared share their populations.
    """
    tried: list[SuccessRate] = []

    def enough(users: int) -> bool:
        tried.append(measure(learner, users, seeds, engine))
        return tried[-1].right.count >= rate * tried[-1].right.total

    low, high = _bracket(enough, start)
    while high - low > max(1, step * low):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return UsersNeeded(high, tuple(sorted(tried, key=lambda measured: measured.users)))


def _bracket(enough: Callable[[int], bool], start: int) -> tuple[int, int]:
    """An insufficient and a sufficient number of users, an eighth apart."""
    users = start
    if enough(users):
        while users > 1 and enough(lower := users * 8 // 9):
            users = lower
        return users * 8 // 9, users
    while True:
        last, users = users, users + max(1, users // 8)
        if enough(users):
            return last, users


def measure(learner: LearnerTrial, users: int, seeds: Sequence[int], engine: Engine = IN_PROCESS) -> SuccessRate:
    """Run the learner with this number of users, once for each seed."""
    ended = run_trials(learner, users, seeds, engine)
    asked, rounds = (sum(values) / len(ended) for values in ([e.asked for e in ended], [e.rounds for e in ended]))
    right = Proportion(sum(e.success for e in ended), len(ended))
    return SuccessRate(users, right, asked, rounds, max(e.rounds for e in ended))


@dataclass(frozen=True, slots=True)
class StudyTrial:
    """A `LearnerTrial`: a strategy over a kind of population that shares its parameters."""

    strategy: Strategy
    parameters: Parameters
    kind: str

    def __call__(self, users: int, seed: int) -> TrialOutcome:
        """Run one study over a population that the seed draws."""
        population = made_up(self.strategy, self.parameters, seed, kind=self.kind)
        return study(self.strategy, {"users": "all", **self.parameters}, population, users, seed)


def learner_of(strategy: Strategy, parameters: Parameters, kind: str = "masked-parity") -> LearnerTrial:
    """A trial of this strategy over this kind of population."""
    return StudyTrial(strategy, parameters, kind)


@dataclass(frozen=True, slots=True)
class PromiseTrial:
    """A `LearnerTrial` that succeeds where the strategy's promise is kept, over the made-up users it is shown on."""

    strategy: Strategy
    parameters: Parameters
    own: Parameters
    """The population's own parameters."""
    kind: str | None = None
    """Of the made-up users; None: whom the strategy is shown on."""
    counts: bool = False
    """Whether tallies are drawn from their law, and no user is made."""

    def __call__(self, users: int, seed: int) -> TrialOutcome:
        """Run one study over a population that the seed draws."""
        population = made_up(self.strategy, self.parameters, seed, self.own, self.kind)
        parameters, right = {"users": "all", **self.parameters}, partial(self._kept, population)
        strategy = self.strategy.on(population.schema)
        return study(strategy, parameters, population, users, seed, right, counts=self.counts)

    def _kept(self, population: Population, learned: Learnt, truth: Learnt) -> bool:  # noqa: ARG002 - the population's
        own = planning.strategy_parameters(self.parameters)
        kept = is_kept(self.strategy, own, error_of(self.strategy, learned, population).value)
        if kept is None:
            raise StrategyError("promises nothing whose error is known", where=self.strategy.name)
        return kept


def exactly(learned: Learnt, truth: Learnt) -> bool:
    """Whether what was learned is what is true."""
    return all(learned.get(name) == value for name, value in truth.items())


def study(
    strategy: Strategy,
    parameters: Parameters,
    population: Population,
    users: int,
    seed: int,
    right: Callable[[Learnt, Learnt], bool] = exactly,
    *,
    counts: bool = False,
) -> TrialOutcome:
    """Run one study. It fails, as on the server, if a part gets no report or too few users are left."""
    people = LocalReports(study_for(strategy, parameters, seed), strategy, population, users, seed, counts=counts)
    try:
        learned = run(strategy, planning.strategy_parameters(parameters), people).hypothesis.value
    except planning.TooFewUsersError:
        return TrialOutcome(False, sum(people.received), len(people.rounds))
    return TrialOutcome(right(learned, population.truth), sum(people.received), len(people.rounds))
