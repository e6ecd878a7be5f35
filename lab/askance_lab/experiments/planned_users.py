"""The number of users for a strategy, by the papers' bound and by the server's plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from askance_client.simulation.population.over_schema import over_schema
from askance_lab.data.made_up import made_up, split_parameters
from askance_lab.evaluation.weighted import WeightedExamples
from askance_lab.experiments.enrolment import users_to_enrol
from askance_lab.oracles.exact import Exact
from askance_lab.theory.local import users_sq_simulation_repaired, users_sq_simulation_stated
from askance_protocol.errors import AskanceError, UsageError
from askance_protocol.progress import Tell, tell_nobody
from askance_protocol.queries import CellQuery
from askance_protocol.rounds import Cohort, RoundSpec, StudySpec, prepare_round
from askance_protocol.schema import Schema
from askance_server.core import planning
from askance_server.core.adapted import adapted
from askance_server.core.liars import Shift, shifts
from askance_server.core.questions_each import factors_of
from askance_server.core.run import Run, StrategyError, raised
from askance_server.core.sample_size import reports_suffice
from askance_server.core.strategy import Answer, Ask, Hypothesis, Parameters, Strategy
from askance_server.core.study import strategy_named, study_of
from askance_server.strategies.registry import registry

_SAMPLE: Final = 20_000
"""Number of examples that stand for the population, so that an adaptive strategy can go on to its next round."""
_SEED: Final = 1


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """One round of a strategy and its number of users."""

    queries: int
    """As the papers count them: one for each cell of a partition."""
    tolerance: float
    stated: int
    repaired: int
    planned: int
    liars: tuple[Shift, ...]
    """How far liars could shift the answers of this round, whatever its number of users."""
    questions_each: int = 1
    """The most questions that a user answers, in one report."""


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The rounds of a strategy, and how many users have to enrol for them."""

    rounds: tuple[PlannedRound, ...]
    enrol: int
    """So many users suffice: in a study that takes as many as it needs, and in one that takes all."""


def plan_study(
    name: str,
    parameters: Parameters,
    kind: str | None = None,
    example: Schema | None = None,
    tell: Tell = tell_nobody,
) -> StudyPlan:
    """Plan of a strategy, over a representative population: uniform over `example`, if it is given.

    `tell` hears how many rounds have been asked and planned.
    """
    strategies = registry()
    if name in strategies.broken:
        raise UsageError(strategies.broken[name], where=name, remedy="mend it, or plan another strategy")
    strategy = strategy_named(strategies, name)
    if example is None:
        asked, own = split_parameters(strategy, parameters, kind)
        if most := planning.terms_of(asked).eta_most:
            # The more labels are wrong, the more hypotheses there may be to choose among.
            own = {**own, "eta": str(float(most))}
        population = made_up(strategy, asked, _SEED, own, kind)
    else:
        asked, population = parameters, over_schema(example, _SEED)
    study = study_of(
        strategies,
        strategy=name,
        parameters=asked,
        title="A plan",
        nonce="0" * 32,
        simulated=True,
        example=population.schema if strategy.over else example,
    )
    strategy = adapted(strategy, study)
    oracle = Exact(WeightedExamples(population.columns(range(_SAMPLE))))
    try:
        every = _asked(strategy, asked, oracle.answer, tell)
        rounds = [
            _round(asks, strategy.rounds, planning.terms_of(asked), *_planned(study, asks, strategy.rounds))
            for asks in _told(every, "planning rounds", tell)
        ]
    except StrategyError as error:
        raise StrategyError(error.what, where=name) from error
    enrol = users_to_enrol(strategy, [each.planned for each in rounds], _longest(study, strategy, asked, tell))
    if strategy.rounds == len(every) == len(every[0]) == 1:
        enrol = _exactly(study, every[0], enrol, tell)
    return StudyPlan(tuple(rounds), enrol)


