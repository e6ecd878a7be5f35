"""The audit catches what leaks, lets pass what does not, and its failure probability is real."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom, binomtest, norm

from askance_lab.experiments.audit import (
    FAILURE,
    PILOT_SHARE,
    AuditVerdict,
    Direction,
    audit_channel,
    audit_counts,
    likelihood_order,
)
from askance_protocol.errors import ProtocolError
from askance_server.core.estimators import binomial_bounds

LEVEL = 1e-6  # of every statistical test, one-sided
EPSILONS = [0.1, 0.5, 1.0, 2.0, 4.0]
EXCESS = 1.15  # the broken channels below spend this much more than they claim

Sampler = Callable[[int], np.ndarray]


def truth(epsilon: float) -> float:
    """Probability of the true answer, KLNRS11 p.4."""
    return 1 / (1 + math.exp(-epsilon))


def micro(epsilon: float) -> int:
    return round(epsilon * 1_000_000)


def weighted(weights: np.ndarray, generator: np.random.Generator) -> Sampler:
    """A sampler of the outcomes 0.. with these weights."""
    return lambda samples: generator.choice(len(weights), size=samples, p=weights / weights.sum())


def response(epsilon: float, generator: np.random.Generator) -> tuple[Sampler, Sampler]:
    """Binary randomized response at ε on the inputs 0 and 1."""
    p = truth(epsilon)
    return (
        lambda samples: (generator.random(samples) >= p).astype(np.int64),
        lambda samples: (generator.random(samples) < p).astype(np.int64),
    )


def samples_to_catch(over: float, under: float, claimed: float, outcomes: int = 2) -> int:
    """Reports per input until an event of these probabilities refutes the claim with probability 1 − LEVEL.

    By the normal approximation: ln p̂ has deviation √((1−p)/(p·n)). Each interval end stands z(failure/(4·events)) of
    them off, and the difference of both logarithms may lie z(LEVEL) of its own deviations too low.
    """
    events = outcomes + 2 * (outcomes - 2)  # audit.py: single outcomes, longer prefixes, longer suffixes
    first, second = math.sqrt((1 - over) / over), math.sqrt((1 - under) / under)
    deviations = norm.isf(FAILURE / (4 * events)) * (first + second) + norm.isf(LEVEL) * math.hypot(first, second)
    counted = (deviations / (math.log(over / under) - claimed)) ** 2
    return math.ceil(counted * PILOT_SHARE / (PILOT_SHARE - 1))


def samples_for_response(epsilon: float) -> int:
    """Enough to catch randomized response at EXCESS·ε claimed at ε."""
    return samples_to_catch(truth(EXCESS * epsilon), 1 - truth(EXCESS * epsilon), epsilon)


def test_all_samples_below_fit_the_budget() -> None:
    """Two channels per ε, two inputs each: at most 10⁷ reports in all."""
    assert sum(4 * samples_for_response(epsilon) for epsilon in EPSILONS) <= 10**7


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomized_response_at_exactly_epsilon_passes(epsilon: float) -> None:
    """The claim is met with equality and is not called violated."""
    sample_u, sample_v = response(epsilon, np.random.default_rng(10))
    audit, verdict = audit_channel(sample_u, sample_v, samples_for_response(epsilon), micro(epsilon), outcomes=2)

    assert verdict is AuditVerdict.CONSISTENT
    # Not by blindness: the bound comes within what is needed to catch EXCESS.
    assert epsilon / EXCESS < audit.epsilon_lower_bound <= epsilon


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_randomized_response_that_spends_more_than_it_claims_is_caught(epsilon: float) -> None:
    """The channel of 1.15·ε claimed at ε, at the sample size computed for it."""
    sample_u, sample_v = response(EXCESS * epsilon, np.random.default_rng(11))
    audit, verdict = audit_channel(sample_u, sample_v, samples_for_response(epsilon), micro(epsilon), outcomes=2)

    assert verdict is AuditVerdict.VIOLATED
    assert epsilon < audit.epsilon_lower_bound <= EXCESS * epsilon


@pytest.mark.parametrize("direction", list(Direction))
def test_a_leak_on_one_of_128_outcomes_is_caught(direction: Direction) -> None:
    """Uniform but for one rarer outcome, e² times as likely under one of the inputs as under the other; claimed 1."""
    leaky, plain = np.ones(128), np.ones(128)
    leaky[77], plain[77] = math.exp(2) / 8, 1 / 8
    generator = np.random.default_rng(12)
    samplers = weighted(leaky, generator), weighted(plain, generator)
    sample_u, sample_v = samplers if direction is Direction.U_OVER_V else samplers[::-1]
    samples = samples_to_catch(leaky[77] / leaky.sum(), plain[77] / plain.sum(), 1.0, outcomes=128)
    audit, verdict = audit_channel(sample_u, sample_v, samples, micro(1.0), outcomes=128)

    assert verdict is AuditVerdict.VIOLATED
    assert (audit.event, audit.direction) == ((77,), direction)
    assert audit.verdict(micro(2.0)) is AuditVerdict.CONSISTENT


def test_a_leak_spread_over_many_rare_outcomes_is_caught_by_the_pilots_order() -> None:
    """Half of 4096 shuffled outcomes are e^1.5 times as likely under u; each one alone is seen too seldom."""
    generator = np.random.default_rng(13)
    shuffled = generator.permutation(np.repeat([math.exp(1.5), 1.0], 2048))
    sample_u, sample_v = weighted(shuffled, generator), weighted(np.ones(4096), generator)
    audit, verdict = audit_channel(sample_u, sample_v, 100_000, micro(0.25), outcomes=4096)

    assert verdict is AuditVerdict.VIOLATED
    assert len(audit.event) > 1
    # The same channel without a pilot shows nothing of it.
    counts_u, counts_v = (np.bincount(sample(100_000), minlength=4096) for sample in (sample_u, sample_v))
    assert audit_counts(counts_u, counts_v).verdict(micro(0.25)) is AuditVerdict.CONSISTENT


@pytest.mark.parametrize("failure", [0.05, 0.5])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_false_alarms_of_a_small_audit_by_enumeration(epsilon: float, failure: float) -> None:
    """Randomized response at exactly ε, 25 reports per input: the exact probability of an alarm is ≤ failure."""
    total = 25
    under_u = binom.pmf(np.arange(total + 1), total, truth(epsilon))
    alarm = 0.0
    for i in range(total + 1):
        for j in range(total + 1):
            audit = audit_counts(np.asarray([i, total - i]), np.asarray([total - j, j]), failure)
            alarm += under_u[i] * under_u[j] * (audit.epsilon_lower_bound > epsilon)

    assert alarm <= failure


def test_false_alarms_over_many_seeds() -> None:
    """16-ary response at exactly ε, order from a pilot: alarms are no more frequent than failure = 0.05."""
    epsilon, runs, failure = 1.0, 1000, 0.05
    likely_u, likely_v = (np.where(np.arange(16) == truth, math.e, 1.0) for truth in (3, 9))
    generator = np.random.default_rng(14)
    alarms = 0
    for _ in range(runs):
        pilot_u, counts_u = generator.multinomial(500, likely_u / likely_u.sum(), size=2)
        pilot_v, counts_v = generator.multinomial(500, likely_v / likely_v.sum(), size=2)
        audit = audit_counts(counts_u, counts_v, failure, order=likelihood_order(pilot_u, pilot_v))
        alarms += audit.epsilon_lower_bound > epsilon

    assert binomtest(alarms, runs, failure, alternative="greater").pvalue > LEVEL


def test_that_test_catches_an_audit_without_its_intervals() -> None:
    """Control: the same experiment with plug-in frequencies raises far more alarms than failure = 0.05."""
    runs, failure = 1000, 0.05
    generator = np.random.default_rng(15)
    u, v = generator.binomial(500, truth(1.0), runs), generator.binomial(500, 1 - truth(1.0), runs)
    alarms = int((np.log(u / v) > 1.0).sum())

    assert binomtest(alarms, runs, failure, alternative="greater").pvalue < LEVEL


@pytest.mark.parametrize("failure", [1e-9, 1e-6, 0.05])
def test_clopper_pearson_ends_are_the_binomial_tails(failure: float) -> None:
    """At the bound below, as many successes or more have probability `failure`; at the one above, as many or fewer."""
    total = 1_000_000
    inside = np.asarray([1, 2, 50, 10_000, 500_000, 900_000])
    below, above = binomial_bounds(inside, total, failure)

    assert binom.sf(inside - 1, total, below) == pytest.approx(np.full(6, failure), rel=1e-6)
    assert binom.cdf(inside, total, above) == pytest.approx(np.full(6, failure), rel=1e-6)


def test_clopper_pearson_never_excludes_what_cannot_be_excluded() -> None:
    """No success in n does not bound the probability from below; no failure does not bound it from above."""
    below, above = binomial_bounds(np.asarray([0, 9]), 9, FAILURE)

    assert below[0] == 0.0
    assert above[1] == 1.0
    assert 0 < below[1] < 1
    assert 0 < above[0] < 1


def test_the_named_event_is_the_one_that_was_counted() -> None:
    """The bound, recomputed by hand from the event's members, for a leak on a prefix, a suffix and one outcome."""
    order = np.asarray([3, 0, 5, 2, 1, 4])
    plain = np.where(np.arange(6) == 2, 100_000, 200)
    for raised in ((0, 3), (0, 3, 5), (1, 4), (5,)):
        leaky = plain + 2000 * np.isin(np.arange(6), raised)
        audit = audit_counts(leaky, plain, order=order)
        each = FAILURE / (4 * (6 + 4 + 4))  # six outcomes, four longer prefixes, four longer suffixes
        below, _ = binomial_bounds(np.asarray([leaky[list(audit.event)].sum()]), int(leaky.sum()), each)
        _, above = binomial_bounds(np.asarray([plain[list(audit.event)].sum()]), int(plain.sum()), each)

        assert audit.event == raised
        assert audit.epsilon_lower_bound == pytest.approx(math.log(below[0] / above[0]), rel=1e-12)


