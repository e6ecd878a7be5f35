"""Browsers that watch one study, as a program of its own: half of them its wall, half its page of the dashboard.

    python benchmarks/watching.py PORT STUDY BROWSERS

Each holds the stream of events open, and asks for its part of the page when an event says that something has changed:
what `wall.js` and `study.js` ask for, when they do, with what they remember. Prints a line when all streams have begun,
ends when its input does, and prints how many events and pages came, and how long a page took.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, cast

import uvloop

HOST: Final = "127.0.0.1"
ENTRIES: Final = frozenset({b"study", b"round", b"closed", b"answers", b"received", b"ended"})
AT_MOST_EVERY: Final = 0.5
"""Seconds between two looks of `study.js`."""

MOMENT: Final = 0.2
"""Seconds within which either begins to ask, after it could."""
PAUSE: Final = 0.002
"""Seconds between two browsers that begin."""

_EVENT: Final = re.compile(rb"^event: ([a-z]+)$", re.MULTILINE)
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_TAG: Final = re.compile(rb"\r\netag: *([^\r]+)", re.IGNORECASE)


@dataclass(slots=True)
class Seen:
    """What all browsers together have seen."""

    events: Counter[str] = field(default_factory=Counter[str])
    statuses: Counter[int] = field(default_factory=Counter[int])
    seconds: list[float] = field(default_factory=list[float])
    lost: int = 0
    """Streams that the server has ended."""


class Stream(asyncio.Protocol):
    """A stream of events."""

    def __init__(self, request: bytes, told: Callable[[bytes], None], seen: Seen) -> None:
        self._request, self._told, self._seen = request, told, seen
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for it."""
        cast("asyncio.Transport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        """Tell the events that are whole."""
        whole, end, self._rest = (self._rest + data).rpartition(b"\n\n")
        for name in _EVENT.findall(whole + end):
            self._seen.events[name.decode()] += 1
            self._told(name)

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it."""
        del exc
        self._seen.lost += 1


class Pages(asyncio.Protocol):
    """A connection on which one page after the other is asked for."""

    def __init__(self, done: Callable[[], None], seen: Seen) -> None:
        self._done, self._seen = done, seen
        self._received, self._began = b"", 0.0
        self.tag = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep it."""
        self.transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes) -> None:
        """Ask for a page."""
        assert self.transport is not None  # noqa: S101 - it is connected
        self._began = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Count a page when it is complete."""
        received = self._received = self._received + data
        head = received.find(b"\r\n\r\n")
        if head < 0:
            return
        status, length = int(received[9:12]), _LENGTH.search(received, 0, head)
        if status != 304 and (length is None or len(received) < head + 4 + int(length[1])):
            return
        tag = _TAG.search(received, 0, head)
        self.tag = b"" if tag is None else tag[1]
        self._received = b""
        self._seen.statuses[status] += 1
        self._seen.seconds.append(time.perf_counter() - self._began)
        self._done()

    def connection_lost(self, exc: Exception | None) -> None:
        """The server ends a connection that was idle; the next page has another."""
        del exc
        self.transport = None


class Browser:
    """One page that is open."""

    def __init__(self, port: int, path: str, seen: Seen) -> None:
        self._port, self._path, self._seen = port, path, seen
        self._loop = asyncio.get_running_loop()
        self._pages = Pages(self._answered, seen)
        self._asking: asyncio.Task[None] | None = None
        self.began = asyncio.Event()

    async def open(self, study: str) -> None:
        """Begin the stream."""
        request = f"GET /v1/studies/{study}/events HTTP/1.1\r\nHost: {HOST}\r\nAccept: text/event-stream\r\n\r\n"
        await self._loop.create_connection(lambda: Stream(request.encode(), self.told, self._seen), HOST, self._port)

    def told(self, name: bytes) -> None:
        """Hear of an event."""
        raise NotImplementedError

    def _answered(self) -> None:
        raise NotImplementedError

    def _ask(self) -> None:
        self._asking = self._loop.create_task(self._ask_on_a_connection())

    async def _ask_on_a_connection(self) -> None:
        if self._pages.transport is None:
            await self._loop.create_connection(lambda: self._pages, HOST, self._port)
        tag = b"If-None-Match: %b\r\n" % self._pages.tag if self._pages.tag else b""
        head = b"GET %b HTTP/1.1\r\nHost: %b\r\nAccept: text/html\r\n%b\r\n"
        self._pages.ask(head % (self._path.encode(), HOST.encode(), tag))


class WallBrowser(Browser):
    """The wall: asks in a moment, and once more if something came while it did."""

    _is_asking = _is_old = False

    def told(self, name: bytes) -> None:
        """Bring it up to date."""
        self.began.set()
        if name not in ENTRIES | {b"live"}:
            return
        self._is_old = True
        if not self._is_asking:
            self._is_asking = True
            self._soon()

    def _soon(self) -> None:
        self._loop.call_later(MOMENT * random.random(), self._look)  # noqa: S311 - nothing is kept secret by it

    def _look(self) -> None:
        self._is_old = False
        self._ask()

    def _answered(self) -> None:
        self._is_asking = self._is_old
        if self._is_old:
            self._soon()


class StudyBrowser(Browser):
    """A study's page of the dashboard: of many events in a moment, asks once."""

    _waiting = False
    _last = 0.0

    def told(self, name: bytes) -> None:
        """Bring it up to date soon."""
        self.began.set()
        if name in ENTRIES and not self._waiting:
            self._waiting = True
            moment = MOMENT * random.random()  # noqa: S311 - as above
            self._loop.call_at(max(self._loop.time(), self._last + AT_MOST_EVERY) + moment, self._look)

    def _look(self) -> None:
        self._last = self._loop.time()
        self._ask()

    def _answered(self) -> None:
        self._waiting = False


async def watch(port: int, study: str, browsers: int) -> Seen:
    """Watch until the input ends."""
    seen, stop = Seen(), asyncio.Event()
    walls, pages = f"/wall/now?study={study}", f"/studies/{study}"
    all_ = [
        WallBrowser(port, walls, seen) if number % 2 else StudyBrowser(port, pages, seen) for number in range(browsers)
    ]
    for browser in all_:
        await browser.open(study)
        await asyncio.sleep(PAUSE)
    for browser in all_:
        await browser.began.wait()

    async def until_the_input_ends() -> None:
        await asyncio.to_thread(sys.stdin.read)
        stop.set()

    # What came while they began is none of what is measured.
    await asyncio.sleep(1)
    seen.events.clear()
    seen.statuses.clear()
    seen.seconds.clear()
    print("watching", flush=True)
    await until_the_input_ends()
    return seen


def main() -> int:
    """Watch, and say what was seen."""
    port, study, browsers = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    begin, used = time.perf_counter(), time.process_time()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        seen = runner.run(watch(port, study, browsers))
    seconds = time.perf_counter() - begin
    told = {
        "events": dict(seen.events),
        "pages": {str(status): count for status, count in seen.statuses.items()},
        "page_ms": round(1000 * statistics.median(seen.seconds or [0.0]), 1),
        "page_worst_ms": round(1000 * max(seen.seconds, default=0.0), 1),
        "lost": seen.lost,
        "busy": round((time.process_time() - used) / seconds, 2),
    }
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        sys.exit(main())
