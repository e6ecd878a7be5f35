"""Connections: uvicorn's HTTP protocol with limits, and with problem documents for what is not HTTP.

Theory of operation
-------------------
uvicorn bounds neither how long a head or a body may take, nor how large a head may be, nor how many sockets there are;
what its parser refuses it answers in plain text. `GuardedProtocol` adds what is missing, below the application:

*Time.* A connection either waits for its peer or works for it. While it waits, for a head, for the rest of a body, for
an answer to be read, it has a deadline; while the application works it has none. One sweep for all connections, twice a
second, looks for deadlines that have passed: a timer for each request would cost more than the request. A body has
more time the more of it has come, so a slow line may send a large batch, and drops of one byte end.

*Size.* A head, the trailers and the lengths of chunks are counted as they come, before the parser knows their end.

*Number.* Descriptors are what a process runs out of first, so there are fewer connections than descriptors. One more
connection than that ends another: the one that has been of no use for longest. A connection on which a genuine token
was shown is trusted, and outlives those on which none was. Addresses are not counted: behind a proxy, and on the
loopback, everybody has the same.

*TLS.* The handshake is part of a connection, which is counted and has its deadline from its first moment. A web server
that is given a certificate begins to count behind it, and a peer that never finishes one would hold a descriptor for a
minute, unseen. So `tls` is not uvicorn's: the protocol is given the socket, and begins again behind the handshake.

*Answers.* A request that is not HTTP gets a problem document, in its turn: behind the answers to the requests before
it. After it nothing is read but to be thrown away: to close a socket with unread bytes resets it, and the
peer may lose the answer (RFC 9112, section 9.6). Over TLS no half of a connection can be closed; what comes is thrown
away for as long, and the length of the answer says where it ends.

What is done with a token, and which body is welcome at which path, is decided by the application: see `gate`.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import socket
import ssl
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from askance_server.api.version import HEADER, VERSION, said_twice
from askance_server.problems import PROBLEMS, problem_response

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application, ASGISendCallable, ASGISendEvent
    from uvicorn.config import Config
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

EXTENSION: Final = "askance.connection"
"""Where a request's scope has its connection, among ASGI's `extensions`."""

_TICK: Final = 0.5
_NEVER: Final = math.inf

_CONTINUE: Final = b"100-continue"

_SAID: Final[Mapping[str, str]] = MappingProxyType(
    {
        "HttpParserInvalidMethodError": "the method is none that this server knows",
        "HttpParserInvalidURLError": "the target of the request is not a path",
        "HttpParserError": "the request is not HTTP/1.1",
        "HttpParserCallbackError": "the request is not HTTP/1.1",
    }
)
# A path with its query, or a whole address with one (RFC 9112, section 3.2): not `*`, and not a host with a port.
_TARGET: Final = re.compile(rb"(?:https?://[!-.0-~]+)?/[!-~]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What a peer may take: seconds, bytes and sockets."""

    connections: int = 512
    head_seconds: float = 10.0
    """From the first byte of a request, or from the connection's beginning, to the end of the request's head. Over TLS
    the handshake has as long."""
    body_seconds: float = 10.0
    body_rate: int = 16 << 10
    """Bytes of a body that buy one second more."""
    idle_seconds: float = 15.0
    """Between two requests."""
    answer_seconds: float = 30.0
    """During which a peer reads nothing of its answer."""
    linger_seconds: float = 1.0
    """After a refusal, until the connection is closed."""
    linger_bytes: int = 1 << 20
    """Bytes that are thrown away after a refusal, so that the answer arrives; then no more is read."""
    head_bytes: int = 16 << 10
    headers: int = 64
    pipelined: int = 64
    """Requests on one connection that may wait for the answer to the one before."""
    stream_seconds: float = 5.0
    """How long the answer to a peer without a token has to go on before it may be ended to make room."""


