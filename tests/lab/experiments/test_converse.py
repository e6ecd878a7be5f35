"""Statistical queries simulate local randomizers: KLNRS11, Claims 5.9 and 5.10, exactly and by sampling."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from askance_lab.experiments.converse import (
    LIE_SCHEDULES,
    LieSchedule,
    NextRandomizer,
    QueryOracle,
    Simulation,
    TransparentRandomizer,
    distance,
    estimate,
    output,
    output_at_once,
)
from askance_protocol.channels import BinaryResponse, Channel, DiscreteLaplace, KaryResponse, TwoSidedGeometric
from askance_protocol.errors import ProtocolError
from askance_server.core.converse import SimulationAccuracy, at_once, at_once_distribution, candidates

MICRO = 1_000_000
CHANNELS: list[Channel] = [
    BinaryResponse(MICRO),
    BinaryResponse(2 * MICRO, 10),
    KaryResponse(MICRO, 8),
    KaryResponse(3 * MICRO, 5),
    TwoSidedGeometric(MICRO, 6),
    DiscreteLaplace(MICRO // 2, 4),
]
LIES = list(LIE_SCHEDULES.values())


def users_of(randomizer: TransparentRandomizer, seed: int) -> np.ndarray:
    """Some distribution over its inputs."""
    drawn = np.random.default_rng(seed).dirichlet(np.full(len(randomizer.probabilities), 0.4))
    return drawn / drawn.sum()


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: type(channel).__name__)
def test_the_simulated_output_is_within_beta_over_t_whatever_the_oracle_says_within_tolerance(
    channel: Channel, lie: Callable[[int], float]
) -> None:
    randomizer = TransparentRandomizer.of(channel)
    for seed, (t, beta) in enumerate([(1, 1.0), (1, 0.3), (4, 0.5), (100, 0.05)]):
        users, accuracy = users_of(randomizer, seed), SimulationAccuracy(t, beta)
        simulated, tries = output(randomizer, QueryOracle(users, lie), accuracy)

        assert distance(simulated, randomizer.on(users)) <= beta / t
        assert tries <= 2 * math.exp(randomizer.epsilon)


def test_the_estimate_is_within_phi_of_the_truth_and_a_lie_uses_all_of_it() -> None:
    """Claim 5.9, (5). The control: twice the tolerance breaks it."""
    randomizer, accuracy = TransparentRandomizer.of(KaryResponse(MICRO, 4)), SimulationAccuracy(2, 0.6)
    users = np.array([0.0, 1.0, 0.0, 0.0])
    truth = randomizer.on(users)

    def off(lie: float) -> float:
        oracle = QueryOracle(users, lambda _: lie)
        return max(abs(estimate(randomizer, w, oracle, accuracy) / truth[w] - 1) for w in range(4))

    assert off(1) <= accuracy.phi
    assert off(-1) <= accuracy.phi
    assert off(4) > accuracy.phi


@pytest.mark.slow
def test_sampled_outputs_of_k_ary_response_are_within_beta_and_tries_within_their_bound() -> None:
    randomizer, accuracy = TransparentRandomizer.of(KaryResponse(MICRO, 6)), SimulationAccuracy(1, 0.1)
    users, draws = users_of(randomizer, 9), 40_000
    simulation = Simulation(QueryOracle(users, LIES[3]), accuracy, np.random.default_rng(5))
    seen = np.bincount([simulation.report(randomizer) for _ in range(draws)], minlength=6) / draws

    assert distance(seen, randomizer.on(users)) <= accuracy.beta + sampling_error(6, draws)
    mean, error = float(np.mean(simulation.tries)), float(np.std(simulation.tries)) / math.sqrt(draws)
    assert mean <= 2 * math.exp(1)
    assert abs(mean - output(randomizer, QueryOracle(users), accuracy)[1]) < 5 * error + 0.1
    assert simulation.oracle.queries == sum(simulation.tries)


@pytest.mark.slow
def test_three_randomizers_on_one_user_each_chosen_by_the_answers_before_have_the_joint_distribution() -> None:
    """Claim 5.10: the second question depends on the first answer, the third on both."""
    first = TransparentRandomizer.of(KaryResponse(MICRO // 2, 4))
    flipped = TransparentRandomizer(first.probabilities[::-1].copy(), first.epsilon)
    bit = TransparentRandomizer(TransparentRandomizer.of(BinaryResponse(MICRO // 2, 3)).probabilities, MICRO / 2e6)

    def second(before: Sequence[int]) -> TransparentRandomizer:
        return first if before[0] < 2 else flipped

    def third(before: Sequence[int]) -> TransparentRandomizer:
        return bit if before[0] != before[1] else first

    users, accuracy, draws = np.array([0.1, 0.5, 0.15, 0.25]), SimulationAccuracy(3, 0.3), 30_000
    simulation = Simulation(QueryOracle(users, LIES[3]), accuracy, np.random.default_rng(6))
    seen = Counter(tuple(simulation.reports(first, second, third)) for _ in range(draws))

    joint = {}
    for w1, w2 in product(range(4), repeat=2):
        last = third((w1, w2)).probabilities
        for w3 in range(last.shape[1]):
            each = first.probabilities[:, w1] * second((w1,)).probabilities[:, w2] * last[:, w3]
            joint[w1, w2, w3] = float(users @ each)
    assert sum(joint.values()) == pytest.approx(1)
    assert set(seen) <= set(joint)
    apart = sum(abs(seen[w] / draws - p) for w, p in joint.items()) / 2
    assert apart <= accuracy.beta + sampling_error(len(joint), draws)
    # The control: answers that forget the user are further apart than that.
    alone = {w: first.on(users)[w[0]] * second((w[0],)).on(users)[w[1]] * third(w[:2]).on(users)[w[2]] for w in joint}
    assert sum(abs(alone[w] - p) for w, p in joint.items()) / 2 > 0.005


class Odds:
    """Stands in for a uniform number, notes which acceptance it is compared with, and accepts."""

    def __init__(self, accepted: list[float]) -> None:
        self.accepted = accepted

    def __lt__(self, accept: float) -> bool:
        self.accepted.append(accept)
        return True


class Told:
    """A random generator that draws what it is told, and notes the probability of it: as drawn, and as accepted."""

    def __init__(self, *words: int) -> None:
        self.words, self.drawn, self.accepted = list(words), list[float](), list[float]()

    def choice(self, size: int, p: np.ndarray) -> int:
        word = self.words[len(self.drawn)]
        self.drawn.append(float(p[word]))
        return word

    def random(self) -> Odds:
        return Odds(self.accepted)


def chain(oracle: QueryOracle, accuracy: SimulationAccuracy, *steps: NextRandomizer) -> dict[tuple[int, ...], float]:
    """The exact joint distribution of the reports that a simulation makes up, from what it draws and accepts."""
    weights = dict[tuple[int, ...], list[float]]()
    first = steps[0](())
    size = first.probabilities.shape[1]
    for words in product(range(size), repeat=len(steps)):
        told: Any = Told(*words)
        Simulation(replace(oracle), accuracy, told).reports(first, *steps[1:])
        weights[words] = [drawn * accepted for drawn, accepted in zip(told.drawn, told.accepted, strict=True)]
    joint = dict.fromkeys(weights, 1.0)
    for words, each in weights.items():
        for at, weight in enumerate(each):
            # What comes next is drawn until it is accepted: its probability is its weight among those of its place.
            joint[words] *= weight / sum(weights[(*words[:at], w, *words[at + 1 :])][at] for w in range(size))
    return joint


def each_chosen_by_the_answers_before(before: Sequence[int]) -> TransparentRandomizer:
    """Four words; the next question is another one after each history."""
    table = TransparentRandomizer.of(KaryResponse(MICRO // 2, 4))
    turned = np.roll(table.probabilities, sum(before) + len(before), axis=0)
    return TransparentRandomizer(turned, table.epsilon)


STEPS = [each_chosen_by_the_answers_before] * 3


@pytest.mark.parametrize("lie", LIES)
def test_three_reports_about_one_user_have_exactly_the_joint_distribution(lie: LieSchedule) -> None:
    """Claim 5.10: with true answers the simulation is exact; with lies within tolerance its distance is β at most."""
    users, accuracy = np.array([0.1, 0.5, 0.15, 0.25]), SimulationAccuracy(3, 0.3)
    joint = {
        words: float(
            users @ np.prod([step(words[:at]).probabilities[:, words[at]] for at, step in enumerate(STEPS)], axis=0)
        )
        for words in product(range(4), repeat=3)
    }
    simulated = chain(QueryOracle(users, lie), accuracy, *STEPS)
    apart = sum(abs(simulated[words] - joint[words]) for words in joint) / 2

    assert sum(joint.values()) == pytest.approx(1)
    assert apart <= (accuracy.beta if lie(0) else 1e-12)
    # The control: a third report that has forgotten the second is further off than any rounding.
    forgetful = chain(QueryOracle(users, lie), accuracy, *STEPS[:2])
    third = {w: users @ STEPS[2](w[:2]).probabilities[:, w[2]] for w in joint}
    assert sum(abs(forgetful[w[:2]] * float(third[w]) - joint[w]) for w in joint) / 2 > 0.001


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: type(channel).__name__)
def test_the_distribution_and_the_tries_that_are_foretold_are_those_of_a_report(
    channel: Channel, lie: LieSchedule
) -> None:
    """Each w is drawn with R(0) and accepted with what the oracle says of it: Claim 5.9, steps 1 and 4."""
    randomizer, accuracy = TransparentRandomizer.of(channel), SimulationAccuracy(2, 0.7)
    oracle = QueryOracle(users_of(randomizer, 3), lie)
    weights = list[float]()
    for w in range(channel.outcomes):
        told: Any = Told(w)
        # In the order of w, as the lies are in the exact distribution.
        Simulation(oracle, accuracy, told).report(randomizer)
        weights.append(told.drawn[0] * told.accepted[0])
    foretold, tries = output(randomizer, QueryOracle(oracle.users, lie), accuracy)

    assert randomizer.epsilon == channel.certified_micro_epsilon / MICRO
    assert foretold == pytest.approx(np.array(weights) / sum(weights))
    assert foretold.sum() == pytest.approx(1)
    assert tries == pytest.approx(1 / sum(weights))


def test_lies_are_the_whole_tolerance_in_their_order() -> None:
    oracle = {name: QueryOracle(np.array([0.25, 0.75]), lie) for name, lie in LIE_SCHEDULES.items()}
    said = {name: [each.ask(np.array([1.0, -1.0]), 0.125) + 0.5 for _ in range(3)] for name, each in oracle.items()}

    assert said == {
        "none": [0, 0, 0],
        "up": [0.125] * 3,
        "down": [-0.125] * 3,
        "up-down": [0.125, -0.125, 0.125],
        "down-up": [-0.125, 0.125, -0.125],
    }


def test_the_distance_of_distributions_is_at_most_one() -> None:
    assert distance(np.array([1.0, 0.0]), np.array([0.0, 1.0])) == 1
    assert distance(np.array([0.5, 0.5]), np.array([0.25, 0.75])) == 0.25


@pytest.mark.parametrize("lie", LIES)
def test_the_candidates_are_enough_for_what_an_oracle_makes_of_them(lie: LieSchedule) -> None:
    """At a large ε and a large β, where a little in the acceptance is several candidates."""
    randomizer, accuracy = TransparentRandomizer.of(KaryResponse(5 * MICRO, 8)), SimulationAccuracy(1, 0.9)
    number = candidates(randomizer.epsilon, accuracy)
    _, tries = output(randomizer, QueryOracle(users_of(randomizer, 4), lie), accuracy)

    assert (1 - 1 / tries) ** number <= accuracy.failure == pytest.approx(2 * accuracy.beta / (3 * accuracy.t))
    # Twice as many are never needed: p̃ is a third off at most.
    assert (1 - 1 / tries) ** (number / 2) > accuracy.failure


@pytest.mark.parametrize(("t", "beta"), [(0, 0.1), (1, 0.0), (1, -0.5), (1, 1.001), (1, math.nan)])
def test_what_is_no_accuracy_is_refused(t: int, beta: float) -> None:
    with pytest.raises(ProtocolError, match=r"t: must be|beta: must be"):
        SimulationAccuracy(t, beta)


def sampling_error(outcomes: int, draws: int) -> float:
    """By how much an empirical distribution is off but once in 10⁶: ½·√(k/n) in the mean, McDiarmid's √(ln(10⁶)/2n)."""
    return math.sqrt(outcomes / draws) / 2 + math.sqrt(math.log(1e6) / (2 * draws))


