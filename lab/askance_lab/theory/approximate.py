"""Examples that (ε,δ)-private learners and sanitizers need: BNS13.

Everything here is for a trusted curator. β is `failure`, δ is `delta`. BNS13 leaves the base of "log" open; base 2 is
used where it writes log, and the constant is the caller's anyway.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from askance_lab.theory.theorem import (
    CONSTANT,
    DELTA,
    DIMENSION,
    EPSILON,
    ERROR,
    EXAMPLES,
    FAILURE,
    Kind,
    Parameter,
    Theorem,
)
from askance_protocol import checks


class Privacy(NamedTuple):
    """An (ε,δ) pair."""

    epsilon: float
    delta: float


class Accuracy(NamedTuple):
    """An (α,β) pair: error, and the probability of exceeding it."""

    error: float
    failure: float


class IntervalLevels(NamedTuple):
    """What Remark 1 asks of the scores of a level j and of the one before."""

    here: float
    """Q(j) is at least this."""
    before: float
    """Q(j-1) is at most this."""


def _check(epsilon: float, delta: float, failure: float = 0.5, error: float = 0.5) -> None:
    checks.positive("epsilon", epsilon)
    checks.open_unit("delta", delta)
    checks.open_unit("failure", failure)
    checks.open_unit("error", error)


# --- A_dist ------------------------------------------------------------------------------------------------------
#
# gap has sensitivity 2, and two neighbours disagree on the best solution only where gap <= 2. So Lap(λ) against a
# threshold 2 + x is (2/λ, ½e^{-x/λ})-private. The text's λ = 4/ε, x = λ·ln(1/δ) is (ε/2, δ/2); λ = 2/ε with
# x = λ·ln(1/2δ) is exactly (ε, δ) (trap 18). f2 may be an unobserved solution of score 0 (trap 13).


def distance_threshold_stated(*, epsilon: float, delta: float) -> float:
    """A_dist, step 3, as written: (4/ε)ln(1/δ) + 2, against noise Lap(4/ε)."""
    _check(epsilon, delta)
    return 4 / epsilon * math.log(1 / delta) + 2


def distance_threshold_tight(*, epsilon: float, delta: float) -> float:
    """A_dist made exactly (ε,δ)-private (trap 18): (2/ε)ln(1/2δ) + 2, against noise Lap(2/ε)."""
    _check(epsilon, delta)
    return 2 / epsilon * max(0.0, math.log(1 / (2 * delta))) + 2


def distance_privacy_stated(*, epsilon: float, delta: float) -> Privacy:
    """What A_dist as written really spends: (ε/2, δ/2) (trap 18)."""
    _check(epsilon, delta)
    return Privacy(epsilon / 2, delta / 2)


def distance_gap_stated(*, epsilon: float, delta: float, failure: float) -> float:
    """Gap from which A_dist outputs f1 but for β: (4/ε)ln(2/βδ). BNS13, Prop. 2(ii), which holds up to ε = 2.77.

    Pr[miss] = ½e^{-(ε/4)(gap-threshold)} = (β/4)e^{ε/2}, at most β while ε <= 2ln 4 (trap 18).
    """
    _check(epsilon, delta, failure)
    remedy = "use distance_gap_repaired"
    checks.require(epsilon <= 2 * math.log(4), "Prop. 2(ii) needs ε <= 2ln 4 = 2.77", where="epsilon", remedy=remedy)
    return 4 / epsilon * math.log(2 / (failure * delta))


def distance_gap_repaired(*, epsilon: float, delta: float, failure: float) -> float:
    """The gap that suffices for A_dist as written, at every ε: threshold + (4/ε)ln(1/2β) (trap 18)."""
    _check(epsilon, delta, failure)
    margin = 4 / epsilon * max(0.0, math.log(1 / (2 * failure)))
    return distance_threshold_stated(epsilon=epsilon, delta=delta) + margin


def distance_gap_tight(*, epsilon: float, delta: float, failure: float) -> float:
    """The gap that suffices with Lap(2/ε) and the tight threshold (trap 18): (2/ε)ln(1/4βδ) + 2 for β, δ <= ½."""
    _check(epsilon, delta, failure)
    margin = 2 / epsilon * max(0.0, math.log(1 / (2 * failure)))
    return distance_threshold_tight(epsilon=epsilon, delta=delta) + margin


# --- POINT_d -----------------------------------------------------------------------------------------------------


def examples_point_stated(*, epsilon: float, delta: float, error: float, failure: float, constant: float) -> int:
    """BNS13, Lemma 1 as stated: c·(1/αε)ln(1/βδ), for 2^d >= 1/αβ."""
    _check(epsilon, delta, failure, error)
    checks.positive("constant", constant)
    return checks.whole(constant / (error * epsilon) * math.log(1 / (failure * delta)), "examples")


def examples_point_repaired(*, dimension: int, epsilon: float, delta: float, error: float, failure: float) -> int:
    """BNS13, Lemma 1 with its constants: max{(16/α)ln(2/β), (4/α)·gap}, and 2^d >= 4/αβ (trap 18).

    A target of mass at least α/2 shows αm/4 times but for e^{-αm/16} (Thm A.1), and A_dist as written then finds it
    but for β/2. A lighter target may go unfound: of at most 2/α points heavier than α/2 a random guess hits one with
    probability at most 2^{1-d}/α.
    """
    _check(epsilon, delta, failure, error)
    remedy = "a smaller domain is for the generic learner"
    large = checks.count("dimension", dimension) >= math.log2(4 / (error * failure))
    checks.require(large, "Lemma 1 needs 2^d >= 4/(αβ)", where="dimension", remedy=remedy)
    seen = 16 / error * math.log(2 / failure)
    found = 4 / error * distance_gap_repaired(epsilon=epsilon, delta=delta, failure=failure / 2)
    return checks.whole(max(seen, found), "examples")


# --- Rec and INTERVAL_d ------------------------------------------------------------------------------------------


def log_star(value: int) -> int:
    """log*: how often log2 must be taken until at most 1 is left."""
    checks.count("value", value)
    left, times = float(math.log2(value)), 1
    if value == 1:
        return 0
    while left > 1:
        left, times = math.log2(left), times + 1
    return times


def rec_depth(*, top: int, base_case: int = 32) -> int:
    """Levels of Rec above its base case, on solutions 0..T: what log*T in BNS13, Lemmas 2-3 overcounts (trap 14).

    A call on [0, T] recurs on [0, ⌈log2 T⌉] and stops at T <= base_case.
    """
    checks.count("top", top)
    checks.count("base_case", base_case, least=2)
    depth = 0
    while top > base_case:
        top, depth = (top - 1).bit_length(), depth + 1
    return depth


def rec_privacy_stated(*, top: int, epsilon: float, delta: float) -> Privacy:
    """BNS13, Lemma 2 as stated: (√(6N·ln(1/Nδ))·ε + 6Nε², 4Nδ), N = log*T (trap 14: the levels are fewer)."""
    _check(epsilon, delta)
    levels = log_star(top)
    remedy = "smaller δ"
    checks.require(levels * delta < 1, "log*T·δ must be below 1", where="delta", remedy=remedy)
    spread = math.sqrt(6 * levels * math.log(1 / (levels * delta)))
    return Privacy(spread * epsilon + 6 * levels * epsilon**2, 4 * levels * delta)


def rec_privacy_repaired(*, top: int, epsilon: float, delta: float, base_case: int = 32) -> Privacy:
    """Rec by basic composition (trap 14): ((3N+1)ε, 2Nδ) for N levels.

    A level runs A_dist twice, (ε,δ) each, and the exponential mechanism once; the base case runs the latter once.
    """
    _check(epsilon, delta)
    levels = rec_depth(top=top, base_case=base_case)
    return Privacy((3 * levels + 1) * epsilon, 2 * levels * delta)


def rec_promise_stated(*, top: int, epsilon: float, delta: float, error: float, failure: float) -> float:
    """BNS13, Lemma 3 as stated: r >= (2/α)^{log*T}·(16/αε)·ln(32/βδ), α <= ½; fails with at most 2β·log*T.

    With α at every level it grows as (2/α)^{log*T} (trap 15).
    """
    _check(epsilon, delta, failure, error)
    checks.between("error", error, 0, 0.5)
    growth = checks.power(2 / error, log_star(top))
    return growth * 16 / (error * epsilon) * math.log(32 / (failure * delta))


def rec_promise_repaired(
    *,
    top: int,
    epsilon: float,
    delta: float,
    error: float,
    failure: float,
    inner_error: float = 0.25,
    base_case: int = 32,
) -> float:
    """Promise from which Rec reaches (1-α)r, recursing with a constant α (traps 14 and 15); fails with (2N+1)β.

    ε, δ, β are those of each mechanism. A level whose recursion is within a of its own promise R = αr/2 needs
    A_dist's gap (1-a)R, a loss below (1-a)R over the 32 points of H (trap 11: both sets, each from its own left end),
    and R as large as the promise one level down. The base case needs a loss below αr over T+1 solutions.
    """
    _check(epsilon, delta, failure, error)
    checks.between("inner_error", checks.positive("inner_error", inner_error), 0, 0.5)
    if rec_depth(top=top, base_case=base_case) == 0:
        return 2 / (epsilon * error) * (math.log(top + 1) - math.log(failure))
    kept = (1 - inner_error) * error / 2
    gap = distance_gap_repaired(epsilon=epsilon, delta=delta, failure=failure)
    loss = 2 / epsilon * math.log(32 / failure)
    below = rec_promise_repaired(
        top=(top - 1).bit_length(),
        epsilon=epsilon,
        delta=delta,
        error=inner_error,
        failure=failure,
        inner_error=inner_error,
        base_case=base_case,
    )
    return max(gap / kept, loss / kept, 2 / error * below)


def interval_levels_stated(*, examples: int, error: float) -> IntervalLevels:
    """BNS13, Remark 1 as stated: Q(j) >= (1-3α/4)m, Q(j-1) <= (1-α/4)m. Impossible: Q <= m/2 (trap 16)."""
    checks.count("examples", examples)
    checks.open_unit("error", error)
    return IntervalLevels((1 - 3 * error / 4) * examples, (1 - error / 4) * examples)


def interval_levels_repaired(*, examples: int, error: float) -> IntervalLevels:
    """BNS13, Remark 1 as repaired (trap 16): Q(j) >= αm/4 and Q(j-1) <= 3αm/4."""
    checks.count("examples", examples)
    checks.open_unit("error", error)
    return IntervalLevels(error * examples / 4, 3 * error * examples / 4)


def examples_interval_stated(*, dimension: int, delta: float, constant: float) -> int:
    """BNS13, Thm 2 as stated: c·16^{log*d}·√(log*d · log(1/δ) · log(log*d/δ)); the constant hides α, β and ε.

    Lemma 3 with α at every level gives (2/α)^{log*d}, not 16^{log*d} (trap 15).
    """
    checks.open_unit("delta", delta)
    levels = max(1, log_star(checks.count("dimension", dimension)))
    root = math.sqrt(levels * math.log2(1 / delta) * math.log2(levels / delta))
    return checks.whole(checks.positive("constant", constant) * math.pow(16, levels) * root, "examples")


def examples_interval_repaired(
    *, dimension: int, epsilon: float, delta: float, error: float, failure: float, base_case: int = 32
) -> int:
    """INTERVAL_d by Rec with the constants that are proved, (ε,δ) and β for the whole learner (traps 14 and 15).

    Q(j) = examples that c_j labels right, so the promise is r = m; Rec with α/2 leaves at most αm/2 mistakes but for
    β/2. Generalization: on each side of the target take the shortest interval of mass α; both show more than αm/2
    examples but for 2e^{-αm/8} (Thm A.1), and every threshold with error above α errs on one of them.
    """
    _check(epsilon, delta, failure, error)
    top = 2 ** checks.count("dimension", dimension)
    levels = rec_depth(top=top, base_case=base_case)
    promise = rec_promise_repaired(
        top=top,
        epsilon=epsilon / (3 * levels + 1),
        delta=delta / max(1, 2 * levels),
        error=error / 2,
        failure=failure / (2 * (2 * levels + 1)),
        base_case=base_case,
    )
    return checks.whole(max(promise, 8 / error * math.log(4 / failure)), "examples")


# --- Records ---------------------------------------------------------------------------------------------------------


_TOP: Final = Parameter("top", "T", "the solutions are 0..T", int, 2**64)
_BASE_CASE: Final = Parameter("base_case", "base_case", "Rec stops at T up to this", int, 32)

THEOREMS: Final = (
    Theorem(
        name="distance-threshold",
        title="A_dist: how far ahead the best solution has to be",
        citation="BNS13, Prop. 2",
        says="With noise on the gap and this threshold, naming the best solution is (ε,δ)-private.",
        kind=Kind.PRICE,
        gives="threshold",
        parameters=(EPSILON, DELTA),
        stated=distance_threshold_stated,
        sharp=distance_threshold_tight,
        others=(distance_privacy_stated,),
        needs="a score of sensitivity 1; the rival may be a solution of score 0 that nobody has",
        differs="As written, with Lap(4/ε), it spends half of ε and δ (distance_privacy_stated). Sharp: Lap(2/ε) and "
        "(2/ε)ln(1/2δ)+2 are exactly (ε,δ). What happens at ⊥ is unspecified.",
        traps=(13, 18),
        checked_by=(
            "lab/theory/test_approximate.py::test_a_dist_as_written_spends_half_of_both",
            "lab/theory/test_approximate.py::test_the_tight_a_dist_spends_all_it_declares",
        ),
    ),
    Theorem(
        name="distance-gap",
        title="A_dist: the lead with which it finds the best solution",
        citation="BNS13, Prop. 2(ii)",
        says="From this gap on, A_dist names the best solution but for probability β.",
        kind=Kind.ENOUGH,
        gives="gap",
        parameters=(EPSILON, DELTA, FAILURE),
        stated=distance_gap_stated,
        repaired=distance_gap_repaired,
        sharp=distance_gap_tight,
        needs="stated: an ε up to 2·ln 4 = 2.77",
        differs="The text's gap has no room for the 2 in the threshold.",
        traps=(18,),
        checked_by=("lab/theory/test_approximate.py::test_proposition_2_holds_up_to_2_77_and_not_beyond",),
    ),
    Theorem(
        name="point",
        title="The proper learner of POINT_d",
        citation="BNS13, Lemma 1",
        says="O((1/αε)ln(1/βδ)) examples, whatever d.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(DIMENSION, EPSILON, DELTA, ERROR, FAILURE, CONSTANT),
        stated=examples_point_stated,
        repaired=examples_point_repaired,
        needs="2^d of at least 4/(αβ)",
        differs="The text asks for 2^d ≥ 1/(αβ), with which a guess fails too often.",
        traps=(18,),
        checked_by=("lab/theory/test_approximate.py::test_the_point_learner_finds_every_target_that_matters",),
    ),
    Theorem(
        name="rec-depth",
        title="Rec: how many levels it has",
        citation="BNS13, Lemmas 2 and 3",
        says="Each level takes logarithms of the domain, down to the base case.",
        kind=Kind.SHAPE,
        gives="levels",
        parameters=(_TOP, _BASE_CASE, Parameter("value", "x", "number whose log* is taken", int, 2**64)),
        repaired=rec_depth,
        others=(log_star,),
        differs="log*T counts down to 1; Rec stops at 32: one level for d up to 32, two up to 2^32.",
        traps=(14,),
        checked_by=("lab/theory/test_approximate.py::test_rec_has_fewer_levels_than_log_star",),
    ),
    Theorem(
        name="rec-privacy",
        title="Rec: what it spends",
        citation="BNS13, Lemma 2",
        says="ε and δ of all levels together, where each mechanism is (ε,δ)-private.",
        kind=Kind.PRICE,
        gives="privacy",
        parameters=(_TOP, EPSILON.at(0.1), DELTA, _BASE_CASE),
        stated=rec_privacy_stated,
        repaired=rec_privacy_repaired,
        differs="Basic composition, (3N+1)ε and 2Nδ for N levels, is less than the lemma's at such N.",
        traps=(14,),
        checked_by=("lab/theory/test_approximate.py::test_basic_composition_beats_lemma_2",),
    ),
    Theorem(
        name="rec-promise",
        title="Rec: how good the best solution has to be",
        citation="BNS13, Lemma 3",
        says="From this promise r on, Rec finds a solution of quality (1-α)r.",
        kind=Kind.ENOUGH,
        gives="promise",
        parameters=(
            _TOP,
            EPSILON.at(0.1),
            DELTA,
            ERROR,
            FAILURE,
            Parameter("inner_error", "inner_error", "error of the recursive calls", float, 0.25),
            _BASE_CASE,
        ),
        stated=rec_promise_stated,
        repaired=rec_promise_repaired,
        needs="a quasi-concave score of sensitivity 1; for the stated form, an error up to ½",
        differs="α at every level gives (2/α)^{log*T}: recurse with a constant, ¼. Step 10's second set starts at c, "
        "not "
        "at b; step 2 pads with min{0,Q(T)}; step 3's min{0,·} is right.",
        traps=(11, 12, 14, 15),
        checked_by=(
            "lab/theory/test_approximate.py::test_the_repaired_promise_meets_its_failure",
            "lab/theory/test_approximate.py::test_recursing_with_a_constant_is_what_keeps_rec_affordable",
        ),
    ),
    Theorem(
        name="interval-levels",
        title="INTERVAL_d: the level at which to look",
        citation="BNS13, Remark 1",
        says="Rec looks for a level j with Q(j) large and Q(j-1) small.",
        kind=Kind.SHAPE,
        gives="score",
        parameters=(EXAMPLES, ERROR),
        stated=interval_levels_stated,
        repaired=interval_levels_repaired,
        differs="Q is the lesser of two counts that add up to m, so m/2 at most: what is asked for cannot be.",
        traps=(16,),
        checked_by=("lab/theory/test_approximate.py::test_remark_1_asks_for_the_impossible",),
    ),
    Theorem(
        name="interval",
        title="The proper learner of INTERVAL_d",
        citation="BNS13, Thm 2",
        says="Thresholds over 2^d points, with examples that hardly grow with d.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(DIMENSION, EPSILON, DELTA, ERROR, FAILURE, _BASE_CASE, CONSTANT),
        stated=examples_interval_stated,
        repaired=examples_interval_repaired,
        differs="The text gives the order only, with 16^{log*d} for what its lemma has as (2/α)^{log*d}.",
        traps=(14, 15),
        checked_by=(
            "lab/theory/test_approximate.py::test_the_interval_learner_prefers_one_level",
            "lab/theory/test_approximate.py::test_stated_theorem_2_is_its_formula",
        ),
    ),
)
