"""Which endpoints a page from elsewhere may speak to: those of somebody who takes part, and no others.

Theory of operation
-------------------
A person need not take the page in which she answers from the aggregator: she may have it as a file, whose digest she
has compared. Then it comes from another origin, and her browser asks the server whether it may read what it is answered
(the Fetch standard's CORS protocol). It may, at the endpoints that take part in a study: read the study that she named,
its bulletin and rounds, enrol, report, and read her account.

Nothing is lost by it. There are no cookies, and an answer says `*`, with which no browser sends any: a page that has no
token is anybody. What an operator or a gateway does, and the lists of a server, are not for pages from elsewhere.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

PARTICIPANTS: Final = (
    ("GET", r"/v1/studies/[^/]+"),
    ("GET", r"/v1/studies/[^/]+/bulletin"),
    ("GET", r"/v1/rounds/[^/]+"),
    ("POST", r"/v1/rounds/[^/]+/reports"),
    ("POST", r"/v1/enrolments"),
    ("GET", r"/v1/me"),
)
"""Methods and paths that a page from elsewhere may use."""

_OPEN: Final = re.compile("|".join(f"{method} {path}" for method, path in PARTICIPANTS))
_ANYBODY: Final = (b"access-control-allow-origin", b"*")
_ANSWER: Final = (_ANYBODY, (b"access-control-expose-headers", b"askance-protocol, etag, retry-after"))
_ASKED: Final = b"access-control-request-method"
_MAY_SEND: Final = b"askance-protocol, authorization, content-type, if-none-match"
_SECONDS: Final = b"600"


class CrossOrigin:
    """Tells browsers that pages from elsewhere may use the endpoints of participants."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; answer what a browser asks before one."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method: str = scope["method"]
        if method == "OPTIONS":
            asked = dict(scope["headers"]).get(_ASKED, b"").decode("latin-1")
            if _OPEN.fullmatch(f"{asked} {scope['path']}"):
                await send(_preflight(asked))
                await send({"type": "http.response.body"})
                return
        elif _OPEN.fullmatch(f"{method} {scope['path']}"):
            await self._app(scope, receive, _telling(send))
            return
        await self._app(scope, receive, send)


def _preflight(method: str) -> Message:
    headers = [
        _ANYBODY,
        (b"access-control-allow-methods", method.encode()),
        (b"access-control-allow-headers", _MAY_SEND),
        (b"access-control-max-age", _SECONDS),
    ]
    return {"type": "http.response.start", "status": 204, "headers": headers}


def _telling(send: Send) -> Send:
    """The same, whose answers say that any page may read them."""

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_ANSWER]
        await send(message)

    return tell
