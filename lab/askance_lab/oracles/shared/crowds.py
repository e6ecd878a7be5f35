"""The users that an oracle can ask: those of a population, each once, or users drawn from a known distribution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from askance_client.population import Population
from askance_lab.evaluation.weighted import WeightedExamples
from askance_protocol.errors import ProtocolError
from askance_protocol.schema import Schema
from askance_protocol.text import are, counted
from askance_server.core.planning import TooFewUsersError

_CHUNK: Final = 1 << 17


class Crowd(ABC):
    """Fresh users, one portion after another: "a previously unused portion of the database" (KLNRS11, Thm 5.7)."""

    asked: int = 0

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """Schema of their examples."""

    @property
    @abstractmethod
    def left(self) -> int:
        """Number of users who have not been asked yet."""

    def take(self, count: int) -> Iterator[WeightedExamples]:
        """Examples of the next users, in chunks."""
        if not 0 < count <= self.left:
            what = f"needs {counted(count, 'user')} not asked before" if count > 0 else "has no user for each query"
            raise TooFewUsersError(
                f"{what}, and {are(self.left)} left",
                where="round",
                remedy="give more users, or a larger epsilon or tolerance",
                needed=max(count, 1),
                available=self.left,
            )
        begin = self.asked
        self.asked += count
        return self._portion(range(begin, begin + count))

    @abstractmethod
    def _portion(self, users: range) -> Iterator[WeightedExamples]: ...


@dataclass(slots=True)
class People(Crowd):
    """The first `users` of a population. A file's rows come in their order: shuffle a sorted file."""

    population: Population
    users: int
    asked: int = 0

    def __post_init__(self) -> None:
        check_size(self.population, self.users)

    @property
    def schema(self) -> Schema:
        """Schema of the population."""
        return self.population.schema

    @property
    def left(self) -> int:
        """Number of users not asked yet; each is asked once."""
        return self.users - self.asked

    def _portion(self, users: range) -> Iterator[WeightedExamples]:
        for begin in range(users.start, users.stop, _CHUNK):
            yield WeightedExamples(self.population.columns(range(begin, min(begin + _CHUNK, users.stop))))


@dataclass(slots=True)
class Drawn(Crowd):
    """Any number of users drawn from a distribution: one multinomial draw counts how many hold each example.

    The distribution of every histogram is exactly that of so many independent users, at a cost that does not depend on
    how many they are: for the sample sizes of the papers' theorems, which no machine would go through one by one.
    """

    examples: WeightedExamples
    seed: int
    users: int = 1 << 48
    asked: int = 0
    _source: np.random.Generator = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._source = np.random.default_rng([self.seed, 2])

    @property
    def schema(self) -> Schema:
        """Schema of the distribution."""
        return self.examples.columns.schema

    @property
    def left(self) -> int:
        """Number of users that may still be drawn."""
        return self.users - self.asked

    def _portion(self, users: range) -> Iterator[WeightedExamples]:
        count = len(self.examples.columns)
        weights = np.full(count, 1 / count) if self.examples.weights is None else self.examples.weights
        yield WeightedExamples(self.examples.columns, self._source.multinomial(len(users), weights / weights.sum()))


def check_size(population: Population, users: int) -> None:
    """Refuse more users than there are."""
    if users < 1 or (population.size is not None and users > population.size):
        raise ProtocolError(
            f"{users} is not from 1 to {population.size or 'as many as there are'}",
            where="users",
            remedy="a file has a user in each row, and each is asked once",
        )
