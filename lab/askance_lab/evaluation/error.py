"""The error of a hypothesis: by formula or over all points where possible, else on fresh examples.

Error is disagreement with the concept itself, not with noisy labels (KLNRS11, Def. 2.4). Users who were made up have a
concept, and there are always more of them: a hypothesis is measured on some whom no oracle has asked. A table has
labels only, and the rows that were kept from the learner: where none were, nobody knows how wrong it is on others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from askance_client.population import Population
from askance_client.simulation.population import Synthetic
from askance_client.simulation.population.features import BitsFeature
from askance_lab.evaluation.domain import domain_of, is_listed
from askance_lab.evaluation.exact import exact_error
from askance_lab.evaluation.proportion import CONFIDENCE, Proportion
from askance_protocol.arrays import Truths
from askance_protocol.concepts import Concept
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.schema import BitsField
from askance_server.core.strategy import Learnt, Strategy

FRESH: Final = 1 << 18
"""Number of fresh examples that an error is measured on."""
_FIRST: Final = 1 << 40
"""The number of the first of them: no run asks so many users."""
_CHUNK: Final = 1 << 16

Predicted = Callable[[Columns], Truths]
"""Which examples a hypothesis labels +1."""


@dataclass(frozen=True, slots=True)
class KnownError:
    """Share of wrongly labelled examples, or the error of an estimate; None means unknown."""

    value: float | None
    known: Literal["exactly", "held-out"] | None
    """By the distribution itself, or on examples that nothing was learned from."""
    interval: tuple[float, float] | None = None
    """Where wrong labels were counted on what was held out: Clopper and Pearson's, with confidence 0.95."""
    why: str = ""
    """Why it is unknown, where that can be helped."""


UNKNOWN: Final = KnownError(None, None)
ALL_ROWS_ASKED: Final = KnownError(None, None, why="every row was learned from: hold some out, by fewer --users")
"""On rows that it was learned from a hypothesis is right more often than on those that its users will meet."""


def error_of(strategy: Strategy, learned: Learnt, population: Population, asked: int = 0) -> KnownError:
    """Error of what a strategy learned from the first `asked` rows of a table, or from made-up users."""
    if not learned:
        return UNKNOWN
    exact = exact_error(strategy, learned, population.truth, uniform=_is_uniform(population))
    if exact is not None:
        return KnownError(exact, "exactly")
    if strategy.predict is not None:
        predict = strategy.predict
        return _of_labels(lambda columns: predict(learned, columns), population, asked)
    return _of_cost(strategy, learned, population)


def error_on(strategy: Strategy, learned: Learnt, columns: Columns, confidence: float = CONFIDENCE) -> KnownError:
    """Error on labelled examples that the hypothesis was not learned from, with its interval."""
    label = columns.schema.label
    if strategy.predict is None or label is None or not len(columns):
        raise ProtocolError("are not labelled examples", where="columns", remedy="give some, each with its label")
    wrong = int((strategy.predict(learned, columns) != (columns[label.name] == 1)).sum())
    return _measured(wrong, len(columns), confidence)


def _is_uniform(population: Population) -> bool:
    """Whether all bits of the examples are fair, as the formulas assume."""
    features = population.features if isinstance(population, Synthetic) else ()
    return all(
        isinstance(feature, BitsFeature) and feature.digits == (True,)
        for feature in features
        if any(isinstance(field, BitsField) for field in feature.fields)
    )


def _of_labels(predicted: Predicted, population: Population, asked: int) -> KnownError:
    """Share of wrong labels."""
    if not isinstance(population, Synthetic):
        return _on_rows(predicted, population, asked)
    concept = None if population.labelling is None else population.labelling.rule
    return UNKNOWN if concept is None else _on_concept(predicted, population, concept)


def _of_cost(strategy: Strategy, learned: Learnt, population: Population) -> KnownError:
    """Cost of a hypothesis on fresh examples, less that of the truth."""
    if strategy.cost is None or not population.truth or population.size is not None:
        return UNKNOWN
    columns = population.columns(range(_FIRST, _FIRST + _CHUNK))
    more = strategy.cost(learned, columns) - strategy.cost(population.truth, columns)
    return KnownError(max(0.0, more), "held-out")


def _on_concept(predicted: Predicted, population: Synthetic, concept: Concept) -> KnownError:
    if not is_listed(population):
        fresh = range(_FIRST, _FIRST + FRESH)
        return _measured(sum(_wrong(predicted, population.columns(some), concept) for some in _runs(fresh)), len(fresh))
    domain = domain_of(population)
    wrong = predicted(domain.columns) != concept.positive(domain.columns.arrays)
    weights = np.ones(len(wrong)) if domain.weights is None else domain.weights
    return KnownError(float(weights[wrong].sum() / weights.sum()), "exactly")


def _wrong(predicted: Predicted, columns: Columns, concept: Concept) -> int:
    return int((predicted(columns) != concept.positive(columns.arrays)).sum())


def _on_rows(predicted: Predicted, population: Population, asked: int) -> KnownError:
    """Error on the rows that were not learned from; unknown if there are none."""
    field, size = population.schema.label, population.size
    if field is None or size is None:
        return UNKNOWN
    if asked >= size:
        return ALL_ROWS_ASKED
    rest, wrong = range(asked, size), 0
    for some in _runs(rest):
        columns = population.columns(some)
        wrong += int((predicted(columns) != (columns[field.name] == 1)).sum())
    return _measured(wrong, len(rest))


def _measured(wrong: int, count: int, confidence: float = CONFIDENCE) -> KnownError:
    share = Proportion(wrong, count, confidence)
    return KnownError(share.rate, "held-out", share.interval)


def _runs(users: range) -> Iterator[range]:
    for begin in range(users.start, users.stop, _CHUNK):
        yield range(begin, min(begin + _CHUNK, users.stop))
