"""`/healthz`, `/readyz`, `/metrics`: whether the server lives, whether it can keep reports, and its counts."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse

from askance_protocol.rounds.spec import VERSION as PROTOCOL_VERSION
from askance_server.api.dependencies import TheAggregator
from askance_server.api.description import VERSION
from askance_server.api.models import Status
from askance_server.ledger import LedgerError
from askance_server.problems import ProblemError, responses

router = APIRouter()


@router.get("/healthz")
async def healthz() -> Status:
    """The process is alive."""
    return _status("alive")


@router.get("/readyz", responses=responses("not-ready"))
async def readyz(aggregator: TheAggregator) -> Status:
    """The ledger can be written."""
    try:
        await aggregator.check_writable()
    except (LedgerError, TimeoutError) as error:
        raise ProblemError("not-ready", "the ledger cannot be written") from error
    return _status("ready")


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(aggregator: TheAggregator) -> Response:
    """Counts and durations in the Prometheus text format."""
    return Response(await aggregator.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _status(status: str) -> Status:
    return Status(status=status, version=VERSION, protocol=PROTOCOL_VERSION)
