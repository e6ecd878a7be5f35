"""`/v1/studies`: create, list, watch and cancel studies; their bulletins, events and results."""

from __future__ import annotations

import asyncio
import json
import re
from bisect import bisect_right
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header, Query
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.responses import Response, StreamingResponse

from askance_protocol.rounds import ENDED, Bulletin, Entry, StudyEnded
from askance_server.aggregator import Aggregator
from askance_server.api.dependencies import DigestInPath, OperatorOnly, TheAggregator, json_body
from askance_server.api.documents import answered, written
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

_PIECE: Final = 8 << 20
"""Bytes of entries that are given at a time, if it is not a single one. A piece of a bulletin is a bulletin: who reads
on gets the next."""

router = APIRouter(prefix="/v1", route_class=GatedRoute)


@router.post(
    "/studies",
    status_code=201,
    response_model=StudyModel,
    responses=responses("invalid-request", "unauthorized", "unsupported-media-type", "too-many-studies"),
    dependencies=[Depends(json_body), Depends(BodyLimit(_MOST_BYTES))],
)
async def create_study(new: NewStudy, aggregator: TheAggregator, _: OperatorOnly) -> Response:
    """Publish a study. A strategy's first round is open when this returns, or the study says why it failed."""
    study = await aggregator.create(new.title, new.strategy, new.parameters, simulated=new.simulated)
    gateway = GatewayToken(study, new.gateway.first_user, new.gateway.count) if new.simulated else None
    return await answered(aggregator, lambda: _study_model(aggregator, study, gateway), status=201)


@router.get("/studies", response_model=list[StudyModel])
async def list_studies(aggregator: TheAggregator) -> Response:
    """All studies, oldest first."""
    studies = await aggregator.ask(aggregator.ledger.studies)

    async def listed() -> AsyncIterator[bytes]:
        # One after the other: all of them at once may not fit into memory.
        for number, study in enumerate(studies):
            body = await aggregator.ask(lambda study=study: written(_study_model(aggregator, study)))
            yield (b"," if number else b"[") + body
        yield b"]" if studies else b"[]"

    return StreamingResponse(listed(), media_type="application/json")


@router.get("/studies/{study}", response_model=StudyModel, responses=responses("not-found"))
async def get_study(study: DigestInPath, aggregator: TheAggregator) -> Response:
    """One study, its rounds, and the head of its bulletin."""
    await aggregator.caught_up(study)
    return await answered(aggregator, lambda: _study_model(aggregator, study))


@router.get("/studies/{study}/bulletin", response_model=BulletinModel, responses=responses("not-found"))
async def get_bulletin(
    study: DigestInPath, aggregator: TheAggregator, after: Annotated[int, Query(ge=-1, le=1 << 53)] = -1
) -> Response:
    """The entries behind `after`, or the first of them; head and length are then those of the last that is given."""
    await aggregator.caught_up(study)
    return await answered(aggregator, lambda: _bulletin_model(aggregator, study, after))


def _bulletin_model(aggregator: Aggregator, study: str, after: int) -> BulletinModel:
    bulletin = aggregator.ledger.bulletin(study)
    # Entries that were appended since then would not be those that the head is of.
    entries = [entry for entry in aggregator.ledger.entries(study, after) if entry.sequence < bulletin.length]
    given = entries[: max(1, bisect_right(list(accumulate(len(entry.to_bytes()) for entry in entries)), _PIECE))]
    if len(given) == len(entries):
        return BulletinModel(head=bulletin.head, length=bulletin.length, entries=entries)
    return BulletinModel(head=given[-1].digest(), length=given[-1].sequence + 1, entries=given)


@router.get("/studies/{study}/result", response_model=ResultModel, responses=responses("not-found"))
async def get_result(study: DigestInPath, aggregator: TheAggregator) -> Response:
    """What the study has come to: its hypothesis, once it has finished."""
    await aggregator.caught_up(study)
    return await answered(aggregator, lambda: _result_model(aggregator, study))


def _result_model(aggregator: Aggregator, study: str) -> ResultModel:
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


@router.post(
    "/studies/{study}/cancel", response_model=StudyModel, responses=responses("not-found", "unauthorized", "study-over")
)
async def cancel_study(study: DigestInPath, aggregator: TheAggregator, _: OperatorOnly) -> Response:
    """End a study. What was charged stays charged."""
    await aggregator.cancel(study)
    return await answered(aggregator, lambda: _study_model(aggregator, study))


async def known_study(study: DigestInPath, aggregator: TheAggregator) -> str:
    """A study that there is. Looked up before a stream begins: inside it, nobody can be told any more."""
    await aggregator.ask(lambda: aggregator.ledger.bulletin(study))
    return study


@router.get("/studies/{study}/events", response_class=EventSourceResponse, responses=responses("not-found"))
async def get_events(
    study: Annotated[str, Depends(known_study)], aggregator: TheAggregator, last_event_id: Annotated[str, Header()] = ""
) -> AsyncIterator[ServerSentEvent]:
    """The bulletin as it grows, an event an entry, and counts in between. `Last-Event-ID` resumes."""
    after = int(last_event_id) if _EVENT_ID.fullmatch(last_event_id) else -1
    counted = ""
    while not aggregator.closing:
        changed = aggregator.changed(study)
        news = await aggregator.ask(partial(_news, aggregator, study, after))
        for event in news.events:
            yield event
        if news.ended:
            return
        after = news.after
        if news.counts != counted:
            counted = news.counts
            yield ServerSentEvent(raw_data=counted, event="received")
        try:
            await asyncio.wait_for(changed.wait(), timeout=1.0)
        except TimeoutError:
            continue


@dataclass(frozen=True, slots=True)
class _News:
    """What a stream has to tell."""

    events: list[ServerSentEvent]
    after: int
    counts: str
    ended: bool


def _news(aggregator: Aggregator, study: str, after: int) -> _News:
    # First the state: entries that come in between are told, and the last of them again looked for.
    bulletin = aggregator.ledger.bulletin(study)
    if bulletin.length <= after + 1:
        entries: list[Entry] = []
    else:
        entries = aggregator.ledger.entries(study, after)
    events = [
        ServerSentEvent(raw_data=entry.to_bytes().decode(), event=entry.notice.kind, id=str(entry.sequence))
        for entry in entries
    ]
    after = entries[-1].sequence if entries else after
    return _News(events, after, json.dumps(_received(aggregator, bulletin)), bulletin.state in ENDED)


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
        rounds=[round_model(aggregator, id_, state) for id_, state in bulletin.rounds],
        gateway_token=None if gateway is None else aggregator.keys.mint(gateway),
    )


def _received(aggregator: Aggregator, bulletin: Bulletin) -> dict[str, int]:
    return {id_: aggregator.ledger.received(id_) for id_, _ in bulletin.rounds}