def planned_rounds(
    name: str, parameters: Parameters, kind: str | None = None, example: Schema | None = None
) -> Sequence[PlannedRound]:
    """Plan of each round of a strategy, as `plan_study` makes it."""
    return plan_study(name, parameters, kind, example).rounds


def _exactly(study: StudySpec, asks: Sequence[Ask], users: int, tell: Tell) -> int:
    """So many users or a few more, all of whom answer the one question of a study: exactly these suffice."""
    [part], [ask], terms = planning.prepared_parts(study, asks), asks, planning.terms_of(study.parameters)
    while not reports_suffice(part, users, ask.tolerance, terms.beta, ask.sums):
        users += 1 + users // 1000
        tell("trying a number of users", users, 0)
    return users


Answering: TypeAlias = Callable[[Sequence[Ask]], Sequence[Answer]]


def _asked(strategy: Strategy, parameters: Parameters, answer: Answering, tell: Tell) -> list[Sequence[Ask]]:
    """The asks of each round of a strategy that is answered so. It may end before it has asked all its rounds."""
    run, asks = Run(strategy, planning.strategy_parameters(parameters)), list[Sequence[Ask]]()
    tell("asking rounds", 0, strategy.rounds)
    said = run.step(None)
    while not isinstance(said, Hypothesis):
        asks.append(said)
        said = run.step(answer(said))
        tell("asking rounds", len(asks), strategy.rounds)
    return asks


def _told(every: Sequence[Sequence[Ask]], part: str, tell: Tell) -> Iterator[Sequence[Ask]]:
    """The rounds, one after the other; how many have been worked on is told."""
    tell(part, 0, len(every))
    for number, asks in enumerate(every, 1):
        yield asks
        tell(part, number, len(every))


def _longest(study: StudySpec, strategy: Strategy, parameters: Parameters, tell: Tell) -> Sequence[int]:
    """Targets of the rounds of a strategy to which every answer is 1; none if it cannot bear that."""
    try:
        every = _asked(strategy, parameters, _ones, tell)
        return [_planned(study, asks, strategy.rounds)[0] for asks in _told(every, "planning the longest", tell)]
    except StrategyError:
        return ()


def _ones(asks: Sequence[Ask]) -> Sequence[Answer]:
    return [np.ones(ask.query.cells) if isinstance(ask.query, CellQuery) else 1.0 for ask in asks]


def _planned(study: StudySpec, asks: Sequence[Ask], rounds: int) -> tuple[int, tuple[Shift, ...]]:
    """The target of a round, and what liars could do to it: the most to any of its parts."""
    try:
        demand = planning.demand(study, asks, rounds)
        draft = RoundSpec(
            study=study.digest(), number=1, parts=demand.parts, cohort=Cohort(users=1), target=1, deadline=0
        )
        each = (shifts(part) for part in prepare_round(study, draft).parts)
        return demand.target, tuple(max(same, key=lambda one: one.shift) for same in zip(*each, strict=True))
    except AskanceError:
        raise
    except Exception as error:
        # A query that was not made by its class, for instance.
        raise raised(error) from error


def _round(
    asks: Sequence[Ask], rounds: int, terms: planning.PlanTerms, planned: int, liars: tuple[Shift, ...]
) -> PlannedRound:
    """KLNRS11, Thm 5.7, on the queries of one round; β is shared by the rounds, as the planner shares it."""
    queries = sum(len(ask.sums) or (ask.query.cells if isinstance(ask.query, CellQuery) else 1) for ask in asks)
    tolerance, epsilon, failure = min(ask.tolerance for ask in asks), terms.epsilon / 1e6, terms.beta / rounds
    stated = users_sq_simulation_stated(
        queries=queries, bound=1, tolerance=tolerance, epsilon=epsilon, failure=failure, constant=1
    )
    repaired = users_sq_simulation_repaired(
        queries=queries, bound=1, tolerance=tolerance, epsilon=epsilon, failure=failure
    )
    each = max(len(factors_of(ask.query)) or 1 for ask in asks)
    return PlannedRound(queries, tolerance, stated, repaired, planned, liars, each)
