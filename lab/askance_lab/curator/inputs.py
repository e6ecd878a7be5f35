"""Inputs of `askance curator`: made-up examples, or the rows of a user's own table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic

import numpy as np

from askance_client.tables import from_file
from askance_lab.curator.concepts import Answer, Database, Names
from askance_lab.curator.mechanism import Mechanism
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns

HELD_OUT: Final = 5
"""One of this many rows of a table is kept from the learner, to measure the error on."""


@dataclass(frozen=True, slots=True)
class MechanismInput(Generic[Database, Answer]):
    """A database, and the error of a hypothesis learned from it."""

    database: Database
    error: Callable[[Answer], float | None]
    fresh: int
    """The number of rows that were kept from the learner and that the error is on; 0: it is exact."""
    names: Names


def made_up(
    mechanism: Mechanism[Database, Answer], d: int, alpha: float, users: int, seed: int
) -> MechanismInput[Database, Answer]:
    """Made-up examples on which the error α matters (`data.problems`)."""
    problem = mechanism.concepts.problem(d, alpha, users, seed)
    database = mechanism.concepts.database(problem.columns)

    def error(found: Answer) -> float:
        return problem.error(mechanism.answers.to_json(found, d))

    return MechanismInput(database, error, 0, Names())


def own(
    mechanism: Mechanism[Database, Answer], path: Path, label: str | None, column: str | None, seed: int
) -> MechanismInput[Database, Answer]:
    """Rows of a file, in an order the seed determines. For a learner, some are held out to measure the error."""
    learner, own_rows = mechanism.off is None, mechanism.concepts.own_rows
    if learner and label is None:
        raise ProtocolError("is missing", where="--label", remedy="name the column that is to be learned")
    if own_rows is None:
        raise ProtocolError("is not learned from tables", where="--data", remedy="leave it out, or use another name")
    rows = own_rows(from_file(path, label=label), column)
    order = np.random.default_rng([seed, 5]).permutation(len(rows.columns))
    held = len(order) // HELD_OUT if learner else 0
    if learner and not held:
        raise ProtocolError("has too few rows", where=str(path), remedy=f"give {HELD_OUT} at least")
    fresh, rest = rows.columns.take(order[:held]), rows.columns.take(order[held:])
    error = _error_on(mechanism, fresh, rows.read)
    return MechanismInput(rows.read(rest), error, held, Names(rows.features, rows.number))


def _error_on(
    mechanism: Mechanism[Database, Answer], fresh: Columns, read: Callable[[Columns], Database]
) -> Callable[[Answer], float | None]:
    """Share of held-out rows that are labelled wrongly."""
    labels = mechanism.answers.labels
    if labels is None or not len(fresh):
        return lambda _: None
    database = read(fresh)
    return lambda found: float(np.mean(labels(found, database) ^ np.array(database.labels, np.bool)))
