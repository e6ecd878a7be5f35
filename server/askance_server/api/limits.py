"""Limits of every request: its version and the length of its body. A plain ASGI callable, to cost little."""

from __future__ import annotations

import contextlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from askance_server import problems
from askance_server.api.version import HEADER, VERSION, version_problem


class _TooLargeError(Exception):
    pass


class _Counted:
    """A request body that is read no further than the limit."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._limit = receive, limit
        self._total = 0

    @property
    def too_large(self) -> bool:
        """Whether more arrived than the limit allows."""
        return self._total > self._limit

    async def __call__(self) -> Message:
        """Receive the next piece of the body."""
        message = await self._receive()
        self._total += len(message.get("body", b""))
        if self.too_large:
            raise _TooLargeError
        return message


class Limits:
    """Refuses another version before anything is done, and a body beyond the limit as soon as it shows."""

    def __init__(self, app: ASGIApp, body_limit: int) -> None:
        self._app, self._limit = app, body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request and pass it on. Every response carries the version."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        started = False

        async def speak(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"] = [*message.get("headers", []), (HEADER, VERSION)]
            await send(message)

        if headers.get(HEADER, VERSION) != VERSION:
            detail = version_problem(headers[HEADER])
            await problems.problem_response("version-mismatch", detail)(scope, receive, speak)
            return
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._limit:
            await self._too_large(scope, receive, speak)
            return
        body = _Counted(receive, self._limit)

        async def answer(message: Message) -> None:
            # The framework takes what `body` raised for a body that is not JSON: that answer is not sent.
            if started or not body.too_large:
                await speak(message)

        with contextlib.suppress(_TooLargeError):
            await self._app(scope, body, answer)
        if body.too_large and not started:
            await self._too_large(scope, receive, speak)

    async def _too_large(self, scope: Scope, receive: Receive, send: Send) -> None:
        detail = f"the body is longer than {self._limit} bytes"
        response = problems.problem_response("body-too-large", detail, headers={"Connection": "close"})
        await response(scope, receive, send)
