"""What a strategy may ask, over all of its runs: in a typical run, and at the most.

Theory of operation
-------------------
What an adaptive strategy asks depends on its answers. A round needs so many users because of what it asks, so a plan
that has followed one run says nothing about another.

*At the most.* A strategy may declare answers after which it asks the most (`Strategy.longest`): none of its rounds
takes more, whatever it is answered. Then the rounds of that run are enough for every run, and so they are where nothing
is asked after an answer. A strategy that declares nothing is tried out: it is answered by several populations, right,
and as wrong as it allows, all the same way and at random. Other answers, as long as the study keeps its promise, there
are none. Of one that names no users on whom it is shown the populations are uniform, and stand for little: it is
answered by ones, zeros, halves, minus ones and noise besides. Of each round the run that needs the most counts; a round
that it declares and no run came to counts as the largest that one came to. That is what the runs that were tried show,
and no proof: another run may ask for more within a round.

*Typical.* The median over several populations of made-up users, answered exactly, of the users that a study takes which
takes as many as it needs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median_low
from typing import Final

import numpy as np

from askance_client.population import Population
from askance_lab.evaluation.weighted import WeightedExamples
from askance_lab.oracles.adversarial import LieDirection, WorstCase
from askance_lab.oracles.exact import Exact
from askance_protocol.errors import AskanceError
from askance_protocol.progress import Tell
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.rounds import StudySpec
from askance_server.core import planning
from askance_server.core.run import MAX_QUERIES, Run, StrategyError, raised
from askance_server.core.strategy import Answer, Answering, Ask, Hypothesis, Parameters, Strategy

POPULATIONS: Final = 5
"""Populations of made-up users over which a typical run is the median."""
_SAMPLE: Final = 20_000
"""Number of examples that stand for a population, so that an adaptive strategy can go on to its next round."""
_FEW: Final = 5_000
"""The same, for answers that are wrong anyway."""
_WRONG: Final = 2
"""Populations whose answers are wrong."""
_NOISES: Final = 4

RunAsks = tuple[Sequence[Ask], ...]
"""The asks of each round of one run."""


@dataclass(frozen=True, slots=True)
class PossibleRuns:
    """What a strategy may ask."""

    most: RunAsks
    """Of each round the asks that need the most reports."""
    targets: tuple[int, ...]
    """Reports of these rounds."""
    typical: tuple[tuple[int, ...], ...]
    """By population the reports of the rounds that were asked."""
    tried: int
    """Number of runs that these are the most of; 0: they are the most of every run."""

    def median(self, users: Callable[[Sequence[int]], int]) -> int:
        """Users of the median population, by what the rounds of a run need."""
        return median_low(map(users, self.typical))


@dataclass(slots=True)
class RoundTargets:
    """Reports that a round needs until it closes, each round worked out once."""

    study: StudySpec
    rounds: int
    """Rounds that share the probability of failure."""
    _known: dict[Hashable, int] = field(default_factory=dict[Hashable, int])

    def of(self, asks: Sequence[Ask]) -> int:
        """Reports for these asks."""
        kind = tuple(map(_needs_as, asks))
        if kind not in self._known:
            self._known[kind] = self.demand(asks).target
        return self._known[kind]

    def about(self, asks: Sequence[Ask]) -> float:
        """What they go as, by Hoeffding's bound (KLNRS11, Thm A.2): to compare rounds of many parts, at little cost."""
        failure = planning.terms_of(self.study.parameters).beta / self.rounds / (len(asks) + 1)
        needs = [math.log(2 * answers_to(ask) / failure) / ask.tolerance**2 for ask in asks]
        dealt = sum(ask.share for ask in asks)
        return sum(needs) if not dealt else max(need * dealt / ask.share for need, ask in zip(needs, asks, strict=True))

    def demand(self, asks: Sequence[Ask]) -> planning.Demand:
        """What the server would plan for these asks."""
        try:
            return planning.demand(self.study, asks, self.rounds)
        except AskanceError:
            raise
        except Exception as error:
            # A query that was not made by its class, for instance.
            raise raised(error) from error


def answers_to(ask: Ask) -> int:
    """Number of answers that have to be right."""
    return len(ask.sums) or (ask.query.cells if isinstance(ask.query, CellQuery) else 1)


def _needs_as(ask: Ask) -> Hashable:
    """Everything of an ask that its number of reports depends on; of one whose channel may be chosen, all of it."""
    common = (ask.channel, ask.tolerance, ask.share, ask.sums)
    match ask.query:
        case BooleanQuery():
            return "boolean", 0, common
        case RealQuery(denominator=denominator):
            return "real", denominator, common
        case CellQuery():
            return ask.query, 0, common


