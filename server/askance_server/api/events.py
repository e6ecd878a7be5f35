"""`/v1/studies/{id}/events`: a study as it goes on, by an endless answer of server-sent events.

Hundreds follow one study. So what a stream says is written once for all (`feeds`), and a stream itself is little: one
task that waits to be told, and sends bytes that are there.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Header
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from askance_protocol.rounds import ENDED
from askance_server.aggregator import Aggregator
from askance_server.api.dependencies import DigestInPath, TheAggregator
from askance_server.api.gate import GatedRoute
from askance_server.driver import LiveRound
from askance_server.feeds import Follower
from askance_server.problems import problem, problem_of, responses
from askance_server.public_answers import PublicAnswer

_LOG = logging.getLogger(__name__)

# Not `str.isdigit`, for which ² is a digit.
_EVENT_ID: Final = re.compile(r"[0-9]{1,9}", re.ASCII)

_PIECE: Final = 8 << 20
"""Bytes of entries that are looked up at a time, if it is not a single one."""
_PING_AFTER: Final = 15.0
"""Seconds of silence after which a stream says that it is there: else somebody on the way may end it."""

router = APIRouter(prefix="/v1", route_class=GatedRoute)


async def known_study(study: DigestInPath, aggregator: TheAggregator) -> str:
    """A study that there is. Looked up before a stream begins: inside it, nobody can be told any more."""
    await aggregator.show(lambda: aggregator.ledger.bulletin(study))
    return study


class EventStream(StreamingResponse):
    """The answer of one who follows a study, from behind an entry on."""

    media_type = "text/event-stream"

    def __init__(self, aggregator: Aggregator, study: str, after: int) -> None:
        # For a proxy of nginx: hand on what comes when it comes.
        super().__init__((), headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        self._aggregator, self._study, self._after = aggregator, study, after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Tell what there is and what comes, until the study has ended, the server stops, or nobody listens."""
        del scope
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        with self._aggregator.feeds.follow(self._study) as follower:
            gone = asyncio.ensure_future(_gone(receive))
            gone.add_done_callback(lambda _: follower.told.set())
            try:
                await self._tell(follower, gone, send)
            finally:
                gone.cancel()
        await send({"type": "http.response.body"})

    async def _look(self) -> StreamNews:
        """What there is to tell; of a study that has ended it is remembered, since it is the same for ever."""
        answers, question = self._aggregator.answers, ("events", self._study, str(self._after))
        if (known := answers.known(question)) is not None:
            return StreamNews(known.body, int(known.tag), b"", b"", ended=True)
        news = await self._aggregator.show(partial(news_of, self._aggregator, self._study, self._after))
        if news.ended:
            answers.remember(question, PublicAnswer(news.entries, str(news.after), final=True))
        return news

    async def _tell(self, follower: Follower, gone: asyncio.Future[None], send: Send) -> None:
        counts = live = b""
        while not (self._aggregator.closing or gone.done()):
            follower.told.clear()
            try:
                news = await follower.feed.once(("news", str(self._after)), self._look)
            except Exception as error:
                # Whatever it is: the status went out long ago, so nobody else can say it.
                await send(_piece(_last_words(error)))
                return
            if news.entries:
                self._after = news.after
                await send(_piece(news.entries))
            if news.ended:
                return
            if news.entries:
                # There may be more of them than were given at once.
                continue
            new = [now for now, before in ((news.counts, counts), (news.live, live)) if now not in {b"", before}]
            counts, live = news.counts, news.live or live
            if new:
                await send(_piece(b"".join(new)))
            while not follower.told.is_set():
                try:
                    async with asyncio.timeout(_PING_AFTER):
                        await follower.told.wait()
                except TimeoutError:
                    await send(_piece(KEEPALIVE_COMMENT))


@router.get("/studies/{study}/events", status_code=200, response_class=EventStream, responses=responses("not-found"))
async def get_events(
    study: Annotated[str, Depends(known_study)], aggregator: TheAggregator, last_event_id: Annotated[str, Header()] = ""
) -> Response:
    """The bulletin as it grows, an event an entry, and counts in between. `Last-Event-ID` resumes.

    Of a live study also estimates of the open round, as often as more of its reports are told: an event `live`.
    """
    return EventStream(aggregator, study, int(last_event_id) if _EVENT_ID.fullmatch(last_event_id) else -1)


async def _gone(receive: Receive) -> None:
    """Wait until nobody listens any more."""
    while (await receive())["type"] != "http.disconnect":
        pass


def _piece(body: bytes) -> dict[str, object]:
    return {"type": "http.response.body", "body": body, "more_body": True}


def _last_words(error: Exception) -> bytes:
    """The last event of a stream that cannot go on: what an answer that has not begun would be instead."""
    found = problem_of(error)
    if found.name == "internal":
        _LOG.error("an error that should not be, inside a stream: %s", type(error).__name__, exc_info=error)
    return format_sse_event(event="problem", data_str=json.dumps(problem(found.name, found.detail, **found.extra)))


@dataclass(frozen=True, slots=True)
class StreamNews:
    """What a stream has to tell, as it is sent."""

    entries: bytes
    """An event for each entry of the bulletin, some of them."""
    after: int
    """The last of them."""
    counts: bytes
    live: bytes
    """What is told of the open round; nothing where nothing is."""
    ended: bool

    @property
    def size(self) -> int:
        """Bytes of it."""
        return len(self.entries) + len(self.counts) + len(self.live)


def _live(told: LiveRound) -> dict[str, object]:
    return {"round": told.round, "reports": told.reports, "estimates": [asdict(each) for each in told.estimates]}


def news_of(aggregator: Aggregator, study: str, after: int) -> StreamNews:
    """What there is to tell one who knows a bulletin up to an entry. For a thread."""
    # First the state: entries that come in between are told, and the last of them again looked for.
    bulletin = aggregator.ledger.bulletin(study)
    entries = [] if bulletin.length <= after + 1 else aggregator.ledger.stored_entries(study, after, _PIECE)
    events = [
        format_sse_event(
            data_str=entry.body.decode(), event=json.loads(entry.body)["notice"]["kind"], id=str(entry.sequence)
        )
        for entry in entries
    ]
    after = entries[-1].sequence if entries else after
    # Of a round that was answered its closing has told the count, once: of a thousand, each event would tell all.
    received = {id_: aggregator.ledger.received(id_) for id_, _ in bulletin.rounds.others}
    told = aggregator.driver.told(study)
    return StreamNews(
        entries=b"".join(events),
        after=after,
        counts=format_sse_event(event="received", data_str=json.dumps(received)),
        live=b""
        if told is None
        else format_sse_event(event="live", data_str=json.dumps(_live(told), ensure_ascii=False)),
        ended=bulletin.state in ENDED and after + 1 >= bulletin.length,
    )