@dataclass(slots=True)
class Connections:
    """All connections of one server: which of them is ended where there are too many, and the sweep for deadlines."""

    limits: ConnectionLimits
    unproven: dict[GuardedProtocol, None] = field(default_factory=dict["GuardedProtocol", None])
    """Those on which no genuine token was shown, in the order of their last use: begun, or a request answered."""
    trusted: dict[GuardedProtocol, None] = field(default_factory=dict["GuardedProtocol", None])
    ended: Counter[str] = field(default_factory=Counter[str])
    """Connections ended by the server, by reason."""
    _sweeper: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self.unproven) + len(self.trusted)

    def add(self, new: GuardedProtocol) -> None:
        """Take a new connection, and end another if there are too many."""
        self.unproven[new] = None
        if len(self) > self.limits.connections:
            self._make_room(new.loop.time())
        if self._sweeper is None:
            self._sweeper = new.loop.call_later(_TICK, self._sweep, new.loop)

    def remove(self, gone: GuardedProtocol) -> None:
        """Forget a connection that is closed."""
        self.unproven.pop(gone, None)
        self.trusted.pop(gone, None)

    def used(self, one: GuardedProtocol) -> None:
        """Put a connection without a token last in the order."""
        if self.unproven.pop(one, one) is None:
            self.unproven[one] = None

    def trust(self, one: GuardedProtocol) -> None:
        """Note that a genuine token was shown on a connection."""
        if self.unproven.pop(one, one) is None:
            self.trusted[one] = None

    def _make_room(self, now: float) -> None:
        """End the connection that is missed least. If all are at work for peers with tokens, that is the new one."""
        useless = (one for one in self.unproven if one.expendable(now))
        idle = (one for one in self.trusted if one.waits)
        self.ended["room"] += 1
        next(chain(useless, idle, reversed(self.unproven))).abort()

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """End what waits for its peer past its deadline."""
        now = loop.time()
        for one in [one for each in (self.unproven, self.trusted) for one in each if one.deadline <= now]:
            reason = one.overdue(now)
            if reason:
                self.ended[reason] += 1
        self._sweeper = loop.call_later(_TICK, self._sweep, loop) if len(self) else None


class _Transport:
    """A connection's transport, as uvicorn uses it; `close` goes by way of the protocol, so that answers arrive."""

    __slots__ = ("close", "get_extra_info", "is_closing", "pause_reading", "raw", "resume_reading", "write")

    def __init__(self, raw: asyncio.Transport, owner: GuardedProtocol) -> None:
        self.raw = raw
        # Bound once: these are called for each request.
        self.write, self.is_closing = raw.write, raw.is_closing
        self.pause_reading, self.resume_reading = raw.pause_reading, raw.resume_reading
        self.get_extra_info = raw.get_extra_info
        self.close = owner.close