def possible_runs(
    study: StudySpec,
    strategy: Strategy,
    population: Callable[[int], Population],
    tell: Tell,
    *,
    typical: bool = True,
) -> PossibleRuns:
    """What this strategy may ask in such a study, of populations by their seeds.

    StrategyError where it fails over the first population; a run of others that it cannot bear is left out.
    """
    own, targets = planning.strategy_parameters(study.parameters), RoundTargets(study, strategy.rounds)
    if strategy.rounds == 1:
        # Nothing is asked after an answer.
        [first] = _told([partial(asked, strategy, own, exactly(population(1)))], tell)
        assert first is not None  # noqa: S101 - told the type checker: what is asked is no None
        needs = tuple(map(targets.of, first))
        return PossibleRuns(first, needs, (needs,), 0)
    followed = range(1, 1 + (POPULATIONS if typical or strategy.longest is None else 0))
    # A strategy that fails over the first population is in error.
    usual = [partial(_borne if seed > 1 else asked, strategy, own, exactly(population(seed))) for seed in followed]
    more = [partial(_longest, strategy, own)]
    if strategy.longest is None:
        wrong = [answer for seed in range(1, _WRONG + 1) for answer in _wrong(population(seed), seed)]
        silly = list(_silly()) if strategy.examples is None else []
        more = [partial(_borne, strategy, own, answer) for answer in (*wrong, *silly)]
    runs = list(_told([*usual, *more], tell))
    found = [run for run in runs if run is not None]
    needs = [tuple(map(targets.of, run)) for run in runs[: len(usual)] if run is not None and typical]
    if strategy.longest is not None:
        return PossibleRuns(found[-1], tuple(map(targets.of, found[-1])), tuple(needs), 0)
    most = _most(found, targets, strategy.rounds)
    return PossibleRuns(most, tuple(map(targets.of, most)), tuple(needs), len(found))


def _told(runs: Sequence[Callable[[], RunAsks | None]], tell: Tell) -> Iterator[RunAsks | None]:
    """The runs, one after the other; how many there were is told."""
    tell("asking rounds", 0, len(runs))
    for number, run in enumerate(runs, 1):
        yield run()
        tell("asking rounds", number, len(runs))


def asked(strategy: Strategy, own: Parameters, answer: Answering) -> RunAsks:
    """The asks of a run that is answered so. It may end before it has asked all its rounds."""
    run, asks = Run(strategy, own), list[Sequence[Ask]]()
    said = run.step(None)
    while not isinstance(said, Hypothesis):
        asks.append(said)
        said = run.step(answer(said))
    return tuple(asks)


def exactly(population: Population) -> Answering:
    """Right answers over a sample of users."""
    return Exact(WeightedExamples(population.columns(range(_SAMPLE)))).answer


def _borne(strategy: Strategy, own: Parameters, answer: Answering) -> RunAsks | None:
    try:
        return asked(strategy, own, answer)
    except StrategyError:
        return None


def _longest(strategy: Strategy, own: Parameters) -> RunAsks:
    """The run that a strategy declares to be the longest."""
    if strategy.longest is None or strategy.longest == "ones":
        return asked(strategy, own, _always(1.0))
    try:
        answer = strategy.longest(own)
    except (Exception, SystemExit) as error:
        raise StrategyError(raised(error).what, where=f"{strategy.name}.longest") from error
    return asked(strategy, own, _sound(answer, strategy.name))


def _sound(answer: Answering, name: str) -> Answering:
    """The answers that a strategy declares; what it raises or returns besides is its error."""

    def answering(asks: Sequence[Ask]) -> Sequence[Answer]:
        try:
            found = list(answer(asks))
        except (Exception, SystemExit) as error:
            raise StrategyError(raised(error).what, where=f"{name}.longest") from error
        if len(found) != len(asks):
            what = f"returned {len(found)} answers to {len(asks)} asks"
            raise StrategyError(what, where=f"{name}.longest")
        return found

    return answering


def _wrong(population: Population, seed: int) -> Iterator[Answering]:
    """Answers of users that are as wrong as is allowed, and some that are as wrong as chance has it."""
    truth = Exact(WeightedExamples(population.columns(range(_FEW))))
    directions: tuple[LieDirection, ...] = ("up", "down", "alternating")
    for direction in directions:
        yield WorstCase(truth, direction).answer
    source = np.random.default_rng(seed)
    yield lambda asks: [
        answer + ask.tolerance * (noise if np.ndim(answer) else float(noise[0]))
        for ask, answer in zip(asks, truth.answer(asks), strict=True)
        for noise in (source.uniform(-1, 1, np.size(answer)),)
    ]


def _silly() -> Iterator[Answering]:
    """Answers that no users give, or few."""
    for value in (1.0, 0.0, 0.5, -1.0):
        yield _always(value)
    for seed in range(1, _NOISES + 1):
        yield _noise(np.random.default_rng(seed))


def _always(value: float) -> Answering:
    return lambda asks: [np.full(ask.query.cells, value) if isinstance(ask.query, CellQuery) else value for ask in asks]


def _noise(source: np.random.Generator) -> Answering:
    return lambda asks: [
        source.uniform(-1, 1, ask.query.cells) if isinstance(ask.query, CellQuery) else float(source.uniform(-1, 1))
        for ask in asks
    ]


def _most(runs: Sequence[RunAsks], targets: RoundTargets, rounds: int) -> RunAsks:
    """Of each round the asks that need the most; of a round that no run came to those of the largest round."""
    longest = max(map(len, runs))
    found = [max((run[at] for run in runs if len(run) > at), key=targets.about) for at in range(longest)]
    largest = max(found, key=targets.of)
    # A strategy that declares more rounds than it may ask queries is stopped before.
    room = (MAX_QUERIES - sum(map(len, found))) // len(largest)
    return (*found, *(largest,) * max(0, min(rounds - longest, room)))
