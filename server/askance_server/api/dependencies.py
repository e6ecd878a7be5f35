"""What endpoints ask for: the aggregator, a token of one role, a body of one kind."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Header, Path, Request

from askance_server.aggregator import Aggregator
from askance_server.api.description import DIGEST
from askance_server.auth import EnrolmentToken, OperatorToken, UserToken, bearer
from askance_server.problems import ProblemError

JSON: Final = "application/json"

DigestInPath = Annotated[str, Path(pattern=DIGEST)]
Authorization = Annotated[str, Header()]


async def aggregator_of(request: Request) -> Aggregator:
    """The aggregator of this application."""
    aggregator: Aggregator = request.app.state.aggregator
    return aggregator


TheAggregator = Annotated[Aggregator, Depends(aggregator_of)]


def token_text(authorization: str) -> str:
    """The token in a header that was decoded as HTTP decodes it."""
    return bearer(authorization.encode("latin-1"))


async def operator_token(aggregator: TheAggregator, authorization: Authorization = "") -> OperatorToken:
    """An operator's token."""
    return aggregator.keys.read(token_text(authorization), OperatorToken)


async def user_token(aggregator: TheAggregator, authorization: Authorization = "") -> UserToken:
    """A user's token that was not revoked."""
    token = aggregator.keys.read(token_text(authorization), UserToken)
    token.require_epoch(aggregator.ledger.epoch(token.user))
    return token


async def enrolment_token(aggregator: TheAggregator, authorization: Authorization = "") -> EnrolmentToken:
    """A token to enrol users."""
    return aggregator.keys.read(token_text(authorization), EnrolmentToken)


OperatorOnly = Annotated[OperatorToken, Depends(operator_token)]
UserOnly = Annotated[UserToken, Depends(user_token)]
EnrollerOnly = Annotated[EnrolmentToken, Depends(enrolment_token)]


async def json_body(request: Request) -> None:
    """Refuse a body of another kind than JSON, which is what a body without a type is taken for."""
    if media_type(request) != JSON:
        raise ProblemError("unsupported-media-type", "send application/json")


def media_type(request: Request) -> str:
    """The kind of a request's body, without parameters."""
    return request.headers.get("content-type", JSON).split(";")[0].strip().lower()
