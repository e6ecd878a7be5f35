"""Raw batches by their fast path: the same answers, errors and headers as the endpoint gives, and the same tally."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

import httpx
import numpy as np
import pytest

from askance_protocol.reports import ReportBatch, encode_raw
from askance_server.api import batches
from askance_server.api.batches import BatchPath
from askance_server.auth import AuthError, GatewayToken, Keys
from tests.harness.servers import Service

NOBODY: Final = "0" * 64
RAW: Final = {"Content-Type": "application/octet-stream"}
USERS: Final = 8
"""Simulated users of each test; the first user of the service is a real one."""

Told = tuple[int, list[tuple[str, str]], bytes]


def raw(users: list[int], outcomes: list[int]) -> bytes:
    return encode_raw(ReportBatch(np.array(users, np.uint64), np.array(outcomes, np.uint32), simulated=True))


class Round:
    """An open round of a study of its own, and how a batch is sent to it."""

    def __init__(self, api: Service) -> None:
        self.api = api
        study = api.study(simulated=True, parameters={"users": "all", "tolerance": "0.3"})
        self.study, self.id, self.token = study["id"], study["rounds"][0]["id"], study["gateway_token"]
        self.path = f"/v1/rounds/{self.id}/batches"

    def post(self, body: bytes, *, path: str = "", token: str | None = "", **headers: str) -> Told:
        """What is answered; without words of its own, to a good request."""
        given = RAW | {name.replace("_", "-"): value for name, value in headers.items()}
        with_token = {} if token is None else {"token": token or self.token}
        answer = self.api.post(path or self.path, content=body, headers=given, **with_token)
        return answer.status_code, answer.headers.multi_items(), answer.content

    def counts(self) -> Any:
        return self.api.get(f"/v1/rounds/{self.id}").json()["received"]

    def minted(self, first: int, count: int) -> str:
        return self.api.keys.mint(GatewayToken(self.study, first, count))


def _limit(api: Service) -> int:
    return api.app.state.aggregator.settings.body_limit


GOOD: Final = raw([1, 2, 3], [1, 0, 1])
SENT: Final[Mapping[str, Callable[[Round], Told]]] = {
    "plainly": lambda r: r.post(GOOD),
    "nothing": lambda r: r.post(raw([], [])),
    "of all kinds": lambda r: r.post(raw([1, 2, 1, 2, 3, 4, 99], [1, 0, 1, 1, 2, 1, 0])),
    "of nobody who is there": lambda r: r.post(raw([98, 99], [1, 0])),
    "for a real user": lambda r: r.post(raw([1, 0], [1, 0])),
    "from elsewhere": lambda r: r.post(GOOD, Origin="https://elsewhere.test"),
    "for a page": lambda r: r.post(GOOD, Accept="text/html"),
    "of another version": lambda r: r.post(GOOD, Askance_Protocol="2"),
    "with a query": lambda r: r.post(GOOD, path=r.path + "?user=0"),
    "with a byte less": lambda r: r.post(GOOD[:-1]),
    "with a byte more": lambda r: r.post(GOOD + b"\0"),
    "without a byte": lambda r: r.post(b""),
    "of another form": lambda r: r.post(b"sekret" * 10),
    "of a later form": lambda r: r.post(b"ASKB\2" + GOOD[5:]),
    "longer than any": lambda r: r.post(b"x" * (_limit(r.api) + 1)),
    "as another kind": lambda r: r.post(GOOD, Content_Type="text/plain"),
    "as JSON": lambda r: r.post(GOOD, Content_Type="application/json"),
    "with a parameter": lambda r: r.post(GOOD, Content_Type="application/octet-stream; x=1"),
    "without a token": lambda r: r.post(GOOD, token=None),
    "with half a token": lambda r: r.post(GOOD, token=r.token[:-5]),
    "as an operator": lambda r: r.post(GOOD, token=r.api.operator),
    "to enrol": lambda r: r.post(GOOD, token=r.api.enrolment),
    "for others": lambda r: r.post(GOOD, token=r.minted(2, 2)),
    "for another study": lambda r: r.post(GOOD, token=Round(r.api).token),
    "to no round": lambda r: r.post(GOOD, path=f"/v1/rounds/{NOBODY}/batches"),
    "to no name": lambda r: r.post(GOOD, path="/v1/rounds/one/batches"),
}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """One service for all: each test has a round of its own."""
    with Service(tmp_path_factory.mktemp("batches") / "data", cap="90", raising=False) as service:
        for simulated, users in ((False, 1), (True, USERS)):
            asked = {"users": users, "simulated": simulated}
            assert service.post("/v1/enrolments", token=service.enrolment, json=asked).status_code == 201
        yield service


async def passes_on(path: BatchPath, scope: Any, receive: Any, send: Any) -> None:
    """The fast path, switched off."""
    await path._app(scope, receive, send)


def both(api: Service, sent: str, monkeypatch: pytest.MonkeyPatch) -> tuple[tuple[Told, Any], tuple[Told, Any]]:
    """What is answered and counted by the fast path, and by the endpoint."""
    fast, slow = Round(api), Round(api)
    quick = SENT[sent](fast), fast.counts()
    with monkeypatch.context() as patch:
        patch.setattr(BatchPath, "__call__", passes_on)
        return quick, (SENT[sent](slow), slow.counts())


@pytest.mark.parametrize("sent", SENT)
def test_both_ways_give_the_same_answer(api: Service, sent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fast, slow = both(api, sent, monkeypatch)

    assert fast == slow
    assert b"sekret" not in fast[0][2]


@pytest.mark.parametrize("error", [RuntimeError("planted"), MemoryError()])
def test_both_ways_say_the_same_of_an_error(api: Service, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(batches, "_spoken_for", fails)
    fast, slow = both(api, "plainly", monkeypatch)

    assert fast == slow
    assert fast[0][0] >= 500


def test_a_difference_between_the_ways_is_found(api: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a fast path that takes another kind, and keys that take any token."""
    with monkeypatch.context() as patch:
        patch.setattr(batches, "RAW", "text/plain")
        fast, slow = both(api, "as another kind", monkeypatch)
        assert fast != slow
    with monkeypatch.context() as patch:
        keys = api.app.state.aggregator.keys
        patch.setattr(keys, "gateway_token", lambda _: GatewayToken(NOBODY, 0, 9))
        patch.setattr(GatewayToken, "require", lambda *_, **__: None)
        fast, slow = both(api, "with half a token", monkeypatch)
        assert (fast[0][0], slow[0][0]) == (200, 401)


def test_the_fast_path_is_taken(api: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nobody(*_: object) -> None:
        raise AssertionError("the endpoint was asked")

    round_ = Round(api)
    monkeypatch.setattr(batches, "post_batch", nobody)
    taken = httpx.Response(200, content=round_.post(GOOD)[2])

    assert taken.json() == {"accepted": 3, "repeated": 0, "refused": {}, "first_refused": {}}


def test_a_token_that_was_refused_once_is_refused_again_and_a_good_one_is_remembered() -> None:
    keys = Keys(bytes(32))
    good = b"Bearer " + keys.mint(GatewayToken(NOBODY, 0, 9)).encode()
    bad = good[:-1] + (b"A" if good[-1:] != b"A" else b"B")
    for _ in range(3):
        assert keys.gateway_token(good) == GatewayToken(NOBODY, 0, 9)
        with pytest.raises(AuthError):
            keys.gateway_token(bad)
    assert keys.gateway_token.cache_info().currsize == 1
