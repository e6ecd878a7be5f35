"""The exact law of a feature of made-up users, in integers: what its `draw` gives, without drawing.

A feature that has one says it by `law`. What reads it picks the classes of users that it cannot tell apart, each with
an exact weight; so the tallies of any number of users are drawn in one go (`askance_lab.counted_study`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from askance_protocol.examples import Column
from askance_protocol.schema import AnyField, BitsField


@dataclass(frozen=True, slots=True)
class BitsOfOne:
    """Independent bits: bit j is 1 with chance ones[j]/of."""

    weight: int
    """How likely it is that a user has these, among all that a law is mixed of."""
    ones: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BitsLaw:
    """Bits that are independent, or a mixture of some that are."""

    field: BitsField
    of: int
    """What all chances of a 1 are parts of."""
    mixed: tuple[BitsOfOne, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListedLaw:
    """Values that are listed, each with its weight."""

    columns: Mapping[str, Column]
    weights: tuple[int, ...]


@runtime_checkable
class HasLaw(Protocol):
    """A feature that says its law."""

    @property
    def fields(self) -> tuple[AnyField, ...]:
        """The fields that are drawn."""
        ...

    def law(self, read: Collection[str]) -> BitsLaw | ListedLaw:
        """The law of the fields that are read, by their names; of others nothing has to be said."""
        ...
