"""`/v1/studies`: create, list and cancel studies; their bulletins and results."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response, StreamingResponse

from askance_protocol.rounds import ENDED, StudyEnded, StudyState
from askance_server.aggregator import Aggregator
from askance_server.api.dependencies import DigestInPath, OperatorOnly, TheAggregator, json_body
from askance_server.api.description import DIGEST
from askance_server.api.documents import answered, shown, written
from askance_server.api.gate import BodyLimit, GatedRoute
from askance_server.api.models import BulletinModel, NamedEstimateModel, NewStudy, ResultModel, StudyModel
from askance_server.api.rounds import round_model
from askance_server.auth import GatewayToken
from askance_server.core.replay import ReplayError
from askance_server.core.strategy import Estimate
from askance_server.ledger import NotFoundError
from askance_server.problems import responses
from askance_server.public_answers import PublicAnswer, PublicQuestion

_MOST_BYTES: Final = 256 << 10
"""Bytes of a study's description: a strategy has few parameters."""

_PIECE: Final = 8 << 20
"""Bytes of entries that are given at a time, if it is not a single one. A piece of a bulletin is a bulletin: who reads
on gets the next."""

_LIST_PIECE: Final = 256 << 10
"""Bytes of a list that are written at a time."""
MOST_LISTED: Final = 1000
"""Studies that are given at most where somebody says how many."""

_ANY: Final = 1 << 53

_LINK: Final = {
    "description": 'Where the studies behind these are, `rel="next"`; absent if there are none.',
    "schema": {"type": "string"},
}

router = APIRouter(prefix="/v1", route_class=GatedRoute)


@router.post(
    "/studies",
    status_code=201,
    response_model=StudyModel,
    responses=responses(
        "invalid-request",
        "unauthorized",
        "unsupported-media-type",
        "too-many-studies",
        "too-few-users",
        "strategy-failed",
    ),
    dependencies=[Depends(json_body), Depends(BodyLimit(_MOST_BYTES))],
)
async def create_study(new: NewStudy, aggregator: TheAggregator, _: OperatorOnly) -> Response:
    """Publish a study. Its first round is open when this returns; one that would fail at once is refused instead."""
    study = await aggregator.create(
        new.title, new.strategy, new.parameters, simulated=new.simulated, example=new.example, live=new.live
    )
    return await answered(aggregator, lambda: _created(aggregator, study, new), status=201)


def _created(aggregator: Aggregator, study: str, new: NewStudy) -> StudyModel:
    if not new.simulated:
        return _study_model(aggregator, study)
    if new.gateway is not None:
        return _study_model(aggregator, study, GatewayToken(study, new.gateway.first_user, new.gateway.count))
    enrolled = aggregator.ledger.enrolled()
    users = aggregator.ledger.kinds().spoken_for(enrolled)
    return _study_model(aggregator, study, GatewayToken(study, users.start, len(users)))


@router.get(
    "/studies",
    response_model=list[StudyModel],
    responses={200: {"headers": {"Link": _LINK}}, **responses("not-found")},
)
async def list_studies(
    aggregator: TheAggregator,
    limit: Annotated[int | None, Query(ge=1, le=MOST_LISTED, description="Give so many at most.")] = None,
    after: Annotated[
        str | None, Query(pattern=DIGEST, description="Give those that were created after this study.")
    ] = None,
) -> Response:
    """All studies, oldest first; with `limit` some of them, and a `Link` to the next ones.

    New studies come last, so whoever follows the links gets each once, whatever is created meanwhile.
    """
    studies, more = await aggregator.show(partial(_chosen, aggregator, after or "", limit))

    async def listed() -> AsyncIterator[bytes]:
        # Some at a time: all of them at once may not fit into memory.
        separator, rest = b"[", studies
        while rest:
            known = aggregator.answers.known(_study_question(rest[0]))
            some = [known] if known else await aggregator.show(partial(_study_answers, aggregator, rest))
            for study, answer in zip(rest, some, strict=False):
                if answer.final:
                    aggregator.answers.remember(_study_question(study), answer)
                yield separator + answer.body
                separator = b","
                # What is remembered is not waited for: let others have their turn.
                await asyncio.sleep(0)
            rest = rest[len(some) :]
        yield b"]" if studies else b"[]"

    headers = {"Link": f'</v1/studies?limit={limit}&after={studies[-1]}>; rel="next"'} if more else {}
    return StreamingResponse(listed(), headers=headers, media_type="application/json")


def _chosen(aggregator: Aggregator, after: str, limit: int | None) -> tuple[list[str], bool]:
    """The studies that are listed, and whether there are more behind them."""
    if not after and limit is None:
        return aggregator.ledger.studies(), False
    most = limit or _ANY
    found = aggregator.ledger.studies_behind(after, most + 1)
    return found[:most], len(found) > most


def _study_answers(aggregator: Aggregator, studies: Sequence[str]) -> list[PublicAnswer]:
    """The first of these studies, some of them."""
    answers, size = list[PublicAnswer](), 0
    for study in studies:
        answers.append(_study_answer(aggregator, study))
        size += len(answers[-1].body)
        if size >= _LIST_PIECE:
            break
    return answers


