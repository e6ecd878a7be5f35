"""The generic learner on a possibly infinite class: one concept for each labelling of a public domain.

KLNRS11, Cor. 3.6: by Sauer's lemma the concepts of a class label the domain X in at most (e|X|/VC)^VC ways, so the
exponential mechanism has to choose among so many only, and ln|H| becomes VC·ln|X|. Two concepts that label all of X
alike are one: the first that is listed stands for both.

The domain must be public. With the labellings of the *examples* instead, which are fewer, the class itself would tell
who is in the database: that is `label_private`, which protects the labels only.

For a class as small as PARITY or the conjunctions, where VC = d and ln|X| = d·ln 2, Sauer's bound is worse than ln|C|.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from operator import index
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from askance_lab.curator import generic
from askance_lab.curator.concepts import A_THRESHOLD, INTERVAL
from askance_lab.curator.databases import LabelledSample
from askance_lab.curator.draws import Below
from askance_lab.curator.generic import Mistakes
from askance_lab.curator.mechanism import Mechanism, roughly
from askance_lab.theory import central
from askance_lab.theory.targets import Targets
from askance_protocol import checks
from askance_protocol.arrays import Truths
from askance_protocol.errors import ProtocolError

_MOST: Final = 1 << 12
"""Examples of a domain that is cut once: as many labellings, and their table has a column an example."""
_MOST_OF_PAIRS: Final = 1 << 8
"""Of one that is cut twice: half its square of labellings."""

Example = TypeVar("Example")
Concept = TypeVar("Concept")


@dataclass(frozen=True, slots=True, eq=False)
class Dichotomies(Generic[Example, Concept]):
    """A concept for each labelling of a domain. A class for `generic.learn`; a database is (example, label) pairs."""

    domain: Sequence[Example]
    concepts: Sequence[Concept]
    labels: Truths
    """A row a concept, a column an example of the domain."""

    def __len__(self) -> int:
        return len(self.concepts)

    def mistakes(self, database: Sequence[tuple[Example, bool | int]]) -> Mistakes:
        """Count the 1s, and for each x that is labelled 1 its 0s less its 1s."""
        balance = np.zeros(len(self.domain), np.int64)
        labels = np.array([bool(label) for _, label in database])
        np.add.at(balance, self._places(database), np.where(labels, -1, 1))
        return int(np.count_nonzero(labels)) + self.labels @ balance

    def _places(self, database: Sequence[tuple[Example, bool | int]]) -> list[int]:
        place = {x: i for i, x in enumerate(self.domain)}
        try:
            return [place[x] for x, _ in database]
        except KeyError:
            what = "has entries outside the public domain"
            raise ProtocolError(what, where="database", remedy="choose the domain to fit") from None

    def hypothesis(self, index: int) -> Concept:
        """Concept that represents the labelling."""
        return self.concepts[index]


def dichotomies(
    domain: Sequence[Example], concepts: Iterable[Concept], says: Callable[[Concept, Sequence[Example]], ArrayLike]
) -> Dichotomies[Example, Concept]:
    """First listed concept of each labelling of the domain."""
    xs = list(dict.fromkeys(domain))
    checks.require(bool(xs), "is empty", where="domain", remedy="give the examples that there may be")
    first: dict[bytes, Concept] = {}
    for concept in concepts:
        first.setdefault(np.asarray(says(concept, xs), np.bool).tobytes(), concept)
    checks.require(bool(first), "are none", where="concepts", remedy="give at least one")
    rows = np.frombuffer(b"".join(first), np.bool).reshape(len(first), len(xs))
    return Dichotomies(xs, list(first.values()), rows)


def thresholds(domain: Iterable[int]) -> Dichotomies[int, int]:
    """List c_j(x) = 1 iff x < j, for each way to cut the domain in two: |X| + 1 of them, VC = 1."""
    xs = _ordered(domain)
    return dichotomies(xs, [xs[0], *(x + 1 for x in xs)], lies_below)


def points(domain: Iterable[int]) -> Dichotomies[int, int]:
    """List c_j(x) = 1 iff x = j in the domain: |X| of them, VC = 1."""
    xs = _ordered(domain)
    return dichotomies(xs, xs, is_at)


def intervals(domain: Iterable[int]) -> Dichotomies[int, tuple[int, int]]:
    """List c(x) = 1 iff a ≤ x < b, for each stretch of the domain and the empty one: |X|(|X|+1)/2 + 1, VC = 2."""
    xs = _ordered(domain, _MOST_OF_PAIRS)
    stretches = [(a, b + 1) for place, a in enumerate(xs) for b in xs[place:]]
    return dichotomies(xs, [(xs[0], xs[0]), *stretches], lies_within)


def lies_below(j: int, xs: Sequence[int]) -> list[bool]:
    """Labels of the x's by c_j of INTERVAL_d: whether x < j. BNS13, §3.2."""
    return [x < j for x in xs]


def is_at(j: int, xs: Sequence[int]) -> list[bool]:
    """Labels of the x's by c_j of POINT_d: whether x = j. BNS13, §3.1."""
    return [x == j for x in xs]


def lies_within(ends: tuple[int, int], xs: Sequence[int]) -> list[bool]:
    """Labels of the x's: whether a ≤ x < b."""
    return [ends[0] <= x < ends[1] for x in xs]


def _ordered(domain: Iterable[int], most: int = _MOST) -> list[int]:
    xs = sorted(set(map(index, domain)))
    checks.require(bool(xs), "is empty", where="domain", remedy="give the examples that there may be")
    remedy = f"give {most} examples at most, or use the generic learner, which makes no table"
    checks.require(len(xs) <= most, "has too many labellings to list", where="domain", remedy=remedy)
    return xs


def vc_dimension(labels: Truths) -> int:
    """Size of a largest shattered set of columns. KLNRS11, Def. 3.5. Tries all sets: for small domains."""
    size, columns = 0, range(labels.shape[1])
    while any(_shattered(labels[:, list(some)]) for some in combinations(columns, size + 1)):
        size += 1
    return size


def _shattered(labels: Truths) -> bool:
    return len(np.unique(labels, axis=0)) == 1 << labels.shape[1]


def learn(sample: LabelledSample, *, epsilon: Fraction, draw: Below) -> int:
    """Learn a threshold of INTERVAL_d: the domain is all of X_d, so d is small."""
    remedy = "all its examples are listed: give at most 12 bits, or use generic-interval"
    checks.require(sample.d <= 12, "is too large a domain", where="d", remedy=remedy)
    return generic.learn(thresholds(range(1 << sample.d)), sample.pairs(), epsilon=epsilon, draw=draw)


def _needed(d: int, targets: Targets) -> int:
    """Number of examples by Cor. 3.6 as repaired, which holds whatever the best concept errs."""
    return central.examples_sauer_repaired(vc=1, domain=2**d, **roughly(targets))


MECHANISM: Final = Mechanism(
    name="sauer",
    summary="INTERVAL, a threshold for each labelling of the domain",
    by="KLNRS11 Cor. 3.6",
    concepts=INTERVAL,
    answers=A_THRESHOLD,
    run=lambda sample, targets, draw: learn(sample, epsilon=targets.epsilon, draw=draw),
    needed=_needed,
    agnostic=_needed,
    d=8,
    place=15,
)
