"""TLS: what is limited without it is limited with it, from a connection's first moment; uvicorn's own is the control.

As in `test_connections`, no clock decides: `later` moves the deadlines.
"""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Generator
from dataclasses import replace
from typing import Final

import pytest
from starlette.types import Receive, Scope, Send

from askance_server.api import connections
from askance_server.api.connections import ConnectionLimits, GuardedProtocol, guarded
from askance_server.certificate import read_certificate
from tests.harness.certificates import HERE, Pair, made
from tests.harness.hosted import connect, hosted, parts_of, rest_of
from tests.harness.marks import SECONDS
from tests.server.test_connections import (
    GET,
    PATIENT,
    UNFINISHED,
    Watched,
    application,
    is_open,
    later,
    rest_in_time,
    wait_until,
)

LOOPS: Final = ("asyncio", "uvloop")
"""Event loops on which the protocol may run: `auto` is the second, where there is one."""
SILENT: Final = {
    "nothing": b"",
    "the beginning of a greeting": bytes.fromhex("1603010200010001fc0303") + bytes(20),
}
"""What a peer sends who never finishes her handshake."""


@pytest.fixture(autouse=True)
def _sweeps_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_TICK", 0.02)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return made(tmp_path_factory.mktemp("tls"), *HERE)


@contextlib.contextmanager
def serving(pair: Pair, limits: ConnectionLimits = PATIENT, loop: str = "auto") -> Generator[tuple[int, type[Watched]]]:
    protocol = type("GuardedProtocol", (Watched,), {"pool": guarded(limits).pool, "tls": pair.serving})
    with hosted(application, protocol, lifespan=False, loop=loop) as port:
        yield port, protocol


def secure(pair: Pair, port: int) -> ssl.SSLSocket:
    """A connection behind its handshake."""
    return pair.trusting.wrap_socket(connect(port), server_hostname="localhost", suppress_ragged_eofs=True)


# ------------------------------------------------------------------------------------------------------- the handshake


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("what", SILENT)
def test_who_never_finishes_her_handshake_is_ended_like_one_who_never_sends_a_head(
    pair: Pair, what: str, loop: str
) -> None:
    with serving(pair, loop=loop) as (port, protocol), connect(port) as connection, secure(pair, port) as other:
        assert is_open(other)
        connection.sendall(SILENT[what])
        wait_until("both are counted", lambda: len(protocol.pool) == 2)
        # Time passes for her alone.
        for one in [one for one in protocol.pool.unproven if one._handshake is not None]:
            one.deadline -= 2 * PATIENT.head_seconds

        with contextlib.suppress(ConnectionResetError):
            assert rest_of(connection) == b""
        assert is_open(other)
        wait_until("it is counted", lambda: protocol.pool.ended)
        assert (len(protocol.pool), protocol.pool.ended) == (1, {"handshake": 1})


def test_the_control_a_handshake_that_is_the_web_servers_is_counted_by_nobody_and_has_no_deadline(pair: Pair) -> None:
    protocol = type("GuardedProtocol", (Watched,), {"pool": guarded(PATIENT).pool})
    files = {"ssl_certfile": str(pair.certificate), "ssl_keyfile": str(pair.key)}
    with hosted(application, protocol, lifespan=False, **files) as port, connect(port) as connection:
        with secure(pair, port) as other:
            assert is_open(other)
            later(protocol)
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        wait_until("the other is gone", lambda: not len(protocol.pool))


