"""Where blocks of users are simulated: in this process, in several, or wherever Dask puts them.

A block's noise comes from a stream of its own, addressed by round and block, and tallies add up: whatever the engine,
the number of workers and the order, a seed gives the same numbers.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from askance_protocol.errors import ProtocolError


class EngineName(StrEnum):
    """Where users are simulated."""

    LOCAL = "local"
    DASK = "dask"


T = TypeVar("T")
Task = TypeVar("Task")


class Engine(Protocol):
    """Maps a function of a module over tasks."""

    def __call__(self, function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterable[T]:
        """The results, in the order of the tasks."""
        ...


def engine(name: EngineName = EngineName.LOCAL, workers: int = 1) -> Engine:
    """The engine of this name."""
    if not 1 <= workers <= 256:
        raise ProtocolError(f"{workers} is not from 1 to 256", where="workers")

    def local(function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterable[T]:
        if workers == 1 or len(tasks) == 1:
            return map(function, tasks)
        with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
            return list(pool.map(function, tasks))

    def dask(function: Callable[[Task], T], tasks: Sequence[Task]) -> Iterable[T]:
        compute, delayed = _dask()
        more: dict[str, Any] = {"scheduler": "synchronous"}
        if workers > 1:
            more = {"scheduler": "processes", "num_workers": workers}
        # A task is passed as one opaque value: Dask would look into containers for more tasks.
        return compute(*(delayed(function, pure=False)(task) for task in tasks), **more)

    return dask if name is EngineName.DASK else local


def _dask() -> tuple[Any, Any]:
    try:
        import dask  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        raise ProtocolError("is not installed", where="dask", remedy="pip install 'askance[dask]'") from None
    untyped: Any = dask
    return untyped.compute, untyped.delayed
