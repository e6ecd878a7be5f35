"""The compression version of the private Occam's razor: rounds of doubling size, with longer and longer descriptions.

KLNRS11, p. 12: the learner "proceeds in rounds: at each round it requests twice as many examples as in the previous
round, and uses a restricted hypothesis class consisting of sufficiently concise hypotheses", and the text omits "the
straightforward details". These are ours:

1. Round k = 1, 2, … takes n_k = 2^{k−1}·n_1 unused examples, and H_k: the hypotheses of at most s_k bits, where s_k is
   what Thm 3.4 affords with n_k examples at error α/2 and failure β/2k(k+1) (`bounds.central.compression_bits`).
2. It runs the generic learner on them.
3. It tests what was learned on t_k more unused examples. The count of its mistakes gets noise, integer z with
   probability in proportion to e^{−ε|z|}, and must be at most 3αt_k/4. t_k is a statistical query's, of tolerance α/4
   and failure β/2k(k+1) (BB-notes, Thm 7, one query). If it passes, that is the output; else the next round.
4. Where a round needs more examples than are left, the output is ⊥.

Accuracy: an output with error above α has passed a test it should not have: Σ_k β/2k(k+1) = β/2. Once the target has a
description of at most s_k bits, a round ends with an output of error at most α but for β/k(k+1). So the next round is
reached with no more than that probability, and though it costs twice as much, what is to be expected of it is little
(`expected_examples`). Where no concept is perfect it may go on until the examples end.

Privacy: which examples a round learns from and tests with follows from n_1, ε, α, β and the round's number, all public.
An example is in one round's learning or in one round's test, or in none. What is said before does not depend on it,
and what is said after depends on it through what that one mechanism said only. So the whole transcript is ε-private,
each mechanism at the full ε: nothing adds up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from askance_lab.curator import generic, sauer
from askance_lab.curator.concepts import A_THRESHOLD, INTERVAL
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below, discrete_laplace
from askance_lab.curator.generic import FiniteClass, ListedConcepts, generic_distribution
from askance_lab.curator.mechanism import Mechanism
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory.central import compression_bits, examples_generic_repaired, examples_sulq_repaired
from askance_lab.theory.targets import Targets
from askance_protocol import checks

Example = TypeVar("Example")
Hypothesis = TypeVar("Hypothesis")

Pairs: TypeAlias = Sequence[tuple[Example, bool | int]]
"""Examples, each with its label."""
Concise: TypeAlias = Callable[[int], FiniteClass[Pairs[Example], Hypothesis]]
"""The hypotheses of at most this many bits: fewer than 2^{bits + 1}, at least one."""
LabelsOfHypothesis: TypeAlias = Callable[[Hypothesis, Sequence[Example]], Sequence[bool | int]]
"""The labels that a hypothesis gives to examples."""


class CompressionRound(NamedTuple):
    """Sizes of one round, all public."""

    number: int
    learning: int
    testing: int
    bits: int
    most_mistakes: int

    @property
    def examples(self) -> int:
        """Number of examples of both steps."""
        return self.learning + self.testing


class CompressionResult(NamedTuple, Generic[Hypothesis]):
    """A hypothesis and the round in which it was accepted."""

    hypothesis: Hypothesis
    round: int


def rounds(*, epsilon: Fraction, error: float, failure: float, first: int | None = None) -> Iterator[CompressionRound]:
    """Yield the sizes of steps 1 and 3, without end. `first` is n_1; default: the smallest that affords one bit."""
    rate, half = float(checked(epsilon).epsilon), checks.open_unit("error", error) / 2
    share = checks.open_unit("failure", failure) / 2
    least = examples_generic_repaired(hypotheses=4, epsilon=rate, error=half, failure=share / 2)
    learning = least if first is None else checks.count("first", first)
    number = 1
    while True:
        bits = compression_bits(examples=learning, doubling=number, epsilon=rate, error=half, failure=share)
        wrong = share / (number * (number + 1))
        testing = examples_sulq_repaired(queries=1, tolerance=error / 4, epsilon=rate, failure=wrong)
        yield CompressionRound(number, learning, testing, bits, math.floor(3 * error * testing / 4))
        number, learning = number + 1, 2 * learning


def learn(
    concise: Concise[Example, Hypothesis],
    labels_of: LabelsOfHypothesis[Hypothesis, Example],
    database: Pairs[Example],
    *,
    epsilon: Fraction,
    error: float,
    failure: float,
    draw: Below,
    first: int | None = None,
) -> CompressionResult[Hypothesis] | None:
    """Learn in rounds; None, which is ⊥, if the examples run out. `labels_of` gives a hypothesis's labels."""
    begin = 0
    for each in rounds(epsilon=epsilon, error=error, failure=failure, first=first):
        if begin + each.examples > len(database):
            return None  # Step 4
        middle, end = begin + each.learning, begin + each.examples
        hypothesis = generic.learn(_class(concise, each), database[begin:middle], epsilon=epsilon, draw=draw)
        noisy = _mistakes(labels_of, hypothesis, database[middle:end]) + discrete_laplace(1 / epsilon, draw)
        if noisy <= each.most_mistakes:
            return CompressionResult(hypothesis, each.number)
        begin = end
    raise AssertionError("the rounds have no end")


