"""Dask: its synchronous scheduler for one worker, its scheduler of processes for several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from askance_lab.engines.shared.pool import ProcessPool
from askance_lab.engines.shared.workers import WorkerPool
from askance_protocol.errors import MissingExtraError

T = TypeVar("T")
Task = TypeVar("Task")


class Dask(WorkerPool):
    """Engine that runs graphs of tasks, each with as many tasks as there are workers."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._pool = ProcessPool(workers)

    def completed(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterator[tuple[int, T]]:
        """Results graph by graph: Dask returns those of a graph when all of it is done."""
        compute, delayed = _dask()
        for begin in range(0, len(tasks), self.workers):
            some = tasks[begin : begin + self.workers]
            # A task is passed as one opaque value: Dask would look into containers for more tasks.
            graph = [delayed(function, pure=False)(task) for task in some]
            yield from enumerate(compute(*graph, **self._scheduler()), begin)

    def _scheduler(self) -> dict[str, Any]:
        if self.workers == 1:
            return {"scheduler": "synchronous"}
        return {"scheduler": "processes", "pool": self._pool.executor, "chunksize": 1}

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()


def _dask() -> tuple[Any, Any]:
    try:
        import dask  # noqa: PLC0415 - belongs to an extra, and is slow to load
    except ImportError:
        raise MissingExtraError.of("dask", "dask") from None
    untyped: Any = dask
    return untyped.compute, untyped.delayed


ENGINE: Final = Dask
