"""What is new of a study: looked up once for all who follow it, and told to one after the other.

No clock decides here: pauses are counted, not waited for, and what is rendered or looked up is counted where it is.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import pytest

from askance_protocol.rounds import RoundState
from askance_server import feeds
from askance_server.api import events
from askance_server.dashboard import kept_pages, routes, wall_pages
from askance_server.feeds import LARGEST_KEPT, MOST_KEPT, TURNS, Feed, Feeds, Follower
from tests.harness.servers import Json, Service

STUDY: Final = "0" * 64
BROWSERS: Final = 300

Found = TypeVar("Found")


@dataclass(frozen=True)
class Page:
    """Something that is worked out."""

    number: int
    size: int = 100


class Playing:
    """A study that changes when it is told to; each look at it is counted."""

    def __init__(self) -> None:
        self.state, self.looks = 0, 0
        self.feeds = Feeds(self._look)

    async def _look(self, study: str) -> object:
        assert study == STUDY
        self.looks += 1
        return self.state

    @property
    def feed(self) -> Feed:
        feed = self.feeds.of(STUDY)
        assert feed is not None
        return feed

    async def change(self) -> None:
        """The study takes a step, and all that follows from it happens."""
        self.state += 1
        self.feeds.step(STUDY)
        await idle()


async def idle() -> None:
    """As many turns of the loop as anything here takes that waits for no time."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of a telling, which take one turn of the loop each."""
    taken, sleep = list[float](), asyncio.sleep

    async def counted(seconds: float) -> None:
        if seconds:
            taken.append(seconds)
        await sleep(0)

    monkeypatch.setattr(feeds.asyncio, "sleep", counted)
    return taken


def play(acts: Callable[[Playing], Awaitable[Found]]) -> Found:
    async def playing() -> Found:
        return await acts(Playing())

    return asyncio.run(playing())


@pytest.mark.usefixtures("pauses")
def test_one_look_tells_all_and_no_change_tells_nobody() -> None:
    async def acts(study: Playing) -> None:
        with study.feeds.follow(STUDY) as one, study.feeds.follow(STUDY) as other:
            await idle()
            assert (study.looks, one.told.is_set(), other.told.is_set()) == (1, True, True)
            one.told.clear()
            other.told.clear()
            study.feeds.step(STUDY)
            await idle()
            assert (study.looks, one.told.is_set(), other.told.is_set()) == (2, False, False)
            await study.change()
            assert (study.looks, one.told.is_set(), other.told.is_set()) == (3, True, True)
        assert study.feeds.of(STUDY) is None
        study.feeds.step(STUDY)
        await idle()
        assert study.looks == 3

    play(acts)


def told_at_a_time(followers: int, pauses: list[float]) -> list[int]:
    """How many are told between two pauses."""

    async def acts(study: Playing) -> list[int]:
        entered = [study.feeds.follow(STUDY) for _ in range(followers)]
        all_ = [each.__enter__() for each in entered]
        told, before = list[int](), 0
        while before < followers:
            await asyncio.sleep(0)
            now = sum(each.told.is_set() for each in all_)
            told += [now - before] if now > before else []
            before = now
        for each in entered:
            each.__exit__(None, None, None)
        return told

    pauses.clear()
    return play(acts)


