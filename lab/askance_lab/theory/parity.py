"""The private PARITY learner A and its two amplifications A*: KLNRS11 §4, KLNRS08 §3.2.

A outputs ⊥ with probability 1/2, else keeps each example with probability p and picks a uniform solution of what it
kept. What is re-derived here:

*Privacy.* One example changes Pr[h] at most from (1-p)x to (1-p)x + 2px, and Pr[⊥] no more than that, so the loss is
exactly ln((1+p)/(1-p)): the texts' ε <= 1/2 is an artefact of p = ε/4, and p = tanh(ε/2) is tight (trap 8).

*Utility.* A wrong r with error above α survives one example with probability at most 1-pα (not kept, or kept and
consistent), so Pr[bad output | past step 1] <= 2^d (1-pα)^n, with no Chernoff bound on |S|. The texts do take one, and
KLNRS11 misquotes it: Thm A.1 with φ = 1/2 and mean εn/4 gives e^{-εn/32}, not e^{-εn/16}. Lemma 4.1 is true all the
same, because the direct argument needs only half of its n; so is KLNRS08, Lemma 3.1.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from askance_lab.theory.theorem import DIMENSION, EPSILON, ERROR, FAILURE, Kind, Parameter, Theorem
from askance_protocol import checks


class TrainTest(NamedTuple):
    """The sample of KLNRS11's A*: k training parts of n' examples and a test part of s."""

    candidates: int
    train: int
    test: int

    @property
    def total(self) -> int:
        """All examples, kn' + s: step 2 must stop below it, not at it (trap 7)."""
        return self.candidates * self.train + self.test


class Retries(NamedTuple):
    """KLNRS08's A*: the most runs of A, all on the same examples."""

    runs: int
    examples: int


def _check_learner(dimension: int, error: float) -> None:
    checks.count("dimension", dimension)
    checks.between("error", checks.positive("error", error), 0, 0.5)


# --- One run of A ------------------------------------------------------------------------------------------------


def parity_inclusion_stated(*, epsilon: float) -> float:
    """Step 2 of A: p = ε/4. ε-private while ε/4 <= tanh(ε/2), up to ε = 3.830 (trap 8; the texts say 1/2)."""
    inclusion = checks.positive("epsilon", epsilon) / 4
    remedy = "use parity_inclusion_exact"
    checks.require(inclusion <= math.tanh(epsilon / 2), "p = ε/4 is not ε-private here", where="epsilon", remedy=remedy)
    return inclusion


def parity_inclusion_exact(*, epsilon: float) -> float:
    """Inclusion p = tanh(ε/2): the largest p at which A is ε-private (trap 8)."""
    return math.tanh(checks.positive("epsilon", epsilon) / 2)


def parity_loss(*, inclusion: float) -> float:
    """Exact privacy loss ln((1+p)/(1-p)) of A (trap 8; KLNRS11, Lemma 4.2 bounds it by ε for p = ε/4)."""
    return 2 * math.atanh(checks.open_unit("inclusion", inclusion))


def examples_parity_stated(*, dimension: int, epsilon: float, error: float) -> int:
    """KLNRS11, Lemma 4.1 as stated: n >= (8/εα)(d·ln 2 + ln 4); A is right with probability at least 1/4.

    True, though not by the proof's e^{-εn/16} (see the module).
    """
    return examples_parity_klnrs08_stated(dimension=dimension, epsilon=epsilon, error=error, failure=1 / 4)


def examples_parity_klnrs08_stated(*, dimension: int, epsilon: float, error: float, failure: float) -> int:
    """KLNRS08, Lemma 3.1 as stated: n >= (8/εα)(d·ln 2 + ln(1/β')); right with probability at least 1/2 - β'."""
    _check_learner(dimension, error)
    logs = dimension * math.log(2) - math.log(checks.open_unit("failure", failure))
    return checks.whole(8 / (checks.positive("epsilon", epsilon) * error) * logs, "examples")


