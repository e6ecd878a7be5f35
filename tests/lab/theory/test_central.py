"""Generic learners, SQ with a curator, label privacy: each count against the failure it promises."""

import math
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from askance_lab.theory import central
from askance_server.core import tails

Floats: TypeAlias = NDArray[np.floating]

GRID = [(h, e, a, b) for h in (2, 100, 2**20) for e in (0.05, 0.1, 1.0) for a in (0.05, 0.1, 0.4) for b in (0.3, 0.01)]


def union_bound(n: int, h: int, epsilon: float, alpha: float) -> float:
    """|H|(2e^{-2nα²/9} + e^{-εnα/6}), KLNRS11, Thm 3.4, written out once more."""
    return h * (2 * math.exp(-2 * n * alpha**2 / 9) + math.exp(-epsilon * n * alpha / 6))


@pytest.mark.parametrize(("h", "epsilon", "alpha", "beta"), GRID)
def test_the_repaired_generic_bound_meets_its_union_bound(h: int, epsilon: float, alpha: float, beta: float) -> None:
    """Trap 4: with max{(6/εα)ln(2|H|/β), (4.5/α²)ln(4|H|/β)} the proof's own sum is at most β, without much waste."""
    n = central.examples_generic_repaired(hypotheses=h, epsilon=epsilon, error=alpha, failure=beta)

    assert union_bound(n, h, epsilon, alpha) <= beta * (1 + 1e-9)
    assert union_bound(math.floor(0.7 * n), h, epsilon, alpha) > beta
    assert central.generic_failure(examples=n, hypotheses=h, epsilon=epsilon, error=alpha) == pytest.approx(
        union_bound(n, h, epsilon, alpha)
    )


@pytest.mark.parametrize(("h", "epsilon", "alpha", "beta"), [case for case in GRID if case[1] <= case[2] / 2])
def test_the_stated_constant_6_misses_its_union_bound(h: int, epsilon: float, alpha: float, beta: float) -> None:
    """Trap 4: whenever ε is below α the second term alone is β already (up to the rounding to whole examples)."""
    n = central.examples_generic_stated(hypotheses=h, epsilon=epsilon, error=alpha, failure=beta)
    second = h * math.exp(-epsilon * (n - 1) * alpha / 6)

    assert second >= beta
    assert n < central.examples_generic_repaired(hypotheses=h, epsilon=epsilon, error=alpha, failure=beta)


def test_the_stated_constant_6_exceeds_beta_at_epsilon_equal_alpha() -> None:
    """Trap 4 in one number: at ε = α = .1, |H| = 100, β = .1 the union bound is 1.2β."""
    n = central.examples_generic_stated(hypotheses=100, epsilon=0.1, error=0.1, failure=0.1)

    assert union_bound(n, 100, 0.1, 0.1) == pytest.approx(0.12, rel=0.01)


def test_klnrs08_theorem_3_7_holds_at_opt_0_but_not_by_the_agnostic_argument() -> None:
    """Trap 5: its count meets |H|(e^{-εαn/4} + e^{-nα²/2}) <= β, which needs OPT = 0; the agnostic sum is above β."""
    h, epsilon, alpha, beta = 100, 0.1, 0.1, 0.1
    n = central.examples_generic_klnrs08_stated(hypotheses=h, epsilon=epsilon, error=alpha, failure=beta)

    assert h * (math.exp(-epsilon * alpha * n / 4) + math.exp(-n * alpha**2 / 2)) <= beta
    assert union_bound(n, h, epsilon, alpha) > beta


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_realizable_bound_holds_for_exact_binomials(epsilon: float) -> None:
    """Each of |H| bad hypotheses has error just above α: exact binomial mistakes, then the exponential mechanism."""
    h, alpha, beta = 1000, 0.1, 0.05
    n = central.examples_generic_realizable(hypotheses=h, epsilon=epsilon, error=alpha, failure=beta)
    mistakes = np.arange(n + 1)
    chosen = np.minimum(1, np.exp(-epsilon * mistakes / 2))

    assert h * (binom.pmf(mistakes, n, alpha) * chosen).sum() <= beta
    assert n < central.examples_generic_repaired(hypotheses=h, epsilon=epsilon, error=alpha, failure=beta)


@pytest.mark.parametrize(("vc", "domain"), [(1, 1), (1, 1000), (3, 20), (20, 20)])
def test_sauer_counts_at_least_all_labelings(vc: int, domain: int) -> None:
    """KLNRS11, Cor. 3.6: (e|X|/VC)^VC is at least the sum of the first binomials."""
    assert sum(math.comb(domain, i) for i in range(vc + 1)) <= math.exp(
        central.sauer_log_labelings(vc=vc, domain=domain)
    ) * (1 + 1e-12)


def test_sauer_is_worse_than_the_class_itself_for_conjunctions() -> None:
    """docs/theory.md#smaller: for the 2^d monotone conjunctions VC = d over 2^d points, about d² instead of d."""
    through_vc = central.examples_sauer_repaired(vc=20, domain=2**20, epsilon=1, error=0.1, failure=0.05)
    through_size = central.examples_generic_repaired(hypotheses=2**20, epsilon=1, error=0.1, failure=0.05)

    assert through_vc > 10 * through_size


