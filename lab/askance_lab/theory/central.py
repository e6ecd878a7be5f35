"""Examples that a trusted curator needs: the generic learners, SQ through SuLQ, label privacy.

Texts: KLNRS11 §3 (Thm 3.4, Cor. 3.6), KLNRS08 Thm 3.7, BB-notes Thm 7 = N21 Thm 1, BNS13 Thm 7. The PARITY learner is
in `parity`, what needs δ > 0 in `approximate`. |H| may be any Python integer: only its logarithm is used.
"""

from __future__ import annotations

import math
from typing import Final

from askance_lab.theory.theorem import (
    CONSTANT,
    EPSILON,
    ERROR,
    EXAMPLES,
    FAILURE,
    QUERIES,
    TOLERANCE,
    VC,
    Kind,
    Parameter,
    Theorem,
)
from askance_protocol import checks


def _check_learner(epsilon: float, error: float, failure: float) -> None:
    checks.positive("epsilon", epsilon)
    checks.open_unit("error", error)
    checks.open_unit("failure", failure)


def _log(hypotheses: int) -> float:
    return math.log(checks.count("hypotheses", hypotheses))


# --- The generic learner: exponential mechanism over H, score = -(mistakes) --------------------------------------


def generic_failure(*, examples: int, hypotheses: int, epsilon: float, error: float) -> float:
    """The union bound that KLNRS11, Thm 3.4 rests on: |H|(2e^{-2nα²/9} + e^{-εnα/6}). May exceed 1."""
    checks.count("examples", examples)
    _check_learner(epsilon, error, 0.5)
    sampling = math.log(2) - 2 * examples * error**2 / 9
    choosing = -epsilon * examples * error / 6
    return checks.exp(_log(hypotheses) + sampling) + checks.exp(_log(hypotheses) + choosing)


def examples_generic_stated(*, hypotheses: int, epsilon: float, error: float, failure: float) -> int:
    """KLNRS11, Thm 3.4 as stated: 6(ln|H| + ln(1/β))·max{1/εα, 1/α²}.

    Its own union bound is then above β whenever ε <= α (trap 4): the second term alone is β.
    """
    _check_learner(epsilon, error, failure)
    return checks.whole(6 * (_log(hypotheses) - math.log(failure)) * _rate(epsilon, error), "examples")


def examples_generic_repaired(*, hypotheses: int, epsilon: float, error: float, failure: float) -> int:
    """KLNRS11, Thm 3.4 as repaired (trap 4): max{(6/εα)ln(2|H|/β), (4.5/α²)ln(4|H|/β)}. Agnostic, any OPT."""
    return _generic(_log(hypotheses), epsilon, error, failure)


def _generic(log_hypotheses: float, epsilon: float, error: float, failure: float) -> int:
    _check_learner(epsilon, error, failure)
    choosing = 6 / (epsilon * error) * (log_hypotheses + math.log(2 / failure))
    sampling = 4.5 / error**2 * (log_hypotheses + math.log(4 / failure))
    return checks.whole(max(choosing, sampling), "examples")


def examples_generic_klnrs08_stated(*, hypotheses: int, epsilon: float, error: float, failure: float) -> int:
    """KLNRS08, Thm 3.7 as stated: (ln|H| + ln(2/β))·max{4/εα, 2/α²}. Proved for OPT = 0 only (trap 5).

    The proof bounds the weight of a bad h as if it were its probability; that holds when some h has no mistakes.
    """
    _check_learner(epsilon, error, failure)
    largest = max(4 / (epsilon * error), 2 / error**2)
    return checks.whole((_log(hypotheses) + math.log(2 / failure)) * largest, "examples")


def examples_generic_realizable(*, hypotheses: int, epsilon: float, error: float, failure: float) -> int:
    """OPT = 0: max{8/α, 4/εα}·ln(2|H|/β). The 1/α that the remark after KLNRS11, Thm 3.4 promises.

    Some bad h shows <= αn/2 mistakes: |H|e^{-αn/8} (Thm A.1, φ=½). One with more is chosen: |H|e^{-εαn/4}.
    """
    _check_learner(epsilon, error, failure)
    largest = max(8 / error, 4 / (epsilon * error))
    return checks.whole(largest * (_log(hypotheses) + math.log(2 / failure)), "examples")


