"""Limits of every request: its version and the length that it announces. A plain ASGI callable, to cost little."""

from __future__ import annotations

from starlette.datastructures import State
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from askance_server.api.version import HEADER, VERSION, headers_of, length_of
from askance_server.problems import ProblemError, problem_response


class Limits:
    """Refuses another version and a body beyond any limit before anything is done; what a route takes, `gate` says."""

    def __init__(self, app: ASGIApp, body_limit: int, state: State) -> None:
        self._app, self._limit, self._state = app, body_limit, state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request and pass it on. Every response carries the version."""
        if scope["type"] != "http":
            await self._app(scope, receive, self._refusing(send))
            return

        async def speak(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (HEADER, VERSION)]
            await send(message)

        try:
            headers = headers_of(scope)
        except ProblemError as error:
            await problem_response(error.name, error.detail)(scope, receive, speak)
            return
        if (length_of(headers) or 0) > self._limit:
            detail = f"the body is longer than {self._limit} bytes"
            await problem_response("body-too-large", detail)(scope, receive, speak)
        else:
            await self._app(scope, receive, speak)

    def _refusing(self, send: Send) -> Send:
        """Say in one line why the application refuses to start, where the framework gives its traceback."""

        async def refuse(message: Message) -> None:
            refused: str | None = getattr(self._state, "refused", None)
            if message["type"] == "lifespan.startup.failed" and refused is not None:
                message["message"] = refused
            await send(message)

        return refuse
