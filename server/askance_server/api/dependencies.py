"""What endpoints ask for: the aggregator, a token of one role, a body of one kind."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Path, Request

from askance_server.aggregator import Aggregator
from askance_server.api.description import DIGEST
from askance_server.api.gate import TokenGate
from askance_server.auth import EnrolmentToken, GatewayToken, OperatorToken, UserToken
from askance_server.problems import ProblemError

JSON: Final = "application/json"

DigestInPath = Annotated[str, Path(pattern=DIGEST)]


async def aggregator_of(request: Request) -> Aggregator:
    """The aggregator of this application."""
    aggregator: Aggregator = request.app.state.aggregator
    return aggregator


TheAggregator = Annotated[Aggregator, Depends(aggregator_of)]


OperatorOnly = Annotated[OperatorToken, Depends(TokenGate(OperatorToken))]
UserOnly = Annotated[UserToken, Depends(TokenGate(UserToken))]
OperatorOrUser = Annotated[OperatorToken | UserToken, Depends(TokenGate(OperatorToken, UserToken))]
EnrollerOnly = Annotated[EnrolmentToken, Depends(TokenGate(EnrolmentToken))]
GatewayOnly = Annotated[GatewayToken, Depends(TokenGate(GatewayToken))]


async def json_body(request: Request) -> None:
    """Refuse a body of another kind than JSON, which is what a body without a type is taken for."""
    if media_type(request) != JSON:
        raise ProblemError("unsupported-media-type", "send application/json")


def media_type(request: Request) -> str:
    """The kind of a request's body, without parameters."""
    return request.headers.get("content-type", JSON).split(";")[0].strip().lower()