def _rate(epsilon: float, error: float) -> float:
    return max(1 / (epsilon * error), 1 / error**2)


def sauer_log_labelings(*, vc: int, domain: int) -> float:
    """Sauer's lemma, used in KLNRS11, Cor. 3.6: ln of the labelings of `domain` points, at most VC·ln(e|X|/VC)."""
    checks.count("domain", domain, least=checks.count("vc", vc))
    return vc * (1 + math.log(domain) - math.log(vc))


def examples_sauer_stated(
    *, vc: int, domain: int, epsilon: float, error: float, failure: float, constant: float
) -> int:
    """KLNRS11, Cor. 3.6 as stated: c(VC·ln|X| + ln(1/β))·max{1/εα, 1/α²}."""
    _check_learner(epsilon, error, failure)
    checks.count("vc", vc)
    logs = vc * math.log(checks.count("domain", domain)) - math.log(failure)
    return checks.whole(checks.positive("constant", constant) * logs * _rate(epsilon, error), "examples")


def examples_sauer_repaired(*, vc: int, domain: int, epsilon: float, error: float, failure: float) -> int:
    """KLNRS11, Cor. 3.6 through Thm 3.4 as repaired (trap 4).

    For classes such as parities and conjunctions it is worse than ln|C| itself (docs/errata.md#smaller).
    """
    return _generic(sauer_log_labelings(vc=vc, domain=domain), epsilon, error, failure)


def compression_bits(*, examples: int, doubling: int, epsilon: float, error: float, failure: float) -> int:
    """Longest descriptions, in bits, that round k of the compression version may choose among. KLNRS11, p. 12.

    The text omits the details. Round k (from 1) doubles the examples and may fail with β/(k(k+1)), which sums to β; its
    class of all descriptions of up to s bits has fewer than 2^{s+1} members, and Thm 3.4 as repaired must afford it.
    """
    checks.count("examples", examples)
    checks.count("doubling", doubling)
    _check_learner(epsilon, error, failure)
    share = failure / (doubling * (doubling + 1))
    choosing = epsilon * error * examples / 6 - math.log(2 / share)
    sampling = error**2 * examples / 4.5 - math.log(4 / share)
    return max(0, math.floor(min(choosing, sampling) / math.log(2)) - 1)


# --- SQ → DP: disjoint chunks, one per query (SuLQ) --------------------------------------------------------------


def _check_sulq(queries: int, tolerance: float, epsilon: float, failure: float) -> None:
    checks.count("queries", queries)
    checks.between("tolerance", checks.positive("tolerance", tolerance), 0, 1)
    checks.positive("epsilon", epsilon)
    checks.open_unit("failure", failure)


def examples_sulq_stated(*, queries: int, tolerance: float, epsilon: float, failure: float, constant: float) -> int:
    """BB-notes, Thm 7 = N21, Thm 1 as stated: c(M/ετ + M/τ²)·ln(2M/δ).

    Both texts then add noise of scale M/(ε|S_i|), with which this count does not suffice (trap 9).
    """
    _check_sulq(queries, tolerance, epsilon, failure)
    per_query = 1 / (epsilon * tolerance) + 1 / tolerance**2
    logarithm = math.log(2 * queries / failure)
    return checks.whole(checks.positive("constant", constant) * queries * per_query * logarithm, "examples")


def examples_sulq_as_written(*, queries: int, tolerance: float, epsilon: float, failure: float) -> int:
    """What BB-notes, Thm 7 costs with the noise it writes down, scale M/(ε|S_i|): M²/ετ, not M/ετ (trap 9)."""
    return _sulq(queries, tolerance, epsilon, failure, noise_factor=queries)


def examples_sulq_repaired(*, queries: int, tolerance: float, epsilon: float, failure: float) -> int:
    """BB-notes, Thm 7 = N21, Thm 1 as repaired (trap 9): the chunks are disjoint, so scale 1/(ε|S_i|) is ε-private.

    A chunk gives half its tolerance and half its failure to sampling, (2/τ²)ln(4M/δ), and half to noise,
    (2/ετ)ln(2M/δ). It needs the larger of the two, not their sum.
    """
    return _sulq(queries, tolerance, epsilon, failure, noise_factor=1)


