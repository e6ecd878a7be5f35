"""The endpoints, but for single reports, which `reports` answers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import PlainTextResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from askance_protocol.coins import MAX_USER
from askance_protocol.reports import decode_columns, decode_raw
from askance_protocol.rounds import PreparedPart, RoundState, StudyEnded, StudyState
from askance_protocol.rounds.spec import VERSION
from askance_protocol.tally import Tally
from askance_server.aggregator import Aggregator
from askance_server.api.description import BATCH_BODY, DIGEST
from askance_server.api.models import (
    BatchVerdicts,
    BulletinModel,
    ChargeModel,
    Enrolment,
    EstimateModel,
    Me,
    NewStudy,
    NewUsers,
    RenewedToken,
    ResultModel,
    RoundModel,
    Status,
    StudyModel,
    TallyModel,
)
from askance_server.auth import EnrolmentToken, GatewayToken, OperatorToken, UserToken, bearer
from askance_server.core.estimators import estimate
from askance_server.ledger import LedgerError, NotFoundError, Verdict
from askance_server.problems import OF_VERDICT, ProblemError, responses

MAX_TOKENS = 10_000
INSTALLED = version("askance")
ENDED = {StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED}

# Not `str.isdigit`, for which ² is a digit.
_EVENT_ID = re.compile(r"[0-9]{1,9}", re.ASCII)

router = APIRouter(prefix="/v1")
upkeep = APIRouter()

Digest = Annotated[str, Path(pattern=DIGEST)]
Authorization = Annotated[str, Header()]


async def working(request: Request) -> Aggregator:
    """The aggregator of this application."""
    aggregator: Aggregator = request.app.state.aggregator
    return aggregator


Working = Annotated[Aggregator, Depends(working)]


def _bearer(authorization: str) -> str:
    return bearer(authorization.encode("latin-1"))


async def operator(aggregator: Working, authorization: Authorization = "") -> OperatorToken:
    """Only operators."""
    return aggregator.keys.read(_bearer(authorization), OperatorToken)


async def user(aggregator: Working, authorization: Authorization = "") -> UserToken:
    """Only a user, with a token that was not revoked."""
    token = aggregator.keys.read(_bearer(authorization), UserToken)
    token.require_epoch(aggregator.ledger.epoch(token.user))
    return token


async def enroller(aggregator: Working, authorization: Authorization = "") -> EnrolmentToken:
    """Only whoever may enrol users."""
    return aggregator.keys.read(_bearer(authorization), EnrolmentToken)


async def json_body(request: Request) -> None:
    """Only JSON, which is what a body without a type is taken for."""
    if _kind(request) != "application/json":
        raise ProblemError("unsupported-media-type", "send application/json")


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "application/json").split(";")[0].strip().lower()


# ---------------------------------------------------------------------------------------------------- studies


@router.post(
    "/studies",
    status_code=201,
    responses=responses("invalid-request", "unauthorized", "unsupported-media-type", "too-many-studies"),
    dependencies=[Depends(json_body)],
)
async def create_study(
    new: NewStudy, aggregator: Working, _: Annotated[OperatorToken, Depends(operator)]
) -> StudyModel:
    """Publish a study. A strategy's first round is open when this returns, or the study says why it failed."""
    study = aggregator.create(new.title, new.strategy, new.parameters, simulated=new.simulated)
    gateway = GatewayToken(study, new.gateway.first_user, new.gateway.count) if new.simulated else None
    return _study(aggregator, study, gateway)


@router.get("/studies")
async def list_studies(aggregator: Working) -> list[StudyModel]:
    """All studies, oldest first."""
    return [_study(aggregator, study) for study in aggregator.ledger.studies()]


@router.get("/studies/{study}", responses=responses("not-found"))
async def get_study(study: Digest, aggregator: Working) -> StudyModel:
    """One study, its rounds, and the head of its bulletin."""
    return _study(aggregator, study)


@router.get("/studies/{study}/bulletin", responses=responses("not-found"))
async def get_bulletin(
    study: Digest, aggregator: Working, after: Annotated[int, Query(ge=-1, le=1 << 53)] = -1
) -> BulletinModel:
    """The entries behind `after`."""
    bulletin = aggregator.ledger.bulletin(study)
    entries = aggregator.ledger.entries(study, after)
    return BulletinModel(head=bulletin.head, length=bulletin.length, entries=entries)


