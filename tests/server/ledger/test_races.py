"""Many clients at once over PostgreSQL: no cap exceeded, no report tallied twice, nothing accepted after a closing.

Each harness runs over a twin with the fault in it, too, and finds it there.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import numpy as np
import psycopg
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import Bulletin, Cohort, RoundPublished, StudyPublished
from askance_server.ledger.base import (
    Ledger,
    OutcomeColumn,
    StaleEpochError,
    Ticket,
    TicketUsedError,
    Users,
    Verdict,
    Verdicts,
)
from askance_server.ledger.postgres import PostgresLedger
from askance_server.ledger.postgres import ledger as postgres
from tests.harness.marks import SECONDS
from tests.protocol.studies import part, round_of, study
from tests.server.ledger.ledgers import Charging, judge, orders_for, publish, storm, storm_in_processes

pytest_plugins = ("tests.server.ledger.ledgers",)

STUDY = study(cap=100 * MICRO)
ROUNDS = [round_of(part(), of=STUDY, number=number, cohort=Cohort(users=10_000)) for number in range(1, 41)]
IDS = [round_.digest() for round_ in ROUNDS]
CAPPED, USERS = 8, 2000
CAPS = [5 * MICRO] * CAPPED + [3 * MICRO] * (USERS - CAPPED)


def prepare(url: str) -> None:
    """Forty open rounds, and users who cannot pay for all of them."""
    with closing(PostgresLedger.open(url)) as ledger:
        publish(ledger, STUDY, *ROUNDS)
        ledger.enrol(CAPPED, 5 * MICRO)
        ledger.enrol(USERS - CAPPED, 3 * MICRO)


@contextmanager
def charging(url: str) -> Iterator[Charging]:
    with closing(PostgresLedger.open(url)) as ledger:
        yield ledger.charge


# ------------------------------------------------------------------------------------------------------------ budgets


@pytest.mark.slow
def test_sixty_four_clients_in_three_processes_overspend_nothing_and_tally_nothing_twice(database: str) -> None:
    prepare(database)
    orders = orders_for(IDS, CAPPED, USERS, clients=64, each=320, seed=1)

    answers = storm_in_processes(partial(charging, database), orders)

    found = judge(orders, answers, MICRO, CAPS)
    assert found.operations >= 20_000
    assert (found.overspent, found.twice, found.contradicted) == (0, 0, 0)
    assert {verdict for *_, verdict in answers} == {
        Verdict.ACCEPTED,
        Verdict.REPEATED,
        Verdict.CONFLICT,
        Verdict.OVER_BUDGET,
    }
    with closing(PostgresLedger.open(database)) as ledger:
        assert ledger.verify() == []
        for id_ in IDS:
            (tally,) = ledger.tallies(id_)
            acknowledged = [outcome for round_, _, outcome, verdict in answers if (round_, verdict) == (id_, 0)]
            assert np.bincount(acknowledged, minlength=2).tolist() == tally.counts[0].tolist()
            assert ledger.received(id_) == len(acknowledged)
        for user in range(CAPPED):
            assert ledger.standing(user).account.remaining == 0


@contextmanager
def summing(url: str) -> Iterator[Charging]:
    """The control: adds up what a user has spent, and inserts, in one transaction, where another can come between."""
    with psycopg.connect(url, autocommit=True) as link:

        def one(round_: str, user: int, outcome: int) -> Verdict:
            query = "SELECT coalesce(sum(cost), 0)::bigint FROM control WHERE user_number = %s"
            ((spent,),) = link.execute(query, (user,)).fetchall()
            if spent + MICRO > CAPS[user]:
                return Verdict.OVER_BUDGET
            insert = "INSERT INTO control VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
            stored = link.execute(insert, (round_, user, outcome, MICRO)).rowcount
            return Verdict.ACCEPTED if stored else Verdict.CONFLICT

        def charge(round_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
            with link.transaction():
                several = sorted(zip(users.tolist(), outcomes.tolist(), range(len(users)), strict=True))
                decided = {place: one(round_, user, outcome) for user, outcome, place in several}
            return np.array([decided[place] for place in range(len(users))], np.uint8)

        yield charge


def test_the_same_storm_overspends_where_the_budget_is_a_sum_that_is_read_first(database: str) -> None:
    with psycopg.connect(database) as link:
        link.execute(
            "CREATE TABLE control (round text, user_number bigint, outcome bigint, cost bigint,"
            " PRIMARY KEY (user_number, round))"
        )
    orders = orders_for(IDS, CAPPED, USERS, clients=64, each=64, seed=1)

    found = judge(orders, storm_in_processes(partial(summing, database), orders), MICRO, CAPS)

    assert found.overspent > 0


# ------------------------------------------------------------------------------------------------------------ closing


def late_reports(url: str) -> tuple[int, int]:
    """Close rounds while clients report to them: how many were accepted in all, and how many after their closing."""
    prepare(url)
    first = 0
    total = late = 0
    with closing(PostgresLedger.open(url)) as ledger:
        for id_ in IDS[:6]:
            tell = threading.Event()
            orders = [range(first + client, USERS, 8) for client in range(8)]
            with ThreadPoolExecutor(8) as pool:
                clients = [pool.submit(report_until, url, id_, mine, tell) for mine in orders]
                while ledger.received(id_) < 20:
                    time.sleep(0.001)
                ledger.close_round(id_, "operator")
                at_closing = ledger.received(id_)
                time.sleep(0.05)
                tell.set()
                accepted = sum(client.result() for client in clients)
            (tally,) = ledger.tallies(id_)
            assert accepted == tally.received == ledger.received(id_)
            total += accepted
            late += accepted - at_closing
    return total, late


def report_until(url: str, id_: str, users: range, told: threading.Event) -> int:
    """Report for one user after the other; how many were accepted."""
    accepted = 0
    with charging(url) as charge:
        for user in users:
            if told.is_set():
                break
            verdict = charge(id_, np.array([user], np.uint64), np.array([1], np.uint32))[0]
            accepted += int(verdict == Verdict.ACCEPTED)
    return accepted


def slowly(monkeypatch: pytest.MonkeyPatch, *, locked: bool) -> None:
    """Take some time between deciding and storing; if so told, leave out the round's lock."""
    ask: Callable[..., Any] = vars(postgres)["ask"]  # As this module has it, which defines it elsewhere.

    def slow(link: Any, query: Any, parameters: tuple[Any, ...] = ()) -> Any:
        if "given" in query:
            time.sleep(0.003)
        if "xact_lock_shared" in query and not locked:
            return ask(link, "SELECT 1")
        return ask(link, query, parameters)

    monkeypatch.setattr(postgres, "ask", slow)