def test_candidates_drawn_at_once_are_enough_but_for_beta_over_t() -> None:
    accuracy = SimulationAccuracy(4, 0.2)
    number = candidates(1.0, accuracy)
    accept = math.exp(-1) * (1 - accuracy.phi) / (1 + accuracy.phi)

    assert (1 - accept) ** number <= accuracy.failure < (1 - accept) ** (number - 1)


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: type(channel).__name__)
def test_a_report_from_candidates_drawn_at_once_is_within_beta_over_t(channel: Channel, lie: LieSchedule) -> None:
    """Claim 5.9, nonadaptively. The control: with a single candidate it is R(0), far from what users report."""
    randomizer = TransparentRandomizer.of(channel)
    for seed, (t, beta) in enumerate([(1, 1.0), (1, 0.3), (4, 0.5), (100, 0.05)]):
        users, accuracy = users_of(randomizer, seed), SimulationAccuracy(t, beta)
        simulated = output_at_once(randomizer, QueryOracle(users, lie), accuracy)

        assert simulated.sum() == pytest.approx(1, abs=1e-12)
        assert distance(simulated, randomizer.on(users)) <= beta / t


def test_the_distribution_of_reports_at_once_is_that_of_the_first_candidate_to_be_accepted() -> None:
    """Candidate after candidate, to 1e-9; and with acceptances of 0 and 1 by what each sequence of candidates gives."""
    random, tables = np.random.default_rng(4), [(3, 4), (5, 1), (2, 30)]
    for words, number in tables:
        q, accept = random.dirichlet(np.ones(words)), random.random(words)
        left, expected = 1.0, np.zeros(words)
        for tried in range(number):
            taken = q * (accept if tried < number - 1 else 1)
            expected += left * taken
            left -= left * taken.sum()

        assert at_once_distribution(q, accept, number) == pytest.approx(expected, abs=1e-9)
    q, accept = np.array([0.5, 0.3, 0.2]), np.array([0.0, 1.0, 0.0])
    drawn = np.array(list(product(range(3), repeat=4)))
    given = np.bincount(at_once(accept, drawn, random), weights=q[drawn].prod(axis=1), minlength=3)
    assert at_once_distribution(q, accept, 4) == pytest.approx(given, abs=1e-9)


