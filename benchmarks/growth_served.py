"""What `growth.py` measures of servers of their own: connections, streams of events, open studies.

Where what counts is the server's work, the clock is its processor time: while it waits, it takes none.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import uvloop
from growth_curves import FLAT, LINEAR, MEMORY, Curve, with_studies
from loadgen import HOST, drive, request
from measuring import Work

from askance_lab.remote.local_server import LocalServer, local_server
from askance_protocol.reports import encode_report
from askance_server.auth import UserToken, open_keys

REQUESTS: Final = 4_000
CAP: Final = "1000"
WINDOW: Final = 1.5
"""Seconds for which streams are watched: more than one look of the server at its studies."""
LISTED: Final = 20
"""How often a list is read at a time."""
PAGE: Final = 10
"""Studies on a page of it."""


@dataclass(slots=True)
class Meter:
    """A clock that runs while it is told to."""

    seconds: float = 0.0

    def __call__(self) -> float:
        """What it shows."""
        return self.seconds

    @contextmanager
    def running(self, clock: Callable[[], float]) -> Generator[None]:
        """Count what this clock counts during a `with` block."""
        begin = clock()
        yield
        self.seconds += clock() - begin


METER: Final = Meter()


@dataclass(frozen=True, slots=True)
class Served:
    """A server process."""

    server: LocalServer

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server.url.rpartition(":")[2])

    def processor(self) -> float:
        """Seconds of a processor that it has used: the clock of another process, by its number (clock_getres(2))."""
        assert self.server.process is not None  # noqa: S101 - it was started here
        return time.clock_gettime(~self.server.process.pid << 3 | 2)

    def ask(self, method: str, path: str, body: object = None, token: str = "") -> Any:
        """One request that has to succeed."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=60)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        with contextlib.closing(connection), connection.getresponse() as response:
            text = response.read()
            if response.status >= 300:
                raise AssertionError(f"{method} {path} was answered with {response.status}: {text[:300]!r}")
            return json.loads(text)

    def study(self) -> str:
        """A new study that asks all who have enrolled; the path of its reports."""
        wanted = {"title": "growth", "strategy": "mean", "parameters": {"users": "all"}, "simulated": True}
        made = self.ask("POST", "/v1/studies", wanted, self.server.operator)
        return f"/v1/rounds/{made['rounds'][0]['id']}/reports"


@contextmanager
def served(folder: Path) -> Generator[Served]:
    """A server on another processor than this one, where there are two."""
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set[int]()
    if mine:
        # What is started has the processors of who starts it.
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - mine or mine)
    with local_server(folder, CAP) as server:
        if mine:
            os.sched_setaffinity(0, mine)
        yield Served(server)


@contextmanager
def connections() -> Generator[Callable[[int], Work]]:
    """Single reports, each acknowledged, over so many connections."""
    with TemporaryDirectory(prefix="askance-growth-", dir=MEMORY) as folder, served(Path(folder)) as server:
        # One more than report: the study stays open.
        server.ask("POST", "/v1/enrolments", {"users": REQUESTS + 1}, server.server.enrolment)
        keys = open_keys(Path(folder))
        tokens = [keys.mint(UserToken(user, 0)) for user in range(REQUESTS)]

        def work(wide: int) -> Work:
            def piece() -> None:
                path = server.study()
                posts = [request(path, encode_report(user & 1, 2), token) for user, token in enumerate(tokens)]
                load = drive(server.port, posts, wide)
                METER.seconds += REQUESTS / load.speed()

            return piece

        yield work


@contextmanager
def with_open_studies(piece: Callable[[Served], None]) -> Generator[Callable[[int], Work]]:
    """Servers with so many open studies, each of which is asked for this piece of work."""
    with TemporaryDirectory(prefix="askance-growth-", dir=MEMORY) as folder, contextlib.ExitStack() as stack:

        def work(studies: int) -> Work:
            where = Path(folder) / str(studies)
            with_studies(str(where), studies).close()
            server = stack.enter_context(served(where))
            server.ask("GET", "/v1/studies")

            def once() -> None:
                with METER.running(server.processor):
                    piece(server)

            return once

        yield work


