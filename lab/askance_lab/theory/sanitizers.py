"""The choosing mechanism and what is built on it: BNS13 §4 and §5."""

from __future__ import annotations

import math
from typing import NamedTuple

from askance_lab.theory.approximate import Accuracy, log_star
from askance_protocol import checks


class PointRounds(NamedTuple):
    """The POINT sanitizer: rounds of the choosing mechanism, and the parameters of each."""

    rounds: int
    epsilon: float
    delta: float
    error: float
    failure: float


def _check(epsilon: float, delta: float, error: float, failure: float) -> None:
    checks.positive("epsilon", epsilon)
    checks.open_unit("delta", delta)
    checks.open_unit("error", error)
    checks.open_unit("failure", failure)


def examples_choosing(*, growth: int, epsilon: float, delta: float, error: float, failure: float) -> int:
    """BNS13, Lemma 4: m >= (16/αε)·max(ε/4 + ln(1/δ), ln(16k/αβε)), k = `growth`.

    Below it the mechanism is not private, let alone accurate (trap 17).
    """
    _check(epsilon, delta, error, failure)
    privacy = epsilon / 4 + math.log(1 / delta)
    accuracy = math.log(16 * checks.count("growth", growth) / (error * failure * epsilon))
    return checks.whole(16 / (error * epsilon) * max(privacy, accuracy), "examples")


def require_choosing_examples(
    examples: int, *, growth: int, epsilon: float, delta: float, error: float, failure: float
) -> None:
    """Refuse to run the choosing mechanism below Lemma 4's bound, where it is not private (trap 17)."""
    needed = examples_choosing(growth=growth, epsilon=epsilon, delta=delta, error=error, failure=failure)
    what = "the choosing mechanism is not private on so few examples"
    checks.require(examples >= needed, what, where="examples", remedy=f"give at least {needed}")


def point_rounds(*, epsilon: float, delta: float, error: float, failure: float) -> PointRounds:
    """The POINT sanitizer's construction (THEORY.md §1): 2/α rounds with accuracy α/2, β' = αβ/4, δ' = αδ/5.

    ε' = ε/√(32 ln(5/δ)/α). Each round runs the choosing mechanism and one noisy count, 4/α mechanisms in all: where
    ε' <= 5/4, advanced composition with δ/5 gives ε/2 + ε²/(4ln(5/δ)) <= ε for ε <= 2ln(5/δ); a larger ε' comes with
    rounds so few that basic composition keeps to ε. And δ in all is 3δ/5. A round that finds a point deletes αm/2
    entries or more, so ⌊2/α⌋ rounds leave no point with αm of them.
    """
    _check(epsilon, delta, error, failure)
    remedy = "ask for less ε"
    checks.require(epsilon <= 2 * math.log(5 / delta), "needs ε <= 2ln(5/δ)", where="epsilon", remedy=remedy)
    share = epsilon / math.sqrt(32 * math.log(5 / delta) / error)
    rounds = math.floor(2 / error * (1 + 4e-16))
    return PointRounds(rounds, share, error * delta / 5, error / 2, error * failure / 4)


def examples_point_sanitizer_stated(
    *, epsilon: float, delta: float, error: float, failure: float, constant: float
) -> int:
    """BNS13, Thm 3 as stated: c·(1/(α^1.5·ε))·√ln(1/δ)·ln(1/αβεδ)."""
    _check(epsilon, delta, error, failure)
    logs = math.sqrt(math.log(1 / delta)) * math.log(1 / (error * failure * epsilon * delta))
    return checks.whole(checks.positive("constant", constant) / (error**1.5 * epsilon) * logs, "examples")


def examples_point_sanitizer(*, epsilon: float, delta: float, error: float, failure: float) -> int:
    """BNS13, Thm 3 with the constants of its construction (`point_rounds`): the choosing mechanism's m at k = 1.

    The noisy counts stay within αm but for (2/α)e^{-ε'αm} <= β/2, which is less.
    """
    rounds = point_rounds(epsilon=epsilon, delta=delta, error=error, failure=failure)
    choosing = examples_choosing(
        growth=1, epsilon=rounds.epsilon, delta=rounds.delta, error=rounds.error, failure=rounds.failure
    )
    counting = math.log(4 / (error * failure)) / (rounds.epsilon * error)
    return max(choosing, checks.whole(counting, "examples"))


def examples_interval_sanitizer_stated(
    *, dimension: int, epsilon: float, delta: float, error: float, failure: float, constant: float
) -> int:
    """BNS13, Thm 4 as stated: c·(1/(α^2.5·ε))·8^{log*d}·√log*d·log(1/αδ)·log(log*d/αβεδ).

    The text omits the construction. The lab's has its own count, from its own accounting (docs/sanitizers.md).
    """
    _check(epsilon, delta, error, failure)
    levels = max(1, log_star(checks.count("dimension", dimension)))
    logs = math.log2(1 / (error * delta)) * math.log2(levels / (error * failure * epsilon * delta))
    factor = math.pow(8, levels) * math.sqrt(levels) / (error**2.5 * epsilon)
    return checks.whole(checks.positive("constant", constant) * factor * logs, "examples")


def proper_sanitizer_accuracy(*, error: float, failure: float) -> Accuracy:
    """Improper to proper: (α,β) becomes (2α,β), by any database that is α-close to the estimates. BNS13 §2.3."""
    checks.open_unit("error", error)
    return Accuracy(2 * error, checks.open_unit("failure", failure))


def sanitizer_learner_accuracy(*, error: float, failure: float, epsilon: float) -> Accuracy:
    """A sanitizer for C^label is a proper learner for C with error 3α+2β and failure 2β. BNS13, Thm 5 (α, ε <= 1/8)."""
    checks.between("error", checks.positive("error", error), 0, 1 / 8)
    checks.between("epsilon", checks.positive("epsilon", epsilon), 0, 1 / 8)
    checks.open_unit("failure", failure)
    return Accuracy(3 * error + 2 * failure, 2 * failure)


def examples_sanitizer_lower_bound_stated(
    *, vc: int, domain: int, epsilon: float, error: float, constant: float
) -> int:
    """Some class needs c·(1/αε)·VC·log|X| examples of every pure sanitizer. BNS13, Thm 6."""
    _check(epsilon, 0.5, error, 0.5)
    logs = checks.count("vc", vc) * math.log2(checks.count("domain", domain))
    return checks.whole(checks.positive("constant", constant) / (error * epsilon) * logs, "examples")
