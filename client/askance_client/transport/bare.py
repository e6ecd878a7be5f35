"""HTTP/1.1 for what a fleet sends: small requests on bare connections, with httptools for the answers.

Theory of operation
-------------------
A fleet sends two requests for each user and round, and httpx spends more on each than all else that a user does
together. Here a request is a few bytes that are written at once, and the answer is parsed as it comes: no streams, no
locks, no objects for headers. What is not small goes by httpx still, and so does everything where httptools is not
installed. Which attempts are made, what is an answer, and what is said of one that is none, is decided where it always
was, in `Server`: nothing here tries anything twice.

*Bounds.* They are those of the other way. A body is as long as the request allows, or refused (`body.py`). Whatever
else comes, heads, promises (1xx), lengths of chunks, extensions, trailers, is counted together, and may be `_HEAD`
bytes and sixteen for each byte of the body. A server that says nothing for `_SILENCE` seconds is given up.

*One question, one answer.* A connection is used again only if its last answer ended where it said that it would, with
nothing behind it: bytes that nobody has asked for would be taken for the next user's receipt (RFC 9112, section 9.2).
What was cancelled, or broke a bound, ends its connection.
"""

from __future__ import annotations

import asyncio
import importlib.util
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, cast

import httpx

from askance_client.refusals import Refusal
from askance_client.transport.body import AS_IT_IS, refused_head, too_long
from askance_client.transport.patience import PATIENCE, Patience, seconds_of
from askance_client.transport.server import HEADER, AnswerBounds, Server
from askance_protocol.rounds.spec import VERSION

INSTALLED = importlib.util.find_spec("httptools") is not None
"""A device has no need of it: see `BareServer`."""
if TYPE_CHECKING or INSTALLED:
    import httptools

_HEAD: Final = 100 << 10
"""Bytes of an answer beside its body: as many as httpx takes of a head."""
_SILENCE: Final = 30.0
_CONNECT: Final = 10.0
"""Seconds that an answer may say nothing, and that a connection may take: as `Server` has them for httpx."""
_IDLE: Final = 5.0
"""Seconds after which a connection is not used again: its server may be about to close it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status, its body or why that is refused, and its header Retry-After."""

    status: int
    body: bytes | Refusal
    retry_after: str


