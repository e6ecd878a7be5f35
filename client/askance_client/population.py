"""Many users at once: user i's example, as a function of i."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from askance_protocol.coins import MAX_USER
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns, Example
from askance_protocol.schema import Schema


@dataclass(frozen=True, eq=False)
class Population(ABC):
    """Who takes part. Asked twice for a user, or in other company, it gives the same example."""

    name: str
    schema: Schema
    size: int | None
    """How many users there are; None: as many as there are user numbers."""
    truth: Mapping[str, object]
    """What a learner should find, as JSON. Empty where nobody knows."""
    summary: str
    """For a person to read."""

    @abstractmethod
    def columns(self, users: range) -> Columns:
        """The examples of these users, and of nobody else."""

    def example(self, user: int) -> Example:
        """The example of one user: the columns of one, so that both are computed in the same way."""
        return self.columns(range(user, user + 1)).example(0)

    def check(self, users: range) -> None:
        """Refuse what is not a run of this population's users."""
        end = MAX_USER if self.size is None else self.size
        if users.step != 1 or not 0 <= users.start <= users.stop <= end:
            raise ProtocolError(
                "are not a run of users of this population", where="users", remedy=f"number users from 0 to {end - 1}"
            )
