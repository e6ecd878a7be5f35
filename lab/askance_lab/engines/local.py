"""The local engine: one worker is this process itself, several are processes of their own.

A process that is killed takes the others of its pool along. Their tasks are done again by a new pool: a task draws from
the stream that it names, so nothing comes out otherwise.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Final, TypeVar

from askance_lab.engines.shared.pool import ProcessPool, SentFunction, Unknown
from askance_lab.engines.shared.workers import ATTEMPTS, IN_FLIGHT, LostWorkerError, WorkerPool

T = TypeVar("T")
Task = TypeVar("Task")


class Local(WorkerPool):
    """Engine that uses this process, or a pool of processes."""

    def __init__(self, workers: int, cluster: str | None = None) -> None:
        super().__init__(workers, cluster)
        self._pool = ProcessPool(workers)

    def completed(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterator[tuple[int, T]]:
        """Results in order in this process, or as the pool completes them."""
        if self.workers == 1 or len(tasks) == 1:
            yield from enumerate(map(function, tasks))
            return
        sent = SentFunction(function)
        # Of each task, whether the process that gets it may be taken to know the function.
        todo = deque((index, index >= self.workers) for index in range(len(tasks)))
        waiting: dict[Future[T | Unknown], int] = {}
        lost = Counter[int]()
        try:
            while todo or waiting:
                while todo and len(waiting) < IN_FLIGHT * self.workers:
                    index, known = todo.popleft()
                    waiting[self._pool.submit(sent, tasks[index], known=known)] = index
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    index = waiting.pop(future)
                    try:
                        result = future.result()
                    except BrokenProcessPool:
                        lost[index] += 1
                        if lost[index] == ATTEMPTS:
                            raise LostWorkerError.again_and_again() from None
                        todo.appendleft((index, False))
                        continue
                    if isinstance(result, Unknown):
                        todo.appendleft((index, False))
                    else:
                        yield index, result
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()


ENGINE: Final = Local
