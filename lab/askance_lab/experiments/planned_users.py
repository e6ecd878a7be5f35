"""The number of users for a strategy, by the papers' bound and by the server's plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median_low
from typing import Final

from askance_client.population import Population
from askance_client.simulation.population.over_schema import over_schema
from askance_lab.data.made_up import made_up, split_parameters
from askance_lab.experiments.enrolment import users_as_needed, users_to_enrol
from askance_lab.experiments.possible_runs import PossibleRuns, RoundTargets, answers_to, possible_runs
from askance_lab.theory.local import users_sq_simulation_repaired, users_sq_simulation_stated
from askance_protocol.errors import UsageError
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.rounds import Cohort, RoundSpec, StudySpec, prepare_round
from askance_protocol.schema import Schema
from askance_server.core import planning
from askance_server.core.adapted import adapted
from askance_server.core.liars import Shift, shifts
from askance_server.core.questions_each import factors_of
from askance_server.core.run import StrategyError
from askance_server.core.sample_size import reports_suffice
from askance_server.core.strategy import Ask, Parameters, Strategy
from askance_server.core.study import strategy_named, study_of
from askance_server.strategies.registry import registry

_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """One round of a strategy, at the most that it may ask, and its number of users."""

    queries: int
    """As the papers count them: one for each cell of a partition."""
    tolerance: float
    channels: tuple[str, ...]
    """Kinds of the channels by which it asks."""
    stated: int
    """KLNRS11, Thm 5.7, with the constant 1, which is not proved."""
    repaired: int
    """The same with the constants that are proved: enough for every population."""
    planned: int
    """As the server plans, by exact binomial tails: what the strategy's promise needs."""
    liars: tuple[Shift, ...]
    """How far liars could shift the answers of this round, whatever its number of users."""
    one_bit: bool
    """Whether all its users answer one question by one bit, with no public row."""
    questions_each: int = 1
    """The most questions that a user answers, in one report."""


