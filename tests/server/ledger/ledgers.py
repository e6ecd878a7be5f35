"""What tests of ledgers share: every keeper by one fixture, and a storm of clients.

A module that uses the fixtures says `pytest_plugins = ("tests.server.ledger.ledgers",)`. It may import from here as
well, which is why pytest is told PYTEST_DONT_REWRITE: it would warn that it comes too late; there are no assertions to
rewrite.
"""

from __future__ import annotations

import multiprocessing
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from askance_protocol.rounds import Bulletin, RoundPublished, RoundSpec, StudyPublished, StudySpec
from askance_server.ledger.base import Ledger, OutcomeColumn, Users, Verdict, Verdicts
from tests.harness.marks import SECONDS

pytest_plugins = ("tests.harness.postgres",)

# ------------------------------------------------------------------------------------------------------- the keepers


class Keeper(ABC):
    """A ledger, and what a test does to it from outside."""

    def __init__(self) -> None:
        self.ledger = self.open()

    @abstractmethod
    def open(self) -> Ledger:
        """Open what is kept."""

    @abstractmethod
    def plant_overspend(self, user: int) -> None:
        """Behind the ledger's back, let this user, who has spent her whole cap, have spent more."""

    def reopen(self) -> Ledger:
        """Close, and open again."""
        self.ledger.close()
        self.ledger = self.open()
        return self.ledger


class SqliteKeeper(Keeper):
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        super().__init__()

    def open(self) -> Ledger:
        from askance_server.ledger.sqlite import SqliteLedger

        return SqliteLedger.open(self.directory)

    def plant_overspend(self, user: int) -> None:
        """One more report of hers in the log, to a round that she has not answered."""
        from askance_server.ledger.sqlite.log import append_group

        ledger: Any = self.ledger
        answered = {charge.round for charge in ledger.standing(user).charges}
        number = next(number for id_, number in ledger._numbers.items() if id_ not in answered)
        with ledger._commit() as db:
            append_group(db, number, np.array([user], np.uint64), np.array([0], np.uint32))


class PostgresKeeper(Keeper):
    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__()

    def open(self) -> Ledger:
        from askance_server.ledger.postgres import PostgresLedger

        return PostgresLedger.open(self.url)

    def plant_overspend(self, user: int) -> None:
        """The database itself would refuse it, so that has to go first."""
        with psycopg.connect(self.url) as link:
            link.execute("ALTER TABLE users DROP CONSTRAINT spent_within_cap")
            link.execute("UPDATE users SET spent = cap + 1 WHERE number = %s", (user,))


KEEPERS: dict[str, Callable[[pytest.FixtureRequest], Keeper]] = {
    "sqlite": lambda request: SqliteKeeper(request.getfixturevalue("tmp_path") / "data"),
    "postgres": lambda request: PostgresKeeper(request.getfixturevalue("database")),
}
"""How a test gets each keeper, empty. Another one is a class and a line here."""


@pytest.fixture(params=KEEPERS)
def keeper(request: pytest.FixtureRequest) -> Iterator[Keeper]:
    """Each of the keepers, empty."""
    kept = KEEPERS[request.param](request)
    yield kept
    kept.ledger.close()


@pytest.fixture
def ledger(keeper: Keeper) -> Ledger:
    """The ledger of a keeper, where a test does not open it again."""
    return keeper.ledger


def publish(ledger: Ledger, study: StudySpec, *rounds: RoundSpec) -> Bulletin:
    """A study and some rounds of it, on its bulletin."""
    bulletin = ledger.append(study.digest(), Bulletin().next(StudyPublished(study=study)))
    for round_ in rounds:
        bulletin = ledger.append(study.digest(), bulletin.next(RoundPublished(round=round_)))
    return bulletin


def first_reports(ledger: Ledger, id_: str, count: int) -> tuple[Users, OutcomeColumn]:
    """The first reports of a live round that has few, in the order of acceptance."""
    users, outcomes, _ = ledger.reports_behind(id_)
    return users[:count], outcomes[:count]


# ------------------------------------------------------------------------------------------------- a storm of clients

Charging = Callable[[str, Users, OutcomeColumn], Verdicts]
"""`Ledger.charge`, or whatever stands before it and may be called by many at once."""

Opening = Callable[[], AbstractContextManager[Charging]]
"""How a client gets its `Charging`. It has to pickle where the storm runs in several processes."""

Answer = tuple[str, int, int, Verdict]
"""Round, user, outcome, and what became of it."""


@dataclass(frozen=True, slots=True)
class Order:
    """One group that a client sends."""

    round: str
    users: tuple[int, ...]
    outcomes: tuple[int, ...]


