"""Users: `/v1/enrolments`, `/v1/enrolment-tokens`, `/v1/enrolment-codes`, `/v1/users`, and `/v1/me`, one's account."""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path
from starlette.responses import Response

from askance_protocol.coins import MAX_USER
from askance_server.aggregator import Aggregator
from askance_server.api.dependencies import (
    EnrollerOnly,
    OperatorOnly,
    OperatorOrUser,
    TheAggregator,
    UserOnly,
    json_body,
)
from askance_server.api.documents import answered
from askance_server.api.gate import GatedRoute
from askance_server.api.models import (
    ChargeModel,
    Codes,
    Enrolment,
    KindCounts,
    Me,
    NewCodes,
    NewEnrolmentToken,
    NewToken,
    NewUsers,
    RenewedToken,
    UserCounts,
)
from askance_server.auth import AuthError, EnrolmentOverError, EnrolmentToken, ForbiddenError, UserToken
from askance_server.ledger import NoRoomError, StaleEpochError, Ticket, UserKind
from askance_server.problems import responses

MAX_TOKENS: Final = 10_000
"""Users who are given a token each when they enrol at once."""
_KEY: Final = b"askance enrolment 1 "

router = APIRouter(prefix="/v1", route_class=GatedRoute)


@router.post(
    "/enrolments",
    status_code=201,
    response_model=Enrolment,
    responses=responses("invalid-request", "unauthorized", "forbidden", "enrolment-over", "unsupported-media-type"),
    dependencies=[Depends(json_body)],
)
async def enrol(aggregator: TheAggregator, token: EnrollerOnly, new: NewUsers | None = None) -> Response:
    """Give new users their numbers, and a token each where they are few.

    A token of limited number enrols all of them or nobody. An enrolment with a key is answered to the same key again.
    """
    wanted = NewUsers() if new is None else new
    kind, ticket = _kind(token, wanted), _ticket(aggregator, token)
    return await answered(aggregator, lambda: _enrol(aggregator, wanted, kind, ticket), status=201)


def _kind(token: EnrolmentToken, wanted: NewUsers) -> UserKind:
    """The kind of new users: that of a limited token, else as they say, else what a device and a script do."""
    simulated = wanted.simulated
    if token.simulated is not None:
        if simulated is not None and simulated != token.simulated:
            raise ForbiddenError(f"this token is for {'simulated' if token.simulated else 'real'} users, and no others")
        simulated = token.simulated
    if simulated is not None:
        return UserKind.SIMULATED if simulated else UserKind.REAL
    # A person's device enrols alone, and version 0.1 had nothing to say. A script enrols many, and may be anybody's.
    return UserKind.REAL if wanted.users == 1 else UserKind.UNKNOWN


def _ticket(aggregator: Aggregator, token: EnrolmentToken) -> Ticket | None:
    """What the ledger counts of a token; None for one without a number, if this server takes such."""
    if token.id is not None and token.users is not None:
        return Ticket(token.id, token.users)
    if aggregator.settings.enrolment == "limited":
        raise EnrolmentOverError("this server takes no enrolment token without a number")
    return None


def _enrol(aggregator: Aggregator, wanted: NewUsers, kind: UserKind, ticket: Ticket | None) -> Enrolment:
    settings = aggregator.settings
    cap, most = settings.cap, settings.user_limit if ticket else min(settings.open_limit, settings.user_limit)
    # A digest, so that no copy of the ledger tells what brings the tokens of these users.
    key = None if wanted.key is None else hashlib.sha256(_KEY + wanted.key.encode()).hexdigest()[:32]
    try:
        numbers = aggregator.ledger.enrol(wanted.users, cap, kind, ticket=ticket, most=most, key=key)
    except NoRoomError:
        if most == settings.user_limit:
            raise
        what = (
            f"a token without a number enrols up to {most:,} users here, and {aggregator.ledger.enrolled():,} are there"
        )
        remedy = "enrol more with a token of a number: askance users token N; or raise ASKANCE_OPEN_LIMIT"
        raise EnrolmentOverError(what, remedy=remedy) from None
    count = len(numbers)
    tokens = [aggregator.keys.mint(UserToken(number, 0)) for number in numbers] if count <= MAX_TOKENS else []
    return Enrolment(
        user=numbers.start,
        users=count,
        cap_micro_epsilon=cap,
        token=tokens[0] if count == 1 else None,
        tokens=tokens if count > 1 else [],
    )


@router.post(
    "/enrolment-tokens",
    status_code=201,
    responses=responses("invalid-request", "unauthorized", "forbidden", "unsupported-media-type"),
    dependencies=[Depends(json_body)],
)
async def mint_enrolment_token(new: NewEnrolmentToken, aggregator: TheAggregator, _: OperatorOnly) -> NewToken:
    """A token that enrols so many users, for so many seconds, and no more. It says so itself: nothing is stored.

    Its first use is; so is each after it.
    """
    id_, expires = secrets.token_hex(16), int(time.time()) + new.seconds
    token = EnrolmentToken("ticket", expires, id_, new.users, new.simulated)
    minted = aggregator.keys.mint(token)
    return NewToken(token=minted, id=id_, users=new.users, expires=expires, simulated=new.simulated)


@router.post(
    "/enrolment-codes",
    status_code=201,
    responses=responses("invalid-request", "unauthorized", "forbidden", "unsupported-media-type"),
    dependencies=[Depends(json_body)],
)
async def mint_enrolment_codes(new: NewCodes, aggregator: TheAggregator, _: OperatorOnly) -> Codes:
    """One-time codes: enrolment tokens that let in one user each, for so many seconds.

    A code is signed and not stored: nobody who reads the ledger finds one there. Its use is, by its id.
    """
    expires = int(time.time()) + new.seconds
    tokens = [EnrolmentToken("code", expires, secrets.token_hex(16), 1, new.simulated) for _ in range(new.codes)]
    codes = await aggregator.ask(lambda: [aggregator.keys.mint(token) for token in tokens])
    return Codes(codes=codes, expires=expires, simulated=new.simulated)


@router.get("/users", responses=responses("unauthorized", "forbidden"))
async def count_users(aggregator: TheAggregator, _: OperatorOnly) -> UserCounts:
    """How many users there are, and of which kinds."""
    return await aggregator.ask(lambda: _counts(aggregator))


def _counts(aggregator: Aggregator) -> UserCounts:
    # First the number: of whoever is counted, the kind is known then.
    enrolled = aggregator.ledger.enrolled()
    counts = aggregator.ledger.kinds().counts(enrolled)
    return UserCounts(users=enrolled, kinds=KindCounts(**{kind.value: count for kind, count in counts.items()}))


@router.post("/users/{user}/token", responses=responses("not-found", "unauthorized", "forbidden"))
async def renew_token(
    user: Annotated[int, Path(ge=0, lt=MAX_USER)], aggregator: TheAggregator, token: OperatorOrUser
) -> RenewedToken:
    """A new token for a user, whom the operator names or who shows her old one: all that she had are void.

    Number and account stay as they are. An enrolment token is not enough: every client that enrols has it.
    """
    if isinstance(token, UserToken) and token.user != user:
        raise ForbiddenError("a user renews her own token, and nobody else's")
    shown = token.epoch if isinstance(token, UserToken) else None
    try:
        epoch = await aggregator.ask(lambda: aggregator.ledger.revoke(user, shown))
    except StaleEpochError:
        # Another renewal by the same token was faster: this one is void by now, and nothing tells why.
        raise AuthError from None
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