def _sulq(queries: int, tolerance: float, epsilon: float, failure: float, *, noise_factor: int) -> int:
    _check_sulq(queries, tolerance, epsilon, failure)
    sampling = 2 / tolerance**2 * math.log(4 * queries / failure)
    noise = noise_factor * 2 / (epsilon * tolerance) * math.log(2 * queries / failure)
    return queries * checks.whole(max(sampling, noise), "examples")


# --- Label privacy -----------------------------------------------------------------------------------------------


def examples_label_private_stated(*, vc: int, constant: float) -> int:
    """BNS13, Thm 7 as stated: O_{α,β,ε}(VC), whatever the domain; the constant hides α, β and ε."""
    return checks.whole(checks.positive("constant", constant) * checks.count("vc", vc), "examples")


def label_private_failure(*, examples: int, vc: int, epsilon: float, error: float) -> float:
    """Failure of the generic label-private learner of BNS13, Thm 7 (realizable). May exceed 1.

    H has one concept for each of the at most (em/VC)^VC labelings of the public x's. The exponential mechanism on the
    labels leaves more than αm/2 mistakes with |H|e^{-εαm/4}; and some concept with error above α shows at most αm/2
    mistakes with 4(2em/VC)^VC·e^{-αm/16} (Vapnik-Chervonenkis, relative deviations: Pr[sup (err-err_T)/√err > η] <=
    4Π(2m)e^{-mη²/4} with η = √α/2; Anthony and Shawe-Taylor, 1993).
    """
    _check_learner(epsilon, error, 0.5)
    choosing = sauer_log_labelings(vc=vc, domain=max(examples, vc)) - epsilon * error * examples / 4
    sampling = math.log(4) + sauer_log_labelings(vc=vc, domain=2 * max(examples, vc)) - error * examples / 16
    return checks.exp(choosing) + checks.exp(sampling)


def examples_label_private(*, vc: int, epsilon: float, error: float, failure: float) -> int:
    """BNS13, Thm 7 with its constants: smallest m from which `label_private_failure` stays at most β."""
    _check_learner(epsilon, error, failure)
    # Both exponents fall once m exceeds VC/(slope of the exponential term): search from there.
    lowest = math.ceil(checks.count("vc", vc) / (error * min(epsilon / 4, 1 / 16)))
    highest = 2 * lowest
    while label_private_failure(examples=highest, vc=vc, epsilon=epsilon, error=error) > failure:
        highest *= 2
    while highest - lowest > 1:
        middle = (lowest + highest) // 2
        enough = label_private_failure(examples=middle, vc=vc, epsilon=epsilon, error=error) <= failure
        lowest, highest = (lowest, middle) if enough else (middle, highest)
    return highest


# --- Records ---------------------------------------------------------------------------------------------------------


_HYPOTHESES: Final = Parameter("hypotheses", "|H|", "number of hypotheses", int, 1000)
_DOMAIN: Final = Parameter("domain", "|X|", "number of points of the domain", int, 2**64)

