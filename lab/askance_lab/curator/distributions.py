"""Exact output distributions, and a checker that tries all neighbouring databases.

A mechanism hands its distribution over to it as a mapping from outputs to probabilities. Databases are neighbours where
one entry is replaced (KLNRS11, Def. 2.1). Nothing is sampled: a claim of privacy on a small domain is true or false.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

Entry = TypeVar("Entry")
Output = TypeVar("Output")
Distribution: TypeAlias = Mapping[Output, float]
"""The probability of each output."""

TINY = 1e-300
"""Below it a float is too coarse to be a probability."""


class WorstLoss(NamedTuple, Generic[Entry]):
    """The two neighbouring databases that a mechanism distinguishes best, and how well."""

    value: float
    one: tuple[Entry, ...]
    other: tuple[Entry, ...]


def mixture(parts: Iterable[tuple[float, Distribution[Output]]]) -> Distribution[Output]:
    """Mixture of distributions with these probabilities."""
    total: dict[Output, float] = defaultdict(float)
    for chance, part in parts:
        for output, each in part.items():
            total[output] += chance * each
    return dict(total)


def loss(one: Distribution[Output], other: Distribution[Output]) -> float:
    """Least ε such that `one` is at most e^ε times `other` at every output: δ = 0."""
    ratios = (
        math.inf if other.get(output, 0.0) < TINY else math.log(chance / other[output])
        for output, chance in one.items()
        if chance >= TINY
    )
    return max(ratios, default=-math.inf)


def hockey_stick(one: Distribution[Output], other: Distribution[Output], epsilon: float) -> float:
    """Least δ such that `one` is (ε,δ)-close to `other`: Σ max(0, P(o) − e^ε·Q(o))."""
    grown = math.exp(epsilon)
    return math.fsum(max(0.0, chance - grown * other.get(output, 0.0)) for output, chance in one.items())


def neighbours(domain: Sequence[Entry], size: int) -> Iterator[tuple[tuple[Entry, ...], tuple[Entry, ...]]]:
    """All ordered pairs of databases, as multisets, that differ in one entry."""
    for rest in itertools.combinations_with_replacement(domain, size - 1):
        for first, second in itertools.permutations(domain, 2):
            yield (*rest, first), (*rest, second)


def worst_loss(
    mechanism: Callable[[tuple[Entry, ...]], Distribution[Output]], domain: Sequence[Entry], size: int
) -> WorstLoss[Entry]:
    """Pure ε of a mechanism that ignores the order of its entries, over all databases of one size."""
    return _worst(mechanism, domain, size, loss)


def worst_delta(
    mechanism: Callable[[tuple[Entry, ...]], Distribution[Output]], domain: Sequence[Entry], size: int, epsilon: float
) -> WorstLoss[Entry]:
    """Least δ at ε of such a mechanism."""
    return _worst(mechanism, domain, size, lambda one, other: hockey_stick(one, other, epsilon))


def _worst(
    mechanism: Callable[[tuple[Entry, ...]], Distribution[Output]],
    domain: Sequence[Entry],
    size: int,
    measure: Callable[[Distribution[Output], Distribution[Output]], float],
) -> WorstLoss[Entry]:
    """Worst pair of neighbours. Each database's distribution is computed once, by its multiset."""
    known: dict[tuple[int, ...], Distribution[Output]] = {}

    def of(places: tuple[int, ...]) -> Distribution[Output]:
        key = tuple(sorted(places))
        if key not in known:
            known[key] = mechanism(tuple(domain[place] for place in key))
        return known[key]

    value, one, other = max(
        ((measure(of(one), of(other)), one, other) for one, other in neighbours(range(len(domain)), size)),
        key=lambda found: found[0],
    )
    return WorstLoss(value, tuple(domain[place] for place in one), tuple(domain[place] for place in other))
