"""Answers in front of the application: how a plain ASGI callable says what it found, or what is wrong."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from starlette.requests import ClientDisconnect
from starlette.types import Scope, Send

from askance_protocol.errors import AskanceError
from askance_server import problems
from askance_server.api.version import HEADER, VERSION
from askance_server.problems import PROBLEMS, ProblemError, ProblemOccurrence, problem_of

JSON: Final = b"application/json"
_ROUNDS: Final = "/v1/rounds/"

Given: TypeAlias = tuple[int, bytes, bytes]
"""Status, media type and body."""

_MORE_HEADERS: Final = {
    each.status: tuple((name.lower().encode(), value.encode()) for name, value in each.headers.items())
    for each in PROBLEMS.values()
}


def round_of(scope: Scope, of: str) -> str | None:
    """The round to whose `of`, such as its reports, something is posted; None where a request is anything else."""
    if scope["type"] == "http" and scope["method"] == "POST":
        path: str = scope["path"]
        if path.startswith(_ROUNDS) and path.endswith(f"/{of}"):
            return path[len(_ROUNDS) : -len(of) - 1]
    return None


async def give(send: Send, work: Callable[[], Awaitable[Given]]) -> None:
    """Send the answer that comes of the work, or the problem document of what it raises."""
    try:
        status, kind, body = await work()
    except ClientDisconnect:
        return  # Nobody is there to be told.
    except asyncio.CancelledError:
        # The server stops and has waited long enough. Whether a report counts, a retry will tell.
        status, kind, body = _document(ProblemOccurrence("not-ready", "the server stops"))
    except (AskanceError, ProblemError) as error:
        found = problem_of(error)
        if found.name == "internal":
            raise
        status, kind, body = _document(found)
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", kind), (HEADER, VERSION)]
    headers += _MORE_HEADERS.get(status, ())
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _document(found: ProblemOccurrence) -> Given:
    document = problems.problem(found.name, found.detail, **found.extra)
    return PROBLEMS[found.name].status, problems.MEDIA_TYPE.encode(), json.dumps(document).encode()
