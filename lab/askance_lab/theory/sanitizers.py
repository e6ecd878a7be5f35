"""The choosing mechanism and what is built on it: BNS13 §4 and §5."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from askance_lab.theory.approximate import Accuracy, log_star
from askance_lab.theory.theorem import (
    CONSTANT,
    DELTA,
    DIMENSION,
    EPSILON,
    ERROR,
    FAILURE,
    VC,
    HoldsFor,
    Kind,
    Parameter,
    Theorem,
)
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
    """The POINT sanitizer's construction (docs/theory.md#constructions): 2/α rounds, each of accuracy α/2.

    Of each β' = αβ/4, δ' = αδ/5 and ε' = ε/√(32 ln(5/δ)/α). Each round runs the choosing mechanism and one noisy
    count, 4/α mechanisms in all: where ε' <= 5/4, advanced composition with δ/5 gives ε/2 + ε²/(4ln(5/δ)) <= ε for
    ε <= 2ln(5/δ); a larger ε' comes with rounds so few that basic composition keeps to ε. And δ in all is 3δ/5. A round
    that finds a point deletes αm/2 entries or more, so ⌊2/α⌋ rounds leave no point with αm of them.
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


# --- Records ---------------------------------------------------------------------------------------------------------


_GROWTH: Final = Parameter("growth", "k", "solutions whose score one person changes at most", int, 1)

THEOREMS: Final = (
    Theorem(
        name="choosing",
        title="The choosing mechanism",
        citation="BNS13, Lemma 4",
        says="It chooses among any number of solutions, where one person changes the score of k of them at most.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(_GROWTH, EPSILON, DELTA, ERROR, FAILURE),
        stated=examples_choosing,
        needs="at least this many: below it the mechanism is not private, and the code refuses",
        differs="The bound reads like what accuracy asks for. Privacy rests on it as well.",
        traps=(17,),
        checked_by=(
            "lab/theory/test_sanitizers.py::test_the_choosing_mechanism_is_private_at_its_bound_and_not_below",
            "lab/theory/test_sanitizers.py::test_lemma_4_is_its_formula",
        ),
    ),
    Theorem(
        name="point-sanitizer",
        title="The sanitizer of POINT_d",
        citation="BNS13, Thm 3",
        says="Noisy counts of the heavy points answer every POINT query within α.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(EPSILON, DELTA, ERROR, FAILURE, CONSTANT),
        stated=examples_point_sanitizer_stated,
        repaired=examples_point_sanitizer,
        others=(point_rounds,),
        needs="an ε up to 2·ln(5/δ)",
        differs="The text omits the construction: 2/α rounds of the choosing mechanism (point_rounds).",
        checked_by=("lab/theory/test_sanitizers.py::test_the_point_sanitizer_stays_within_its_budget",),
    ),
    Theorem(
        name="interval-sanitizer",
        title="The sanitizer of INTERVAL_d",
        citation="BNS13, Thm 4",
        says="Noisy counts on a partition answer every INTERVAL query within α.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(DIMENSION, EPSILON, DELTA, ERROR, FAILURE, CONSTANT),
        stated=examples_interval_sanitizer_stated,
        differs="The text omits the construction and its accounting. The lab's own count is in docs/sanitizers.md.",
        checked_by=("lab/theory/test_sanitizers.py::test_stated_sanitizer_bounds_are_their_formulas",),
    ),
    Theorem(
        name="proper-sanitizer",
        title="A sanitizer that gives a database",
        citation="BNS13, §2.3",
        says="Any database that is α-close to the estimates makes an (α,β) sanitizer a proper one with 2α.",
        kind=Kind.PRICE,
        gives="accuracy",
        parameters=(ERROR, FAILURE),
        stated=proper_sanitizer_accuracy,
        checked_by=("lab/theory/test_sanitizers.py::test_reductions_between_sanitizers_and_learners",),
    ),
    Theorem(
        name="sanitizer-learner",
        title="A learner from a sanitizer",
        citation="BNS13, Thm 5",
        says="Sanitize for the class with labels, and take the concept with the least estimated error.",
        kind=Kind.PRICE,
        gives="accuracy",
        parameters=(ERROR, FAILURE, EPSILON.at(0.125)),
        stated=sanitizer_learner_accuracy,
        needs="α and ε up to 1/8",
        checked_by=("lab/theory/test_sanitizers.py::test_reductions_between_sanitizers_and_learners",),
    ),
    Theorem(
        name="sanitizer-limit",
        title="Examples that pure sanitizers cannot do without",
        citation="BNS13, Thm 6",
        says="For some class, every ε-private sanitizer needs c·(1/αε)·VC·log|X| examples.",
        kind=Kind.LIMIT,
        holds_for=HoldsFor.SANITIZERS,
        gives="examples",
        parameters=(
            VC,
            Parameter("domain", "|X|", "number of points of the domain", int, 2**64),
            EPSILON,
            ERROR,
            CONSTANT,
        ),
        stated=examples_sanitizer_lower_bound_stated,
        needs="α and ε up to 1/8, from Thm 5, on which it rests; the text leaves c open: it is an order, not a number",
        checked_by=("lab/theory/test_sanitizers.py::test_stated_sanitizer_bounds_are_their_formulas",),
    ),
)
