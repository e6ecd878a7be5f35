"""`POST /v1/rounds/{id}/reports`: one user's report, by the cheapest path that keeps the contract.

A plain ASGI callable in front of the application, because most requests are this one: it reads the token, the body
of 64 bytes at most, queues the report and answers when the report is on disk. Everything else is passed on.
"""

from __future__ import annotations

from functools import partial

from starlette.types import ASGIApp, Receive, Scope, Send

from askance_protocol.canonical import DIGEST
from askance_protocol.errors import ProtocolError
from askance_protocol.reports import MAX_REPORT_BYTES, decode_report
from askance_server import problems
from askance_server.aggregator import Aggregator
from askance_server.api import front
from askance_server.api.gate import trust
from askance_server.api.version import headers_of, length_of
from askance_server.ledger import NotFoundError, Verdict
from askance_server.problems import ProblemError


class ReportPath:
    """Answers single reports in front of the application, and passes on everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a report; pass on anything else."""
        round_ = front.round_of(scope, "reports")
        if round_ is None:
            await self._app(scope, receive, send)
        else:
            await front.give(send, partial(_report, scope, receive, round_))


async def _report(scope: Scope, receive: Receive, round_: str) -> front.Given:
    """Check what is public first, then queue; the receipt comes when the report is on disk.

    Whether the token was revoked is looked up for a whole group, when it is committed.
    """
    aggregator: Aggregator = scope["app"].state.aggregator
    headers = headers_of(scope)
    if headers.get(b"content-type", front.JSON).split(b";")[0].strip().lower() != front.JSON:
        raise ProblemError("unsupported-media-type", "send the report as application/json")
    token = aggregator.keys.user_token(headers.get(b"authorization"))
    trust(scope)
    if DIGEST.fullmatch(round_) is None:
        # The ledger is asked for what can be a name only: a database refuses some texts as no text at all.
        raise NotFoundError("there is no such round")
    prepared = await aggregator.round(round_)
    outcome = _outcome(await _body(receive, length_of(headers) or 0), prepared.outcomes)
    verdict = await aggregator.committer.submit(round_, token.user, outcome, token.epoch)
    if verdict > Verdict.REPEATED:
        raise ProblemError(problems.OF_VERDICT[verdict])
    receipt = b'{"charged":%d,"round":"%b","user":%d}'
    return 200, front.JSON, receipt % (prepared.charge_of(token.user), round_.encode(), token.user)


async def _body(receive: Receive, announced: int) -> bytes:
    """The body, unless it is longer than a report can be, or says that it will be."""
    body, more = b"", True
    while more and max(announced, len(body)) <= MAX_REPORT_BYTES:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if max(announced, len(body)) > MAX_REPORT_BYTES:
        raise ProblemError("body-too-large", f"a report has {MAX_REPORT_BYTES} bytes at most")
    return body


def _outcome(body: bytes, outcomes: int) -> int:
    try:
        return decode_report(body, outcomes)
    except ProtocolError as error:
        raise ProblemError("invalid-report", str(error)) from None
