"""Pages as responses: under a policy that allows nothing but this server's own files, and with a tag."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from askance_protocol.rounds import ENDED
from askance_server.aggregator import Aggregator
from askance_server.dashboard.assets import assets, media_type
from askance_server.dashboard.templates import rendered
from askance_server.logs import scrub
from askance_server.problems import PROBLEMS, ProblemError, ProblemOccurrence
from askance_server.public_answers import PublicAnswer, PublicQuestion, tagged

POLICY: Final = "; ".join(  # noqa: FLY002 - a line for each directive
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        # No form is sent by the browser itself: a script reads it, so that nothing stands in an address or a history.
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
"""Content-Security-Policy of every page: no inline script or style, and no other host."""
HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
)
HTML: Final = "text/html"
NEVER_KEPT: Final[Mapping[str, str]] = MappingProxyType({**HEADERS, "Cache-Control": "no-store"})
"""Headers of what is true for one asker, or at one moment."""
_FOR_EVER: Final = "public, max-age=31536000, immutable"


async def page(
    aggregator: Aggregator, request: Request, question: PublicQuestion, work: Callable[[], bytes], *, of: str = ""
) -> Response:
    """A page that anybody may see: a thread collects and renders it, once for all who wait for it.

    `of`: the study that it shows live. While somebody follows that, the page is rendered once for each change. When the
    study has ended, it is rendered once and remembered.
    """

    def look() -> PublicAnswer:
        # First the state: what is rendered after the end is the same each time.
        final = bool(of) and aggregator.ledger.bulletin(of).state in ENDED
        return PublicAnswer.of(work(), final=final)

    return tagged_page(request, await aggregator.answer(asked(*question), look, of=of))


def page_of(request: Request, body: bytes) -> Response:
    """A page that has been rendered; without its body for a browser that has it."""
    return tagged_page(request, PublicAnswer.of(body))


def asked(*question: str) -> PublicQuestion:
    """By what the answer to a page is known."""
    return ("page", *question)


def tagged_page(request: Request, answer: PublicAnswer) -> Response:
    """A page as it was answered; without its body for a browser that has it."""
    response = tagged(request, answer, HTML)
    response.headers.update(HEADERS)
    return response


def asset(request: Request, digest: str, name: str) -> Response:
    """A file of the pages."""
    content = assets().files.get(name)
    if content is None or digest != assets().digest:
        raise ProblemError("not-found", "there is no such file")
    response = tagged(request, PublicAnswer(content, digest), media_type(name))
    response.headers.update({**HEADERS, "Cache-Control": _FOR_EVER})
    return response


def wants_page(request: Request) -> bool:
    """Whether a person looks: a browser that follows an address outside the interface for programs."""
    return not request.url.path.startswith("/v1/") and HTML in request.headers.get("accept", "")


def problem_page(found: ProblemOccurrence) -> Response:
    """The page that says what a problem document would."""
    kind = PROBLEMS[found.name]
    body = rendered("problem.html", kind=kind, detail=scrub(found.detail))
    return Response(body, kind.status, {**kind.headers, **found.headers, **NEVER_KEPT}, HTML)
