"""`GET /v1/me`: one user's account, by the cheapest path that keeps the contract.

A fleet, and every client, asks for it before each report. So it is answered in front of the application, as single
reports are: the token is read, a thread looks, and the document is written. What is not plainly such a request is
passed on to the endpoint (`users.get_me`), which is the definition: both give the same answers, errors and headers.

To hand a question to a thread and its answer back costs several times what the look does. So what is asked in one turn
of the loop is handed over as one (`Looks`), and what is asked while `_AT_ONCE` such are under way waits to be the next.
One that takes long, of a user with reports in ten thousand rounds, holds up those of its turn and nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, TypeAlias

from starlette.types import ASGIApp, Receive, Scope, Send

from askance_server.aggregator import Aggregator
from askance_server.api.gate import trust
from askance_server.api.version import HEADER, LENGTH, VERSION, headers_of
from askance_server.auth import UserToken
from askance_server.ledger import Ledger, Standing

PATH: Final = "/v1/me"

_Asked: TypeAlias = "tuple[UserToken, asyncio.Future[bytes]]"

_AT_ONCE: Final = 4
"""Turns of the loop whose questions threads may be at."""
_NEVER_PLAIN: Final = frozenset({LENGTH, b"transfer-encoding", b"expect"})
"""Headers of a request that comes with more than a head: such a one is passed on."""


class AccountPath:
    """Answers what a user asks of her account in front of the application, and passes on everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._looks: Looks | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a plain question with a good token; pass on anything else, also whatever goes wrong."""
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == PATH:
            body = await self._account(scope)
            if body is not None:
                headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
                await send({"type": "http.response.start", "status": 200, "headers": [*headers, (HEADER, VERSION)]})
                await send({"type": "http.response.body", "body": body})
                return
        await self._app(scope, receive, send)

    async def _account(self, scope: Scope) -> bytes | None:
        """The document; None where the application has to say what is wrong."""
        aggregator: Aggregator = scope["app"].state.aggregator
        try:
            headers = headers_of(scope)
            if not _NEVER_PLAIN.isdisjoint(headers):
                return None
            token = aggregator.keys.user_token(headers.get(b"authorization"))
            if self._looks is None:
                self._looks = Looks(aggregator)
            body = await self._looks.at(token)
        except Exception:
            return None  # Whatever it is, the application meets it too, and knows what to say.
        trust(scope)
        return body


class Looks:
    """Looks at accounts, those that are asked for together by one thread in one go."""

    def __init__(self, aggregator: Aggregator) -> None:
        self._aggregator = aggregator
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Asked] = []
        self._under_way = 0

    def at(self, token: UserToken) -> asyncio.Future[bytes]:
        """The account of a token's user, as it is written."""
        if not self._waiting:
            self._loop.call_soon(self._begin)
        done: asyncio.Future[bytes] = self._loop.create_future()
        self._waiting.append((token, done))
        return done

    def _begin(self) -> None:
        if not self._waiting or self._under_way >= _AT_ONCE:
            return
        asked, self._waiting = self._waiting, []
        self._under_way += 1
        ledger, tokens = self._aggregator.ledger, [token for token, _ in asked]
        looked = self._aggregator.begin(lambda: [_tried(ledger, token) for token in tokens])
        looked.add_done_callback(partial(self._settle, asked))

    def _settle(self, asked: Sequence[_Asked], looked: asyncio.Future[list[bytes | Exception]]) -> None:
        self._under_way -= 1
        failed = asyncio.CancelledError() if looked.cancelled() else looked.exception()
        told = [failed] * len(asked) if failed is not None else looked.result()
        for (_, done), found in zip(asked, told, strict=True):
            if done.done():
                continue  # Whoever asked is gone.
            if isinstance(found, bytes):
                done.set_result(found)
            else:
                done.set_exception(found)
        self._begin()


def _tried(ledger: Ledger, token: UserToken) -> bytes | Exception:
    try:
        return _look(ledger, token)
    except Exception as error:
        return error


def _look(ledger: Ledger, token: UserToken) -> bytes:
    """What a thread does: compare the token's epoch, look, and write."""
    token.require_epoch(ledger.epoch(token.user))
    return written(token.user, ledger.standing(token.user))


def written(user: int, standing: Standing) -> bytes:
    """The document, as the endpoint's model is written."""
    account = standing.account
    charges = b",".join(
        b'{"round":"%b","micro_epsilon":%d}' % (each.round.encode(), each.micro_epsilon) for each in standing.charges
    )
    numbers = user, account.cap, account.spent, account.remaining, charges
    return (
        b'{"user":%d,"cap_micro_epsilon":%d,"spent_micro_epsilon":%d,"remaining_micro_epsilon":%d,"charges":[%b]}'
        % numbers
    )
