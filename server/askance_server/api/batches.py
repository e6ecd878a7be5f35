"""`POST /v1/rounds/{id}/batches`: reports of many simulated users, from a gateway that speaks for them.

A million users arrive as a hundred batches, and of what a batch costs the framework was a third. So raw columns with a
good token are taken in front of the application, as single reports are. What is not plainly such a request is passed on
to the endpoint (`post_batch`); both do the same with what they read (`deliver`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import numpy as np
from fastapi import APIRouter, Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from askance_protocol.arrays import Truths
from askance_protocol.canonical import DIGEST
from askance_protocol.reports import ReportBatch, decode_columns, decode_raw
from askance_protocol.rounds import PreparedRound
from askance_server.aggregator import Aggregator
from askance_server.api import front
from askance_server.api.dependencies import JSON, DigestInPath, GatewayOnly, TheAggregator, media_type
from askance_server.api.description import BATCH_BODY
from askance_server.api.gate import BodyLimit, GatedRoute, read_body, trust
from askance_server.api.models import BatchVerdicts
from askance_server.api.version import headers_of, length_of
from askance_server.auth import ForbiddenError, GatewayToken
from askance_server.ledger import Ledger, UserKind, Users, Verdict, Verdicts
from askance_server.problems import OF_VERDICT, ProblemError, responses

router = APIRouter(prefix="/v1", route_class=GatedRoute)

RAW: Final = "application/octet-stream"

_DECODED: Final[Mapping[str, Callable[[bytes], ReportBatch]]] = {JSON: decode_columns, RAW: decode_raw}


class BatchPath:
    """Takes raw batches in front of the application, and passes on everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a batch in raw columns with a good token; pass on anything else, unread."""
        round_ = front.round_of(scope, "batches") or ""
        token = _plain(scope) if DIGEST.fullmatch(round_) else None
        if token is not None:
            await front.give(send, partial(_taken, scope["app"].state.aggregator, round_, token, receive))
            return
        await self._app(scope, receive, send)


def _plain(scope: Scope) -> GatewayToken | None:
    """The token of a request for raw columns that says how long they are; None where the application has to look."""
    aggregator: Aggregator = scope["app"].state.aggregator
    try:
        headers = headers_of(scope)
        length = length_of(headers)
        if headers.get(b"content-type") != RAW.encode() or b"expect" in headers:
            return None
        if length is None or length > aggregator.settings.body_limit:
            return None
        token = aggregator.keys.gateway_token(headers.get(b"authorization"))
    except Exception:
        return None  # Whatever it is, the application meets it too, and knows what to say.
    trust(scope)
    return token


async def _taken(aggregator: Aggregator, round_: str, token: GatewayToken, receive: Receive) -> front.Given:
    body = await read_body(receive, aggregator.settings.body_limit)
    verdicts = await deliver(aggregator, token, round_, lambda: decode_raw(body))
    return 200, front.JSON, verdicts.model_dump_json().encode()


@router.post(
    "/rounds/{round_}/batches",
    responses=responses("not-found", "unauthorized", "forbidden", "invalid-request", "unsupported-media-type"),
    openapi_extra=BATCH_BODY,
    dependencies=[Depends(BodyLimit(None))],
)
async def post_batch(
    round_: DigestInPath, request: Request, aggregator: TheAggregator, token: GatewayOnly
) -> BatchVerdicts:
    """Reports of many simulated users, from a gateway that speaks for them; for a real user none does."""
    kind, body = media_type(request), await request.body()

    def decoded() -> ReportBatch:
        if kind not in _DECODED:
            raise ProblemError("unsupported-media-type", "send application/json or application/octet-stream")
        return _DECODED[kind](body)

    return await deliver(aggregator, token, round_, decoded)


async def deliver(
    aggregator: Aggregator, token: GatewayToken, id_: str, decoded: Callable[[], ReportBatch]
) -> BatchVerdicts:
    """What becomes of a gateway's reports to a round, when they are on disk. A thread decodes them."""
    round_ = await aggregator.round(id_)
    token.require(round_.spec.study, simulated=round_.study.simulated, users=np.zeros(0, np.uint64))

    def read() -> tuple[ReportBatch, Truths]:
        batch = decoded()
        return batch, _spoken_for(aggregator.ledger, token, round_, batch.users)

    # In one go: each change of threads takes a tenth of what a batch does.
    batch, known = await aggregator.ask(read)
    if known.all():
        return _batch_verdicts(await aggregator.committer.submit_batch(id_, batch.users, batch.outcomes))
    # Who is not enrolled by now is not asked about again: she may come in between, and be a real user.
    verdicts = np.full(len(batch), Verdict.UNKNOWN_USER, np.uint8)
    some = aggregator.committer.submit_batch(id_, batch.users[known], batch.outcomes[known])
    verdicts[known] = await some
    aggregator.metrics.decided(batch.users[~known], verdicts[~known])
    return _batch_verdicts(verdicts)


def _spoken_for(ledger: Ledger, token: GatewayToken, round_: PreparedRound, users: Users) -> Truths:
    """Truths for these users: whether each is enrolled. ForbiddenError if the gateway may not speak for one who is."""
    known = users < ledger.enrolled()
    there = users if known.all() else users[known]
    token.require(round_.spec.study, simulated=round_.study.simulated, users=there)
    real = ledger.kinds().are(there, {UserKind.REAL})
    if real.any():
        first = int(there[real.argmax()])
        raise ForbiddenError(f"user {first} is a real user, who reports for herself: no gateway speaks for her")
    return known


def _batch_verdicts(verdicts: Verdicts) -> BatchVerdicts:
    if not verdicts.any():
        return BatchVerdicts(accepted=len(verdicts), repeated=0, refused={}, first_refused={})
    counts = np.bincount(verdicts, minlength=len(Verdict)).tolist()
    refused = {verdict: counts[verdict] for verdict in Verdict if counts[verdict] and verdict > Verdict.REPEATED}
    return BatchVerdicts(
        accepted=counts[Verdict.ACCEPTED],
        repeated=counts[Verdict.REPEATED],
        refused={OF_VERDICT[verdict]: count for verdict, count in refused.items()},
        first_refused={OF_VERDICT[verdict]: int((verdicts == verdict).argmax()) for verdict in refused},
    )