@dataclass(frozen=True, slots=True)
class Typical:
    """Users of a study over made-up users: the median of some populations."""

    users: int
    populations: int
    rounds: int


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The rounds of a strategy, and how many users have to enrol for them."""

    rounds: tuple[PlannedRound, ...]
    """Each at the most that it may need."""
    enrol: int
    """So many users suffice: in a study that takes as many as it needs, and in one that takes all."""
    typical: Typical | None
    """What a study takes that takes as many as it needs; None: nobody has asked."""
    tried: int
    """Number of runs that the rounds are the most of; 0: they are the most of every run."""


def plan_study(
    name: str,
    parameters: Parameters,
    kind: str | None = None,
    example: Schema | None = None,
    tell: Tell = tell_nobody,
) -> StudyPlan:
    """Plan of a strategy, over representative populations: uniform over `example`, if it is given.

    `tell` hears how many rounds have been asked and planned.
    """
    study, strategy, runs = _possible(name, parameters, kind, example, tell, typical=True)
    targets, terms = RoundTargets(study, strategy.rounds), planning.terms_of(study.parameters)
    rounds = tuple(_round(asks, strategy.rounds, terms, targets) for asks in _told(runs.most, "planning rounds", tell))
    typical = Typical(runs.median(users_as_needed), len(runs.typical), median_low(map(len, runs.typical)))
    return StudyPlan(rounds, _enrol(study, strategy, runs, tell), typical, runs.tried)


def plan_enrolment(
    name: str,
    parameters: Parameters,
    kind: str | None = None,
    example: Schema | None = None,
    tell: Tell = tell_nobody,
) -> int:
    """How many users have to enrol, as `plan_study` says it, and nothing else: this takes some milliseconds."""
    study, strategy, runs = _possible(name, parameters, kind, example, tell, typical=False)
    return _enrol(study, strategy, runs, tell)


def _possible(
    name: str, parameters: Parameters, kind: str | None, example: Schema | None, tell: Tell, *, typical: bool
) -> tuple[StudySpec, Strategy, PossibleRuns]:
    """The study that is planned, its strategy as it runs there, and what that may ask."""
    strategies = registry()
    if name in strategies.broken:
        raise UsageError(strategies.broken[name], where=name, remedy="mend it, or plan another strategy")
    strategy, asked = strategy_named(strategies, name), parameters

    def over(seed: int) -> Population:
        return made_up(strategy, asked, seed, own, kind) if example is None else over_schema(example, seed)

    own: Parameters = {}
    if example is None:
        asked, own = split_parameters(strategy, parameters, kind)
        if most := planning.terms_of(asked).eta_most:
            # The more labels are wrong, the more hypotheses there may be to choose among.
            own = {**own, "eta": str(float(most))}
    schema = over(_SEED).schema
    study = study_of(
        strategies,
        strategy=name,
        parameters=asked,
        title="A plan",
        nonce="0" * 32,
        simulated=True,
        example=schema if strategy.over else example,
    )
    runs = adapted(strategy, study)
    try:
        return study, runs, possible_runs(study, runs, cache(over), tell, typical=typical or runs.checks)
    except StrategyError as error:
        raise StrategyError(error.what, where=error.where or name) from error


def _enrol(study: StudySpec, strategy: Strategy, runs: PossibleRuns, tell: Tell) -> int:
    """So many suffice, whichever run it is."""
    # Who checks what it learned, and says so, may be asked of all: too few users, and it promises nothing.
    shared = runs.typical if strategy.checks else (runs.targets,)
    enrol = max(users_to_enrol(strategy, each, runs.targets) for each in shared)
    if strategy.rounds == len(runs.most) == len(runs.most[0]) == 1:
        enrol = _exactly(study, runs.most[0], enrol, tell)
    return enrol


def planned_rounds(
    name: str, parameters: Parameters, kind: str | None = None, example: Schema | None = None
) -> Sequence[PlannedRound]:
    """Plan of each round of a strategy, as `plan_study` makes it."""
    return plan_study(name, parameters, kind, example).rounds


def _exactly(study: StudySpec, asks: Sequence[Ask], users: int, tell: Tell) -> int:
    """So many users or a few more, all of whom answer the one question of a study: exactly these suffice."""
    [part], [ask], terms = planning.prepared_parts(study, asks), asks, planning.terms_of(study.parameters)
    # Of a row that leads more users are always better.
    while not ask.row_lead and not reports_suffice(part, users, ask.tolerance, terms.beta, ask.sums):
        users += 1 + users // 1000
        tell("trying a number of users", users, 0)
    return users


def _told(every: Sequence[Sequence[Ask]], part: str, tell: Tell) -> Iterator[Sequence[Ask]]:
    """The rounds, one after the other; how many have been worked on is told."""
    tell(part, 0, len(every))
    for number, asks in enumerate(every, 1):
        yield asks
        tell(part, number, len(every))


def _round(asks: Sequence[Ask], rounds: int, terms: planning.PlanTerms, targets: RoundTargets) -> PlannedRound:
    """KLNRS11, Thm 5.7, on the queries of one round; β is shared by the rounds, as the planner shares it."""
    demand = targets.demand(asks)
    draft = RoundSpec(
        study=targets.study.digest(), number=1, parts=demand.parts, cohort=Cohort(users=1), target=1, deadline=0
    )
    parts = prepare_round(targets.study, draft).parts
    liars = tuple(max(same, key=lambda one: one.shift) for same in zip(*map(shifts, parts), strict=True))
    queries = sum(answers_to(ask) for ask in asks)
    tolerance, epsilon, failure = min(ask.tolerance for ask in asks), terms.epsilon / 1e6, terms.beta / rounds
    stated = users_sq_simulation_stated(
        queries=queries, bound=1, tolerance=tolerance, epsilon=epsilon, failure=failure, constant=1
    )
    repaired = users_sq_simulation_repaired(
        queries=queries, bound=1, tolerance=tolerance, epsilon=epsilon, failure=failure
    )
    channels = tuple(dict.fromkeys(part.channel.kind for part in demand.parts))
    one_bit = [(part.part.channel.kind, part.rows) for part in parts] == [("binary", 1)]
    each = max(len(factors_of(ask.query)) or 1 for ask in asks)
    return PlannedRound(queries, tolerance, channels, stated, repaired, demand.target, liars, one_bit, each)
