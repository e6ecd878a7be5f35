"""Processes that start in milliseconds and are killed at a chosen place.

Theory of operation
-------------------
*Fork server.* Loading what a server or a client is made of takes a second. So one program loads everything once, calls
`serve_forks`, and forks for each start: the child opens its files from disk as after any other start, and runs until it
is killed. `ForkServer` is its other end, in the process of the test.

*Ways to kill.* At once (starting), at a random time under load (blind), where a mark was seen (caught) or where the
process waits at one of its points (held). A process that is caught is stopped first and looked at again: on a busy
machine the place is often left by then, and the process goes on until the next time. All choices come from seeded
generators; nothing goes by the clock but `SECONDS`, after which what is awaited is stuck.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import random
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.harness.marks import SECONDS

TRIES: Final = 300
"""How often a process is stopped in order to catch it; then it is killed where it is, and counted so."""

Condition = Callable[[], bool]

# ------------------------------------------------------------------------------------------------------- in the program


def serve_forks(run: Callable[[str], None]) -> None:
    """Carry out the commands of standard input: `start ORDER` prints a process id, `reap PID` an exit code."""
    gc.freeze()  # Else each child would copy what it never changes.
    children: set[int] = set()
    try:
        for line in sys.stdin:
            command, _, rest = line.rstrip("\n").partition(" ")
            if command == "start":
                pid = os.fork()
                if not pid:
                    _run_child(run, rest)
                children.add(pid)
                print(pid, flush=True)
            else:
                _, status = os.waitpid(int(rest), 0)
                children.remove(int(rest))
                print(os.waitstatus_to_exitcode(status), flush=True)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _run_child(run: Callable[[str], None], order: str) -> None:
    # No child outlives the program: PR_SET_PDEATHSIG.
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    code = 1
    try:
        run(order)
        code = 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    finally:
        os._exit(code)


# ---------------------------------------------------------------------------------------------------------- in the test


@dataclass(frozen=True, slots=True)
class ForkServer:
    """The program at work."""

    process: asyncio.subprocess.Process
    log: Path
    """What the program and its children write."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls, module: str, *arguments: str, log: Path, pass_fds: Sequence[int] = ()
    ) -> AsyncGenerator[ForkServer]:
        """Run a module that calls `serve_forks`; at the end it is gone, and its children with it."""
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=environment,
                pass_fds=pass_fds,
            )
        try:
            yield cls(process, log)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                await asyncio.wait_for(process.wait(), SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()

    async def start(self, order: str) -> int:
        """Fork a child that carries out the order; its process id."""
        return await self._ask(f"start {order}")

    async def kill(self, pid: int) -> int:
        """Send SIGKILL; the exit code, which is another one if the child had ended by itself."""
        os.kill(pid, signal.SIGKILL)
        return await self.reap(pid)

    async def reap(self, pid: int) -> int:
        """Wait for the end of a child; its exit code."""
        return await self._ask(f"reap {pid}")

    async def _ask(self, command: str) -> int:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{command}\n".encode())
        answer = await asyncio.wait_for(stdout.readline(), SECONDS)
        assert answer, f"the fork server is gone: see {self.log}"
        return int(answer)


@dataclass
class Deck:
    """The ways to kill, dealt like cards: of as many kills as there are cards, each card's share is exact."""

    cards: Sequence[str]
    dice: random.Random
    _left: list[str] = field(default_factory=list[str])

    def deal(self) -> str:
        """The next way to kill."""
        self._left = self._left or self.dice.sample(self.cards, len(self.cards))
        return self._left.pop()


def state_of(pid: int) -> str:
    """The state of a process as Linux gives it: T is stopped, Z is dead and not yet reaped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]


def ended(pid: int) -> bool:
    """Whether a child has ended by itself."""
    return state_of(pid) == "Z"


async def until(condition: Condition, otherwise: str) -> None:
    """Wait for something that has to come."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, f"stuck: {otherwise}"
        await asyncio.sleep(0.001)


async def catch(pid: int, sight: Callable[[], Condition], inside: Condition) -> None:
    """Stop a process inside of something. `sight` gives what to look for, each time."""
    for _ in range(TRIES):
        if _seen(sight()):
            os.kill(pid, signal.SIGSTOP)
            await until(lambda: state_of(pid) in "TZ", f"process {pid} does not stop")
            if inside() or ended(pid):
                return
            os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(0.001)
        if ended(pid):
            return


def _seen(condition: Condition) -> bool:
    """Look without a pause, for a moment: a transaction is over sooner than a task that sleeps wakes up."""
    end = time.monotonic() + 0.003
    while time.monotonic() < end:
        if condition():
            return True
    return False