class GuardedProtocol(HttpToolsProtocol):
    """One connection. Use `guarded` to get the class for a server."""

    pool: ClassVar[Connections]
    tls: ClassVar[ssl.SSLContext | None] = None
    """None: connections begin with a request."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.deadline = _NEVER
        self._raw: asyncio.Transport | None = None
        self._handshake: asyncio.Task[Any] | None = None
        self._running: RequestResponseCycle | None = None
        self._refusal: tuple[str, str] | None = None
        """What is answered when the requests before it are."""
        self._deaf = False
        """Nothing more is taken from this peer."""
        self._peer_done = False
        self._closing = False
        self._in_head = False
        """A head has begun and not ended."""
        self._messages = 0
        """Number of heads that have ended."""
        self._head_bytes = 0
        self._body_began = 0.0
        self._body_bytes = 0
        self._other_bytes = 0
        """Bytes between head and end of a request that are not of its body: lengths of chunks, trailers."""
        self._thrown = 0
        self.let_in = 0.0
        """The loop's time at which a request without a token was begun last; 0 before the first (`turns`)."""

    # --------------------------------------------------------------------------------------------- for the application

    def trust(self) -> None:
        """Note that a genuine token was shown here."""
        self.pool.trust(self)

    @property
    def trusted(self) -> bool:
        """Whether a genuine token was shown here."""
        return self in self.pool.trusted

    # ----------------------------------------------------------------------------------------------- for `Connections`

    @property
    def waits(self) -> bool:
        """Whether it is the peer's turn: there is no request, or not all of one."""
        running = self._running
        return self._deaf or running is None or running.response_complete or running.more_body

    def expendable(self, now: float) -> bool:
        """Whether a peer without a token loses little: it is waited for, or its answer is a stream."""
        running = self._running
        return self.waits or (
            running is not None
            and running.response_started
            and now - self._body_began > self.pool.limits.stream_seconds
        )

    def abort(self) -> None:
        """Close at once, whatever is on its way."""
        self._deaf = self._closing = True
        # Not only when the transport says so: until then others would be ended in vain.
        self.pool.remove(self)
        self.connections.discard(self)
        if self._handshake is not None:
            self._handshake.cancel()
        if self._raw is not None:
            self._raw.abort()

    def overdue(self, now: float) -> str:
        """Do what is due at a deadline; the reason, if that ended the connection."""
        running = self._running
        if self._closing or self._handshake is not None:
            reason = "" if self._closing else "handshake"
            self.abort()
            return reason
        if self.flow.write_paused:
            self.abort()
            return "unread"
        if running is None or running.response_complete:
            return self._overdue_head()
        if not running.more_body or self.flow.read_paused:
            # The application works, or has not yet taken what has come.
            self._wait_again(now)
            return ""
        limits = self.pool.limits
        self.deadline = self._body_began + limits.body_seconds + self._body_bytes / limits.body_rate
        if self.deadline > now:
            return ""
        self._fail("request-timeout", "the body of the request did not come to its end")
        return "body"

    def _overdue_head(self) -> str:
        if not self._in_head:
            self.close()
            return "idle"
        self._fail("request-timeout", "the head of the request did not come to its end")
        return "head"

    def _wait_again(self, now: float) -> None:
        """The deadline of what the connection waits for now."""
        limits, running = self.pool.limits, self._running
        if running is None or running.response_complete:
            self.deadline = now + (limits.head_seconds if self._in_head else limits.idle_seconds)
        elif running.more_body:
            self._body_began, self.deadline = now, now + limits.body_seconds
        else:
            self.deadline = _NEVER

    # --------------------------------------------------------------------------------------------------- the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn has it
        """Begin to wait for a request; over TLS this comes twice, before the handshake and behind it."""
        self.deadline = self.loop.time() + self.pool.limits.head_seconds
        if self._closing:
            transport.abort()  # It was ended in the very moment in which the handshake was over.
        elif self.tls is not None and self._handshake is None:
            self._shake_hands(transport, self.tls)
        else:
            self._handshake = None
            super().connection_made(transport)
            self._raw = transport
            self.transport = cast("asyncio.Transport", _Transport(transport, self))
            self.pool.add(self)

    def _shake_hands(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        """Take the socket from a transport that has read nothing yet, for one that begins with the handshake."""
        transport.set_protocol(asyncio.Protocol())
        try:
            taken = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        except OSError:  # There is no descriptor left.
            return
        finally:
            transport.abort()
        seconds = self.pool.limits.linger_seconds
        secure = self.loop.connect_accepted_socket(lambda: self, taken, ssl=context, ssl_shutdown_timeout=seconds)
        self._handshake = self.loop.create_task(secure)
        self._handshake.add_done_callback(partial(self._shaken, taken))
        self.connections.add(self)  # So that a stop of the server finds it.
        self.pool.add(self)

    def _shaken(self, taken: socket.socket, handshake: asyncio.Task[Any]) -> None:
        """End a connection whose peer did not make her part of the handshake."""
        error = None if handshake.cancelled() else handshake.exception()
        if handshake.cancelled() or error is not None:
            self.abort()
            taken.close()
        if error is not None and not isinstance(error, OSError):  # What is wrong with TLS is one, too.
            raise error

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._deaf = True
        self._let_go()
        self.pool.remove(self)
        running = self._running
        if running is not None and not running.response_complete:
            # uvicorn tells the request that came last, which is another one where requests wait for their turn.
            running.disconnected = True
            running.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride] - uvicorn's says None
        """Answer what came whole; a peer that has said all may still listen."""
        self._peer_done = True
        running = self._running
        if self._closing:
            return False
        if running is None or running.response_complete:
            if self._in_head and not self._deaf:
                self._fail("malformed-request", "the head of the request ended too early")
            return False
        if running.more_body:
            self._fail("malformed-request", "the body ended too early")
            return False
        self._deaf = True
        if self._refusal is None:
            self._last_answer_here()
        # Of a stream nobody can tell whether it is still read, and over TLS no half of a connection stays open.
        return not running.response_started and self.tls is None

    def close(self) -> None:
        """Close when the peer has had a chance to read its answer."""
        raw = self._raw
        if raw is None or self._closing:
            return
        unread = self._deaf or self._in_head or (self._running is not None and self._running.more_body)
        self._deaf = self._closing = True
        limits, now = self.pool.limits, self.loop.time()
        if self._peer_done or not unread:
            self.deadline = now + limits.answer_seconds
            raw.close()
            return
        self.deadline = now + limits.linger_seconds
        self.flow.resume_reading()
        if raw.can_write_eof():
            raw.write_eof()

    def shutdown(self) -> None:
        """Begin the server's stop: what waits for its peer is closed, what works is let finish."""
        if self.waits:
            self.abort()
        else:
            self._last_answer_here()

    def pause_writing(self) -> None:
        """Give the peer time to read."""
        super().pause_writing()
        self.deadline = self.loop.time() + self.pool.limits.answer_seconds

    def resume_writing(self) -> None:
        """Go on as before."""
        super().resume_writing()
        if not self._closing:
            self._wait_again(self.loop.time())

    # ------------------------------------------------------------------------------------------------------- the parser

    def data_received(self, data: bytes) -> None:
        """Parse what came, within the limits."""
        if self._deaf:
            self._throw_away(len(data))
            return
        taken, was_in_head, before = self._body_bytes, self._in_head, self._messages
        parser = cast("httptools.HttpRequestParser", self.parser)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The request itself is answered as if it had not asked for it (RFC 9110, section 7.8). What follows is
            # perhaps no HTTP.
            self._deaf = True
            self._last_answer_here()
            return
        except httptools.HttpParserError as error:
            self._refuse_unparsed(error)
            return
        if self._deaf:
            return
        if self._in_head:
            same = was_in_head and self._messages == before
            self._head_bytes += len(data) if same else self._begun_head(data, taken, before)
            if self._head_bytes > 2 * self.pool.limits.head_bytes:
                self._fail("head-too-large", f"the head is longer than {self.pool.limits.head_bytes} bytes")
        elif self._in_body and not was_in_head and self._messages == before:
            # Bytes in which a body begins belong to two counts; what is left out is one piece a request.
            self._other_bytes += len(data) - (self._body_bytes - taken)
            if self._other_bytes > self.pool.limits.head_bytes + 16 * self._body_bytes:
                self._fail("malformed-request", "the body has more of chunks' lengths and trailers than of itself")

    def _begun_head(self, data: bytes, taken: int, before: int) -> int:
        """How many bytes of a piece are of the head that began in it, at least: the requests before it end earlier."""
        # An unfinished head has no empty line, and what stands behind the last one may be a body.
        bodies = self._body_bytes - (taken if self._messages == before else 0)
        return max(0, len(data) - (data.rfind(b"\r\n\r\n") + 4 if b"\r\n\r\n" in data else 0) - bodies)

    def _refuse_unparsed(self, error: httptools.HttpParserError) -> None:
        cause = error.__context__
        if isinstance(cause, _Unwelcome):
            self._fail(cause.problem, cause.detail)
        else:
            self._fail("malformed-request", _SAID.get(type(error).__name__, _SAID["HttpParserError"]))

    def _throw_away(self, count: int) -> None:
        self._thrown += count
        if self._thrown > self.pool.limits.linger_bytes:
            self.flow.pause_reading()

    def on_message_begin(self) -> None:
        """Begin to count a head."""
        super().on_message_begin()
        self.scope["extensions"] = {EXTENSION: self}  # pyright: ignore[reportGeneralTypeIssues] - any name may be added
        self._in_head = True
        self._head_bytes = 0
        self.deadline = self.loop.time() + self.pool.limits.head_seconds

    def on_url(self, url: bytes) -> None:
        """Collect the target."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; what comes behind the body is counted and not looked at."""
        self._count(len(name) + len(value) + 4)
        if self._in_head:
            # The parser cuts off the white space before a value and leaves that behind it (RFC 9110, 5.5).
            super().on_header(name, value.rstrip(b" \t"))

    def _count(self, more: int) -> None:
        self._head_bytes += more
        if self._head_bytes > self.pool.limits.head_bytes:
            raise _Unwelcome("head-too-large", f"the head is longer than {self.pool.limits.head_bytes} bytes")

    def on_headers_complete(self) -> None:
        """Refuse what has two meanings, or hand the request to the application."""
        self._check_head()
        if len(self.pipeline) >= self.pool.limits.pipelined:
            raise _Unwelcome("malformed-request", f"more than {self.pool.limits.pipelined} requests wait for answers")
        super().on_headers_complete()
        self._in_head = False
        self._messages += 1
        self._body_bytes = self._other_bytes = 0
        now = self.loop.time()
        self._body_began, self.deadline = now, now + self.pool.limits.body_seconds

    def _check_head(self) -> None:
        headers, parser = self.headers, cast("httptools.HttpRequestParser", self.parser)
        if len(headers) > self.pool.limits.headers:
            raise _Unwelcome("head-too-large", f"there are more than {self.pool.limits.headers} headers")
        only = dict(headers)
        wrong = said_twice(headers) if len(only) < len(headers) else ""
        wrong = wrong or _wrong_framing(parser.get_http_version(), only, changes=parser.should_upgrade())
        if not wrong and _TARGET.fullmatch(self.url) is None:
            wrong = "the target of the request is not a path"
        if wrong:
            raise _Unwelcome("malformed-request", wrong)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The peer has said all: it is the server's turn."""
        super().on_message_complete()
        self.cycle.more_body = False
        self.deadline = _NEVER

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        cycle.send = partial(_send, cycle, cycle.send)
        super()._start_asgi_task(cycle, app)

    def _let_go(self) -> None:
        """Have the last request refer to itself no more: a search for garbage, which would find it, holds all up."""
        if self._running is not None:
            vars(self._running).pop("send", None)

    def on_response_complete(self) -> None:
        """Begin the next request that waits; without one, wait for the peer."""
        self._let_go()
        self.server_state.total_requests += 1
        if self._closing:
            return
        self.pool.used(self)
        if self._running is not None and self._running.more_body:
            # Answered before the body had come, which nobody will read.
            self.close()
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        elif self._refusal is not None:
            self._answer(*self._refusal)
            return
        self._wait_again(self.loop.time())

    # --------------------------------------------------------------------------------------------------------- refusals

    def _fail(self, name: str, detail: str) -> None:
        """Refuse what comes now from the peer, in its turn, and listen no more."""
        self._deaf = True
        running = self._running
        if running is None or running.response_complete:
            self._answer(name, detail)
        elif not running.more_body:
            # The requests before it are answered first. Itself, if it was begun, waits among them.
            if self.pipeline and self.pipeline[0][0].more_body:
                self.pipeline.popleft()
            self._refusal = name, detail
        elif running.response_started:
            self.abort()
        else:
            running.disconnected = True
            running.message_event.set()
            self._answer(name, detail)

    def _answer(self, name: str, detail: str) -> None:
        """Write a problem document, and end the connection."""
        response = problem_response(name, detail)
        head = [STATUS_LINE[response.status_code]]
        sent = [*self.server_state.default_headers, *response.raw_headers, (HEADER, VERSION), (b"connection", b"close")]
        head += [b"%b: %b\r\n" % header for header in sent]
        self._running = None
        self.transport.write(b"".join([*head, b"\r\n", bytes(response.body)]))
        self.close()

    def send_400_response(self, msg: str) -> None:
        """Answer as for any other request that is not HTTP; uvicorn's own words are plain text."""
        del msg
        self._fail("malformed-request", _SAID["HttpParserError"])

    @property
    def _in_body(self) -> bool:
        return self.cycle is not None and self.cycle.more_body  # pyright: ignore[reportUnnecessaryComparison] - None at first

    def _last_answer_here(self) -> None:
        """Close the connection behind the last request that came."""
        if self.cycle is not None:  # pyright: ignore[reportUnnecessaryComparison] - None at first
            self.cycle.keep_alive = False