def idle() -> contextlib.AbstractContextManager[Callable[[int], Work]]:
    """A server that nobody asks anything looks at its studies once a second."""
    return with_open_studies(lambda _: time.sleep(2))


def listed() -> contextlib.AbstractContextManager[Callable[[int], Work]]:
    """The list of studies, read whole, some times."""

    def read(server: Served) -> None:
        for _ in range(LISTED):
            server.ask("GET", "/v1/studies")

    return with_open_studies(read)


def paged() -> contextlib.AbstractContextManager[Callable[[int], Work]]:
    """A page of it."""

    def read(server: Served) -> None:
        for _ in range(LISTED):
            server.ask("GET", f"/v1/studies?limit={PAGE}")

    return with_open_studies(read)


# -------------------------------------------------------------------------------------------------------------- streams


@contextmanager
def streams() -> Generator[Callable[[int], Work]]:
    """A study that so many browsers follow, while a report comes every tenth of a second."""
    with TemporaryDirectory(prefix="askance-growth-", dir=MEMORY) as folder, served(Path(folder)) as server:
        server.ask("POST", "/v1/enrolments", {"users": 100_000}, server.server.enrolment)
        keys, path = open_keys(Path(folder)), server.study()
        study = server.ask("GET", "/v1/studies")[0]["id"]
        users = count()

        def reports() -> Iterator[bytes]:
            for user in users:
                yield request(path, encode_report(user & 1, 2), keys.mint(UserToken(user, 0)))

        def work(wide: int) -> Work:
            def piece() -> None:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(_followed(server, study, wide, reports()))

            return piece

        yield work


async def _followed(server: Served, study: str, wide: int, reports: Iterator[bytes]) -> None:
    asked = f"GET /v1/studies/{study}/events HTTP/1.1\r\nHost: {HOST}\r\nAccept: text/event-stream\r\n\r\n".encode()
    heard = [0] * wide

    async def follow(number: int) -> None:
        reader, writer = await asyncio.open_connection(HOST, server.port)
        try:
            writer.write(asked)
            while piece := await reader.read(1 << 16):
                heard[number] += piece.count(b"event: received")
        finally:
            writer.close()

    tasks = [asyncio.create_task(follow(number)) for number in range(wide)]
    try:
        async with asyncio.timeout(30):
            while not all(heard):
                await asyncio.sleep(0.05)
        before = sum(heard)
        reader, writer = await asyncio.open_connection(HOST, server.port)
        with METER.running(server.processor):
            for _ in range(round(10 * WINDOW)):
                writer.write(next(reports))
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0]))
                await asyncio.sleep(0.1)
        writer.close()
        if sum(heard) < before + wide // 2:
            raise AssertionError(f"{wide} streams heard {sum(heard) - before} events")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


SERVED: Final = (
    Curve(
        "studies-waiting",
        "studies",
        (10, 100, 1000),
        "what a server computes in two seconds in which nothing comes, with so many open studies",
        LINEAR,
        "once a second, whether one of them may go on",
        idle,
        budget=60.0,
        clock=METER,
        least=0.0,
        most_turns=3,
    ),
    Curve(
        "studies-listed",
        "studies",
        (10, 100, 1000),
        "what a server computes for its list of all studies",
        LINEAR,
        "each is in the list",
        listed,
        clock=METER,
        least=0.0,
    ),
    Curve(
        "studies-paged",
        "studies",
        (10, 100, 1000),
        "what a server computes for a page of ten of them",
        FLAT,
        "ten studies",
        paged,
        clock=METER,
        least=0.0,
    ),
    Curve(
        "connections",
        "connections",
        (1, 4, 16, 64, 256, 1000, 2000),
        "4,000 reports of one user each, over so many connections",
        FLAT,
        "Python on one core, whoever asks; one connection waits for each commit",
        connections,
        budget=60.0,
        clock=METER,
        least=0.0,
    ),
    Curve(
        "streams",
        "streams",
        (1, 50, 150, 500),
        "what a server computes in 1.5 seconds for so many browsers that follow a study",
        LINEAR,
        "each event is written to each stream",
        streams,
        budget=60.0,
        clock=METER,
        least=0.0,
        most_turns=3,
    ),
)
