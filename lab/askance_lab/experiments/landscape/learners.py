"""Learners of the landscape: from a made-up problem and a seed to a hypothesis, or None.

At ε = 1 and δ = 10^−6 if nothing else is given. Local learners go user by user through the protocol's own rounds; a
curator's are her mechanisms, with exact draws; a learner that is not private takes any hypothesis that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from askance_lab.curator import affine
from askance_lab.curator.concepts import A_MASKED_PARITY, A_PARITY, Answer, AnswerForm, ConceptClass, Database
from askance_lab.curator.databases import BitSample, LabelledSample, masked_examples, unpacked
from askance_lab.curator.draws import Below, below
from askance_lab.curator.mechanism import Mechanism
from askance_lab.data.problems import LearningProblem
from askance_lab.oracles.curator import Curator
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.shared.crowds import People
from askance_lab.oracles.shared.oracle import run
from askance_lab.oracles.shared.portions import evenly
from askance_lab.theory.targets import Targets
from askance_protocol.budget import MICRO
from askance_protocol.randomness import SimulatedRandom
from askance_server.core.planning import TooFewUsersError
from askance_server.core.strategy import Parameters, Strategy
from askance_server.strategies.registry import registry

Found: TypeAlias = Mapping[str, object]
"""A hypothesis as strategies write it."""
Learner: TypeAlias = Callable[[LearningProblem, Targets, int], Found | None]
"""From a problem, targets and a seed for the noise to a hypothesis."""


# ------------------------------------------------------------------------------------------------------------- local


def local(strategy: Strategy | Callable[[int], Strategy], *names: str) -> Learner:
    """Run a strategy over the users themselves; `names` are the parameters, besides d, that it takes."""

    def learn(problem: LearningProblem, targets: Targets, seed: int) -> Found | None:
        chosen = strategy if isinstance(strategy, Strategy) else strategy(problem.d)
        parameters = _parameters(problem, names)
        epsilon = f"{targets.micro / MICRO:.6f}"
        study = study_for(chosen, {**parameters, "users": "all", "epsilon": epsilon}, seed)
        people = LocalReports(study, chosen, problem.people, problem.users, seed)
        try:
            return run(chosen, parameters, people).hypothesis.value
        except TooFewUsersError:
            return None

    return learn


def sulq(strategy: Strategy, *names: str) -> Learner:
    """Run a strategy whose queries a curator answers, each from a chunk of its own: BB-notes, Thm 7."""

    def learn(problem: LearningProblem, targets: Targets, seed: int) -> Found | None:
        people, portions = People(problem.people, problem.users), evenly(strategy)
        oracle = Curator(people, portions, micro_epsilon=targets.micro, seed=seed)
        try:
            return run(strategy, _parameters(problem, names), oracle).hypothesis.value
        except TooFewUsersError:
            return None

    return learn


def strategy(name: str) -> Strategy:
    """A built-in strategy."""
    return registry()[name]


def _parameters(problem: LearningProblem, names: Sequence[str]) -> Parameters:
    known: Parameters = {"d": problem.d, "alpha": str(problem.alpha)}
    return {name: known[name] for name in ("d", *names)}


# ----------------------------------------------------------------------------------------------------------- curator


def curated(mechanism: Mechanism[Database, Answer]) -> Learner:
    """Run a curator's mechanism on the examples of its own class."""
    return curated_on(mechanism, mechanism.concepts, mechanism.answers)


def curated_on(
    mechanism: Mechanism[Database, Answer], concepts: ConceptClass[Database], answers: AnswerForm[Database, Answer]
) -> Learner:
    """Run a mechanism on another class's examples that are a special case of its own, as MASKED-PARITY of PARITY."""

    def learn(problem: LearningProblem, targets: Targets, seed: int) -> Found | None:
        found = mechanism.run(concepts.database(problem.columns), targets, _draw(problem, seed))
        return None if found is None else answers.to_json(found, problem.d)

    return learn


def _draw(problem: LearningProblem, seed: int) -> Below:
    """Noise source that differs for each number of users, so that failures are independent."""
    return below(SimulatedRandom(seed, stream=problem.users))


# ------------------------------------------------------------------------------------------------------- not private


def openly(learn: Callable[[LearningProblem], Found | None]) -> Learner:
    """Run a learner that is not private: it has no targets and draws nothing."""
    return lambda problem, _targets, _seed: learn(problem)


def eliminate(problem: LearningProblem) -> Found | None:
    """Any consistent parity."""
    return _any_solution(problem, BitSample.of_odd(problem.columns), A_PARITY)


def eliminate_masked(problem: LearningProblem) -> Found | None:
    """Any consistent masked parity."""
    return _any_solution(problem, masked_examples(problem.columns), A_MASKED_PARITY)


def _any_solution(problem: LearningProblem, sample: BitSample, answers: AnswerForm[BitSample, int]) -> Found | None:
    solutions = affine.solve_sample(sample, np.ones(len(sample), np.bool))
    return None if solutions is None else answers.to_json(solutions.solution(0), problem.d)


def never_missing(problem: LearningProblem) -> Found:
    """The longest consistent conjunction: all bits that no positive example lacks."""
    sample = BitSample.of_positive(problem.columns)
    positive = unpacked(sample.words, problem.d)[sample.labels]
    return {"variables": np.flatnonzero(positive.all(axis=0)).tolist()}


def any_positive(problem: LearningProblem) -> Found | None:
    """Point of a positive example, if there is one."""
    found = next(_positive(problem), None)
    return None if found is None else {"point": found}


def last_positive(problem: LearningProblem) -> Found:
    """The first consistent threshold."""
    return {"threshold": max((x + 1 for x in _positive(problem)), default=0)}


def _positive(problem: LearningProblem) -> Iterator[int]:
    return (x for x, label in LabelledSample.of_columns(problem.columns).pairs() if label)
