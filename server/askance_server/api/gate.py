"""The gate before an endpoint: first the token, then as much of the body as the endpoint takes, then the endpoint.

The framework reads a body, and makes objects of it, before it looks at what an endpoint depends on. So a stranger's
31 MB of JSON would keep everybody waiting for six seconds, to be told that there is no token. A `GatedRoute` reads the
token from the headers first. Which token an endpoint takes stands at the endpoint, as a dependency that is a
`TokenGate`; how long its body may be, as one that is a `BodyLimit`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Annotated, Any, Final, cast

from fastapi import Header, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope

from askance_server.aggregator import Aggregator
from askance_server.api.connections import EXTENSION
from askance_server.auth import AuthError, Token, UserToken, bearer
from askance_server.problems import ProblemError

SMALL_BODY: Final = 16 << 10
"""Bytes of a body where an endpoint does not say more."""

Authorization = Annotated[str, Header()]


class TokenGate:
    """An endpoint's dependency on a token of one of these roles. Its value is the token."""

    def __init__(self, *kinds: type[Token]) -> None:
        self.kinds = kinds

    async def __call__(self, request: Request, authorization: Authorization = "") -> Token:
        """The token that the gate found. The header is named for the description; it was read before."""
        del authorization
        token: object = request.scope.get("askance.token")
        if not isinstance(token, self.kinds):
            # The endpoint is not a `GatedRoute`: closed rather than open.
            raise AuthError
        return token

    async def check(self, request: Request) -> None:
        """Read the token from the headers, and note that this connection has shown a genuine one."""
        aggregator: Aggregator = request.app.state.aggregator
        header = request.headers.get("authorization", "").encode("latin-1")
        token = aggregator.keys.read(bearer(header), *self.kinds)
        if isinstance(token, UserToken):
            token.require_epoch(await aggregator.ask(partial(aggregator.ledger.epoch, token.user)))
        trust(request.scope)
        request.scope["askance.token"] = token


class BodyLimit:
    """An endpoint's dependency that says how many bytes its body may have; without a number, as the settings say."""

    def __init__(self, most: int | None) -> None:
        self.most = most

    async def __call__(self) -> None:
        """Nothing: the gate has looked at the number."""


class GatedRoute(APIRoute):
    """An endpoint behind the gate."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint's handler, with the gate before it."""
        handle = super().get_route_handler()
        marks = [each.call for each in _all(self.dependant)]
        gates = [mark for mark in marks if isinstance(mark, TokenGate)]
        limits = [mark.most for mark in marks if isinstance(mark, BodyLimit)] or [SMALL_BODY]

        async def gated(request: Request) -> Response:
            for gate in gates:
                await gate.check(request)
            if request.method == "GET":
                return await handle(request)
            settings = request.app.state.aggregator.settings
            most = settings.body_limit if limits[0] is None else min(limits[0], settings.body_limit)
            return await handle(_with_body(request, await read_body(request.receive, most)))

        return gated


def trust(scope: Scope) -> None:
    """Tell the connection of a request that a genuine token was shown on it."""
    connection = cast("dict[str, Any]", scope.get("extensions") or {}).get(EXTENSION)
    if connection is not None:
        connection.trust()
    if (place := scope.get("askance.turn")) is not None:
        # What an operator asks for may take long.
        place.give_back()


def _all(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for each in dependant.dependencies:
        yield from _all(each)


async def read_body(receive: Receive, most: int) -> bytes:
    """The body, read no further than the limit."""
    pieces, size = list[bytes](), 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > most:
            raise ProblemError("body-too-large", f"the body is longer than {most} bytes")
        if not message.get("more_body", False):
            return b"".join(pieces)


def _with_body(request: Request, body: bytes) -> Request:
    """The same request, whose body has been read."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return first.pop() if first else await request.receive()

    return Request(request.scope, receive)
