"""The pool of worker processes: started by spawn at first use, kept until closed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor


class ProcessPool:
    """Worker processes that start with the first tasks and are then kept."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._executor: ProcessPoolExecutor | None = None

    @property
    def executor(self) -> ProcessPoolExecutor:
        """Executor with running processes, started here if they are not."""
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


def _end_with_the_parent() -> None:
    """Let Ctrl-C end a worker without a traceback, and let no worker outlive the process that it works for."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_wait_for_the_parent, daemon=True).start()


def _wait_for_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # the thread that works may be in the middle of a long task
