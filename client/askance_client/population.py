"""A population: the examples of many users, user i's as a function of i."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from askance_protocol.coins import MAX_USER
from askance_protocol.errors import UsageError
from askance_protocol.examples import Columns, Example
from askance_protocol.schema import Schema


@dataclass(frozen=True, eq=False)
class Population(ABC):
    """The users who take part, and their examples: the same at every time and in every batch."""

    name: str
    schema: Schema
    size: int | None
    """Number of users; None: as many as there are user numbers."""
    truth: Mapping[str, object]
    """What a learner should find, as JSON; empty if that is unknown."""
    summary: str
    """A description for people."""

    @abstractmethod
    def columns(self, users: range) -> Columns:
        """Make or read the examples of these users."""

    def some(self, users: range, rows: NDArray[np.intp]) -> Columns:
        """Make or read the examples of some of a run of users, by their places in it, which are in order."""
        columns = self.columns(users)
        return columns if len(rows) == len(users) else columns.take(rows)

    def example(self, user: int) -> Example:
        """Make or read the example of one user: as columns of one, so that both are computed in the same way."""
        return self.columns(range(user, user + 1)).example(0)

    def check(self, users: range) -> None:
        """Refuse user numbers that are not a run of this population's users."""
        end = MAX_USER if self.size is None else self.size
        if users.step != 1 or not 0 <= users.start <= users.stop <= end:
            raise UsageError(
                "are not a run of users of this population", where="users", remedy=f"number users from 0 to {end - 1}"
            )
