"""What endpoints ask for: the aggregator, a token of one role, a body of one kind."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Header, Path, Request

from askance_server.aggregator import Aggregator
from askance_server.api.description import DIGEST
from askance_server.auth import EnrolmentToken, OperatorToken, UserToken, bearer
from askance_server.problems import ProblemError

JSON: Final = "application/json"

Digest = Annotated[str, Path(pattern=DIGEST)]
Authorization = Annotated[str, Header()]


async def working(request: Request) -> Aggregator:
    """The aggregator of this application."""
    aggregator: Aggregator = request.app.state.aggregator
    return aggregator


Working = Annotated[Aggregator, Depends(working)]


def token_text(authorization: str) -> str:
    """The token in a header that was decoded as HTTP decodes it."""
    return bearer(authorization.encode("latin-1"))


async def operator(aggregator: Working, authorization: Authorization = "") -> OperatorToken:
    """An operator's token."""
    return aggregator.keys.read(token_text(authorization), OperatorToken)


async def user(aggregator: Working, authorization: Authorization = "") -> UserToken:
    """A user's token that was not revoked."""
    token = aggregator.keys.read(token_text(authorization), UserToken)
    token.require_epoch(aggregator.ledger.epoch(token.user))
    return token


async def enroller(aggregator: Working, authorization: Authorization = "") -> EnrolmentToken:
    """A token to enrol users."""
    return aggregator.keys.read(token_text(authorization), EnrolmentToken)


Operator = Annotated[OperatorToken, Depends(operator)]
User = Annotated[UserToken, Depends(user)]
Enroller = Annotated[EnrolmentToken, Depends(enroller)]


async def json_body(request: Request) -> None:
    """Refuse a body of another kind than JSON, which is what a body without a type is taken for."""
    if media_type(request) != JSON:
        raise ProblemError("unsupported-media-type", "send application/json")


def media_type(request: Request) -> str:
    """The kind of a request's body, without parameters."""
    return request.headers.get("content-type", JSON).split(";")[0].strip().lower()
