"""A sanitizer for C^label is a proper learner of C: BNS13, §5.1, Thm 5.

c^label(x∘y) = 1 where c(x) ≠ y: an entry is a labelled example, and Q_{c^label}(S) is c's empirical error on S. So the
learner sanitizes its sample and returns the concept with the least error on the database that comes out. All that it
knows of the sample is that database: it costs what the sanitizer costs.

Accuracy, re-derived: where c made the labels, Q_{c^label}(S) = 0, so it is at most α on Ŝ, hence at most α for the
concept returned, and at most 2α for that one on S. On t ≥ (6/α)ln(|C|/β) examples no concept with error above 3α errs
on 2αt or less, but for |C|·e^{−αt/6} ≤ β (Chernoff). That is 3α but for 2β; the text has 3α + 2β, and bounds t by the m
of the sanitizer alone.

The sanitizer is anybody's. The one here is pure: the exponential mechanism over all databases of n entries (Blum,
Ligett, Roth), for domains that are small enough to list them. In whole numbers their score is −max_c |n·#_c(S) −
m·#_c(Ŝ)|, where # counts the entries on which a predicate holds: an entry replaced changes it by n at most.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations_with_replacement
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np

from askance_lab.curator import exponential
from askance_lab.curator.concepts import A_THRESHOLD, INTERVAL
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.distributions import Distribution
from askance_lab.curator.draws import Below
from askance_lab.curator.mechanism import Mechanism
from askance_lab.curator.privacy import Paid
from askance_lab.theory.mechanisms import exponential_loss
from askance_lab.theory.targets import Targets
from askance_protocol import checks
from askance_protocol.arrays import Integers

Hypothesis = TypeVar("Hypothesis", bound=Hashable)
Entry = TypeVar("Entry", bound=Hashable)
Labelled: TypeAlias = tuple[int, bool]
"""An entry x∘y of X_{d+1}."""
Sanitizer: TypeAlias = Callable[[Sequence[Labelled]], Sequence[Labelled]]
"""A database in, a database out: proper, and private."""
Rational: TypeAlias = Mapping[tuple[Labelled, ...], float]
Predicate: TypeAlias = Callable[[int], bool]

_MOST: Final = 1 << 20


# --- The reduction -----------------------------------------------------------------------------------------------


def labelled(concept: Predicate) -> Callable[[Labelled], bool]:
    """Predicate c^label(x∘y) = y ⊕ c(x): c mislabels the example. BNS13, §5.1."""
    return lambda entry: concept(entry[0]) != entry[1]


def thresholds(d: int) -> dict[int, Predicate]:
    """The concepts of INTERVAL_d: c_j(x) = 1 where x < j, 0 ≤ j ≤ 2^d. For small d only."""
    return {j: lambda x, j=j: x < j for j in range((1 << d) + 1)}


def learn(sample: LabelledSample, concepts: Mapping[Hypothesis, Predicate], sanitizer: Sanitizer) -> Hypothesis:
    """Learn the concept with the least error on the sanitized sample. BNS13, Thm 5."""
    # 1. sanitize S, as a database over X_{d+1}
    sanitized = sanitizer(sample.pairs())
    # 2. return argmin_c Q_{c^label}(Ŝ)
    return best(concepts, sanitized)


def best(concepts: Mapping[Hypothesis, Predicate], database: Sequence[Labelled]) -> Hypothesis:
    """First of the concepts with the least Q_{c^label}."""
    checks.require(bool(concepts), "are none", where="concepts", remedy="give at least one")
    return min(concepts, key=lambda name: sum(map(labelled(concepts[name]), database)))


def learn_distribution(
    sample: LabelledSample,
    concepts: Mapping[Hypothesis, Predicate],
    sanitizer: Callable[[Sequence[Labelled]], Rational],
) -> Distribution[Hypothesis]:
    """Exact distribution of the hypothesis, from that of the sanitizer's database."""
    total: dict[Hypothesis, float] = defaultdict(float)
    for database, chance in sanitizer(sample.pairs()).items():
        total[best(concepts, database)] += chance
    return dict(total)


def examples_to_generalize(*, concepts: int, error: float, failure: float) -> int:
    """Number (6/α)ln(|C|/β) of examples: an error above 3α is above 2α on the sample, but for β."""
    checks.open_unit("error", error)
    checks.open_unit("failure", failure)
    return checks.whole(6 / error * math.log(checks.count("concepts", concepts) / failure), "examples")


