"""What one who takes part is told of a study: who is too late for what, and what a short round waits for."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from askance_client import BulletinReader, History, LateRound, ShortRound, StudyNews, User
from askance_client.news import late_rounds, local_time, time_left
from askance_protocol import canonical
from askance_protocol.budget import MICRO
from askance_protocol.rounds import Cohort, read_entry
from tests.client.liar import Liar
from tests.client.people import HERS, enrolled, run, wallet_at
from tests.protocol.studies import FAR, part, study


@pytest.fixture
def liar() -> Liar:
    return Liar.of(study(simulated=False, cap=3 * MICRO))


def history(liar: Liar) -> History:
    read = History(liar.id).extended([read_entry(canonical.dumps(entry)) for entry in liar.entries])
    assert isinstance(read, History)
    return read


def late(liar: Liar, *users: int, reported: tuple[int, ...] = ()) -> tuple[LateRound, ...]:
    numbers = np.array(users, np.uint64)
    return late_rounds(history(liar), numbers, lambda _: np.isin(numbers, reported))


def test_who_enrolled_after_a_round_was_opened_is_not_asked_in_it(liar: Liar) -> None:
    liar.ask(part(), cohort=Cohort(first_user=2, users=5))

    assert late(liar, 0, 2, 6) == ()
    assert late(liar, 6, 7, 8) == (LateRound(1, 3, opened=2, closed=0),)
    [told] = LateRound(1, 3, 2, 0).texts()
    assert told == "round 1 was opened before 2 of these users enrolled, and does not ask them"


def test_a_round_that_has_closed_is_too_late_for_whom_it_asked_and_has_not_heard(liar: Liar) -> None:
    closed = liar.ask(part(), cohort=Cohort(first_user=2, users=5))
    assert late(liar, 2, 3, 4) == ()
    liar.publish({"kind": "closed", "round": closed, "reason": "operator", "received": 1})

    assert late(liar, 0, 2, 3, 4, reported=(3,)) == (LateRound(1, 4, opened=0, closed=2),)
    assert late(liar, 3, reported=(3,)) == ()
    assert [*LateRound(1, 1, 0, 1).texts()] == ["round 1 closed before you answered"]
    assert [*LateRound(1, 4, 0, 2).texts()] == ["round 1 closed before 2 of these users answered"]


def test_a_moment_is_told_by_the_clock_of_the_place_and_with_its_day_if_that_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert local_time(3600, 0) == "03:00"
        assert local_time(86_400, 0) == "1970-01-02 02:00"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 seconds"),
        (1, "1 second"),
        (59, "59 seconds"),
        (60, "1 minute"),
        (7199, "1 hour"),
        (7200, "2 hours"),
        (200_000, "2 days"),
        (10**9, "11,574 days"),
    ],
)
def test_what_is_left_is_told_in_its_largest_whole_unit(seconds: int, words: str) -> None:
    assert time_left(seconds, 0) == words


def test_a_short_round_says_how_many_of_how_many_and_until_when() -> None:
    each = ShortRound(2, 1_200, 1_201, 1000)

    assert each.text(1000 - 3120).startswith("round 2 has 1,200 of 1,201 reports, and waits until ")
    assert each.text(1000 - 3120).endswith(" (52 minutes left)")
    assert each.text(1000) == "round 2 has 1,200 of 1,201 reports, and its deadline has passed"


SAID: dict[str, Any] = {
    "a list": [],
    "nothing": {},
    "no list of rounds": {"rounds": 7, "paused": 7},
    "no rounds": {"rounds": [7, {}, {"id": 7, "received": 1}, {"received": 1}]},
    "no number": {"rounds": [{"id": "?", "received": "1"}]},
    "too few": {"rounds": [{"id": "?", "received": -1}]},
    "all": {"rounds": [{"id": "?", "received": 10}]},
    "another round": {"rounds": [{"id": "0" * 64, "received": 1}]},
}


@pytest.mark.parametrize("name", [*SAID, "the control"])
def test_a_server_that_says_nothing_of_use_is_not_repeated(liar: Liar, name: str) -> None:
    """Of a round, what is told beside its number of reports is what was published."""
    id_ = liar.ask(part())
    said = SAID.get(name, {"rounds": [{"id": "?", "received": 9, "round": {"target": 99}}]})

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/bulletin"):
            return liar.handle(request)
        return httpx.Response(200, content=canonical.dumps(said).replace(b'"?"', f'"{id_}"'.encode()))

    async def news() -> StudyNews:
        async with liar.server() as server:
            server._client._transport = httpx.MockTransport(answer)
            reader = BulletinReader(server, liar.id)
            await reader.refresh()
            return await reader.news()

    told = asyncio.run(news())

    assert told == (StudyNews(short=(ShortRound(1, 9, 10, FAR),)) if name == "the control" else StudyNews())
    assert bool(told) is (name == "the control")


def test_one_who_follows_is_told_what_she_has_answered_once(liar: Liar, tmp_path: Path) -> None:
    told, wallet = list[StudyNews](), wallet_at(tmp_path)
    anna = User(HERS, wallet)
    enrolled(anna, liar)
    liar.ask(part())

    def end(_: object) -> None:
        if liar.heard and liar.entries[-1]["notice"]["kind"] != "ended":
            liar.publish({"kind": "ended", "state": "finished", "reason": ""})

    liar.says["bulletin"] = end

    async def follow() -> None:
        async with liar.server() as server:
            await anna.follow(server, liar.id, every=0.01, tell=told.append)

    run(follow())
    wallet.close()

    assert told == [StudyNews(answered=1, charged=MICRO)]
    assert str(told[0]) == "you have answered 1 round of the study, for ε = 1"
    assert str(StudyNews()) == "the study goes on, and asks nothing now"


def test_one_who_follows_is_told_what_is_waited_for_while_nothing_is_new(
    liar: Liar, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, wallet = list[StudyNews](), wallet_at(tmp_path)
    anna = User(HERS, wallet)
    enrolled(anna, liar)
    liar.ask(part(), cohort=Cohort(first_user=99, users=5))
    waits = StudyNews(paused="the room is late", short=(ShortRound(1, 9, 10, FAR),))
    asked = list[int]()

    async def news(_: BulletinReader) -> StudyNews:
        asked.append(len(told))
        return waits

    def end(_: object) -> None:
        if len(asked) > 1 and liar.entries[-1]["notice"]["kind"] != "ended":
            liar.publish({"kind": "ended", "state": "finished", "reason": ""})

    monkeypatch.setattr(BulletinReader, "news", news)
    liar.says["bulletin"] = end

    async def follow() -> None:
        async with liar.server() as server:
            await anna.follow(server, liar.id, every=0.001, tell=told.append)

    run(follow())
    wallet.close()

    # It is told once, and only where nothing is new is the server asked for it.
    assert [(each.paused, each.short) for each in told if each.short] == [(waits.paused, waits.short)]
    assert len(asked) >= 2
