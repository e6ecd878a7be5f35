"""The choosing mechanism and the sanitizers of BNS13."""

import math

import pytest

from askance_lab.theory import sanitizers
from askance_protocol.errors import ProtocolError


def laplace_above(x: float, scale: float) -> float:
    """P(Lap(scale) >= x)."""
    return 0.5 * math.exp(-x / scale) if x > 0 else 1 - 0.5 * math.exp(x / scale)


def choosing_outputs(counts: tuple[int, int], examples: int, alpha: float, epsilon: float) -> list[float]:
    """Exact distribution of the choosing mechanism for point counts: a probability per point, and of ⊥."""
    passed = laplace_above(alpha * examples / 2 - max((*counts, 0)), 4 / epsilon)
    weights = [math.exp(epsilon / 4 * c) if c >= 1 else 0.0 for c in counts]
    total = sum(weights)
    return [*(passed * w / total if total else 0.0 for w in weights), 1 - (passed if total else 0.0)]


def choosing_delta(examples: int, alpha: float, epsilon: float) -> float:
    """Exact δ(ε) over all neighbours on two points and an entry that counts for neither (k = 1)."""
    worst = 0.0
    for first in range(examples + 1):
        for second in range(examples + 1 - first):
            here = choosing_outputs((first, second), examples, alpha, epsilon)
            for step in ((1, 0), (0, 1), (-1, 0), (0, -1), (1, -1), (-1, 1)):
                other = (first + step[0], second + step[1])
                if min(other) < 0 or sum(other) > examples:
                    continue
                there = choosing_outputs(other, examples, alpha, epsilon)
                worst = max(worst, sum(max(0.0, p - math.exp(epsilon) * q) for p, q in zip(here, there, strict=True)))
    return worst


def test_the_choosing_mechanism_is_private_at_its_bound_and_not_below() -> None:
    """Trap 17: at α = .5, ε = 1 ten examples have a δ(1) above 1/10; Lemma 4's m has at most δ."""
    parameters = {"growth": 1, "epsilon": 1.0, "delta": 0.01, "error": 0.5, "failure": 0.5}
    m = sanitizers.examples_choosing(**parameters)

    assert choosing_delta(10, 0.5, 1.0) > 0.1
    assert choosing_delta(m, 0.5, 1.0) <= 0.01
    with pytest.raises(ProtocolError, match=f"give at least {m}"):
        sanitizers.require_choosing_examples(10, **parameters)
    sanitizers.require_choosing_examples(m, **parameters)


def test_lemma_4_is_its_formula() -> None:
    """Both sides of the maximum, by hand: (16/αε)(ε/4 + ln(1/δ)) and (16/αε)ln(16k/αβε)."""
    privacy = sanitizers.examples_choosing(growth=1, epsilon=1, delta=1e-9, error=0.5, failure=0.5)
    accuracy = sanitizers.examples_choosing(growth=7, epsilon=1, delta=0.5, error=0.5, failure=0.01)

    assert privacy == math.ceil(32 * (0.25 + math.log(1e9)))
    assert accuracy == math.ceil(32 * math.log(16 * 7 / 0.005))


@pytest.mark.parametrize("error", [0.1, 0.15, 0.3])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_point_sanitizer_stays_within_its_budget(error: float, epsilon: float) -> None:
    """Advanced composition of one choice and one count a round, written out: at most ε and δ; misses at most β."""
    delta, failure = 1e-6, 0.1
    plan = sanitizers.point_rounds(epsilon=epsilon, delta=delta, error=error, failure=failure)
    m = sanitizers.examples_point_sanitizer(epsilon=epsilon, delta=delta, error=error, failure=failure)
    k = 2 * plan.rounds
    spent = math.sqrt(2 * k * math.log(5 / delta)) * plan.epsilon + 2 * k * plan.epsilon**2

    assert plan.rounds == int(2 / error + 1e-9)
    assert spent <= epsilon
    assert plan.rounds * plan.delta + delta / 5 <= delta
    assert plan.rounds * (plan.failure + math.exp(-plan.epsilon * error * m)) <= failure
    # Any round that ran found αm/2 entries at least: after all of them no point has αm left.
    assert m - plan.rounds * error * m / 2 < error * m


def test_stated_sanitizer_bounds_are_their_formulas() -> None:
    """BNS13, Thm 3 (natural logarithms), Thm 4 and Thm 6 (log to base 2) with c = 1."""
    point = sanitizers.examples_point_sanitizer_stated(epsilon=1, delta=1e-4, error=0.25, failure=0.1, constant=1)
    interval = sanitizers.examples_interval_sanitizer_stated(
        dimension=16, epsilon=1, delta=2**-10, error=0.25, failure=0.125, constant=1
    )
    lower = sanitizers.examples_sanitizer_lower_bound_stated(vc=3, domain=2**8, epsilon=0.5, error=0.25, constant=1)

    assert point == math.ceil(8 * math.sqrt(math.log(1e4)) * math.log(40 * 1e4))
    assert interval == math.ceil(32 * 8**3 * math.sqrt(3) * 12 * math.log2(3 * 2**15))
    assert lower == 8 * 3 * 8


def test_reductions_between_sanitizers_and_learners() -> None:
    """BNS13 §2.3: improper to proper at 2α. Thm 5: a sanitizer is a learner at (3α+2β, 2β), for α, ε <= 1/8."""
    assert sanitizers.proper_sanitizer_accuracy(error=0.1, failure=0.05) == (0.2, 0.05)
    learner = sanitizers.sanitizer_learner_accuracy(error=0.1, failure=0.05, epsilon=0.1)
    assert learner == pytest.approx((0.4, 0.1))
    with pytest.raises(ProtocolError, match="epsilon"):
        sanitizers.sanitizer_learner_accuracy(error=0.1, failure=0.05, epsilon=0.2)
