"""Large answers: written by a thread, and from the canonical bytes that published documents keep.

A round of 4,096 queries is a megabyte. To check and write it as the framework does would hold the event loop up, and be
done again for each who asks, though a published document never changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from askance_protocol.values import Value
from askance_server.aggregator import Aggregator
from askance_server.public_answers import PublicAnswer, PublicQuestion, tagged

M = TypeVar("M", bound=BaseModel)

Document: TypeAlias = BaseModel | Sequence[BaseModel]


async def answered(aggregator: Aggregator, work: Callable[[], Document], *, status: int = 200) -> Response:
    """The answer that a thread works out and writes."""
    return Response(await aggregator.ask(lambda: written(work())), status, media_type="application/json")


async def shown(
    aggregator: Aggregator,
    request: Request,
    question: PublicQuestion,
    work: Callable[[], PublicAnswer],
    *,
    needed: bool = False,
) -> Response:
    """The answer to what anybody may ask, or devices need; without a body, if the one who asks has it already."""
    return tagged(request, await aggregator.answer(question, work, needed=needed))


def written(document: Any) -> bytes:
    """JSON of a model: published documents in it in their canonical form, all else as pydantic has it."""
    match document:
        case Value():
            return document.to_bytes()
        case BaseModel():
            members = ((name, getattr(document, name)) for name in type(document).model_fields)
            return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), written(value)) for name, value in members)
        case list() if any(isinstance(each, BaseModel) for each in cast("list[object]", document)):
            return b"[%b]" % b",".join(map(written, cast("list[object]", document)))
        case _:
            return json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