def examples_parity_sharp(*, dimension: int, inclusion: float, error: float, failure: float) -> int:
    """Smallest n with 2^d(1-pα)^n <= β': Pr[bad output | past step 1] <= β', for any p (see the module)."""
    _check_learner(dimension, error)
    checks.between("inclusion", checks.positive("inclusion", inclusion), 0, 1)
    logs = dimension * math.log(2) - math.log(checks.open_unit("failure", failure))
    return checks.whole(logs / -math.log1p(-inclusion * error), "examples")


# --- A* by retrying until not ⊥ (KLNRS08) ------------------------------------------------------------------------


def parity_retry_stated(*, dimension: int, epsilon: float, error: float, failure: float) -> Retries:
    """KLNRS08, Thm 3.8 as stated: β' = β/2, log(1/β') runs at ε' = ε/log(1/β'), each on Lemma 3.1's n.

    Its proof bounds Pr[bad | past step 1] by β' where its lemma gives 2β' (trap 6); the direct argument of this module
    gives less than β', so the count holds after all. The fractional number of runs is rounded up here; log is base 2.
    """
    return _retry(dimension, epsilon, error, checks.open_unit("failure", failure) / 2)


def parity_retry_repaired(*, dimension: int, epsilon: float, error: float, failure: float) -> Retries:
    """KLNRS08, Thm 3.8 as repaired (trap 6): β' = β/3, ⌈log2(1/β')⌉ runs at ε/runs."""
    return _retry(dimension, epsilon, error, checks.open_unit("failure", failure) / 3)


def _retry(dimension: int, epsilon: float, error: float, share: float) -> Retries:
    runs = math.ceil(math.log2(1 / share))
    per_run = checks.positive("epsilon", epsilon) / runs
    examples = examples_parity_klnrs08_stated(dimension=dimension, epsilon=per_run, error=error, failure=share)
    return Retries(runs, examples)


def parity_retry_sharp(*, dimension: int, epsilon: float, error: float, failure: float) -> Retries:
    """KLNRS08's A* with the exact p (trap 8) and the direct utility argument, over the best number of runs.

    K runs are all ⊥ with probability 2^{-K} at least by step 1; what is left of β goes to a bad output.
    """
    fewest = math.floor(math.log2(1 / checks.open_unit("failure", failure))) + 1
    options = (
        Retries(
            runs,
            examples_parity_sharp(
                dimension=dimension,
                inclusion=parity_retry_inclusion(epsilon=epsilon, runs=runs),
                error=error,
                failure=failure - math.pow(2, -runs),
            ),
        )
        for runs in range(fewest, fewest + 8)
    )
    return min(options, key=lambda option: option.examples)


def parity_retry_loss(*, inclusion: float, runs: int) -> float:
    """Privacy loss of K retries on the same examples: max{K·ln(1+p), ln((1+p)/(1-p)²)} (trap 8).

    ⊥ K times: Pr[⊥] changes by at most 1+p, for a changed example that is always consistent cannot make Pr[⊥] smaller
    than it is without it. An output h: Pr[A = h] changes by (1+p)/(1-p), the number of tries by at most 1/(1-p).
    """
    p = checks.open_unit("inclusion", inclusion)
    return max(checks.count("runs", runs) * math.log1p(p), math.log1p(p) - 2 * math.log1p(-p))


def parity_retry_inclusion(*, epsilon: float, runs: int) -> float:
    """Largest p at which `parity_retry_loss` is at most ε: e^{ε/K}-1, unless (1+p)/(1-p)² = e^ε comes first (trap 8).

    For one run the loss is parity_loss, which is smaller; this keeps to the general bound.
    """
    inverse = math.exp(-checks.positive("epsilon", epsilon))
    from_retries = checks.exp(epsilon / checks.count("runs", runs)) - 1
    # With E = e^ε: E·p² - (2E+1)p + (E-1) = 0, smaller root, divided by E; 2(E-1)/(2E+1+√(8E+1)) avoids cancellation.
    from_output = 2 * (1 - inverse) / (2 + inverse + math.sqrt(8 * inverse + inverse**2))
    return min(from_retries, from_output)


