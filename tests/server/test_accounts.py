"""`GET /v1/me` by its fast path: the same answers, errors and headers as the endpoint gives."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final

import httpx
import pytest

from askance_server.api import accounts
from askance_server.api.accounts import AccountPath
from askance_server.auth import UserToken
from tests.harness.servers import Service

ME: Final = "/v1/me"
ELSEWHERE: Final = {"Origin": "https://elsewhere.test"}

Ask = Callable[[Service, str], httpx.Response]


def get(api: Service, headers: dict[str, str], **more: Any) -> httpx.Response:
    return api.request("GET", ME, headers=headers, **more)


def changed(token: str) -> str:
    return token[:-1] + ("B" if token[-1] == "A" else "A")


ASKED: Final[dict[str, Ask]] = {
    "plainly": lambda api, token: get(api, {}, token=token),
    "from elsewhere": lambda api, token: get(api, ELSEWHERE, token=token),
    "with the version": lambda api, token: get(api, {"Askance-Protocol": "1"}, token=token),
    "with another version": lambda api, token: get(api, {"Askance-Protocol": "2"}, token=token),
    "with a query": lambda api, token: get(api, {}, token=token, params={"user": 0}),
    "with a body": lambda api, token: get(api, {}, token=token, content=b"{}"),
    "with a long body": lambda api, token: get(api, {}, token=token, content=b"x" * 100_000),
    "as others spell it": lambda api, token: get(api, {"Authorization": f"bearer  {token}"}),
    "for a page": lambda api, token: get(api, {"Accept": "text/html"}, token=token),
    "without a token": lambda api, token: get(api, {}),
    "without a token, for a page": lambda api, token: get(api, {"Accept": "text/html"}),
    "with a token that was changed": lambda api, token: get(
        api, {}, token=token[:-1] + ("A" if token[-1] != "A" else "B")
    ),
    "with half a token": lambda api, token: get(api, {}, token=token[:20]),
    "with another scheme": lambda api, token: get(api, {"Authorization": "Basic dXNlcg=="}),
    "as an operator": lambda api, token: get(api, {}, token=api.operator),
    "to enrol": lambda api, token: get(api, {}, token=api.enrolment),
    "by a token of another epoch": lambda api, token: get(api, {}, token=api.keys.mint(UserToken(0, 1))),
    "by one who is not there": lambda api, token: get(api, {}, token=api.keys.mint(UserToken(10**6, 0))),
    "by head alone": lambda api, token: api.request("HEAD", ME, token=token),
    "to change it": lambda api, token: api.request("POST", ME, token=token),
    "a little beside it": lambda api, token: api.request("GET", ME + "/", token=token),
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """One service for all: each test enrols a user of its own."""
    with Service(tmp_path_factory.mktemp("accounts") / "data", cap="9") as service:
        service.enrol(1)
        yield service


async def passes_on(path: AccountPath, scope: Any, receive: Any, send: Any) -> None:
    """The fast path, switched off."""
    await path._app(scope, receive, send)


def both(api: Service, ask: Ask, token: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What the fast path makes of it, and the endpoint."""
    fast = seen(ask(api, token))
    with monkeypatch.context() as patch:
        patch.setattr(AccountPath, "__call__", passes_on)
        slow = seen(ask(api, token))
    return fast, slow


def seen(response: httpx.Response) -> Any:
    return response.status_code, response.headers.multi_items(), response.content


@pytest.mark.parametrize("asked", ASKED)
def test_both_ways_give_the_same_answer(api: Service, asked: str, monkeypatch: pytest.MonkeyPatch) -> None:
    [token] = api.enrol(1)
    fast, slow = both(api, ASKED[asked], token, monkeypatch)

    assert fast == slow


def test_both_ways_tell_all_charges(api: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    [token] = api.enrol(1)
    for count in range(1, 4):
        round_ = api.study()["rounds"][0]["id"]
        assert api.report(round_, token, 1).status_code == 200
        fast, slow = both(api, ASKED["plainly"], token, monkeypatch)

        assert fast == slow
        assert fast[2].count(b'"round"') == count


def test_both_ways_refuse_a_token_that_was_renewed(api: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    [token] = api.enrol(1)
    user = get(api, {}, token=token).json()["user"]
    assert api.post(f"/v1/users/{user}/token", token=token).status_code == 200
    fast, slow = both(api, ASKED["plainly"], token, monkeypatch)

    assert fast == slow
    assert fast[0] == 401


@pytest.mark.parametrize("error", [RuntimeError("planted"), MemoryError()])
def test_what_goes_wrong_is_said_by_the_endpoint(
    api: Service, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the fast path meets an error of its own, the endpoint is asked."""
    [token] = api.enrol(1)

    def fails(*_: object) -> bytes:
        raise error

    monkeypatch.setattr(accounts, "written", fails)
    assert get(api, {}, token=token).json()["charges"] == []


def test_a_difference_between_the_ways_is_found(api: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a document that is written another way, and one who takes any token."""
    [token] = api.enrol(1)
    with monkeypatch.context() as patch:
        patch.setattr(accounts, "written", lambda *_: b'{"user": 0}')
        fast, slow = both(api, ASKED["plainly"], token, monkeypatch)
        assert fast != slow
    monkeypatch.setattr(UserToken, "require_epoch", lambda *_: None)
    assert get(api, {}, token=api.keys.mint(UserToken(0, 1))).status_code == 200


def test_the_fast_path_is_taken(api: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    [token] = api.enrol(1)

    async def nobody(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("askance_server.api.gate.TokenGate.check", nobody)
    assert get(api, {}, token=token).status_code == 200
