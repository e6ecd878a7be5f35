"""The addresses of the pages. They are for people, so the description of the interface does not have them."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from askance_server.dashboard import responses

router = APIRouter(include_in_schema=False)


@router.get("/assets/{digest}/{name:path}")
async def asset(digest: str, name: str, request: Request) -> Response:
    """Style sheet, scripts and pictures of the pages."""
    return responses.asset(request, digest, name)
