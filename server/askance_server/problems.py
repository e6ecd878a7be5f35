"""Problem documents, RFC 9457: every refusal of the server, in one closed table, and which error is which of them.

A type is `urn:askance:problem:<name>`. It is a name and no address: the same on every server and at every path, whereas
RFC 9457 (section 3.1.1) warns of relative references, which mean something else below each URL. What a page behind
an address would say, the document says itself: its member `next` tells what to do.

A document never repeats what was sent: no report, no example, no token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, cast

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from askance_protocol.canonical import Json
from askance_protocol.errors import AskanceError, Code
from askance_server.ledger.base import Verdict
from askance_server.logs import scrub

MEDIA_TYPE: Final = "application/problem+json"
URN: Final = "urn:askance:problem:"

_MEMBERS: Final = frozenset({"type", "title", "status", "detail", "next"})
_STEP: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ProblemType:
    """One kind of refusal."""

    name: str
    status: int
    title: str
    next: str
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def type(self) -> str:
        """The stable name of this kind, as documents carry it."""
        return URN + self.name


_AGAIN_SOON: Final = MappingProxyType({"Retry-After": "1"})
# What is on its way still is not read, so the connection is of no further use.
_HANGS_UP: Final = MappingProxyType({"Connection": "close"})

_ALL: Final = (
    ProblemType(
        "invalid-request", 422, "The request is not valid", "Correct what the detail names; see /openapi.json."
    ),
    ProblemType(
        "malformed-request",
        400,
        "The request is not HTTP as it is spoken here",
        "Correct what the detail names; a library for HTTP does.",
        _HANGS_UP,
    ),
    ProblemType(
        "request-timeout",
        408,
        "The request took too long to arrive",
        "Send it again, all of it at once.",
        _HANGS_UP,
    ),
    ProblemType(
        "head-too-large",
        431,
        "The request's line and headers are too large",
        "Send fewer and shorter headers.",
        _HANGS_UP,
    ),
    ProblemType("invalid-report", 422, "The report is not valid", 'Send {"outcome": i}, an outcome that the part has.'),
    ProblemType(
        "unauthorized",
        401,
        "There is no valid token",
        "Send Authorization: Bearer and a token. Users get theirs by enrolling; the operator's is in operator.token.",
        MappingProxyType({"WWW-Authenticate": 'Bearer realm="askance"'}),
    ),
    ProblemType("forbidden", 403, "This token is not for that", "Use a token of the role that the detail names."),
    ProblemType(
        "enrolment-over",
        403,
        "This enrolment token enrols nobody any more",
        "Ask the operator for another one: POST /v1/enrolment-tokens.",
    ),
    ProblemType("not-found", 404, "There is no such thing", "Check the id; GET /v1/studies lists what there is."),
    ProblemType("method-not-allowed", 405, "This has no such method", "Use a method that the Allow header names."),
    ProblemType(
        "conflict",
        409,
        "Another report of this user is there already",
        "Send the bytes that were sent the first time; nothing was charged for this report.",
    ),
    ProblemType(
        "version-mismatch", 409, "The two sides speak different versions", "Install the version that the server speaks."
    ),
    # 403 and not 409: a budget is for a lifetime, so no retry will ever pass.
    ProblemType("budget-exceeded", 403, "The user's budget does not cover this", "Nothing: no budget is renewed."),
    ProblemType(
        "round-not-open", 409, "The round takes no reports", "Read the study's bulletin: answer a round that is open."
    ),
    ProblemType(
        "not-in-cohort", 403, "This user is not asked in this round", "Nothing: wait for a round that asks her."
    ),
    ProblemType(
        "unsupported-media-type", 415, "This body is of another kind", "Set the Content-Type that /openapi.json names."
    ),
    ProblemType(
        "body-too-large",
        413,
        "The body is too large",
        "Send less at a time.",
        _HANGS_UP,
    ),
    ProblemType(
        "strategy-failed",
        422,
        "The strategy cannot ask what it has to",
        "Change what the detail names; askance plan and askance run try it without users.",
    ),
    ProblemType("study-over", 409, "The study has ended", "Nothing: what a study has come to stays as it is."),
    ProblemType(
        "too-many-studies", 409, "Too many studies run", "Cancel one that is not needed, or raise ASKANCE_STUDY_LIMIT."
    ),
    ProblemType("too-few-users", 409, "Too few users can answer", "Enrol more users, or ask for less: askance plan."),
    ProblemType(
        "queue-full", 503, "Too many reports wait", "Send the same bytes again after Retry-After.", _AGAIN_SOON
    ),
    ProblemType("not-ready", 503, "The server is not ready", "Ask again after Retry-After; see /readyz.", _AGAIN_SOON),
    ProblemType(
        "internal",
        500,
        "The server failed",
        "Try again; the server's log says where. A report may be sent again safely.",
    ),
)

PROBLEMS: Final[Mapping[str, ProblemType]] = MappingProxyType({each.name: each for each in _ALL})

OF_VERDICT: Final[Mapping[Verdict, str]] = MappingProxyType(
    {
        Verdict.CONFLICT: "conflict",
        Verdict.OVER_BUDGET: "budget-exceeded",
        Verdict.NOT_OPEN: "round-not-open",
        Verdict.NOT_ASKED: "not-in-cohort",
        Verdict.OUTSIDE: "invalid-report",
        # Her token is genuine and its user is not in this ledger: she has to enrol.
        Verdict.UNKNOWN_USER: "unauthorized",
    }
)
"""The problem of each verdict that refuses a report. An accepted and a repeated one get a receipt."""

SCHEMA: Final[Mapping[str, Json]] = {
    "type": "object",
    "title": "Problem",
    "required": ["type", "title", "status", "next"],
    "properties": {
        "type": {"type": "string", "enum": [each.type for each in _ALL]},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"type": "string", "description": "What is wrong in this case."},
        "next": {"type": "string", "description": "What to do next."},
    },
}


OF_CODE: Final[Mapping[Code, str]] = MappingProxyType(
    {
        Code.INVALID: "invalid-request",
        Code.USAGE: "invalid-request",
        Code.DATA: "invalid-request",
        Code.STRATEGY: "strategy-failed",
        Code.NOT_FOUND: "not-found",
        Code.UNAUTHORIZED: "unauthorized",
        Code.FORBIDDEN: "forbidden",
        Code.ENROLMENT_OVER: "enrolment-over",
        Code.OVER_BUDGET: "budget-exceeded",
        Code.ROUND_NOT_OPEN: "round-not-open",
        Code.STUDY_OVER: "study-over",
        Code.TOO_FEW_USERS: "too-few-users",
        Code.VERSION_MISMATCH: "version-mismatch",
        Code.QUEUE_FULL: "queue-full",
        Code.LEDGER: "not-ready",
        Code.LEDGER_BUSY: "not-ready",
        Code.LEDGER_AWAY: "not-ready",
    }
)
"""The problem of each error of ours that a request can meet. Any other is a failure of the server."""

_OF_STATUS: Final[Mapping[int, str]] = MappingProxyType({404: "not-found", 405: "method-not-allowed"})
"""The problem of each status that the framework refuses with; any other is an invalid request."""


class ProblemError(Exception):
    """A refusal by the name of its problem, with a detail and extension members."""

    def __init__(self, name: str, detail: str = "", /, **extra: Json) -> None:
        self.name, self.detail, self.extra = PROBLEMS[name].name, detail, extra
        super().__init__(f"{name}: {detail}" if detail else name)


@dataclass(frozen=True, slots=True)
class ProblemOccurrence:
    """One refusal: its kind by name, what is wrong in this case, and what a response has besides."""

    name: str
    detail: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    extra: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))


def problem_of(error: Exception) -> ProblemOccurrence:  # noqa: PLR0911 - one return for each kind of error
    """The problem that a client is told for an error. An error not listed here is internal, with no detail."""
    match error:
        case ProblemError():
            return ProblemOccurrence(error.name, error.detail, extra=error.extra)
        case AskanceError(code=Code.LEDGER | Code.LEDGER_BUSY | Code.LEDGER_AWAY as code):
            # The error names the file or the database, which is the operator's business.
            return ProblemOccurrence(OF_CODE[code], "the ledger cannot be written; nothing was acknowledged")
        case AskanceError() if error.code in OF_CODE:
            return ProblemOccurrence(OF_CODE[error.code], str(error))
        case RequestValidationError():
            errors: list[dict[str, Any]] = list(error.errors())
            if errors[0]["loc"][0] == "path":
                return ProblemOccurrence("not-found", "there is nothing of this name")
            return ProblemOccurrence("invalid-request", detail_of(errors))
        case HTTPException():
            return ProblemOccurrence(_OF_STATUS.get(error.status_code, "invalid-request"), headers=error.headers or {})
        case ClientDisconnect():
            return ProblemOccurrence("invalid-request", "the body ended too early")
        case _:
            return ProblemOccurrence("internal")


def problem(name: str, detail: str = "", /, **extra: Json) -> dict[str, Any]:
    """The document of one problem. `extra` are its extension members, as the two versions of a mismatch."""
    kind = PROBLEMS[name]
    if taken := _MEMBERS & extra.keys():
        raise ValueError(f"{', '.join(sorted(taken))}: every problem has this member; name the extension differently")
    document: dict[str, Any] = {"type": kind.type, "title": kind.title, "status": kind.status}
    if detail:
        document["detail"] = scrub(detail)
    return {**document, "next": kind.next, **extra}


def problem_response(
    name: str, detail: str = "", /, *, headers: Mapping[str, str] | None = None, **extra: Json
) -> Response:
    """The document as a response, with the headers that its kind asks for."""
    kind = PROBLEMS[name]
    content = json.dumps(problem(name, detail, **extra), ensure_ascii=False).encode()
    return Response(content, kind.status, {**kind.headers, **(headers or {})}, MEDIA_TYPE)


def detail_of(errors: Iterable[Mapping[str, Any]]) -> str:
    """The first complaint of pydantic, as a detail: its place and what is wanted there, never what was sent.

    pydantic's own text repeats input in two cases, a tag that it does not know and a member that the form does not
    have; and a mapping's keys are input too.
    """
    for error in errors:
        steps = cast("Sequence[object]", error["loc"])
        if error["type"] == "extra_forbidden":
            return _at(steps[:-1], "has a member that this form does not have")
        if error["type"] in {"union_tag_invalid", "union_tag_not_found"}:
            return _at(steps, "does not name a kind that this form has")
        if error["type"] == "json_invalid":
            return "the body is not JSON"
        return _at(steps, str(error["msg"]).removeprefix("Value error, "))
    return ""


def _at(steps: Sequence[object], what: str) -> str:
    place = ""
    for step in steps:
        if isinstance(step, int):
            place += f"[{step}]"
        elif _STEP.fullmatch(str(step)):
            place += f".{step}"
    return f"{place.removeprefix('.') or 'body'}: {what}"


def examples(*names: str) -> dict[str, dict[str, Any]]:
    """An example of each of these problems, or of all: OpenAPI's `examples`."""
    return {name: {"summary": PROBLEMS[name].title, "value": problem(name)} for name in names or PROBLEMS}


def responses(*names: str) -> dict[int | str, dict[str, Any]]:
    """The refusals of a route by status: FastAPI's `responses`."""
    by_status: dict[int | str, list[str]] = {}
    for name in names:
        by_status.setdefault(PROBLEMS[name].status, []).append(name)
    return {
        status: {
            "description": "; ".join(PROBLEMS[name].title for name in of_status),
            "content": {MEDIA_TYPE: {"schema": SCHEMA, "examples": examples(*of_status)}},
        }
        for status, of_status in by_status.items()
    }