# --- A* by training and testing (KLNRS11) ------------------------------------------------------------------------
#
# α' = α/5. A good candidate (error <= α') must show at most 2α' on the test set, a bad one (>= 5α') at least 4α':
# Thm A.1 gives e^{-α's/3} and e^{-α's/10}, hence the 10. Noise must stay below α'.


def parity_train_test_stated(
    *, dimension: int, epsilon: float, error: float, failure: float, train_constant: float, test_constant: float
) -> TrainTest:
    """KLNRS11, A* step 1 as stated: k = ⌈log_{3/4}(1/β')⌉, n' = cd/εα', s = (c'k/α'ε)·log(k/β'), β' = β/2.

    log_{3/4} of a number above 1 is negative, so there is no such k (trap 7): this always refuses.
    """
    _check_learner(dimension, error)
    for name, value in {"epsilon": epsilon, "train_constant": train_constant, "test_constant": test_constant}.items():
        checks.positive(name, value)
    candidates = math.ceil(math.log(2 / checks.open_unit("failure", failure)) / math.log(3 / 4))
    remedy = "the base must be 4/3: use parity_train_test_repaired"
    checks.require(candidates >= 1, f"A* asks for {candidates} candidates", where="failure", remedy=remedy)
    train = checks.whole(5 * train_constant * dimension / (epsilon * error), "examples")
    logs = math.log2(2 * candidates / failure)
    return TrainTest(
        candidates, train, checks.whole(5 * test_constant * candidates / (epsilon * error) * logs, "examples")
    )


def parity_train_test_repaired(*, dimension: int, epsilon: float, error: float, failure: float) -> TrainTest:
    """KLNRS11, A* as repaired (trap 7): β' = β/3, k = ⌈log_{4/3}(1/β')⌉, s = (max(10, k/ε)/α')·ln(k/β').

    The least of k errors with noise Lap(k/sε). Score ⊥ as error 1.
    """
    candidates, train, scale = _train(dimension, epsilon, error, failure)
    return TrainTest(candidates, train, checks.whole(max(10, candidates / epsilon) * scale, "examples"))


def parity_train_test_exponential(*, dimension: int, epsilon: float, error: float, failure: float) -> TrainTest:
    """The same A* choosing by the exponential mechanism, KLNRS11 footnote 4: s = (max(10, 1/ε)/α')·ln(k/β').

    A bad candidate trails a good one by at least 2α's mistakes: k·e^{-ε·2α's/2} <= β' (BNS13, Prop. 1).
    """
    candidates, train, scale = _train(dimension, epsilon, error, failure)
    return TrainTest(candidates, train, checks.whole(max(10, 1 / epsilon) * scale, "examples"))


def _train(dimension: int, epsilon: float, error: float, failure: float) -> tuple[int, int, float]:
    share = checks.open_unit("failure", failure) / 3
    candidates = math.ceil(math.log(1 / share) / math.log(4 / 3))
    # step 1 of A*: α' = α/5
    train = examples_parity_stated(dimension=dimension, epsilon=epsilon, error=error / 5)
    return candidates, train, 5 / error * math.log(candidates / share)


# --- Records ---------------------------------------------------------------------------------------------------------


_DIMENSION: Final = DIMENSION.at(10)
_INCLUSION: Final = Parameter("inclusion", "p", "chance that an example is kept", float, 0.25)
_RUNS: Final = Parameter("runs", "K", "most runs of A", int, 5)

