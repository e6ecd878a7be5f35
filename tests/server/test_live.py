"""What is told of an open round: nothing, or counts in steps of k reports, of which nobody reads a single report.

The order of acceptance is the ledgers' part: all three keep to it, over restarts, and several servers on one database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.rounds import KarySpec, PreparedRound
from askance_protocol.tally import Tally, tally_round
from askance_server import live as live_module
from askance_server.api.events import news_of
from askance_server.core.live import Arrivals, Telling, looked_at
from askance_server.ledger.base import Ledger
from askance_server.ledger.postgres import PostgresLedger
from askance_server.ledger.postgres import ledger as postgres
from askance_server.live import LiveTallies
from tests.harness.servers import Json, Service
from tests.protocol.studies import HEIGHT, MASKED_BIT, WHICH, part, prepared, round_of, study
from tests.server.ledger.ledgers import Keeper, publish, storm_of_groups
from tests.server.ledger.memory_ledger import MemoryKeeper

pytest_plugins = ("tests.server.ledger.ledgers",)

STEP: Final = 10
LIVE = study(live=STEP)
ROUND = round_of(part(), of=LIVE)
ID = ROUND.digest()

Way = Callable[[PreparedRound, Any, Any, int], Sequence[Tally]]
"""From the reports that came, in their order, to what is told of them."""


def as_it_is(round_: PreparedRound, users: Any, outcomes: Any, step: int) -> Sequence[Tally]:
    return Telling.of(round_, step).heard(Arrivals(users, outcomes)).tallies


def leaks(told: Sequence[Sequence[Tally]], step: int) -> list[str]:
    """Rows of which two counts were told, one after the other, that differ by fewer reports than a step has."""
    found: list[str] = []
    for before, after in pairwise(told):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            more = (other.counts - one.counts).sum(axis=1)
            shown = one.counts.sum(axis=1) > 0
            found += [
                f"part {number}, row {row}: {more[row]}" for row in np.flatnonzero((more < step) & (more > 0) & shown)
            ]
            found += [f"part {number}: less" for _ in np.flatnonzero((other.counts < one.counts).any(axis=1))]
    return found


def followed(round_: PreparedRound, reports: int, telling: Way) -> list[Sequence[Tally]]:
    """What a spectator sees who looks after each report, and then at the end, where all are told."""
    users = np.random.default_rng(1).permutation(2 * reports)[:reports].astype(np.uint64)
    outcomes = np.array([user % round_.outcomes for user in users.tolist()], np.uint32)
    told = [telling(round_, users[:came], outcomes[:came], STEP) for came in range(reports + 1)]
    return [*told, tally_round(round_, users, outcomes)]


SHAPES: Final = {
    "one bit": (part(),),
    "three questions": (part(MASKED_BIT, share=3), part(HEIGHT, share=2), part()),
    "eight rows": (part(WHICH),),
    "eight cells": (part(WHICH, KarySpec(micro_epsilon=MICRO)),),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reports", [7, 10, 11, 20, 21, 29, 300, 307])
def test_whoever_looks_after_each_report_reads_none(shape: str, reports: int) -> None:
    """Also where the last step is the rest; and each row is told as often as the others of its part."""
    round_ = prepared(*SHAPES[shape], of=LIVE)
    seen = followed(round_, reports, as_it_is)

    assert leaks(seen, STEP) == []
    assert all(len(set(tally.counts.sum(axis=1).tolist())) == 1 for told in seen[:-1] for tally in told)
    if reports >= 300:
        assert any(tally.received for tally in seen[-2])


def every_whole_step(round_: PreparedRound, users: Any, outcomes: Any, step: int) -> Sequence[Tally]:
    """A control: the first k·⌊n/k⌋ reports. What came since is one report where the round closes just then."""
    whole = looked_at(len(users), step)
    return tally_round(round_, users[:whole], outcomes[:whole])


def every_report(round_: PreparedRound, users: Any, outcomes: Any, step: int) -> Sequence[Tally]:
    """A control: what came, when it came."""
    del step
    return tally_round(round_, users, outcomes)


def in_order_of_users(round_: PreparedRound, users: Any, outcomes: Any, step: int) -> Sequence[Tally]:
    """A control: steps in another order than that of acceptance, in which a report may come in before others."""
    order = np.argsort(users)
    return as_it_is(round_, users[order], outcomes[order], step)


@pytest.mark.parametrize("telling", [every_whole_step, every_report, in_order_of_users])
def test_control_another_way_of_telling_is_found(telling: Way) -> None:
    assert leaks(followed(prepared(part(), of=LIVE), 21 if telling is every_whole_step else 60, telling), STEP) != []


def test_control_rows_that_are_told_together_are_found() -> None:
    """Eight rows with ten reports between them: that of a row is somebody's, by a coin that is public."""
    assert leaks(followed(prepared(part(WHICH), of=LIVE), 200, every_whole_step), STEP) != []


