"""The page on which people answer: where a server has one, it gives it away as it was handed over.

It is the client's, and no server imports a client: what runs on a person's device is not the aggregator's to put
together. So whoever starts a server, and sees both rooms, hands over the finished page (`create_app(take_part=…)`),
which is bytes here. The same parts make the file that `askance page` writes, by which people find out that a server
gives them another one.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Protocol

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from askance_server.dashboard.assets import assets
from askance_server.dashboard.responses import HEADERS, page_of
from askance_server.problems import ProblemError
from askance_server.public_answers import PublicAnswer, tagged

ADDRESS: Final = "/take-part"
_FOR_EVER: Final = "public, max-age=31536000, immutable"
_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {"page.css": "text/css; charset=utf-8", "page.mjs": "text/javascript; charset=utf-8"}
)

_GZIP: Final = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))", re.IGNORECASE)
"""A browser that takes a packed answer: it names gzip, and not to say that it will have none (RFC 9110, 12.5.3)."""

router = APIRouter(include_in_schema=False)


class Handed(Protocol):
    """A finished page, as it is handed over."""

    @property
    def style(self) -> str:
        """Its stylesheet."""
        ...

    @property
    def script(self) -> str:
        """Its one script."""
        ...

    def linked(self, style: str, script: str, icon: str) -> bytes:
        """Its document, with the two, and a picture for its tab, at these addresses."""
        ...


@dataclass(frozen=True, slots=True)
class TakePart:
    """The page at its addresses. Its parts are packed once: they are public, so packing them tells nothing."""

    document: bytes
    digest: str
    files: Mapping[str, bytes]
    packed: Mapping[str, bytes]

    @classmethod
    def of(cls, page: Handed) -> TakePart:
        """With an address that changes with what stands there."""
        files = {"page.css": page.style.encode(), "page.mjs": page.script.encode()}
        digest = hashlib.sha256(b"".join(files.values())).hexdigest()[:16]
        style, script = (f"{ADDRESS}/{digest}/{name}" for name in files)
        document = page.linked(style, script, assets().address("mark.svg"))
        packed = {name: gzip.compress(content, mtime=0) for name, content in files.items()}
        return cls(document, digest, MappingProxyType(files), MappingProxyType(packed))


def _page(request: Request) -> TakePart:
    page: TakePart | None = request.app.state.take_part
    if page is None:
        raise ProblemError("not-found", "this server was started without the page on which people answer")
    return page


@router.get(ADDRESS)
async def take_part(request: Request) -> Response:
    """The page. Which study it is about stands behind the # of its address, which no server is sent."""
    return page_of(request, _page(request).document)


@router.get("/t")
async def short(request: Request) -> Response:
    """The same, for those who type it: a browser takes with it what stands behind the #."""
    _page(request)
    return RedirectResponse(ADDRESS, 302, headers=HEADERS)


@router.get(ADDRESS + "/{digest}/{name}")
async def part(digest: str, name: str, request: Request) -> Response:
    """The script or the stylesheet."""
    page = _page(request)
    if digest != page.digest or name not in page.files:
        raise ProblemError("not-found", "there is no such file")
    takes_packed = _GZIP.search(request.headers.get("accept-encoding", "")) is not None
    files, coding = (page.packed, "gzip") if takes_packed else (page.files, "identity")
    response = tagged(request, PublicAnswer(files[name], f"{digest}.{coding}"), _KINDS[name])
    response.headers.update({**HEADERS, "Cache-Control": _FOR_EVER, "Vary": "Accept-Encoding"})
    if takes_packed and response.body:
        response.headers["Content-Encoding"] = coding
    return response
