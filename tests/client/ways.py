"""The two ways to a server, httpx and bare connections: what holds of one is tested of both (`each_way`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import h11
import httpx

from askance_client import Patience, Server
from askance_client.transport.bare import BareConnection, BareServer

Handler = Callable[[httpx.Request], httpx.Response]

WAYS: Final[dict[str, type[Server]]] = {"httpx": Server, "bare": BareServer}
_NO_CONNECTION: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Way:
    """The way that tests take: `conftest.each_way` changes it."""

    kind: type[Server] = Server


def server_at(url: str, handler: Handler, patience: Patience) -> Server:
    """A server in memory, by the way that is taken. Whatever host is asked, the handler answers."""
    transport = httpx.MockTransport(handler)
    if Way.kind is Server:
        return Server(url, patience=patience, transport=transport)

    async def dial(made: Callable[[], BareConnection]) -> tuple[object, BareConnection]:
        connection = made()
        connection.connection_made(Pipe(handler, url, connection))
        return None, connection

    return BareServer(url, patience=patience, transport=transport, dial=dial)


class Pipe(asyncio.Transport):
    """A connection in memory: what is written is read as HTTP by another parser, and given to the handler."""

    def __init__(self, handler: Handler, url: str, connection: BareConnection) -> None:
        super().__init__()
        self._handler, self._url, self._connection = handler, url, connection
        self._http = h11.Connection(h11.SERVER)
        self._closed = False
        self._telling: asyncio.Task[None] | None = None

    def write(self, data: Any) -> None:
        self._http.receive_data(bytes(data))
        request, body = self._http.next_event(), b""
        assert isinstance(request, h11.Request)
        while isinstance(event := self._http.next_event(), h11.Data):
            body += event.data
        assert isinstance(event, h11.EndOfMessage)
        url = httpx.URL(self._url).copy_with(raw_path=request.target)
        try:
            answer = self._handler(
                httpx.Request(request.method.decode(), url, headers=list(request.headers), content=body)
            )
        except _NO_CONNECTION:
            raise
        except Exception as error:
            self._lose(error)
            return
        self._telling = asyncio.ensure_future(self._tell(answer))

    async def _tell(self, answer: httpx.Response) -> None:
        headers = [(name, value) for name, value in answer.headers.raw if name.lower() != b"transfer-encoding"]
        self._say(h11.Response(status_code=answer.status_code, headers=headers))
        pieces = 0
        async for piece in answer.stream:  # type: ignore[union-attr]
            self._say(h11.Data(data=piece))
            pieces += 1
            if pieces > 1:
                # There may be no end of them: let her hang up. Not by `sleep`, which some tests count.
                turn = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_soon(turn.set_result, None)
                await turn
        self._say(h11.EndOfMessage())
        self._http.start_next_cycle()

    def _say(self, event: h11.Event) -> None:
        said = self._http.send(event)
        if said and not self._closed:
            self._connection.data_received(said)

    def abort(self) -> None:
        if self._telling is not None:
            self._telling.cancel()
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self._closed:
            self._closed = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, error)
