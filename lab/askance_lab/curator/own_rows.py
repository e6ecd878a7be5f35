"""Rows of a user's own table as databases: a column of numbers, or bits made of all columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from askance_client.population import Population
from askance_lab.curator.databases import BitSample, LabelledSample
from askance_lab.data import features
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.schema import IntegerField, RealField

Database_co = TypeVar("Database_co", covariant=True)


@dataclass(frozen=True, slots=True)
class OwnRows(Generic[Database_co]):
    """All rows of a table, with a reader for some of them."""

    columns: Columns
    read: Callable[[Columns], Database_co]
    features: tuple[str, ...] = ()
    """What each bit stands for."""
    number: Callable[[int], str] = str
    """A number as it stands in the table."""


def bit_rows(rows: Population, read: Callable[[Columns], BitSample], *, opposites: bool = False) -> OwnRows[BitSample]:
    """Rows as bits: categories and cuts of numbers (`data.features`), and their opposites if asked for."""
    made = features.bits(rows, opposites=opposites)
    return OwnRows(_all(made), read, tuple(feature.name for feature in made.features))


def number_rows(rows: Population, column: str | None) -> OwnRows[LabelledSample]:
    """Rows as whole numbers: a column's values less its least, in as many bits as its range needs."""
    field, label = _number_field(rows, column), rows.schema.label
    width = max(1, (field.most - field.least).bit_length())

    def read(columns: Columns) -> LabelledSample:
        values: list[int] = (columns[field.name].astype(np.int64) - field.least).tolist()
        positive = np.ones(len(columns), np.bool) if label is None else columns[label.name] == 1
        return LabelledSample.of(width, values, positive.tolist())

    return OwnRows(_all(rows), read, number=lambda value: f"{field.show(value + field.least)}")


def _all(rows: Population) -> Columns:
    return rows.columns(range(rows.size or 0))


def _number_field(rows: Population, column: str | None) -> IntegerField | RealField:
    numbers = [field for field in rows.schema.fields if isinstance(field, IntegerField | RealField)]
    chosen = [field for field in numbers if column in (None, field.name)]
    if len(chosen) != 1:
        names = ", ".join(field.name for field in numbers) or "this table has none"
        raise ProtocolError("names no one column of numbers", where="--column", remedy=f"give one of: {names}")
    if chosen[0].gap:
        # A gap is held as one more than the largest number, which is no point of the domain.
        what = f"may have gaps, and a gap of {chosen[0].name!r} is no number"
        raise ProtocolError(what, where="--column", remedy="say what a gap counts as: --missing VALUE")
    return chosen[0]
