"""Tallied studies have the law of those that go user by user: the benchmark measures on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest

from askance_client.simulation.population import synthetic
from askance_lab.experiments.sample_size import learner_of, measure
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.shared.oracle import run
from askance_protocol.arrays import Floats
from askance_server.core.strategy import Answer, Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.strategies.masked_parity import schema, second
from askance_server.strategies.masked_parity_pooled import MASKED_PARITY_POOLED, searched
from askance_server.strategies.masked_parity_two_rounds import MASKED_PARITY_TWO_ROUNDS, cells
from benchmarks.masked_parity_tallies import Concept, Tallied, tallied

D: Final = 4
CONCEPT: Final = Concept(D, 0b0110, 1)
USERS: Final = 6000
STUDIES: Final = 40
MISSES_ALLOWED: Final = 5.5
"""Standard errors: 4·10⁻⁸ for each of some hundred numbers."""


def asked() -> list[list[Ask]]:
    """A round of each kind that is tallied: about the truth, about another, of two parts, and of one."""
    right, wrong = (searched(D, candidate) for candidate in (CONCEPT.r, 0b0011))
    masked = [Ask(second(r), 0.2) for r in ("0110", "1010")]
    return [[Ask(right, 0.1, share=3), Ask(wrong, 0.1, share=1)], masked, [Ask(cells(D), 0.1)]]


def asking(heard: list[list[Answer]]) -> Strategy:
    def run(_: Parameters) -> Asking:
        for asks in asked():
            answers = yield asks
            heard.append(list(answers))
        return Hypothesis("", {})

    return Strategy("asking", "asks all kinds", True, 3, schema=schema, run=run, portions=(2, 1, 1))


def flat(rounds: Sequence[Sequence[Answer]]) -> Floats:
    return np.concatenate([np.atleast_1d(answer) for answers in rounds for answer in answers])


def by_users(seed: int) -> Floats:
    heard = list[list[Answer]]()
    strategy = asking(heard)
    study = study_for(strategy, {"d": D, "users": "all"}, seed)
    population = synthetic("masked-parity", {"d": D, "r": "0110", "a": 1}, seed)
    run(strategy, {"d": D}, LocalReports(study, strategy, population, USERS, seed))
    return flat(heard)


def by_tallies(seed: int, concept: Concept = CONCEPT) -> Floats:
    heard = list[list[Answer]]()
    strategy = asking(heard)
    run(strategy, {"d": D}, Tallied(strategy, concept, USERS, np.random.default_rng(seed)))
    return flat(heard)


def apart(one: Floats, other: Floats) -> float:
    """How far the means of two samples are apart, in standard errors, and their spreads, the most of all."""
    means = (one.mean(0) - other.mean(0)) / np.sqrt(one.var(0) / len(one) + other.var(0) / len(other))
    # The logarithm of a normal sample's variance has variance 2/n.
    spreads = np.log(one.var(0) / other.var(0)) / np.sqrt(2 / len(one) + 2 / len(other))
    return float(max(np.abs(means).max(), np.abs(spreads).max()))


def test_tallies_have_the_means_and_the_spread_of_users() -> None:
    users = np.array([by_users(seed) for seed in range(STUDIES)])
    tallies = np.array([by_tallies(seed) for seed in range(40 * STUDIES)])

    assert apart(users, tallies) < MISSES_ALLOWED
    # The controls: one bit of r wrong, the mask bit wrong, and a spread that is a third too large.
    for wrong in (Concept(D, 0b0111, 1), Concept(D, 0b0110, 0)):
        assert apart(users, np.array([by_tallies(seed, wrong) for seed in range(STUDIES)])) > MISSES_ALLOWED
    middle = tallies.mean(0)
    assert apart(users, middle + 1.8 * (tallies - middle)) > MISSES_ALLOWED


@pytest.mark.parametrize(("strategy", "users"), [(MASKED_PARITY_POOLED, 800), (MASKED_PARITY_TWO_ROUNDS, 3_000)])
def test_a_learner_ends_as_often_right_as_with_users(strategy: Strategy, users: int) -> None:
    """Where it is right about half of the time, and so far as few studies tell."""
    one = measure(learner_of(strategy, {"d": D}), users // 2, range(40))
    other = measure(tallied(strategy, {"d": D}), users // 2, range(600))

    assert abs(one.right.rate - other.right.rate) < 5 * 0.5 * (1 / 40 + 1 / 600) ** 0.5
    assert one.asked == pytest.approx(other.asked, rel=0.1)
    assert one.rounds == pytest.approx(other.rounds, rel=0.25)
