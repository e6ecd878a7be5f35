"""The interface of engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Protocol, Self, TypeVar

from askance_protocol.errors import AskanceError

T = TypeVar("T")
Task = TypeVar("Task")

IN_FLIGHT: Final = 4
"""Tasks that are sent ahead for each worker: enough that none waits for its next one, few enough that memory and what a
killed worker loses stay small, however many tasks there are."""
ATTEMPTS: Final = 3
"""Workers that may end during one task, before it is taken for the reason."""


class LostWorkerError(AskanceError):
    """Workers end during a task, again and again."""

    @classmethod
    def again_and_again(cls) -> LostWorkerError:
        """The error for a task that no worker has survived."""
        remedy = "it may have run out of memory: use fewer"
        return cls(f"ended {ATTEMPTS} times before a task was done", where="a worker process", remedy=remedy)


class Engine(Protocol):
    """Maps a function over tasks."""

    def __call__(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterable[T]:
        """Results in the order of the tasks."""
        ...


class WorkerPool(ABC):
    """An engine with a number of workers, which start once and serve until it is closed."""

    has_clusters = False
    """Whether it is built with the address of a cluster, besides."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    @abstractmethod
    def completed(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterator[tuple[int, T]]:
        """Results as they complete, each with the index of its task. Leaving early drops tasks not yet begun."""

    @abstractmethod
    def close(self) -> None:
        """Close the workers, if any were started."""

    def __call__(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterator[T]:
        """Results in the order of the tasks, each as soon as it and all earlier ones are done."""
        early: dict[int, T] = {}
        due = 0
        for index, result in self.completed(function, tasks):
            early[index] = result
            while due in early:
                yield early.pop(due)
                due += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
