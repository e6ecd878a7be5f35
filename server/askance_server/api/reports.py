"""`POST /v1/rounds/{id}/reports`: one user's report, by the cheapest path that keeps the contract.

A plain ASGI callable in front of the application, because most requests are this one: it reads the token, the body
of 64 bytes at most, queues the report and answers when the report is on disk. Everything else is passed on.
"""

from __future__ import annotations

import asyncio
import json
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from askance_protocol.canonical import DIGEST
from askance_protocol.errors import AskanceError, ProtocolError
from askance_protocol.reports import MAX_REPORT_BYTES, decode_report
from askance_server import problems
from askance_server.aggregator import Aggregator
from askance_server.api.gate import trust
from askance_server.api.version import HEADER, VERSION, headers_of
from askance_server.ledger import NotFoundError, Verdict
from askance_server.problems import PROBLEMS, ProblemError, ProblemOccurrence, problem_of

PREFIX: Final = "/v1/rounds/"
SUFFIX: Final = "/reports"

_Answer = tuple[int, bytes, bytes]
_JSON: Final = b"application/json"
_MORE_HEADERS: Final = {
    each.status: tuple((name.lower().encode(), value.encode()) for name, value in each.headers.items())
    for each in PROBLEMS.values()
}


class ReportPath:
    """Answers single reports in front of the application, and passes on everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a report; pass on anything else."""
        if scope["type"] == "http" and scope["method"] == "POST":
            path: str = scope["path"]
            if path.startswith(PREFIX) and path.endswith(SUFFIX):
                try:
                    status, kind, body = await _answer(scope, receive, path[len(PREFIX) : -len(SUFFIX)])
                except asyncio.CancelledError:
                    # The server stops and has waited long enough. Whether the report counts, a retry will tell.
                    status, kind, body = _document(ProblemOccurrence("not-ready", "the server stops"))
                await send(_start(status, kind, body))
                await send({"type": "http.response.body", "body": body})
                return
        await self._app(scope, receive, send)


async def _answer(scope: Scope, receive: Receive, round_: str) -> _Answer:
    """The receipt, or the problem document."""
    try:
        return await _report(scope, receive, round_)
    except (AskanceError, ProblemError) as error:
        found = problem_of(error)
        if found.name == "internal":
            raise
        return _document(found)


def _document(found: ProblemOccurrence) -> _Answer:
    document = problems.problem(found.name, found.detail, **found.extra)
    return PROBLEMS[found.name].status, problems.MEDIA_TYPE.encode(), json.dumps(document).encode()


async def _report(scope: Scope, receive: Receive, round_: str) -> _Answer:
    """Check what is public first, then queue; the receipt comes when the report is on disk.

    Whether the token was revoked is looked up for a whole group, when it is committed.
    """
    aggregator: Aggregator = scope["app"].state.aggregator
    headers = headers_of(scope)
    if headers.get(b"content-type", _JSON).split(b";")[0].strip().lower() != _JSON:
        raise ProblemError("unsupported-media-type", "send the report as application/json")
    token = aggregator.keys.user_token(headers.get(b"authorization"))
    trust(scope)
    if DIGEST.fullmatch(round_) is None:
        # The ledger is asked for what can be a name only: a database refuses some texts as no text at all.
        raise NotFoundError("there is no such round")
    prepared = await aggregator.round(round_)
    outcome = _outcome(await _body(receive), prepared.outcomes)
    verdict = await aggregator.committer.submit(round_, token.user, outcome, token.epoch)
    if verdict > Verdict.REPEATED:
        raise ProblemError(problems.OF_VERDICT[verdict])
    receipt = b'{"charged":%d,"round":"%b","user":%d}'
    return 200, _JSON, receipt % (prepared.charge_of(token.user), round_.encode(), token.user)


async def _body(receive: Receive) -> bytes:
    """The body, unless it is longer than a report can be."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_REPORT_BYTES:
            raise ProblemError("body-too-large", f"a report has {MAX_REPORT_BYTES} bytes at most")
        if not message.get("more_body", False):
            return body


def _outcome(body: bytes, outcomes: int) -> int:
    try:
        return decode_report(body, outcomes)
    except ProtocolError as error:
        raise ProblemError("invalid-report", str(error)) from None


def _start(status: int, kind: bytes, body: bytes) -> Message:
    headers = [(b"content-type", kind), (b"content-length", b"%d" % len(body)), (HEADER, VERSION)]
    headers += _MORE_HEADERS.get(status, ())
    return {"type": "http.response.start", "status": status, "headers": headers}
