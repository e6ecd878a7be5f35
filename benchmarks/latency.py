"""How long single reports wait for their receipts while a server has half of what it can do.

Prints one JSON object; exits 6 where a figure misses its goal. First 128 connections send as fast as they are answered:
that is all that the server can do. Then reports come at half that rate, whether or not those before have been answered,
at moments as those of strangers are (exponential gaps, from a seed), each over a connection that is free. A report's
wait counts from the moment at which it was due, so that a server which stops is not spared the reports that it kept
from being sent. Server and load have a processor each, where there are two.

Goal: of the waits the 99th percentile is at most three times the median. `--planted stalls` stops the server's process
for 30 ms, five times a second, which has to be found.

    python benchmarks/latency.py [--turns N] [--planted stalls]
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Final, cast

import numpy as np
import uvloop
from ingest import Ours, running
from loadgen import HOST, drive, request
from measuring import Figure, arguments, tell

from askance_protocol.reports import encode_report
from askance_server.auth import UserToken

USERS: Final = 200_000
FULL: Final = 16_000
SECONDS: Final = 4.0
CONNECTIONS: Final = 256
GOAL: Final = 3.0


class Waiting(asyncio.Protocol):
    """A connection with one report under way."""

    def __init__(self, free: list[Waiting], waits: list[float], over: asyncio.Event, count: int) -> None:
        self._free, self._waits, self._over, self._count = free, waits, over, count
        self._due, self._received = 0.0, b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Be there."""
        self.transport = cast("asyncio.Transport", transport)

    def send(self, due: float, report: bytes) -> None:
        """Send what was due then."""
        assert self.transport is not None  # noqa: S101 - told the type checker: it has been opened
        self._due = due
        self.transport.write(report)

    def data_received(self, data: bytes) -> None:
        """Take a receipt, and be free."""
        self._received += data
        if not self._received.endswith(b"}"):
            return
        if not self._received.startswith(b"HTTP/1.1 200"):
            raise AssertionError(self._received)
        self._received = b""
        self._waits.append(time.perf_counter() - self._due)
        self._free.append(self)
        if len(self._waits) == self._count:
            self._over.set()


async def waited(port: int, reports: Sequence[bytes], a_second: float, rng: np.random.Generator) -> list[float]:
    """Send these at this rate, come what may; the seconds that each has waited."""
    loop, free, waits, over = asyncio.get_running_loop(), list[Waiting](), list[float](), asyncio.Event()
    for _ in range(CONNECTIONS):
        made = await loop.create_connection(lambda: Waiting(free, waits, over, len(reports)), HOST, port)
        free.append(made[1])
    everybody = list(free)
    due = time.perf_counter() + 0.1 + np.cumsum(rng.exponential(1 / a_second, len(reports)))
    sent = 0
    while sent < len(reports):
        while sent < len(reports) and due[sent] <= time.perf_counter() and free:
            free.pop().send(float(due[sent]), reports[sent])
            sent += 1
        await asyncio.sleep(0)
    async with asyncio.timeout(30):
        await over.wait()
    for each in everybody:
        if each.transport is not None:
            each.transport.close()
    return waits


@contextmanager
def stalls(pid: int) -> Generator[None]:
    """Stop a process now and then."""
    over = threading.Event()

    def stop() -> None:
        while not over.wait(0.2):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.03)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def turn(ours: Ours, rng: np.random.Generator, planted: str | None) -> tuple[float, float, float]:
    """Reports a second at most; then the median wait and the 99th percentile at half of them, in milliseconds."""

    def reports(count: int) -> list[bytes]:
        study = ours.study()
        users = rng.choice(ours.users, count, replace=False).tolist()
        return [
            request(study.reports, encode_report(user & 1, 2), ours.keys.mint(UserToken(user, 0))) for user in users
        ]

    speed = drive(ours.server.port, reports(FULL), 128).speed()
    some = reports(round(SECONDS * speed / 2))
    with stalls(ours.server.pid) if planted else nullcontext(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as a:
        waits = a.run(waited(ours.server.port, some, speed / 2, rng))
    median, high = np.percentile(waits, [50, 99])
    return speed, 1000 * float(median), 1000 * float(high)


def main() -> int:
    """Measure, print, compare with the goal."""
    given = arguments(__doc__, ["stalls"], turns=5)
    with tempfile.TemporaryDirectory(prefix="askance-latency-") as folder, running(folder) as server:
        ours, rng = Ours(server, Path(folder), USERS), np.random.default_rng(1)
        if hasattr(os, "sched_setaffinity") and len(cores := sorted(os.sched_getaffinity(0))) > 1:
            os.sched_setaffinity(0, {cores[1]})
        turns = [turn(ours, rng, given.planted) for _ in range(given.turns + 1)][1:]
    speeds, medians, highs = zip(*turns, strict=True)
    figures = {
        "p99_of_the_median": Figure(tuple(high / median for _, median, high in turns), at_most=GOAL),
        "median_milliseconds": Figure(medians),
        "p99_milliseconds": Figure(highs),
        "reports_a_second_at_most": Figure(speeds),
    }
    return tell(figures, users=USERS, connections=CONNECTIONS)


if __name__ == "__main__":
    sys.exit(main())
