"""What an engine is, for those who use one and for those who write one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, Self, TypeVar

T = TypeVar("T")
Task = TypeVar("Task")


class Engine(Protocol):
    """Maps a function of a module over tasks."""

    def __call__(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterable[T]:
        """The results, in the order of the tasks."""
        ...


class Workers(ABC):
    """An engine with a number of workers, which start once and serve until it is closed."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    @abstractmethod
    def completed(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterator[tuple[int, T]]:
        """Each result as soon as it is there, with the index of its task. Left early, it drops tasks not yet begun."""

    @abstractmethod
    def close(self) -> None:
        """End the workers; without effect where none were started."""

    def __call__(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterator[T]:
        """The results in the order of the tasks, each as soon as it and all before it are there."""
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
