"""HTTP/1.1 over the loopback, byte by byte: a connection that may break, and a proxy that notes and hangs up."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


class LostError(Exception):
    """The connection broke, so that nobody knows what became of the request."""


class Connection:
    """One connection at a time, and requests one after the other on it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, token: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        return await self._request(head.encode() + body)

    async def get(self, path: str) -> tuple[int, bytes]:
        """The same of what needs no token."""
        return await self._request(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    async def _request(self, request: bytes) -> tuple[int, bytes]:
        try:
            self._streams = self._streams or await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            writer.write(request)
            answer = await read_head(reader)
            return int(answer.split(b" ", 2)[1]), await reader.readexactly(length_of(answer))
        except (OSError, asyncio.IncompleteReadError):
            await self.close()
            raise LostError from None

    async def close(self) -> None:
        """Hang up."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()
            with contextlib.suppress(OSError):
                await streams[1].wait_closed()


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """The head of a message, with the empty line."""
    return await reader.readuntil(b"\r\n\r\n")


def length_of(head: bytes) -> int:
    """How long the body is."""
    return int(head.lower().partition(b"content-length:")[2].partition(b"\r")[0] or 0)


@dataclass
class Proxy:
    """Between clients and a server: notes each report, and hangs up now and then."""

    random: random.Random
    cuts: float
    """The share of requests at which it hangs up, half of them before the server hears of it."""
    port: int = 0
    upstream: int = 0
    """The server's port."""
    reports: list[tuple[str, str, bytes]] = field(default_factory=list[tuple[str, str, bytes]])
    """Token, round and body of each report that reached the proxy."""
    cut: Counter[str] = field(default_factory=Counter[str])
    """How often it hung up `before` the server heard of a request, and how often `after`."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Take connections."""

        # Not a coroutine: that would be a task which may be cancelled before it has begun to close the connection.
        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._serve(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(lambda _: writer.transport.abort())
            task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(serve, "127.0.0.1")
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up: asyncio.StreamWriter | None = None
        try:
            down, up = await asyncio.open_connection("127.0.0.1", self.upstream)
            while await self._pass_on(reader, writer, down, up):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for each in (writer, up):
                if each is not None:
                    each.close()

    async def _pass_on(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        down: asyncio.StreamReader,
        up: asyncio.StreamWriter,
    ) -> bool:
        """One request and its answer; whether there may be another."""
        request = await self._read(reader)
        fate = self.random.random()
        if fate < self.cuts / 2:
            self.cut["before"] += 1
            return False
        up.write(request)
        answer = await self._read(down)
        if fate < self.cuts:
            self.cut["after"] += 1
            return False
        writer.write(answer)
        await writer.drain()
        return True

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        """A message. A report is noted even if only a part of its body came."""
        head = await read_head(reader)
        try:
            body = await reader.readexactly(length_of(head))
        except asyncio.IncompleteReadError as error:
            if error.partial:
                self._note(head, error.partial)
            raise
        self._note(head, body)
        return head + body

    def _note(self, head: bytes, body: bytes) -> None:
        match head.split(b" ", 2)[:2]:
            case [b"POST", path] if path.startswith(b"/v1/rounds/") and path.endswith(b"/reports"):
                token = head.partition(b"Bearer ")[2].partition(b"\r")[0].decode()
                self.reports.append((token, path.split(b"/")[3].decode(), body))
            case _:
                pass