THEOREMS: Final = (
    Theorem(
        name="parity-inclusion",
        title="The chance with which the PARITY learner A keeps an example",
        citation="KLNRS11, Lemma 4.2; KLNRS08, Lemma 3.2",
        says="A is ε-private with p = ε/4, and still with p = tanh(ε/2): its loss is exactly ln((1+p)/(1-p)).",
        kind=Kind.PRICE,
        gives="p",
        parameters=(EPSILON, _INCLUSION),
        stated=parity_inclusion_stated,
        sharp=parity_inclusion_exact,
        others=(parity_loss,),
        needs="for p = ε/4, an ε up to 3.830",
        differs="The texts' ε of at most ½ is not needed.",
        traps=(8,),
        checked_by=(
            "lab/theory/test_parity.py::test_the_privacy_loss_of_a_is_exact",
            "lab/theory/test_parity.py::test_a_quarter_of_epsilon_fails_above_3_83",
        ),
    ),
    Theorem(
        name="parity",
        title="One run of the PARITY learner A",
        citation="KLNRS11, Lemma 4.1",
        says="On (8/εα)(d·ln 2 + ln 4) examples A is right with probability at least ¼.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(_DIMENSION, EPSILON, ERROR, FAILURE.at(0.25), _INCLUSION),
        stated=examples_parity_stated,
        sharp=examples_parity_sharp,
        others=(examples_parity_klnrs08_stated,),
        needs="an error up to ½; sharp: for any p, Pr[bad | past step 1] is β at most",
        differs="True, though not by the proof's e^{-εn/16}: Thm A.1 gives e^{-εn/32}. KLNRS08, Lemma 3.1 has ln(1/β) "
        "for ln 4.",
        checked_by=(
            "lab/theory/test_parity.py::test_lemma_4_1_is_true_with_room_to_spare",
            "lab/theory/test_parity.py::test_the_chernoff_step_of_lemma_4_1_is_misquoted",
            "lab/theory/test_parity.py::test_the_sharp_bound_holds_where_chernoff_is_not_needed",
        ),
    ),
    Theorem(
        name="parity-retry",
        title="A*: run A until it does not say ⊥",
        citation="KLNRS08, Thm 3.8",
        says="log2(1/β') runs of A on the same examples learn PARITY with probability 1-β.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(_DIMENSION, EPSILON, ERROR, FAILURE.at(0.1)),
        stated=parity_retry_stated,
        repaired=parity_retry_repaired,
        sharp=parity_retry_sharp,
        needs="an error up to ½",
        differs="Bad, given past step 1, is 2β' by its lemma, not β': β' = β/3, and the number of runs is rounded "
        "up. Sharp: "
        "the exact loss of K runs allows p = e^{ε/K}-1.",
        traps=(6, 8),
        checked_by=("lab/theory/test_parity.py::test_retrying_is_repaired_and_sharpened",),
    ),
    Theorem(
        name="parity-retry-privacy",
        title="The exact price of running A again",
        citation="KLNRS08, Thm 3.8; derived here",
        says="K runs on the same examples lose max{K·ln(1+p), ln((1+p)/(1-p)²)} at most.",
        kind=Kind.PRICE,
        gives="p",
        parameters=(EPSILON, _RUNS, _INCLUSION),
        sharp=parity_retry_inclusion,
        others=(parity_retry_loss,),
        differs="The text composes K runs at ε/K each.",
        traps=(8,),
        checked_by=(
            "lab/theory/test_parity.py::test_the_privacy_loss_of_retrying_is_bounded",
            "lab/theory/test_parity.py::test_the_retry_inclusion_spends_exactly_epsilon",
        ),
    ),
    Theorem(
        name="parity-train-test",
        title="A*: train several times, test, take the best",
        citation="KLNRS11, Thm 4.4 to 4.6",
        says="k candidates on fresh parts of the examples, and the least of their errors on a test part, with noise.",
        kind=Kind.ENOUGH,
        gives="examples",
        parameters=(
            _DIMENSION,
            EPSILON,
            ERROR,
            FAILURE.at(0.1),
            Parameter("train_constant", "c", "constant of the training parts", float, 1.0),
            Parameter("test_constant", "c'", "constant of the test part", float, 1.0),
        ),
        stated=parity_train_test_stated,
        repaired=parity_train_test_repaired,
        sharp=parity_train_test_exponential,
        needs="an error up to ½",
        differs="The logarithm is to base ¾, so that k is negative: 4/3 is meant. β' = β/3; ⊥ counts as error 1; stop "
        "below kn'+s, not at it. Sharp: choose by the exponential mechanism (footnote 4).",
        traps=(7, 19, 20),
        checked_by=(
            "lab/theory/test_parity.py::test_there_is_no_logarithm_to_base_three_quarters",
            "lab/theory/test_parity.py::test_train_and_test_meets_its_three_claims",
        ),
    ),
)
