"""Every learner of the landscape, as a function of a problem: what it found, or None.

At ε = 1 and δ = 10^−6 unless it is said otherwise. Local learners go user by user through the protocol's own rounds
(`oracles.pooled`); a curator's draws are exact; who is not private takes any hypothesis that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from askance_lab.curator import affine, generic, interval, piecewise, point, retry, walsh
from askance_lab.curator.databases import BitSample, unpacked
from askance_lab.curator.draws import Below, below
from askance_lab.data.problems import LearningProblem
from askance_lab.experiments.landscape import queries
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

Learner: TypeAlias = Callable[[LearningProblem, Targets, int], Any]
"""From a problem and a seed for the noise to a hypothesis."""


def _draw(problem: LearningProblem, seed: int) -> Below:
    """Other noise for each number of users: whoever was unlucky with some is not so with all."""
    return below(SimulatedRandom(seed, stream=problem.users))


# ------------------------------------------------------------------------------------------------------------- local


def local(
    strategy: Strategy | Callable[[int], Strategy], read: Callable[[dict[str, Any]], Any], *names: str
) -> Learner:
    """A strategy over the users themselves; `names` are the parameters, besides d, that it takes."""

    def learn(problem: LearningProblem, terms: Targets, seed: int) -> Any:
        chosen = strategy if isinstance(strategy, Strategy) else strategy(problem.d)
        own = _parameters(problem, names)
        epsilon = f"{terms.micro / MICRO:.6f}"
        study = study_for(chosen, {**own, "users": "all", "epsilon": epsilon}, seed)
        people = LocalReports(study, chosen, problem.people, problem.users, seed)
        try:
            return read(dict(run(chosen, own, people).hypothesis.value))
        except TooFewUsersError:
            return None

    return learn


def sulq(name: str, read: Callable[[dict[str, Any]], Any], *names: str) -> Learner:
    """A strategy whose queries a curator answers, each from a chunk of its own: BB-notes, Thm 7."""

    def learn(problem: LearningProblem, terms: Targets, seed: int) -> Any:
        strategy, own = named(name), _parameters(problem, names)
        oracle = Curator(People(problem.people, problem.users), evenly(strategy), micro_epsilon=terms.micro, seed=seed)
        try:
            return read(dict(run(strategy, own, oracle).hypothesis.value))
        except TooFewUsersError:
            return None

    return learn


def named(name: str) -> Strategy:
    """A built-in strategy."""
    return registry()[name]


def _parameters(problem: LearningProblem, names: Sequence[str]) -> Parameters:
    known: Parameters = {"d": problem.d, "alpha": str(problem.alpha)}
    return {name: known[name] for name in ("d", *names)}


def variables(value: dict[str, Any]) -> tuple[int, ...]:
    """A conjunction's."""
    return tuple(value["variables"])


def number(value: dict[str, Any]) -> int:
    """A parity's r, which strategies write as a string of bits, the first bit lowest."""
    return int(value["r"][::-1], 2)


# ----------------------------------------------------------------------------------------------------------- curator


def generic_parity(problem: LearningProblem, terms: Targets, seed: int) -> int:
    """KLNRS11, Thm 3.4, all parities scored by one Walsh-Hadamard transform."""
    return generic.learn(walsh.Parities(problem.d), problem.bits(), epsilon=terms.epsilon, draw=_draw(problem, seed))


def insistent_parity(problem: LearningProblem, terms: Targets, seed: int) -> int | None:
    """KLNRS08's A*, retried until it speaks."""
    return retry.insist(problem.bits(), epsilon=terms.epsilon, draw=_draw(problem, seed))


def generic_masked(problem: LearningProblem, terms: Targets, seed: int) -> MaskedHypothesis:
    """MASKED-PARITY is PARITY in d + 1 bits."""
    found = generic.learn(
        walsh.MaskedParities(problem.d), as_parity(problem), epsilon=terms.epsilon, draw=_draw(problem, seed)
    )
    return _written(problem.d, found[0], found[1])


def insistent_masked(problem: LearningProblem, terms: Targets, seed: int) -> MaskedHypothesis:
    """The same, in polynomial time."""
    return _split(problem.d, retry.insist(as_parity(problem), epsilon=terms.epsilon, draw=_draw(problem, seed)))


def generic_conjunction(problem: LearningProblem, terms: Targets, seed: int) -> tuple[int, ...]:
    """KLNRS11, Thm 3.4, all conjunctions scored by one superset sum."""
    found = generic.learn(
        generic.Conjunctions(problem.d), labelled_one(problem), epsilon=terms.epsilon, draw=_draw(problem, seed)
    )
    return tuple(found)


def generic_point(problem: LearningProblem, terms: Targets, seed: int) -> int:
    """KLNRS11, Thm 3.4, for 2^d points without a table of them."""
    return piecewise.learn_point(problem.sample(), epsilon=terms.epsilon, draw=_draw(problem, seed))


def generic_interval(problem: LearningProblem, terms: Targets, seed: int) -> int:
    """The same for 2^d + 1 thresholds."""
    return piecewise.learn_interval(problem.sample(), epsilon=terms.epsilon, draw=_draw(problem, seed))


