"""What anybody may ask costs little: remembered where it cannot change, shared where it can, and never out of date.

Nothing here goes by a clock: what a question costs is seen by what the ledger is asked.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from askance_server import aggregator, app
from askance_server.ledger import LedgerAwayError, LedgerError, open_ledger
from askance_server.public_answers import PublicAnswer, PublicAnswers
from askance_server.workers import Workers
from tests.harness.marks import SECONDS
from tests.harness.servers import Json, Service, is_problem

# -------------------------------------------------------------------------------------------------------- remembering


def run(most_bytes: int, main: Callable[[PublicAnswers], Any]) -> Any:
    async def inside() -> Any:
        workers = Workers("public", 2)
        try:
            return await main(PublicAnswers(workers, most_bytes))
        finally:
            workers.end()

    return asyncio.run(inside())


class Work:
    """Works out the answers to come, and counts how often it had to."""

    def __init__(self, *, final: bool, size: int = 1) -> None:
        self.final, self.size, self.done = final, size, 0

    def __call__(self) -> PublicAnswer:
        self.done += 1
        return PublicAnswer.of(b"%d" % self.done * self.size, final=self.final)


def test_a_final_answer_is_worked_out_once_and_another_each_time() -> None:
    final, passing = Work(final=True), Work(final=False)

    async def ask(answers: PublicAnswers) -> list[bytes]:
        return [
            (await answers.to((name,), work)).body for name, work in [("a", final), ("b", passing)] for _ in range(3)
        ]

    assert run(1 << 20, ask) == [b"1", b"1", b"1", b"1", b"2", b"3"]
    assert (final.done, passing.done) == (1, 3)


def test_memory_is_bounded_and_what_was_asked_for_longest_ago_goes_first() -> None:
    most = 64 << 10

    async def ask(answers: PublicAnswers) -> tuple[int, list[bool]]:
        largest = 0
        for number in range(1000):
            await answers.to((str(number),), Work(final=True, size=3000))
            await answers.to(("0",), Work(final=True, size=3000))
            largest = max(largest, answers.size)
        await answers.to(("huge",), Work(final=True, size=most // 8))
        return largest, [answers.known((name,)) is not None for name in ("0", "1", "999", "huge")]

    largest, known = run(most, ask)

    assert most // 2 < largest <= most
    assert known == [True, False, True, False]
    # The control: a bound that nothing reaches.
    assert run(1 << 30, ask)[0] > most


def test_who_asks_while_an_answer_is_worked_out_gets_a_later_one_and_shares_it() -> None:
    """Her report was stored after that look began: an answer without it would deny what she was told."""
    begun, go_on = threading.Event(), threading.Event()
    looks = 0

    def look() -> PublicAnswer:
        nonlocal looks
        looks += 1
        mine = looks
        if mine == 1:
            begun.set()
            assert go_on.wait(SECONDS)
        return PublicAnswer.of(b"%d" % mine)

    async def ask(answers: PublicAnswers) -> list[bytes]:
        first = asyncio.ensure_future(answers.to(("a",), look))
        await asyncio.to_thread(begun.wait, SECONDS)
        # The other thread is kept busy, so that those who come now wait together.
        held = asyncio.ensure_future(answers.to(("b",), lambda: (go_on.wait(SECONDS), PublicAnswer.of(b""))[1]))
        await asyncio.sleep(0)
        later = [asyncio.ensure_future(answers.to(("a",), look)) for _ in range(20)]
        await asyncio.sleep(0)
        go_on.set()
        await held
        return [(await each).body for each in [first, *later]]

    assert run(1 << 20, ask) == [b"1", *[b"2"] * 20]


def test_an_error_is_told_to_all_who_wait_and_not_remembered() -> None:
    fails = True

    def look() -> PublicAnswer:
        if fails:
            raise LedgerAwayError("the database is restarting")
        return PublicAnswer.of(b"1", final=True)

    async def ask(answers: PublicAnswers) -> tuple[list[Any], bytes]:
        nonlocal fails
        told = await asyncio.gather(*(answers.to(("a",), look) for _ in range(3)), return_exceptions=True)
        fails = False
        return told, (await answers.to(("a",), look)).body

    told, after = run(1 << 20, ask)

    assert [type(each) for each in told] == [LedgerAwayError] * 3
    assert after == b"1"


# ------------------------------------------------------------------------------------------------------ over the API


class Counting:
    """A ledger that counts what it is asked."""

    def __init__(self, ledger: Any) -> None:
        self.ledger, self.asked = ledger, Counter[str]()
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.ledger, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            self.asked[name] += 1
            if self.error is not None and name == "check_writable":
                raise self.error
            return found(*arguments, **named)

        return call


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Service, Counting]]:
    """A service, and its ledger that counts."""
    made: list[Counting] = []

    def count(database: str) -> Any:
        made.append(Counting(open_ledger(database)))
        return made[0]

    monkeypatch.setattr(app, "open_ledger", count)
    with Service(tmp_path / "data") as api:
        yield api, made[0]


def finished(api: Service) -> Json:
    tokens = api.enrol(3)
    study = api.study()
    for token in tokens:
        assert api.report(study["rounds"][0]["id"], token).status_code == 200
    return study


def paths(study: Json) -> list[str]:
    """Whatever is public of a study."""
    one, round_ = f"/v1/studies/{study['id']}", f"/v1/rounds/{study['rounds'][0]['id']}"
    return [one, f"{one}/bulletin", f"{one}/bulletin?after=1", f"{one}/result", round_, f"{round_}/tally"]


def test_of_a_finished_study_nothing_is_looked_up_twice(counted: tuple[Service, Counting]) -> None:
    api, ledger = counted
    study = finished(api)
    first = [api.get(path) for path in paths(study)]
    assert ledger.asked["tallies"] == 1  # The server's own: what is told of it comes off the bulletin.
    assert ledger.asked["stored_entries"] > 1
    ledger.asked.clear()

    again = [api.get(path) for path in paths(study) for _ in range(3)][::3]

    assert ledger.asked == {}
    assert [each.content for each in again] == [each.content for each in first]
    # The list still asks which studies there are, and nothing about them.
    assert json_of(api.get("/v1/studies")) == [json_of(first[0])]
    assert ledger.asked == {"studies": 1}


def test_the_control_of_a_running_study_everything_is_looked_up_again(counted: tuple[Service, Counting]) -> None:
    api, ledger = counted
    tokens = api.enrol(3)
    study = api.study()
    before = [api.get(path).json() for path in paths(study)]
    assert api.report(study["rounds"][0]["id"], tokens[0]).status_code == 200

    after = [api.get(path).json() for path in paths(study)]

    assert (before[0]["rounds"][0]["received"], after[0]["rounds"][0]["received"]) == (0, 1)
    assert (before[4]["received"], after[4]["received"]) == (0, 1)
    assert (before[5]["received"], after[5]["received"]) == (0, 1)
    ledger.asked.clear()
    for path in paths(study):
        assert api.get(path).status_code == 200
    assert ledger.asked["bulletin"] >= 4


def json_of(response: httpx.Response) -> Any:
    assert response.status_code == 200
    return response.json()


def test_no_entry_is_read_to_be_shown(counted: tuple[Service, Counting]) -> None:
    """To read an entry strictly takes a third of a second a megabyte, and it was read when it was written."""
    api, ledger = counted
    study = finished(api)
    ledger.asked.clear()

    api.get(f"/v1/studies/{study['id']}/bulletin")
    api.get(f"/v1/studies/{study['id']}/events")

    assert ledger.asked["entries"] == 0
    assert ledger.asked["stored_entries"] == 2
    # The control: the result has to read the last one, once.
    api.get(f"/v1/studies/{study['id']}/result")
    assert ledger.asked["entries"] > 0


def test_an_answer_is_tagged_and_who_has_it_gets_none(counted: tuple[Service, Counting]) -> None:
    api, _ = counted
    study = finished(api)
    for path in [*paths(study), "/openapi.json", "/docs"]:
        answer = api.get(path)
        tag = answer.headers["etag"]
        for held in (tag, f'"x", {tag}', f"W/{tag}", "*"):
            same = api.get(path, headers={"If-None-Match": held})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        # The controls: another tag, and none.
        for other in ('"x"', tag.strip('"'), f'"{tag[1:-2]}"', ""):
            assert api.get(path, headers={"If-None-Match": other}).content == answer.content


def test_a_tag_changes_with_its_answer(counted: tuple[Service, Counting]) -> None:
    api, _ = counted
    tokens = api.enrol(3)
    study = api.study()
    tags = [{api.get(path).headers["etag"]} for path in paths(study)]
    for token in tokens:
        api.report(study["rounds"][0]["id"], token)
        for path, seen in zip(paths(study), tags, strict=True):
            seen.add(api.get(path).headers["etag"])

    # Counts change with each report, entries only with the last.
    assert [len(seen) for seen in tags] == [4, 2, 2, 2, 4, 4]


# ------------------------------------------------------------------------------------------------------------- ready


def test_readyz_looks_no_more_often_than_its_time_says(
    counted: tuple[Service, Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, ledger = counted
    monkeypatch.setattr(aggregator, "READY_FOR", SECONDS)
    assert {api.get("/readyz").status_code for _ in range(50)} == {200}
    assert ledger.asked["check_writable"] == 1

    # The control: a time of nothing.
    monkeypatch.setattr(aggregator, "READY_FOR", 0.0)
    api.app.state.aggregator._ready_until = 0.0
    for _ in range(5):
        assert api.get("/readyz").status_code == 200
    assert ledger.asked["check_writable"] == 6


def test_a_report_that_was_stored_says_that_the_ledger_is_ready_and_one_that_was_not_that_it_is_not(
    counted: tuple[Service, Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, ledger = counted
    monkeypatch.setattr(aggregator, "READY_FOR", SECONDS)
    tokens = api.enrol(3)
    round_ = api.study()["rounds"][0]["id"]
    assert api.report(round_, tokens[0]).status_code == 200
    assert api.get("/readyz").status_code == 200
    assert ledger.asked["check_writable"] == 0

    ledger.error = LedgerAwayError("the database takes no writes")
    monkeypatch.setattr(ledger.ledger, "charge", raising(ledger.error), raising=True)
    is_problem(api.report(round_, tokens[1]), "not-ready")
    is_problem(api.get("/readyz"), "not-ready")
    assert ledger.asked["check_writable"] == 1


def raising(error: LedgerError) -> Callable[..., Any]:
    def call(*_: Any) -> Any:
        raise error

    return call


# ------------------------------------------------------------------------------------------- inside a stream of events


def test_what_goes_wrong_inside_a_stream_is_its_last_event(
    counted: tuple[Service, Counting], monkeypatch: pytest.MonkeyPatch
) -> None:
    api, ledger = counted
    api.enrol(3)
    study = api.study()
    path = f"/v1/studies/{study['id']}/events"
    for error, name in [(LedgerAwayError("at /secret/place"), "not-ready"), (ValueError("/secret/place"), "internal")]:
        with monkeypatch.context() as patch:
            patch.setattr(ledger.ledger, "stored_entries", raising(error))  # pyright: ignore[reportArgumentType] - any error
            answer = api.get(path)
        assert answer.status_code == 200
        fields = dict(line.split(": ", 1) for line in answer.text.splitlines() if line)
        assert fields["event"] == "problem"
        assert "id" not in fields  # A reader takes up where the last entry was.
        problem = httpx.Response(200, text=fields["data"]).json()
        assert problem["type"] == f"urn:askance:problem:{name}"
        assert "secret" not in answer.text
