"""An application under uvicorn in a thread of this process, and requests to it as bytes, whatever they are."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Generator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from tests.harness.marks import SECONDS


@contextlib.contextmanager
def hosted(app: ASGIApp, http: type[asyncio.Protocol], *, lifespan: bool = True, **more: Any) -> Generator[int]:
    """Serve with this protocol class, and more of uvicorn's configuration; the port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    config = uvicorn.Config(
        app,  # pyright: ignore[reportArgumentType] - the two libraries name the same calls differently
        http=http,
        ws="none",
        lifespan="on" if lifespan else "off",
        log_config=None,
        access_log=False,
        backlog=512,
        timeout_graceful_shutdown=1,
        **more,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        listener.close()
        assert not thread.is_alive()


def connect(port: int) -> socket.socket:
    """A connection that waits for an answer, but not for ever."""
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)


def rest_of(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    pieces = list[bytes]()
    while piece := connection.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


def answer_to(port: int, sent: bytes, *, at_once: bool = True) -> bytes:
    """The whole answer to some bytes and the end of the line behind them."""
    with connect(port) as connection:
        # The server may hang up before it has read all of it; the answer is there all the same.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in [sent] if at_once else [sent[at : at + 1] for at in range(len(sent))]:
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
        return rest_of(connection)


def parts_of(answer: bytes) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the first response in an answer, and what follows as part of the body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    pairs = (field.partition(":") for field in fields)
    return int(line.split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}, body
