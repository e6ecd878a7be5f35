"""A load generator that costs little: raw asyncio, requests that are rendered beforehand, answers that are counted.

Every connection has one request under way and sends the next as soon as the answer is complete. All connections take
from one list, so a slow one does not hold the others up.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

import uvloop

HOST: Final = "127.0.0.1"
MOST_BUSY: Final = 0.9

_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Load:
    """What a load came to."""

    seconds: float
    busy: float
    """The part of them that the load generator computed: near 1 it would be what was measured, and not the server."""
    statuses: Counter[int]

    def check(self) -> None:
        """Refuse a load of which anything was answered otherwise than with 200."""
        if self.statuses.keys() != {200}:
            raise AssertionError(f"the answers were {dict(self.statuses)}")

    def speed(self) -> float:
        """Requests per second, if every one was answered with 200 and the load generator had time to spare."""
        if self.statuses.keys() != {200} or self.busy > MOST_BUSY:
            raise AssertionError(f"the answers were {dict(self.statuses)}, the load generator {self.busy:.0%} busy")
        return self.statuses[200] / self.seconds


def request(path: str, body: bytes, token: str, kind: str = "application/json") -> bytes:
    """One POST, as it goes over the wire."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def drive(port: int, requests: Sequence[bytes], connections: int, timeout: float = 30.0) -> Load:
    """Send all of these over this many connections. The clock runs from the first request to the last answer."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_drive(port, requests, connections, timeout))


async def _drive(port: int, requests: Sequence[bytes], connections: int, timeout: float) -> Load:
    loop = asyncio.get_running_loop()
    work = _Work(requests, loop.create_future())
    clients = [(await loop.create_connection(lambda: _Connection(work), HOST, port))[1] for _ in range(connections)]
    begin, used = time.perf_counter(), time.process_time()
    for client in clients:
        client.send_next()
    try:
        await asyncio.wait_for(work.done, timeout)
    finally:
        seconds, used = time.perf_counter() - begin, time.process_time() - used
        for client in clients:
            client.close()
    return Load(seconds, used / seconds, work.statuses)


class _Work:
    """What all connections share."""

    __slots__ = ("done", "left", "requests", "statuses")

    def __init__(self, requests: Sequence[bytes], done: asyncio.Future[None]) -> None:
        self.requests = iter(requests)
        self.left = len(requests)
        self.done = done
        self.statuses: Counter[int] = Counter()


class _Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self, work: _Work) -> None:
        self._work = work
        self._transport: asyncio.Transport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait to be told."""
        self._transport = cast("asyncio.Transport", transport)

    def send_next(self) -> None:
        """The next request, if there is one."""
        following = next(self._work.requests, None)
        if following is not None and self._transport is not None:
            self._transport.write(following)

    def data_received(self, data: bytes) -> None:
        """Count an answer when it is complete."""
        received = self._received = self._received + data
        head = received.find(_END_OF_HEAD)
        if head < 0:
            return
        length = _LENGTH.search(received, 0, head)
        if length is None or len(received) < head + len(_END_OF_HEAD) + int(length[1]):
            return
        self._received = b""
        work = self._work
        work.statuses[int(received[9:12])] += 1
        work.left -= 1
        if work.left:
            self.send_next()
        elif not work.done.done():
            work.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody answers any more what was sent here."""
        if self._work.left and not self._work.done.done():
            self._work.done.set_exception(exc or ConnectionResetError("the server hung up"))

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()