# --- A pure sanitizer for small domains --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class SmallDatabases(Generic[Entry]):
    """The exponential mechanism over all databases of `size` entries, with the counts of each predicate."""

    universe: tuple[Entry, ...]
    holds: Integers
    """Predicates × universe."""
    databases: Integers
    """Databases × size: places in the universe."""
    size: int

    @classmethod
    def of(
        cls, universe: Sequence[Entry], predicates: Sequence[Callable[[Entry], bool]], size: int
    ) -> SmallDatabases[Entry]:
        """List all multisets of the universe, 2^20 at most."""
        fits = (
            bool(universe and predicates) and math.comb(len(universe) + checks.count("size", size) - 1, size) <= _MOST
        )
        remedy = "use a smaller domain, or smaller databases, and at least one predicate"
        checks.require(fits, "are none, or too many to list", where="databases", remedy=remedy)
        holds = np.array([[predicate(entry) for entry in universe] for predicate in predicates], np.int64)
        places = chain.from_iterable(combinations_with_replacement(range(len(universe)), size))
        listed = np.fromiter(places, np.int64).reshape(-1, size)
        return cls(tuple(universe), holds, listed, size)

    def sanitize(self, database: Sequence[Entry], *, epsilon: Fraction, draw: Below) -> tuple[Entry, ...]:
        """Release a database of `size` entries that is close on all predicates. It is ε-private."""
        found = exponential.choose(self.scores(database), epsilon=epsilon, sensitivity=self.size, draw=draw)
        return self._of(found)

    def sanitize_distribution(self, database: Sequence[Entry], *, epsilon: Fraction) -> dict[tuple[Entry, ...], float]:
        """Exact distribution of the released database."""
        chances = exponential.probabilities(self.scores(database), epsilon=epsilon, sensitivity=self.size)
        return {self._of(index): chance for index, chance in enumerate(chances)}

    def scores(self, database: Sequence[Entry]) -> Integers:
        """Score every Ŝ: −max_c |n·#_c(S) − m·#_c(Ŝ)|."""
        counts = self._counts(database)
        there = self.holds @ counts
        listed = np.stack([row[self.databases].sum(axis=1) for row in self.holds])
        return -np.abs(self.size * there[:, None] - len(database) * listed).max(axis=0)

    def examples_needed(self, *, epsilon: float, error: float, rounding: float, failure: float) -> int:
        """Number of entries at which the loss of score is at most α − `rounding`.

        Some database of n entries is within `rounding`.
        """
        checks.positive("error - rounding", error - rounding)
        loss = exponential_loss(solutions=len(self.databases), epsilon=epsilon, failure=failure)
        return checks.whole(loss / (error - rounding), "examples")

    def _counts(self, database: Sequence[Entry]) -> Integers:
        places = {entry: place for place, entry in enumerate(self.universe)}
        inside = bool(database) and all(entry in places for entry in database)
        remedy = "give at least one entry, and those of the universe only"
        checks.require(inside, "is empty, or not within the universe", where="database", remedy=remedy)
        return np.bincount([places[entry] for entry in database], minlength=len(places)).astype(np.int64)

    def _of(self, index: int) -> tuple[Entry, ...]:
        places: list[int] = self.databases[index].tolist()
        return tuple(self.universe[place] for place in places)


def for_thresholds(d: int, size: int) -> SmallDatabases[Labelled]:
    """Sanitizer for C^label of INTERVAL_d. Some database of n entries is within 1/n of any: `rounding`.

    In the order of ones, then zeros, each by x, c_j^label holds on consecutive entries: the ones from j on, the zeros
    below. Round how many entries come up to each to multiples of 1/n: both ends are off by 1/2n at most.
    """
    checks.count("d", d)
    universe = [(x, y) for y in (True, False) for x in range(1 << d)]
    return SmallDatabases[Labelled].of(universe, [labelled(concept) for concept in thresholds(d).values()], size)


def paid(sanitizer: Paid) -> Paid:
    """Price of the sanitizer: the rest reads only its output."""
    return sanitizer


_SMALL: Final = 6
"""Entries of the mechanism's databases, all of which are listed: at d = 3 they are some 54,000."""


def _from_sanitized(sample: LabelledSample, targets: Targets, draw: Below) -> int:
    small = for_thresholds(sample.d, _SMALL)
    return learn(
        sample, thresholds(sample.d), lambda entries: small.sanitize(entries, epsilon=targets.epsilon, draw=draw)
    )


def _needed(d: int, targets: Targets) -> int:
    """Number of examples: for α by the sanitizer's bound, and for 3α by generalization."""
    sanitized = for_thresholds(d, _SMALL).examples_needed(
        epsilon=float(targets.epsilon), error=targets.alpha, rounding=1 / _SMALL / 2, failure=targets.beta
    )
    generalized = examples_to_generalize(concepts=2**d + 1, error=targets.alpha, failure=targets.beta)
    return max(sanitized, generalized)


MECHANISM: Final = Mechanism(
    name="sanitizer-learner",
    summary="INTERVAL, from a sanitized sample alone",
    by="BNS13 Thm 5",
    concepts=INTERVAL,
    answers=A_THRESHOLD,
    run=_from_sanitized,
    needed=_needed,
    agnostic=_needed,  # the sanitized and the true error of every concept are near, whichever is best
    d=3,
    alpha=0.2,
    place=42,
)