# ------------------------------------------------------------------------------------------------ the order of a ledger


KEEPERS: Final = ("sqlite", "postgres")


def charge(ledger: Ledger, users: Sequence[int]) -> None:
    ledger.charge(ID, np.array(users, np.uint64), np.array(users, np.uint64).astype(np.uint32) % np.uint32(2))


def in_order(ledger: Ledger, count: int) -> list[tuple[int, int]]:
    users, outcomes, _ = ledger.reports_behind(ID)
    return list(zip(users.tolist(), outcomes.tolist(), strict=True))[:count]


def keeps_an_order(keeper: Keeper) -> list[str]:
    """What is wrong with the order of reports that come in groups, of which some come again, over a restart."""
    wrong: list[str] = []
    publish(keeper.ledger, LIVE, ROUND)
    keeper.ledger.enrol(100, MICRO)
    seen: list[tuple[int, int]] = []
    for users in ([50, 3, 70], [3, 90, 50], [1], [70], [99, 0, 3], [60, 61, 62]):
        charge(keeper.ledger, users)
        received = keeper.ledger.received(ID)
        now = in_order(keeper.ledger, received)
        if now[: len(seen)] != seen or len(now) != received:
            wrong.append(f"{now} does not go on from {seen}")
        if in_order(keeper.ledger, 2) != now[:2]:
            wrong.append("the first of them are others")
        seen = now
    if sorted(user for user, _ in seen) != [0, 1, 3, 50, 60, 61, 62, 70, 90, 99]:
        wrong.append(f"they are of {seen}")
    wrong += [f"{user} has reported {outcome}" for user, outcome in seen if outcome != user % 2]
    if in_order(keeper.reopen(), len(seen)) != seen:
        wrong.append("a restart has changed it")
    return [*wrong, *(fault.what for fault in keeper.ledger.verify())]


def test_the_first_reports_stay_the_first(keeper: Keeper) -> None:
    assert keeps_an_order(keeper) == []


def test_the_first_reports_stay_the_first_in_memory() -> None:
    assert keeps_an_order(MemoryKeeper()) == []


