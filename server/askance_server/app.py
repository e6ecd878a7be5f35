"""The application: the REST interface, its limits, its problem documents and its pages, around one aggregator."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from askance_protocol.errors import AskanceError
from askance_server.aggregator import Aggregator
from askance_server.api import batches, description, events, health, rounds, studies, users
from askance_server.api.accounts import AccountPath
from askance_server.api.batches import BatchPath
from askance_server.api.cross_origin import CrossOrigin
from askance_server.api.limits import Limits
from askance_server.api.reports import ReportPath
from askance_server.auth import Keys, open_keys, write_tokens
from askance_server.certificate import read_certificate
from askance_server.dashboard.kept_pages import KeptPages
from askance_server.dashboard.responses import problem_page, wants_page
from askance_server.dashboard.routes import router as pages
from askance_server.dashboard.take_part import Handed, TakePart
from askance_server.dashboard.take_part import router as take_part_page
from askance_server.dashboard.wall_pages import router as wall
from askance_server.ledger import Ledger, open_ledger
from askance_server.problems import ProblemError, ProblemOccurrence, problem_of, problem_response
from askance_server.settings import Settings, SettingsError
from askance_server.strategies.registry import registry
from askance_server.turns import Turns
from askance_server.workers import Workers

_LOG = logging.getLogger(__name__)

_NO_TELEMETRY: Final[Mapping[str, Any]] = {
    "telemetry": dict.fromkeys(("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False)
}
"""By itself the framework would tell every collector that is set up in this process, or named by an environment
variable, who sent what when, and what an error said. `metrics` and `logs` say what may be known. An older framework
has no such thing, and takes this for nothing."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What a server holds while it runs: its keys, and its ledger, which no other process of this machine has open."""

    keys: Keys
    ledger: Ledger


def open_resources(settings: Settings) -> Resources:
    """Open keys and ledger, and write the token files. Whatever refuses this is an error of one line."""
    # A database that cannot be reached leaves no key and no token files behind.
    ledger = open_ledger(settings.database) if settings.is_postgres else None
    try:
        keys = open_keys(settings.directory, settings.server_key_bytes)
        write_tokens(settings.directory, keys, unlimited=settings.enrolment == "open")
        ledger = ledger or open_ledger(settings.database)
        ledger.check_key(keys.fingerprint)
    except BaseException as error:
        if ledger is not None:
            ledger.close()
        if not isinstance(error, OSError):
            raise
        where, remedy = str(error.filename or settings.directory), "choose another place with --database, or mend it"
        raise SettingsError(f"cannot be used: {error.strerror}", where=where, remedy=remedy) from None
    return Resources(keys, ledger)


def create_app(
    settings: Settings | None = None,
    *,
    stop: Callable[[], None] | None = None,
    opened: Resources | None = None,
    take_part: Handed | None = None,
) -> FastAPI:
    """The application, with default settings if none are given. It holds its ledger open from its start to its stop.

    `stop` ends the process in good order, which is called for when the ledger cannot be written; if not given, the
    process gets SIGTERM. `opened` is what was opened before, so that whoever starts a server learns what is in the way;
    if not given, it is opened at the start. `take_part`: the page on which people answer, if this server gives it away.
    """
    chosen = Settings() if settings is None else settings

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        # A thread reads the ledger: until it is read, the process can be told to stop.
        opening = Workers("opening", 1)
        try:
            aggregator = await opening.run(
                lambda: _aggregator(chosen, stop or _terminate, opened or open_resources(chosen))
            )
            aggregator.start()
        except AskanceError as error:
            app.state.refused = str(error)
            raise
        finally:
            opening.end()
        app.state.aggregator = aggregator
        yield
        await aggregator.finish()

    app = FastAPI(
        title="Askance",
        summary="Ask a population anything; learn no one's answer.",
        version=description.VERSION,
        lifespan=lifespan,
        openapi_url=None,  # `description` answers it.
        docs_url=None,
        redoc_url=None,
        # No type is JSON. There are no cookies, so a foreign page has nothing to gain by leaving it out.
        strict_content_type=False,
        **_NO_TELEMETRY,
    )
    for resource in (studies, events, users, rounds, batches, health):
        app.include_router(resource.router)
    app.include_router(pages)
    app.include_router(take_part_page)
    app.include_router(wall)
    app.state.take_part = None if take_part is None else TakePart.of(take_part)
    for kind in _HANDLED:
        app.add_exception_handler(kind, _on_error)
    app.add_middleware(Limits, body_limit=chosen.body_limit, state=app.state)
    app.add_middleware(KeptPages)
    app.add_middleware(Turns)
    # The last that is added comes first: a report passes through the last two, an account through three.
    app.add_middleware(BatchPath)
    app.add_middleware(AccountPath)
    app.add_middleware(ReportPath)
    app.add_middleware(CrossOrigin)
    description.describe(app)
    return app


def _aggregator(settings: Settings, stop: Callable[[], None], opened: Resources) -> Aggregator:
    strategies = registry()
    for name, reason in strategies.broken.items():
        _LOG.warning("the strategy %s cannot be used: %s", name, reason)
    aggregator = Aggregator(settings, opened.ledger, opened.keys, strategies, stop)
    if (certificate := read_certificate(settings.certificate, settings.key)) is not None:
        aggregator.metrics.expires(certificate.expires)
    return aggregator


def _terminate() -> None:
    """End this process in good order: uvicorn stops taking requests and runs the lifespan to its end."""
    os.kill(os.getpid(), signal.SIGTERM)


# ------------------------------------------------------------------------------- what goes wrong, as problem documents


async def _on_error(request: Request, error: Exception) -> Response:
    """The problem document of any error, and a line in the log for one that should not be."""
    found = problem_of(error)
    if found.name == "internal":
        _LOG.error("an error that should not be: %s", type(error).__name__, exc_info=error)
    missing = found.name in {"not-found", "method-not-allowed"} and isinstance(error, HTTPException)
    if missing and (methods := description.methods_of(request.app, request.url.path)):
        # The router names the methods of one route only, and knows nothing of `ReportPath`.
        found = ProblemOccurrence("method-not-allowed", headers={"Allow": ", ".join(methods)})
    if wants_page(request):
        return problem_page(found)
    return problem_response(found.name, found.detail, headers=found.headers, **found.extra)


# The framework looks for the nearest class of an error, and has handlers of its own for the first two.
_HANDLED: Final = (RequestValidationError, HTTPException, ClientDisconnect, AskanceError, ProblemError, Exception)