@router.get("/studies/{study}/result", responses=responses("not-found"))
async def get_result(study: Digest, aggregator: Working) -> ResultModel:
    """What the study has come to: its hypothesis, once it has finished."""
    bulletin = aggregator.ledger.bulletin(study)
    reasons = [e.notice.reason for e in aggregator.ledger.entries(study) if isinstance(e.notice, StudyEnded)]
    hypothesis = aggregator.driver.result(study)
    return ResultModel(
        state=bulletin.state.value,
        reason=reasons[0] if reasons else "",
        hypothesis=None if hypothesis is None else hypothesis.value,
        text=None if hypothesis is None else hypothesis.text,
    )


@router.post("/studies/{study}/cancel", responses=responses("not-found", "unauthorized", "study-over"))
async def cancel_study(
    study: Digest, aggregator: Working, _: Annotated[OperatorToken, Depends(operator)]
) -> StudyModel:
    """End a study. What was charged stays charged."""
    if aggregator.ledger.bulletin(study).state in ENDED:
        raise ProblemError("study-over", "the study has ended already")
    aggregator.cancel(study)
    return _study(aggregator, study)


async def known_study(study: Digest, aggregator: Working) -> str:
    """A study that there is. Looked up before a stream begins: inside it, nobody can be told any more."""
    aggregator.ledger.bulletin(study)
    return study


@router.get("/studies/{study}/events", response_class=EventSourceResponse, responses=responses("not-found"))
async def get_events(
    study: Annotated[str, Depends(known_study)], aggregator: Working, last_event_id: Annotated[str, Header()] = ""
) -> AsyncIterator[ServerSentEvent]:
    """The bulletin as it grows, an event an entry, and counts in between. `Last-Event-ID` resumes."""
    after = int(last_event_id) if _EVENT_ID.fullmatch(last_event_id) else -1
    counted = ""
    while True:
        changed = aggregator.changed(study)
        for entry in aggregator.ledger.entries(study, after):
            after = entry.sequence
            yield ServerSentEvent(raw_data=entry.to_bytes().decode(), event=entry.notice.kind, id=str(after))
        if aggregator.ledger.bulletin(study).state in ENDED:
            return
        counts = json.dumps(_received(aggregator, study))
        if counts != counted:
            counted = counts
            yield ServerSentEvent(raw_data=counts, event="received")
        try:
            await asyncio.wait_for(changed.wait(), timeout=1.0)
        except TimeoutError:
            continue


# ------------------------------------------------------------------------------------------------------ users


@router.post(
    "/enrolments",
    status_code=201,
    responses=responses("invalid-request", "unauthorized", "unsupported-media-type"),
    dependencies=[Depends(json_body)],
)
async def enrol(
    aggregator: Working, _: Annotated[EnrolmentToken, Depends(enroller)], new: NewUsers | None = None
) -> Enrolment:
    """Give new users their numbers, and a token each where they are few."""
    count = 1 if new is None else new.users
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


@router.post("/users/{user}/token", responses=responses("not-found", "unauthorized"))
async def renew_token(
    user: Annotated[int, Path(ge=0, lt=MAX_USER)], aggregator: Working, _: Annotated[EnrolmentToken, Depends(enroller)]
) -> RenewedToken:
    """A new token for a user; all that she had are void. Number and account stay as they are."""
    epoch = aggregator.ledger.revoke(user)
    return RenewedToken(user=user, token=aggregator.keys.mint(UserToken(user, epoch)))


@router.get("/me", responses=responses("unauthorized"))
async def get_me(aggregator: Working, token: Annotated[UserToken, Depends(user)]) -> Me:
    """What the server has charged the user whose token this is."""
    standing = aggregator.ledger.standing(token.user)
    return Me(
        user=token.user,
        cap_micro_epsilon=standing.account.cap,
        spent_micro_epsilon=standing.account.spent,
        remaining_micro_epsilon=standing.account.remaining,
        charges=[ChargeModel(round=charge.round, micro_epsilon=charge.micro_epsilon) for charge in standing.charges],
    )


# ----------------------------------------------------------------------------------------------------- rounds


@router.get("/rounds/{round_}", responses=responses("not-found"))
async def get_round(round_: Digest, aggregator: Working) -> RoundModel:
    """One round, as it was published."""
    return _round(aggregator, round_)


@router.get("/rounds/{round_}/tally", responses=responses("not-found"))
async def get_tally(round_: Digest, aggregator: Working) -> TallyModel:
    """The counts of a round that is closed; of an open one only how many reports there are."""
    state = aggregator.ledger.state(round_)
    counted = aggregator.ledger.tallies(round_) if state in {RoundState.CLOSED, RoundState.ANSWERED} else []
    return TallyModel(
        round=round_,
        state=state.value,
        received=aggregator.ledger.received(round_),
        tallies=[[list(row) for row in tally.to_rows()] for tally in counted],
        estimates=[_estimate(*each) for each in zip(aggregator.ledger.round(round_).parts, counted, strict=False)],
    )


