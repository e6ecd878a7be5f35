"""A few bytes do not stop a client: whatever comes over the wire, she holds little, waits a bounded time, and goes on.

Memory is measured as the peak of what was allocated, work by counting; no test looks at a clock. Each bound has a
control: the behaviour of version 0.1 is planted, and found.
"""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from askance_client import Patience, Problem, Refusal, Server, UnreachableError
from askance_client.transport import Receipt, documents
from askance_client.transport import server as way
from askance_client.transport.bare import BareServer
from askance_protocol import canonical
from askance_protocol.budget import MICRO
from tests.client.liar import USER
from tests.client.people import run
from tests.client.raw_liar import OK, RawLiar, Said, chunked, endless, whole
from tests.client.ways import WAYS

MB: Final = 1 << 20
ROUND: Final = "1" * 64
RECEIPT: Final = canonical.dumps({"user": USER, "round": ROUND, "charged": MICRO})
HASTY: Final = Patience(attempts=2, first=0, longest=0)
BOMB: Final = 64 * MB


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are reached with less."""
    monkeypatch.setattr(way, "MOST_BYTES", MB)
    monkeypatch.setattr(documents, "MOST_CONTAINERS", documents.MOST_CONTAINERS // 32)
    monkeypatch.setattr(documents, "MOST_VALUES", documents.MOST_VALUES // 32)


@pytest.fixture
def measured() -> Generator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@dataclass
class Heard:
    """What came of a request, and what it cost."""

    answer: Any
    """The answer, or the error that stands for none."""
    requests: int
    peak: int
    """Bytes that were held at most."""


def hear(said: Said, ask: Callable[[Server], Awaitable[Any]], kind: type[Server] = Server, **how: Any) -> Heard:
    """Ask a server that says this, whatever it is asked."""

    async def once() -> Heard:
        async with RawLiar(said, **how).listening() as liar, kind(liar.url, patience=HASTY) as server:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            try:
                answer = await ask(server)
            except UnreachableError as error:
                answer = error
            return Heard(answer, liar.requests, tracemalloc.get_traced_memory()[1] - before)

    return run(once())


def entries(server: Server) -> Awaitable[object]:
    return server.entries("0" * 64, -1)


def report(server: Server) -> Awaitable[object]:
    return server.send(ROUND, "token", b'{"outcome":1}')


ASKS: Final[dict[str, tuple[type[Server], Callable[[Server], Awaitable[object]]]]] = {
    "bulletin": (Server, entries),
    "report": (Server, report),
    "report, on a bare connection": (BareServer, report),
}


# ------------------------------------------------------------------------------------------------- what is no answer


def _zeros(times: int, pack: Callable[[bytes], bytes]) -> bytes:
    body = bytes(BOMB)
    for _ in range(times):
        body = pack(body)
    return body


_ONCE, _DEFLATED = _zeros(1, gzip.compress), _zeros(1, zlib.compress)
_TWICE: Final = gzip.compress(_ONCE)

ATTACKS: Final[dict[str, Said]] = {
    # Packed, in whatever way it is said.
    "gzip": whole(_ONCE, b"Content-Encoding: gzip"),
    "gzip, gzip": whole(_TWICE, b"Content-Encoding: gzip, gzip"),
    "gzip in two headers": whole(_TWICE, b"Content-Encoding: gzip", b"Content-Encoding: gzip"),
    "gzip, written otherwise": whole(_TWICE, b"content-encoding:  GZip , x-gzip"),
    "deflate": whole(_DEFLATED, b"Content-Encoding: deflate"),
    "br": whole(b"\x1b\xff\xff\xff" + bytes(100), b"Content-Encoding: br"),
    "zstd": whole(b"(\xb5/\xfd" + bytes(100), b"Content-Encoding: zstd"),
    "an unknown coding": whole(RECEIPT, b"Content-Encoding: \x1b[2J"),
    "gzip as a transfer coding": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + _ONCE,
    # Longer than it says, shorter, or without an end.
    "a length that is not sent": OK + b"Content-Length: 100000\r\n\r\n{",
    "a length beyond all bounds": OK + b"Content-Length: 99999999999999999999\r\n\r\n{",
    "a length of 5000 digits": OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{",
    "a length below nothing": OK + b"Content-Length: -1\r\n\r\n{}",
    "two lengths": OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    "a length and chunks": OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n\r\n",
    "a body without an end": endless(OK + b"\r\n", b" "),
    "chunks without an end": endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"400\r\n" + b" " * 1024 + b"\r\n"),
    "chunks of one byte": endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "a chunk beyond all bounds": OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 16 + b"\r\n" + b" " * 10,
    "a chunk of 5000 digits": OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 5000 + b"\r\n",
    "an extension without an end": endless(OK + b"Transfer-Encoding: chunked\r\n\r\n1;", b"x"),
    "trailers without an end": endless(OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
    "drops": endless(OK + b"Content-Length: 1000000\r\n\r\n", b" ", pause=0.01),
    "chunks in drops": endless(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", pause=0.01),
    # Heads.
    "headers without an end": endless(OK, b"a: b\r\n"),
    "a header without an end": endless(OK + b"a: ", b"b"),
    "a header in drops": endless(OK + b"a: ", b"b", pause=0.01),
    "a status line without an end": endless(b"HTTP/1.1 200 ", b"O"),
    "nothing but a promise": endless(b"", b"HTTP/1.1 103 Early Hints\r\na: b\r\n\r\n"),
    "promises in drops": endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.01),
    "a status that is no number": b"HTTP/1.1 OK OK\r\n\r\n",
    "a status of four digits": b"HTTP/1.1 2000 OK\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "a version that there is not": b"HTTP/7.3 200 OK\r\nContent-Length: 0\r\n\r\n",
    "bytes": bytes(range(256)) * 16,
    "nothing": b"",
    "half a head": OK,
    "a header that is none": OK + b"no colon\r\n\r\n",
    "a header with a zero byte": OK + b"a: \x00\r\nContent-Length: 0\r\n\r\n",
    "a switch of protocols": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n" + b" " * 1000,
    "cookies": whole(b"{}", *(b"Set-Cookie: a%d=%s; Expires=%s" % (i, b"b" * 400, b" " * 400) for i in range(100))),
    # Elsewhere.
    "itself": b"HTTP/1.1 307 Elsewhere\r\nLocation: /v1/me\r\nContent-Length: 0\r\n\r\n",
    "a file": b"HTTP/1.1 302 Elsewhere\r\nLocation: file:///etc/passwd\r\nContent-Length: 0\r\n\r\n",
    "an address that is none": b"HTTP/1.1 302 Elsewhere\r\nLocation: http://[::/\r\nContent-Length: 0\r\n\r\n",
    "an address without an end": b"HTTP/1.1 302 Elsewhere\r\nLocation: http://" + b"a" * 60_000 + b"/\r\n\r\n",
    "an address of bytes": b"HTTP/1.1 302 Elsewhere\r\nLocation: http://\xff\xfe:99999/\r\nContent-Length: 0\r\n\r\n",
    # Problems.
    "a problem without an end": endless(b"HTTP/1.1 409 No\r\nContent-Type: application/problem+json\r\n\r\n", b" "),
    "a problem that is packed": whole(_TWICE, b"Content-Encoding: gzip, gzip").replace(b"200 OK", b"409 No"),
    # JSON.
    "a list of nothing but lists": whole(b"[" + b"[]," * (MB // 3 - 2) + b"[]]"),
    "a number without an end": whole(b"9" * (MB - 1)),
    "a name without an end": whole(b'{"' + b"a" * (MB - 100) + b'":1}'),
    "an open string": whole(b'{"' + b'\\"' * (MB // 2 - 100)),
    "nesting without an end": whole(b"[" * (MB - 1)),
    "members without an end": whole(b"{" + b",".join(b'"%x":{}' % i for i in range(80_000)) + b"}"),
    "characters that take four bytes each": whole('{"\U0001f600":"'.encode() + b"a" * (MB - 100) + b'"}'),
}


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("name", ATTACKS)
@pytest.mark.parametrize("asked", ASKS)
def test_an_attack_below_the_documents_is_over_soon_and_costs_little(
    monkeypatch: pytest.MonkeyPatch, asked: str, name: str
) -> None:
    monkeypatch.setattr(way, "MOST_SECONDS", 0.1 if "drops" in name else 0.5)
    kind, ask = ASKS[asked]
    heard = hear(ATTACKS[name], ask, kind)

    assert isinstance(heard.answer, Refusal | Problem | UnreachableError)
    assert heard.requests <= HASTY.attempts
    assert heard.peak < 16 * MB


async def unpacks(response: httpx.Response, most: int) -> bytes:
    """The body as version 0.1 read it: unpacked, as often as it is said, and then measured."""
    pieces, size = list[bytes](), 0
    async for piece in response.aiter_bytes():
        size += len(piece)
        if size > most:
            raise httpx.ReadError("the answer is too long")
        pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.usefixtures("measured")
def test_the_client_of_version_0_1_is_caught_unpacking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(way, "read_body", unpacks)

    assert hear(ATTACKS["gzip, gzip"], entries).peak > 4 * 16 * MB


@pytest.mark.usefixtures("measured")
def test_a_client_that_does_not_count_is_caught_holding_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_CONTAINERS", MB)
    monkeypatch.setattr(documents, "MOST_VALUES", MB)

    assert hear(ATTACKS["a list of nothing but lists"], entries).peak > 16 * MB


# ------------------------------------------------------------------------------------------------ innocent oddities

HONEST: Final[dict[str, tuple[Said, bool]]] = {
    "whole": (whole(RECEIPT), True),
    "in chunks": (chunked(RECEIPT[:5], RECEIPT[5:6], RECEIPT[6:]), True),
    "in chunks with an extension and a trailer": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n%x;a=b\r\n%s\r\n0\r\nc: d\r\n\r\n" % (len(RECEIPT), RECEIPT),
        True,
    ),
    "until the connection closes": (OK + b"Connection: close\r\n\r\n" + RECEIPT, True),
    "as it is, and says so": (whole(RECEIPT, b"Content-Encoding: identity"), True),
    "with an empty coding": (whole(RECEIPT, b"Content-Encoding: "), True),
    "after a promise": (b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n" + whole(RECEIPT), True),
    "with more behind its end": (whole(RECEIPT) + b"HTTP/1.1 409 No\r\n\r\n", True),
    "with many headers": (whole(RECEIPT, *(b"X-%d: y" % i for i in range(50))), True),
    "over a connection that stays": (whole(RECEIPT), False),
    "by HTTP/1.0": (whole(RECEIPT).replace(b"HTTP/1.1", b"HTTP/1.0"), True),
}


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("kind", WAYS.values())
def test_an_honest_answer_is_read_however_it_comes(kind: type[Server], name: str) -> None:
    said, closes = HONEST[name]

    assert hear(said, report, kind, closes=closes).answer == Receipt(USER, ROUND, MICRO)


def test_what_is_asked_for_is_asked_for_as_it_is() -> None:
    asked = list[httpx.Headers]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers)
        return httpx.Response(200, content=RECEIPT)

    async def once() -> object:
        async with Server("http://askance.test", transport=httpx.MockTransport(answer)) as server:
            return await report(server)

    assert run(once()) == Receipt(USER, ROUND, MICRO)
    assert [headers.get_list("accept-encoding") for headers in asked] == [["identity"]]
