"""The event loop stays free: no turn of it takes long, and nothing on it waits for the ledger.

No clock decides here. How long a turn takes is the CPU time that the loop's own thread spent in it, which others on the
machine do not lengthen; that nothing waits is seen by the thread in which the ledger is called.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from askance_protocol.reports import ReportBatch, encode_columns, encode_raw
from askance_server import aggregator, app
from askance_server.driver import Driver
from askance_server.ledger import open_ledger
from askance_server.workers import Workers
from benchmarks.responsiveness import frozen
from tests.harness.marks import SECONDS
from tests.harness.servers import Json, ServerProcess, Service, bearer, serving

pytest_plugins = ("tests.harness.postgres",)

MOST = 0.25
"""Seconds of its CPU time that one turn of the loop may take."""


# --------------------------------------------------------------------------------------------------- turns of the loop


@contextmanager
def turns() -> Generator[list[float]]:
    """The CPU time of each callback that the event loop of this thread runs meanwhile."""
    seen: list[float] = []
    run: Callable[[asyncio.Handle], None] = asyncio.Handle._run  # pyright: ignore[reportAttributeAccessIssue] - there is no public place to look from

    def timed(handle: asyncio.Handle) -> None:
        begin = time.thread_time()
        run(handle)
        seen.append(time.thread_time() - begin)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", timed)
        yield seen


def batch(users: int) -> ReportBatch:
    return ReportBatch(np.arange(users, dtype=np.uint64), np.zeros(users, np.uint32), simulated=True)


def delivered(api: Service, study: Json, body: bytes, kind: str) -> None:
    path = f"/v1/rounds/{study['rounds'][0]['id']}/batches"
    answer = api.post(path, token=study["gateway_token"], content=body, headers={"Content-Type": kind})
    assert answer.status_code == 200, answer.text


def everything_long(api: Service, users: int) -> None:
    """Whatever takes long: large plans, large documents, many reports, many users."""
    assert api.post("/v1/enrolments", token=api.enrolment, json={"users": users}).status_code == 201
    assert len(api.enrol(10_000)) == 10_000
    for strategy, d in (("conjunction", 4096), ("parity", 12)):
        study = api.study(strategy, {"d": d, "users": "all"}, simulated=True)
        parts = study["rounds"][0]["round"]["parts"]
        assert sum(part["query"].get("cells", 1) for part in parts) == 4096
        round_ = study["rounds"][0]["id"]
        for path in (f"/v1/studies/{study['id']}", f"/v1/studies/{study['id']}/bulletin", f"/v1/rounds/{round_}"):
            assert api.get(path).status_code == 200
    counted = api.study(simulated=True)
    delivered(api, counted, encode_raw(batch(users // 2)), "application/octet-stream")
    delivered(api, counted, encode_columns(batch(users)), "application/json")
    assert api.post(f"/v1/rounds/{counted['rounds'][0]['id']}/close", token=api.operator).status_code in {200, 409}
    assert api.get(f"/v1/rounds/{counted['rounds'][0]['id']}/tally").json()["received"] == users
    for path in ("/v1/studies", "/metrics", "/readyz", "/healthz", f"/v1/studies/{counted['id']}/result"):
        assert api.get(path).status_code == 200


@pytest.mark.slow
def test_no_turn_of_the_loop_takes_long(tmp_path: Path) -> None:
    users = 10_000_000 if os.environ.get("ASKANCE_TORTURE") else 200_000
    with Service(tmp_path / "data", cap=10**9, open_limit=10**9) as api, turns() as seen:
        for first in range(0, users, 1_000_000):
            everything_long(api, min(users - first, 1_000_000))

    assert len(seen) > 100
    assert max(seen) < MOST


@pytest.mark.slow
def test_a_turn_that_takes_long_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a plan is made on the loop, as it was in version 0.1."""

    async def here(_: Workers, work: Callable[[], Any]) -> Any:
        return work()

    monkeypatch.setattr(Workers, "run", here)
    with Service(tmp_path / "data") as api, turns() as seen:
        api.enrol(10)
        api.study("conjunction", {"d": 4096, "users": "all"}, simulated=True)

    assert max(seen) > MOST


# ------------------------------------------------------------------------------- who calls the ledger, in which thread


