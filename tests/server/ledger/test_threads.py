"""One ledger and many threads: what they do at once adds up, and what takes long holds up no report."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from askance_protocol.budget import MICRO
from askance_server.ledger import projections
from askance_server.ledger.base import Ledger, LedgerError, Verdict
from askance_server.ledger.postgres import ledger as postgres
from tests.harness.marks import SECONDS
from tests.protocol.studies import part, round_of, study
from tests.server.ledger.ledgers import Keeper, SqliteKeeper, judge, orders_for, publish, storm

pytest_plugins = ("tests.server.ledger.ledgers",)

STUDY = study(cap=2 * MICRO)
ROUNDS = [round_of(part(), of=STUDY, number=number) for number in (1, 2, 3)]
IDS = [round_.digest() for round_ in ROUNDS]
CAPPED, USERS, CLIENTS, EACH = 4, 300, 8, 24


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def stormed(ledger: Ledger) -> list[str]:
    """What is wrong after a storm of threads, in which others read and enrol."""
    ledger.enrol(USERS, 2 * MICRO)
    publish(ledger, STUDY, *ROUNDS)
    orders = orders_for(IDS, CAPPED, USERS, CLIENTS, EACH, seed=1)
    over = threading.Event()
    torn: list[str] = []

    def others() -> None:
        while not over.is_set():
            ledger.enrol(1, MICRO)
            for id_ in IDS:
                counted = ledger.tallies(id_)[0].received
                if counted > ledger.received(id_):
                    torn.append("more was tallied than was received later")
            standing = ledger.standing(0)
            if standing.account.spent != sum(charge.micro_epsilon for charge in standing.charges):
                torn.append("an account was seen half charged")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(others)
        try:
            answers = storm(lambda: nullcontext(ledger.charge), orders)
        finally:
            over.set()
        running.result()
    found = judge(orders, answers, MICRO, [2 * MICRO] * USERS)
    counted = Counter({id_: ledger.tallies(id_)[0].received for id_ in IDS})
    wrong = [f"{name} {count}" for name in ("overspent", "twice", "contradicted") if (count := getattr(found, name))]
    if counted != found.accepted:
        wrong.append("the tallies are not what was accepted")
    return [*torn, *wrong, *(fault.what for fault in ledger.verify())]


def test_what_many_threads_do_at_once_adds_up(ledger: Ledger) -> None:
    assert stormed(ledger) == []


def test_the_storm_finds_a_ledger_without_its_lock(tmp_path: Any) -> None:
    """The control: the same, and nothing is done alone."""
    keeper = SqliteKeeper(tmp_path / "data")
    ledger: Any = keeper.ledger
    ledger.alone = nullcontext()

    try:
        found = stormed(ledger)
    except Exception as error:
        found = [str(error)]

    assert found
    with contextlib.suppress(Exception):
        ledger.close()


def held_up(ledger: Ledger, begin: Callable[[], object], reached: threading.Event, go_on: threading.Event) -> bool:
    """Whether a report waits for what another thread has begun, and what goes on only when told to."""
    with ThreadPoolExecutor(2) as pool:
        working = pool.submit(begin)
        assert reached.wait(SECONDS)
        reporting = pool.submit(ledger.charge, IDS[0], np.array([7], np.uint64), np.array([1], np.uint32))
        try:
            # What waits for what does not end waits for ever: the time is for the control only.
            verdicts = reporting.result(1 if begin.__name__ == "alone" else SECONDS)
        except TimeoutError:
            return True
        finally:
            go_on.set()
            working.result(SECONDS)
            reporting.result(SECONDS)
    assert verdicts.tolist() == [Verdict.ACCEPTED]
    return False


def test_what_takes_long_holds_up_no_report(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = keeper.ledger
    ledger.enrol(USERS, MICRO)
    publish(ledger, STUDY, *ROUNDS)
    ledger.charge(IDS[0], np.arange(5, dtype=np.uint64), np.zeros(5, np.uint32))
    reached, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        reached.set()
        assert go_on.wait(SECONDS)
        return real(*arguments)

    module = projections if isinstance(keeper, SqliteKeeper) else postgres
    real = module.tally_round
    monkeypatch.setattr(module, "tally_round", slow)

    def tally() -> None:
        # The round is open: the report that comes meanwhile may count or not.
        assert ledger.tallies(IDS[0])[0].received in {5, 6}

    assert not held_up(ledger, tally, reached, go_on)


def test_a_report_that_is_held_up_is_found(tmp_path: Any) -> None:
    """The control: what takes long is done alone."""
    ledger: Any = SqliteKeeper(tmp_path / "data").ledger
    ledger.enrol(USERS, MICRO)
    publish(ledger, STUDY, *ROUNDS)
    reached, go_on = threading.Event(), threading.Event()

    def alone() -> None:
        with ledger.alone:
            reached.set()
            assert go_on.wait(SECONDS)

    assert held_up(ledger, alone, reached, go_on)
    ledger.close()


def test_each_thread_has_a_connection_and_all_are_closed(database: str) -> None:
    ledger = postgres.PostgresLedger.open(database)
    ledger.enrol(3, MICRO)
    meeting = threading.Barrier(3)

    def look() -> int:
        meeting.wait(SECONDS)
        return ledger.enrolled()

    with ThreadPoolExecutor(3) as pool:
        assert [each.result() for each in [pool.submit(look) for _ in range(3)]] == [3, 3, 3]
    links = list(ledger._links)  # pyright: ignore[reportPrivateUsage] - what is to be seen
    assert len(links) == 4
    ledger.close()

    assert all(link.closed for link in links)
    with pytest.raises(LedgerError, match="was closed"):
        ledger.enrolled()
