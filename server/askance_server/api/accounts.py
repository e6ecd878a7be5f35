"""`GET /v1/me`: one user's account, by the cheapest path that keeps the contract.

A fleet, and every client, asks for it before each report. So it is answered in front of the application, as single
reports are: the token is read, a thread looks once, and the document is written. What is not plainly such a request is
passed on to the endpoint (`users.get_me`), which is the definition: both give the same answers, errors and headers.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from askance_server.aggregator import Aggregator
from askance_server.api.gate import trust
from askance_server.api.version import HEADER, VERSION, headers_of
from askance_server.auth import UserToken
from askance_server.ledger import Ledger, Standing

PATH: Final = "/v1/me"

_NEVER_PLAIN: Final = frozenset({b"content-length", b"transfer-encoding", b"expect"})
"""Headers of a request that comes with more than a head: such a one is passed on."""


class AccountPath:
    """Answers what a user asks of her account in front of the application, and passes on everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a plain question with a good token; pass on anything else, also whatever goes wrong."""
        if scope["type"] == "http" and scope["method"] == "GET" and scope["path"] == PATH:
            body = await _account(scope)
            if body is not None:
                headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
                await send({"type": "http.response.start", "status": 200, "headers": [*headers, (HEADER, VERSION)]})
                await send({"type": "http.response.body", "body": body})
                return
        await self._app(scope, receive, send)


async def _account(scope: Scope) -> bytes | None:
    """The document; None where the application has to say what is wrong."""
    aggregator: Aggregator = scope["app"].state.aggregator
    try:
        headers = headers_of(scope)
        if not _NEVER_PLAIN.isdisjoint(headers):
            return None
        token = aggregator.keys.user_token(headers.get(b"authorization"))
        body = await aggregator.ask(lambda: _look(aggregator.ledger, token))
    except Exception:
        return None  # Whatever it is, the application meets it too, and knows what to say.
    trust(scope)
    return body


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
