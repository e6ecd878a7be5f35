"""SQ → DP with a chunk for each query (SuLQ): BB-notes, Thm 7 = N21, Thm 1, through `oracles.curator`."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest

from askance_client.simulation.population import synthetic
from askance_lab.curator.distributions import loss, worst_loss
from askance_lab.evaluation.domain import domain_of
from askance_lab.oracles.curator import Curator
from askance_lab.oracles.exact import Exact
from askance_lab.oracles.shared.crowds import Drawn
from askance_lab.oracles.shared.portions import by_bound
from askance_lab.theory import central
from askance_protocol.budget import MICRO
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import And, Bit, Label, Not
from askance_server.core.strategy import Ask
from tests.lab.curator.curating import too_few

M, TAU, DELTA, RUNS = 100, 0.05, 0.05, 200
EXAMPLES = domain_of(synthetic("conjunction", {"d": 4}, 1))
ASKS = [
    Ask(BooleanQuery(test=And(of=(Not(of=Bit(field="x", index=k % 4)), Label(sign=-1 if k // 4 % 2 else 1)))), TAU)
    for k in range(M)
]
TRUTHS = np.array(Exact(EXAMPLES).answer(ASKS), float)


class AsWritten(Curator):
    """The texts' noise, planted: scale M/(ε|S_i|) on the mean, though the chunks are disjoint (trap 9)."""

    def _noise(self, sensitivity: int) -> int:
        return super()._noise(M * sensitivity)


def successes(curator: type[Curator], examples: int, micro_epsilon: int, runs: int) -> int:
    """In how many studies every answer is within τ."""
    right = 0
    for seed in range(runs):
        crowd = Drawn(EXAMPLES, seed, users=examples)
        oracle = curator(crowd, by_bound(lambda _: examples // M), micro_epsilon=micro_epsilon, seed=seed)
        right += bool(np.abs(np.array(oracle.answer(ASKS), float) - TRUTHS).max() <= TAU)
        assert (oracle.spent.users, oracle.spent.micro_epsilon) == (examples, micro_epsilon)
    return right


@pytest.mark.parametrize("micro_epsilon", [MICRO, MICRO // 10, MICRO // 100])
def test_all_of_100_answers_are_within_tolerance_at_the_repaired_size(micro_epsilon: int) -> None:
    """Row "SQ → DP": M = 100, τ = .05, w.p. at least 1 − δ. At ε = .01 the noise decides the size, else sampling."""
    n = central.examples_sulq_repaired(queries=M, tolerance=TAU, epsilon=micro_epsilon / MICRO, failure=DELTA)

    assert not too_few(successes(Curator, n, micro_epsilon, RUNS), RUNS, 1 - DELTA)


@pytest.mark.parametrize("micro_epsilon", [MICRO, MICRO // 10])
def test_trap_9_noise_with_the_m_factor_fails_at_that_size(micro_epsilon: int) -> None:
    """The control: same examples, the texts' scale. It fails in nearly all studies."""
    n = central.examples_sulq_repaired(queries=M, tolerance=TAU, epsilon=micro_epsilon / MICRO, failure=DELTA)
    right = successes(AsWritten, n, micro_epsilon, 60)

    assert too_few(right, 60, 1 - DELTA)
    assert right < 20


def test_trap_9_noise_with_the_m_factor_needs_m_times_the_noises_share() -> None:
    """At M²/ετ it is right: so it is the count that is wrong with that noise, and the noise with that count."""
    about = {"queries": M, "tolerance": TAU, "epsilon": 0.1, "failure": DELTA}
    n = central.examples_sulq_as_written(**about)

    assert n > 40 * central.examples_sulq_repaired(**about)
    assert not too_few(successes(AsWritten, n, MICRO // 10, 60), 60, 1 - DELTA)


def answers(counts: tuple[int, ...], epsilon: float) -> Any:
    """The exact distribution of two noisy counts, as far as ±6: what lies beyond has the same ratios."""
    q = math.exp(-epsilon)

    def of(count: int) -> dict[int, float]:
        return {k: (1 - q) / (1 + q) * q ** abs(k - count) for k in range(-6, 7)}

    one, other = map(of, counts)
    return {(j, k): one[j] * other[k] for j, k in product(one, other)}


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_answers_from_disjoint_chunks_at_the_full_epsilon_cost_epsilon_in_all(epsilon: float) -> None:
    """An entry is what it would answer to queries 1 and 2; entry i is asked query i only. Control: both ask all: 2ε."""
    domain = list(product((0, 1), repeat=2))

    def disjoint(database: Any) -> Any:
        return answers((database[0][0], database[1][1]), epsilon)

    def shared(database: Any) -> Any:
        return answers(tuple(sum(entry[i] for entry in database) for i in range(2)), epsilon)

    found = max(
        loss(disjoint(database), disjoint(neighbour))
        for database in product(domain, repeat=2)
        for entry in domain
        for neighbour in [(entry, database[1]), (database[0], entry)]
    )
    assert found == pytest.approx(epsilon, abs=1e-9)
    assert worst_loss(shared, domain, 2).value == pytest.approx(2 * epsilon, abs=1e-9)