def test_equal_inputs_show_no_leak() -> None:
    """Without a difference the bound is 0, not negative, and any claim is consistent."""
    audit = audit_counts(np.asarray([5, 7, 1]), np.asarray([5, 7, 1]))

    assert (audit.epsilon_lower_bound, audit.samples, audit.failure) == (0.0, 26, FAILURE)
    assert audit.verdict(0) is AuditVerdict.CONSISTENT


def test_the_pilot_is_not_counted() -> None:
    """One report in PILOT_SHARE under each input chooses the order, and only the others are evidence."""
    sample_u, sample_v = response(1.0, np.random.default_rng(16))
    audit, _ = audit_channel(sample_u, sample_v, 1000, micro(1.0), outcomes=2)

    assert audit.samples == 2 * (1000 - 1000 // PILOT_SHARE)


@pytest.mark.parametrize(
    ("counts_u", "counts_v"),
    [
        ([1, 2], [1, 2, 3]),
        ([1], [1]),
        ([1, -1], [1, 1]),
        ([0, 0], [1, 1]),
        ([1.0, 2.0], [1.0, 2.0]),
        ([[1, 2]], [[1, 2]]),
    ],
)
def test_bad_counts_are_refused(counts_u: list[float], counts_v: list[float]) -> None:
    """Two equally long rows of non-negative integers, neither of them empty of reports."""
    with pytest.raises(ProtocolError, match="counts"):
        audit_counts(np.asarray(counts_u), np.asarray(counts_v))


@pytest.mark.parametrize("order", [[0, 0], [0], [0, 2]])
def test_an_order_that_is_no_permutation_is_refused(order: list[int]) -> None:
    """Counting an outcome twice would void the bound."""
    with pytest.raises(ProtocolError, match="permutation"):
        audit_counts(np.asarray([1, 2]), np.asarray([1, 2]), order=np.asarray(order))


@pytest.mark.parametrize("failure", [0.0, 1.0, -0.1, float("nan")])
def test_a_failure_that_is_no_probability_is_refused(failure: float) -> None:
    """Both entrances check it."""
    with pytest.raises(ProtocolError, match="failure"):
        audit_counts(np.asarray([1, 2]), np.asarray([1, 2]), failure)
    with pytest.raises(ProtocolError, match="failure"):
        audit_channel(np.zeros, np.zeros, 10, 1, outcomes=2, failure=failure)


@pytest.mark.parametrize(
    "bad",
    [
        lambda samples: np.zeros(samples + 1, dtype=np.int64),
        np.zeros,
        lambda samples: np.full(samples, 2),
        lambda samples: np.full(samples, -1),
    ],
)
def test_a_sampler_that_breaks_its_contract_is_refused(bad: Sampler) -> None:
    """Another number of outcomes than asked, no integers, or outcomes the channel does not have."""
    good, _ = response(1.0, np.random.default_rng(17))
    with pytest.raises(ProtocolError, match="sample"):
        audit_channel(good, bad, 10, micro(1.0), outcomes=2)


def test_too_few_samples_and_a_negative_claim_are_refused() -> None:
    """Pre-conditions come before the first draw."""
    sample_u, sample_v = response(1.0, np.random.default_rng(18))
    with pytest.raises(ProtocolError, match="pilot"):
        audit_channel(sample_u, sample_v, 1, micro(1.0), outcomes=2)
    with pytest.raises(ProtocolError, match="negative"):
        audit_channel(sample_u, sample_v, 10, -1, outcomes=2)
