"""What a stranger costs, counted in work and not in time: estimates, rows and looks; and where a stranger waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest

from askance_protocol.reports import ReportBatch, encode_raw
from askance_protocol.tally import Tally
from askance_server import turns
from askance_server.api.connections import EXTENSION
from askance_server.core import binomial, estimators
from askance_server.dashboard import routes, wall, wall_pages
from askance_server.dashboard import study as study_pages
from askance_server.ledger.base import Ledger
from askance_server.turns import FullError, Line, Turns
from tests.harness.marks import SECONDS
from tests.harness.servers import Json, Service, is_problem

CELLS = 4096
USERS = 2000
PAGES = ("/wall?study={}", "/wall/now?study={}", "/studies/{}", "/v1/studies/{}/result")


def ended(service: Service, strategy: str, **parameters: int) -> Json:
    """A study that has ended, of which everybody has answered."""
    assert service.post("/v1/enrolments", token=service.enrolment, json={"users": USERS}).status_code == 201
    study = service.study(strategy, {"users": "all", **parameters}, simulated=True)
    users = np.arange(USERS, dtype=np.uint64)
    body = encode_raw(ReportBatch(users, (users % 2).astype(np.uint32), simulated=True))
    path = f"/v1/rounds/{study['rounds'][0]['id']}/batches"
    answer = service.post(
        path, token=study["gateway_token"], content=body, headers={"Content-Type": "application/octet-stream"}
    )
    assert answer.status_code == 200, answer.text
    assert service.get(f"/v1/studies/{study['id']}").json()["state"] == "finished"
    return study


@pytest.fixture
def service(tmp_path: Path) -> Generator[Service]:
    with Service(tmp_path / "data", cap="10") as made:
        yield made


def counting(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[None]:
    """One entry for each call of a function from now on."""
    calls, found = list[None](), getattr(where, name)

    def call(*arguments: Any, **named: Any) -> Any:
        calls.append(None)
        return found(*arguments, **named)

    monkeypatch.setattr(where, name, call)
    return calls


def test_a_page_makes_no_more_of_a_large_study_than_it_shows(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    study = ended(service, "histogram", cells=CELLS)["id"]
    rows = counting(monkeypatch, wall, "ToldNumber")
    drawn = counting(monkeypatch, study_pages, "_estimate_row")
    sums, received = list[None](), Tally.received.fget
    assert received is not None
    monkeypatch.setattr(Tally, "received", property(lambda tally: (sums.append(None), received(tally))[1]))

    page = service.get(f"/wall?study={study}").text
    other = service.get(f"/studies/{study}").text

    assert 0 < len(rows) <= 2 * (wall.MOST_SHOWN + 2)
    assert len(drawn) <= study_pages.MOST_ROWS
    # A tally has as many rows as the query has cells: it is not added up for each of them.
    assert 0 < len(sums) < 30
    assert page.count('<th scope="row"') == wall.MOST_SHOWN
    assert f"and {CELLS - wall.MOST_SHOWN:,} more" in page
    assert f"and {CELLS - study_pages.MOST_ROWS:,} more" in other
    assert len(page) + len(other) < 100_000


def test_control_a_wall_without_an_end_makes_a_row_of_each_cell(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = ended(service, "histogram", cells=64)["id"]
    monkeypatch.setattr(wall_pages, "MOST_SHOWN", CELLS)
    rows = counting(monkeypatch, wall, "ToldNumber")

    assert service.get(f"/wall?study={study}").text.count('<th scope="row"') == 64
    assert len(rows) >= 64


@pytest.mark.parametrize("most_bytes", [None, 0], ids=["kept", "control: nothing is kept"])
def test_of_an_ended_study_a_page_is_made_once_whatever_name_the_server_is_asked_by(
    service: Service, monkeypatch: pytest.MonkeyPatch, most_bytes: int | None
) -> None:
    study = ended(service, "histogram", cells=64)["id"]
    aggregator = service.app.state.aggregator
    if most_bytes is not None:
        aggregator.answers.most_bytes = most_bytes
    made = counting(monkeypatch, wall_pages, "wall_of")
    for number in range(20):
        for page in PAGES:
            answer = service.get(page.format(study), headers={"Host": f"{number}.example"})
            assert answer.status_code == 200
            assert "example" not in answer.text
    remembered = len(aggregator.answers._known)  # pyright: ignore[reportPrivateUsage] - there is no public way to ask

    assert len(made) == (2 if most_bytes is None else 40)
    assert remembered < 10


def test_intervals_of_many_questions_are_found_together(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    study = ended(service, "conjunction", d=256)
    found = counting(monkeypatch, binomial, "proportion")
    tally = service.get(f"/v1/rounds/{study['rounds'][0]['id']}/tally").json()
    result = service.get(f"/v1/studies/{study['id']}/result").json()

    assert len(result["estimates"]) == len(tally["estimates"]) == 256
    assert len(found) == 2
    # The control: one by one they are the same to the last digits, and 256 times the work.
    parts = service.app.state.aggregator.ledger.round(study["rounds"][0]["id"]).parts
    apart = [estimators.estimate(part, Tally.of(rows)) for part, rows in zip(parts, tally["tallies"], strict=True)]
    assert len(found) == 2 + 256
    for one, told, named in zip(apart, tally["estimates"], result["estimates"], strict=True):
        assert [told["low"][0], told["high"][0]] == pytest.approx([one.low[0], one.high[0]], rel=1e-12, abs=1e-12)
        assert [named["low"], named["high"]] == pytest.approx([one.low[0], one.high[0]], rel=1e-12, abs=1e-12)


def test_the_budget_asks_nothing_of_each_user(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.enrol(50)
    ledger: Ledger = service.app.state.aggregator.ledger
    each, counted = counting(monkeypatch, ledger, "affording"), counting(monkeypatch, ledger, "able")

    asked = [("GET", "/budget", None, {})] * 50
    assert {answer.status_code for answer in service.together(asked)} == {200}

    assert (len(each), len(counted)) == (0, 1)
    assert ledger.affording(range(50), 1).all()
    assert len(each) == 1, "the control: a look at each user is seen"


# ------------------------------------------------------------------------------------------------------------- turns


def run(main: Callable[[Line], Any], line: type[Line] = Line) -> Any:
    async def inside() -> Any:
        return await asyncio.wait_for(main(line()), SECONDS)

    return asyncio.run(inside())


class NoLine(Line):
    """The control: nobody waits."""

    async def turn(self, rank: float, *, other: bool, again: bool = False) -> None:
        """Begin as it comes."""


def test_requests_are_begun_one_by_one_and_the_newest_peer_first() -> None:
    async def main(line: Line) -> list[tuple[int, float]]:
        began, now, over = list[tuple[int, float]](), 0, False

        async def one(rank: float) -> None:
            await line.turn(rank, other=False)
            began.append((now, rank))

        async def ticking() -> None:
            nonlocal now
            while not over:
                now += 1
                await asyncio.sleep(0)

        ticks = asyncio.create_task(ticking())
        await asyncio.gather(*(one(rank) for rank in (5.0, 4.0, 3.0, 0.0)))
        over = True
        await ticks
        return began

    began, together = run(main), run(main, NoLine)

    assert len({tick for tick, _ in began}) == len(began)
    assert [rank for _, rank in began] == [5.0, 0.0, 3.0, 4.0], "the first came when nobody waited"
    assert len({tick for tick, _ in together}) == 1
    assert [rank for _, rank in together] == [5.0, 4.0, 3.0, 0.0]


def test_no_more_than_so_many_others_are_under_way_and_wait() -> None:
    async def main(line: Line) -> tuple[int, int, int]:
        for _ in range(turns.AT_ONCE):
            await line.turn(0.0, other=True)
        waiting = [asyncio.create_task(line.turn(1.0, other=True)) for _ in range(turns.MOST_WAITING)]
        await asyncio.sleep(0.01)
        with pytest.raises(FullError):
            await line.turn(0.0, other=True)
        most, begun = line.under_way, sum(each.done() for each in waiting)
        # What devices need is begun all the same.
        await line.turn(0.0, other=False)
        line.leave()
        await asyncio.sleep(0.01)
        after = sum(each.done() for each in waiting)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return most, begun, after

    assert run(main) == (turns.AT_ONCE, 0, 1)


def test_one_who_is_gone_before_the_turn_leaves_no_place_taken() -> None:
    async def main(line: Line) -> int:
        for _ in range(turns.AT_ONCE):
            await line.turn(0.0, other=True)
        gone = [asyncio.create_task(line.turn(0.0, other=True)) for _ in range(5)]
        await asyncio.sleep(0)
        for each in gone:
            each.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        for _ in range(turns.AT_ONCE):
            line.leave()
        await line.turn(0.0, other=True)
        return line.under_way

    assert run(main) == 1


@dataclass
class Peer:
    """A connection, as far as a request waits for its turn on it."""

    gone: bool
    trusted: bool = False
    let_in: float = 0.0

    @property
    def transport(self) -> Peer:
        return self

    def is_closing(self) -> bool:
        return self.gone


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "control: still there"])
def test_a_request_whose_peer_has_gone_is_not_begun(*, gone: bool) -> None:
    begun = list[str]()

    async def application(scope: Any, _receive: Any, _send: Any) -> None:
        begun.append(scope["path"])

    async def main() -> None:
        scope = {"type": "http", "path": "/wall", "method": "GET", "extensions": {EXTENSION: Peer(gone)}}
        asked = Turns(application)
        for _ in range(turns.AT_ONCE + 1):
            await asked(dict(scope), cast("Any", None), cast("Any", None))

    asyncio.run(asyncio.wait_for(main(), SECONDS))

    assert begun == ([] if gone else ["/wall"] * (turns.AT_ONCE + 1))


@pytest.mark.parametrize("held", [True, False], ids=["in turns", "control: without turns"])
def test_beside_held_pages_devices_are_answered_and_strangers_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, held: bool
) -> None:
    """Each page waits for good. The control passes all on: then nobody is refused, however many come."""
    never = threading.Event()
    monkeypatch.setattr(turns, "REFUSED_AFTER", 0.0)
    monkeypatch.setattr(turns, "MOST_WAITING", 4)
    monkeypatch.setattr(routes, "separation_page", lambda *_: b"%d" % never.wait(SECONDS))
    if not held:

        async def passed(self: Any, *message: Any) -> None:
            await self._app(*message)

        monkeypatch.setattr(Turns, "__call__", passed)
    with Service(tmp_path / "data", cap="10") as service:
        [token] = service.enrol(1)
        study = service.study()
        round_ = study["rounds"][0]["id"]

        async def meanwhile() -> tuple[list[int], list[httpx.Response]]:
            transport = httpx.ASGITransport(service.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://askance.test", timeout=None) as client:
                pages = list[asyncio.Task[httpx.Response]]()
                for number in range(turns.AT_ONCE + 4 + 3):
                    asked = client.get(f"/separation?d={number}", headers={"Accept": "text/html"})
                    pages.append(asyncio.create_task(asked))
                    await asyncio.sleep(20 * turns.PAUSE)
                documents = asyncio.create_task(client.get(f"/v1/studies/{study['id']}/result"))
                if held:
                    # However slow the machine is: those for whom there is no place are told so.
                    while sum(each.done() for each in pages) < 3:
                        await asyncio.sleep(0.01)
                done, _ = await asyncio.wait(pages, timeout=0.1)
                bearer = {"Authorization": f"Bearer {token}"}
                needed = [
                    await asyncio.wait_for(asked, SECONDS)
                    for asked in (
                        client.get(f"/v1/studies/{study['id']}/bulletin"),
                        client.get(f"/v1/rounds/{round_}"),
                        client.get("/v1/me", headers=bearer),
                        client.post(f"/v1/rounds/{round_}/reports", headers=bearer, json={"outcome": 1}),
                        client.get("/healthz"),
                    )
                ]
                refused = [each.result() for each in done]
                if held:
                    refused.append(await documents)
                never.set()
                for each in (*pages, documents):
                    each.cancel()
                await asyncio.gather(*pages, documents, return_exceptions=True)
                return [answer.status_code for answer in needed], refused

        needed, refused = service._runner.run(meanwhile())  # pyright: ignore[reportPrivateUsage] - requests beside others
    assert needed == [200] * 5
    assert [answer.status_code for answer in refused] == ([503] * 4 if held else [])
    assert all(answer.headers["retry-after"] == "1" for answer in refused)
    if held:
        assert all(answer.headers["content-type"].startswith("text/html") for answer in refused[:3])
        assert is_problem(refused[3], "not-ready")
