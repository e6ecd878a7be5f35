"""The pool of worker processes: started by spawn at first use, kept until closed, and replaced where one is killed.

The executor's queue is for whichever process is free. So a process is not sent the function before its tasks: the first
tasks bring it along, and a process that gets another one without knowing the function says so, and is sent it then.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from enum import Enum
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")
Task = TypeVar("Task")

_KEPT: Final = 4
"""Functions that a process remembers."""


class Unknown(Enum):
    """What a process answers which does not know the function."""

    FUNCTION = "function"


class SentFunction(Generic[Task, T]):
    """A function, with all that it carries, as the processes of a pool get to know it: pickled once."""

    def __init__(self, function: Callable[[Task], T]) -> None:
        self.name = uuid.uuid4().hex
        self.packed = pickle.dumps(function, pickle.HIGHEST_PROTOCOL)


class ProcessPool:
    """Worker processes that start with the first tasks and are then kept."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._executor: ProcessPoolExecutor | None = None

    def submit(self, function: SentFunction[Task, T], task: Task, *, known: bool) -> Future[T | Unknown]:
        """Let a process do a task; if it may not know the function, that is sent along."""
        packed = None if known else function.packed
        try:
            return self._running().submit(_done, function.name, packed, task)
        except BrokenProcessPool:
            # A process has ended since, and with it all of them.
            self.close()
            return self._running().submit(_done, function.name, function.packed, task)

    def _running(self) -> ProcessPoolExecutor:
        if self._executor is None:
            # Spawn, because a fork would copy locks that other threads of this process may hold.
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(self.workers, context, initializer=_end_with_the_parent)
        return self._executor

    def close(self) -> None:
        """Drop the tasks that have not begun, wait for the others, then end the processes."""
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)
            self._executor = None


# ------------------------------------------------------------------------------------------------------ in a process

_known: OrderedDict[str, Callable[[Any], Any]] = OrderedDict()


def _done(name: str, packed: bytes | None, task: Any) -> Any:
    if name not in _known:
        if packed is None:
            return Unknown.FUNCTION
        _known[name] = pickle.loads(packed)  # noqa: S301 - from the process that started this one
        while len(_known) > _KEPT:
            _known.popitem(last=False)
    return _known[name](task)


def _end_with_the_parent() -> None:
    """Let Ctrl-C end a worker without a traceback, and let no worker outlive the process that it works for."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_wait_for_the_parent, daemon=True).start()


def _wait_for_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # the thread that works may be in the middle of a long task
