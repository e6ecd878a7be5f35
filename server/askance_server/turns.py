"""Turns: a request on which nobody has shown a token is begun when no device waits, and few pages are made at a time.

Theory of operation
-------------------
One event loop answers all. Two hundred sockets that ask again as soon as they are answered would have it serve two
hundred requests before a device's next one, whatever each of them costs. So requests without a token are begun *one by
one*, with a pause between two. A device's request then waits for one other, not for two hundred. The connection that
was let in longest ago, or never before, is the next. Requests on a connection with a genuine token wait for nobody.

*Two lines.* What devices need to take part (`NEEDED`) is short, and is begun in its turn. Everything else has to be
one of `AT_ONCE` that are under way: threads of their own work them out (`Aggregator.show`). The list names what devices
need, so a new page is bounded unless somebody exempts it. A request that waits for its peer counts no longer.

*Bounded.* Beyond `MOST_WAITING` a request is refused, with 503 and Retry-After. The refusal comes after a moment: a
stranger who asks again after each refusal would otherwise cost as much as before.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, cast

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from askance_server.api.connections import EXTENSION
from askance_server.dashboard.responses import problem_page, wants_page
from askance_server.problems import ProblemOccurrence, problem_response

NEEDED: Final = re.compile(
    r"/(healthz|readyz|t|take-part|take-part/.*|assets/.*)"
    r"|/v1/(me|enrolments|enrolment-tokens|enrolment-codes|users|users/.*)"
    r"|/v1/studies/[^/]*/(bulletin|cancel)|/v1/rounds/[^/]*(/reports|/batches|/close)?"
)
"""What devices need to take part, and operators to run a study."""
_EVENTS: Final = re.compile(r"/v1/studies/[^/]*/events")
PAUSE: Final = 0.0005
"""Seconds between two that are begun: in between the loop is free for a device."""
AT_ONCE: Final = 8
"""Other requests that are under way."""
MOST_WAITING: Final = 256
"""Requests that wait in each of the two lines."""
REFUSED_AFTER: Final = 1.0
"""Seconds after which a request is refused that finds no place in its line."""


LARGE: Final = 64 << 10
"""Bytes of a piece that a peer does not take in one go."""
SENT_AT_ONCE: Final = 4
SENT_WITHIN: Final = 0.2
"""Large pieces that are being sent, and the seconds after which another one is sent beside one that nobody takes."""


class FullError(Exception):
    """There is no place in the line."""


@dataclass(slots=True)
class Line:
    """Who waits to be begun. For one event loop."""

    needed: list[tuple[float, int, asyncio.Future[None]]] = field(
        default_factory=list[tuple[float, int, "asyncio.Future[None]"]]
    )
    others: list[tuple[float, int, asyncio.Future[None]]] = field(
        default_factory=list[tuple[float, int, "asyncio.Future[None]"]]
    )
    under_way: int = 0
    """Of the others."""
    sending: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(SENT_AT_ONCE))
    """For large pieces: two hundred that are being sent would each have their share of every turn of the loop."""
    _numbers: count[int] = field(default_factory=count)
    _begun: bool = False
    """Whether one was begun a moment ago."""
    _was_needed: bool = False

    async def turn(self, rank: float, *, other: bool, again: bool = False) -> None:
        """Wait to be begun: the lowest rank first; FullError if too many wait, but for one who goes on."""
        waiting = self.others if other else self.needed
        if not (self._begun or waiting or (other and self.under_way >= AT_ONCE)):
            self._begin(other=other)
            return
        if len(waiting) >= MOST_WAITING and not again:
            raise FullError
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heappush(waiting, (rank, next(self._numbers), mine))
        self._go_on()
        try:
            await mine
        except asyncio.CancelledError:
            if other and mine.done() and not mine.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """One of the others is not under way any more."""
        self.under_way -= 1
        self._go_on()

    def _begin(self, *, other: bool) -> None:
        self.under_way += other
        self._was_needed = not other
        self._begun = True
        asyncio.get_running_loop().call_later(PAUSE, self._next)

    def _go_on(self) -> None:
        if not self._begun:
            self._next()

    def _next(self) -> None:
        """Begin the next one, of either line in turn."""
        self._begun = False
        may = self.others and self.under_way < AT_ONCE
        while self.needed or may:
            other = bool(may and (self._was_needed or not self.needed))
            _, _, mine = heappop(self.others if other else self.needed)
            if not mine.cancelled():
                mine.set_result(None)
                self._begin(other=other)
                return
            may = self.others and self.under_way < AT_ONCE


@dataclass(slots=True)
class Place:
    """The place of one request: whether it counts among those that are under way."""

    line: Line
    rank: float
    other: bool
    holds: bool = False
    streams: bool = False
    """Whether it is an endless stream, which is told in turns of its own (`feeds`)."""

    async def take(self, *, again: bool = False) -> None:
        """Wait to be begun, or to go on."""
        await self.line.turn(self.rank, other=self.other, again=again)
        self.holds = self.other

    def give_back(self) -> None:
        """Count no longer."""
        if self.holds:
            self.holds = False
            self.line.leave()


class Turns:
    """Begins requests in turns."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._line: Line | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on when it is its turn, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        connection = cast("dict[str, Any]", scope.get("extensions") or {}).get(EXTENSION)
        other = NEEDED.fullmatch(scope["path"]) is None
        if not other and connection is not None and connection.trusted:
            await self._app(scope, receive, send)
            return
        if self._line is None:
            self._line = Line()
        place = Place(self._line, 0.0 if connection is None else connection.let_in, other)
        place.streams = _EVENTS.fullmatch(scope["path"]) is not None
        try:
            await place.take()
        except FullError:
            await _refuse(scope, receive, send)
            return
        if connection is not None:
            if connection.transport.is_closing():
                # Nobody waits any more: a stranger who asks and goes, over and over, is worth no work.
                place.give_back()
                return
            connection.let_in = asyncio.get_running_loop().time()
        scope["askance.turn"] = place  # Until a token is shown: `gate.trust`.
        try:
            await self._app(scope, _given_back(place, scope, receive), _in_turns(place, send, connection))
        finally:
            place.give_back()


def _given_back(place: Place, scope: Scope, receive: Receive) -> Receive:
    """Receive what is sent more, and meanwhile count no longer: a body may come in drops."""
    if scope["method"] in {"GET", "HEAD"}:
        return receive

    async def received() -> Message:
        held = place.holds
        place.give_back()
        message = await receive()
        if held:
            await place.take(again=True)
        return message

    return received


def _in_turns(place: Place, send: Send, connection: Any) -> Send:
    """Send, and count no longer: from here on it is the peer who is waited for. Each piece more waits for a turn."""

    async def taken(message: Message) -> None:
        """Send a large piece, and wait for a moment until the peer has taken most of it."""
        async with place.line.sending:
            await send(message)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SENT_WITHIN):
                    await connection.flow.drain()

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.body" and message.get("more_body") and not place.streams:
            await place.take(again=True)
        place.give_back()
        large = connection is not None and len(message.get("body", b"")) > LARGE
        await (taken if large else send)(message)

    return sent


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(REFUSED_AFTER)
    request, found = Request(scope), ProblemOccurrence("not-ready", "too many requests without a token wait")
    page = wants_page(request)
    await (problem_page(found) if page else problem_response(found.name, found.detail))(scope, receive, send)
