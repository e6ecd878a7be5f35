"""The addresses of the pages. They are for people, so the description of the interface does not have them."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from askance_server.aggregator import Aggregator
from askance_server.api.dependencies import DigestInPath, OperatorOnly, TheAggregator, json_body
from askance_server.api.gate import GatedRoute
from askance_server.dashboard import responses
from askance_server.dashboard.budget import budget_page
from askance_server.dashboard.download import export_download
from askance_server.dashboard.interface import interface_page
from askance_server.dashboard.planner import Form, new_page, planned_part
from askance_server.dashboard.separation import separation_page
from askance_server.dashboard.studies import page_of_list, row_answer
from askance_server.dashboard.study import study_page
from askance_server.dashboard.templates import rendered
from askance_server.public_answers import PublicAnswer

router = APIRouter(include_in_schema=False, route_class=GatedRoute)


@router.get("/assets/{digest}/{name:path}")
async def asset(digest: str, name: str, request: Request) -> Response:
    """Style sheet, scripts and pictures of the pages."""
    return responses.asset(request, digest, name)


@router.get("/")
async def studies(
    request: Request,
    aggregator: TheAggregator,
    page: Annotated[int, Query(ge=1, le=1 << 31)] = 1,
    before: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """All studies, newest first, some on a page: those before a study stay the same, whatever is created meanwhile."""
    known, users = await aggregator.show(lambda: (aggregator.ledger.studies(), aggregator.ledger.enrolled()))
    chosen = page_of_list(known, page, before)
    rows = [answer.body.decode() for answer in await _rows(aggregator, chosen.studies)]
    address = str(request.base_url).rstrip("/")
    about = {"list": chosen, "studies": len(known), "users": users, "address": address}
    return responses.page_of(request, await aggregator.show(lambda: rendered("studies.html", rows=rows, **about)))


async def _rows(aggregator: Aggregator, studies: list[str]) -> list[PublicAnswer]:
    """The rows of these studies: remembered of those that have ended, the others collected in one go."""
    known = {study: aggregator.answers.known(("row", study)) for study in studies}
    asked = [study for study, row in known.items() if row is None]
    found = await aggregator.show(lambda: {study: row_answer(aggregator, study) for study in asked})
    for study, row in found.items():
        if row.final:
            aggregator.answers.remember(("row", study), row)
    return [known[study] or found[study] for study in studies]


@router.get("/studies/{study}")
async def study(study: DigestInPath, request: Request, aggregator: TheAggregator) -> Response:
    """One study."""
    work = partial(study_page, aggregator, study)
    return await responses.page(aggregator, request, ("study", study), work, of=study)


@router.get("/studies/{study}/export.zip")
async def export(study: DigestInPath, request: Request, aggregator: TheAggregator) -> Response:
    """A study that has ended, as one file that anybody can verify."""
    return await export_download(aggregator, request, study)


@router.get("/budget")
async def budget(request: Request, aggregator: TheAggregator) -> Response:
    """What is left of all caps, refusals by reason, and the pace of reports."""
    return await responses.page(aggregator, request, ("budget",), partial(budget_page, aggregator, request.app.state))


@router.get("/separation")
async def separation(request: Request, aggregator: TheAggregator, d: Annotated[int | None, Query()] = None) -> Response:
    """The separation as it was measured."""
    work = partial(separation_page, aggregator.settings.directory, d)
    return await responses.page(aggregator, request, ("separation", str(d)), work)


@router.get("/docs")
async def interface(request: Request, aggregator: TheAggregator) -> Response:
    """What programs may ask."""
    return await responses.page(aggregator, request, ("docs",), lambda: interface_page(request.app.openapi()))


@router.get("/new")
async def new_study(request: Request, aggregator: TheAggregator) -> Response:
    """The form of a new study."""
    return await responses.page(aggregator, request, ("new",), partial(new_page, aggregator))


@router.post("/new/plan", dependencies=[Depends(json_body)])
async def plan(form: Form, aggregator: TheAggregator, _: OperatorOnly) -> Response:
    """What the study of this form would take: for the operator alone, because a plan may take seconds."""
    body = await aggregator.ask(lambda: planned_part(aggregator, form))
    return Response(body, headers=dict(responses.NEVER_KEPT), media_type=responses.HTML)


@router.get("/sign-in")
async def sign_in(request: Request) -> Response:
    """Where the operator shows her token."""
    return responses.page_of(request, rendered("sign_in.html"))
