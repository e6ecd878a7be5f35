"""How wrong a hypothesis is: by a formula or point by point where the domain allows, else on fresh examples.

Error is disagreement with the concept itself, not with noisy labels (KLNRS11, Def. 2.4). Users who were made up have a
concept, and there are always more of them: a hypothesis is measured on some whom no oracle has asked. A table has
labels only, and the rows that were kept from the learner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from askance_client.population import Population
from askance_client.simulation.population import Synthetic
from askance_client.simulation.population.features import BitsFeature
from askance_lab.evaluation import hypotheses
from askance_lab.evaluation.domain import domain_of, is_listed
from askance_lab.evaluation.hypotheses import Truths
from askance_protocol.concepts import Concept
from askance_protocol.examples import Columns
from askance_server.core.estimators import clopper_pearson

CONFIDENCE: Final = 0.95
FRESH: Final = 1 << 18
"""How many fresh examples an error is measured on."""
_FIRST: Final = 1 << 40
"""Their numbers: no run asks so many users."""
_CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class KnownError:
    """The share of examples that are labelled wrongly, or how far an estimate is off; None: nobody knows."""

    value: float | None
    known: Literal["exactly", "measured", "not"]
    interval: tuple[float, float] | None = None
    """Where it is measured: Clopper and Pearson's, with confidence 0.95."""


UNKNOWN: Final = KnownError(None, "not")


def error_of(strategy: str, learned: Mapping[str, Any], population: Population, asked: int = 0) -> KnownError:
    """The error of what a strategy learned. `asked`: so many first rows of a file were not kept from the learner."""
    if not learned:
        return UNKNOWN
    value = hypotheses.error_of(strategy, learned, population.truth, uniform=_is_uniform(population))
    if value is not None:
        return KnownError(value, "exactly")
    if strategy in hypotheses.SAYS:
        return _on_examples(strategy, learned, population, asked)
    return _of_estimate(learned, population)


def _on_examples(strategy: str, learned: Mapping[str, Any], population: Population, asked: int) -> KnownError:
    """Of a concept."""
    if not isinstance(population, Synthetic):
        return _on_rows(strategy, learned, population, asked)
    rule = None if population.labelling is None else population.labelling.rule
    return UNKNOWN if rule is None else _on_concept(strategy, learned, population, rule)


def _of_estimate(learned: Mapping[str, Any], population: Population) -> KnownError:
    """Of shares, or of centres."""
    if "shares" in learned and "shares" in population.truth:
        return KnownError(_farthest(learned["shares"], population.truth["shares"]), "exactly")
    return _dearer(learned, population) if "centres" in learned else UNKNOWN


def _is_uniform(population: Population) -> bool:
    """Whether the bits of its examples are fair: the formulas are for these."""
    features = population.features if isinstance(population, Synthetic) else ()
    return all(feature.digits == (True,) for feature in features if isinstance(feature, BitsFeature))


def _farthest(learned: Any, truth: Any) -> float:
    """By how much the worst of several shares is off."""
    return float(np.abs(np.subtract(learned, truth)).max())


def _dearer(learned: Mapping[str, Any], population: Population) -> KnownError:
    """How much more the mean square of the distance from the nearest centre is than with the true centres."""
    if "centres" not in population.truth or population.size is not None:
        return UNKNOWN
    columns = population.columns(range(_FIRST, _FIRST + _CHUNK))
    costs = [hypotheses.cost(value, columns) for value in (learned, population.truth)]
    return KnownError(max(0.0, costs[0] - costs[1]), "measured")


def _on_concept(strategy: str, learned: Mapping[str, Any], population: Synthetic, rule: Concept) -> KnownError:
    if not is_listed(population):
        fresh = range(_FIRST, _FIRST + FRESH)
        return _measured(
            sum(_wrong(strategy, learned, population.columns(some), rule) for some in _runs(fresh)), len(fresh)
        )
    domain = domain_of(population)
    wrong = _positive(strategy, learned, domain.columns) != rule.positive(domain.columns.arrays)
    weights = np.ones(len(wrong)) if domain.weights is None else domain.weights
    return KnownError(float(weights[wrong].sum() / weights.sum()), "exactly")


def _wrong(strategy: str, learned: Mapping[str, Any], columns: Columns, rule: Concept) -> int:
    return int((_positive(strategy, learned, columns) != rule.positive(columns.arrays)).sum())


def _positive(strategy: str, learned: Mapping[str, Any], columns: Columns) -> Truths:
    return hypotheses.predict(strategy, learned, columns) == 1


def _on_rows(strategy: str, learned: Mapping[str, Any], population: Population, asked: int) -> KnownError:
    """On the rows that are left; where there are none, on all: then it is the error on these rows and on no others."""
    field, size = population.schema.label, population.size
    if field is None or size is None:
        return UNKNOWN
    rest = range(asked, size) if asked < size else range(size)
    wrong = 0
    for some in _runs(rest):
        columns = population.columns(some)
        wrong += int((_positive(strategy, learned, columns) != (columns[field.name] == 1)).sum())
    return _measured(wrong, len(rest)) if asked < size else KnownError(wrong / size, "exactly")


def _measured(wrong: int, count: int) -> KnownError:
    low, high = clopper_pearson(np.array([wrong]), count, CONFIDENCE)
    return KnownError(wrong / count, "measured", (float(low[0]), float(high[0])))


def _runs(users: range) -> Iterator[range]:
    for begin in range(users.start, users.stop, _CHUNK):
        yield range(begin, min(begin + _CHUNK, users.stop))
