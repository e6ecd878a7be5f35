"""The curator's learners and mechanisms by name: what each is run on, what it says, and how many users it asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypedDict

from askance_lab.curator import (
    choosing,
    compression,
    distance,
    exponential,
    generic,
    geometric,
    interval,
    interval_sanitizer,
    interval_sanitizer_plan,
    label_private,
    laplace,
    parity,
    piecewise,
    point,
    point_sanitizer,
    retry,
    sanitizer_learner,
    sauer,
    train_test,
    walsh,
)
from askance_lab.curator.databases import BitSample, LabelledSample
from askance_lab.curator.draws import Below
from askance_lab.curator.inputs import ConceptClass
from askance_lab.curator.privacy import Paid
from askance_lab.curator.proper import interval_deviation, point_deviation
from askance_lab.theory import central, mechanisms, sanitizers
from askance_lab.theory import parity as parity_bounds
from askance_lab.theory.targets import Targets
from askance_protocol import checks
from askance_protocol.errors import ProtocolError


@dataclass(frozen=True, slots=True)
class MechanismRun:
    """What a run is given besides its database."""

    terms: Targets
    draw: Below


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A learner or a mechanism."""

    summary: str
    by: str
    kind: ConceptClass
    run: Callable[[Any, MechanismRun], Any]
    """From the database to a hypothesis, or None for ⊥."""
    paid: Callable[[Targets, int], Paid]
    """What it spends, from the terms and d."""
    needed: Callable[[int, Targets], int]
    """How many users its bound asks for."""
    off: Callable[[Any, Any], float] | None = None
    """Of a mechanism: by how much its answer is off, from the answer and the database."""
    d: int = 16
    alpha: float = 0.1
    """Unless it is said otherwise: some take very many users."""


def _pure(terms: Targets, _d: int) -> Paid:
    return Paid(terms.epsilon)


def _approximate(terms: Targets, _d: int) -> Paid:
    return Paid(terms.epsilon, terms.delta)


def _epsilon(terms: Targets) -> float:
    return float(terms.epsilon)


def _generic(hypotheses: Callable[[int], int]) -> Callable[[int, Targets], int]:
    return lambda d, terms: generic.examples_realizable_sharp(hypotheses=hypotheses(d), **_learning(terms))


def _until(terms: Targets, loss: float) -> int:
    """Users of whom so many are a share of α."""
    return checks.whole(loss / terms.alpha)


# ------------------------------------------------------------------------------------------------------- mechanisms


def _positives(sample: LabelledSample) -> int:
    return sum(sample.labels)


def _mean(sample: LabelledSample, asked: MechanismRun) -> float:
    values = [int(label) for label in sample.labels]
    return float(laplace.average(values, epsilon=asked.terms.epsilon, draw=asked.draw))


def _count(sample: LabelledSample, asked: MechanismRun) -> int:
    return geometric.release(_positives(sample), epsilon=asked.terms.epsilon, draw=asked.draw, within=(0, len(sample)))


def _ones(sample: LabelledSample) -> list[int]:
    """How often each bit is 1 in a positive example."""
    positive = [x for x, y in zip(sample.points, sample.labels, strict=True) if y]
    return [sum(x >> i & 1 for x in positive) for i in range(sample.d)]


def _bit(sample: LabelledSample, asked: MechanismRun) -> int:
    return exponential.choose(_ones(sample), epsilon=asked.terms.epsilon, draw=asked.draw)


def _bit_loss(found: int, sample: LabelledSample) -> float:
    ones = _ones(sample)
    return float(max(ones) - ones[found])


def _frequent(sample: LabelledSample, asked: MechanismRun) -> int | None:
    counts = Counter(sample.points)
    ahead = distance.ahead(counts, others=len(counts) < 1 << sample.d)
    terms = asked.terms
    found = distance.choose(ahead.gap, epsilon=terms.epsilon, delta=terms.delta, draw=asked.draw)
    return ahead.best if found else None


def _chosen(sample: LabelledSample, asked: MechanismRun) -> int | None:
    return choosing.choose(Counter(sample.points), len(sample), growth=1, draw=asked.draw, **_whole(asked.terms))


def _less_frequent(found: int, sample: LabelledSample) -> float:
    counts = Counter(sample.points)
    return float(max(counts.values()) - counts[found])


class _Whole(TypedDict):
    epsilon: Fraction
    delta: Fraction
    error: Fraction
    failure: Fraction


class _Learning(TypedDict):
    epsilon: float
    error: float
    failure: float


def _whole(terms: Targets) -> _Whole:
    return {"epsilon": terms.epsilon, "delta": terms.delta, "error": terms.error, "failure": terms.failure}


