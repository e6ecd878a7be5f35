"""Users that a local protocol needs to answer statistical queries, and queries that replace a local protocol.

Texts: KLNRS11 §5 (Lemma 5.6, Theorem 5.7, Claims 5.9 and 5.10), BB-notes Theorems 5, 6 and 8.

The constants that are proved. A query g: D -> [-b, b] is answered by the average of g(u) + Lap(2b/ε). Half the
tolerance goes to sampling, half to noise, and each half may fail with β/2:

    sampling  2exp(-n τ²/8b²) <= β/2            (KLNRS11, Thm A.2)   n >= (8b²/τ²) ln(4/β)
    noise     2exp(-n (τ/2)²/8λ²) <= β/2, λ=2b/ε (Lemma A.3 repaired) n >= (128b²/ε²τ²) ln(4/β)

The repaired Lemma A.3 asks for τ/2 <= 2√2·λ, that is ε <= 8√2·b/τ. Beyond that ε the first line alone is enough: with
t = 1/(√2·λ) the noise tail is at most 2·exp(-n(τ/(2√2·λ) - ln 2)) <= 2e^{-1.3n}, and n >= 2ln(4/β) for every τ <= 2b.
So the maximum of the two lines holds for every ε, as long as τ <= 2b.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from askance_lab.theory.theorem import (
    BOUND,
    CONSTANT,
    DIMENSION,
    EPSILON,
    ERROR,
    FAILURE,
    QUERIES,
    TOLERANCE,
    Kind,
    Parameter,
    Theorem,
)
from askance_protocol import checks


class Queries(NamedTuple):
    """Requirements of a statistical query algorithm: the number of queries, each answered within ±tolerance."""

    number: int
    tolerance: float


def _check_query(bound: float, tolerance: float, epsilon: float, failure: float) -> None:
    checks.positive("bound", bound)
    checks.positive("tolerance", tolerance)
    remedy = "a query in [-b, b] is answered within 2b by any constant"
    checks.require(tolerance <= 2 * bound, "exceeds the query's own range 2b", where="tolerance", remedy=remedy)
    checks.positive("epsilon", epsilon)
    checks.open_unit("failure", failure)


def users_sq_query_stated(*, bound: float, tolerance: float, epsilon: float, failure: float, constant: float) -> int:
    """One query by local reports. KLNRS11, Lemma 5.6 as stated: n >= c·log(1/β)b²/(ε²τ²), log to base 2.

    The text says "sufficiently large c" and its proof rests on the false Lemma A.3 (trap 2): c is the caller's.
    """
    return users_sq_simulation_stated(
        queries=1, bound=bound, tolerance=tolerance, epsilon=epsilon, failure=failure, constant=constant
    )


def users_sq_query_repaired(*, bound: float, tolerance: float, epsilon: float, failure: float) -> int:
    """One query by local reports. KLNRS11, Lemma 5.6 with the constants that are proved (trap 2; see the module)."""
    _check_query(bound, tolerance, epsilon, failure)
    sampling = 8 * (bound / tolerance) ** 2
    noise = 128 * (bound / (epsilon * tolerance)) ** 2
    return checks.whole(max(sampling, noise) * math.log(4 / failure))


def users_sq_simulation_stated(
    *, queries: int, bound: float, tolerance: float, epsilon: float, failure: float, constant: float
) -> int:
    """All t queries, fresh users for each. KLNRS11, Thm 5.7 as stated: n >= c·t·log(t/β)b²/(ε²τ²), log to base 2."""
    checks.count("queries", queries)
    _check_query(bound, tolerance, epsilon, failure)
    checks.positive("constant", constant)
    return checks.whole(constant * queries * math.log2(queries / failure) * (bound / (epsilon * tolerance)) ** 2)


def users_sq_simulation_repaired(
    *, queries: int, bound: float, tolerance: float, epsilon: float, failure: float
) -> int:
    """All t queries, fresh users for each. KLNRS11, Thm 5.7 repaired (trap 2): t·n' with β' = β/t."""
    checks.count("queries", queries)
    checks.open_unit("failure", failure)
    portion = users_sq_query_repaired(bound=bound, tolerance=tolerance, epsilon=epsilon, failure=failure / queries)
    return queries * portion


def conjunction_queries(*, dimension: int, error: float) -> Queries:
    """Monotone conjunctions over {0,1}^d: d nonadaptive queries of tolerance α/(2d). BB-notes, Thm 5.

    The queries are {0,1}-valued. A ±1-valued form of the same query has twice the tolerance (docs/errata.md#smaller).
    """
    checks.count("dimension", dimension)
    checks.open_unit("error", error)
    return Queries(dimension, error / (2 * dimension))


def boolean_queries(*, bound: float, tolerance: float) -> Queries:
    """One real query g: D -> [-b, b] from {0,1}-valued ones. KLNRS11 §5 (Bshouty-Feldman): O(log(b/τ)) of them.

    Ask the first K binary digits of (g+b)/2b, each within τ/4b, and add half of what the digits cut off. The answers'
    errors sum to at most 2b·(τ/4b) = τ/2 and the cut to b·2^{-K} <= τ/2, so K = ⌈log2(2b/τ)⌉.
    """
    checks.positive("bound", bound)
    checks.positive("tolerance", tolerance)
    digits = checks.whole(math.log2(max(2.0, 2 * bound / tolerance)), "queries")
    return Queries(digits, tolerance / (4 * bound))


# --- Sampling, without privacy -----------------------------------------------------------------------------------


def examples_sq_to_pac_stated(*, queries: int, tolerance: float, failure: float, constant: float) -> int:
    """BB-notes, Thm 6 as stated: n = c·(M/τ²)·ln(M/δ). At M = 1 and δ near 1 the logarithm vanishes; c is yours."""
    _check_sampling(queries, tolerance, failure)
    checks.positive("constant", constant)
    return checks.whole(constant * queries / tolerance**2 * math.log(queries / failure), "examples")


def examples_sq_to_pac(*, queries: int, tolerance: float, failure: float) -> int:
    """BB-notes, Thm 6 with its constant: M pieces of (1/2τ²)·ln(2M/δ) examples, by Hoeffding on [0, 1]."""
    _check_sampling(queries, tolerance, failure)
    return queries * checks.whole(math.log(2 * queries / failure) / (2 * tolerance**2), "examples")


def examples_sq_noise_stated(
    *, queries: int, tolerance: float, noise_rate: float, failure: float, constant: float
) -> int:
    """BB-notes, Thm 8 as stated: n = c·(M/(τ²(1-2η)²))·ln(M/δ)."""
    _check_sampling(queries, tolerance, failure)
    checks.positive("constant", constant)
    signal = _label_signal(noise_rate)
    return checks.whole(constant * queries / (tolerance * signal) ** 2 * math.log(queries / failure), "examples")


def examples_sq_noise_split(*, queries: int, tolerance: float, noise_rate: float, failure: float) -> int:
    """BB-notes, Thm 8 with its constants: fresh samples for the label-free and for the label part of each query.

    φ(x,y) = f(x)·y + e(x) with e in [0,1] and f·y in [-½,½]. Each part gets τ/2 (the label part τ(1-2η)/2 before it is
    scaled up) and fails with δ/2M: (2/τ²)·ln(4M/δ) and (2/(τ²(1-2η)²))·ln(4M/δ). It needs the true η.
    """
    _check_sampling(queries, tolerance, failure)
    spread = 2 / tolerance**2 * math.log(4 * queries / failure)
    label_free = checks.whole(spread, "examples")
    label = checks.whole(spread / _label_signal(noise_rate) ** 2, "examples")
    return queries * (label_free + label)


def examples_sq_noise_joint(*, queries: int, tolerance: float, noise_rate: float, failure: float) -> int:
    """BB-notes, Thm 8 on one sample per query: e(x) + f(x)·y/(1-2η) is unbiased and spans 1/(1-2η), so Hoeffding.

    A quarter of what the label part alone takes when the two are estimated apart.
    """
    _check_sampling(queries, tolerance, failure)
    per_query = math.log(2 * queries / failure) / (2 * (tolerance * _label_signal(noise_rate)) ** 2)
    return queries * checks.whole(per_query, "examples")


def _check_sampling(queries: int, tolerance: float, failure: float) -> None:
    checks.count("queries", queries)
    checks.between("tolerance", checks.positive("tolerance", tolerance), 0, 1)
    checks.open_unit("failure", failure)


def _label_signal(noise_rate: float) -> float:
    """1-2η: the factor by which random classification noise shrinks a label's mean."""
    checks.require(
        0 <= noise_rate < 0.5, f"must lie in [0, 1/2), not {noise_rate}", where="noise_rate", remedy="0.5 is pure noise"
    )
    return 1 - 2 * noise_rate


# --- Local protocols by statistical queries ----------------------------------------------------------------------
#
# B_{R,ε} draws w ~ R(0), q(w) = Pr[R(0)=w], asks for the mean of g(z) = (Pr[R(z)=w]-q(w))/(q(w)(e^ε-e^-ε)) and keeps
# w with probability p̃(w)/(q(w)(1+φ)e^ε). Because q(w) <= e^ε·p(w), an answer within τ gives p̃ in (1±φ)p with
# φ = τ(e^{2ε}-1). What it outputs has density between (1-φ)/(1+φ) and (1+φ)/(1-φ) times p, so its distance from p is
# at most φ itself: the worst split puts p-mass (1-φ)/2 on the upper side. The text allows 3φ.


def randomizer_tolerance_stated(*, queries: int, epsilon: float, failure: float) -> float:
    """Tolerance of B_{R,ε}'s queries when A makes t reports: τ = β/(3e^{2ε}t). KLNRS11, Claim 5.9."""
    _check_randomizer(queries, epsilon, failure)
    return checks.attainable("tolerance", failure * math.exp(-2 * epsilon) / (3 * queries))


def randomizer_tolerance_sharp(*, queries: int, epsilon: float, failure: float) -> float:
    """Claim 5.9 with the distance that holds, φ = τ(e^{2ε}-1) = β/t: at least three times the text's tolerance.

    Step 4 must then divide by 1+β/t where the text has 1+β/3t.
    """
    _check_randomizer(queries, epsilon, failure)
    return checks.attainable("tolerance", failure * math.exp(-2 * epsilon) / (queries * -math.expm1(-2 * epsilon)))


def interactive_randomizer_tolerance(*, queries: int, epsilon: float, failure: float) -> float:
    """The same tolerance for interactive A. KLNRS11, Claim 5.10: there p̃ is a ratio of two answers.

    Each answer is within (1±β/3t), so their ratio is within (1±β/t) and step 4 must divide by 1+β/t; carried over from
    Claim 5.9 with its 1+β/3t the "probability" can exceed 1.
    """
    return randomizer_tolerance_stated(queries=queries, epsilon=epsilon, failure=failure)


def expected_tries(*, epsilon: float, accuracy: float) -> float:
    """Expected rounds of rejection sampling, φ = `accuracy` <= 1/3: at most ((1+φ)/(1-φ))e^ε. KLNRS11, Claim 5.9."""
    checks.positive("epsilon", epsilon)
    checks.between("accuracy", accuracy, 0, 1 / 3)
    return (1 + accuracy) / (1 - accuracy) * checks.exp(epsilon)


def expected_randomizer_queries(*, queries: int, epsilon: float, interactive: bool = False) -> float:
    """Expected statistical queries for t reports: 2e^ε each; twice that when interactive (two answers a try).

    KLNRS11, Claims 5.9 and 5.10 (the latter where β/t <= 1/3). A nonadaptive simulation draws the candidates w of all
    its tries beforehand.
    """
    checks.count("queries", queries)
    return queries * expected_tries(epsilon=epsilon, accuracy=1 / 3) * (2 if interactive else 1)


def simulation_accuracy_stated(*, queries: int, failure: float) -> float:
    """Relative error φ = β/3t of each Pr[R = w] when t reports are made up, distances added up. KLNRS11, Claim 5.9."""
    return checks.open_unit("failure", failure) / (3 * checks.count("queries", queries))


def simulation_accuracy_joint(*, queries: int, failure: float) -> float:
    """The same with divergences added up: φ/(1 − φ) = (2β/3)√(2/t), and φ <= 1/3; β/3 is for candidates that all fail.

    KL <= χ² <= (φ/(1 − φ))² for a report, the chain rule adds up t of them, and Pinsker: distance <= √(tKL/2) <= 2β/3.
    """
    odds = 2 * checks.open_unit("failure", failure) / 3 * math.sqrt(2 / checks.count("queries", queries))
    return min(odds / (1 + odds), 1 / 3)


def _check_randomizer(queries: int, epsilon: float, failure: float) -> None:
    checks.count("queries", queries)
    checks.positive("epsilon", epsilon)
    checks.open_unit("failure", failure)


# --- Records ---------------------------------------------------------------------------------------------------------


_NOISE_RATE: Final = Parameter("noise_rate", "η", "chance that a label is flipped", float, 0.3)
_REPORTS: Final = QUERIES.at(10, "number of reports of the local algorithm")
_NEEDS_QUERY: Final = "a tolerance of at most 2b: any constant answers a query in [-b, b] within that"

THEOREMS: Final = (
    Theorem(
        name="sq-query",
        title="A statistical query by local reports",
        citation="KLNRS11, Lemma 5.6",
        says="The average of n users' g(u) + Lap(2b/ε) answers one query within τ, but for probability β.",
        kind=Kind.ENOUGH,
        gives="users",
        parameters=(BOUND, TOLERANCE, EPSILON, FAILURE, CONSTANT),
        stated=users_sq_query_stated,
        repaired=users_sq_query_repaired,
        needs=_NEEDS_QUERY,
        differs="The text leaves c open and rests on Lemma A.3, which is the wrong way round. Repaired: half of τ and "
        "of β for sampling, half for noise, max{8, 128/ε²}·(b/τ)²·ln(4/β).",
        traps=(2,),
        checked_by=("lab/theory/test_local.py::test_repaired_lemma_5_6_keeps_the_noise_within_its_share",),
    ),
    Theorem(
        name="sq-simulation",
        title="A statistical query algorithm by local reports",
        citation="KLNRS11, Thm 5.7",
        says="t queries, adaptive or not, are answered by local reports with fresh users for each.",
        kind=Kind.ENOUGH,
        gives="users",
        parameters=(QUERIES.at(64), BOUND, TOLERANCE, EPSILON, FAILURE, CONSTANT),
        stated=users_sq_simulation_stated,
        repaired=users_sq_simulation_repaired,
        needs=_NEEDS_QUERY,
        differs="As Lemma 5.6; repaired: t times its users at a failure of β/t. Queries that are cells of one "
        "partition "
        "need not take fresh users: see masked-parity-pooled.",
        traps=(2,),
        checked_by=("lab/theory/test_local.py::test_repaired_theorem_5_7_is_t_portions_at_a_share_of_the_failure",),
    ),
    Theorem(
        name="conjunctions",
        title="Monotone conjunctions by statistical queries",
        citation="BB-notes, Thm 5",
        says="d nonadaptive {0,1}-valued queries of tolerance α/(2d) learn a monotone conjunction.",
        kind=Kind.SHAPE,
        gives="queries",
        parameters=(DIMENSION, ERROR),
        stated=conjunction_queries,
        checked_by=("lab/theory/test_local.py::test_conjunctions_ask_d_queries_at_alpha_over_2d",),
    ),
    Theorem(
        name="boolean-queries",
        title="A real-valued query from Boolean ones (Bshouty and Feldman)",
        citation="KLNRS11, §5",
        says="O(log(b/τ)) nonadaptive Boolean queries, one for each binary digit, answer a real-valued query.",
        kind=Kind.SHAPE,
        gives="queries",
        parameters=(BOUND, TOLERANCE),
        repaired=boolean_queries,
        differs="The text gives the order only; here are the digits and the tolerance of each.",
        checked_by=("lab/theory/test_local.py::test_a_real_query_is_answered_from_its_binary_digits",),
    ),
    Theorem(
        name="sq-to-pac",
        title="Statistical queries by sampling, without privacy",
        citation="BB-notes, Thm 6",
        says="Fresh examples for each of M queries answer all of them within τ.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(QUERIES, TOLERANCE, FAILURE, CONSTANT),
        stated=examples_sq_to_pac_stated,
        repaired=examples_sq_to_pac,
        needs="queries with values in [0, 1]; a tolerance of at most 1",
        differs="The text gives the order only: the constant is Hoeffding's, ½, with ln(2M/δ).",
        checked_by=("lab/theory/test_local.py::test_sq_to_pac_answers_every_query",),
    ),
    Theorem(
        name="sq-noise",
        title="Statistical queries under random classification noise",
        citation="BB-notes, Thm 8",
        says="Labels that are flipped with probability η cost 1/(1-2η)² as many examples.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(QUERIES, TOLERANCE, _NOISE_RATE, FAILURE, CONSTANT),
        stated=examples_sq_noise_stated,
        repaired=examples_sq_noise_split,
        sharp=examples_sq_noise_joint,
        needs="the true η, below ½; queries with values in [0, 1]",
        differs="The text gives the order only. Sharp: the label-free and the label part on one sample, not two.",
        checked_by=("lab/theory/test_local.py::test_label_noise_is_survived_by_both_estimators",),
    ),
    Theorem(
        name="randomizer-simulation",
        title="A local randomizer by statistical queries",
        citation="KLNRS11, Claim 5.9",
        says="Rejection sampling on answers of tolerance β/(3e^{2ε}t) gives t reports as a local algorithm would.",
        kind=Kind.SHAPE,
        gives="tolerance",
        parameters=(_REPORTS, EPSILON, FAILURE),
        stated=randomizer_tolerance_stated,
        sharp=randomizer_tolerance_sharp,
        needs="a transparent randomizer: Pr[R(u) = w] can be computed",
        differs="Sharp: the distance that holds is φ, a third of what the text allows for; then step 4 divides by "
        "1 + β/t. A nonadaptive simulation draws the candidates of all its tries beforehand.",
        checked_by=("lab/theory/test_local.py::test_a_local_randomizer_is_simulated_within_its_share",),
    ),
    Theorem(
        name="interactive-simulation",
        title="An interactive local algorithm by statistical queries",
        citation="KLNRS11, Claim 5.10",
        says="The same for users who answer several times: the chance of a report is a ratio of two answers.",
        kind=Kind.SHAPE,
        gives="tolerance",
        parameters=(_REPORTS, EPSILON, FAILURE),
        stated=interactive_randomizer_tolerance,
        differs="Step 4 is taken over from Claim 5.9 with its 1 + β/3t; the ratio is within 1 ± β/t only, so it has to "
        "divide by 1 + β/t, or the probability exceeds 1.",
        checked_by=("lab/theory/test_local.py::test_interactive_ratio_needs_the_wider_divisor",),
    ),
    Theorem(
        name="local-by-queries",
        title="A whole local algorithm by statistical queries",
        citation="KLNRS11, Thm 5.14",
        says="What is learned from t local reports is learned from statistical queries, whoever answers these.",
        kind=Kind.SHAPE,
        gives="accuracy",
        parameters=(_REPORTS, FAILURE),
        stated=simulation_accuracy_stated,
        sharp=simulation_accuracy_joint,
        needs="transparent randomizers; users drawn independently from one distribution",
        differs="The text's proof adds up the distances of t reports. Their divergences add up without loss, so that φ "
        "may be larger by about √t, and users who answer the queries are needed in proportion to t and not to t².",
        checked_by=("server/core/test_converse.py::test_all_reports_together_are_within_two_thirds_of_beta",),
    ),
    Theorem(
        name="simulation-tries",
        title="What simulating a local algorithm costs in queries",
        citation="KLNRS11, Claims 5.9 and 5.10",
        says="A simulated report takes 2e^ε tries in expectation, with one query each, or two if interactive.",
        kind=Kind.SHAPE,
        gives="tries",
        parameters=(
            EPSILON,
            Parameter("accuracy", "φ", "relative accuracy of an answer", float, 1 / 3),
            _REPORTS,
            Parameter("interactive", "interactive", "whether users answer several times", bool, False),
        ),
        repaired=expected_tries,
        others=(expected_randomizer_queries,),
        needs="φ of at most 1/3",
        differs="The text speaks of t·e^ε queries; its proof has 2e^ε tries a report. KLNRS08, Lemmas 4.4 and 4.5 "
        "speak of t queries: that is e^ε·t.",
        traps=(23,),
        checked_by=("lab/theory/test_local.py::test_tries_are_at_most_2_e_to_the_epsilon",),
    ),
)