def orders_for(rounds: Sequence[str], capped: int, users: int, clients: int, each: int, seed: int) -> list[list[Order]]:
    """What each client sends: users 0 .. capped − 1 are fought for, and some reports are sent by all."""
    rng = np.random.default_rng(seed)
    orders: list[list[Order]] = [[] for _ in range(clients)]
    for step in range(each):
        shared = Order(rounds[step % len(rounds)], (capped + step % (users - capped),), (0,))
        for client, mine in enumerate(orders):
            round_ = rounds[int(rng.integers(len(rounds)))]
            match step % 4:
                case 0 if client % 8:
                    mine.append(shared)  # The same report from seven in eight …
                case 0:
                    mine.append(Order(shared.round, shared.users, (1,)))  # … and a conflicting one from the others.
                case 3:
                    several = rng.choice(users, 8, replace=False)
                    mine.append(Order(round_, tuple(several.tolist()), tuple(rng.integers(0, 2, 8).tolist())))
                case _:
                    mine.append(Order(round_, (int(rng.integers(capped)),), (int(rng.integers(2)),)))
    return orders


def storm(opening: Opening, orders: Sequence[Sequence[Order]]) -> list[Answer]:
    """All clients at once, each a thread that sends its orders one after the other."""
    ready = threading.Barrier(len(orders))

    def client(mine: Sequence[Order]) -> list[Answer]:
        answers: list[Answer] = []
        with opening() as charge:
            ready.wait(SECONDS)
            for order in mine:
                verdicts = charge(order.round, np.array(order.users, np.uint64), np.array(order.outcomes, np.uint32))
                told = zip(order.users, order.outcomes, verdicts.tolist(), strict=True)
                answers += [(order.round, user, outcome, Verdict(verdict)) for user, outcome, verdict in told]
        return answers

    with ThreadPoolExecutor(len(orders)) as pool:
        return [answer for answers in pool.map(client, orders) for answer in answers]


def storm_in_processes(opening: Opening, orders: Sequence[Sequence[Order]], processes: int = 3) -> list[Answer]:
    """The same, the clients shared out to several processes."""
    context = multiprocessing.get_context("spawn")
    shares = [orders[number::processes] for number in range(processes)]
    meeting = context.Barrier(processes)
    with ProcessPoolExecutor(processes, context, initializer=meeting.wait, initargs=(SECONDS,)) as pool:
        running = [pool.submit(storm, opening, share) for share in shares]
        return [answer for one in running for answer in one.result()]


@dataclass(frozen=True, slots=True)
class Findings:
    """What a storm brought to light. `overspent`, `twice` and `contradicted` are to be zero."""

    operations: int
    accepted: Counter[str]
    """How many reports of each round."""
    overspent: int
    """Users whose accepted reports cost more than their cap."""
    twice: int
    """Reports that were accepted although one of the same user and round was."""
    contradicted: int
    """Receipts for another report than was accepted, and conflicts with none."""


def judge(orders: Sequence[Sequence[Order]], answers: Sequence[Answer], charge: int, caps: Sequence[int]) -> Findings:
    """From what clients were told alone."""
    accepted = [(round_, user, outcome) for round_, user, outcome, verdict in answers if verdict is Verdict.ACCEPTED]
    spent = Counter(user for _, user, _ in accepted)
    stored = {(round_, user): outcome for round_, user, outcome in accepted}
    contradicted = 0
    for round_, user, outcome, verdict in answers:
        known = stored.get((round_, user))
        contradicted += verdict is Verdict.REPEATED and known != outcome
        contradicted += verdict is Verdict.CONFLICT and known in {None, outcome}
    return Findings(
        sum(map(len, orders)),
        Counter(round_ for round_, _, _ in accepted),
        sum(times * charge > caps[user] for user, times in spent.items()),
        len(accepted) - len(stored),
        contradicted,
    )


def storm_of_groups(
    ledgers: Sequence[Ledger], groups: Sequence[tuple[str, tuple[int, ...]]], look: Callable[[Ledger], None]
) -> None:
    """Each ledger charges its share of the groups in a thread of its own, and looks after each."""
    ready = threading.Barrier(len(ledgers))

    def client(number: int) -> None:
        ready.wait(SECONDS)
        for round_, users in groups[number :: len(ledgers)]:
            ledgers[number].charge(round_, np.array(users, np.uint64), np.array(users, np.uint32) % np.uint32(2))
            look(ledgers[number])

    with ThreadPoolExecutor(len(ledgers)) as pool:
        for done in [pool.submit(client, number) for number in range(len(ledgers))]:
            done.result()
