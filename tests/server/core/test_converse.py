"""A strategy's local protocol, made up by statistical queries: near enough to the real one, and on any oracle."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from askance_lab.data.made_up import made_up
from askance_lab.experiments.planned_users import plan_study
from askance_lab.oracles.local import study_for
from askance_lab.oracles.shared.registry import oracle_named
from askance_lab.oracles.shared.setting import OracleSetting
from askance_lab.theory.local import simulation_accuracy_joint, simulation_accuracy_stated
from askance_protocol.channels import BinarySpec, ChannelSpec, KarySpec
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.language import And, Bit, FieldValue, Label, Slice
from askance_protocol.rounds import Part, PreparedPart
from askance_protocol.rounds.prepared import PreparedParts
from askance_protocol.schema import BitsField, LabelField, Schema
from askance_server.core.adapted import reasked
from askance_server.core.cell_channels import AllSets, set_channel
from askance_server.core.converse import (
    SimulatedPart,
    SimulationAccuracy,
    acceptance,
    at_once_distribution,
    candidates,
    simulated,
)
from askance_server.core.run import StrategyError
from askance_server.core.strategy import Ask, Strategy
from askance_server.strategies.registry import registry

MICRO = 1_000_000
EXAMPLE = Schema(fields=(BitsField(name="x", width=2), LabelField(name="y")))
BITS = Slice(field="x", first=0, width=2)
PARTS: dict[str, tuple[Any, ChannelSpec]] = {
    "boolean": (
        BooleanQuery(test=And(of=(Bit(field="x", index=0), Label(sign=1)))),
        BinarySpec(micro_epsilon=MICRO),
    ),
    "real": (RealQuery(numerator=FieldValue(field="y"), denominator=1), BinarySpec(micro_epsilon=2 * MICRO)),
    "cells": (CellQuery(cells=4, cell=BITS), KarySpec(micro_epsilon=MICRO)),
    "cells by sets": (CellQuery(cells=4, cell=BITS), set_channel(4, AllSets(2), MICRO)),
    "cells, pooled": (CellQuery(cells=4, cell=BITS), BinarySpec(micro_epsilon=MICRO)),
    "cells with signs": (CellQuery(cells=4, cell=BITS, negative=Label(sign=-1)), BinarySpec(micro_epsilon=MICRO)),
}
every = pytest.mark.parametrize(("query", "channel"), PARTS.values(), ids=PARTS)


def part_of(query: Any, channel: ChannelSpec) -> PreparedPart:
    part = Part(query=query, channel=channel, charge=4 * MICRO)
    return PreparedParts([part], EXAMPLE)[0]


def inputs_of(part: PreparedPart, row: int) -> np.ndarray:
    """Input of the channel for each of eight users: every x, with both labels."""
    columns = np.array(list(product((0, 1), repeat=2)) * 2)
    people = Columns.of(EXAMPLE, {"x": columns, "y": np.repeat([1, -1], 4)})
    return np.array(part.encode_all(part.query.answers(people), np.full(8, row, np.uint16)))


def answers_of(part: PreparedPart, shares: np.ndarray) -> np.ndarray:
    """The exact answers to a question, of users with these shares."""
    query = part.query.query
    if isinstance(query, CellQuery):
        sign = np.repeat([1, 1 if query.negative is None else -1], 4)
        # The first bit of a slice is its lowest.
        cells = np.tile([0, 2, 1, 3], 2)
        return np.bincount(cells, weights=shares * sign, minlength=4)
    if isinstance(query, RealQuery):
        return np.array([shares @ np.repeat([1, -1], 4)])
    return np.array([shares @ np.array([0, 0, 1, 1, 0, 0, 0, 0])])


def off(part: PreparedPart, shares: np.ndarray, accuracy: SimulationAccuracy, times: float) -> float:
    """How far p̃(w) is from p(w), relatively, where each answer is off by so many tolerances either way; the worst."""
    simulation = SimulatedPart.of(part, 10)
    truth, tolerance = answers_of(part, shares), simulation.tolerance(accuracy)
    weights = np.array([part.channel.weights(given) for given in range(part.channel.inputs)], np.float64) / 2.0**64
    real = np.array([shares @ weights[inputs_of(part, row)] for row in range(part.rows)])
    return max(
        float(np.abs(simulation.estimates(truth + times * tolerance * np.array(signs)) / real - 1).max())
        for signs in product((-1, 1), repeat=len(truth))
    )


@every
def test_each_probability_is_within_phi_whatever_is_said_within_the_tolerance(query: Any, channel: ChannelSpec) -> None:
    part, random = part_of(query, channel), np.random.default_rng(3)
    for accuracy in (
        SimulationAccuracy(1, 0.9),
        SimulationAccuracy(50, 0.3),
        SimulationAccuracy(50, 0.3, jointly=True),
    ):
        for shares in [*random.dirichlet(np.full(8, 0.3), 20), *np.eye(8)]:
            assert off(part, shares, accuracy, 1) <= accuracy.phi * (1 + 1e-9)
            # With true answers it is the users' own, to the last bit of a float.
            assert off(part, shares, accuracy, 0) < 1e-12


@pytest.mark.parametrize("name", ["boolean", "real", "cells, pooled", "cells with signs"])
def test_no_larger_tolerance_would_do(name: str) -> None:
    """The control: somebody holds the least likely input, and of her an answer says all that it may."""
    part, accuracy = part_of(*PARTS[name]), SimulationAccuracy(5, 0.5)

    assert max(off(part, shares, accuracy, 1.01) for shares in np.eye(8)) > accuracy.phi


@every
def test_made_up_reports_come_as_those_of_users_do(query: Any, channel: ChannelSpec) -> None:
    part, shares, accuracy = part_of(query, channel), np.arange(1, 9) / 36, SimulationAccuracy(1, 0.01)
    simulation, reports = SimulatedPart.of(part, 400_000), 400_000
    tally = simulation.made_up(answers_of(part, shares), accuracy, np.random.default_rng(8))
    weights = np.array([part.channel.weights(given) for given in range(part.channel.inputs)], np.float64) / 2.0**64
    real = np.array([shares @ weights[inputs_of(part, row)] for row in range(part.rows)]) / part.rows

    def statistic(p: np.ndarray) -> float:
        return float(((tally.counts - reports * p) ** 2 / (reports * p)).sum())

    assert tally.counts.shape == real.shape
    assert tally.received == reports
    # 400,000 reports of distance 0.007 at most: the statistic grows by no more than 4·n·d², and here by much less.
    bound = float(stats.chi2.isf(1e-6, real.size - 1))
    assert statistic(real) < bound + 60
    # The control: of candidates alone, nobody's question matters.
    assert statistic(np.broadcast_to(simulation.q / part.rows, real.shape)) > 20 * bound


def test_true_answers_leave_the_candidates_that_all_fail() -> None:
    part, shares, accuracy = part_of(*PARTS["cells"]), np.arange(1, 9) / 36, SimulationAccuracy(3, 0.3)
    simulation = SimulatedPart.of(part, 10)
    [estimate] = simulation.estimates(answers_of(part, shares))
    accept = acceptance(simulation.q, estimate, simulation.epsilon, accuracy.phi)
    found = at_once_distribution(simulation.q, accept, candidates(simulation.epsilon, accuracy))

    assert 1e-9 < np.abs(found - estimate).sum() / 2 <= accuracy.failure
    assert at_once_distribution(simulation.q, accept, 2000) == pytest.approx(estimate, abs=1e-9)


@pytest.mark.parametrize("p", [0.2689414, 0.5, 0.7310586])
@pytest.mark.parametrize(("t", "beta"), [(1, 0.5), (100, 0.1), (40_000, 0.05), (40_000, 0.9)])
def test_all_reports_together_are_within_two_thirds_of_beta(p: float, t: int, beta: float) -> None:
    """Exactly, of the count of ones among t bits: all that t alike reports tell."""
    accuracy, counts = SimulationAccuracy(t, beta, jointly=True), np.arange(t + 1)

    def apart(phi: float) -> float:
        own = stats.binom.pmf(counts, t, p)
        worst = 0.0
        for one, zero in product((1 - phi, 1 + phi), repeat=2):
            other = p * one / (p * one + (1 - p) * zero)
            worst = max(worst, float(np.abs(own - stats.binom.pmf(counts, t, other)).sum()) / 2)
        return worst

    assert apart(accuracy.phi) <= 2 * beta / 3
    assert accuracy.phi == simulation_accuracy_joint(queries=t, failure=beta)
    assert SimulationAccuracy(t, beta).phi == pytest.approx(simulation_accuracy_stated(queries=t, failure=beta))
    assert t * accuracy.failure == pytest.approx(beta / 3)
    if t > 1:
        # The control; and what the text allows for is less by √t.
        assert apart(min(8 * accuracy.phi, 0.5)) > 2 * beta / 3
        assert accuracy.phi > SimulationAccuracy(t, beta).phi * math.sqrt(t)


def test_its_users_grow_as_the_reports_and_not_as_their_square() -> None:
    def users(reports: int) -> int:
        return plan_study("mean", {"simulated_reports": reports}).rounds[0].planned

    assert users(40_000) / users(10_000) == pytest.approx(4, rel=0.02)


# --------------------------------------------------------------------------------------------------------- strategies

TERMS: dict[str, Any] = {"users": "all", "epsilon": "2"}


def learned(name: str, parameters: dict[str, Any], reports: int, oracle: str, seed: int, users: int = 300_000) -> float:
    """Error of what is learned where nobody reports: the oracle answers."""
    strategy: Strategy = registry()[name]
    asked = {**parameters, **TERMS, "simulated_reports": reports}
    population = made_up(strategy, asked, seed, {})
    kind = oracle_named(oracle)
    if oracle not in ("local", "http"):
        strategy = reasked(strategy, study_for(strategy, asked, seed))
    setting = OracleSetting(strategy, asked, population, users, seed)
    with kind.open(setting) as opened:
        found = opened.learn(strategy, setting.own)
    assert strategy.error is not None
    return float(strategy.error(found.hypothesis.value, population.truth) or 0)


@pytest.mark.parametrize("oracle", ["exact", "adversarial", "samples", "curator", "fresh", "fresh-laplace", "local"])
@pytest.mark.parametrize(
    ("name", "parameters", "reports"),
    [("conjunction", {"d": 4, "alpha": "0.2"}, 20_315), ("masked-parity", {"d": 4}, 30_000)],
)
def test_a_local_algorithm_is_simulated_on_any_oracle(
    name: str, parameters: dict[str, Any], reports: int, oracle: str
) -> None:
    """Theorem 5.14: with as many reports as its plan says the strategy keeps its promise, though nobody reports."""
    promise = registry()[name].promise
    assert promise is not None
    assert learned(name, parameters, reports, oracle, 1) <= promise(parameters)


def test_what_is_made_up_is_noise_as_that_of_users_is() -> None:
    """The control: exact answers, and too few reports made of them."""
    errors = [learned("masked-parity", {"d": 4}, 60, "exact", seed) for seed in range(6)]

    assert max(errors) > 0
    assert all(learned("masked-parity", {"d": 4}, 30_000, "exact", seed) == 0 for seed in range(6))


def test_too_few_reports_for_the_questions_of_a_round_end_it_with_the_reason() -> None:
    with pytest.raises(StrategyError, match="too few for 4 questions"):
        learned("masked-parity", {"d": 4}, 3, "exact", 1)
    for wrong in (-1, 10**10, "many", True):
        with pytest.raises(ProtocolError, match="simulated_reports"):
            study_for(registry()["parity"], {"d": 2, "simulated_reports": wrong}, 1)


def test_the_same_study_makes_up_the_same_reports_and_another_does_not() -> None:
    """A server that is started anew replays what it has published."""
    strategy = registry()["mean"]

    def answers(seed: int) -> float:
        study = study_for(strategy, {"simulated_reports": 1000}, seed)
        asking = simulated(strategy, study, 1000).run({})
        [ask] = next(asking)
        assert isinstance(ask, Ask)
        with pytest.raises(StopIteration) as end:
            asking.send([0.25])
        return float(end.value.value.value["mean"])

    assert answers(1) == answers(1)
    assert answers(1) != answers(2)