@pytest.mark.parametrize("loop", LOOPS)
def test_handshakes_that_are_not_finished_take_no_more_connections_than_there_may_be(pair: Pair, loop: str) -> None:
    with serving(pair, replace(PATIENT, connections=4), loop) as (port, protocol), contextlib.ExitStack() as stack:
        silent = [stack.enter_context(connect(port)) for _ in range(40)]
        wait_until("the first are ended", lambda: protocol.pool.ended["room"] == 36)

        assert is_open(stack.enter_context(secure(pair, port)))
        assert len(protocol.pool) <= 4
        with contextlib.suppress(ConnectionResetError):
            assert rest_of(silent[0]) == b""


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("sent", [GET, b"hello\r\n\r\n", b"\x16\x03\x01\x00\x05hello"])
def test_what_is_no_tls_ends_the_connection_and_is_no_line_of_a_log(
    pair: Pair, loop: str, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(pair, loop=loop) as (port, protocol), connect(port) as connection:
        connection.sendall(sent)
        with contextlib.suppress(ConnectionResetError):
            assert b"HTTP" not in rest_of(connection)
        wait_until("it is forgotten", lambda: not len(protocol.pool))
        with secure(pair, port) as other:
            assert is_open(other)

    assert [record.message for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []


def test_who_does_not_believe_the_certificate_leaves_and_is_no_line_of_a_log(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(pair) as (port, protocol), connect(port) as raw:
        with pytest.raises(ssl.SSLCertVerificationError):
            ssl.create_default_context().wrap_socket(raw, server_hostname="localhost")
        wait_until("she is forgotten", lambda: not len(protocol.pool))

    assert [record.message for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stop_does_not_wait_for_a_handshake(pair: Pair, loop: str) -> None:
    with serving(pair, loop=loop) as (port, protocol), contextlib.ExitStack() as stack:
        stack.enter_context(connect(port))
        stack.enter_context(connect(port)).sendall(SILENT["the beginning of a greeting"])
        wait_until("they are counted", lambda: len(protocol.pool) == 2)
    # `hosted` would not return, and what is left open would be a warning, which fails.
    assert len(protocol.pool) == 0


# ---------------------------------------------------------------------------------------------------------- behind it


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("what", UNFINISHED)
def test_behind_the_handshake_a_connection_has_the_deadlines_of_any_other(pair: Pair, what: str, loop: str) -> None:
    sent, status = UNFINISHED[what]
    with serving(pair, loop=loop) as (port, protocol), secure(pair, port) as connection:
        if sent:
            connection.sendall(sent)
        wait_until("it came", lambda: protocol.received == len(sent))
        answer = rest_in_time(connection, protocol)

        assert answer[9:12] == status
        wait_until("it is counted", lambda: sum(protocol.pool.ended.values()) == 1)


@pytest.mark.parametrize("loop", LOOPS)
def test_an_answer_that_comes_before_the_body_arrives_and_says_that_the_connection_ends(pair: Pair, loop: str) -> None:
    """Half a connection cannot be closed here: what comes is thrown away for a while, and its end is not told."""
    with serving(pair, loop=loop) as (port, _), secure(pair, port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        connection.settimeout(SECONDS)
        connection.sendall(bytes(1 << 18))
        got = b""
        while not got.endswith(b"done"):
            piece = connection.recv(1 << 16)
            assert piece, got
            got += piece
        # Nobody ends it, until its peer does.
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)

    assert parts_of(got)[0] == 200
    assert b"\r\nconnection: close\r\n" in got.lower()


def test_control_a_connection_that_is_closed_at_once_is_found(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GuardedProtocol, "close", GuardedProtocol.abort)
    with serving(pair) as (port, _), secure(pair, port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
        connection.settimeout(SECONDS)
        # It comes to its end, where the test above waits in vain for one.
        with contextlib.suppress(ConnectionResetError):
            rest_of(connection)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_request_that_no_head_may_be_is_refused_with_its_reason(pair: Pair, loop: str) -> None:
    with serving(pair, loop=loop) as (port, protocol), secure(pair, port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"x" * (1 << 16))
        wait_until("it is refused", lambda: any(one._closing for one in [*protocol.pool.unproven]))
        status, headers, body = parts_of(rest_in_time(connection, protocol))

    assert (status, headers["connection"]) == (431, "close")
    assert json.loads(body)["type"] == "urn:askance:problem:head-too-large"


async def tells_its_scheme(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the scheme that the application sees."""
    sent = scope["scheme"].encode()
    headers = [(b"content-length", str(len(sent)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": sent})


@pytest.mark.parametrize("loop", LOOPS)
def test_the_application_sees_that_it_is_https_and_many_are_answered_at_once(pair: Pair, loop: str) -> None:
    with (
        hosted(tells_its_scheme, guarded(PATIENT, pair.serving), lifespan=False, loop=loop) as port,
        contextlib.ExitStack() as stack,
    ):
        peers = [stack.enter_context(secure(pair, port)) for _ in range(50)]
        for each in peers:
            each.sendall(GET)
        assert [parts_of(rest_of(each))[2] for each in peers] == [b"https"] * 50


def test_old_versions_of_tls_are_not_spoken(pair: Pair) -> None:
    shown = read_certificate(pair.certificate, pair.key)
    assert shown is not None
    with hosted(application, guarded(PATIENT, shown.context), lifespan=False) as port, connect(port) as raw:
        context = pair.trusting
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.warns(DeprecationWarning, match="TLSv1"):
            context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            context.wrap_socket(raw, server_hostname="localhost")
