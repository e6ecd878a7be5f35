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

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._pool = ProcessPool(workers)

    def completed(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterator[tuple[int, T]]:
        """Results in order in this process, or as the pool completes them."""
        if self.workers == 1 or len(tasks) == 1:
            yield from enumerate(map(function, tasks))
            return
        sent = SentFunction(function)
        fresh, again = iter(range(len(tasks))), deque[int]()
        waiting: dict[Future[T | Unknown], int] = {}
        lost = Counter[int]()
        try:
            while True:
                while len(waiting) < IN_FLIGHT * self.workers and (due := _next(again, fresh)) is not None:
                    index, known = due
                    waiting[self._pool.submit(sent, tasks[index], known=known and index >= self.workers)] = index
                if not waiting:
                    return
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    index = waiting.pop(future)
                    try:
                        result = future.result()
                    except BrokenProcessPool:
                        lost[index] += 1
                        if lost[index] == ATTEMPTS:
                            raise LostWorkerError.again_and_again() from None
                        again.append(index)
                        continue
                    if isinstance(result, Unknown):
                        again.append(index)
                    else:
                        yield index, result
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Close the pool."""
        self._pool.close()


def _next(again: deque[int], fresh: Iterator[int]) -> tuple[int, bool] | None:
    """The next task, and whether the process that gets it may be taken to know the function."""
    if again:
        return again.popleft(), False
    index = next(fresh, None)
    return None if index is None else (index, True)


ENGINE: Final = Local
