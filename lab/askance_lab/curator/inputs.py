"""Inputs of `askance curator`: made-up examples, or the rows of a user's own table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic

import numpy as np

from askance_client.population import Population
from askance_lab.curator.concepts import Answer, Database, Names
from askance_lab.curator.mechanism import Mechanism
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns

HELD_OUT: Final = 5
"""One of this many rows of a table is kept from the learner, to measure the error on."""


@dataclass(frozen=True, slots=True)
class MechanismInput(Generic[Database, Answer]):
    """A database, and how wrong a hypothesis is that was learned from it."""

    database: Database
    error: Callable[[Answer], float | None]
    """Exact error; None for real rows, and where nothing says."""
    mistakes: Callable[[Answer], int | None]
    """Number of fresh rows that are labelled wrongly: as private as the rows."""
    fresh: int
    """The number of rows that were kept from the learner; 0 for made-up examples."""
    names: Names


def made_up(
    mechanism: Mechanism[Database, Answer], d: int, alpha: float, users: int, seed: int
) -> MechanismInput[Database, Answer]:
    """Made-up examples on which the error α matters (`data.problems`)."""
    problem = mechanism.concepts.problem(d, alpha, users, seed)
    database = mechanism.concepts.database(problem.columns)

    def error(found: Answer) -> float:
        return problem.error(mechanism.answers.to_json(found, d))

    return MechanismInput(database, error, lambda _: None, 0, Names())


def own(
    mechanism: Mechanism[Database, Answer], table: Population, column: str | None, seed: int
) -> MechanismInput[Database, Answer]:
    """Rows of a table, in a public order: the seed determines it. For a learner, some are held out."""
    learner, own_rows = mechanism.off is None, mechanism.concepts.own_rows
    if learner and table.schema.label is None:
        raise ProtocolError("is missing", where="--label", remedy="name the column that is to be learned")
    if own_rows is None:
        raise ProtocolError("is not learned from tables", where="--data", remedy="leave it out, or use another name")
    rows = own_rows(table, column)
    order = np.random.default_rng([seed, 5]).permutation(len(rows.columns))
    held = len(order) // HELD_OUT if learner else 0
    if learner and not held:
        raise ProtocolError("has too few rows", where=table.name, remedy=f"give {HELD_OUT} at least")
    fresh, rest = rows.columns.take(order[:held]), rows.columns.take(order[held:])
    mistakes = _mistakes_on(mechanism, fresh, rows.read)
    return MechanismInput(rows.read(rest), lambda _: None, mistakes, held, Names(rows.features, rows.number))


def _mistakes_on(
    mechanism: Mechanism[Database, Answer], fresh: Columns, read: Callable[[Columns], Database]
) -> Callable[[Answer], int | None]:
    """Number of held-out rows that are labelled wrongly."""
    labels = mechanism.answers.labels
    if labels is None or not len(fresh):
        return lambda _: None
    database = read(fresh)
    return lambda found: int(np.sum(labels(found, database) ^ np.array(database.labels, np.bool)))
