"""A page from elsewhere may speak to the endpoints of somebody who takes part, and to no others.

Every operation of the OpenAPI document is tried, as a browser would, and what is not in it, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from starlette.middleware.cors import CORSMiddleware

from askance_server.api import cross_origin
from tests.harness.servers import Service

ELSEWHERE: Final = {"Origin": "null"}
"""What a browser says of a page that is a file."""
ALLOWED: Final = "access-control-allow-origin"
TAKING_PART: Final = {
    "GET /v1/studies/{study}",
    "GET /v1/studies/{study}/bulletin",
    "GET /v1/rounds/{round_}",
    "POST /v1/rounds/{round_}/reports",
    "POST /v1/enrolments",
    "GET /v1/me",
}
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")
WANTED: Final = "authorization, content-type"


@pytest.fixture
def api(tmp_path: Path) -> Generator[Service]:
    with Service(tmp_path / "data", cap="1") as service:
        service.enrol(3)
        yield service


def operations(api: Service) -> Iterator[tuple[str, str]]:
    """All operations: as they are described, and a path of each."""
    study = api.get("/v1/studies").json() or [api.study()]
    names = {"study": study[0]["id"], "round_": study[0]["rounds"][0]["id"], "user": "1"}
    # What is over has streams that end.
    api.post(f"/v1/studies/{names['study']}/cancel", token=api.operator)
    for path in api.app.openapi()["paths"]:
        for method in METHODS:
            yield f"{method} {path}", path.format(**names)
    for path in ("/", "/docs", "/openapi.json", "/v1/nothing", f"/v1/studies/{names['study']}/bulletin/more"):
        for method in METHODS:
            yield f"{method} {path}", path


def asked_before(api: Service, path: str, method: str) -> httpx.Response:
    """What a browser asks before a request that a page from elsewhere wants to send."""
    wishes = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": WANTED}
    return api.request("OPTIONS", path, headers={**ELSEWHERE, **wishes})


def readable(api: Service) -> set[str]:
    """The operations whose answers a browser shows to a page from elsewhere, or before which it is told it may send."""
    found: set[str] = set()
    for name, path in operations(api):
        method = name.split()[0]
        answer = api.request(method, path, headers=ELSEWHERE)
        if ALLOWED in answer.headers or ALLOWED in asked_before(api, path, method).headers:
            found.add(name)
    return found


def test_a_page_from_elsewhere_reads_what_a_participant_needs_and_nothing_else(api: Service) -> None:
    described = {name for name, _ in operations(api)}

    assert described > TAKING_PART
    assert readable(api) == TAKING_PART


def test_control_an_endpoint_too_many_is_found(api: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    api.app.user_middleware.insert(0, api.app.user_middleware[0].__class__(CORSMiddleware, allow_origins=["*"]))
    api.app.middleware_stack = api.app.build_middleware_stack()

    assert readable(api) > TAKING_PART


def test_a_browser_is_told_what_it_may_send_and_never_to_send_who_it_is(api: Service) -> None:
    for name, path in operations(api):
        told = asked_before(api, path, name.split()[0])
        if name not in TAKING_PART:
            assert not [header for header in told.headers if header.startswith("access-control")], name
            continue
        assert told.status_code == 204
        assert told.headers[ALLOWED] == "*"
        assert told.headers["access-control-allow-methods"] == name.split()[0]
        assert {"authorization", "content-type"} <= set(told.headers["access-control-allow-headers"].split(", "))
        assert "access-control-allow-credentials" not in told.headers


def test_refusals_can_be_read_as_well(api: Service) -> None:
    """Whoever takes part has to be told why something is refused."""
    study = api.study()
    reports = f"/v1/rounds/{study['rounds'][0]['id']}/reports"
    refused = [
        api.request("POST", reports, headers=ELSEWHERE, content=b"{}"),
        api.request("POST", reports, headers={**ELSEWHERE, "Askance-Protocol": "2"}, content=b"{}"),
        api.request("GET", "/v1/me", headers=ELSEWHERE),
        api.request("GET", "/v1/studies/" + "0" * 64, headers=ELSEWHERE),
        api.request("POST", "/v1/enrolments", headers=ELSEWHERE, content=b"x" * 100_000, token=api.enrolment),
    ]

    assert [each.status_code for each in refused] == [401, 409, 401, 404, 413]
    assert {each.headers[ALLOWED] for each in refused} == {"*"}
    # Nothing is another answer than without it.
    assert api.get("/v1/me").json() == refused[2].json()


def test_every_endpoint_that_is_open_is_there(api: Service) -> None:
    assert len(cross_origin.PARTICIPANTS) == len(TAKING_PART)


def test_what_is_no_request_is_passed_on_as_it_is_and_of_an_answer_the_head_alone_is_changed() -> None:
    passed, sent = list[Any](), list[Any]()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        passed.extend((scope, receive))
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    def told(scope: dict[str, object]) -> list[Any]:
        passed.clear()
        sent.clear()
        asyncio.run(cross_origin.CrossOrigin(app)(scope, receive, send))
        assert passed == [scope, receive]
        return sent

    started, ended = {"type": "http.response.start", "status": 200}, {"type": "http.response.body"}
    # A scope of another type has no method.
    assert told({"type": "websocket", "path": "/v1/me"}) == [started, ended]
    head, body = told({"type": "http", "method": "GET", "path": "/v1/me", "headers": []})
    assert (b"access-control-allow-origin", b"*") in head["headers"]
    assert body == ended