async def _send(cycle: RequestResponseCycle, send: ASGISendCallable, message: ASGISendEvent) -> None:
    """Send a piece of an answer, and say that the connection ends behind it where the body has not come yet.

    Nobody will read that body. A client that was not told would send its next request into a connection that is gone.
    """
    if message["type"] == "http.response.start" and cycle.more_body:
        message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
    await send(message)


def _wrong_framing(version: str, headers: Mapping[bytes, bytes], *, changes: bool) -> str:
    """What is wrong with a head that the parser let through, by RFC 9110 and RFC 9112; nothing, if it is sound."""
    if version not in {"1.1", "1.0"}:
        return "this server speaks HTTP/1.1 and HTTP/1.0"
    if version == "1.1" and b"host" not in headers:
        return "there is no header host"  # RFC 9112, section 3.2: answered with 400
    coding = headers.get(b"transfer-encoding")
    if coding is not None and (version == "1.0" or coding.lower() != b"chunked"):
        return "the body is in a transfer-encoding that this server does not know"
    if changes and (coding is not None or b"content-length" in headers):
        # The parser takes what follows for the other protocol, a client whose wish was not heard for the body.
        return "this server does not change protocols"
    if headers.get(b"expect", _CONTINUE).lower() != _CONTINUE:
        return "the header expect asks for what this server does not do"
    return ""


class _Unwelcome(Exception):  # noqa: N818 - it is raised through the parser, and never leaves this file
    """A head that is refused, and as what."""

    def __init__(self, problem: str, detail: str) -> None:
        self.problem, self.detail = PROBLEMS[problem].name, detail
        super().__init__(problem)


def guarded(limits: ConnectionLimits, tls: ssl.SSLContext | None = None) -> type[GuardedProtocol]:
    """The protocol class of one server, which speaks TLS if there is something to speak it with."""
    return type("GuardedProtocol", (GuardedProtocol,), {"pool": Connections(limits), "tls": tls})
