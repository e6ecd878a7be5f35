"""`/wall`: what a room sees of one study, rendered anew for each change, and the code by which it joins."""

from __future__ import annotations

import asyncio
import io
import json
import re
from typing import Annotated, Final

import segno
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from askance_protocol.canonical import DIGEST
from askance_protocol.rounds import RoundState
from askance_server.aggregator import Aggregator
from askance_server.api.dependencies import TheAggregator, json_body
from askance_server.api.gate import BodyLimit, GatedRoute
from askance_server.dashboard.responses import NEVER_KEPT, page
from askance_server.dashboard.running import earlier
from askance_server.dashboard.templates import rendered
from askance_server.dashboard.wall import MOST_SHOWN, Wall, mean_of, rows_of
from askance_server.ledger import NotFoundError
from askance_server.problems import ProblemError

router = APIRouter(include_in_schema=False, route_class=GatedRoute)

_MOST_BYTES: Final = 4096
_REST: Final = 0.03
"""Seconds between two codes that are drawn: drawing keeps the interpreter busy, and a room needs one code."""
_LOOKS: Final = 5
"""Intervals that are drawn of one number, the last of them that of now."""


LINK: Final = r"^https?://[\x21-\x7e]+/t#study=[0-9a-f]{64}(&join=[\x21-\x7e]+)?$"
_STUDY: Final = re.compile(r"#study=([0-9a-f]{64})")


class JoinLink(BaseModel):
    """What a code says."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    link: Annotated[str, Field(max_length=400, pattern=LINK)]


Study = Annotated[str, Query(max_length=64)]


@router.get("/wall")
async def wall(request: Request, aggregator: TheAggregator, study: Study = "") -> Response:
    """The wall of a study; of the newest one for people, if none is named."""
    # By what study, and nothing else: an address that follows from the request's Host would be another for each asker.
    return await page(
        aggregator, request, ("wall", study), lambda: rendered("wall.html", wall=wall_of(aggregator, study)), of=study
    )


@router.get("/wall/now")
async def now(request: Request, aggregator: TheAggregator, study: Study) -> Response:
    """What has changed on it: its parts alone."""

    def work() -> bytes:
        return rendered("wall_parts.html", wall=wall_of(aggregator, study))

    return await page(aggregator, request, ("wall now", study), work, of=study)


@router.post("/wall/code", dependencies=[Depends(json_body), Depends(BodyLimit(_MOST_BYTES))])
async def code(link: JoinLink, aggregator: TheAggregator) -> Response:
    """The link of a study here, as a picture that a phone reads. Nothing of it is stored or logged."""
    [study] = _STUDY.findall(link.link)[:1]

    def draw() -> bytes:
        aggregator.ledger.bulletin(study)  # A stranger's own words are drawn elsewhere.
        return _drawn(link.link)

    # By a thread, since it takes a while; one at a time and with a rest, since anybody may ask.
    async with aggregator.drawing:
        drawn = await aggregator.show(draw)
        await asyncio.sleep(_REST)
    return Response(drawn, media_type="image/svg+xml", headers=dict(NEVER_KEPT))


def _drawn(link: str) -> bytes:
    drawn = io.BytesIO()
    segno.make(link, micro=False).save(
        drawn,
        kind="svg",
        border=3,
        xmldecl=False,
        svgclass="qr",
        lineclass=None,
        omitsize=True,
        title="Code to join",
        dark="#16171b",
    )
    return drawn.getvalue()


def wall_of(aggregator: Aggregator, study: str) -> Wall:
    """What there is to show of a study by now. For a thread."""
    study = study or _newest(aggregator)
    if DIGEST.fullmatch(study) is None:
        raise NotFoundError("there is no such study")
    ledger, driver = aggregator.ledger, aggregator.driver
    bulletin = ledger.bulletin(study)
    if bulletin.study is None:
        raise NotFoundError(study)
    id_, state = bulletin.rounds[-1] if bulletin.rounds else (None, None)
    is_open = state is RoundState.OPEN
    told = driver.told(study) if is_open else None
    if is_open:
        estimates, left_out = ([], 0) if told is None else (told.estimates, told.left_out)
    else:
        estimates, left_out = (found := driver.estimates(study)).records, found.left_out
    received = 0 if id_ is None else ledger.received(id_)
    # Of a scale the first is the mean, which is no row. What is not shown is not put into words either.
    round_, rows = (
        None if id_ is None else ledger.round(id_),
        rows_of(estimates[: MOST_SHOWN + 1], bulletin.study.example),
    )
    left_out += len(estimates) - len(estimates[: MOST_SHOWN + 1]) + len(rows[MOST_SHOWN:])
    past = [] if round_ is None or told is None or len(rows) != 1 else earlier(aggregator, round_, _LOOKS)
    return Wall(
        study=study,
        spec=bulletin.study,
        state=bulletin.state,
        round=round_,
        received=received,
        told=0 if is_open and told is None else received if told is None else told.reports,
        rows=rows[:MOST_SHOWN],
        left_out=left_out,
        past=[row for found in past for row in rows_of(found, bulletin.study.example)[:1]],
        mean=mean_of(estimates[:2], bulletin.study.example),
    )


def _newest(aggregator: Aggregator) -> str:
    """The last study that is for people, one that is running before one that has ended."""
    ledger = aggregator.ledger
    for studies in (ledger.unfinished(), ledger.studies()):
        for study in reversed(studies):
            # Off its first entry: to read a whole study of thousands, each time, would take seconds.
            [entry] = ledger.stored_entries(study, -1, 1)
            if not json.loads(entry.body)["notice"]["study"]["simulated"]:
                return study
    raise ProblemError("not-found", "no study asks people here yet: askance ask opens one")
