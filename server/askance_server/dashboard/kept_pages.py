"""Pages of a study that somebody follows, as they are kept: by the cheapest path, in front of the application.

Whoever is told that something has changed asks for the page that shows it, hundreds of them within a second, and for
each the same bytes are there (`feeds`). So these go out without a look at routes, dependencies and limits; whatever is
not there, or not quite usual, is passed on.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from askance_server.aggregator import Aggregator
from askance_server.api.version import HEADER, LENGTH, VERSION, headers_of
from askance_server.dashboard.responses import asked, tagged_page
from askance_server.problems import ProblemError
from askance_server.public_answers import PublicAnswer, PublicQuestion


class KeptPages:
    """Answers what is kept, and passes on everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a page that is kept; pass on anything else."""
        answer = _kept(scope) if scope["type"] == "http" and scope["method"] == "GET" else None
        await (self._app if answer is None else answer)(scope, receive, send)


def _kept(scope: Scope) -> Response | None:
    """The page that is asked for, if it is kept."""
    question = _question(scope["path"], scope["query_string"])
    if question is None:
        return None
    aggregator: Aggregator = scope["app"].state.aggregator
    feed = aggregator.feeds.of(question[-1])
    answer = None if feed is None else feed.kept(asked(*question))
    if not isinstance(answer, PublicAnswer):
        return None
    try:
        if LENGTH in headers_of(scope):
            return None
    except ProblemError:
        return None
    response = tagged_page(Request(scope), answer)
    response.raw_headers.append((HEADER, VERSION))
    return response


def _question(path: str, query: bytes) -> PublicQuestion | None:
    """By what a live page is kept; the last of it is the study."""
    if path == "/wall/now":
        given = parse_qsl(query)
        return ("wall now", given[0][1].decode("latin-1")) if [name for name, _ in given] == [b"study"] else None
    kind, _, study = path[1:].partition("/")
    return ("study", study) if kind == "studies" and not query else None