def stable_point(problem: LearningProblem, terms: Targets, seed: int) -> int:
    """BNS13, Lemma 1: A_dist."""
    return point.learn(problem.sample(), epsilon=terms.epsilon, delta=terms.delta, draw=_draw(problem, seed))


def rec_interval(problem: LearningProblem, terms: Targets, seed: int) -> int:
    """BNS13, Thm 2: Rec."""
    return interval.learn(
        problem.sample(),
        epsilon=terms.epsilon,
        delta=terms.delta,
        error=terms.error,
        failure=terms.failure,
        draw=_draw(problem, seed),
    )


MaskedHypothesis: TypeAlias = dict[str, Any] | None


def as_parity(problem: LearningProblem) -> BitSample:
    """Examples of MASKED-PARITY as examples of PARITY in d + 1 bits."""
    columns = problem.columns
    words = np.ascontiguousarray(columns["x"].view(np.uint64).T)
    return walsh.masked(problem.d, words, columns["i"], columns["b"][0], ~problem.positive)


def labelled_one(problem: LearningProblem) -> BitSample:
    """Bits whose label is 1 where the concept holds."""
    bits = problem.bits()
    return BitSample(bits.d, bits.words, problem.positive)


def _split(d: int, found: int | None) -> MaskedHypothesis:
    return None if found is None else _written(d, found & (1 << d) - 1, found >> d)


def _written(d: int, r: int, a: int) -> MaskedHypothesis:
    return {"r": "".join(str(r >> i & 1) for i in range(d)), "a": a}


# ------------------------------------------------------------------------------------------------------- not private


def openly(learn: Callable[[LearningProblem], Any]) -> Learner:
    """Who is not private has no terms to keep, and nothing to draw."""
    return lambda problem, _terms, _seed: learn(problem)


def eliminate(problem: LearningProblem) -> int | None:
    """Any parity that fits."""
    return _any_solution(problem.bits())


def eliminate_masked(problem: LearningProblem) -> MaskedHypothesis:
    """Any masked parity that fits."""
    return _split(problem.d, _any_solution(as_parity(problem)))


def _any_solution(sample: BitSample) -> int | None:
    solutions = affine.solve_sample(sample, np.ones(len(sample), np.bool))
    return None if solutions is None else solutions.solution(0)


def never_missing(problem: LearningProblem) -> tuple[int, ...]:
    """Of the conjunctions that fit, the longest: all bits that no positive example lacks."""
    positive = unpacked(problem.bits().words, problem.d)[problem.positive]
    return tuple(np.flatnonzero(positive.all(axis=0)).tolist())


def any_positive(problem: LearningProblem) -> int | None:
    """The point of a positive example, if there is one."""
    sample = problem.sample()
    return next((x for x, y in zip(sample.points, sample.labels, strict=True) if y), None)


def last_positive(problem: LearningProblem) -> int:
    """Of the thresholds that fit, the first."""
    sample = problem.sample()
    return max((x + 1 for x, y in zip(sample.points, sample.labels, strict=True) if y), default=0)


# --------------------------------------------------------------------------------------------------------------- all


def _whole(value: dict[str, Any]) -> MaskedHypothesis:
    return value


_PARITY: Final = local(named("parity"), number)
_CONJUNCTION: Final = local(named("conjunction"), variables, "alpha")
_POINT: Final = local(queries.POINT, lambda value: value["point"], "alpha")

LEARNERS: Final[Mapping[str, Learner]] = {
    "PARITY · local, at once · all 2^d parities": _PARITY,
    "PARITY · curator · generic": generic_parity,
    "PARITY · curator · A*, insistent": insistent_parity,
    "PARITY · not private · elimination": openly(eliminate),
    "MASKED-PARITY · local, at once · masked-parity-noninteractive": local(
        named("masked-parity-noninteractive"), _whole
    ),
    "MASKED-PARITY · local, in rounds · masked-parity-pooled": local(named("masked-parity-pooled"), _whole),
    "MASKED-PARITY · curator · generic": generic_masked,
    "MASKED-PARITY · curator · A*, insistent": insistent_masked,
    "MASKED-PARITY · not private · elimination": openly(eliminate_masked),
    "conjunctions · local, at once · conjunction": _CONJUNCTION,
    "conjunctions · curator · generic": generic_conjunction,
    "conjunctions · curator · SuLQ": sulq("conjunction", variables, "alpha"),
    "conjunctions · not private · all that is never 0": openly(never_missing),
    "POINT · local, at once · point-bits": _POINT,
    "POINT · curator · generic": generic_point,
    "POINT · curator · A_dist": stable_point,
    "POINT · not private · any positive example": openly(any_positive),
    "INTERVAL · local, at once · all dyadic intervals": local(
        queries.DYADIC, lambda value: value["threshold"], "alpha"
    ),
    "INTERVAL · local, in rounds · bisection": local(queries.bisection, lambda value: value["threshold"], "alpha"),
    "INTERVAL · curator · generic": generic_interval,
    "INTERVAL · curator · Rec": rec_interval,
    "INTERVAL · not private · the last positive example": openly(last_positive),
}
"""By the keys that cells are measured as."""
