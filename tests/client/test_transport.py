"""The way to a server: patient where it is asked to be, bounded in everything, and silent about what is private."""

from __future__ import annotations

import asyncio
import inspect
import logging
import pickle
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from askance_client import (
    BulletinReader,
    Patience,
    Problem,
    Reason,
    Refusal,
    RemoteError,
    Server,
    UnreachableError,
    User,
    Wallet,
    WalletFile,
)
from askance_client.transport import Receipt
from askance_protocol.budget import MICRO
from askance_protocol.errors import Code, UsageError
from tests.client.liar import URL, USER, problem
from tests.client.people import run
from tests.client.ways import server_at

pytestmark = pytest.mark.usefixtures("each_way")

ROUND = "1" * 64
BODY = b'{"outcome":1}'
TOKEN = "sekret.token"
USUAL = Patience()
RECEIPT = {"user": USER, "round": ROUND, "charged": MICRO}

Handler = Callable[[httpx.Request], httpx.Response]


class Script:
    """Answers one after the other, the last one for ever."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers, self.requests = list(answers), list[httpx.Request]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long was slept; nobody sleeps."""
    slept = list[float]()
    sleep = asyncio.sleep

    async def recorded(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", recorded)
    return slept


def good() -> httpx.Response:
    return httpx.Response(200, json=RECEIPT)


def told(handler: Handler, ask: Callable[[Server], Awaitable[Any]], patience: Patience = USUAL) -> Any:
    """What the server's side makes of it."""

    async def once() -> Any:
        async with server_at(URL, handler, patience) as server:
            return await ask(server)

    return run(once())


def sent(handler: Handler, patience: Patience = USUAL) -> Any:
    return told(handler, lambda server: server.send(ROUND, TOKEN, BODY), patience)


# ------------------------------------------------------------------------------------------------------------ patience


def test_a_server_that_asks_for_time_is_given_it_and_some_more_at_random(pauses: list[float]) -> None:
    for _ in range(20):
        sent(Script(problem(503, "queue-full", Retry_After="2"), good()), Patience(first=0.5))

    assert len(pauses) == 20
    assert all(2 <= pause <= 2.5 for pause in pauses)
    assert len(set(pauses)) > 10


def test_pauses_double_up_to_the_longest(pauses: list[float]) -> None:
    patience = Patience(attempts=7, first=1, longest=8)
    for _ in range(30):
        with pytest.raises(UnreachableError):
            sent(Script(httpx.Response(500)), patience)
    by_attempt = [pauses[attempt::6] for attempt in range(6)]

    assert len(pauses) == 30 * 6
    for most, some in zip((1, 2, 4, 8, 8, 8), by_attempt, strict=True):
        assert most / 2 < max(some) <= most
        assert min(some) < most / 2


@pytest.mark.parametrize("asked", ["11", "99999"])
def test_no_server_makes_a_user_wait_longer_than_she_is_patient(pauses: list[float], asked: str) -> None:
    with pytest.raises(UnreachableError):
        sent(Script(problem(503, "not-ready", Retry_After=asked)), Patience(attempts=3, first=1, longest=10))

    assert len(pauses) == 2
    assert all(10 <= pause <= 12 for pause in pauses)


@pytest.mark.parametrize(
    "asked", ["", "-1", "1.5", "1e3", "nan", "inf", "Wed, 21 Oct 2026 07:28:00 GMT", "\xb2", "9" * 400]
)
def test_a_retry_after_that_is_no_number_of_seconds_means_now(pauses: list[float], asked: str) -> None:
    again = httpx.Response(503, headers=[(b"Retry-After", asked.encode("latin-1"))])
    sent(Script(again, good()), Patience(first=0.5))

    [pause] = pauses
    assert 0 <= pause <= 0.5


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_attempts_are_counted_and_the_same_bytes_are_sent_each_time(pauses: list[float], attempts: int) -> None:
    script = Script(httpx.ConnectError("refused"))
    with pytest.raises(UnreachableError, match=f"gave no answer in {attempts} attempts"):
        sent(script, Patience(attempts=attempts))

    assert [request.content for request in script.requests] == [BODY] * attempts
    assert len(pauses) == attempts - 1


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError(""),
        httpx.ConnectTimeout(""),
        httpx.ReadTimeout(""),
        httpx.ReadError(""),
        httpx.WriteError(""),
        httpx.PoolTimeout(""),
        httpx.RemoteProtocolError(""),
        httpx.DecodingError(""),
    ],
)
def test_after_whatever_goes_wrong_on_the_way_it_is_tried_again(pauses: list[float], error: Exception) -> None:
    script = Script(error, good())
    receipt = sent(script)

    assert receipt == Receipt(USER, ROUND, MICRO)
    assert len(script.requests) == 2
    assert len(pauses) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 403, 404, 405, 409, 413, 415, 422])