def test_nothing_is_accepted_after_a_closing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slowly(monkeypatch, locked=True)

    total, late = late_reports(database)

    assert total >= 120
    assert late == 0


def test_without_the_rounds_lock_some_are_accepted_after_a_closing(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slowly(monkeypatch, locked=False)
    # It would find that, too: what it counts after the closing is more than what it has counted before.
    monkeypatch.setattr(postgres, "check_count", lambda *_: None)

    _, late = late_reports(database)

    assert late > 0


# ------------------------------------------------------------------------------------------- everything else at once


def at_once(url: str, clients: int, work: Callable[[PostgresLedger, int], Any]) -> list[Any]:
    """Open this many ledgers over one database at once, and do this with each."""
    ready = threading.Barrier(clients)

    def client(number: int) -> Any:
        ready.wait(SECONDS)
        with closing(PostgresLedger.open(url)) as ledger:
            return work(ledger, number)

    with ThreadPoolExecutor(clients) as pool:
        return list(pool.map(client, range(clients)))


def test_replicas_that_enrol_at_once_give_consecutive_numbers_and_none_twice(database: str) -> None:
    given = at_once(database, 8, lambda ledger, _: [ledger.enrol(count, MICRO) for count in range(1, 11)])

    numbers = sorted(number for runs in given for run in runs for number in run)
    assert numbers == list(range(8 * 55))


TICKET = Ticket("0f" * 16, 20)


def come_in(ledger: Ledger, count: int, ticket: Ticket) -> int:
    """How many a ticket has let in, if so many came at once."""
    try:
        return len(ledger.enrol(count, MICRO, ticket=ticket))
    except TicketUsedError:
        return 0


def test_replicas_together_let_in_what_a_ticket_admits(database: str) -> None:
    let_in = at_once(database, 8, lambda ledger, _: sum(come_in(ledger, count, TICKET) for count in (3, 2, 1, 1)))

    with closing(PostgresLedger.open(database)) as ledger:
        assert ledger.enrolled() == sum(let_in) == ledger.let_in(TICKET.id) == TICKET.users
        assert ledger.verify() == []


def test_the_same_replicas_let_more_in_where_the_use_is_read_and_written_apart(database: str) -> None:
    """The control: the count is looked at, and kept with the users, but nobody holds the others off meanwhile."""
    meet = threading.Barrier(8)

    def work(ledger: PostgresLedger, _: int) -> int:
        before = ledger.let_in(TICKET.id)
        meet.wait(SECONDS)
        return len(ledger.enrol(TICKET.used(before, 15), MICRO))

    assert sum(at_once(database, 8, work)) > TICKET.users


@pytest.mark.parametrize("keyed", [True, False], ids=["one key", "control"])
def test_of_replicas_that_enrol_with_one_key_at_once_one_does(database: str, keyed: bool) -> None:
    """The others are told of its users. The control: each has a key of its own."""
    given = at_once(
        database, 8, lambda ledger, client: ledger.enrol(3, MICRO, key="c0" * 16 if keyed else f"{client:032x}")
    )

    with closing(PostgresLedger.open(database)) as ledger:
        assert len(set(given)) == (1 if keyed else 8)
        assert ledger.enrolled() == 3 * len(set(given))
        assert ledger.verify() == []


def renewals(database: str, shown: Callable[[PostgresLedger], int | None]) -> list[bool]:
    """Eight replicas renew the token of one user at once, by what each was shown; who succeeds."""
    with closing(PostgresLedger.open(database)) as ledger:
        ledger.enrol(1, MICRO)
    meet = threading.Barrier(8)

    def work(ledger: PostgresLedger, _: int) -> bool:
        epoch = shown(ledger)
        meet.wait(SECONDS)
        try:
            ledger.revoke(0, epoch)
        except StaleEpochError:
            return False
        return True

    return at_once(database, 8, work)


def test_of_replicas_that_renew_by_one_token_one_succeeds(database: str) -> None:
    assert sum(renewals(database, lambda ledger: ledger.epoch(0))) == 1


def test_all_of_them_succeed_where_the_token_is_compared_before(database: str) -> None:
    """The control: each has seen that the token is valid, and renews without comparing again."""
    assert sum(renewals(database, lambda ledger: None if ledger.epoch(0) == 0 else 0)) == 8


def try_to_append(url: str, entries: list[Any]) -> list[bool]:
    def work(ledger: PostgresLedger, number: int) -> bool:
        try:
            ledger.append(STUDY.digest(), entries[number])
        except ProtocolError:
            return False
        return True

    return at_once(url, len(entries), work)


def test_of_replicas_that_append_the_same_place_one_wins(database: str) -> None:
    created = Bulletin().next(StudyPublished(study=STUDY))
    assert sum(try_to_append(database, [created] * 8)) == 1

    different = [round_of(part(), of=STUDY, deadline=deadline) for deadline in range(8)]
    bulletin = Bulletin().append(created)
    won = try_to_append(database, [bulletin.next(RoundPublished(round=round_)) for round_ in different])

    assert sum(won) == 1
    with closing(PostgresLedger.open(database)) as ledger:
        assert ledger.bulletin(STUDY.digest()).rounds[0][0] == different[won.index(True)].digest()
        assert ledger.verify() == []


def test_replicas_that_start_at_once_on_an_empty_database_create_its_tables_once(empty_database: str) -> None:
    assert at_once(empty_database, 8, lambda ledger, _: ledger.enrolled()) == [0] * 8


def test_a_storm_through_one_lock_is_judged_alike() -> None:
    """The harness with any `charge`: here a dictionary that accepts whatever is new."""
    lock, log = threading.Lock(), {}

    def charge(round_: str, users: Users, outcomes: OutcomeColumn) -> Verdicts:
        with lock:
            return np.array(
                [
                    Verdict.ACCEPTED
                    if (before := log.setdefault((round_, user), (outcome, object()))) and before[0] == outcome
                    else Verdict.CONFLICT
                    for user, outcome in zip(users.tolist(), outcomes.tolist(), strict=True)
                ],
                np.uint8,
            )

    @contextmanager
    def opening() -> Iterator[Charging]:
        yield charge

    orders = orders_for(IDS, CAPPED, USERS, clients=16, each=40, seed=2)
    found = judge(orders, storm(opening, orders), MICRO, CAPS)

    # It has no budget and accepts retries again: both are found, and nothing else.
    assert found.overspent > 0
    assert found.twice > 0
    assert found.contradicted == 0
