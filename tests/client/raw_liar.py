"""A liar below the documents: a bare TCP server that answers any request with the bytes that it likes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

Said: TypeAlias = "bytes | Callable[[], AsyncIterator[bytes]]"
"""What is said after a request: these bytes, or pieces of which there may be no end."""

OK: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
_PIECE: Final = 1 << 16


def whole(body: bytes, *headers: bytes) -> bytes:
    """An answer with its length."""
    return OK + b"".join(header + b"\r\n" for header in headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*pieces: bytes) -> bytes:
    """An answer in chunks."""
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


def endless(begin: bytes, piece: bytes, pause: float = 0.0) -> Callable[[], AsyncIterator[bytes]]:
    """This, and then that for ever."""

    async def pieces() -> AsyncIterator[bytes]:
        yield begin
        some = piece if pause else piece * max(1, _PIECE // len(piece))
        while True:
            yield some
            await asyncio.sleep(pause)

    return pieces


@dataclass
class RawLiar:
    """Says the same thing to everybody, and counts."""

    said: Said
    closes: bool = True
    requests: int = 0
    sent: int = 0
    """Bytes that went out."""
    url: str = field(init=False)

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[RawLiar]:
        """On a port of the loopback interface."""
        talking = set[asyncio.Task[None]]()

        # Not a coroutine: that would be a task which may be cancelled before it has begun to close the connection.
        def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._talk(reader, writer))
            talking.add(task)
            task.add_done_callback(lambda _: writer.transport.abort())
            task.add_done_callback(talking.discard)

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for task in list(talking):
                task.cancel()
            await asyncio.gather(*talking, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line[15:] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                await reader.readexactly(int(length[0]) if length else 0)
                self.requests += 1
                await self._answer(writer)
                if self.closes:
                    writer.close()
                    await writer.wait_closed()

    async def _answer(self, writer: asyncio.StreamWriter) -> None:
        if isinstance(self.said, bytes):
            writer.write(self.said)
            self.sent += len(self.said)
            await writer.drain()
            return
        async for piece in self.said():
            writer.write(piece)
            self.sent += len(piece)
            await writer.drain()