THEOREMS: Final = (
    Theorem(
        name="generic-learner",
        title="The generic private agnostic learner",
        citation="KLNRS11, Thm 3.4",
        says="The exponential mechanism over H, by mistakes, learns any class, and any labels, with error OPT + α.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(_HYPOTHESES, EPSILON, ERROR, FAILURE, EXAMPLES),
        stated=examples_generic_stated,
        repaired=examples_generic_repaired,
        others=(generic_failure,),
        differs="The constant 6 does not give β by the text's own union bound, generic_failure: for ε up to α the "
        "second "
        "term alone is β. Repaired: max{(6/εα)ln(2|H|/β), (4.5/α²)ln(4|H|/β)}.",
        traps=(4,),
        checked_by=(
            "lab/theory/test_central.py::test_the_repaired_generic_bound_meets_its_union_bound",
            "lab/theory/test_central.py::test_the_stated_constant_6_misses_its_union_bound",
        ),
    ),
    Theorem(
        name="generic-learner-klnrs08",
        title="The generic learner of the conference version",
        citation="KLNRS08, Thm 3.7",
        says="(ln|H| + ln(2/β))·max{4/εα, 2/α²} examples.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(_HYPOTHESES, EPSILON, ERROR, FAILURE),
        stated=examples_generic_klnrs08_stated,
        sharp=examples_generic_realizable,
        needs="for the sharp form, a hypothesis without mistakes (OPT = 0)",
        differs="The proof takes a hypothesis' weight for its probability: it forgets the normaliser, so it holds for "
        "OPT = 0 only. The count itself is enough at every OPT, by another argument.",
        traps=(5,),
        checked_by=(
            "lab/theory/test_central.py::test_klnrs08_theorem_3_7_holds_at_opt_0_but_not_by_the_agnostic_argument",
            "lab/theory/test_central.py::test_the_realizable_bound_holds_for_exact_binomials",
        ),
    ),
    Theorem(
        name="sauer",
        title="The generic learner over an infinite class, by Sauer's lemma",
        citation="KLNRS11, Cor. 3.6",
        says="VC·ln|X| takes the place of ln|H|.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(VC, _DOMAIN, EPSILON, ERROR, FAILURE, CONSTANT),
        stated=examples_sauer_stated,
        repaired=examples_sauer_repaired,
        others=(sauer_log_labelings,),
        needs="a domain of at least VC points",
        differs="Through Thm 3.4 as repaired. For parities and conjunctions it is worse than ln|C|.",
        traps=(4,),
        checked_by=(
            "lab/theory/test_central.py::test_sauer_counts_at_least_all_labelings",
            "lab/theory/test_central.py::test_sauer_is_worse_than_the_class_itself_for_conjunctions",
        ),
    ),
    Theorem(
        name="compression",
        title="The doubling version, by length of description",
        citation="KLNRS11, p. 12",
        says="Round k doubles the examples and may choose among all descriptions of this many bits.",
        kind=Kind.SHAPE,
        gives="bits",
        parameters=(EXAMPLES, Parameter("doubling", "k", "number of the round", int, 1), EPSILON, ERROR, FAILURE),
        repaired=compression_bits,
        differs="The text omits the details: round k fails with β/(k(k+1)) and affords Thm 3.4 as repaired.",
        traps=(4,),
        checked_by=("lab/theory/test_central.py::test_a_round_of_the_compression_version_can_afford_its_class",),
    ),
    Theorem(
        name="sulq",
        title="Statistical queries by a trusted curator (SuLQ)",
        citation="BB-notes, Thm 7; N21, Thm 1",
        says="M queries on disjoint chunks of the examples, each with Laplace noise.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(QUERIES, TOLERANCE, EPSILON, FAILURE, CONSTANT),
        stated=examples_sulq_stated,
        repaired=examples_sulq_repaired,
        others=(examples_sulq_as_written,),
        needs="queries with values in [0, 1]; a tolerance of at most 1",
        differs="Both texts add noise of scale M/(ε|S|), with which their count does not suffice: it costs M times "
        "as much "
        "(as_written). The chunks are disjoint, so 1/(ε|S|) is ε-private.",
        traps=(9,),
        checked_by=(
            "lab/theory/test_central.py::test_sulq_answers_within_tolerance_with_the_repaired_noise_only",
            "lab/theory/test_central.py::test_sulq_as_written_costs_m_times_more_for_its_noise",
        ),
    ),
    Theorem(
        name="label-private",
        title="The generic label-private learner",
        citation="BNS13, Thm 7",
        says="Where only labels are secret, examples in proportion to the VC dimension do, whatever the domain.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(VC, EPSILON, ERROR, FAILURE, EXAMPLES, CONSTANT),
        stated=examples_label_private_stated,
        repaired=examples_label_private,
        others=(label_private_failure,),
        needs="labels of some concept of the class (realizable)",
        differs="The text gives the order only; the constants are of the exponential mechanism and relative "
        "deviations.",
        checked_by=("lab/theory/test_central.py::test_the_label_private_learner_needs_what_its_failure_says",),
    ),
)
