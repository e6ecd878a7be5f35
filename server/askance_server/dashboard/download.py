"""A study that has ended as one file: what `askance study export --out study.zip` writes, byte for byte.

To make it, its bulletin is verified and its strategy replayed, which takes a while, and anybody may ask. So it is made
of a study that has ended alone, once, and remembered; and of no bulletin that is longer than `LONGEST`: whoever wants
that one has `askance study export`, on a machine of her own.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from askance_protocol.errors import AskanceError
from askance_protocol.rounds import ENDED
from askance_server.aggregator import Aggregator
from askance_server.core.archive import zipped
from askance_server.core.export import export_files
from askance_server.dashboard.responses import HEADERS
from askance_server.problems import ProblemError
from askance_server.public_answers import PublicAnswer, tagged

LONGEST: Final = 1 << 17
"""Bytes of the entries of a bulletin that is made into a file here."""


async def export_download(aggregator: Aggregator, request: Request, study: str) -> Response:
    """The file, under the study's name."""
    answer = await aggregator.answer(("export", study), lambda: _export(aggregator, study))
    response = tagged(request, answer, "application/zip")
    response.headers.update({**HEADERS, "Content-Disposition": f'attachment; filename="askance-{study[:12]}.zip"'})
    return response


def can_be_downloaded(aggregator: Aggregator, study: str) -> bool:
    """Whether there is such a file. For a thread."""
    bulletin = aggregator.ledger.bulletin(study)
    if bulletin.state not in ENDED:
        return False
    entries = aggregator.ledger.stored_entries(study, -1, LONGEST)
    return len(entries) == bulletin.length and sum(len(entry.body) for entry in entries) <= LONGEST


def _export(aggregator: Aggregator, study: str) -> PublicAnswer:
    if not can_be_downloaded(aggregator, study):
        raise ProblemError("not-found", "a study that has not ended, or is long, is exported by askance study export")
    try:
        files = export_files(aggregator.ledger.entries(study, -1), aggregator.strategies)
    except AskanceError as error:
        # A strategy that is not installed here any more, say.
        raise ProblemError("not-found", f"this study cannot be made into a file here: {error}") from None
    return PublicAnswer.of(zipped(files), final=True)