MECHANISMS: Final[Mapping[str, Mechanism]] = {
    "laplace": Mechanism(
        "the share of positive examples, with discrete Laplace noise",
        "BB-notes Thm 3, KLNRS11 Thm 2.3",
        ConceptClass.POINT,
        _mean,
        _pure,
        lambda _, terms: mechanisms.examples_laplace_average(
            width=1, epsilon=_epsilon(terms), error=terms.alpha, failure=terms.beta
        ),
        lambda found, sample: abs(found - _positives(sample) / len(sample)),
    ),
    "geometric": Mechanism(
        "the number of positive examples, with clamped geometric noise",
        "N21, §2",
        ConceptClass.POINT,
        _count,
        _pure,
        lambda _, terms: _until(terms, mechanisms.geometric_error(epsilon=_epsilon(terms), failure=terms.beta)),
        lambda found, sample: abs(found - _positives(sample)) / len(sample),
    ),
    "exponential": Mechanism(
        "the bit that is 1 in most positive examples",
        "KLNRS08 Def. 3.5, BNS13 Prop. 1",
        ConceptClass.POINT,
        _bit,
        _pure,
        lambda d, terms: _until(
            terms, mechanisms.exponential_loss(solutions=d, epsilon=_epsilon(terms), failure=terms.beta)
        ),
        lambda found, sample: _bit_loss(found, sample) / len(sample),
    ),
    "a-dist": Mechanism(
        "the most frequent example, if it is so by far",
        "BNS13 Prop. 2",
        ConceptClass.POINT,
        _frequent,
        _approximate,
        lambda d, terms: point.examples_needed(d, **_whole(terms)),
        lambda found, sample: _less_frequent(found, sample) / len(sample),
    ),
    "choosing": Mechanism(
        "a frequent example, if there is one",
        "BNS13 Lemma 4",
        ConceptClass.POINT,
        _chosen,
        _approximate,
        lambda _, terms: sanitizers.examples_choosing(growth=1, delta=float(terms.delta), **_learning(terms)),
        lambda found, sample: _less_frequent(found, sample) / len(sample),
    ),
}

# --------------------------------------------------------------------------------------------------------- learners


def _learner(concepts: Callable[[int], Any]) -> Callable[[Any, MechanismRun], Any]:
    """The generic learner over a class."""
    return lambda database, asked: generic.learn(
        concepts(database.d), database, epsilon=asked.terms.epsilon, draw=asked.draw
    )


def _masked(database: BitSample, asked: MechanismRun) -> Any:
    """In d + 1 bits, and back."""
    d = database.d - 1
    r, a = generic.learn(walsh.MaskedParities(d), database, epsilon=asked.terms.epsilon, draw=asked.draw)
    return {"r": "".join(str(r >> i & 1) for i in range(d)), "a": a}


def _pairs(sample: LabelledSample) -> list[tuple[int, bool]]:
    return list(zip(sample.points, sample.labels, strict=True))


def _sauer(sample: LabelledSample, asked: MechanismRun) -> int:
    remedy = "all its examples are listed: give at most 12 bits, or use generic-interval"
    checks.require(sample.d <= 12, "is too large a domain", where="d", remedy=remedy)
    classes = sauer.thresholds(range(1 << sample.d))
    return generic.learn(classes, _pairs(sample), epsilon=asked.terms.epsilon, draw=asked.draw)


def _compressed(sample: LabelledSample, asked: MechanismRun) -> int | None:
    terms = asked.terms
    found = compression.learn(
        _concise(sample.d),
        sauer.lies_below,
        _pairs(sample),
        epsilon=terms.epsilon,
        error=terms.alpha,
        failure=terms.beta,
        draw=asked.draw,
    )
    return None if found is None else found.hypothesis


def _concise(d: int) -> Callable[[int], Any]:
    """Of s bits: the thresholds that are multiples of 2^{d−s}."""
    return lambda bits: generic.ListedConcepts(
        [k << d >> min(bits, d) for k in range(1 << min(bits, d))], sauer.lies_below
    )


def _retried(sample: BitSample, asked: MechanismRun) -> int | None:
    return retry.learn(sample, epsilon=asked.terms.epsilon, runs=_runs(sample.d, asked.terms).runs, draw=asked.draw)


def _runs(d: int, terms: Targets) -> parity_bounds.Retries:
    return parity_bounds.parity_retry_sharp(dimension=d, **_learning(terms))


def _learning(terms: Targets) -> _Learning:
    return {"epsilon": _epsilon(terms), "error": terms.alpha, "failure": terms.beta}


def _parts(d: int, terms: Targets) -> parity_bounds.TrainTest:
    return parity_bounds.parity_train_test_exponential(dimension=d, **_learning(terms))