def _estimate(part: PreparedPart, tally: Tally) -> EstimateModel | None:
    if not tally.received:
        return None
    found = estimate(part, tally)
    return EstimateModel(
        values=found.values.tolist(), low=found.low.tolist(), high=found.high.tolist(), confidence=found.confidence
    )


@router.post("/rounds/{round_}/close", responses=responses("not-found", "unauthorized", "round-not-open"))
async def close_round(
    round_: Digest, aggregator: Working, _: Annotated[OperatorToken, Depends(operator)]
) -> RoundModel:
    """Close a round before its time; its study goes on with what came in."""
    if aggregator.ledger.state(round_) is not RoundState.OPEN:
        raise ProblemError("round-not-open", "the round is not open")
    aggregator.close_round(round_)
    return _round(aggregator, round_)


@router.post(
    "/rounds/{round_}/batches",
    responses=responses("not-found", "unauthorized", "forbidden", "invalid-request", "unsupported-media-type"),
    openapi_extra=BATCH_BODY,
)
async def post_batch(
    round_: Digest, request: Request, aggregator: Working, authorization: Authorization = ""
) -> BatchVerdicts:
    """Reports of many simulated users, from a gateway that speaks for them."""
    token = aggregator.keys.read(_bearer(authorization), GatewayToken)
    prepared = aggregator.ledger.round(round_)
    nobody = np.zeros(0, np.uint64)
    token.require(prepared.spec.study, simulated=prepared.study.simulated, users=nobody)
    kind, body = _kind(request), await request.body()
    if kind == "application/json":
        batch = decode_columns(body)
    elif kind == "application/octet-stream":
        batch = decode_raw(body)
    else:
        raise ProblemError("unsupported-media-type", "send application/json or application/octet-stream")
    token.require(prepared.spec.study, simulated=prepared.study.simulated, users=batch.users)
    verdicts = aggregator.committer.submit_batch(round_, batch.users, batch.outcomes)
    return _batch_verdicts(verdicts)


def _batch_verdicts(verdicts: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> BatchVerdicts:
    counts = np.bincount(verdicts, minlength=len(Verdict)).tolist()
    refused = {verdict: counts[verdict] for verdict in Verdict if counts[verdict] and verdict > Verdict.REPEATED}
    return BatchVerdicts(
        accepted=counts[Verdict.ACCEPTED],
        repeated=counts[Verdict.REPEATED],
        refused={OF_VERDICT[verdict]: count for verdict, count in refused.items()},
        first_refused={OF_VERDICT[verdict]: int((verdicts == verdict).argmax()) for verdict in refused},
    )


# ----------------------------------------------------------------------------------------------------- upkeep


@upkeep.get("/healthz")
async def healthz() -> Status:
    """The process is alive."""
    return _status("alive")


@upkeep.get("/readyz", responses=responses("not-ready"))
async def readyz(aggregator: Working) -> Status:
    """The ledger can be written."""
    try:
        aggregator.ledger.check_writable()
    except LedgerError as error:
        raise ProblemError("not-ready", "the ledger cannot be written") from error
    return _status("ready")


@upkeep.get("/metrics", response_class=PlainTextResponse)
async def metrics(aggregator: Working) -> Response:
    """Counts and durations in the Prometheus text format."""
    return Response(aggregator.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _status(status: str) -> Status:
    return Status(status=status, version=INSTALLED, protocol=VERSION)


def _study(aggregator: Aggregator, study: str, gateway: GatewayToken | None = None) -> StudyModel:
    bulletin = aggregator.ledger.bulletin(study)
    if bulletin.study is None:
        raise NotFoundError(study)
    return StudyModel(
        id=study,
        state=bulletin.state.value,
        head=bulletin.head,
        length=bulletin.length,
        study=bulletin.study,
        rounds=[_round(aggregator, id_) for id_, _ in bulletin.rounds],
        gateway_token=None if gateway is None else aggregator.keys.mint(gateway),
    )


def _round(aggregator: Aggregator, round_: str) -> RoundModel:
    prepared = aggregator.ledger.round(round_)
    return RoundModel(
        id=round_,
        state=aggregator.ledger.state(round_).value,
        received=aggregator.ledger.received(round_),
        round=prepared.spec,
    )


def _received(aggregator: Aggregator, study: str) -> dict[str, int]:
    return {id_: aggregator.ledger.received(id_) for id_, _ in aggregator.ledger.bulletin(study).rounds}
