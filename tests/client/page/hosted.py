"""The page at a server that lies: a double of `tests.client.liar` behind HTTP, so that a real browser can ask it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from askance_client.page import Page
from askance_server.api.cross_origin import CrossOrigin
from askance_server.dashboard.responses import POLICY
from tests.client.liar import Liar
from tests.harness.hosted import hosted


def planted(page: Page, changes: Mapping[str, str]) -> Page:
    """The page with other lines in its script."""
    script = page.script
    for old, new in changes.items():
        assert script.count(old) == 1, old
        script = script.replace(old, new)
    return dataclasses.replace(page, script=script)


@dataclass
class PageHost:
    """Gives the page, and whatever a double says. `liar` may be another one for each test."""

    page: Page
    liar: Liar | None = None
    port: int = 0
    deaf: bool = False
    """Whether a report is heard and never answered."""
    heads: list[tuple[str, str, dict[str, str]]] = field(default_factory=list[tuple[str, str, dict[str, str]]])
    """Method, path and headers of each request, in order."""

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def link(self, join: str, study: str | None = None) -> str:
        """The link that a person opens."""
        assert self.liar is not None
        return f"{self.url}/take-part#study={study or self.liar.id}&join={join}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert scope["type"] == "http"
        path: str = scope["path"]
        files = {
            "/take-part": ("text/html; charset=utf-8", self.page.linked("/page.css", "/page.mjs", "/favicon.ico")),
            "/page.css": ("text/css", self.page.style.encode()),
            "/page.mjs": ("text/javascript", self.page.script.encode()),
        }
        if path in files:
            kind, body = files[path]
            headers = {"content-type": kind, "content-security-policy": POLICY, "cache-control": "no-store"}
            await _respond(httpx.Response(200, headers=headers, content=body), receive, send)
        elif path == "/favicon.ico":
            await _respond(httpx.Response(204), receive, send)
        else:
            await self._said(scope, receive, send)

    async def _said(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.liar is not None
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.heads.append((scope["method"], scope["path"], headers))
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        url = f"{self.url}{scope['path']}?{scope['query_string'].decode()}".rstrip("?")
        request = httpx.Request(scope["method"], url, headers=headers, content=body)
        try:
            answer = self.liar.handle(request)
        except httpx.ReadError:
            await _hang_up(send)
            return
        if self.deaf and scope["path"].endswith("/reports"):
            await _hang_up(send)
            return
        await _respond(answer, receive, send)


async def _hang_up(send: Send) -> None:
    """Promise more than comes, and end the connection."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"99")]})
    raise ConnectionResetError


async def _respond(response: httpx.Response, receive: Receive, send: Send) -> None:
    gone = asyncio.ensure_future(_gone(receive))
    headers = [(k.encode(), v.encode()) for k, v in response.headers.items() if k != "transfer-encoding"]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    stream: Any = response.stream
    async for piece in stream:
        if gone.done():
            break
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        await asyncio.sleep(0)
    gone.cancel()
    with contextlib.suppress(RuntimeError):
        await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@contextlib.contextmanager
def page_host(page: Page) -> Generator[PageHost]:
    """The page and a double, served; pages from elsewhere may take part, as at a real server."""
    host = PageHost(page)
    with hosted(CrossOrigin(host), HttpToolsProtocol, lifespan=False) as port:
        host.port = port
        yield host


@dataclass
class PlainHost:
    """Any static server, with one file on it."""

    file: bytes
    port: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Method and path of each request, in order."""

    @property
    def url(self) -> str:
        """Where the file is."""
        return f"http://127.0.0.1:{self.port}/copies/take-part.html"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        self.asked.append((scope["method"], scope["path"]))
        there = scope["path"] == "/copies/take-part.html"
        headers = {"content-type": "text/html"}
        answer = httpx.Response(200, headers=headers, content=self.file) if there else httpx.Response(404)
        await _respond(answer, receive, send)


@contextlib.contextmanager
def plain_host(file: bytes) -> Generator[PlainHost]:
    """A file, served by others."""
    host = PlainHost(file)
    with hosted(host, HttpToolsProtocol, lifespan=False) as port:
        host.port = port
        yield host