def test_control_an_order_of_users_is_found(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = type(keeper.ledger).reports_behind

    def sorted_(self: Ledger, id_: str, mark: int = 0) -> Any:
        users, outcomes, behind = kept(self, id_, mark)
        order = np.argsort(users)
        return users[order], outcomes[order], behind

    monkeypatch.setattr(type(keeper.ledger), "reports_behind", sorted_)
    assert keeps_an_order(keeper) != []


def replicas_disagree(url: str) -> list[str]:
    """Two servers that take groups at once: steps that one has told and the other tells otherwise."""
    with closing(PostgresLedger.open(url)) as one, closing(PostgresLedger.open(url)) as other:
        publish(one, LIVE, ROUND)
        one.enrol(400, MICRO)
        seen: dict[int, set[str]] = {}

        def look(ledger: Ledger) -> None:
            count = looked_at(ledger.received(ID), STEP)
            seen.setdefault(count, set()).add(json.dumps(in_order(ledger, count)))

        storm_of_groups((one, other), [(ID, tuple(range(first, first + 4))) for first in range(0, 400, 4)], look)
        look(one)
        look(other)
    told = {count: [json.loads(text) for text in texts] for count, texts in seen.items()}
    longest = max(told.values(), key=lambda each: len(each[0]))[0]
    return [f"{count}: {each}" for count, several in told.items() for each in several if each != longest[:count]]


def test_two_servers_tell_the_same_steps(database: str) -> None:
    assert replicas_disagree(database) == []


def test_control_places_that_are_drawn_before_the_commit_are_found(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with the lock that groups of other rounds share: a place is then given twice, and the second is refused."""
    decide = postgres._decide
    ask = postgres.ask

    def sharing(link: Any, query: Any, *values: Any) -> Any:
        return ask(link, query.replace("pg_advisory_xact_lock(", "pg_advisory_xact_lock_shared("), *values)

    def sharing_decide(link: Any, key: int, group: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(postgres, "ask", sharing)
            return decide(link, key, group)

    monkeypatch.setattr(postgres, "_decide", sharing_decide)
    try:
        assert replicas_disagree(database) != []
    except postgres.LedgerError as error:
        assert "UniqueViolation" in str(error)  # noqa: PT017 - either of the two is how it shows


# ------------------------------------------------------------------------------------------------------- over the API


@pytest.fixture
def api(tmp_path: Path) -> Generator[Service]:
    with Service(tmp_path / "data", cap="1") as service:
        yield service


def opened(api: Service, users: int, **more: Any) -> tuple[list[str], Json, str]:
    tokens = api.enrol(users)
    asked = {"title": "A room", "strategy": "mean", "parameters": {"users": "all"}, **more}
    made = api.post("/v1/studies", token=api.operator, json=asked)
    assert made.status_code == 201, made.text
    return tokens, made.json(), made.json()["rounds"][0]["id"]


def looks(api: Service, study_: Json, round_: str) -> Iterator[tuple[str, Any]]:
    """Everything that anybody may ask of an open round, as it is now."""
    yield "tally", api.get(f"/v1/rounds/{round_}/tally").json()
    yield "result", api.get(f"/v1/studies/{study_['id']}/result").json()
    news = news_of(api.app.state.aggregator, study_["id"], -1)
    yield "events", json.loads(news.live.partition(b"data: ")[2]) if news.live else None


def test_an_open_round_is_told_in_steps_and_whole_when_it_is_closed(api: Service) -> None:
    tokens, made, round_ = opened(api, 33, live=STEP)
    told: list[tuple[int, int]] = []
    for number, token in enumerate(tokens[:27]):
        assert api.report(round_, token, number % 2).status_code == 200
        # The same report again is none more.
        api.report(round_, token, number % 2)
        api.report(round_, token, 1 - number % 2)
        now = dict(looks(api, made, round_))
        told.append((now["tally"]["received"], now["tally"]["told"]))
        assert np.sum(now["tally"]["tallies"]) == now["tally"]["told"]
        live = now["result"]["live"]
        assert [each["reports"] for each in live] == ([now["tally"]["told"]] if now["tally"]["told"] else [])
        assert (None if now["events"] is None else now["events"]["estimates"]) == (live or None)
        if now["events"] is not None:
            assert now["events"]["round"] == round_
            assert now["events"]["reports"] == now["tally"]["told"]
            assert live[0]["low"] <= live[0]["estimate"] <= live[0]["high"]
        assert now["result"]["estimates"] == []

    assert told == [(came, 10 if came >= 20 else 0) for came in range(1, 28)]
    api.post(f"/v1/rounds/{round_}/close", token=api.operator)
    closed = dict(looks(api, made, round_))
    assert (closed["tally"]["received"], closed["tally"]["told"]) == (27, 27)
    assert closed["result"]["live"] == []
    assert closed["events"] is None


def test_without_a_word_of_it_nothing_is_told(api: Service) -> None:
    tokens, made, round_ = opened(api, 33)
    for token in tokens[:30]:
        api.report(round_, token)
    now = dict(looks(api, made, round_))

    assert "live" not in made["study"]
    assert (now["tally"]["told"], now["tally"]["tallies"], now["tally"]["estimates"]) == (0, [], [])
    assert (now["result"]["live"], now["events"]) == ([], None)


def test_what_a_cancelled_round_had_is_told_no_more(api: Service) -> None:
    tokens, made, round_ = opened(api, 33, live=STEP)
    for token in tokens[:25]:
        api.report(round_, token)
    assert dict(looks(api, made, round_))["tally"]["told"] == 10
    api.post(f"/v1/studies/{made['id']}/cancel", token=api.operator)
    now = dict(looks(api, made, round_))

    assert (now["tally"]["told"], now["result"]["live"], now["events"]) == (0, [], None)


def test_a_restart_tells_the_same(tmp_path: Path) -> None:
    with Service(tmp_path / "data", cap="1") as api:
        tokens, made, round_ = opened(api, 33, live=STEP)
        for number, token in enumerate(tokens[:29]):
            api.report(round_, token, number % 2)
        before = dict(looks(api, made, round_))
    with Service(tmp_path / "data", cap="1") as api:
        assert dict(looks(api, made, round_)) == before
        api.report(round_, tokens[29])
        assert dict(looks(api, made, round_))["tally"]["told"] == 20


@pytest.mark.parametrize("wrong", [0, 1, -10, True, "10", 10.0, 1 << 49])
def test_what_is_no_step_is_refused(api: Service, wrong: object) -> None:
    api.enrol(3)
    asked = {"title": "A room", "strategy": "mean", "parameters": {"users": "all"}, "live": wrong}

    assert api.post("/v1/studies", token=api.operator, json=asked).status_code == 422


# -------------------------------------------------------------------------------------------- each report is read once


@pytest.mark.parametrize("shape", SHAPES)
def test_heard_in_any_pieces_the_same_reports_tell_the_same(shape: str) -> None:
    round_ = prepared(*SHAPES[shape], of=LIVE)
    random = np.random.default_rng(2)
    users = random.permutation(900)[:600].astype(np.uint64)
    outcomes = (users % np.uint64(min(round_.limits))).astype(np.uint32)
    telling, end = Telling.of(round_, STEP), 0
    while end < len(users):
        begin, end = end, end + int(random.integers(0, 40))
        telling = telling.heard(Arrivals(users[begin:end], outcomes[begin:end]))
        whole = as_it_is(round_, users[:end], outcomes[:end], STEP)
        assert [tally.to_rows() for tally in telling.tallies] == [tally.to_rows() for tally in whole]
        assert len(telling.waiting) + telling.told == telling.received == min(end, len(users))


def reports_read(live: Callable[[Ledger], LiveTallies], reports: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many reports are read while so many come one by one, and three look after each."""
    ledger, read = MemoryKeeper().ledger, list[int]()
    publish(ledger, LIVE, ROUND)
    ledger.enrol(reports, MICRO)
    behind = ledger.reports_behind

    def counted(id_: str, mark: int = 0) -> Any:
        found = behind(id_, mark)
        read.append(len(found[0]))
        return found

    monkeypatch.setattr(ledger, "reports_behind", counted)
    kept = live(ledger)
    for user in range(reports):
        charge(ledger, [user])
        for _ in range(3):
            kept.of(ID)
    return sum(read)


def test_each_report_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reports_read(LiveTallies, 500, monkeypatch) == 500


def test_control_a_round_that_is_read_anew_for_each_step_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As is done where more reports wait than may be kept, which changes nothing of what is told."""
    assert reports_read(lambda ledger: LiveTallies(ledger, most_waiting=0), 500, monkeypatch) == sum(
        range(STEP, 501, STEP)
    )


def test_what_is_kept_tells_what_is_read_anew(keeper: Keeper) -> None:
    """Also after a restart, and where what waits is too much to be kept."""
    of_rows = round_of(part(WHICH), of=LIVE)
    publish(keeper.ledger, LIVE, of_rows)
    keeper.ledger.enrol(300, MICRO)
    kept, anew = LiveTallies(keeper.ledger), LiveTallies(keeper.ledger, most_waiting=0)
    told = list[Any]()
    random = np.random.default_rng(3)
    for some in np.split(random.permutation(300), sorted(random.integers(0, 300, 40).tolist())):
        keeper.ledger.charge(of_rows.digest(), some.astype(np.uint64), (some % 2).astype(np.uint32))
        told = [[tally.to_rows() for tally in live.of(of_rows.digest())] for live in (kept, anew)]
        assert told[0] == told[1]
    assert sum(map(sum, told[0][0])) > 0
    assert [tally.to_rows() for tally in LiveTallies(keeper.reopen()).of(of_rows.digest())] == told[0]


def test_of_a_round_that_is_closed_nothing_is_kept() -> None:
    ledger = MemoryKeeper().ledger
    publish(ledger, LIVE, ROUND)
    ledger.enrol(30, MICRO)
    charge(ledger, range(30))
    live = LiveTallies(ledger)
    assert sum(tally.received for tally in live.of(ID)) == 20
    assert list(live._kept) == [ID]
    ledger.close_round(ID, "operator")
    assert live.of(ID) == ()
    assert not live._kept


def test_of_too_many_rounds_that_which_was_asked_for_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """And read anew when it is asked for again: it tells the same."""
    monkeypatch.setattr(live_module, "_REMEMBERED", 2)
    ledger, ids = MemoryKeeper().ledger, list[str]()
    ledger.enrol(30, 9 * MICRO)
    for nonce in ("00", "11", "22"):
        one = study(live=STEP, nonce=nonce * 16)
        round_ = round_of(part(), of=one)
        publish(ledger, one, round_)
        ids.append(round_.digest())
        ledger.charge(ids[-1], np.arange(30, dtype=np.uint64), np.zeros(30, np.uint32))
    live = LiveTallies(ledger)
    told = [live.of(id_)[0].to_rows() for id_ in (ids[0], ids[1], ids[0], ids[2])]

    assert list(live._kept) == [ids[0], ids[2]]
    assert live.of(ids[1])[0].to_rows() == told[1]
    assert list(live._kept) == [ids[2], ids[1]]