@pytest.mark.parametrize("followers", [1, 2, TURNS, BROWSERS, 1000])
def test_hundreds_are_told_one_after_the_other_within_the_spread(followers: int, pauses: list[float]) -> None:
    told = told_at_a_time(followers, pauses)
    assert sum(told) == followers
    assert max(told) == -(-followers // TURNS)
    assert len(pauses) == len(told) - 1 < TURNS
    assert sum(pauses) <= feeds.SPREAD


def test_control_all_told_at_once_are_found(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once(self: Feed) -> None:
        self.tell()

    monkeypatch.setattr(Feed, "_tell_in_turns", at_once)
    assert told_at_a_time(BROWSERS, pauses) == [BROWSERS]


def test_what_changes_while_all_are_told_is_told_together(pauses: list[float]) -> None:
    """Of a hundred changes during a telling one more telling comes, so no stream is flooded."""

    async def acts(study: Playing) -> list[int]:
        entered = [study.feeds.follow(STUDY) for _ in range(BROWSERS)]
        all_ = [each.__enter__() for each in entered]
        times = [0] * BROWSERS
        for turn in range(1000):
            await asyncio.sleep(0)
            if turn < 100:
                study.state += 1
                study.feeds.step(STUDY)
            for number, each in enumerate(all_):
                if each.told.is_set():
                    times[number] += 1
                    each.told.clear()
        for each in entered:
            each.__exit__(None, None, None)
        return times

    assert set(play(acts)) == {2}


def test_the_same_question_is_worked_out_once_until_something_changes() -> None:
    async def acts(study: Playing) -> list[int]:
        worked = list[int]()

        async def work() -> Page:
            worked.append(study.state)
            await asyncio.sleep(0)
            return Page(study.state)

        with study.feeds.follow(STUDY):
            await idle()
            for _ in range(3):
                found = await asyncio.gather(*(study.feed.once(("page",), work) for _ in range(BROWSERS)))
                assert {each.number for each in found} == {study.state}
            assert study.feed.kept(("page",)) == Page(0)
            await study.change()
            assert study.feed.kept(("page",)) is None
            await asyncio.gather(*(study.feed.once(("page",), work) for _ in range(BROWSERS)))
        return worked

    assert play(acts) == [0, 1]


def test_no_error_and_nothing_large_is_kept_and_not_more_than_a_few() -> None:
    async def acts(study: Playing) -> None:
        async def fail() -> Page:
            raise ValueError(STUDY)

        async def large() -> Page:
            return Page(0, LARGEST_KEPT + 1)

        async def small() -> Page:
            return Page(0, LARGEST_KEPT)

        with study.feeds.follow(STUDY):
            await idle()
            with pytest.raises(ValueError, match=STUDY):
                await study.feed.once(("fails",), fail)
            assert (await study.feed.once(("large",), large)).size > LARGEST_KEPT
            await idle()
            assert study.feed.kept(("fails",)) is study.feed.kept(("large",)) is None
            for number in range(2 * MOST_KEPT):
                await study.feed.once((str(number),), small)
            kept = [study.feed.kept((str(number),)) is not None for number in range(2 * MOST_KEPT)]
            assert kept == [False] * MOST_KEPT + [True] * MOST_KEPT

    play(acts)


def test_a_look_that_fails_is_told_so_that_each_says_it_herself() -> None:
    async def acts(study: Playing) -> None:
        async def broken(study: str) -> object:
            raise OSError(study)

        study.feeds = Feeds(broken)
        with study.feeds.follow(STUDY) as one:
            await idle()
            assert one.told.is_set()

    play(acts)


def test_at_the_end_all_are_told_at_once() -> None:
    async def acts(study: Playing) -> None:
        with study.feeds.follow(STUDY) as one:
            await idle()
            one.told.clear()
            study.feeds.end()
            assert one.told.is_set()

    play(acts)


# --------------------------------------------------------------------------------------------------- pages and streams


@pytest.fixture
def api(tmp_path: Path) -> Generator[Service]:
    with Service(tmp_path / "data", cap="1") as service:
        yield service


def live(api: Service, users: int = 60) -> tuple[Json, list[str]]:
    tokens = api.enrol(users)
    asked = {"title": "A room", "strategy": "mean", "parameters": {"users": "all"}, "live": 10}
    made = api.post("/v1/studies", token=api.operator, json=asked)
    return made.json(), tokens


PAGES: Final = {"wall": ("/wall/now?study={}", wall_pages, "wall_of"), "study": ("/studies/{}", routes, "study_page")}


def rendered(api: Service, page: str, monkeypatch: pytest.MonkeyPatch, *, followed: bool = True) -> list[int]:
    """How often a page is rendered for 300 who ask for it one after the other, after each of three steps of the study.

    One after the other, because those who ask while it is being rendered share it anyway.
    """
    study, tokens = live(api)
    path, module, name = PAGES[page]
    renders, found = list[int](), getattr(module, name)
    count = 0

    def counted(*given: Any) -> Any:
        nonlocal count
        count += 1
        return found(*given)

    monkeypatch.setattr(module, name, counted)
    aggregator, place = api.app.state.aggregator, path.format(study["id"])

    async def look(follower: Follower | None, token: str) -> None:
        nonlocal count
        await api._send("POST", f"/v1/rounds/{study['rounds'][0]['id']}/reports", token, {"json": {"outcome": 1}})
        if follower is not None:
            follower.told.clear()
            aggregator.feeds.step(study["id"])
            await follower.told.wait()
        count = 0
        answers = [await api._send("GET", place, None, {}) for _ in range(BROWSERS)]
        assert {answer.status_code for answer in answers} == {200}
        assert follower is None or len({answer.content for answer in answers}) == 1
        tag = {"If-None-Match": answers[-1].headers["etag"]}
        again = await api._send("GET", place, None, {"headers": tag})
        assert follower is None or (again.status_code, again.content) == (304, b"")
        renders.append(count)

    async def looks() -> None:
        # Steps are taken here, and by no clock.
        aggregator._ticker.cancel()
        if not followed:
            for token in tokens[:3]:
                await look(None, token)
            return
        with aggregator.feeds.follow(study["id"]) as follower:
            await follower.told.wait()
            for token in tokens[:3]:
                await look(follower, token)

    api._runner.run(looks())
    return renders


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_a_study_that_is_followed_is_rendered_once_for_each_change(
    api: Service, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rendered(api, page, monkeypatch) == [1, 1, 1]


@pytest.mark.parametrize("page", PAGES)
def test_control_a_page_that_is_rendered_for_each_browser_is_found(
    api: Service, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is where nobody follows: then each gets the newest there is."""
    assert rendered(api, page, monkeypatch, followed=False) == [BROWSERS + 1] * 3


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_is_kept_is_answered_as_the_application_does(
    api: Service, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, _ = live(api)
    place, passed = PAGES[page][0].format(study["id"]), list[bool]()
    kept = kept_pages._kept

    def noted(scope: Any) -> Any:
        answer = kept(scope)
        passed.append(answer is None)
        return answer

    monkeypatch.setattr(kept_pages, "_kept", noted)
    same: dict[str, dict[str, str]] = {
        "plain": {},
        "with a tag": {"If-None-Match": '"another"'},
        "another version": {"Askance-Protocol": "2"},
        "a body": {"Content-Length": "0"},
    }

    async def looks() -> None:
        api.app.state.aggregator._ticker.cancel()
        with api.app.state.aggregator.feeds.follow(study["id"]) as follower:
            await follower.told.wait()
            first = await api._send("GET", place, None, {})
            for headers in (*same.values(), {"If-None-Match": first.headers["etag"]}):
                answers = []
                for fast in (True, False):
                    with pytest.MonkeyPatch.context() as patch:
                        if not fast:
                            patch.setattr(kept_pages, "_question", lambda path, query: None)
                        answers.append(await api._send("GET", place, None, {"headers": headers}))
                one, other = answers
                assert one.status_code == other.status_code
                assert one.content == other.content
                assert sorted(one.headers.items()) == sorted(other.headers.items())

    api._runner.run(looks())
    assert passed == [True, False, True, False, True, True, True, True, True, False, True]


def looked_up(api: Service, streams: int, monkeypatch: pytest.MonkeyPatch) -> tuple[int, set[bytes]]:
    """How often news are looked up for so many streams, which all begin and hear of one report; and what they say."""
    study, tokens = live(api)
    found, aggregator, count = events.news_of, api.app.state.aggregator, 0

    def counted(*given: Any) -> Any:
        nonlocal count
        count += 1
        return found(*given)

    monkeypatch.setattr(events, "news_of", counted)
    said = [b""] * streams

    async def stream(number: int) -> None:
        async def send(message: Any) -> None:
            said[number] += message.get("body", b"")

        async def receive() -> Any:
            await asyncio.Event().wait()

        await events.EventStream(aggregator, study["id"], -1)({}, receive, send)

    async def follow() -> None:
        aggregator._ticker.cancel()
        all_ = [asyncio.create_task(stream(number)) for number in range(streams)]
        while not all(b"event: received" in each for each in said):
            await asyncio.sleep(0)
        before = list(said)
        await api._send("POST", f"/v1/rounds/{study['rounds'][0]['id']}/reports", tokens[0], {"json": {"outcome": 1}})
        aggregator.feeds.step(study["id"])
        while any(now == then for now, then in zip(said, before, strict=True)):
            await asyncio.sleep(0)
        aggregator.end_streams()
        await asyncio.gather(*all_)

    api._runner.run(follow())
    return count, set(said)


def test_streams_look_together_and_say_the_same(api: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    few, _ = looked_up(api, 40, monkeypatch)
    assert few < 20


def test_control_streams_that_look_for_themselves_are_found(api: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async def alone(self: Feed, question: object, work: Callable[[], Awaitable[Any]]) -> Any:
        del self, question
        return await work()

    monkeypatch.setattr(Feed, "once", alone)
    many, _ = looked_up(api, 40, monkeypatch)
    assert many >= 3 * 40


def test_an_event_tells_the_counts_of_the_rounds_that_have_no_answer_yet(api: Service) -> None:
    """Of a thousand rounds that were answered each event would tell all, and their closings have told them."""
    api.enrol(60)
    asked = {"title": "A room", "strategy": "masked-parity-two-rounds", "parameters": {"users": "all", "d": 4}}
    study = api.post("/v1/studies", token=api.operator, json={**asked, "simulated": True}).json()
    aggregator, first = api.app.state.aggregator, study["rounds"][0]["id"]

    def counts() -> dict[str, int]:
        data = events.news_of(aggregator, study["id"], -1).counts.partition(b"data: ")[2]
        told: dict[str, int] = json.loads(data)
        return told

    assert counts() == {first: 0}
    users = np.arange(60, dtype=np.uint64)
    aggregator.ledger.charge(first, users, np.zeros(60, np.uint32))
    received = aggregator.ledger.received(first)
    assert counts() == {first: received}
    assert received > 0
    api.post(f"/v1/rounds/{first}/close", token=api.operator)
    bulletin = aggregator.ledger.bulletin(study["id"])
    assert dict(bulletin.rounds)[first] is RoundState.ANSWERED
    assert first not in counts()
    assert counts().keys() == {id_ for id_, state in bulletin.rounds if state is not RoundState.ANSWERED}
