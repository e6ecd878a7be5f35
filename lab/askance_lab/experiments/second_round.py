"""What a second round is worth: a learner in two rounds and one in one, on several concepts, and the limit.

A concept is drawn for each population anew, so one concept is one trial: a learner that has to guess the mask bit is
right on half of them. KLNRS11, §5.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from askance_lab.data.made_up import made_up
from askance_lab.evaluation.exact import exact_error
from askance_lab.evaluation.proportion import Proportion, difference_interval
from askance_lab.experiments.separation.measurement import (
    BLIND,
    INTERACTIVE,
    NONINTERACTIVE,
    TWO_ROUNDS,
    SeparationPoint,
    name_of,
)
from askance_lab.experiments.separation.users import FAILURE, separation_users
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.shared.oracle import run
from askance_lab.theory.masked_parity import users_masked_parity_pooled
from askance_protocol.budget import charge_from_text, to_text
from askance_protocol.errors import AskanceError, Code
from askance_protocol.parameters import Parameters
from askance_server.core.study import check_answerable
from askance_server.strategies.registry import registry

LEARNERS: Final = (TWO_ROUNDS, NONINTERACTIVE)
"""Exactly two rounds, and the best strategy here of one."""
LIVE_LEARNERS: Final = (INTERACTIVE, NONINTERACTIVE)
"""With as few users as a server and its clients ask within seconds, two rounds are no better than one; more are."""
HIGHER: Final = (16, 32, 64)
"""Dimensions that are told beside the one that was shown."""


@dataclass(frozen=True, slots=True)
class ConceptTask:
    """What is shown: dimension, ε of each report as text, and the number of users of each concept."""

    d: int
    epsilon: str
    users: int

    @property
    def parameters(self) -> Parameters:
        """Parameters of each study: of all its users, as every one of them can pay."""
        return {"d": self.d, "users": "all", "epsilon": self.epsilon}


@dataclass(frozen=True, slots=True)
class ConceptResult:
    """What one learner came to on one concept."""

    concept: int
    """Its number, from 1."""
    seed: int
    """Of its users: their examples, and the concept itself."""
    learner: str
    truth: Mapping[str, Any]
    hypothesis: Mapping[str, Any]
    users: int
    """How many were asked, of those that there were."""
    rounds: int
    text: str
    """What was learned, or why nothing was, in words."""

    @property
    def error(self) -> float | None:
        """The error under the distribution itself; None where nothing was learned."""
        return exact_error(registry()[self.learner], self.hypothesis, self.truth)


def truth_of(task: ConceptTask, seed: int) -> Mapping[str, Any]:
    """The concept of the users with this seed."""
    return made_up(registry()[LEARNERS[0]], {"d": task.d}, seed).truth


def check_task(task: ConceptTask) -> None:
    """Refuse a dimension or an ε that a server would refuse, before there is one."""
    for learner in {*LEARNERS, *LIVE_LEARNERS}:
        check_answerable(study_for(registry()[learner], task.parameters, 0), registry())


def learn_in_process(task: ConceptTask, learner: str, concept: int, seed: int) -> ConceptResult:
    """One study in this process: the server's own plan and the users' own channels, by `run_study`."""
    strategy, own = registry()[learner], {"d": task.d}
    population = made_up(strategy, own, seed)
    study = study_for(strategy, task.parameters, seed)
    oracle = LocalReports(study, strategy, population, task.users, seed)
    try:
        learned = run(strategy, own, oracle)
    except AskanceError as error:
        if error.code not in {Code.TOO_FEW_USERS, Code.STRATEGY}:
            raise
        asked = sum(oracle.received)
        return ConceptResult(concept, seed, learner, population.truth, {}, asked, len(oracle.rounds), str(error))
    found = learned.hypothesis
    return ConceptResult(
        concept, seed, learner, population.truth, found.value, learned.users, learned.rounds, found.text
    )


# ------------------------------------------------------------------------------------------------------ what came of it


def name_by_rounds(learner: str) -> str:
    """A learner by the rounds that its strategy declares; `SecondRound` says those that were measured."""
    return {1: "one round", 2: "two rounds"}.get(registry()[learner].rounds, "more rounds")


@dataclass(frozen=True, slots=True)
class RoundsAndLimit:
    """Users for one dimension: enough in two rounds, and what no learner in one round can do without."""

    d: int
    in_rounds: int
    measured: bool
    """Whether `in_rounds` was measured (`separation.users`); otherwise it is enough by a formula, and not the least."""
    at_once_limit: int | None
    """By `users_at_once_proved`, for every learner with one report of each user; None where ε is too large for it."""


@dataclass(frozen=True, slots=True)
class SecondRound:
    """What the learner in two rounds and the one in one came to on the concepts whose errors are known."""

    task: ConceptTask
    in_rounds: SeparationPoint
    at_once: SeparationPoint
    asked: Sequence[int]
    """Users that the learner in two rounds asked, for each concept."""

    @property
    def right(self) -> tuple[Proportion, Proportion]:
        """The concepts that each has learned exactly: in rounds, at once."""
        return _right(self.in_rounds), _right(self.at_once)

    @property
    def difference(self) -> tuple[float, float, float]:
        """How much larger the share is in rounds, with an interval at 95 %."""
        many, once = self.right
        return (many.rate - once.rate, *difference_interval(many, once))

    @property
    def sentence(self) -> str:
        """The conclusion."""
        many, once = self.right
        difference, low, high = (100 * share for share in self.difference)
        first, other = (name_of([point], point.learner) for point in (self.in_rounds, self.at_once))
        learned = f"{first} learned {many.count} of {many.total} concepts, {other} {once.count} of {once.total}"
        # An interval is shown as wide as it is: its ends are rounded outwards.
        interval = f"{difference:+.0f} points, {math.floor(low):+d} to {math.ceil(high):+d} at 95 %"
        setting = f"d = {self.task.d}, {self.task.users:,} users; {interval}"
        if low > 0:
            return f"A second round is worth it: {learned} ({setting})."
        if high < 0:
            return f"Here one round was better: {learned} ({setting})."
        return f"No difference is shown: {learned} ({setting})."

    @property
    def sign(self) -> int:
        """1 where two rounds are better, -1 where one is, 0 where no difference is shown."""
        _, low, high = self.difference
        return (low > 0) - (high < 0)

    @property
    def needed(self) -> RoundsAndLimit:
        """Users for the dimension that was shown."""
        return users_needed(self.task.d, self.task.epsilon)

    @property
    def higher(self) -> list[RoundsAndLimit]:
        """Users for higher dimensions."""
        return [users_needed(d, self.task.epsilon) for d in HIGHER if d > self.task.d]

    @property
    def guesses(self) -> bool:
        """Whether the learner at once may be one that knows r and guesses the mask bit: ¼ is in its interval."""
        assert self.at_once.error is not None  # noqa: S101 - told the type checker: all errors are known
        return self.at_once.error[1] <= BLIND <= self.at_once.error[2]


def _right(point: SeparationPoint) -> Proportion:
    assert point.success is not None  # noqa: S101 - told the type checker: all errors are known
    return point.success


def users_needed(d: int, epsilon: str) -> RoundsAndLimit:
    """Users for one dimension, to be right 19 times in 20."""
    known, level = separation_users(d, to_text(charge_from_text(epsilon))), float(epsilon)
    measured = None if known is None else known.two_rounds
    formula = users_masked_parity_pooled(dimension=d, epsilon=level, failure=FAILURE)
    # Beyond some ε nothing is private any more, and no limit is known.
    limit = None if known is None else known.at_once_proved
    return RoundsAndLimit(d, formula if measured is None else measured.users, measured is not None, limit)


def conclude(
    task: ConceptTask, results: Sequence[ConceptResult], learners: Sequence[str] = LEARNERS
) -> SecondRound | None:
    """What came of it, by the concepts on which both learners ended; None where there is none."""
    ended = {(each.concept, each.learner): each for each in results if each.error is not None}
    both = sorted({concept for concept, _ in ended if all((concept, learner) in ended for learner in learners)})
    if not both:
        return None
    points = list[SeparationPoint]()
    for learner in learners:
        mine = [ended[concept, learner] for concept in both]
        errors, rounds = tuple(each.error for each in mine), tuple(each.rounds for each in mine)
        points.append(SeparationPoint(learner, task.d, task.epsilon, task.users, errors, rounds))
    return SecondRound(task, points[0], points[1], [ended[concept, learners[0]].users for concept in both])


# ----------------------------------------------------------------------------------------------------- one live concept

STUDIES: Final = 100
"""Made-up studies that say how often one like the live one comes out so."""


def contradicts(results: Sequence[ConceptResult], shown: SecondRound | None) -> bool:
    """Whether one live concept says the opposite of the conclusion: one learner right, and the other one wrong."""
    errors = {each.learner: each.error for each in results}
    right = [errors.get(learner) == 0 for learner in LIVE_LEARNERS]
    known = all(errors.get(learner) is not None for learner in LIVE_LEARNERS)
    return known and shown is not None and (right[0] - right[1]) * shown.sign < 0


def how_often(task: ConceptTask, shown: SecondRound, seed: int) -> Proportion:
    """Studies like the live one, in this process, whose one concept contradicts the conclusion."""
    found = 0
    for number in range(1, STUDIES + 1):
        both = [learn_in_process(task, learner, number, seed + number) for learner in LIVE_LEARNERS]
        found += contradicts(both, shown)
    return Proportion(found, STUDIES)
