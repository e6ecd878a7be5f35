"""What a peer may take of a server's time, memory and sockets, over the loopback; uvicorn's protocol is the control.

Theory of operation
-------------------
No clock decides here. Limits are so long that none of them passes while a test runs, on however slow a machine; where a
test is about time, `later` moves the deadlines of all connections towards now, once the server has what was sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
import weakref
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Final

import pytest
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from askance_server.api import connections
from askance_server.api.connections import EXTENSION, ConnectionLimits, GuardedProtocol, guarded
from tests.harness.hosted import answer_to, connect, hosted, parts_of, rest_of
from tests.harness.marks import SECONDS

LONG: Final = 1000.0
"""Seconds: what `later` lets pass, and nothing else."""
PATIENT: Final = ConnectionLimits(
    head_seconds=LONG, body_seconds=LONG, idle_seconds=LONG, answer_seconds=LONG, linger_seconds=LONG
)
GET: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
BIG: Final = 64 << 20
"""Bytes that no socket's buffer holds."""


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """`/trust` shows a token, `/wait` is never answered, `/big` is long, `/stream` does not end, `/read` reads."""
    path, sent = scope["path"], b"done"
    if path == "/trust":
        scope["extensions"][EXTENSION].trust()
    if path == "/wait":
        await asyncio.sleep(SECONDS)
    if path == "/read":
        read, more = 0, True
        while more:
            message = await receive()
            read, more = read + len(message.get("body", b"")), message.get("more_body", False)
        sent = str(read).encode()
    length = [(b"content-length", str(BIG if path == "/big" else len(sent)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": [] if path == "/stream" else length})
    if path == "/stream":
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        await asyncio.sleep(SECONDS)
    if path == "/big":
        for _ in range(BIG >> 20):
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})
        sent = b""
    await send({"type": "http.response.body", "body": sent})


class Watched(GuardedProtocol):
    """The protocol, and what a test wants to know of all of its connections."""

    received = 0
    """Bytes that came."""
    looks = 0
    """How often a deadline was found to have passed."""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        type(self).received += len(data)

    def overdue(self, now: float) -> str:
        reason = super().overdue(now)
        type(self).looks += 1
        return reason


@pytest.fixture(autouse=True)
def _sweeps_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_TICK", 0.02)


@contextlib.contextmanager
def serving(limits: ConnectionLimits) -> Generator[tuple[int, type[Watched]]]:
    protocol = type("GuardedProtocol", (Watched,), {"pool": guarded(limits).pool})
    with hosted(application, protocol, lifespan=False) as port:
        yield port, protocol


class Gathering(Watched):
    """A protocol whose pieces are as long as a test wants them."""

    least = 1
    kept = b""

    def data_received(self, data: bytes) -> None:
        self.kept += data
        if len(self.kept) >= self.least:
            whole, self.kept = self.kept, b""
            super().data_received(whole)


@contextlib.contextmanager
def gathering(least: int) -> Generator[tuple[int, type[Gathering]]]:
    protocol = type("GuardedProtocol", (Gathering,), {"pool": guarded(PATIENT).pool, "least": least})
    with hosted(application, protocol, lifespan=False) as port:
        yield port, protocol


def later(protocol: type[Watched], seconds: float = LONG) -> None:
    """Let time pass for the connections that there are."""
    for one in [*protocol.pool.unproven, *protocol.pool.trusted]:
        one.deadline -= seconds
        one._body_began -= seconds


def rest_in_time(connection: socket.socket, protocol: type[Watched]) -> bytes:
    """All that comes until the server closes the connection, while time passes."""
    pieces, end = list[bytes](), time.monotonic() + SECONDS
    connection.settimeout(0.02)
    while True:
        try:
            piece = connection.recv(1 << 16)
        except TimeoutError:
            assert time.monotonic() < end, pieces
            later(protocol)
            continue
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def read_one(connection: socket.socket) -> bytes:
    """One answer of `application`, whose body is `done`."""
    got = b""
    while not got.endswith(b"done"):
        piece = connection.recv(1 << 16)
        assert piece, got
        got += piece
    return got


def is_open(connection: socket.socket) -> bool:
    """Whether the server still listens on a connection: it answers a request there."""
    try:
        connection.sendall(GET)
        read_one(connection)
    except (OSError, AssertionError):
        return False
    return True


def wait_until(what: str, holds: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.01)


# ---------------------------------------------------------------------------------------------------------------- time

UNFINISHED: Final = {
    "nothing": (b"", b""),
    "half a line": (b"GE", b"408"),
    "half a head": (b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ", b"408"),
    "a head and an empty line too few": (GET[:-2], b"408"),
    "half a body": (b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf", b"408"),
    "half a chunk": (b"POST /read HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf", b"408"),
    "a request, and nothing more": (GET, b"200"),
    "a request and half a line": (GET + b"GE", b"200"),
    "a request with a token, and nothing more": (GET.replace(b"/ ", b"/trust "), b"200"),
    "empty lines": (b"\r\n" * 9, b""),
}


@pytest.mark.parametrize("what", UNFINISHED)
def test_a_connection_on_which_nothing_comes_any_more_is_closed_and_what_was_begun_is_answered(what: str) -> None:
    sent, status = UNFINISHED[what]
    with serving(PATIENT) as (port, protocol), connect(port) as connection:
        connection.sendall(sent)
        wait_until("it came", lambda: len(protocol.pool) and protocol.received == len(sent))
        answer = rest_in_time(connection, protocol)

        assert answer[9:12] == status
        # It is counted a moment after it has ended.
        wait_until("it is counted", lambda: protocol.pool.ended)
        assert sum(protocol.pool.ended.values()) == 1


def test_nobody_is_cut_off_before_her_time() -> None:
    with serving(PATIENT) as (port, protocol), contextlib.ExitStack() as stack:
        waiting = {what: stack.enter_context(connect(port)) for what in UNFINISHED}
        for what, connection in waiting.items():
            connection.sendall(UNFINISHED[what][0])
        sent = sum(len(sent) for sent, _ in UNFINISHED.values())
        wait_until("all came", lambda: protocol.received == sent and len(protocol.pool) == len(UNFINISHED))
        # A minute is left for what the machine may do besides.
        later(protocol, LONG - 60)
        look = stack.enter_context(connect(port))

        assert is_open(look)
        assert (protocol.looks, protocol.pool.ended) == (0, {})


def test_the_control_uvicorns_own_protocol_waits_for_ever_where_a_request_is_not_finished() -> None:
    with hosted(application, HttpToolsProtocol, lifespan=False) as port, contextlib.ExitStack() as stack:
        waiting = {what: stack.enter_context(connect(port)) for what in ("nothing", "half a head", "half a body")}
        for what, connection in waiting.items():
            connection.sendall(UNFINISHED[what][0])
        for seconds, connection in zip((2, 0.1, 0.1), waiting.values(), strict=True):
            connection.settimeout(seconds)
            with pytest.raises(TimeoutError):
                connection.recv(1)


@pytest.mark.parametrize("drip", [b"X", b"X: y\r\n"])
def test_a_head_in_drops_has_no_more_time_than_one_that_stops(drip: bytes) -> None:
    begin = b"GET / HTTP/1.1\r\nHost: x\r\n"
    with serving(PATIENT) as (port, protocol), connect(port) as connection:
        connection.sendall(begin)
        for drops in range(1, 21):
            wait_until("it came", lambda drops=drops: protocol.received == len(begin) + (drops - 1) * len(drip))
            # All drops together take longer than a head may.
            later(protocol, LONG / 19)
            with contextlib.suppress(OSError):  # The last is perhaps too late.
                connection.sendall(drip)

        assert rest_of(connection).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_goes_on_coming_has_the_time_that_its_bytes_buy() -> None:
    head = b"POST /read HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 40000\r\n\r\n"
    with serving(replace(PATIENT, body_rate=1)) as (port, protocol), connect(port) as connection:
        connection.sendall(head)
        for pieces in range(1, 40):
            connection.sendall(bytes(1000))
            wait_until("it came", lambda pieces=pieces: protocol.received == len(head) + 1000 * pieces)
            # In all 26 times the seconds that a body without bytes has: two thirds of what its bytes have bought.
            later(protocol, LONG * 2 / 3)
        wait_until("its time was looked at", lambda: protocol.looks)
        connection.sendall(bytes(1000))

        assert rest_of(connection).endswith(b"40000")


def test_the_server_takes_as_long_as_it_needs_to_answer() -> None:
    with serving(PATIENT) as (port, protocol), connect(port) as idle, connect(port) as connection:
        connection.sendall(GET.replace(b"/ ", b"/wait "))
        wait_until("it works", lambda: any(not one.waits for one in [*protocol.pool.unproven]))
        later(protocol)

        # The control: one who says nothing, on the same clock.
        assert rest_of(idle) == b""
        wait_until("one was ended", lambda: protocol.pool.ended)
        later(protocol)
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        assert protocol.pool.ended == {"idle": 1}


def test_an_answer_that_nobody_reads_is_given_up() -> None:
    with serving(PATIENT) as (port, protocol), connect(port) as connection:
        connection.sendall(GET.replace(b"/ ", b"/big "))
        wait_until("nothing goes on", lambda: any(one.flow.write_paused for one in [*protocol.pool.unproven]))
        wait_until("it is given up", lambda: later(protocol) or protocol.pool.ended["unread"])
        wait_until("it is closed", lambda: not len(protocol.pool))


def test_who_reads_an_answer_slowly_does_not_keep_others_waiting() -> None:
    with serving(PATIENT) as (port, _), contextlib.ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(connect(port)).sendall(GET.replace(b"/ ", b"/big "))

        assert [answer_to(port, GET).endswith(b"done") for _ in range(50)] == [True] * 50


# -------------------------------------------------------------------------------------------------------------- number


def test_one_connection_too_many_ends_the_one_that_was_of_no_use_for_longest() -> None:
    with serving(replace(PATIENT, connections=4)) as (port, protocol), contextlib.ExitStack() as stack:
        first, second, third, fourth = [stack.enter_context(connect(port)) for _ in range(4)]
        wait_until("all are there", lambda: len(protocol.pool) == 4)
        for each in (second, first, fourth):  # `third` says nothing.
            assert is_open(each)
        fifth = stack.enter_context(connect(port))

        assert is_open(fifth)
        assert rest_of(third) == b""
        assert all(map(is_open, (first, second, fourth, fifth)))
        assert protocol.pool.ended == {"room": 1}


def test_a_connection_with_a_token_outlives_any_number_of_those_without() -> None:
    with serving(replace(PATIENT, connections=16)) as (port, protocol), contextlib.ExitStack() as stack:
        trusted = stack.enter_context(connect(port))
        trusted.sendall(GET.replace(b"/ ", b"/trust "))
        read_one(trusted)
        working = stack.enter_context(connect(port))
        working.sendall(GET.replace(b"/ ", b"/wait "))
        wait_until("it works", lambda: any(not one.waits for one in [*protocol.pool.unproven]))
        for _ in range(200):
            stack.enter_context(connect(port))

        assert is_open(trusted)
        assert is_open(stack.enter_context(connect(port)))
        assert len(protocol.pool) <= 16
        working.settimeout(0.2)
        with pytest.raises(TimeoutError):
            working.recv(1)


def test_streams_without_a_token_are_ended_before_a_newcomer_is() -> None:
    # Less than nothing: the loop's clock goes in milliseconds, and a stream may have begun in this one.
    with (
        serving(replace(PATIENT, connections=3, stream_seconds=-1.0)) as (port, protocol),
        contextlib.ExitStack() as stack,
    ):
        for _ in range(3):
            stream = stack.enter_context(connect(port))
            stream.sendall(GET.replace(b"/ ", b"/stream "))
            while not stream.recv(1 << 16).endswith(b"one\r\n"):
                pass

        assert answer_to(port, GET).endswith(b"done")
        assert protocol.pool.ended["room"] == 1


def test_if_all_are_at_work_the_newcomer_goes_away_and_nobody_else() -> None:
    with serving(replace(PATIENT, connections=3)) as (port, protocol), contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connect(port)).sendall(GET.replace(b"/ ", b"/wait "))
        wait_until("all work", lambda: sum(not one.waits for one in [*protocol.pool.unproven]) == 3)
        newcomer = stack.enter_context(connect(port))
        with contextlib.suppress(ConnectionResetError):
            assert rest_of(newcomer) == b""

        assert len(protocol.pool) == 3


# ---------------------------------------------------------------------------------------------------------------- size


def test_many_requests_in_one_piece_are_answered_up_to_a_number_and_the_rest_is_refused() -> None:
    with serving(replace(PATIENT, pipelined=10)) as (port, _):
        answer = answer_to(port, GET * 5000)

    # One at work, ten behind it.
    assert [piece[:3] for piece in answer.split(b"HTTP/1.1 ")[1:]] == [b"200"] * 11 + [b"400"]


def test_requests_in_one_piece_are_answered_in_their_order() -> None:
    with serving(PATIENT) as (port, _):
        bodies = b"".join(
            b"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (n, b"x" * n) for n in range(20)
        )
        answer = answer_to(port, bodies)

    assert [int(piece.rpartition(b"\r\n\r\n")[2]) for piece in answer.split(b"HTTP/1.1 ")[1:]] == list(range(20))


def test_an_answer_that_comes_before_the_body_arrives_although_nobody_reads_the_body() -> None:
    with serving(PATIENT) as (port, _), connect(port) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000000\r\n\r\n")
        with contextlib.suppress(OSError):
            for _ in range(64):
                connection.sendall(bytes(1 << 16))
        got = b""
        with contextlib.suppress(ConnectionResetError):
            got = rest_of(connection)

    assert parts_of(got)[0] == 200


HALF: Final = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"


def test_who_is_answered_before_her_body_came_is_told_that_the_connection_ends() -> None:
    """Most clients send head and body apart, and the next request on the same connection, unless they are told."""
    with serving(PATIENT) as (port, _), connect(port) as connection:
        connection.sendall(HALF)
        early = rest_of(connection)
    with serving(PATIENT) as (port, _), connect(port) as connection:
        connection.sendall(HALF + b"body")
        late = read_one(connection)
        connection.sendall(GET)
        again = read_one(connection)

    assert b"\r\nconnection: close\r\n" in early.lower()
    assert b"connection:" not in late.lower() + again.lower()


def test_control_one_who_is_not_told_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def as_before(_: object, send: Send, message: Message) -> None:
        await send(message)

    monkeypatch.setattr(connections, "_send", as_before)
    with serving(PATIENT) as (port, _), connect(port) as connection:
        connection.sendall(HALF)

        assert b"connection:" not in rest_of(connection).lower()


def test_a_stop_waits_for_what_works_and_for_nobody_who_does_not_finish() -> None:
    with serving(PATIENT) as (port, _), contextlib.ExitStack() as stack:
        idle, head, body = [stack.enter_context(connect(port)) for _ in range(3)]
        head.sendall(UNFINISHED["half a head"][0])
        body.sendall(UNFINISHED["half a body"][0])
        assert is_open(stack.enter_context(connect(port)))
        del idle
    # `hosted` would not return: its threads have to end.


@pytest.mark.parametrize(
    "before", [b"", GET, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + bytes(50_000)]
)
def test_a_head_that_is_too_long_and_has_no_end_is_refused_also_in_one_piece(before: bytes) -> None:
    """A socket may bring it in one piece or in many, and which it is depends on nothing but time."""
    long = b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"x" * (1 << 16)
    with gathering(len(before) + len(long)) as (port, protocol), connect(port) as connection:
        connection.sendall(before + long)
        answers = rest_in_time(connection, protocol)

    assert answers.count(b"HTTP/1.1 431") == 1, answers
    assert answers.count(b"HTTP/1.1 200") == (1 if before else 0)


def test_a_head_is_not_charged_with_the_requests_that_came_in_the_same_piece() -> None:
    begun, rest = GET[:9], GET[9:]
    body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + bytes(50_000)
    with gathering(len(begun)) as (port, protocol), connect(port) as connection:
        connection.sendall(begun)
        wait_until("half a head came", lambda: protocol.received == len(begun))
        # In one piece: the end of a head, a long body, and the beginning of the next head.
        protocol.least = len(rest + body + begun)
        connection.sendall(rest + body + begun)
        both = read_one(connection)
        while both.count(b"done") < 2:
            both += read_one(connection)
        assert both.count(b" 200 OK") == 2
        protocol.least = 1
        connection.sendall(rest)
        assert b" 200 OK" in read_one(connection)


def test_half_a_line_is_open_behind_a_request_that_came_whole() -> None:
    with serving(PATIENT) as (port, _), connect(port) as connection:
        connection.sendall(GET)
        connection.shutdown(socket.SHUT_WR)

        assert parts_of(rest_of(connection))[2] == b"done"


def test_a_small_body_may_follow_a_large_one_on_a_connection() -> None:
    """What was read of the request before is no overhead of this one: a gateway's last batch is the smallest."""
    with serving(PATIENT) as (port, _), connect(port) as connection:
        for size in (1 << 21, 200_000, 70_000):
            head = f"POST /read HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
            # The head comes with the beginning of its body, and the rest later.
            connection.sendall(head + bytes(size // 2))
            time.sleep(0.05)
            connection.sendall(bytes(size - size // 2))
            got, wanted = b"", str(size).encode()
            while not got.endswith(wanted):
                piece = connection.recv(1 << 16)
                assert piece, got
                got += piece
            assert got.startswith(b"HTTP/1.1 200")


# ------------------------------------------------------------------------------------------- what is left of a request


def left_of(requests: int) -> int:
    """How many requests are still there when so many on one connection have been answered, and nobody collects."""
    there = list[weakref.ref[Any]]()

    class Noting(Watched):
        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            there.append(weakref.ref(cycle))
            super()._start_asgi_task(cycle, app)

    protocol = type("GuardedProtocol", (Noting,), {"pool": guarded(PATIENT).pool})
    with hosted(application, protocol, lifespan=False) as port, connect(port) as connection:
        was_on = gc.isenabled()
        gc.disable()
        try:
            for _ in range(requests):
                connection.sendall(GET)
                answer = b""
                while not answer.endswith(b"done"):
                    answer += connection.recv(1 << 16)
            assert len(there) == requests
            return sum(each() is not None for each in there)
        finally:
            if was_on:
                gc.enable()


def test_a_request_that_was_answered_is_gone_without_a_search_for_garbage() -> None:
    """The search holds all up. The last request is the connection's, and the one before may still be at its end."""
    assert left_of(30) <= 2


def test_control_requests_that_refer_to_themselves_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GuardedProtocol, "_let_go", lambda self: None)
    assert left_of(30) == 30