class Seen:
    """A ledger, and the methods of it that a thread called."""

    def __init__(self, ledger: Any) -> None:
        self.ledger = ledger
        self.calls: list[tuple[int, str]] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.ledger, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append((threading.get_ident(), name))
            return found(*arguments, **named)

        return call

    def by(self, thread: int) -> set[str]:
        """The methods that this thread called."""
        return {name for caller, name in self.calls if caller == thread}


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, Seen]]:
    """A service, and its ledger that is watched."""
    watched: list[Seen] = []

    def watch(database: str) -> Any:
        watched.append(Seen(open_ledger(database)))
        return watched[0]

    monkeypatch.setattr(app, "open_ledger", watch)
    # Each question whether it is ready looks: what was written before is not enough.
    monkeypatch.setattr(aggregator, "READY_FOR", 0.0)
    with Service(tmp_path / "data") as api:
        yield api, watched[0]


def test_nothing_on_the_loop_calls_the_ledger(seen: tuple[Service, Seen]) -> None:
    api, ledger = seen
    tokens = api.enrol(6)
    study = api.study()
    round_ = study["rounds"][0]["id"]
    for token in tokens[:5]:
        assert api.report(round_, token).status_code == 200
    assert api.get("/v1/me", token=tokens[0]).json()["spent_micro_epsilon"] > 0
    assert api.post("/v1/users/5/token", token=api.operator).status_code == 200
    assert api.report(round_, tokens[5]).status_code == 401
    for path in ("", "/bulletin", "/result"):
        assert api.get(f"/v1/studies/{study['id']}{path}").status_code == 200
    assert api.get(f"/v1/rounds/{round_}").status_code == 200
    assert api.post(f"/v1/rounds/{round_}/close", token=api.operator).status_code == 200
    assert api.get(f"/v1/rounds/{round_}/tally").json()["received"] == 5
    assert len(api.get(f"/v1/studies/{study['id']}/events").text) > 100
    other = api.study(simulated=True)
    assert api.batch(other["rounds"][0]["id"], other["gateway_token"], [0, 1], [0, 1]).status_code == 200
    assert api.post(f"/v1/studies/{other['id']}/cancel", token=api.operator).status_code == 200
    for path in ("/v1/studies", "/metrics", "/readyz", "/healthz", "/openapi.json"):
        assert api.get(path).status_code == 200

    mine = threading.get_ident()  # The service runs its loop in this thread.
    assert ledger.by(mine) == set()
    called = {name for _, name in ledger.calls}
    assert called >= {
        "enrol",
        "append",
        "charge",
        "epochs",
        "tallies",
        "standing",
        "revoke",
        "census",
        "check_writable",
    }

    # The control: one look on the loop.
    api.app.state.aggregator.ledger.enrolled()
    assert ledger.by(mine) == {"enrolled"}


def test_healthz_asks_nothing_of_the_ledger(seen: tuple[Service, Seen]) -> None:
    api, ledger = seen
    assert api.get("/readyz").status_code == 200  # The start has been gone through by now.
    before = list(ledger.calls)

    assert api.get("/healthz").status_code == 200

    assert ledger.calls == before
    # The control: the other question is about the ledger.
    assert api.get("/readyz").status_code == 200
    assert [name for _, name in ledger.calls[len(before) :]] == ["check_writable"]


def test_reports_that_come_at_once_share_a_preparation_and_a_look_at_their_tokens(
    seen: tuple[Service, Seen],
) -> None:
    api, ledger = seen
    tokens = api.enrol(20)
    round_ = api.study()["rounds"][0]["id"]
    ledger.calls.clear()

    answers = api.together(
        [("POST", f"/v1/rounds/{round_}/reports", token, {"json": {"outcome": 1}}) for token in tokens]
    )

    assert {answer.status_code for answer in answers} == {200}
    names = [name for _, name in ledger.calls]
    assert names[: names.index("charge")].count("round") == 1
    # Whether tokens were revoked is looked up for a group, not for a report.
    assert names.count("epochs") == names.count("charge") < len(tokens)


# ------------------------------------------------------------------------------------------- a plan that does not end