class BareConnection(asyncio.Protocol):
    """One connection, for one request at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._reply: asyncio.Future[Reply] | None = None
        self._bounds = AnswerBounds(0, 0)
        self._status = 0
        """Of the answer that has begun; 0 before its head has ended."""
        self._headers: dict[bytes, list[bytes]] = {}
        self._body = bytearray()
        self._came = 0
        """Bytes that have come of this answer, of whatever kind."""
        self._reusable = False
        self._last = 0.0
        """The loop's time at which something came last."""
        self._watch: asyncio.TimerHandle | None = None

    @property
    def fresh(self) -> bool:
        """Whether another request may be sent here."""
        return self._reusable and not self.closed.done() and self._loop.time() - self._last < _IDLE

    async def exchange(self, request: bytes, bounds: AnswerBounds) -> Reply:
        """Send a request and wait for its answer; OSError if there is none."""
        if self._transport is None or self.closed.done():
            raise ConnectionError("is closed")
        self._bounds, self._came, self._reusable = bounds, 0, False
        self._last = self._loop.time()
        if self._watch is None:
            self._watch = self._loop.call_at(self._last + _SILENCE, self._look)
        reply = self._reply = self._loop.create_future()
        self._transport.write(request)
        try:
            return await reply
        finally:
            self._reply = None
            if not self._reusable:
                self.abort()

    def abort(self) -> None:
        """Close at once: there is nothing on its way that anybody waits for."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._transport is not None:
            self._transport.abort()

    # --------------------------------------------------------------------------------------------------- the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse what came, within the bounds."""
        if self._reply is None or self._reply.done():
            self._reusable = False
            self.abort()  # Nobody has asked for it.
            return
        self._last = self._loop.time()
        self._came += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._reusable = False
            self._lose("what comes is no answer")  # Unless it stands behind a whole one.
        if self._came - len(self._body) > _HEAD + 16 * len(self._body):
            self._lose("the answer has more beside its body than there can be")

    def eof_received(self) -> None:
        """Take an answer whose end is that of the connection; any other is lost."""
        lengths = {b"content-length", b"transfer-encoding"}
        if self._status and lengths.isdisjoint(self._headers):
            self._answer(bytes(self._body))
        self._lose("the connection was closed")

    def connection_lost(self, exc: Exception | None) -> None:
        """End whatever waits."""
        self._lose(f"the connection was lost: {exc}")
        self.abort()
        if not self.closed.done():
            self.closed.set_result(None)

    def _look(self) -> None:
        """Give up a server that has said nothing for long; otherwise look again when it would have."""
        self._watch = None
        if self._reply is None:
            return
        due = self._last + _SILENCE
        if due <= self._loop.time():
            self._lose("the server says nothing")
        else:
            self._watch = self._loop.call_at(due, self._look)

    # ------------------------------------------------------------------------------------------------------ the parser

    def on_message_begin(self) -> None:
        """Begin an answer; what comes behind a whole one is none."""
        if self._reply is not None and self._reply.done():
            self._reusable = False
            return
        self._status = 0
        self._headers = {}
        self._body = bytearray()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect the headers of a head; trailers are not looked at."""
        if not self._status:
            self._headers.setdefault(name.lower(), []).append(value)

    def on_headers_complete(self) -> None:
        """Refuse what its head says to be no answer that can be taken."""
        status, headers = self._parser.get_status_code(), self._headers
        if 100 <= status < 200 or (self._reply is not None and self._reply.done()):
            return  # A promise (RFC 9110, section 15.2). To another protocol the parser does not switch.
        self._status = status
        if any(coding.strip().lower() != b"chunked" for coding in headers.get(b"transfer-encoding", ())):
            self._lose("the answer is in a transfer coding that was not asked for")
        packed = ",".join(each.decode("latin-1") for each in headers.get(b"content-encoding", ()))
        declared = b"".join(headers.get(b"content-length", ())).decode("latin-1")
        if (refused := refused_head(packed, declared, self._bounds.of(status))) is not None:
            self._answer(refused)

    def on_body(self, body: bytes) -> None:
        """Collect the body, as long as it may be."""
        if self._reply is None or self._reply.done():
            return
        most = self._bounds.of(self._status)
        if len(self._body) + len(body) > most:
            self._answer(too_long(most))
        else:
            self._body += body

    def on_message_complete(self) -> None:
        """The answer is whole; behind a promise it begins."""
        if self._status and self._reply is not None and not self._reply.done():
            self._reusable = self._parser.should_keep_alive()
            self._answer(bytes(self._body))

    def _answer(self, body: bytes | Refusal) -> None:
        if self._reply is not None and not self._reply.done():
            after = b", ".join(self._headers.get(b"retry-after", ())).decode("latin-1")
            self._reply.set_result(Reply(self._status, body, after))

    def _lose(self, why: str) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(ConnectionError(why))


Dial = Callable[[Callable[[], BareConnection]], Awaitable[tuple[object, BareConnection]]]
"""Opens a connection, as `loop.create_connection` does."""


@dataclass(slots=True)
class BareConnections:
    """A few connections to one server, each for one request at a time."""

    dial: Dial
    most: int
    _room: asyncio.Semaphore = field(init=False, repr=False)
    _idle: list[BareConnection] = field(default_factory=list[BareConnection])
    _all: set[BareConnection] = field(default_factory=set[BareConnection])

    def __post_init__(self) -> None:
        self._room = asyncio.Semaphore(self.most)

    async def exchange(self, request: bytes, bounds: AnswerBounds) -> Reply:
        """Send a request on a connection that is free, and wait for its answer; OSError if there is none."""
        async with self._room:
            connection = self._used() or await self._opened()
            reply = await connection.exchange(request, bounds)
            if connection.fresh:
                self._idle.append(connection)
            return reply

    def _used(self) -> BareConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.fresh:
                return connection
            connection.abort()
        return None

    async def _opened(self) -> BareConnection:
        async with asyncio.timeout(_CONNECT):
            _, connection = await self.dial(BareConnection)
        self._all.add(connection)
        connection.closed.add_done_callback(lambda _: self._all.discard(connection))
        return connection

    async def close(self) -> None:
        """Close all connections."""
        closing = [(connection.abort(), connection.closed)[1] for connection in self._all]
        if closing:
            await asyncio.wait(closing)


class BareServer(Server):
    """A server whose accounts and receipts come over bare connections; by httpx, where httptools is not installed.

    Fleets have one. A person's device sends a report a day, and has no httptools.
    """

    def __init__(
        self,
        url: str,
        *,
        patience: Patience = PATIENCE,
        transport: httpx.AsyncBaseTransport | None = None,
        connections: int = 4,
        trust: ssl.SSLContext | None = None,
        dial: Dial | None = None,
    ) -> None:
        super().__init__(url, patience=patience, transport=transport, connections=connections, trust=trust)
        address = httpx.URL(self.url)
        # What else an address may hold, httpx knows what to do with.
        plain = not (address.userinfo or address.query or address.fragment)
        self._bare = BareConnections(dial or self._dial, connections) if plain and INSTALLED else None
        self._address = address
        self._target = address.raw_path.decode("ascii").rstrip("/")
        fixed = f"Host: {address.netloc.decode('ascii')}\r\nAccept-Encoding: {AS_IT_IS}\r\n{HEADER}: {VERSION}\r\n"
        self._fixed = fixed

    async def close(self) -> None:
        """Close all connections."""
        if self._bare is not None:
            await self._bare.close()
        await super().close()

    async def _dial(self, made: Callable[[], BareConnection]) -> tuple[object, BareConnection]:
        address, loop = self._address, asyncio.get_running_loop()
        port = address.port or (80 if self.trust is None else 443)
        return await loop.create_connection(made, address.raw_host.decode("ascii").strip("[]"), port, ssl=self.trust)

    async def _exchange_small(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, bounds: AnswerBounds
    ) -> tuple[int, bytes | Refusal, float]:
        if self._bare is None:
            return await super()._exchange_small(method, path, headers, body, bounds)
        reply = await self._bare.exchange(self._request(method, path, headers, body), bounds)
        return reply.status, reply.body, seconds_of(reply.retry_after)

    def _request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """The bytes of a request. What would end a line, or begin another request, is sent nowhere."""
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        said = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        target = f"{self._target}{path}"
        if not target.isascii() or not target.isprintable() or " " in target:
            raise httpx.LocalProtocolError("is no path that can be asked for")
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            raise httpx.LocalProtocolError("is no header that can be sent")
        return f"{method} {target} HTTP/1.1\r\n{self._fixed}{said}{length}\r\n".encode("ascii") + body