def _tested(sample: BitSample, asked: MechanismRun) -> int | None:
    parts = _parts(sample.d, asked.terms)
    return train_test.learn(sample, epsilon=asked.terms.epsilon, parts=parts, draw=asked.draw, selection="exponential")


def _compression_needed(d: int, terms: Targets) -> int:
    """All rounds up to the first that affords d bits."""
    total = 0
    for each in compression.rounds(epsilon=terms.epsilon, error=terms.alpha, failure=terms.beta):
        total += each.examples
        if each.bits >= d:
            return total
    raise AssertionError("the rounds have no end")


LEARNERS: Final[Mapping[str, Mechanism]] = {
    "generic-parity": Mechanism(
        "PARITY, all 2^d parities scored by a Walsh-Hadamard transform",
        "KLNRS11 Thm 3.4",
        ConceptClass.PARITY,
        _learner(walsh.Parities),
        _pure,
        _generic(lambda d: 2**d),
    ),
    "generic-masked-parity": Mechanism(
        "MASKED-PARITY, as PARITY in d + 1 bits",
        "KLNRS11 Thm 3.4, §5.3",
        ConceptClass.MASKED_PARITY,
        _masked,
        _pure,
        _generic(lambda d: 2 ** (d + 1)),
    ),
    "generic-conjunction": Mechanism(
        "monotone conjunctions, all 2^d scored by a superset sum",
        "KLNRS11 Thm 3.4",
        ConceptClass.CONJUNCTION,
        _learner(generic.Conjunctions),
        _pure,
        _generic(lambda d: 2**d),
    ),
    "generic-point": Mechanism(
        "POINT, at any d",
        "KLNRS11 Thm 3.4",
        ConceptClass.POINT,
        lambda sample, asked: piecewise.learn_point(sample, epsilon=asked.terms.epsilon, draw=asked.draw),
        _pure,
        _generic(lambda d: 2**d),
    ),
    "generic-interval": Mechanism(
        "INTERVAL, at any d",
        "KLNRS11 Thm 3.4",
        ConceptClass.INTERVAL,
        lambda sample, asked: piecewise.learn_interval(sample, epsilon=asked.terms.epsilon, draw=asked.draw),
        _pure,
        _generic(lambda d: 2**d + 1),
    ),
    "sauer": Mechanism(
        "INTERVAL, a threshold for each labelling of the domain",
        "KLNRS11 Cor. 3.6",
        ConceptClass.INTERVAL,
        _sauer,
        _pure,
        lambda d, terms: central.examples_sauer_repaired(vc=1, domain=2**d, **_learning(terms)),
        d=8,
    ),
    "compression": Mechanism(
        "INTERVAL, ever longer descriptions on ever more examples",
        "KLNRS11 p. 12",
        ConceptClass.INTERVAL,
        _compressed,
        _pure,
        _compression_needed,
        d=8,
    ),
    "parity": Mechanism(
        "PARITY in polynomial time; ⊥ every other time",
        "KLNRS11 Lemma 4.1",
        ConceptClass.PARITY,
        lambda sample, asked: parity.learn(sample, epsilon=asked.terms.epsilon, draw=asked.draw),
        _pure,
        lambda d, terms: parity_bounds.examples_parity_sharp(
            dimension=d,
            inclusion=parity_bounds.parity_inclusion_exact(epsilon=_epsilon(terms)),
            error=terms.alpha,
            failure=terms.beta,
        ),
    ),
    "parity-retry": Mechanism(
        "PARITY, retried a fixed number of times",
        "KLNRS08 Thm 3.8",
        ConceptClass.PARITY,
        _retried,
        _pure,
        lambda d, terms: _runs(d, terms).examples,
    ),
    "parity-insist": Mechanism(
        "PARITY, retried until it speaks",
        "KLNRS08 Thm 3.8, sharpened",
        ConceptClass.PARITY,
        lambda sample, asked: retry.insist(sample, epsilon=asked.terms.epsilon, draw=asked.draw),
        _pure,
        lambda d, terms: retry.examples_insist(dimension=d, **_learning(terms)).examples,
    ),
    "parity-train-test": Mechanism(
        "PARITY, the best of several on a test part",
        "KLNRS11 Thm 4.4",
        ConceptClass.PARITY,
        _tested,
        _pure,
        lambda d, terms: _parts(d, terms).total,
    ),
    "point": Mechanism(
        "POINT, by A_dist",
        "BNS13 Lemma 1",
        ConceptClass.POINT,
        lambda sample, asked: point.learn(
            sample, epsilon=asked.terms.epsilon, delta=asked.terms.delta, draw=asked.draw
        ),
        _approximate,
        lambda d, terms: point.examples_needed(d, **_whole(terms)),
    ),
    "interval": Mechanism(
        "INTERVAL, by Rec",
        "BNS13 Thm 2",
        ConceptClass.INTERVAL,
        lambda sample, asked: interval.learn(sample, draw=asked.draw, **_whole(asked.terms)),
        _approximate,
        lambda d, terms: interval.examples_needed(d, **_whole(terms)),
        d=64,
    ),
    "label-private": Mechanism(
        "INTERVAL, where labels alone are private",
        "BNS13 Thm 7",
        ConceptClass.INTERVAL,
        lambda sample, asked: label_private.learn_interval(sample, epsilon=asked.terms.epsilon, draw=asked.draw),
        _pure,
        lambda _, terms: central.examples_label_private(vc=1, **_learning(terms)),
        d=64,
    ),
}