def paid(epsilon: Fraction) -> Paid:
    """Price: ε for all rounds together, by parallel composition."""
    return checked(epsilon)


def compression_distribution(
    concise: Concise[Example, Hypothesis],
    labels_of: LabelsOfHypothesis[Hypothesis, Example],
    database: Pairs[Example],
    schedule: Sequence[CompressionRound],
    *,
    epsilon: Fraction,
) -> Distribution[CompressionResult[Hypothesis] | None]:
    """Exact distribution of (hypothesis, round), or None, over the rounds that the database allows."""
    total: dict[CompressionResult[Hypothesis] | None, float] = {}
    left, begin = 1.0, 0
    for each in schedule:
        if begin + each.examples > len(database):
            break
        middle, end = begin + each.learning, begin + each.examples
        drawn = generic_distribution(_class(concise, each), database[begin:middle], epsilon=epsilon)
        passed: dict[CompressionResult[Hypothesis] | None, float] = {
            CompressionResult(hypothesis, each.number): left
            * chance
            * _passes(labels_of, hypothesis, database[middle:end], each, epsilon)
            for hypothesis, chance in drawn.items()
        }
        total |= passed
        left, begin = left - math.fsum(passed.values()), end
    return {**total, None: max(left, 0.0)}


def expected_examples(*, bits: int, epsilon: Fraction, error: float, failure: float, first: int | None = None) -> float:
    """Upper bound on the expected number of examples, if the target is perfect and has `bits` bits.

    All the rounds up to the first that affords it, and each after it by the chance that it is reached.
    """
    checks.count("bits", bits, least=0)
    expected, reached, afforded = 0.0, 1.0, False
    for each in rounds(epsilon=epsilon, error=error, failure=failure, first=first):
        expected += reached * each.examples
        afforded = afforded or each.bits >= bits
        if afforded:
            reached *= failure / (each.number * (each.number + 1))
        if reached * each.examples < 1e-9:
            return expected
    raise AssertionError("the rounds have no end")


def _class(concise: Concise[Example, Hypothesis], each: CompressionRound) -> FiniteClass[Pairs[Example], Hypothesis]:
    found = concise(each.bits)
    few = len(found) < 2 << each.bits
    remedy = "a description is a string of bits: there are fewer than 2^(s+1) of at most s"
    checks.require(few, "has more hypotheses than descriptions", where="class", remedy=remedy)
    return found


def _mistakes(
    labels_of: LabelsOfHypothesis[Hypothesis, Example], hypothesis: Hypothesis, database: Pairs[Example]
) -> int:
    labels = labels_of(hypothesis, [example for example, _ in database])
    return sum(bool(label) != bool(true) for label, (_, true) in zip(labels, database, strict=True))


def _passes(
    labels_of: LabelsOfHypothesis[Hypothesis, Example],
    hypothesis: Hypothesis,
    database: Pairs[Example],
    each: CompressionRound,
    epsilon: Fraction,
) -> float:
    """Probability that mistakes + z ≤ most, z with probability in proportion to e^{−ε|z|}."""
    room = each.most_mistakes - _mistakes(labels_of, hypothesis, database)
    q = math.exp(-epsilon)
    return 1 - q ** (room + 1) / (1 + q) if room >= 0 else q ** (-room) / (1 + q)


def concise_thresholds(d: int) -> Concise[int, int]:
    """Thresholds of INTERVAL_d by length: those of s bits are the multiples of 2^{d−s}."""
    return lambda bits: ListedConcepts([k << d >> min(bits, d) for k in range(1 << min(bits, d))], sauer.lies_below)


def _threshold(sample: LabelledSample, targets: Targets, draw: Below) -> int | None:
    found = learn(
        concise_thresholds(sample.d),
        sauer.lies_below,
        sample.pairs(),
        epsilon=targets.epsilon,
        error=targets.alpha,
        failure=targets.beta,
        draw=draw,
    )
    return None if found is None else found.hypothesis


def _needed(d: int, targets: Targets) -> int:
    """Number of examples of all rounds up to the first that affords d bits."""
    total = 0
    for each in rounds(epsilon=targets.epsilon, error=targets.alpha, failure=targets.beta):
        total += each.examples
        if each.bits >= d:
            return total
    raise AssertionError("the rounds have no end")


MECHANISM: Final = Mechanism(
    name="compression",
    summary="INTERVAL, ever longer descriptions on ever more examples",
    by="KLNRS11 p. 12",
    concepts=INTERVAL,
    answers=A_THRESHOLD,
    run=_threshold,
    needed=_needed,
    d=8,
    place=16,
)
