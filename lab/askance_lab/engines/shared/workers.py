"""The interface of engines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, Self, TypeVar

T = TypeVar("T")
Task = TypeVar("Task")


class Engine(Protocol):
    """Maps a function of a module over tasks."""

    def __call__(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterable[T]:
        """Results in the order of the tasks."""
        ...


class WorkerPool(ABC):
    """An engine with a number of workers, which start once and serve until it is closed."""

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
