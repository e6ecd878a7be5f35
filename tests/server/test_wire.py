"""What is not HTTP, or HTTP that nobody sends by mistake: each gets a problem document, and the server lives."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from askance_server.api.connections import ConnectionLimits, guarded
from askance_server.app import create_app
from askance_server.problems import MEDIA_TYPE, PROBLEMS
from askance_server.settings import Settings
from tests.harness.hosted import answer_to, hosted, parts_of

NOTHING: Final = b"0" * 64
REPORTS: Final = b"/v1/rounds/" + NOTHING + b"/reports"
HOST: Final = b"Host: x"


def request(
    target: bytes = b"/healthz",
    *headers: bytes,
    method: bytes = b"GET",
    version: bytes = b"HTTP/1.1",
    host: bytes = HOST,
    body: bytes = b"",
) -> bytes:
    lines = [method + b" " + target + b" " + version, host, *headers]
    return b"".join(line + b"\r\n" for line in lines if line) + b"\r\n" + body


def post(*headers: bytes, body: bytes = b"") -> bytes:
    return request(b"/v1/studies", *headers, method=b"POST", body=body)


CHUNKED: Final = b"Transfer-Encoding: chunked"
MALFORMED: Final[dict[str, tuple[int | set[int], bytes]]] = {
    # Not a line of HTTP.
    "noise": (400, b"\x00\x01\x02\x03\r\n\r\n"),
    "TLS": (400, bytes.fromhex("1603010200010001fc0303") + b"a" * 100),
    "HTTP/0.9": (400, b"GET /healthz\r\n\r\n"),
    "HTTP/2 by its preface": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/2.0": (400, request(version=b"HTTP/2.0")),
    "HTTP/3.7": (400, request(version=b"HTTP/3.7")),
    "HTTP/1.2": (400, request(version=b"HTTP/1.2")),
    "a version of three digits": (400, request(version=b"HTTP/1.01")),
    "FTP": (400, request(version=b"FTP/1.1")),
    "http in small letters": (400, request(version=b"http/1.1")),
    "no version": (400, b"GET /healthz \r\nHost: x\r\n\r\n"),
    "only line feeds": (400, b"GET /healthz HTTP/1.1\nHost: x\n\n"),
    "only carriage returns": (400, b"GET /healthz HTTP/1.1\rHost: x\r\r"),
    "tabs for blanks": (400, b"GET\t/healthz\tHTTP/1.1\r\nHost: x\r\n\r\n"),
    "half a head": (400, b"GET /healthz HTTP/1.1\r\nHo"),
    "half a line": (400, b"GET /heal"),
    # Methods.
    "a method of nobody": (400, request(method=b"FROB")),
    "a method in small letters": (400, request(method=b"get")),
    "no method": (400, request(method=b"")),
    "a method of 5,000 letters": (400, request(method=b"A" * 5000)),
    "TRACE": (405, request(method=b"TRACE")),
    "PATCH": (405, request(method=b"PATCH")),
    "OPTIONS": (405, request(method=b"OPTIONS")),
    "PROPFIND": (405, request(method=b"PROPFIND")),
    "CONNECT": (400, request(b"x:443", method=b"CONNECT")),
    # Targets.
    "OPTIONS of everything": (400, request(b"*", method=b"OPTIONS")),
    "an address without a path": (400, request(b"http://x")),
    "an address of FTP": (400, request(b"ftp://x/")),
    "a relative path": (400, request(b"healthz")),
    "no target": (400, b"GET HTTP/1.1\r\nHost: x\r\n\r\n"),
    "a blank in the path": (400, request(b"/heal thz")),
    "NUL in the path": (400, request(b"/heal\x00thz")),
    "UTF-8 in the path": (400, request("/é".encode())),
    "Latin-1 in the path": (400, request(b"/\xe9")),
    "Latin-1 in the query": (400, request(b"/v1/studies?a=\xff")),
    "NUL, percent-encoded": (404, request(b"/v1/studies/%00")),
    "a percent sign and no digits": (404, request(b"/v1/studies/%zz")),
    "half a percent sign": (404, request(b"/%")),
    "percent-encoded noise": (404, request(b"/v1/rounds/%ff%fe")),
    "a whole address": (404, request(b"http://x/nothing")),
    "steps upwards": (404, request(b"/../../etc/passwd")),
    "two slashes": (404, request(b"//healthz")),
    "a backslash": (404, request(b"/a\\b")),
    "the root of nothing": (404, request(b"/v2/")),
    "a path of 10,000 letters": (404, request(b"/" + b"a" * 10_000)),
    "a path of 100,000 letters": (431, request(b"/" + b"a" * 100_000)),
    "noise in the query": (422, request(b"/v1/studies/" + NOTHING + b"/bulletin?after=%ff")),
    "NUL in the query": (422, request(b"/v1/studies/" + NOTHING + b"/bulletin?after=%00")),
    # Headers.
    "no host": (400, request(host=b"")),
    "two hosts": (400, request(b"/healthz", b"Host: y")),
    "a header without a colon": (400, request(b"/healthz", b"colon")),
    "a blank before the colon": (400, request(b"/healthz", b"X-A : b")),
    "a header that goes on in the next line": (400, request(b"/healthz", b"X: a", b" b")),
    "a header that goes on and never began": (400, b"GET /healthz HTTP/1.1\r\n X: y\r\nHost: x\r\n\r\n"),
    "a header without a name": (400, request(b"/healthz", b": b")),
    "NUL in a header": (400, request(b"/healthz", b"X: a\x00b")),
    "a carriage return in a header": (400, request(b"/healthz", b"X: a\rb")),
    "Latin-1 in a header's name": (400, request(b"/healthz", b"\xe9: b")),
    "a header of 100,000 letters": (431, request(b"/healthz", b"X: " + b"a" * 100_000)),
    "a header of 600,000 letters and no end": (431, b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 600_000),
    "a name of 600,000 letters and no end": (431, b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a" * 600_000),
    "200 headers": (431, request(b"/healthz", *(b"X-%d: y" % number for number in range(200)))),
    "two tokens": (400, request(b"/v1/me", b"Authorization: Bearer a", b"Authorization: Bearer b")),
    "two tokens for a report": (
        400,
        request(REPORTS, b"Authorization: Bearer a", b"Authorization: Bearer b", method=b"POST"),
    ),
    "two types": (400, request(b"/v1/me", b"Content-Type: a/b", b"Content-Type: c/d")),
    "two versions": (400, request(b"/healthz", b"Askance-Protocol: 1", b"Askance-Protocol: 2")),
    "a version that is none": (409, request(b"/healthz", b"Askance-Protocol: \xff")),
    "a token in Latin-1": (401, request(b"/v1/me", b"Authorization: Bearer \xe9")),
    "a control character in a token": (400, request(b"/v1/me", b"Authorization: Bearer \x01")),
    "an event's number of 5,000 digits": (
        404,
        request(b"/v1/studies/" + NOTHING + b"/events", b"Last-Event-ID: " + b"9" * 5000),
    ),
    "an expectation of nobody": (400, request(b"/v1/me", b"Expect: 200-perhaps")),
    # Other protocols.
    "a web socket": (
        401,
        request(b"/v1/me", b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: a"),
    ),
    "HTTP/2, asked for": (401, request(b"/v1/me", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c")),
    "HTTP/2, asked for with a body": (
        400,
        post(b"Connection: Upgrade", b"Upgrade: h2c", b"Content-Length: 5", body=b"hello"),
    ),
    # The length of a body: what one reader takes for its end, another must not take for its middle.
    "a length of 5,000 digits": (400, post(b"Content-Length: " + b"9" * 5000)),
    "a length of 20 digits": (400, post(b"Content-Length: " + b"9" * 20)),
    "a length of 5,000 digits, most of them zero": (401, post(b"Content-Length: " + b"0" * 4999 + b"5", body=b"hello")),
    "a length below zero": (400, post(b"Content-Length: -1")),
    "a length with its sign": (400, post(b"Content-Length: +1")),
    "a length in hexadecimal": (400, post(b"Content-Length: 0x10")),
    "a length in superscript": (400, post("Content-Length: ²".encode())),
    "a list of lengths": (400, post(b"Content-Length: 5, 5", body=b"hello")),
    "no length": (400, post(b"Content-Length:")),
    "a blank in a length": (400, post(b"Content-Length: 1 2", body=b"hello hello!")),
    "a blank behind a length": (401, post(b"Content-Length: 5 ", body=b"hello")),
    "blanks and tabs around a length": (401, post(b"Content-Length:\t 5 \t", body=b"hello")),
    "a blank behind the length of a report": (
        401,
        request(REPORTS, b"Content-Length: 5\t", method=b"POST", body=b"hello"),
    ),
    "a length twice": (400, post(b"Content-Length: 5", b"Content-Length: 5", body=b"hello")),
    "two lengths": (400, post(b"Content-Length: 5", b"Content-Length: 6", body=b"hello")),
    "chunks and a length": (400, post(CHUNKED, b"Content-Length: 5", body=b"0\r\n\r\n")),
    "a length and chunks": (400, post(b"Content-Length: 5", CHUNKED, body=b"0\r\n\r\n")),
    "chunks twice": (400, post(CHUNKED, CHUNKED, body=b"0\r\n\r\n")),
    "chunks, then gzip": (400, post(b"Transfer-Encoding: chunked, gzip")),
    "gzip in chunks": (400, post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n")),
    "a coding of nobody": (400, post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n")),
    "identity": (400, post(b"Transfer-Encoding: identity", body=b"hello")),
    "a tab before chunks": (400, post(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n")),
    "chunks in HTTP/1.0": (
        400,
        request(b"/v1/studies", CHUNKED, method=b"POST", version=b"HTTP/1.0", body=b"0\r\n\r\n"),
    ),
    "a chunk's length that is no number": (400, post(CHUNKED, body=b"zz\r\nhello\r\n0\r\n\r\n")),
    "a chunk's length below zero": (400, post(CHUNKED, body=b"-5\r\nhello\r\n0\r\n\r\n")),
    "a chunk's length of 17 digits": (400, post(CHUNKED, body=b"f" * 17 + b"\r\nhello\r\n0\r\n\r\n")),
    "a chunk that is longer than it says": (400, post(CHUNKED, body=b"5\r\nhelloX")),
    "chunks in line feeds": (400, post(CHUNKED, body=b"5\nhello\n0\n\n")),
    "a carriage return behind a chunk's length": (400, post(CHUNKED, body=b"5;a\rb\r\nhello\r\n0\r\n\r\n")),
    # Whichever the server notices first: that there is no token, or what is wrong with the body.
    "a chunk's length with 600,000 letters": ({400, 401}, post(CHUNKED, body=b"5;" + b"a" * 600_000)),
    "20,000 trailers": ({401, 431}, post(CHUNKED, body=b"5\r\nhello\r\n0\r\n" + b"X: y\r\n" * 20_000 + b"\r\n")),
    "half a body": ({400, 401}, post(b"Content-Length: 5", body=b"he")),
    "half a chunk": ({400, 401}, post(CHUNKED, body=b"5\r\nhe")),
    # Bodies, without a token.
    "a body in UTF-16": (401, post(b"Content-Length: 4", body=b"\xff\xfe{\x00")),
    "a type that is none": (401, post(b"Content-Type: \xff;;;", b"Content-Length: 2", body=b"{}")),
}
"""What is sent, and the status of the answer."""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Generator[int]:
    settings = Settings(database=str(tmp_path_factory.mktemp("wire") / "data"))
    with hosted(create_app(settings), guarded(ConnectionLimits())) as port:
        yield port


def faults(status: int | set[int], answer: bytes) -> Iterator[str]:
    """What is wrong with an answer."""
    if not answer:
        yield "no answer"
        return
    got, headers, body = parts_of(answer)
    if headers.get("content-type") != MEDIA_TYPE:
        yield f"it is {headers.get('content-type')}"
        return
    document = json.loads(body)
    if got not in (status if isinstance(status, set) else {status}):
        yield f"the status is {got}: {document}"
    if not got == document["status"] < 500:
        yield f"the document says {document['status']}, the answer {got}"
    if document["type"] not in {kind.type for kind in PROBLEMS.values()}:
        yield f"the type is {document['type']}"
    if headers.get("askance-protocol") != "1" or headers.get("content-length") != str(len(body)):
        yield "a header is missing"


@pytest.mark.parametrize("what", MALFORMED)
def test_whatever_is_wrong_with_a_request_it_is_answered_by_one_problem_document(port: int, what: str) -> None:
    status, sent = MALFORMED[what]

    assert list(faults(status, answer_to(port, sent))) == []
    assert parts_of(answer_to(port, request()))[0] == 200


def test_the_control_uvicorns_own_protocol_answers_in_plain_text_or_not_at_all_and_is_found(tmp_path: Path) -> None:
    app = create_app(Settings(database=str(tmp_path / "data")))
    with hosted(app, HttpToolsProtocol) as port:
        wrong = {what: list(faults(status, answer_to(port, sent))) for what, (status, sent) in MALFORMED.items()}

    assert wrong["a method of nobody"] == ["it is text/plain; charset=utf-8"]
    assert wrong["half a head"] == ["no answer"]
    assert wrong["no host"] != []
    assert sum(map(bool, wrong.values())) > len(MALFORMED) / 2


@pytest.mark.parametrize("what", ["noise", "two lengths", "two tokens", "no host"])
def test_a_request_that_comes_in_single_bytes_is_answered_alike(port: int, what: str) -> None:
    status, sent = MALFORMED[what]

    assert list(faults(status, answer_to(port, sent, at_once=False))) == []


def test_requests_before_a_malformed_one_are_answered_first_and_none_behind_it(port: int) -> None:
    good = request(b"/v1/studies")
    answer = answer_to(port, good + good + MALFORMED["two hosts"][1] + good)

    assert [piece[:3] for piece in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"400"]


def test_what_hides_behind_a_refused_body_is_not_a_request(port: int) -> None:
    """Smuggling: the second request stands where a reader of the other length sees the body's end."""
    hidden = request(b"/metrics")
    for what in ("two lengths", "chunks and a length", "gzip in chunks", "HTTP/2, asked for with a body"):
        answer = answer_to(port, MALFORMED[what][1] + hidden)

        assert answer.count(b"HTTP/1.1 ") == 1
        assert b"askance_users" not in answer


def test_a_head_request_gets_the_head_of_the_problem_and_no_body(port: int) -> None:
    status, headers, body = parts_of(answer_to(port, request(b"/v1/me", method=b"HEAD")))

    assert (status, headers["content-type"], body) == (405, MEDIA_TYPE, b"")


def test_a_whole_address_is_a_target_and_another_protocol_need_not_be_changed_to(port: int) -> None:
    for sent in (
        request(b"http://elsewhere/healthz"),
        request(b"/healthz", b"Connection: Upgrade", b"Upgrade: h2c"),
        request(b"/healthz", version=b"HTTP/1.0", host=b""),
        b"\r\n\r\n" + request(),
    ):
        assert parts_of(answer_to(port, sent))[0] == 200