def test_a_plan_that_does_not_end_holds_up_neither_others_nor_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    never, begun = threading.Event(), threading.Event()
    advance = Driver.advance

    def stuck(driver: Driver, study: str, now: int) -> Any:
        if threading.current_thread().name.startswith("askance-studies") and slow:
            begun.set()
            never.wait(SECONDS)
        return advance(driver, study, now)

    slow = False
    monkeypatch.setattr(Driver, "advance", stuck)
    with Service(tmp_path / "data") as api:
        tokens = api.enrol(3)
        round_ = api.study()["rounds"][0]["id"]
        slow = True

        async def meanwhile() -> list[int]:
            transport = httpx.ASGITransport(api.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://askance.test") as client:
                asked = {"title": "t", "strategy": "mean", "parameters": {"users": "all"}}
                creating = asyncio.create_task(
                    client.post("/v1/studies", json=asked, headers=bearer(api.operator), timeout=None)
                )
                while not begun.is_set():
                    await asyncio.sleep(0.01)
                report = await client.post(
                    f"/v1/rounds/{round_}/reports", json={"outcome": 1}, headers=bearer(tokens[0])
                )
                told = [report.status_code, *[(await client.get(path)).status_code for path in ("/healthz", "/readyz")]]
                assert not creating.done()
                creating.cancel()
                return told

        told = api._runner.run(meanwhile())  # pyright: ignore[reportPrivateUsage] - requests that are not waited for
    # The service has been left: its ledger is closed, and the plan still goes on.
    assert told == [200, 200, 200]
    assert not never.is_set()
    never.set()


# ------------------------------------------------------------------------------------------------ as a process: stops


def ended_by_force(directory: Path) -> bool:
    """Whether the web server had to end requests that did not end by themselves."""
    return "timeout graceful shutdown exceeded" in (directory.parent / f"{directory.name}.log").read_text("utf-8")


def test_a_stop_ends_streams_of_events_and_connections_that_are_kept(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "data") as server,
        httpx.Client(base_url=server.url, trust_env=False, timeout=SECONDS) as client,
    ):
        server.enrol(3)
        path = f"/v1/studies/{server.study()['id']}/events"
        streams = [client.build_request("GET", path) for _ in range(20)]
        open_ = [client.send(request, stream=True) for request in streams]
        lines = [stream.iter_lines() for stream in open_]
        assert all("event: study" in [next(each), next(each), next(each)] for each in lines)
        idle = [httpx.Client(base_url=server.url, trust_env=False) for _ in range(20)]
        assert all(each.get("/healthz").status_code == 200 for each in idle)

        code = server.stop()

        # Each stream came to its end: it was not cut off.
        rest = ["".join(each) for each in lines]
        for each in [*open_, *idle]:
            each.close()
    assert code == 0
    assert all("received" in each for each in rest)
    assert not ended_by_force(server.directory)


def test_the_control_a_server_that_does_not_end_its_streams_is_stopped_by_force(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    plant = "from askance_server.aggregator import Aggregator; Aggregator.end_streams = lambda self: None"
    place = server._command.index("-c") + 1
    server._command[place] = f"{plant}; {server._command[place]}"
    server.start()
    try:
        with httpx.Client(base_url=server.url, trust_env=False, timeout=SECONDS) as client:
            server.enrol(3)
            request = client.build_request("GET", f"/v1/studies/{server.study()['id']}/events")
            stream = client.send(request, stream=True)
            lines = stream.iter_lines()
            assert next(lines) == "event: study"
            server.stop()
            # It was cut off.
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
    finally:
        server.stop()
    assert ended_by_force(server.directory)


def test_a_database_that_is_frozen_silences_nothing_but_itself(database: str, tmp_path: Path) -> None:
    """The control is the report: it is not answered, so the database is frozen indeed."""
    options = ("--database", database, "--data-directory", str(tmp_path / "data"))
    with serving(tmp_path / "data", *options) as server:
        tokens = server.enrol(3)
        round_ = server.study()["rounds"][0]["id"]
        assert server.report(round_, tokens[0]).status_code == 200
        # What was written a moment ago says enough: after it, the server looks, by a connection that is frozen then.
        time.sleep(aggregator.READY_FOR)
        assert server.get("/readyz").status_code == 200
        with frozen(database):
            with pytest.raises(httpx.ReadTimeout):
                server.report(round_, tokens[1], timeout=1)
            time.sleep(aggregator.READY_FOR)
            assert [server.get("/healthz").status_code for _ in range(20)] == [200] * 20
            assert server.get("/readyz").status_code == 503
        assert server.report(round_, tokens[1]).status_code == 200
        assert server.get("/readyz").status_code == 200
        assert server.get("/v1/me", token=tokens[1]).json()["spent_micro_epsilon"] > 0

        with frozen(database):
            with pytest.raises(httpx.ReadTimeout):
                server.report(round_, tokens[2], timeout=1)
            code = server.stop()

    assert code == 0
    assert "does not answer: the server stops without closing it" in (tmp_path / "data.log").read_text("utf-8")