def test_reports_at_once_come_as_their_distribution_says_and_ask_everything_first() -> None:
    """Chi-squared at 10⁻⁶. The control: against the reports of other users it is far beyond."""
    randomizer, accuracy = TransparentRandomizer.of(KaryResponse(MICRO, 6)), SimulationAccuracy(1, 0.1)
    users, number = users_of(randomizer, 9), 200_000
    simulation = Simulation(QueryOracle(users, LIES[3]), accuracy, np.random.default_rng(5))
    seen = np.bincount(simulation.reports_at_once(randomizer, number), minlength=6)
    expected = output_at_once(randomizer, QueryOracle(users, LIES[3]), accuracy)

    def statistic(p: np.ndarray) -> float:
        return float(((seen - number * p) ** 2 / (number * p)).sum())

    bound = float(stats.chi2.isf(1e-6, 5))
    assert statistic(expected) < bound
    assert statistic(randomizer.on(np.full(6, 1 / 6))) > 10 * bound
    # What is equal among the candidates of all users is asked about once.
    assert simulation.oracle.queries == 6


def test_what_is_not_private_is_found_out_and_so_is_a_query_that_is_none() -> None:
    public = TransparentRandomizer(np.array([[0.9, 0.1], [0.1, 0.9]]), 0.5)
    simulation = Simulation(QueryOracle(np.array([0.0, 1.0])), SimulationAccuracy(1, 0.1), np.random.default_rng(7))

    with pytest.raises(ProtocolError, match="scale it"):
        [simulation.report(public) for _ in range(200)]
    with pytest.raises(ProtocolError, match="scale it"):
        QueryOracle(np.ones(1)).ask(np.full(1, 2.0), 0.1)
    with pytest.raises(ProtocolError, match="t: must be"):
        SimulationAccuracy(0, 0.1)