def test_what_will_never_be_is_asked_for_once(pauses: list[float], status: int) -> None:
    script = Script(problem(status, "conflict", Location="http://evil.test/"))
    answer = sent(script)

    assert isinstance(answer, Problem)
    assert (answer.status, answer.name) == (status, "conflict")
    assert len(script.requests) == 1
    assert pauses == []


def test_a_study_is_not_created_twice(pauses: list[float]) -> None:
    script = Script(httpx.ReadError(""))
    with pytest.raises(UnreachableError):
        told(script, lambda server: server.command("/v1/studies", TOKEN, {"title": "t"}))

    assert len(script.requests) == 1


# -------------------------------------------------------------------------------------------------------------- bounds


class Drops(httpx.AsyncByteStream):
    """An answer that comes in drops, and never ends."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await asyncio.sleep(0.001)


def test_an_answer_that_comes_in_drops_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("askance_client.transport.server.MOST_SECONDS", 0.02)
    with pytest.raises(UnreachableError):
        sent(lambda _: httpx.Response(200, stream=Drops()), Patience(attempts=2, first=0))


@pytest.mark.parametrize("more", [0, 1])
def test_an_answer_of_the_largest_size_is_read_and_one_byte_more_is_not(
    monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    body = good().content
    monkeypatch.setattr("askance_client.transport.server.MOST_BYTES", len(body) - more)
    patience = Patience(attempts=1)
    answer = sent(Script(httpx.Response(200, content=body)), patience)

    assert isinstance(answer, Refusal if more else Receipt)


def test_a_document_may_have_fractions_and_has_to_be_an_object() -> None:
    def document(body: bytes) -> Any:
        return told(Script(httpx.Response(200, content=body)), lambda server: server.document("/v1/studies/x/result"))

    assert document(b'{"mean":0.5}') == {"mean": 0.5}
    for body in (b"[]", b"1", b"", b"{", b"\xff", b"[" * 100_000, b"1" * 5000):
        assert document(body).reason is Reason.UNREADABLE


# ---------------------------------------------------------------------------------------------------- what is not told


def test_a_request_carries_the_version_the_token_and_nothing_else_that_tells_users_apart() -> None:
    tracked = httpx.Response(200, json=RECEIPT, headers={"Set-Cookie": "who=sekret; Path=/"})
    script = Script(tracked, good(), httpx.Response(200, json={}))

    async def several(server: Server) -> None:
        await server.send(ROUND, TOKEN, BODY)
        await server.send(ROUND, TOKEN, BODY)
        await server.document("/v1/studies")

    told(script, several)
    first, second, public = script.requests

    assert first.headers == second.headers
    assert first.headers["askance-protocol"] == "1"
    assert first.headers["authorization"] == f"Bearer {TOKEN}"
    assert {"authorization", "cookie"}.isdisjoint(public.headers)


def test_no_proxy_of_the_environment_sees_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://evil.test:1")

    async def mounts() -> object:
        async with Server(URL) as server:
            return server._client._mounts

    assert run(mounts()) == {}


def test_neither_token_nor_report_is_in_any_log_or_error(caplog: pytest.LogCaptureFixture, pauses: list[float]) -> None:
    echo = httpx.Response(200, content=b'{"user":"%s","round":"%s"}' % (TOKEN.encode(), BODY.hex().encode()))
    patience = Patience(attempts=2)
    with caplog.at_level(logging.DEBUG):
        refusal = sent(Script(echo))
        with pytest.raises(UnreachableError) as unreachable:
            sent(Script(httpx.ReadError("")), patience)
        with pytest.raises(UnreachableError):
            sent(Script(problem(500, "internal")), patience)
    told_of = f"{refusal!r} {unreachable.value!r} {unreachable.value} {caplog.text}"

    assert caplog.text
    assert TOKEN not in told_of
    assert "outcome" not in told_of
    assert BODY.hex() not in told_of


def test_new_tokens_have_no_readable_form() -> None:
    said = {"user": USER, "users": 1, "cap_micro_epsilon": 1, "token": TOKEN, "tokens": []}
    enrolled = told(Script(httpx.Response(201, json=said)), lambda server: server.enrol("enrolment"))

    assert enrolled.tokens == (TOKEN,)
    assert TOKEN not in repr(enrolled)


# ------------------------------------------------------------------------------------------------------------ where to


@pytest.mark.parametrize(
    "url", ["", "askance.test", "ftp://askance.test", "file:///etc/passwd", "http://", "//askance.test", "http://[::/"]
)
def test_what_is_no_web_address_is_refused_with_what_to_give(url: str) -> None:
    with pytest.raises(UsageError, match="give one as http"):
        Server(url)


def test_a_slash_at_the_end_names_the_same_server() -> None:
    async def url() -> str:
        async with Server(f"{URL}/") as server:
            return server.url

    assert run(url()) == URL


# ---------------------------------------------------------------------------------------------------------- no seeds

SEEDS = ("seed", "rng", "random", "source", "generator", "entropy", "coin", "noise")


@pytest.mark.parametrize("kind", [User, Wallet, WalletFile, BulletinReader, Server])
def test_no_parameter_of_a_user_takes_a_seed(kind: type) -> None:
    """Nobody may decide, nor know, what a user draws: not even by an option that is meant for tests."""
    routines = (each for _, each in inspect.getmembers(kind, inspect.isroutine))
    methods = [each for each in routines if str(getattr(each, "__module__", "")).startswith("askance_client")]
    names = {name for each in (kind, *methods) for name in inspect.signature(each).parameters}

    assert len(methods) > 1
    assert not [name for name in names if any(seed in name.lower() for seed in SEEDS)]


def test_a_servers_own_words_do_not_steer_a_terminal() -> None:
    document = {"type": "urn:askance:problem:not\x1b[2Jfound", "detail": "\x1b]0;mine\x07" + "x" * 1000}
    answer = sent(Script(httpx.Response(404, json=document)))

    assert isinstance(answer, Problem)
    assert answer.name == r"not\x1b[2Jfound"
    assert answer.detail == r"\x1b]0;mine\x07" + "x" * 484 + "…"


def test_errors_keep_their_class_and_their_words_from_one_process_to_another() -> None:
    """A shard of a fleet tells the others why it has stopped."""
    for error in (RemoteError("is odd", where="server", remedy="see its log"), UnreachableError("is away", where=URL)):
        same = pickle.loads(pickle.dumps(error))

        assert type(same) is type(error)
        assert (str(same), same.what, same.where, same.remedy) == (str(error), error.what, error.where, error.remedy)
    assert (RemoteError.code, UnreachableError.code) == (Code.REMOTE, Code.UNREACHABLE)


# ---------------------------------------------------------------------------------------------------------------- https


def lost(cause: Exception | None) -> httpx.ConnectError:
    """As httpx raises it, for this cause, two errors below."""
    error, between = httpx.ConnectError("no connection"), OSError()
    between.__context__ = cause
    error.__cause__ = between
    return error


def distrusted() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "CERTIFICATE_VERIFY_FAILED")
    error.verify_message = "self-signed certificate"
    return error


def test_a_certificate_that_is_not_believed_is_told_at_once_and_nothing_else_is(pauses: list[float]) -> None:
    script, other = Script(lost(distrusted())), Script(lost(ssl.SSLError(1, "WRONG_VERSION_NUMBER")))
    words = r"shows a certificate that is not trusted: self-signed certificate \(.*SSL_CERT_FILE=FILE\)"
    with pytest.raises(UnreachableError, match=words):
        sent(script)
    assert (len(script.requests), pauses) == (1, [])

    with pytest.raises(UnreachableError, match=f"no answer in {USUAL.attempts} attempts"):
        sent(other)
    assert len(other.requests) == USUAL.attempts


@pytest.mark.parametrize("content", [None, "hello"])
def test_a_file_without_certificates_is_refused_where_there_is_https_to_speak(
    content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "trusted.pem"))
    if content is not None:
        (tmp_path / "trusted.pem").write_text(content)

    async def opened(url: str) -> None:
        async with Server(url):
            pass

    run(opened("http://127.0.0.1:9"))
    with pytest.raises(UsageError, match="SSL_CERT_FILE: has no certificate that can be read"):
        run(opened("https://127.0.0.1:9"))
