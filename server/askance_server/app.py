"""The service: the endpoints of the contract on one aggregator."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from askance_protocol.errors import ProtocolError
from askance_server.aggregator import Aggregator
from askance_server.api import description, health, rounds, studies, users
from askance_server.api.limits import Limits
from askance_server.api.reports import ReportPath
from askance_server.auth import AuthError, ForbiddenError, open_keys, write_tokens
from askance_server.group_commit import QueueFullError
from askance_server.ledger import LedgerError, NotFoundError, open_ledger
from askance_server.problems import ProblemError, detail_of, problem_response
from askance_server.settings import Settings
from askance_server.strategies.registry import registry

_LOG = logging.getLogger(__name__)


def create_app(settings: Settings, *, stop: Callable[[], None] | None = None) -> FastAPI:
    """The application. Its ledger is opened when it starts and closed when it stops."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        aggregator = _aggregator(settings, stop or _terminate)
        aggregator.start()
        app.state.aggregator = aggregator
        yield
        await aggregator.finish()

    app = FastAPI(
        title="Askance",
        summary="Ask a population anything; learn no one's answer.",
        version=description.VERSION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # No type is JSON. There are no cookies, so a foreign page has nothing to gain by leaving it out.
        strict_content_type=False,
    )
    for resource in (studies, users, rounds, health):
        app.include_router(resource.router)
    for kind, name in _PROBLEMS.items():
        app.add_exception_handler(kind, name)
    app.add_middleware(Limits, body_limit=settings.body_limit)
    # Added last, so it comes first: a report passes through nothing else.
    app.add_middleware(ReportPath)
    description.describe(app)
    return app


def _aggregator(settings: Settings, stop: Callable[[], None]) -> Aggregator:
    directory = settings.directory
    keys = open_keys(directory, settings.server_key_bytes)
    write_tokens(directory, keys)
    return Aggregator(settings, open_ledger(settings.database), keys, registry(), stop)


def _terminate() -> None:
    """End this process in good order: uvicorn stops taking requests and runs the lifespan to its end."""
    os.kill(os.getpid(), signal.SIGTERM)


# ------------------------------------------------------------------------------- what goes wrong, as problem documents


async def _on_problem(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)  # noqa: S101 - registered for it
    return problem_response(error.name, error.detail)


async def _on_auth(_: Request, error: Exception) -> Response:
    assert isinstance(error, AuthError)  # noqa: S101 - registered for it
    return problem_response("forbidden" if isinstance(error, ForbiddenError) else "unauthorized", str(error))


async def _on_protocol(_: Request, error: Exception) -> Response:
    return problem_response("invalid-request", str(error))


async def _on_not_found(_: Request, error: Exception) -> Response:
    return problem_response("not-found", str(error.args[0]) if error.args else "")


async def _on_full(_: Request, __: Exception) -> Response:
    return problem_response("queue-full", "too much waits; nothing was done for this request")


async def _on_ledger(_: Request, __: Exception) -> Response:
    return problem_response("not-ready", "the ledger cannot be written; nothing was acknowledged")


async def _on_validation(_: Request, error: Exception) -> Response:
    """The first complaint, with its place; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    errors: list[dict[str, Any]] = list(error.errors())
    if errors[0]["loc"][0] == "path":
        return problem_response("not-found", "there is nothing of this name")
    return problem_response("invalid-request", detail_of(errors))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    missing = error.status_code in _OF_STATUS
    if missing and (methods := description.methods_of(request.app, request.url.path)):
        # The router names the methods of one route only, and knows nothing of `ReportPath`.
        return problem_response("method-not-allowed", headers={"Allow": ", ".join(methods)})
    return problem_response(_OF_STATUS.get(error.status_code, "invalid-request"), headers=error.headers)


async def _on_silence(_: Request, __: Exception) -> Response:
    """Whoever sent it hung up before its end: nobody is left to be told."""
    return problem_response("invalid-request", "the body ended too early")


async def _on_anything(_: Request, error: Exception) -> Response:
    _LOG.error("an error that should not be: %s", type(error).__name__, exc_info=error)
    return problem_response("internal", "")


_OF_STATUS: dict[int, str] = {404: "not-found", 405: "method-not-allowed"}
_PROBLEMS: dict[type[Exception], Callable[[Request, Exception], Any]] = {
    ProblemError: _on_problem,
    AuthError: _on_auth,
    ProtocolError: _on_protocol,
    NotFoundError: _on_not_found,
    QueueFullError: _on_full,
    LedgerError: _on_ledger,
    RequestValidationError: _on_validation,
    HTTPException: _on_http,
    ClientDisconnect: _on_silence,
    Exception: _on_anything,
}