def test_stated_corollary_3_6_is_its_formula() -> None:
    """With c = 2: 2(3·ln 2^10 + ln 20)·max{1/.05, 1/.01} at ε = ½, α = .1."""
    expected = math.ceil(2 * (30 * math.log(2) + math.log(20)) * 100)

    assert expected == central.examples_sauer_stated(
        vc=3, domain=2**10, epsilon=0.5, error=0.1, failure=0.05, constant=2
    )


@pytest.mark.parametrize("doubling", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.02, 0.5])
def test_a_round_of_the_compression_version_can_afford_its_class(doubling: int, epsilon: float) -> None:
    """All descriptions of up to s bits fit the repaired Thm 3.4 at this round's share of β; of s+1 bits do not."""
    examples = 20000 * 2**doubling
    bits = central.compression_bits(examples=examples, doubling=doubling, epsilon=epsilon, error=0.1, failure=0.1)
    share = {"epsilon": epsilon, "error": 0.1, "failure": 0.1 / (doubling * (doubling + 1))}

    assert bits > 0
    assert central.examples_generic_repaired(hypotheses=2 ** (bits + 1), **share) <= examples
    assert central.examples_generic_repaired(hypotheses=2 ** (bits + 2), **share) > examples


def sulq_miss(n: int, tolerance: float, scale: float) -> float:
    """P(|average of n fair bits + Lap(scale) - ½| > τ), exactly."""
    counts = np.arange(n + 1)
    off = counts / n - 0.5
    above, below = tolerance - off, tolerance + off

    def beyond(x: Floats) -> Floats:
        return np.where(x > 0, 0.5 * np.exp(-np.abs(x) / scale), 1 - 0.5 * np.exp(-np.abs(x) / scale))

    return float((binom.pmf(counts, n, 0.5) * (beyond(above) + beyond(below))).sum())


@pytest.mark.parametrize("epsilon", [0.02, 1.0])
def test_sulq_answers_within_tolerance_with_the_repaired_noise_only(epsilon: float) -> None:
    """Trap 9 with M = 100, τ = .05: scale 1/(ε|S|) meets δ/M at this chunk, scale M/(ε|S|) does not."""
    queries, tolerance, failure = 100, 0.05, 0.1
    chunk = (
        central.examples_sulq_repaired(queries=queries, tolerance=tolerance, epsilon=epsilon, failure=failure)
        // queries
    )

    assert sulq_miss(chunk, tolerance, 1 / (epsilon * chunk)) <= failure / queries
    assert sulq_miss(chunk, tolerance, queries / (epsilon * chunk)) > failure / queries


def test_a_sulq_chunk_splits_its_tolerance_and_failure_in_halves() -> None:
    """At a large ε sampling decides: Thm A.2 at τ/2 is δ/2M at this chunk and above it at one example fewer."""
    chunk = central.examples_sulq_repaired(queries=100, tolerance=0.05, epsilon=50, failure=0.1) // 100

    assert tails.hoeffding_tail(users=chunk, deviation=0.025, width=1) <= 0.1 / 200
    assert tails.hoeffding_tail(users=chunk - 1, deviation=0.025, width=1) > 0.1 / 200


def test_sulq_as_written_costs_m_times_more_for_its_noise() -> None:
    """Trap 9: with the M the texts put into the scale, M/(ετ) becomes M²/(ετ)."""
    parameters = {"queries": 100, "tolerance": 0.05, "epsilon": 0.001, "failure": 0.1}
    written = central.examples_sulq_as_written(**parameters)
    chunk = written // 100

    assert written == pytest.approx(100 * central.examples_sulq_repaired(**parameters), rel=1e-3)
    assert math.exp(-0.001 * chunk * 0.025 / 100) <= 0.1 / 200
    assert central.examples_sulq_stated(**parameters, constant=1) == math.ceil(
        100 * (1 / (0.001 * 0.05) + 400) * math.log(2000)
    )


@pytest.mark.parametrize("vc", [1, 5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_label_private_learner_needs_what_its_failure_says(vc: int, epsilon: float) -> None:
    """BNS13, Thm 7: m is the last crossing of β; for thresholds, m+1 labelings beat Sauer and stay within it."""
    m = central.examples_label_private(vc=vc, epsilon=epsilon, error=0.1, failure=0.05)

    def failure(examples: int) -> float:
        return central.label_private_failure(examples=examples, vc=vc, epsilon=epsilon, error=0.1)

    assert failure(m) <= 0.05 < failure(m - 1)
    assert all(failure(m + step) <= failure(m) for step in (1, 10, 1000))
    assert (m + 1) * math.exp(-epsilon * 0.1 * m / 4) <= 0.05
    assert central.examples_label_private_stated(vc=vc, constant=2.5) == math.ceil(2.5 * vc)
