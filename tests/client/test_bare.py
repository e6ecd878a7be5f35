"""Bare connections: one question, one answer, and nothing of one user's reaches another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx
import pytest

from askance_client import Patience, Server, UnreachableError
from askance_client.transport import Receipt, bare
from askance_client.transport.bare import BareServer
from askance_protocol import canonical
from askance_protocol.budget import MICRO
from tests.client.people import run
from tests.client.raw_liar import OK, whole

ROUND: Final = "1" * 64
PATIENCE: Final = Patience(attempts=2, first=0, longest=0)


def receipt(user: int) -> bytes:
    return canonical.dumps({"user": user, "round": ROUND, "charged": MICRO})


class Talk:
    """A server that says these answers, one after the other, whoever asks on whatever connection; it notes them."""

    def __init__(self, *answers: bytes) -> None:
        self._answers, self.requests, self.connections = list(answers), list[tuple[int, bytes]](), 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = [line[15:] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
                body = await reader.readexactly(int(length[0]) if length else 0)
                self.requests.append((connection, head + body))
                writer.write(self._answers.pop(0))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def asked(self, ask: Callable[[BareServer], Awaitable[Any]], **how: Any) -> Any:
        """What comes of asking it."""

        async def once() -> Any:
            listening = await asyncio.start_server(self.talk, "127.0.0.1", 0)
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            try:
                async with BareServer(url, patience=PATIENCE, **how) as server:
                    return await ask(server)
            finally:
                listening.close()
                await asyncio.sleep(0.01)

        return run(once())


async def two(server: Server) -> list[object]:
    """Reports of two users, one after the other."""
    return [await server.send(ROUND, f"token.{user}", b'{"outcome":%d}' % user) for user in (1, 2)]


RECEIPTS: Final = [Receipt(user, ROUND, MICRO) for user in (1, 2)]


def test_a_connection_is_used_again_and_a_request_says_no_more_than_it_has_to() -> None:
    talk = Talk(whole(receipt(1)), whole(receipt(2)))

    assert talk.asked(two) == RECEIPTS
    assert [connection for connection, _ in talk.requests] == [1, 1]
    head, _, body = talk.requests[0][1].partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    assert first == f"POST /v1/rounds/{ROUND}/reports HTTP/1.1".encode()
    assert {line.partition(b":")[0].lower() for line in lines} == {
        b"host",
        b"accept-encoding",
        b"askance-protocol",
        b"authorization",
        b"content-type",
        b"content-length",
    }
    assert body == b'{"outcome":1}'


@pytest.mark.parametrize(
    "first",
    [
        whole(receipt(1), b"Connection: close"),
        whole(receipt(1)).replace(b"HTTP/1.1", b"HTTP/1.0"),
        whole(receipt(1)) + whole(receipt(1)),
        whole(receipt(1)) + b"HTTP/1.1 200",
        whole(receipt(1)) + b"\x00",
        whole(b" " * 70_000),
        whole(receipt(1), b"Content-Encoding: gzip"),
    ],
    ids=["closed", "by HTTP/1.0", "a second answer", "the begin of one", "a byte", "too long", "packed"],
)
def test_after_any_other_end_than_its_own_a_connection_is_not_used_again(first: bytes) -> None:
    talk = Talk(first, whole(receipt(2)))

    assert talk.asked(two)[1] == RECEIPTS[1]
    assert [connection for connection, _ in talk.requests] == [1, 2]


def test_one_that_used_it_again_would_take_another_s_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault, planted: what stands behind an answer is kept, and taken for the next one."""

    def begins(connection: Any) -> None:
        connection._status, connection._headers, connection._body = 0, {}, bytearray()

    monkeypatch.setattr(bare.BareConnection, "on_message_begin", begins)
    first = receipt(1)
    talk = Talk(whole(first) + OK + b"Content-Length: %d" % len(first), b"\r\n\r\n" + first)

    assert talk.asked(two)[1] == RECEIPTS[0]


def test_an_idle_connection_is_left_to_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare, "_IDLE", 0.0)
    talk = Talk(whole(receipt(1)), whole(receipt(2)))

    assert talk.asked(two) == RECEIPTS
    assert [connection for connection, _ in talk.requests] == [1, 2]


def test_a_server_that_says_nothing_is_given_up_and_sent_the_same_bytes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bare, "_SILENCE", 0.02)
    talk = Talk(b"", OK)
    with pytest.raises(UnreachableError, match="no answer in 2 attempts"):
        talk.asked(two)

    assert talk.requests[0][1] == talk.requests[1][1]


def test_who_is_cancelled_leaves_no_answer_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cancelled(server: Server) -> object:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await server.send(ROUND, "token.1", b"{}")
        return await server.send(ROUND, "token.2", b"{}")

    talk = Talk(b"", whole(receipt(2)))

    assert talk.asked(cancelled) == RECEIPTS[1]
    assert [connection for connection, _ in talk.requests] == [1, 2]


def test_no_more_connections_than_there_may_be() -> None:
    async def many(server: Server) -> list[object]:
        return await asyncio.gather(*(server.send(ROUND, "token", b"{}") for _ in range(20)))

    talk = Talk(*[whole(receipt(1))] * 20)

    assert talk.asked(many, connections=3) == [RECEIPTS[0]] * 20
    assert talk.connections == 3


@pytest.mark.parametrize("token", ["a\r\nX: y", "a\nb", "ä", "a\x00"])
def test_a_token_that_is_no_header_is_sent_nowhere(token: str) -> None:
    talk = Talk()
    with pytest.raises(UnreachableError):
        talk.asked(lambda server: server.statement(token))

    assert talk.requests == []


@pytest.mark.parametrize("reason", ["httptools is missing", "the address names a user"])
def test_what_has_no_bare_way_goes_by_httpx(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.setattr(bare, "INSTALLED", reason != "httptools is missing")
    url = "http://u:p@askance.test" if "user" in reason else "http://askance.test"
    line = httpx.MockTransport(lambda _: httpx.Response(200, content=receipt(1)))

    async def once() -> object:
        async with BareServer(url, transport=line) as server:
            return await server.send(ROUND, "token", b"{}")

    assert run(once()) == RECEIPTS[0]


def test_an_address_may_have_a_path() -> None:
    talk = Talk(whole(receipt(1)))

    async def below(server: Server) -> object:
        async with BareServer(f"{server.url}/askance/") as other:
            return await other.send(ROUND, "token", b"{}")

    assert talk.asked(below) == RECEIPTS[0]
    assert talk.requests[0][1].startswith(b"POST /askance/v1/rounds/")
