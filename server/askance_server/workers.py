"""Threads for whatever would hold the event loop up.

Theory of operation
-------------------
One event loop answers all requests. What runs on it is short and waits for nothing; what talks to the ledger, plans a
round, counts reports or writes a large document is *work*: a function without arguments, which a thread of `Workers`
does while the loop goes on. Its result or its error comes back to the loop.

That several works run at once loses nothing: what they change is in the ledger, which takes calls from all threads and
refuses an entry that does not follow on the last one.

The threads are daemons. A process that is told to stop waits for none of them: not for a database that does not answer,
not for a plan that takes minutes. What they had not yet committed was acknowledged to nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

_Job: TypeAlias = tuple[Callable[[], Any], asyncio.Future[Any]]


class Workers:
    """A few threads that do work for the event loop on which they were made."""

    def __init__(self, name: str, threads: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._work, name=f"askance-{name}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[[], T]) -> T:
        """Do this work in one of the threads. Work that nobody waits for any more is not begun."""
        return await self.begin(work)

    def begin(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Hand the work over; its result, or its error, to come. As much may wait as there are connections."""
        done: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((work, done))
        return done

    def end(self) -> None:
        """Let each thread end when it has done what was handed over so far."""
        for _ in self._threads:
            self._jobs.put(None)

    def _work(self) -> None:
        # Whatever is raised anywhere in here, a thread that ends would leave one waiting, and others later.
        held: list[_Job | None] = []
        while held != [None]:
            try:
                self._work_on(held)
            except BaseException as error:
                while held and (job := held[-1]) is not None:
                    self._tell(job[1], None, error)
                    del held[-1], job

    def _work_on(self, held: list[_Job | None]) -> None:
        """Do one job after the other, until one is none. The one at hand is in `held` from the moment it is taken."""
        while True:
            held[:] = [self._jobs.get()]
            if held[0] is None:
                return
            work, done = held[0]
            if not done.cancelled():
                self._tell(done, work(), None)
            # Else the last work, its document and its error would stay in memory until the next one.
            del work, done
            held.clear()

    def _tell(self, done: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
        # A loop that was closed meanwhile waits for nothing.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_settle, done, result, error)


def _settle(done: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    try:
        if done.done():
            return
        if error is None:
            done.set_result(result)
        else:
            done.set_exception(carried(error))
    except BaseException as raised:
        if not done.done():
            done.set_exception(carried(raised))


def carried(error: BaseException) -> Exception:
    """An error as a future takes it: not what it cannot carry, nor what would end the loop, as SystemExit does."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration | asyncio.CancelledError):
        return error
    raised = RuntimeError(f"the work raised {type(error).__name__}")
    raised.__cause__ = error
    return raised
