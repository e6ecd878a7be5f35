"""The local engine: one worker is this process itself, several are processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Final, TypeVar

from askance_lab.engines.shared.pool import ProcessPool
from askance_lab.engines.shared.workers import WorkerPool
from askance_protocol.errors import AskanceError

T = TypeVar("T")
Task = TypeVar("Task")


class LostWorkerError(AskanceError):
    """A worker process ended before its task did."""


class Local(WorkerPool):
    """Engine that uses this process, or a pool of processes."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._pool = ProcessPool(workers)

    def completed(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterator[tuple[int, T]]:
        """Results in order in this process, or as the pool completes them."""
        if self.workers == 1 or len(tasks) == 1:
            yield from enumerate(map(function, tasks))
            return
        waiting = {self._pool.executor.submit(function, task): index for index, task in enumerate(tasks)}
        try:
            for future in as_completed(waiting):
                yield waiting.pop(future), future.result()
        except BrokenProcessPool:
            self.close()
            raise LostWorkerError(
                "ended before its task did", where="a worker process", remedy="it may have run out of memory: use fewer"
            ) from None
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()


ENGINE: Final = Local
