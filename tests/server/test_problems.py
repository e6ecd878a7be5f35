"""Problem documents and logs: what is said, and what is never said."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NoReturn, get_args

import pytest
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from askance_protocol.errors import AskanceError, Code, ProtocolError
from askance_server import logs
from askance_server.auth import AuthError, EnrolmentToken, ForbiddenError, GatewayToken, Keys, OperatorToken, UserToken
from askance_server.group_commit import QueueFullError
from askance_server.ledger.base import (
    LedgerAwayError,
    LedgerBusyError,
    LedgerError,
    NotFoundError,
    NotOpenError,
    Verdict,
)
from askance_server.problems import (
    MEDIA_TYPE,
    OF_CODE,
    OF_VERDICT,
    PROBLEMS,
    SCHEMA,
    ProblemError,
    ProblemOccurrence,
    detail_of,
    examples,
    problem,
    problem_of,
    problem_response,
    responses,
)

KEYS = Keys(bytes(range(32)))
TOKENS = [
    KEYS.mint(token)
    for token in (UserToken(7, 2), EnrolmentToken("e"), OperatorToken("o"), GatewayToken("5a" * 32, 0, 9))
]
each_token = pytest.mark.parametrize("token", TOKENS, ids=lambda token: token.partition(".")[0])
each_problem = pytest.mark.parametrize("name", PROBLEMS)

# The contract: changing one of these breaks clients.
STATUS = {
    "invalid-request": 422,
    "malformed-request": 400,
    "request-timeout": 408,
    "head-too-large": 431,
    "invalid-report": 422,
    "unauthorized": 401,
    "forbidden": 403,
    "enrolment-over": 403,
    "not-found": 404,
    "method-not-allowed": 405,
    "conflict": 409,
    "version-mismatch": 409,
    "budget-exceeded": 403,
    "round-not-open": 409,
    "not-in-cohort": 403,
    "unsupported-media-type": 415,
    "body-too-large": 413,
    "strategy-failed": 422,
    "study-over": 409,
    "too-many-studies": 409,
    "too-few-users": 409,
    "queue-full": 503,
    "not-ready": 503,
    "internal": 500,
}


def test_the_table_is_closed_and_its_statuses_are_the_contract() -> None:
    assert {name: each.status for name, each in PROBLEMS.items()} == STATUS
    assert all(each.name == name for name, each in PROBLEMS.items())
    with pytest.raises(KeyError):
        problem("unheard-of")
    with pytest.raises(KeyError):
        ProblemError("unheard-of")
    with pytest.raises(TypeError):
        PROBLEMS["new"] = PROBLEMS["internal"]  # type: ignore[index]


@each_problem
def test_every_problem_says_what_it_is_and_what_to_do_next(name: str) -> None:
    document = problem(name, "this case")

    assert list(document) == ["type", "title", "status", "detail", "next"]
    assert document["type"] == f"urn:askance:problem:{name}"
    assert document["detail"] == "this case"
    assert document["next"].endswith(".")
    assert "detail" not in problem(name)
    assert document["type"] in SCHEMA["properties"]["type"]["enum"]  # type: ignore[index,call-overload]


@each_problem
def test_a_response_carries_its_document_its_status_and_its_media_type(name: str) -> None:
    response = problem_response(name, "ε", headers={"Allow": "GET"}, server="1")

    assert response.status_code == STATUS[name]
    assert response.headers["content-type"] == MEDIA_TYPE
    assert response.headers["allow"] == "GET"
    assert json.loads(bytes(response.body)) == problem(name, "ε", server="1")


def test_headers_that_http_asks_for_are_there() -> None:
    assert problem_response("unauthorized").headers["www-authenticate"].startswith("Bearer")
    assert int(problem_response("queue-full").headers["retry-after"]) > 0
    assert problem_response("body-too-large").headers["connection"] == "close"


def test_extensions_name_both_versions_and_cannot_replace_a_member() -> None:
    assert problem("version-mismatch", server=1, client=2)["client"] == 2
    with pytest.raises(ValueError, match="status"):
        problem("conflict", status=200)


def test_every_verdict_but_the_receipts_has_a_problem() -> None:
    assert set(OF_VERDICT) == set(Verdict) - {Verdict.ACCEPTED, Verdict.REPEATED}
    assert set(OF_VERDICT.values()) <= set(PROBLEMS)


SENT_PATH = "hidden/ledger.sqlite"
ERRORS: list[tuple[Exception, ProblemOccurrence]] = [
    (ProblemError("study-over", "it ended", at=3), ProblemOccurrence("study-over", "it ended", extra={"at": 3})),
    (ProtocolError("is odd", where="users"), ProblemOccurrence("invalid-request", "users: is odd")),
    (NotFoundError("there is no such round"), ProblemOccurrence("not-found", "there is no such round")),
    (AuthError(), ProblemOccurrence("unauthorized", "there is no valid token in the Authorization header")),
    (ForbiddenError("another role"), ProblemOccurrence("forbidden", "another role")),
    (QueueFullError(), ProblemOccurrence("queue-full", "too many reports wait; nothing was done for this one")),
    *(
        (
            kind(f"/srv/{SENT_PATH} is full"),
            ProblemOccurrence("not-ready", "the ledger cannot be written; nothing was acknowledged"),
        )
        for kind in (LedgerError, LedgerBusyError, LedgerAwayError)
    ),
    (HTTPException(405, headers={"Allow": "GET"}), ProblemOccurrence("method-not-allowed", headers={"Allow": "GET"})),
    (HTTPException(404), ProblemOccurrence("not-found")),
    (HTTPException(400, SENT_PATH), ProblemOccurrence("invalid-request")),
    (ClientDisconnect(), ProblemOccurrence("invalid-request", "the body ended too early")),
    (AskanceError(f"failed at {SENT_PATH}"), ProblemOccurrence("internal")),
    (ZeroDivisionError(SENT_PATH), ProblemOccurrence("internal")),
]


@pytest.mark.parametrize(("error", "expected"), ERRORS, ids=lambda each: type(each).__name__)
def test_each_error_is_one_problem_and_tells_nothing_of_the_servers_files(
    error: Exception, expected: ProblemOccurrence
) -> None:
    found = problem_of(error)

    assert (found.name, found.detail) == (expected.name, expected.detail)
    assert (dict(found.headers), dict(found.extra)) == (dict(expected.headers), dict(expected.extra))
    assert SENT_PATH not in found.detail


def test_the_table_of_codes_names_problems_that_there_are() -> None:
    assert set(OF_CODE.values()) <= set(PROBLEMS)
    assert Code.INTERNAL not in OF_CODE


def test_an_error_carries_its_problem_to_the_handler() -> None:
    error = ProblemError("conflict", "the study has ended", study="x")
    assert (error.name, error.detail, error.extra) == ("conflict", "the study has ended", {"study": "x"})


@each_token
def test_a_detail_never_repeats_a_token(token: str) -> None:
    assert token not in json.dumps(problem("unauthorized", f"got {token}"))
    assert token.rpartition(".")[2] not in json.dumps(problem("unauthorized", f"got Bearer {token}"))


SENT = "s3cret_bits_0110"


class Dog(BaseModel):
    kind: Literal["dog"]


class Cat(BaseModel):
    kind: Literal["cat"]


class Form(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    outcome: int = 0
    items: list[int] = []
    pet: Annotated[Dog | Cat, Field(discriminator="kind")] | None = None
    names: dict[Annotated[str, Field(pattern="^[A-Z]$")], int] = {}


@pytest.mark.parametrize(
    ("sent", "place"),
    [
        ({"outcome": SENT}, "outcome: "),
        ({"items": [1, SENT]}, "items[1]: "),
        ({SENT: 1}, "body: has a member"),
        ({"pet": {"kind": SENT}}, "pet: does not name a kind"),
        ({"names": {f"{SENT} {SENT}": 1}}, "names"),
    ],
)
def test_a_refused_form_is_told_where_it_is_wrong_and_never_repeated(sent: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Form.model_validate(sent)
    detail = detail_of(caught.value.errors())  # type: ignore[arg-type]
    assert detail.startswith(place)
    assert SENT not in detail


def test_openapi_takes_the_examples_of_all_problems() -> None:
    app = FastAPI()

    @app.get("/", responses=responses(*PROBLEMS))
    def route() -> None: ...

    told = app.openapi()["paths"]["/"]["get"]["responses"]
    assert {str(status) for status in STATUS.values()} <= set(told)
    shown = told["409"]["content"][MEDIA_TYPE]["examples"]
    assert set(shown) == {name for name, status in STATUS.items() if status == 409}
    assert examples("conflict")["conflict"]["value"] == problem("conflict")
    assert set(examples()) == set(STATUS)


# ------------------------------------------------------------------------------------------------------- logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    yield stream
    logs.configure("debug", "json", stream)
    root.handlers[:] = before
    root.setLevel(level)


def one(stream: io.StringIO) -> dict[str, Any]:
    (line,) = stream.getvalue().splitlines()
    return json.loads(line)


def throw(error: Exception) -> NoReturn:
    raise error


def fail(token: str) -> None:
    try:
        throw(KeyError(f"body {SENT}"))
    except KeyError:
        raise ProtocolError(f"with {token}", where="report") from None


@pytest.mark.parametrize("form", get_args(logs.LogFormat))
@each_token
def test_a_planted_token_never_reaches_the_log(stream: io.StringIO, token: str, form: logs.LogFormat) -> None:
    logs.configure("debug", form, stream)
    log = logging.getLogger("uvicorn.error")
    headers = [(b"authorization", f"Bearer {token}".encode())]

    log.info(token)
    log.info("got %s and %r", token, headers)
    log.info("fields", extra={"authorization": token, "headers": headers, "body": SENT, "path": f"/{token}"})
    log.info("scope", extra={"study": {"token": token}, "token": token, token: 1})
    log.info("stack", stack_info=True)
    log.info("does not fit %s", token, SENT)  # noqa: PLE1205 - on purpose
    for error in (ProtocolError(token), LedgerError(token), ValueError(token), OSError(token)):
        log.error("failed", exc_info=error)
    try:
        throw(ExceptionGroup(token, [KeyError(token), ProtocolError(token)]))
    except ExceptionGroup:
        log.exception("group")
    try:
        fail(token)
    except ProtocolError:
        log.exception("failed with %s", token)

    written = stream.getvalue()
    assert written.count("failed") >= 5
    assert token not in written
    assert token.rpartition(".")[2] not in written
    assert SENT not in written


def test_a_line_is_one_json_object_with_its_fields(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    logging.getLogger("askance").info("closed %s", "round", extra={"round": "ab", "reports": 5, "user": 7})
    logging.getLogger("askance").debug("not wanted")

    line = one(stream)

    assert line["message"] == "closed round"
    assert (line["level"], line["logger"], line["round"], line["reports"]) == ("info", "askance", "ab", 5)
    assert line["time"].endswith("Z")
    assert line["withheld"] == "user", "what a developer added and nobody may see is at least noticed"


def test_an_exception_keeps_its_place_and_loses_words_that_may_be_private(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    try:
        fail("no token")
    except ProtocolError:
        logging.getLogger("askance").exception("failed")

    told = one(stream)["exception"]

    assert "test_problems.py" in told
    assert told.endswith("ProtocolError: report: with no token")
    assert "KeyError" not in told, "raised from None"


def test_an_exception_behind_another_is_told_without_its_words(stream: io.StringIO) -> None:
    logs.configure("info", "text", stream)
    try:
        try:
            throw(KeyError(SENT))
        except KeyError as error:
            raise ProtocolError("outer") from error
    except ProtocolError:
        logging.getLogger("askance").exception("failed")

    assert "\nKeyError\n" in stream.getvalue()
    assert stream.getvalue().endswith("ProtocolError: outer\n")
    assert SENT not in stream.getvalue()


def test_passwords_are_struck_out_of_urls() -> None:
    assert logs.scrub("at postgresql://ask:p@ss@db/x now") == "at postgresql://ask:…@db/x now"
    assert "abc" not in logs.scrub("Authorization: Basic abc")
    assert logs.scrub("http://127.0.0.1:8080/v1") == "http://127.0.0.1:8080/v1"
    assert logs.scrub("the round " + "5a" * 32) == "the round " + "5a" * 32


def test_a_usual_log_is_quiet_about_the_web_server_and_a_debug_log_is_not(stream: io.StringIO) -> None:
    for level in ("debug", "info"):
        logs.configure(level, "json", stream)
        logging.getLogger("uvicorn.error").info("Started")
        logging.getLogger("askance_server").info("ready")
    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == ["Started", "ready", "ready"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_text_and_a_pipe_gets_json(stream: io.StringIO) -> None:
    terminal = Terminal()
    logs.configure("info", "auto", terminal)
    logging.getLogger("askance").warning("hm", extra={"port": 8080})
    logs.configure("info", "auto", stream)
    logging.getLogger("askance").warning("hm", extra={"port": 8080})

    assert terminal.getvalue().endswith("warning hm port=8080\n")
    assert one(stream)["port"] == 8080


def test_refusals_that_ask_for_different_things_have_different_codes() -> None:
    """Commands and the server look at the code only: one that is inherited would be told as its parent's."""
    refusals = [LedgerError, LedgerBusyError, LedgerAwayError, NotFoundError, NotOpenError, AuthError, ForbiddenError]
    codes = [each.code for each in (*refusals, ProtocolError, AskanceError)]

    assert len(set(codes)) == len(codes)
