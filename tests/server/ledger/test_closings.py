"""Rounds that are closed while several replicas accept reports to them: the bulletin's count is that of the log.

A replica here is a ledger with a connection of its own, in a thread of its own: what they share is the database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.rounds import Bulletin, CloseReason, Cohort, RoundClosed, RoundSpec
from askance_server.driver import Driver, StudyOverError
from askance_server.ledger.base import NotOpenError, Verdict
from askance_server.ledger.postgres import PostgresLedger
from askance_server.ledger.postgres import ledger as postgres
from tests.harness.marks import SECONDS
from tests.protocol.studies import part, round_of, study
from tests.server.ledger.ledgers import publish

pytest_plugins = ("tests.server.ledger.ledgers",)

STUDY = study(cap=100 * MICRO)
ID = STUDY.digest()
USERS, REPLICAS, GROUP = 20_000, 4, 5
"""Users are a hundred times as many as report until a round closes: where they end, nobody was late."""
ROUNDS = [round_of(part(), of=STUDY, number=number, cohort=Cohort(users=USERS)) for number in range(1, 45)]
IDS = [round_.digest() for round_ in ROUNDS]


@dataclass(frozen=True, slots=True)
class Counts:
    """Number of reports of one round, by who tells it."""

    bulletin: int
    receipts: int
    tallies: int

    @property
    def wrong(self) -> bool:
        """Whether they differ."""
        return len({self.bulletin, self.receipts, self.tallies}) > 1


@contextmanager
def replicas(url: str, count: int) -> Iterator[list[PostgresLedger]]:
    """Several ledgers over one database."""
    opened: list[PostgresLedger] = []
    try:
        opened += [PostgresLedger.open(url) for _ in range(count)]
        yield opened
    finally:
        for ledger in opened:
            ledger.close()


def report_until_closed(ledger: PostgresLedger, id_: str, users: range, some: threading.Event) -> int:
    """Send group after group until one is late; how many reports were accepted."""
    accepted = 0
    for begin in range(0, len(users), GROUP):
        group = np.array(users[begin : begin + GROUP], np.uint64)
        verdicts = ledger.charge(id_, group, np.ones(len(group), np.uint32))
        accepted += int((verdicts == Verdict.ACCEPTED).sum())
        if (verdicts == Verdict.NOT_OPEN).any():
            break
        some.set()
    return accepted


def closings_under_load(url: str) -> list[Counts]:
    """Close every round while replicas report to it, and count its reports in three ways."""
    with replicas(url, REPLICAS + 1) as ledgers, ThreadPoolExecutor(REPLICAS) as pool:
        *reporting, closer = ledgers
        publish(closer, STUDY, *ROUNDS)
        closer.enrol(USERS, 100 * MICRO)
        receipts: dict[str, int] = {}
        for id_ in IDS:
            some = threading.Event()
            jobs = [
                pool.submit(report_until_closed, ledger, id_, range(number, USERS, REPLICAS), some)
                for number, ledger in enumerate(reporting)
            ]
            assert some.wait(SECONDS)
            Driver(closer, {}).close(id_)
            receipts[id_] = sum(job.result(SECONDS) for job in jobs)
        told = {
            entry.notice.round: entry.notice.received
            for entry in closer.entries(ID)
            if isinstance(entry.notice, RoundClosed)
        }
        assert closer.verify() == []
        return [Counts(told[id_], receipts[id_], closer.tallies(id_)[0].received) for id_ in IDS]


def test_what_the_bulletin_says_a_round_received_is_what_it_received(database: str) -> None:
    counts = closings_under_load(database)

    assert len(counts) == 44
    assert [each for each in counts if each.wrong] == []
    # There was load: reports were accepted, and some were late.
    assert all(0 < each.receipts < USERS for each in counts)


def test_a_count_that_is_read_before_the_closing_is_found_wrong(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control, as the driver did it: it asked how many there are, and then closed the round with that number."""

    def close(link: Any, id_: str, reason: CloseReason) -> Bulletin:
        received = postgres.count_reports(link, id_)
        closing = RoundClosed(round=id_, reason=reason, received=received)
        return postgres._append(link, ID, postgres.bulletin_of(link, ID).next(closing))

    monkeypatch.setattr(postgres, "_close", close)
    monkeypatch.setattr(postgres, "check_count", lambda *_: None)

    assert any(each.wrong for each in closings_under_load(database))


# ------------------------------------------------------------------------------------------- several who do the same


def race(url: str, clients: int, work: Callable[[Driver], object]) -> list[object]:
    """What each of several replicas got that did the same at the same time: a value, or an error."""
    ready = threading.Barrier(clients)

    def one(ledger: PostgresLedger) -> object:
        ready.wait(SECONDS)
        try:
            return work(Driver(ledger, {}))
        except Exception as error:
            return error

    with replicas(url, clients) as ledgers, ThreadPoolExecutor(clients) as pool:
        return list(pool.map(one, ledgers))


def test_of_replicas_that_close_a_round_at_once_one_does(database: str) -> None:
    with closing(PostgresLedger.open(database)) as ledger:
        publish(ledger, STUDY, *ROUNDS[:10])
        for id_ in IDS[:10]:
            told = race(database, 4, lambda driver, id_=id_: driver.close(id_))

            assert [type(each) for each in told if each is not None] == [NotOpenError] * 3
        closings = [entry.notice for entry in ledger.entries(ID) if isinstance(entry.notice, RoundClosed)]
        assert [notice.round for notice in closings] == IDS[:10]


def close_or_cancel(study_: str, rounds: Sequence[RoundSpec], turns: Iterator[int], driver: Driver) -> str:
    """Every other replica closes a round, the others cancel the study."""
    turn = next(turns)
    if turn % 2:
        driver.close(rounds[turn // 2].digest())
        return "closed"
    driver.cancel(study_)
    return "cancelled"


def test_of_replicas_that_cancel_a_study_at_once_one_does(database: str) -> None:
    """Also where others close its rounds at the same time: no cancelling is lost to an entry that came between."""
    for number in range(5):
        spec = study(nonce=f"{number:032x}")
        rounds = [round_of(part(), of=spec, number=at) for at in (1, 2, 3)]
        with closing(PostgresLedger.open(database)) as ledger:
            publish(ledger, spec, *rounds)

        told = race(database, 6, partial(close_or_cancel, spec.digest(), rounds, count()))
        assert told.count("cancelled") == 1
        assert all(isinstance(each, NotOpenError | StudyOverError) for each in told if not isinstance(each, str))
        with closing(PostgresLedger.open(database)) as ledger:
            assert ledger.bulletin(spec.digest()).state.value == "cancelled"
            assert ledger.verify() == []
