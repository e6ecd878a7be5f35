"""Whom `askance curator` is about: made-up examples of a class, or the rows of one's own table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from askance_client.population import Population
from askance_client.tables import from_file
from askance_lab.curator.databases import BitSample, LabelledSample, Truths, packed
from askance_lab.data import features as table
from askance_lab.data.problems import PROBLEMS
from askance_lab.experiments.landscape.learners import as_parity, labelled_one
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.schema import BitsField, IntegerField, RealField

KEPT: Final = 5
"""Of so many rows of a table one is kept from the learner, to measure the error on."""


class ConceptClass(Enum):
    """What is learned, and so what a database looks like."""

    PARITY = "PARITY"
    MASKED_PARITY = "MASKED-PARITY"
    CONJUNCTION = "conjunctions"
    POINT = "POINT"
    INTERVAL = "INTERVAL"

    @property
    def numbers(self) -> bool:
        """Examples are whole numbers, else bits."""
        return self in (ConceptClass.POINT, ConceptClass.INTERVAL)


@dataclass(frozen=True, slots=True)
class MechanismInput:
    """A database, and how wrong a hypothesis is that was learned from it."""

    database: Any
    error: Callable[[Any], float | None]
    fresh: int = 0
    """On so many rows that were kept from the learner; 0: exactly, of made-up examples."""
    features: tuple[str, ...] = ()
    """What the bits of a table stand for."""
    show: Callable[[int], str] = str
    """A number as it stands in the table."""


def made_up(kind: ConceptClass, d: int, alpha: float, users: int, seed: int) -> MechanismInput:
    """Examples on which α matters: `landscape.problems`."""
    made = PROBLEMS[kind.value](d, alpha, users, seed)
    match kind:
        case ConceptClass.PARITY:
            return MechanismInput(made.bits(), made.error)
        case ConceptClass.MASKED_PARITY:
            return MechanismInput(as_parity(made), made.error)
        case ConceptClass.CONJUNCTION:
            return MechanismInput(labelled_one(made), made.error)
        case ConceptClass.POINT | ConceptClass.INTERVAL:
            return MechanismInput(made.sample(), made.error)


def own(
    path: Path, label: str | None, column: str | None, kind: ConceptClass, seed: int, *, labelled: bool
) -> MechanismInput:
    """The rows of a file, in an order of the seed's; of labelled ones, one of five is kept to measure the error on."""
    if labelled and label is None:
        raise ProtocolError("is missing", where="--label", remedy="name the column that is to be learned")
    if kind is ConceptClass.MASKED_PARITY:
        raise ProtocolError("is not learned from tables", where="--data", remedy="leave it out, or use another name")
    rows = from_file(path, label=label)
    featured = None if kind.numbers else table.bits(rows, opposites=kind is ConceptClass.CONJUNCTION)
    columns = (featured or rows).columns(range(rows.size or 0))
    order = np.random.default_rng([seed, 5]).permutation(len(columns))
    held = len(columns) // KEPT if labelled else 0
    if labelled and not held:
        raise ProtocolError("has too few rows", where=str(path), remedy=f"give {KEPT} at least")
    read = _numbers(rows, column) if featured is None else _bits(kind)
    fresh = read(columns.take(order[:held])) if held else None
    features = () if featured is None else tuple(feature.name for feature in featured.features)
    show = _shown(_field(rows, column)) if featured is None else str
    return MechanismInput(
        read(columns.take(order[held:])), lambda found: _wrong(kind, found, fresh), held, features, show
    )


def _bits(kind: ConceptClass) -> Callable[[Columns], BitSample]:
    def read(columns: Columns) -> BitSample:
        [width] = [field.width for field in columns.schema.fields if isinstance(field, BitsField)]
        words = np.ascontiguousarray(columns["x"].view(np.uint64).T)
        positive = columns["y"] == 1
        return BitSample(width, words, ~positive if kind is ConceptClass.PARITY else positive)

    return read


def _numbers(rows: Population, column: str | None) -> Callable[[Columns], LabelledSample]:
    """A column of numbers, from its least as 0: of as many bits as its range takes."""
    field, label = _field(rows, column), rows.schema.label
    width = max(1, (field.most - field.least).bit_length())

    def read(columns: Columns) -> LabelledSample:
        values: list[int] = (columns[field.name].astype(np.int64) - field.least).tolist()
        positive = np.ones(len(columns), np.bool) if label is None else columns[label.name] == 1
        return LabelledSample.of(width, values, positive.tolist())

    return read


def _shown(field: IntegerField | RealField) -> Callable[[int], str]:
    return lambda value: f"{field.show(value + field.least)}"


def _field(rows: Population, column: str | None) -> IntegerField | RealField:
    numbers = [field for field in rows.schema.fields if isinstance(field, IntegerField | RealField)]
    chosen = [field for field in numbers if column in (None, field.name)]
    if len(chosen) != 1:
        names = ", ".join(field.name for field in numbers) or "this table has none"
        raise ProtocolError("names no one column of numbers", where="--column", remedy=f"give one of: {names}")
    return chosen[0]


def _wrong(kind: ConceptClass, found: Any, fresh: Any) -> float | None:
    """The share of fresh rows that are labelled wrongly. ⊥ labels none."""
    if found is None or fresh is None:
        return None
    labels: Truths = np.array(fresh.labels, np.bool)
    return float(np.mean(says(kind, found, fresh) ^ labels))


def says(kind: ConceptClass, found: Any, database: Any) -> Truths:
    """The label that a hypothesis gives to each example."""
    match kind:
        case ConceptClass.POINT:
            return np.array([x == found for x in database.points])
        case ConceptClass.INTERVAL:
            return np.array([x < found for x in database.points])
        case ConceptClass.CONJUNCTION:
            wanted = _mask(found, database)
            return (database.words & wanted == wanted).all(axis=1)
        case ConceptClass.PARITY | ConceptClass.MASKED_PARITY:
            chosen = _mask(ones(database.d, found), database)
            return np.bitwise_count(database.words & chosen).sum(axis=1) % 2 == 1


def ones(d: int, r: int) -> tuple[int, ...]:
    """The places of the bits of r that are 1."""
    return tuple(i for i in range(d) if r >> i & 1)


def _mask(places: tuple[int, ...], database: BitSample) -> NDArray[np.uint64]:
    row = np.zeros((1, database.d), np.uint8)
    row[0, list(places)] = 1
    return packed(row)
