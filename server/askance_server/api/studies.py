"""`/v1/studies`: create, list, watch and cancel studies; their bulletins, events and results."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent

from askance_protocol.rounds import ENDED, StudyEnded
from askance_server.aggregator import Aggregator
from askance_server.api.dependencies import DigestInPath, OperatorOnly, TheAggregator, json_body
from askance_server.api.gate import BodyLimit, GatedRoute
from askance_server.api.models import BulletinModel, NewStudy, ResultModel, StudyModel
from askance_server.api.rounds import round_model
from askance_server.auth import GatewayToken
from askance_server.core.replay import ReplayError
from askance_server.ledger import NotFoundError
from askance_server.problems import responses

# Not `str.isdigit`, for which ² is a digit.
_EVENT_ID: Final = re.compile(r"[0-9]{1,9}", re.ASCII)

_MOST_BYTES: Final = 256 << 10
"""Bytes of a study's description: a strategy has few parameters."""

router = APIRouter(prefix="/v1", route_class=GatedRoute)


@router.post(
    "/studies",
    status_code=201,
    responses=responses("invalid-request", "unauthorized", "unsupported-media-type", "too-many-studies"),
    dependencies=[Depends(json_body), Depends(BodyLimit(_MOST_BYTES))],
)
async def create_study(new: NewStudy, aggregator: TheAggregator, _: OperatorOnly) -> StudyModel:
    """Publish a study. A strategy's first round is open when this returns, or the study says why it failed."""
    study = aggregator.create(new.title, new.strategy, new.parameters, simulated=new.simulated)
    gateway = GatewayToken(study, new.gateway.first_user, new.gateway.count) if new.simulated else None
    return _study_model(aggregator, study, gateway)


@router.get("/studies")
async def list_studies(aggregator: TheAggregator) -> list[StudyModel]:
    """All studies, oldest first."""
    return [_study_model(aggregator, study) for study in aggregator.ledger.studies()]


@router.get("/studies/{study}", responses=responses("not-found"))
async def get_study(study: DigestInPath, aggregator: TheAggregator) -> StudyModel:
    """One study, its rounds, and the head of its bulletin."""
    return _study_model(aggregator, study)


@router.get("/studies/{study}/bulletin", responses=responses("not-found"))
async def get_bulletin(
    study: DigestInPath, aggregator: TheAggregator, after: Annotated[int, Query(ge=-1, le=1 << 53)] = -1
) -> BulletinModel:
    """The entries behind `after`."""
    bulletin = aggregator.ledger.bulletin(study)
    entries = aggregator.ledger.entries(study, after)
    return BulletinModel(head=bulletin.head, length=bulletin.length, entries=entries)


@router.get("/studies/{study}/result", responses=responses("not-found"))
async def get_result(study: DigestInPath, aggregator: TheAggregator) -> ResultModel:
    """What the study has come to: its hypothesis, once it has finished."""
    bulletin = aggregator.ledger.bulletin(study)
    last = aggregator.ledger.entries(study, bulletin.length - 2)[-1].notice
    reason = last.reason if isinstance(last, StudyEnded) else ""
    try:
        hypothesis = aggregator.driver.result(study)
    except ReplayError as error:
        # Version 0.1 ended it, and kept no more of its hypothesis than stands in the reason.
        hypothesis, reason = None, f"{reason} ({error.what}: {error.remedy})"
    return ResultModel(
        state=bulletin.state.value,
        reason=reason,
        hypothesis=None if hypothesis is None else hypothesis.value,
        text=None if hypothesis is None else hypothesis.text,
    )


@router.post("/studies/{study}/cancel", responses=responses("not-found", "unauthorized", "study-over"))
async def cancel_study(study: DigestInPath, aggregator: TheAggregator, _: OperatorOnly) -> StudyModel:
    """End a study. What was charged stays charged."""
    aggregator.cancel(study)
    return _study_model(aggregator, study)


async def known_study(study: DigestInPath, aggregator: TheAggregator) -> str:
    """A study that there is. Looked up before a stream begins: inside it, nobody can be told any more."""
    aggregator.ledger.bulletin(study)
    return study


@router.get("/studies/{study}/events", response_class=EventSourceResponse, responses=responses("not-found"))
async def get_events(
    study: Annotated[str, Depends(known_study)], aggregator: TheAggregator, last_event_id: Annotated[str, Header()] = ""
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


def _study_model(aggregator: Aggregator, study: str, gateway: GatewayToken | None = None) -> StudyModel:
    bulletin = aggregator.ledger.bulletin(study)
    if bulletin.study is None:
        raise NotFoundError(study)
    return StudyModel(
        id=study,
        state=bulletin.state.value,
        head=bulletin.head,
        length=bulletin.length,
        study=bulletin.study,
        paused=aggregator.driver.paused(study),
        rounds=[round_model(aggregator, id_) for id_, _ in bulletin.rounds],
        gateway_token=None if gateway is None else aggregator.keys.mint(gateway),
    )


def _received(aggregator: Aggregator, study: str) -> dict[str, int]:
    return {id_: aggregator.ledger.received(id_) for id_, _ in aggregator.ledger.bulletin(study).rounds}
