"""`/v1/enrolments`, `/v1/users`, `/v1/me`: enrol users, renew their tokens, show one her account."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path
from starlette.responses import Response

from askance_protocol.coins import MAX_USER
from askance_server.aggregator import Aggregator
from askance_server.api.dependencies import EnrollerOnly, OperatorOrUser, TheAggregator, UserOnly, json_body
from askance_server.api.documents import answered
from askance_server.api.gate import GatedRoute
from askance_server.api.models import ChargeModel, Enrolment, Me, NewUsers, RenewedToken
from askance_server.auth import ForbiddenError, UserToken
from askance_server.problems import ProblemError, responses

MAX_TOKENS: Final = 10_000
"""Users who are given a token each when they enrol at once."""

router = APIRouter(prefix="/v1", route_class=GatedRoute)


@router.post(
    "/enrolments",
    status_code=201,
    response_model=Enrolment,
    responses=responses("invalid-request", "unauthorized", "unsupported-media-type"),
    dependencies=[Depends(json_body)],
)
async def enrol(aggregator: TheAggregator, _: EnrollerOnly, new: NewUsers | None = None) -> Response:
    """Give new users their numbers, and a token each where they are few."""
    return await answered(aggregator, lambda: _enrol(aggregator, 1 if new is None else new.users), status=201)


def _enrol(aggregator: Aggregator, count: int) -> Enrolment:
    cap, most = aggregator.settings.cap, aggregator.settings.user_limit
    if aggregator.ledger.enrolled() + count > most:
        raise ProblemError("invalid-request", f"users: this server has room for {most} and no more")
    numbers = aggregator.ledger.enrol(count, cap)
    tokens = [aggregator.keys.mint(UserToken(number, 0)) for number in numbers] if count <= MAX_TOKENS else []
    return Enrolment(
        user=numbers.start,
        users=count,
        cap_micro_epsilon=cap,
        token=tokens[0] if count == 1 else None,
        tokens=tokens if count > 1 else [],
    )


@router.post("/users/{user}/token", responses=responses("not-found", "unauthorized", "forbidden"))
async def renew_token(
    user: Annotated[int, Path(ge=0, lt=MAX_USER)], aggregator: TheAggregator, token: OperatorOrUser
) -> RenewedToken:
    """A new token for a user, whom the operator names or who shows her old one: all that she had are void.

    Number and account stay as they are. An enrolment token is not enough: every client that enrols has it.
    """
    if isinstance(token, UserToken) and token.user != user:
        raise ForbiddenError("a user renews her own token, and nobody else's")
    epoch = await aggregator.ask(lambda: aggregator.ledger.revoke(user))
    return RenewedToken(user=user, token=aggregator.keys.mint(UserToken(user, epoch)))


@router.get("/me", responses=responses("unauthorized"))
async def get_me(aggregator: TheAggregator, token: UserOnly) -> Me:
    """What the server has charged the user whose token this is."""
    standing = await aggregator.ask(lambda: aggregator.ledger.standing(token.user))
    return Me(
        user=token.user,
        cap_micro_epsilon=standing.account.cap,
        spent_micro_epsilon=standing.account.spent,
        remaining_micro_epsilon=standing.account.remaining,
        charges=[ChargeModel(round=charge.round, micro_epsilon=charge.micro_epsilon) for charge in standing.charges],
    )
