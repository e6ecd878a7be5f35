"""A server that computes nothing: it answers what users of a fleet send at once, and passes all else on to a real one.

So a fleet is measured by what it does itself, on a machine whose processors a server would share. The answers are those
of a server which has nothing from these users: their clients look at them as they look at any.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Final, cast

import uvloop
from loadgen import HOST

_END: Final = b"\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *([0-9]+)", re.IGNORECASE)
_TOKEN: Final = re.compile(rb"\r\nauthorization: bearer ([^\r]+)", re.IGNORECASE)
_ROUND: Final = re.compile(rb"POST /v1/rounds/([0-9a-f]{64})/reports ")
_ACCOUNT: Final = (
    b'{"user":%d,"cap_micro_epsilon":%d,"spent_micro_epsilon":0,"remaining_micro_epsilon":%d,"charges":[]}'
)
_RECEIPT: Final = b'{"charged":%d,"round":"%b","user":%d}'


@dataclass(frozen=True, slots=True)
class Known:
    """What the stand-in knows."""

    port: int
    """Of the real server."""
    users: Mapping[bytes, int]
    """By their tokens."""
    cap: int
    charge: int


class _Connection(asyncio.Protocol):
    """One connection: one request at a time."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a request."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer a request when it is whole."""
        self._received += data
        head = self._received.find(_END)
        if head < 0 or self._transport is None:
            return
        length = _LENGTH.search(self._received, 0, head)
        size = head + len(_END) + (int(length[1]) if length else 0)
        if len(self._received) < size:
            return
        request, self._received = self._received[:size], self._received[size:]
        body = self._answer(request[:head])
        if body is None:
            task = asyncio.get_running_loop().create_task(_passed_on(self._known.port, request))
            task.add_done_callback(lambda done: self._close_with(done.result()))
        else:
            self._transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
            )

    def _answer(self, head: bytes) -> bytes | None:
        """The body of the answer; None where a real server is to be asked."""
        known = self._known
        token = _TOKEN.search(head)
        user = known.users.get(token[1]) if token else None
        if user is None:
            return None
        if head.startswith(b"GET /v1/me "):
            return _ACCOUNT % (user, known.cap, known.cap)
        round_ = _ROUND.match(head)
        return round_ and _RECEIPT % (known.charge, round_[1], user)

    def _close_with(self, answer: bytes) -> None:
        if self._transport is not None:
            self._transport.write(answer)
            self._transport.close()


async def _passed_on(port: int, request: bytes) -> bytes:
    """The real server's answer, and all of it: it is asked to close the connection."""
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
    answer = await reader.read(-1)
    writer.close()
    return answer


def _serve(pipe: Connection, known: Known) -> None:
    async def running() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(partial(_Connection, known), HOST, 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await loop.run_in_executor(None, pipe.recv)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(running())


@contextmanager
def stand_in(known: Known) -> Generator[str]:
    """Its address, while it runs in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, known), daemon=True)
    process.start()
    try:
        yield f"http://{HOST}:{ours.recv()}"
    finally:
        ours.send(None)
        process.join(10)
        process.kill()