# ------------------------------------------------------------------------------------------------------- sanitizers


def _sanitized_points(sample: LabelledSample, asked: MechanismRun) -> dict[int, int]:
    made = point_sanitizer.sanitize(sample.d, sample.points, draw=asked.draw, tight=True, **_whole(asked.terms))
    return dict(made.counts)


def _interval_plan(d: int, terms: Targets) -> interval_sanitizer_plan.SanitizerPlan:
    return interval_sanitizer_plan.planned(d, unit=_UNIT, **_whole(terms))


def _sanitized_intervals(sample: LabelledSample, asked: MechanismRun) -> dict[int, int]:
    """By right ends, estimated counts: a database of as many entries, within 2α on every threshold."""
    plan = _interval_plan(sample.d, asked.terms)
    return interval_sanitizer.sanitize(sample.points, plan=plan, draw=asked.draw).database()


def _off_below(found: Mapping[int, int], sample: LabelledSample) -> float:
    counts = Counter[int](sample.points)
    return interval_deviation(found, counts.items()) / len(sample)


_UNIT: Final = 12
"""In place of the text's 32: docs/sanitizers.md."""
_SMALL: Final = 6
"""Entries of the sanitizer that lists all databases, at d = 3."""


def _small_sanitizer(d: int) -> sanitizer_learner.SmallDatabases[sanitizer_learner.Labelled]:
    return sanitizer_learner.for_thresholds(d, _SMALL)


def _learned_from_sanitized(sample: LabelledSample, asked: MechanismRun) -> int:
    small, epsilon = _small_sanitizer(sample.d), asked.terms.epsilon
    concepts = sanitizer_learner.thresholds(sample.d)
    return sanitizer_learner.learn(
        sample, concepts, lambda entries: small.sanitize(entries, epsilon=epsilon, draw=asked.draw)
    )


def _needed_to_sanitize(d: int, terms: Targets) -> int:
    """For α by the sanitizer's bound, and 3α by what generalizes."""
    error = terms.alpha
    sanitized = _small_sanitizer(d).examples_needed(
        epsilon=_epsilon(terms), error=error, rounding=1 / _SMALL / 2, failure=terms.beta
    )
    return max(sanitized, sanitizer_learner.examples_to_generalize(concepts=2**d + 1, error=error, failure=terms.beta))


SANITIZERS: Final[Mapping[str, Mechanism]] = {
    "point-sanitizer": Mechanism(
        "how often each point occurs",
        "BNS13 Thm 3",
        ConceptClass.POINT,
        _sanitized_points,
        lambda terms, _: point_sanitizer.paid(tight=True, **_whole(terms)),
        lambda _, terms: point_sanitizer.examples_needed(tight=True, **_whole(terms)),
        lambda found, sample: point_deviation(Counter(sample.points), found) / len(sample),
    ),
    "interval-sanitizer": Mechanism(
        "how many lie below each threshold, as a database",
        "BNS13 Thm 4, §2.3",
        ConceptClass.INTERVAL,
        _sanitized_intervals,
        lambda terms, d: interval_sanitizer_plan.paid(_interval_plan(d, terms)),
        lambda d, terms: interval_sanitizer_plan.examples_needed(_interval_plan(d, terms)),
        _off_below,
        alpha=0.2,
    ),
    "sanitizer-learner": Mechanism(
        "INTERVAL, from a sanitized sample alone",
        "BNS13 Thm 5",
        ConceptClass.INTERVAL,
        _learned_from_sanitized,
        _pure,
        _needed_to_sanitize,
        d=3,
        alpha=0.2,
    ),
}

CATALOGUE: Final[Mapping[str, Mechanism]] = {**MECHANISMS, **LEARNERS, **SANITIZERS}


def entry(name: str) -> Mechanism:
    """One of them, or an error that says which there are."""
    if name not in CATALOGUE:
        known = ", ".join(CATALOGUE)
        raise ProtocolError(f"{name!r} is nothing that a curator does here", where="NAME", remedy=f"use one of {known}")
    return CATALOGUE[name]