@router.get("/studies/{study}", response_model=StudyModel, responses=responses("not-found"))
async def get_study(study: DigestInPath, aggregator: TheAggregator, request: Request) -> Response:
    """One study, its rounds, and the head of its bulletin."""
    question = _study_question(study)
    return await _shown(aggregator, request, study, question, lambda: _study_answer(aggregator, study))


def _study_question(study: str) -> PublicQuestion:
    return "study", study


def _study_answer(aggregator: Aggregator, study: str) -> PublicAnswer:
    model = _study_model(aggregator, study)
    return PublicAnswer.of(written(model), final=StudyState(model.state) in ENDED)


async def _shown(
    aggregator: Aggregator,
    request: Request,
    study: str,
    question: PublicQuestion,
    work: Callable[[], PublicAnswer],
    *,
    needed: bool = False,
) -> Response:
    """What is public of a study, after the step that it is at, unless it is known for good."""
    if aggregator.answers.known(question) is None:
        await aggregator.caught_up(study)
    return await shown(aggregator, request, question, work, needed=needed)


@router.get("/studies/{study}/bulletin", response_model=BulletinModel, responses=responses("not-found"))
async def get_bulletin(
    study: DigestInPath,
    aggregator: TheAggregator,
    request: Request,
    after: Annotated[int, Query(ge=-1, le=1 << 53)] = -1,
) -> Response:
    """The entries behind `after`, or the first of them; head and length are then those of the last that is given."""
    question = ("bulletin", study, str(after))
    work = partial(_bulletin_answer, aggregator, study, after)
    return await _shown(aggregator, request, study, question, work, needed=True)


def _bulletin_answer(aggregator: Aggregator, study: str, after: int) -> PublicAnswer:
    """A bulletin from the bytes that are stored: they were read when they were written."""
    bulletin = aggregator.ledger.bulletin(study)
    # Entries that were appended since then would not be those that the head is of.
    stored = aggregator.ledger.stored_entries(study, after, _PIECE)
    given = [entry for entry in stored if entry.sequence < bulletin.length]
    head, length = (given[-1].digest, given[-1].sequence + 1) if given else (bulletin.head, bulletin.length)
    entries = b",".join(entry.body for entry in given)
    body = b'{"head":"%b","length":%d,"entries":[%b]}' % (head.encode(), length, entries)
    # The entries are all that lead to the head, behind `after`: no other body has this tag.
    first = given[0].sequence if given else length
    return PublicAnswer(body, f"{head}.{first}", final=bulletin.state in ENDED)


@router.get("/studies/{study}/result", response_model=ResultModel, responses=responses("not-found"))
async def get_result(study: DigestInPath, aggregator: TheAggregator, request: Request) -> Response:
    """What the study has come to: estimates of all that was answered, and its hypothesis, once it has finished."""
    length = "in all"
    if aggregator.answers.known(("result", study, length)) is None:
        await aggregator.caught_up(study)
        length = await aggregator.show(lambda: _length(aggregator, study))

    def look() -> PublicAnswer:
        # How long it is by now may be something else; and of a live study more is told between two entries.
        same = _length(aggregator, study) == length and (length == "in all" or not _is_live(aggregator, study))
        return PublicAnswer.of(written(_result_model(aggregator, study)), final=same)

    return await shown(aggregator, request, ("result", study, length), look)


def _named(estimates: Sequence[Estimate]) -> list[dict[str, object]]:
    """Each a `NamedEstimateModel`, as it is written: there may be thousands."""
    names = NamedEstimateModel.model_fields
    return [{name: getattr(each, name) for name in names} for each in estimates]


def _is_live(aggregator: Aggregator, study: str) -> bool:
    spec = aggregator.ledger.bulletin(study).study
    return spec is not None and spec.live is not None


def _length(aggregator: Aggregator, study: str) -> str:
    """Number of entries of a bulletin: all that a result says follows from them, so it is the same until the next."""
    bulletin = aggregator.ledger.bulletin(study)
    return "in all" if bulletin.state in ENDED else str(bulletin.length)


def _result_model(aggregator: Aggregator, study: str) -> ResultModel:
    bulletin, found = aggregator.ledger.bulletin(study), aggregator.driver.estimates(study)
    told = aggregator.driver.told(study)
    hypothesis, reason = None, ""
    if bulletin.state in ENDED:
        last = aggregator.ledger.entries(study, bulletin.length - 2)[-1].notice
        reason = last.reason if isinstance(last, StudyEnded) else ""
        try:
            hypothesis = aggregator.driver.result(study)
        except ReplayError as error:
            # Version 0.1 ended it, and kept no more of its hypothesis than stands in the reason.
            reason = f"{reason} ({error.what}: {error.remedy})"
    return ResultModel.model_construct(
        state=bulletin.state.value,
        reason=reason,
        hypothesis=None if hypothesis is None else hypothesis.value,
        text=None if hypothesis is None else hypothesis.text,
        estimates=_named(found.records),
        estimates_left_out=found.left_out,
        live=[] if told is None else _named(told.estimates),
    )


@router.post(
    "/studies/{study}/cancel", response_model=StudyModel, responses=responses("not-found", "unauthorized", "study-over")
)
async def cancel_study(study: DigestInPath, aggregator: TheAggregator, _: OperatorOnly) -> Response:
    """End a study. What was charged stays charged."""
    await aggregator.cancel(study)
    return await answered(aggregator, lambda: _study_model(aggregator, study))


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
